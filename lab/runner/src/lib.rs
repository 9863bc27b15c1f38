//! Runs programs for those that judge wakepath (`truth`) and measure it (`bench`). It shares no code with the product.

#![forbid(unsafe_code)]

mod command;
mod load;
mod quantile;

pub use command::{Running, command_line, document, ended, printed, stdout_of};
pub use load::{LOAD_CPU, Run, alone};
pub use quantile::{median, quantile};

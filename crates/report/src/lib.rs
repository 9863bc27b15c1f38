//! Plain views of answers: text, JSON, Perfetto, Parquet. Alone serialises results; never prints.

mod calls;
mod cause_tree;
mod escape;
pub mod json;
mod merged_tree;
pub mod parquet;
mod perfetto;
mod places;
pub mod problem;
mod rows;
#[cfg(test)]
mod sample;
mod screen;
#[cfg(test)]
mod sentences;
pub mod text;
mod units;
mod wording;

pub use escape::escape;
pub use perfetto::perfetto;
pub use screen::{Layout, Screen};

//! Finding functions in programs that are compiled for the purpose.

mod lookup;
mod programs;

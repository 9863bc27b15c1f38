//! Plain views of answers: text, JSON, Perfetto, Parquet. Alone serialises results; never prints.

mod calls;
mod cause_tree;
pub mod json;
mod merged_tree;
pub mod parquet;
mod perfetto;
mod places;
mod plain;
pub mod problem;
mod quantity;
mod rows;
#[cfg(test)]
mod sample;
mod screen;
#[cfg(test)]
mod sentences;
pub mod text;
mod wording;

pub use perfetto::perfetto;
pub use plain::escape;
pub use screen::{Paper, Screen};

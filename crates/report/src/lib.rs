//! Plain views of answers: text, JSON, Perfetto, Parquet. Alone serialises results; never prints.

pub mod json;
pub mod parquet;
mod perfetto;
mod plain;
pub mod problem;
mod quantity;
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

//! Plain views of answers: text, JSON, Perfetto, OTLP, Parquet. Alone serialises results; never prints.

mod escape;
pub mod json;
pub mod otlp;
pub mod parquet;
mod perfetto;
pub mod problem;
#[cfg(test)]
mod sample;
mod screen;
#[cfg(test)]
mod sentences;
pub mod text;
mod units;
mod wording;

pub use escape::escape;
pub use perfetto::{perfetto, perfetto_requests};
pub use screen::{Layout, Screen};

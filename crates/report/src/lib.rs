//! Plain views: text, JSON, Perfetto, OTLP, Parquet. Only this crate serialises results; it never prints.

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

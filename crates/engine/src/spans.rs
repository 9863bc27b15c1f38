//! The spans that applications sent while a recording was made, as counts. `live` receives them.

use std::net::SocketAddr;

/// The variable that sends the spans of a program to a receiver.
pub const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The spans that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedSpans {
    /// The counts.
    pub received: Received,
    /// The URL by which programs on this host reached the receiver.
    pub endpoint: String,
    /// Whether the command got this URL in its environment.
    pub given: bool,
}

/// The spans and requests that a receiver got.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// Where it listened.
    pub addresses: Vec<SocketAddr>,
    /// Spans that were written.
    pub spans: u64,
    /// The number of their services.
    pub services: usize,
    /// There may be more: no others were counted.
    pub or_more_services: bool,
    /// Spans that were refused since their ids are not valid.
    pub invalid: u64,
    /// Requests with spans that were refused: not readable as such.
    pub malformed: u64,
    /// Requests that were refused: larger than the largest.
    pub too_large: u64,
    /// Requests that were refused since too much waited already; clients send them again.
    pub busy: u64,
    /// Requests that took too long to come.
    pub slow: u64,
    /// Connections that were closed at once, since there were too many.
    pub connections_refused: u64,
    /// The largest number of connections at once.
    pub max_connections: usize,
    /// Spans that were accepted and could not be written.
    pub unwritten: u64,
    /// Why they could not.
    pub why_unwritten: Option<String>,
    /// Requests with metrics or logs that were dropped.
    pub dropped: u64,
    /// The requests that were sent on, where that was asked for.
    pub forwarded: Option<Forwarded>,
}

/// The requests that were sent on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forwarded {
    /// Where they were sent.
    pub url: String,
    /// Requests that got an answer.
    pub answered: u64,
    /// Those of them whose answer was an error.
    pub refused: u64,
    /// Requests that got none.
    pub failed: u64,
    /// Why the last of these got none.
    pub why_failed: Option<String>,
}

//! The spans received from applications during a recording, as counts. `live` receives them.

use std::net::SocketAddr;

/// The variable that sends a program's spans to a receiver.
pub const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The received spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedSpans {
    /// The counts.
    pub received: Received,
    /// The URL at which programs on this host reached the receiver.
    pub endpoint: String,
    /// Whether the command got this URL in its environment.
    pub given: bool,
}

/// A receiver's spans and requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// The addresses at which it listened.
    pub addresses: Vec<SocketAddr>,
    /// Written spans.
    pub spans: u64,
    /// The number of their services.
    pub services: usize,
    /// There may be more: no others were counted.
    pub or_more_services: bool,
    /// Spans refused for invalid ids.
    pub invalid: u64,
    /// Refused requests: undecodable, or cut off.
    pub malformed: u64,
    /// Refused requests above the largest size.
    pub too_large: u64,
    /// Requests refused because too much was waiting already; clients send them again.
    pub busy: u64,
    /// Requests that took too long to arrive.
    pub slow: u64,
    /// Connections closed at once, because too many were open.
    pub connections_refused: u64,
    /// The most connections at once.
    pub max_connections: usize,
    /// Valid spans that could not be written.
    pub unwritten: u64,
    /// The reason why they could not be written.
    pub why_unwritten: Option<String>,
    /// Dropped requests with metrics, logs or profiles.
    pub dropped: u64,
    /// The forwarded requests, if forwarding is on.
    pub forwarded: Option<Forwarded>,
}

/// The forwarded requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forwarded {
    /// The backend's URL.
    pub url: String,
    /// Requests with an answer.
    pub answered: u64,
    /// Requests whose answer was an error, among the answered.
    pub refused: u64,
    /// Requests without an answer.
    pub failed: u64,
    /// The reason for the last failure.
    pub why_failed: Option<String>,
}

//! An OTLP receiver: spans arrive over the network, and their permitted part is passed to a writer. [`send`] sends
//! wakepath's own spans.
//!
//! The receiver serves gRPC, HTTP with protobuf and HTTP with JSON on each port, and can forward all requests, unchanged.
//! `hyper` and `tonic` implement the protocols; this crate bounds their memory, connections and time, and decides which
//! parts of a message are kept ([`KEPT_ATTRIBUTES`]). It knows no recording.
//!
//! ```text
//! connection ─► service ─► body (bounded) ─► filter ─► queue (bounded) ─► writer's thread
//!                  └─────────────────────► forward ─► the backend's answer
//! ```

mod address;
mod allow;
mod answer;
mod body;
mod connection;
mod counts;
mod filter;
mod forward;
mod grpc;
mod json;
mod message;
mod priority;
mod queue;
mod receiver;
mod room;
mod send;
mod service;
mod wire;

pub use address::{ListenAt, STANDARD_PORTS};
pub use allow::{KEPT_ATTRIBUTES, is_kept};
pub use connection::MAX_CONNECTIONS;
pub use counts::{Forwarded, MAX_SERVICES, Received};
pub use filter::Kept;
pub use forward::ForwardUrl;
pub use message::MAX_MESSAGE_BYTES;
pub use message::{Form, NoMessage};
pub use queue::Sink;
pub use receiver::{Options, Receiver, ReceiverError, Running};
pub use send::send;
pub use wire::Malformed;

/// Keeps the parts of a message with spans that [`KEPT_ATTRIBUTES`] and `more` allow, as a receiver does with each message.
///
/// # Errors
/// When the bytes are no such message.
pub fn keep(message: &[u8], more: &[String]) -> Result<Kept, Malformed> {
    filter::filter(message, &allow::AllowList::with(more))
}

/// Keeps the parts of an HTTP request's body that [`KEPT_ATTRIBUTES`] and `more` allow, as a receiver does with each body.
///
/// # Errors
/// When the body has no message with spans.
pub fn keep_body(body: &[u8], form: Form, more: &[String]) -> Result<Kept, NoMessage> {
    let message = message::message(body, form)?;
    keep(&message, more).map_err(|error| NoMessage::Malformed(error.to_string()))
}

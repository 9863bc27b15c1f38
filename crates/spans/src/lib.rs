//! Spans from distributed tracing, and their requests.
//!
//! [`read`] takes span files: OTLP as protobuf and as JSON, and JSON by Tempo, Jaeger and Zipkin. A [`Request`] is a service's local root span with
//! the spans below it; [`requests`] finds them, and their tree. [`span_path`] is the chain of spans that a request's end waited for, by their
//! times alone. [`Work`] is each thread's span by the spans themselves, [`ContextWork`] by the thread's context, and [`Turns`] are the
//! turns in which a thread worked for a span, where its program noted them.
//!
//! This crate knows no recording and opens no file. Names are untrusted bytes.

mod by_id;
mod context;
mod id;
mod path;
mod process;
mod read;
mod ready;
mod request;
mod span;
#[cfg(test)]
mod testing;
mod turns;
mod work;

pub use by_id::ById;
pub use context::{ContextPiece, ContextWork, Hold, Named, Said, WorksFor};
pub use id::{SpanId, TraceId};
pub use path::{SpanSegment, span_path};
pub use process::{descends_from, service_processes};
pub use read::{Dropped, EXPLAINS, ReadError, Reader, read};
pub use ready::Ready;
pub use request::{ParentOfRequest, Request, RequestIndex, Requests, requests};
pub use span::{Kind, Language, Operation, OperationIndex, Service, ServiceIndex, Span, SpanIndex, Spans};
pub use turns::{NotedTurns, Turn, Turns, TurnsOfSpan};
pub use work::{Open, Stint, Work};

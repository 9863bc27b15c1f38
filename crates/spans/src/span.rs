//! Spans, and the services and operations that they name.

use wakepath_clock::{Stamp, Wall};

use crate::{NotedTurns, SpanId, TraceId};

/// A span's index in [`Spans::spans`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanIndex(pub u32);

/// A service's index in [`Spans::services`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceIndex(pub u32);

/// An operation's index in [`Spans::operations`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationIndex(pub u32);

/// A process of a service, as its spans describe it: OpenTelemetry's resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Service {
    /// `service.name`; empty if missing.
    pub name: Box<str>,
    /// `service.instance.id`, if present.
    pub instance: Option<Box<str>>,
    /// `process.pid` (in Jaeger's JSON also `pid`), if present: the process's number in its own PID namespace.
    pub pid: Option<u32>,
    /// `host.name` (in Jaeger's JSON also `hostname`), if present.
    pub host: Option<Box<str>>,
    /// Its language, if present and known.
    pub language: Option<Language>,
    /// The index of the recording that received the spans, if several are read: two hosts may have services with the same name.
    pub recording: Option<u16>,
}

/// A program's language: OpenTelemetry's `telemetry.sdk.language`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// C and C++.
    Cpp,
    /// Go: no thread works for a request, but goroutines.
    Go,
    /// Java, and other languages of its virtual machine.
    Java,
    /// JavaScript in Node.
    Node,
    /// Python.
    Python,
    /// Rust.
    Rust,
}

impl Language {
    /// The language with this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cpp" => Self::Cpp,
            "go" => Self::Go,
            "java" => Self::Java,
            "nodejs" => Self::Node,
            "python" => Self::Python,
            "rust" => Self::Rust,
            _ => return None,
        })
    }
}

/// A service's spans with the same name, which can be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation {
    /// The service name.
    pub service: Box<str>,
    /// The span name.
    pub name: Box<str>,
}

/// The span's side of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Not specified.
    #[default]
    Unspecified,
    /// Work within a service.
    Internal,
    /// A call that the service answers.
    Server,
    /// A call to another service.
    Client,
    /// Sending a message.
    Producer,
    /// Work on a received message.
    Consumer,
}

/// A span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace.
    pub trace: TraceId,
    /// The identity in the trace.
    pub id: SpanId,
    /// The parent span, which may be missing.
    pub parent: Option<SpanId>,
    /// The process that made the span.
    pub service: ServiceIndex,
    /// The names of the span and its service.
    pub operation: OperationIndex,
    /// The side of a call.
    pub kind: Kind,
    /// The beginning, by the process's clock.
    pub from: Stamp<Wall>,
    /// The end, by the process's clock; never before the beginning.
    pub to: Stamp<Wall>,
    /// Whether the status is an error.
    pub failed: bool,
    /// The OS thread in which the span began, as its own PID namespace numbers it, if a plug-in noted it.
    pub tid: Option<u32>,
    /// The port of the client whose call the span answers, if the program noted it.
    pub peer_port: Option<u16>,
    /// The time, by the process's clock, at which the span's work was queued for another thread to take up, if the program noted
    /// it.
    pub queued: Option<Stamp<Wall>>,
    /// The turns in which the span's thread worked for it, if the program noted them.
    pub turns: Option<Box<NotedTurns<Wall>>>,
}

impl Span {
    /// The length, ns.
    pub const fn length_ns(&self) -> u64 {
        self.to.since(self.from)
    }
}

/// Spans, and the names in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spans {
    /// The spans by their beginning, each (trace, id) once per service.
    pub spans: Vec<Span>,
    /// The processes that made the spans.
    pub services: Vec<Service>,
    /// The spans' operations.
    pub operations: Vec<Operation>,
    /// The unit of the times, ns: 1000 if some were written in µs. A time may be too early by this unit.
    pub resolution_ns: u64,
}

impl Spans {
    /// A span.
    pub fn span(&self, index: SpanIndex) -> &Span {
        &self.spans[index.0 as usize]
    }

    /// The process that made a span.
    pub fn service(&self, index: SpanIndex) -> &Service {
        &self.services[self.span(index).service.0 as usize]
    }

    /// A span's operation.
    pub fn operation(&self, index: SpanIndex) -> &Operation {
        &self.operations[self.span(index).operation.0 as usize]
    }

    /// All spans, with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (SpanIndex, &Span)> {
        (0..).map(SpanIndex).zip(&self.spans)
    }
}

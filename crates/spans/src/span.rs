//! Spans, and the services and operations that they name.

use wakepath_clock::{Stamp, Wall};

use crate::{NotedTurns, SpanId, TraceId};

/// The place of a span in [`Spans::spans`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanIndex(pub u32);

/// The place of a service in [`Spans::services`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceIndex(pub u32);

/// The place of an operation in [`Spans::operations`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationIndex(pub u32);

/// A process of a service, as its spans describe it: OpenTelemetry's resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Service {
    /// `service.name`; empty where the spans have none.
    pub name: Box<str>,
    /// `service.instance.id`, where there is one.
    pub instance: Option<Box<str>>,
    /// `process.pid`, where there is one: the process's number in its own PID namespace.
    pub pid: Option<u32>,
    /// `host.name`, where there is one.
    pub host: Option<Box<str>>,
    /// The recording that received its spans, by its place, where several are read: hosts may have services of one name.
    pub recording: Option<u16>,
}

/// The kind of work that a service does under one name: the spans of one operation can be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation {
    /// The name of the service.
    pub service: Box<str>,
    /// The name of the span.
    pub name: Box<str>,
}

/// The side of a call that a span describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Not said.
    #[default]
    Unspecified,
    /// Work within a service.
    Internal,
    /// A call that a service answers.
    Server,
    /// A call of another service.
    Client,
    /// The sending of a message.
    Producer,
    /// The work on a message.
    Consumer,
}

/// One span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace: TraceId,
    /// Its identity in that trace.
    pub id: SpanId,
    /// The span that it is a part of, which may not be among the spans.
    pub parent: Option<SpanId>,
    /// The process that made it.
    pub service: ServiceIndex,
    /// Its name, and that of its service.
    pub operation: OperationIndex,
    /// The side of a call that it describes.
    pub kind: Kind,
    /// Its beginning, by its process's clock.
    pub from: Stamp<Wall>,
    /// Its end, by its process's clock; never before its beginning.
    pub to: Stamp<Wall>,
    /// Its status is an error.
    pub failed: bool,
    /// The OS thread in which it began, as the thread's own PID namespace numbers it; where a plug-in noted it.
    pub tid: Option<u32>,
    /// The time by its process's clock at which work of it was queued, for another thread to take up; where the program noted it.
    pub queued: Option<Stamp<Wall>>,
    /// The turns in which the thread in which it began worked for it; where the program noted them.
    pub turns: Option<Box<NotedTurns<Wall>>>,
}

impl Span {
    /// Its length, ns.
    pub const fn length_ns(&self) -> u64 {
        self.to.since(self.from)
    }
}

/// Spans, and the names in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spans {
    /// The spans by their beginning, each (trace, id) once of each service.
    pub spans: Vec<Span>,
    /// The processes that made them.
    pub services: Vec<Service>,
    /// Their operations.
    pub operations: Vec<Operation>,
    /// The unit of their times, ns: 1000 where some were written in µs. A time may be so much too early.
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

    /// The operation of a span.
    pub fn operation(&self, index: SpanIndex) -> &Operation {
        &self.operations[self.span(index).operation.0 as usize]
    }

    /// All spans, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (SpanIndex, &Span)> {
        (0..).map(SpanIndex).zip(&self.spans)
    }
}

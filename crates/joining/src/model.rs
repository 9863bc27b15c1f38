//! The words that the other modules have in common: the spans, the threads that work for them, and how that is known.

use std::collections::HashMap;
use std::path::PathBuf;

use wakepath_clock::{Reference, Stamp};
use wakepath_spans::{Dropped, Operation, Request, RequestIndex, Requests, Span, Spans, WorksFor, requests};
use wakepath_wait_graph::ThreadIndex;

/// Spans, and the requests that they make up.
#[derive(Debug)]
pub struct Traced {
    /// The spans.
    pub spans: Spans,
    /// Their requests.
    pub requests: Requests,
    /// Spans that were left out.
    pub dropped: Dropped,
    /// Recordings whose spans end within a message: the recorder was killed, and later ones are missing.
    pub torn: Vec<PathBuf>,
    /// The recordings, in the order by which services have them; where several are read.
    pub recordings: Vec<PathBuf>,
}

impl Traced {
    /// The requests of these spans.
    pub fn new(spans: Spans, dropped: Dropped) -> Self {
        Self { requests: requests(&spans), spans, dropped, torn: Vec::new(), recordings: Vec::new() }
    }

    /// A request.
    pub fn request(&self, request: RequestIndex) -> &Request {
        self.requests.request(request)
    }

    /// The local root span of a request.
    pub fn root(&self, request: RequestIndex) -> &Span {
        self.spans.span(self.request(request).root)
    }

    /// The operation of a request: its service, and the name of its local root span.
    pub fn operation(&self, request: RequestIndex) -> &Operation {
        self.spans.operation(self.request(request).root)
    }
}

/// The recording does not say what time of day it was made: spans have no place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTimeOfDay;

/// How it is known for which request a thread works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinedBy {
    /// The thread says so: its context was read.
    Context,
    /// A span was seen to begin in the goroutine.
    Goroutine,
    /// A span names the thread in which it began.
    Thread,
    /// It sent the answer on the connection on which the request came, by the time alone: approximate.
    Connection,
    /// It is not known.
    None,
}

impl JoinedBy {
    /// The word for it in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Goroutine => "goroutine",
            Self::Thread => "thread",
            Self::Connection => "connection",
            Self::None => "none",
        }
    }
}

/// A time in which a thread or a goroutine works for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestStint<T = ThreadIndex> {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The thread or the goroutine.
    pub thread: T,
}

/// A wake-up of another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waking {
    pub(crate) at: Stamp<Reference>,
    pub(crate) woken: ThreadIndex,
}

/// The wake-ups by each thread, in order of time.
pub(crate) type Wakings = HashMap<ThreadIndex, Vec<Waking>>;

/// For what a thread works in a piece of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worked {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// For what; [`WorksFor::None`] where the thread says so.
    pub works_for: WorksFor,
    /// How it is known.
    pub by: JoinedBy,
    /// The thread's context was read for all of this time.
    pub measured: bool,
}

impl Worked {
    /// A time of which it is not known for what a thread works.
    pub fn unknown(from: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        Self { from, to, works_for: WorksFor::Unknown, by: JoinedBy::None, measured: false }
    }
}

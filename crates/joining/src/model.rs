//! The words that the other modules have in common: the spans, the threads working for them, and how these are known.

use std::collections::HashMap;
use std::path::PathBuf;

use wakepath_clock::{Reference, Stamp};
use wakepath_spans::{Dropped, Operation, Request, RequestIndex, Requests, Span, Spans, WorksFor, requests};
use wakepath_wait_graph::ThreadIndex;

/// Spans, and their requests.
#[derive(Debug)]
pub struct Traced {
    /// The spans.
    pub spans: Spans,
    /// The spans' requests.
    pub requests: Requests,
    /// Dropped spans.
    pub dropped: Dropped,
    /// Recordings whose spans end within a message: the recorder was killed, and later spans are missing.
    pub torn: Vec<PathBuf>,
    /// Files with a damage behind some spans, and the damage in words.
    pub damaged: Vec<(PathBuf, String)>,
    /// The recordings, indexed by [`Service::recording`](wakepath_spans::Service::recording), if several are read.
    pub recordings: Vec<PathBuf>,
}

impl Traced {
    /// Finds these spans' requests.
    pub fn new(spans: Spans, dropped: Dropped) -> Self {
        Self {
            requests: requests(&spans),
            spans,
            dropped,
            torn: Vec::new(),
            damaged: Vec::new(),
            recordings: Vec::new(),
        }
    }

    /// A request.
    pub fn request(&self, request: RequestIndex) -> &Request {
        self.requests.request(request)
    }

    /// A request's local root span.
    pub fn root(&self, request: RequestIndex) -> &Span {
        self.spans.span(self.request(request).root)
    }

    /// A request's operation: its service, and its local root span's name.
    pub fn operation(&self, request: RequestIndex) -> &Operation {
        self.spans.operation(self.request(request).root)
    }
}

/// The recording does not say what time of day it was made: spans have no place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTimeOfDay;

/// The way in which a thread's request is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinedBy {
    /// The thread's context was read.
    Context,
    /// A span was seen to begin in the goroutine.
    Goroutine,
    /// A span names the thread of its beginning.
    Thread,
    /// The thread sent the answer on the request's connection, by the time alone: approximate.
    Connection,
    /// Not known.
    None,
}

impl JoinedBy {
    /// The word in documents.
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

/// A time in which a thread or goroutine works for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestStint<T = ThreadIndex> {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The thread or the goroutine.
    pub thread: T,
}

/// A wake-up for another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waking {
    pub(crate) at: Stamp<Reference>,
    pub(crate) woken: ThreadIndex,
}

/// Each thread's wake-ups for others, in time order.
pub(crate) type Wakings = HashMap<ThreadIndex, Vec<Waking>>;

/// A thread's work in a piece of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worked {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The work; [`WorksFor::None`] if the thread's context says that it works for nothing.
    pub works_for: WorksFor,
    /// The way in which the work is known.
    pub by: JoinedBy,
    /// Whether the thread's context was read for all of this time.
    pub measured: bool,
}

impl Worked {
    /// A time in which a thread's work is not known.
    pub fn unknown(from: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        Self { from, to, works_for: WorksFor::Unknown, by: JoinedBy::None, measured: false }
    }
}

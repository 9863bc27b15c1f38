//! A recording and its spans, brought together: which span each thread works for, at every moment.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Tid;
use wakepath_names::WallClock;
use wakepath_spans::{RequestIndex, Stint, Work};
use wakepath_wait_graph::ThreadIndex;

use super::facts::{DiskAccess, disk_accesses};
use super::{RequestsError, Traced};
use crate::Recorded;
use crate::query::thread_between;

/// A recording and its spans, brought together. Making it takes time for every span; asking it about a request does not.
#[derive(Debug)]
pub struct Joined<'r> {
    /// The recording.
    pub recorded: &'r Recorded,
    /// The spans.
    pub traced: &'r Traced,
    /// The clock of the spans beside that of the recording.
    pub clock: WallClock,
    /// The active span of each thread that a plug-in noted.
    pub work: Work<ThreadIndex, Reference>,
    /// The accesses to disks of all requests, by their time; `None` where the recording shows none.
    pub(super) disk: Option<Vec<DiskAccess>>,
}

/// Brings a recording and spans together.
///
/// # Errors
/// When the recording has no time of day.
pub fn join<'r>(recorded: &'r Recorded, traced: &'r Traced) -> Result<Joined<'r>, RequestsError> {
    let clock = recorded.wall_clock().ok_or(RequestsError::NoRealtime)?;
    let work = Work::new(traced.spans.iter().filter_map(|(index, span)| {
        let (from, to) = (clock.stamp(span.from), clock.stamp(span.to));
        let thread = thread_between(recorded, Tid(span.tid?), from, to)?;
        Some(Stint { thread, from, to, span: index })
    }));
    let worked_for = |thread, at| Some(traced.requests.of_span(work.at(&thread, at)?));
    let disk = disk_accesses(recorded, worked_for);
    Ok(Joined { recorded, traced, clock, work, disk })
}

impl Joined<'_> {
    /// The beginning and the end of a request, on the recording's clock.
    pub fn times(&self, request: RequestIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        let root = self.traced.root(request);
        (self.clock.stamp(root.from), self.clock.stamp(root.to))
    }
}

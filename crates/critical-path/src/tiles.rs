//! The segments of a path under construction.

use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::ThreadIndex;

use crate::{Basis, Cause, Rule, Segment, SegmentKind, Via, Wait, WaitId, Window};

/// A walk's position: the thread that it follows, and how the path leads there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) thread: ThreadIndex,
    pub(crate) parent: Option<WaitId>,
    pub(crate) depth: u32,
    pub(crate) via: Via,
    /// The certainty that the path leads here.
    pub(crate) trust: Trust,
    /// The path's work is in a queue, and this activity keeps it there.
    pub(crate) queued: bool,
}

/// The certainty that a path leads to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// By records.
    Sure,
    /// By a rule.
    By(Rule),
    /// Not certain: records were lost on the way.
    Doubtful,
}

impl Trust {
    /// The trust in two consecutive links.
    pub(crate) fn and(self, then: Self) -> Self {
        match (self, then) {
            (Self::Doubtful, _) | (_, Self::Doubtful) => Self::Doubtful,
            (Self::Sure, then) => then,
            (rule, _) => rule,
        }
    }

    /// This trust, or `Doubtful` if `doubtful`.
    pub(crate) fn doubtful_if(self, doubtful: bool) -> Self {
        if doubtful { Self::Doubtful } else { self }
    }

    /// The basis of a figure at this position; `basis` is the figure's own.
    pub(crate) const fn basis(self, basis: Basis) -> Basis {
        match (self, basis) {
            (Self::Doubtful, _) => Basis::Ambiguous,
            (Self::By(rule), Basis::Measured) => Basis::Inferred(rule),
            (_, basis) => basis,
        }
    }
}

impl Position {
    /// The beginning of a walk: the window's own thread.
    pub(crate) const fn of(window: &Window) -> Self {
        Self {
            thread: window.thread,
            parent: None,
            depth: 0,
            via: Via::Window,
            trust: Trust::Sure,
            queued: false,
        }
    }

    /// A segment at this position.
    pub(crate) fn segment(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        kind: SegmentKind,
        cause: Cause,
        basis: Basis,
    ) -> Segment {
        let (kind, cause) = match self.queued && kind != SegmentKind::Unknown {
            true => (SegmentKind::Queue, Cause::None),
            false => (kind, cause),
        };
        Segment {
            from,
            to,
            kind,
            thread: Some(self.thread),
            parent: self.parent,
            depth: self.depth,
            via: self.via,
            call: None,
            cause,
            // Unknown time has its own basis, however the path leads here.
            basis: if kind == SegmentKind::Unknown { basis } else { self.trust.basis(basis) },
            goes_on: false,
        }
    }
}

/// The segments and waits of a path during the walk.
#[derive(Debug, Default)]
pub(crate) struct Tiles {
    pub(crate) segments: Vec<Segment>,
    pub(crate) waits: Vec<Wait>,
}

impl Tiles {
    /// Adds a segment after the last. An empty segment is dropped; a segment that differs from the last only in its
    /// times extends the last.
    pub(crate) fn push(&mut self, segment: Segment) {
        if segment.from >= segment.to {
            return;
        }
        if let Some(last) = self.segments.last_mut() {
            debug_assert_eq!(last.to, segment.from, "segments tile");
            // Only few adjacent segments have the same kind and thread; the full comparison is for those.
            if (last.kind, last.thread) == (segment.kind, segment.thread)
                && (Segment { from: last.from, ..segment.clone() })
                    == (Segment { to: segment.to, ..last.clone() })
            {
                last.to = segment.to;
                return;
            }
        }
        self.segments.push(segment);
    }

    pub(crate) fn wait(&mut self, wait: Wait) -> WaitId {
        let id = WaitId(self.waits.len() as u32);
        self.waits.push(wait);
        id
    }
}

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Call;
use wakepath_wait_graph::ThreadIndex;

use crate::{Basis, Cause, Kind, Segment, Via, Wait, WaitId};

/// Where on the path a walk stands: what its segments have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) thread: ThreadIndex,
    pub(crate) parent: Option<WaitId>,
    pub(crate) depth: u32,
    pub(crate) via: Via,
    /// Whoever led here may not have: records were lost there.
    pub(crate) doubtful: bool,
}

impl Place {
    /// What stands at this place from here to there.
    pub(crate) fn segment(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        kind: Kind,
        cause: Cause,
        basis: Basis,
    ) -> Segment {
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
            // What is not known is not known, whoever led here.
            basis: if self.doubtful && kind != Kind::Unknown { Basis::Ambiguous } else { basis },
        }
    }

    /// The same with the system call that the thread is blocked in.
    pub(crate) fn blocked(
        &self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        kind: Kind,
        cause: Cause,
        basis: Basis,
        call: Option<Call>,
    ) -> Segment {
        Segment { call, ..self.segment(from, to, kind, cause, basis) }
    }
}

/// The segments and waits of a path while it is walked.
#[derive(Debug, Default)]
pub(crate) struct Tiles {
    pub(crate) segments: Vec<Segment>,
    pub(crate) waits: Vec<Wait>,
}

impl Tiles {
    /// Adds a segment behind the last. Empty ones are dropped, and one that goes on like the last
    /// becomes part of it.
    pub(crate) fn push(&mut self, segment: Segment) {
        if segment.from >= segment.to {
            return;
        }
        if let Some(last) = self.segments.last_mut() {
            debug_assert_eq!(last.to, segment.from, "segments tile");
            if (Segment { from: last.from, ..segment.clone() })
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

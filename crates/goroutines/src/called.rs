//! Calls of other services: a park within a call is a wait for the called request.
//!
//! The answer comes through a descriptor. The caller reads it, or the connection's own reader hands it over:
//!
//! ```text
//! caller    ==ccccccccc1==    within its client's span
//! reader    iiiiiiiiip=iii    works for no request; may wait since before the recording
//! callee    ___====st__       the called request
//! path      ==n====tnn1==     `n`: the call or its answer is on its way
//! ```
//!
//! Without such a reader the park is left as it is: within a client's span a goroutine may wait for a lock, a free connection or a time-out too.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, Rule, Via, Wait, WaitId};
use wakepath_wait_graph::ThreadIndex;

use crate::path::{Follow, GoWait, Task, Walk, last_thread};
use crate::states::{Park, ParkEnd, State};
use crate::{Goroutine, GoroutineIndex};

/// Goroutines' calls to other services.
pub trait Calls {
    /// A goroutine's call, open all this time, if `reader` may have read its answer: no goroutine with another request.
    fn call(
        &self,
        caller: GoroutineIndex,
        reader: Option<GoroutineIndex>,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<Called>;
}

/// No calls are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCalls;

impl Calls for NoCalls {
    fn call(
        &self,
        _: GoroutineIndex,
        _: Option<GoroutineIndex>,
        _: Stamp<Reference>,
        _: Stamp<Reference>,
    ) -> Option<Called> {
        None
    }
}

/// A called request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called {
    /// Its worker.
    pub callee: Callee,
    /// Its beginning.
    pub from: Stamp<Reference>,
    /// Its end.
    pub to: Stamp<Reference>,
}

/// The worker of a called request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    /// A goroutine.
    Goroutine(GoroutineIndex),
    /// A thread.
    Thread(ThreadIndex),
    /// Not known.
    Unknown,
}

/// An answer, read from a descriptor.
struct Answer {
    at: Stamp<Reference>,
    /// Its reader, if not the caller.
    reader: Option<GoroutineIndex>,
}

impl Walk<'_> {
    /// Replaces a park up to `to` by the called request, if the goroutine waited for a call. Returns whether it did.
    pub(crate) fn called(
        &mut self,
        follow: &Follow,
        park: Park,
        (end, to): (Stamp<Reference>, Stamp<Reference>),
        reason: GoWait,
    ) -> bool {
        let Some(Answer { at: answered, reader }) = self.answer(park, end, reason) else { return false };
        let answered = answered.min(to);
        let from = follow.at;
        if answered <= from {
            return false;
        }
        let Some(call) = self.calls.call(follow.goroutine, reader, from, answered) else { return false };
        let [began, ended] = [call.from, call.to].map(|at| at.clamp(from, answered));
        if began >= ended {
            return false;
        }
        let id = WaitId(self.waits.len() as u32);
        let depth = follow.depth.saturating_add(1);
        let rule = Some(Rule::CalledRequest);
        let below = Follow { to: answered, parent: Some(id), depth, via: Via::Packet, rule, ..*follow };
        // The rest comes first here: the walk takes the last task.
        if let Some(reader) = reader.filter(|_| answered < to) {
            let rule = follow.rule;
            let read = Follow { goroutine: reader, at: answered, to, via: Via::Wakeup, rule, ..below };
            let task = self.goroutine(read);
            self.todo.push(task);
        }
        if ended < answered {
            self.todo.push(Task::InFlight(Follow { at: ended, ..below }));
        }
        let worked = Follow { at: began, to: ended, ..below };
        let (task, ended_by) = match call.callee {
            Callee::Goroutine(goroutine) => {
                let task = self.goroutine(Follow { goroutine, ..worked });
                (task, Some(last_thread(self.goroutines, goroutine, ended)))
            }
            Callee::Thread(thread) => (Task::Thread(worked, thread), Some(thread)),
            Callee::Unknown => (Task::InFlight(worked), None),
        };
        self.todo.push(task);
        if from < began {
            self.todo.push(Task::InFlight(Follow { to: began, ..below }));
        }
        self.waits.push(Wait {
            from,
            to,
            thread: park.thread,
            parent: follow.parent,
            depth: follow.depth,
            call: None,
            ended_by,
            via: Via::Packet,
            lock: None,
            basis: Basis::Inferred(Rule::CalledRequest),
            timed_out: false,
            goes_on: false,
        });
        self.parks.push(Some((follow.goroutine, park.reason)));
        true
    }

    /// A goroutine's time, unless the walk is already explaining this very time.
    fn goroutine(&mut self, follow: Follow) -> Task {
        if self.begins(&follow) { Task::Goroutine(follow) } else { Task::InFlight(follow) }
    }

    /// The answer at a park's `end`, if it came through a descriptor.
    fn answer(&self, park: Park, end: Stamp<Reference>, reason: GoWait) -> Option<Answer> {
        match (park.end, reason) {
            (ParkEnd::Taken(_), GoWait::Descriptor) => Some(Answer { at: end, reader: None }),
            (ParkEnd::By(by), GoWait::Channel | GoWait::Other) => {
                let at = self.taken_up(self.goroutines.get(by), end)?;
                Some(Answer { at, reader: Some(by) })
            }
            _ => None,
        }
    }

    /// The time since which a goroutine runs at `at`, if it had waited for a descriptor.
    fn taken_up(&self, goroutine: &Goroutine, at: Stamp<Reference>) -> Option<Stamp<Reference>> {
        let ran = goroutine.interval_after(at.minus(1));
        let run = goroutine.intervals.get(ran).filter(|run| matches!(run.state, State::Running(_)))?;
        let Some(before) = ran.checked_sub(1) else {
            // It had begun to wait before the recording: a new goroutine names its parent.
            return goroutine.parent.is_none().then_some(run.from);
        };
        match goroutine.intervals[before].state {
            State::Parked(Park { reason, end: ParkEnd::Taken(_), .. })
                if (self.reasons)(goroutine.program, reason) == GoWait::Descriptor =>
            {
                Some(run.from)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

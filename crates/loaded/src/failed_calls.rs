//! The calls failing before sleeps, and calls failing again and again.

use std::collections::{BTreeMap, HashMap};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Attempt, AttemptObject, FailedCall, Spin, Tid};

/// An attempt's index among the different attempts in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(u32);

/// The longest stretch: `SPIN_NS` in `bpf/failed.bpf.c`, ns.
const MAX_SPIN_NS: u64 = 100_000_000;

/// All failed calls in a recording.
#[derive(Debug, Clone, Default)]
pub struct FailedCalls {
    attempts: Vec<Attempt>,
    numbers: HashMap<Attempt, AttemptId>,
    /// By thread, in time order: the beginning of a wait, the attempt before it, and the number of tries.
    before: HashMap<Tid, Vec<(Stamp<Local>, AttemptId, u32)>>,
    /// By thread, in the order of their ends.
    spins: BTreeMap<Tid, Vec<(Stamp<Local>, Spin)>>,
}

impl FailedCalls {
    /// Takes the failed call before a thread's wait, or before its end. Events come in time order.
    pub(crate) fn add(&mut self, at: Stamp<Local>, thread: Tid, failed: &FailedCall) {
        if is_for_names(&failed.attempt) {
            return;
        }
        let id = match self.numbers.get(&failed.attempt) {
            Some(id) => *id,
            None => {
                let id = AttemptId(self.attempts.len() as u32);
                self.attempts.push(failed.attempt.clone());
                self.numbers.insert(failed.attempt.clone(), id);
                id
            }
        };
        self.before.entry(thread).or_default().push((at, id, failed.tries));
    }

    /// Takes a stretch with failing calls, ended at `at`.
    pub(crate) fn add_spin(&mut self, at: Stamp<Local>, thread: Tid, spin: Spin) {
        self.spins.entry(thread).or_default().push((at, spin));
    }

    /// Whether no call failed before a sleep.
    pub fn has_no_attempts(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Whether a call looked whether this process still runs.
    pub fn asks_for_process(&self, number: u32) -> bool {
        let asks = |attempt: &Attempt| match attempt.object {
            AttemptObject::Process(process) => process == number as i32 && attempt.error == 0,
            _ => false,
        };
        self.attempts.iter().any(asks)
    }

    /// An attempt. Panics if the index is from a larger recording.
    pub fn attempt(&self, id: AttemptId) -> &Attempt {
        &self.attempts[id.0 as usize]
    }

    /// The attempt before a thread's wait begun, or its end, at exactly `at`, and the number of tries; `None` if no call failed.
    pub fn before(&self, thread: Tid, at: Stamp<Local>) -> Option<(AttemptId, u32)> {
        let all = self.before.get(&thread)?;
        let behind = all.partition_point(|(began, ..)| *began <= at);
        let (began, id, tries) = all.get(behind.checked_sub(1)?)?;
        (*began == at).then_some((*id, *tries))
    }

    /// A thread's stretches with failing calls within or around a window, each with its end.
    pub fn spins(
        &self,
        thread: Tid,
        from: Stamp<Local>,
        to: Stamp<Local>,
    ) -> impl Iterator<Item = (Stamp<Local>, Spin)> {
        let all = self.spins.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|(end, _)| *end <= from);
        // A stretch is shorter than this: a later end has a beginning behind the window.
        let may_begin = move |end: Stamp<Local>| end.ns().saturating_sub(MAX_SPIN_NS) < to.ns();
        let rest = all.get(first..).unwrap_or_default().iter().copied();
        rest.take_while(move |(end, _)| may_begin(*end)).filter(move |(_, spin)| spin.from < to)
    }
}

/// Whether a C library looked for the daemon with the names of users and hosts. Few machines have it, and each program tries it first.
fn is_for_names(attempt: &Attempt) -> bool {
    matches!(&attempt.object, AttemptObject::Unix(path) if **path == *b"/var/run/nscd/socket")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::AttemptObject;

    fn at(ns: u64) -> Stamp<Local> {
        Stamp::from_ns(ns)
    }

    fn failed(call: u32, tries: u32) -> FailedCall {
        let attempt = Attempt { call, error: 2, operation: 0, holder: None, object: AttemptObject::None };
        FailedCall { attempt, tries, later: 0 }
    }

    #[test]
    fn an_attempt_is_that_of_the_wait_that_began_with_its_record_and_equal_attempts_are_one() {
        let mut calls = FailedCalls::default();
        for (ns, thread, call, tries) in [(10, 7, 21, 1), (20, 7, 21, 3), (20, 8, 42, 1), (30, 7, 42, 1)] {
            calls.add(at(ns), Tid(thread), &failed(call, tries));
        }
        let before = |thread, ns| {
            let (id, tries) = calls.before(Tid(thread), at(ns))?;
            Some((calls.attempt(id).call, tries))
        };
        assert_eq!(
            [before(7, 10), before(7, 20), before(8, 20)],
            [Some((21, 1)), Some((21, 3)), Some((42, 1))]
        );
        assert_eq!([before(7, 9), before(7, 15), before(7, 31), before(9, 10)], [None; 4]);
        assert_eq!(calls.attempts.len(), 2);
    }

    #[test]
    fn the_c_library_s_search_for_its_daemon_is_no_attempt() {
        let mut calls = FailedCalls::default();
        let mut call = failed(42, 1);
        for (ns, path) in [(10, "/var/run/nscd/socket"), (20, "/var/run/nscd/other")] {
            call.attempt.object = AttemptObject::Unix(path.as_bytes().into());
            calls.add(at(ns), Tid(7), &call);
        }
        assert_eq!([10, 20].map(|ns| calls.before(Tid(7), at(ns)).is_some()), [false, true]);
    }

    #[test]
    fn a_window_has_the_stretches_that_overlap_it() {
        let mut calls = FailedCalls::default();
        for (from, to) in [(0, 100), (100, 200), (200, 300)] {
            calls.add_spin(at(to), Tid(7), Spin { call: 3, error: 9, from: at(from), count: to });
        }
        let counts = |thread, from, to| -> Vec<u64> {
            calls.spins(Tid(thread), at(from), at(to)).map(|(_, spin)| spin.count).collect()
        };
        assert_eq!(counts(7, 100, 200), [200]);
        assert_eq!(counts(7, 99, 201), [100, 200, 300]);
        assert_eq!(counts(8, 0, 300), [0_u64; 0]);
    }
}

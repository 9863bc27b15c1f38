//! The values of `prev_state` in a trace, as evidence for their meaning.
//!
//! A value means different things by kernel and by tracer. Linux 4.14 wrote the index of a state, later kernels a bit
//! for it, earlier kernels the state itself; LTTng-modules 2.10.8 wrote the state itself under Linux 4.15. A release
//! number does not decide it, and a trace mostly does: a value that a kernel cannot write rules that kernel's meaning
//! out. So do the threads: a dead thread does not run again, an exited thread is dead when it leaves its CPU for the
//! last time, and a preempted thread is mostly not woken before it runs again.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashSet};
use wakepath_clock::{Local, Stamp};
use wakepath_event::{SwitchOut, Tid};

use super::ReportedStates;
use crate::tracepoint::Tracepoint;

/// The values of `prev_state` in a trace, and what became of the threads. Its memory is bounded.
#[derive(Debug, Default)]
pub struct StateEvidence {
    values: BTreeMap<i64, ValueUse>,
    /// Each thread's last switch-out: its stamp, its value, and whether a wake-up followed.
    left: HashMap<Tid, (Stamp<Local>, i64, bool)>,
    exited: HashSet<Tid>,
}

/// A value's use: numbers of switches.
#[derive(Debug, Default, Clone, Copy)]
struct ValueUse {
    left: u64,
    /// The thread ran again.
    returned: u64,
    /// Earlier, it was woken.
    woken: u64,
    /// The thread had exited, and did not run again.
    last: u64,
}

/// The limits on different values, and on threads.
const MAX_VALUES: usize = 256;
const MAX_THREADS: usize = 1 << 16;
/// A meaning is ruled out, beyond chance, by this number of switches against it.
const ENOUGH: u64 = 16;

impl StateEvidence {
    /// Adds the evidence in the next part of a trace. Threads that left their CPU in one part and ran again in the next
    /// count in neither.
    pub fn add(&mut self, next: Self) {
        for tid in std::mem::take(&mut self.exited) {
            if !next.left.contains_key(&tid) {
                self.count_last(tid);
            }
        }
        for (value, ValueUse { left, returned, woken, last }) in next.values {
            if self.values.len() < MAX_VALUES || self.values.contains_key(&value) {
                let sum = self.values.entry(value).or_default();
                sum.left += left;
                sum.returned += returned;
                sum.woken += woken;
                sum.last += last;
            }
        }
        (self.left, self.exited) = (next.left, next.exited);
    }

    /// Takes the next tracepoint. Stamps may go back where CPUs are read one after another.
    pub fn observe(&mut self, at: Stamp<Local>, what: &Tracepoint<'_>) {
        match *what {
            Tracepoint::Switch { prev, prev_state, next, .. } => {
                if prev != Tid::IDLE {
                    self.leave(at, prev, prev_state);
                }
                if let Some(&(left, value, woken)) = self.left.get(&next)
                    && left <= at
                    && next != prev
                {
                    self.left.remove(&next);
                    if let Some(used) = self.values.get_mut(&value) {
                        used.returned += 1;
                        used.woken += u64::from(woken);
                    }
                }
            }
            Tracepoint::Waking { target } | Tracepoint::Wakeup { target } => {
                if let Some((left, _, woken)) = self.left.get_mut(&target) {
                    *woken |= *left <= at;
                }
            }
            Tracepoint::Exit { tid } if self.exited.len() < MAX_THREADS => {
                self.exited.insert(tid);
            }
            // The number is another thread's from here on.
            Tracepoint::Fork { child, .. } => {
                if self.exited.remove(&child) {
                    self.count_last(child);
                }
                self.left.remove(&child);
            }
            _ => {}
        }
    }

    fn leave(&mut self, at: Stamp<Local>, tid: Tid, value: i64) {
        if self.values.len() < MAX_VALUES || self.values.contains_key(&value) {
            self.values.entry(value).or_default().left += 1;
        }
        if self.left.len() < MAX_THREADS || self.left.contains_key(&tid) {
            let last = self.left.entry(tid).or_insert((at, value, false));
            if last.0 <= at {
                *last = (at, value, false);
            }
        }
    }

    fn count_last(&mut self, tid: Tid) {
        let value = self.left.get(&tid).map(|&(_, value, _)| value);
        if let Some(used) = value.and_then(|value| self.values.get_mut(&value)) {
            used.last += 1;
        }
    }

    /// Whether the switches so far leave a single meaning: further switches need not be read.
    pub fn is_enough(&self, candidates: &[ReportedStates]) -> bool {
        let scores = candidates.iter().map(|states| self.contradictions(states));
        scores.clone().filter(|&score| score == 0).count() == 1
            && scores.filter(|&score| score < ENOUGH).count() == 1
    }

    /// The candidate that the fewest switches contradict, at equal numbers the first; and whether it is certain: no
    /// switch contradicts it, and no other such candidate gives a value in the trace another meaning.
    ///
    /// # Panics
    /// Without candidates.
    pub fn decide(mut self, candidates: &[ReportedStates]) -> (ReportedStates, bool) {
        for tid in std::mem::take(&mut self.exited) {
            self.count_last(tid);
        }
        let scores: Vec<_> = candidates.iter().map(|states| self.contradictions(states)).collect();
        let best = scores.iter().enumerate().min_by_key(|&(place, score)| (score, place));
        let place = best.map(|(place, _)| place).expect("a candidate");
        let chosen = candidates[place];
        let same = |other: &ReportedStates| {
            self.values.keys().all(|&value| other.switch_out(value) == chosen.switch_out(value))
        };
        let equal = candidates.iter().zip(&scores).filter(|&(_, &score)| score == scores[place]);
        (chosen, scores[place] == 0 && equal.into_iter().all(|(other, _)| same(other)))
    }

    /// The number of switches whose value cannot have these meanings.
    fn contradictions(&self, states: &ReportedStates) -> u64 {
        let contradicted = self.values.iter().filter(|&(&value, used)| {
            let most = |part: u64, all: u64| part > 0 && part * 2 > all;
            let meaning = states.switch_out(value);
            !states.can_be(value)
                || match meaning {
                    SwitchOut::Dead => most(used.returned, used.left),
                    SwitchOut::Runnable | SwitchOut::Throttled => {
                        value != 0 && (used.last > 0 || most(used.woken, used.returned))
                    }
                    SwitchOut::Blocked(_) => most(used.last, used.left),
                }
        });
        contradicted.map(|(_, used)| used.left).sum()
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::BlockedState;

    use super::*;

    /// Each value once for a thread with a later run, and the last value for any other thread.
    fn evidence(values: &[i64]) -> StateEvidence {
        let mut evidence = StateEvidence::default();
        for (at, &value) in (1..).zip(values) {
            let (thread, at) = (Tid(at as u32 + 10), Stamp::from_ns(at * 10));
            let switch =
                |prev, prev_state, next| Tracepoint::Switch { prev, prev_state, next, next_comm: None };
            evidence.observe(at, &switch(thread, value, Tid::IDLE));
            if Some(&value) != values.last() {
                evidence.observe(at, &switch(Tid::IDLE, 0, thread));
            }
        }
        evidence
    }

    #[test]
    fn the_values_decide_whatever_the_release_says() {
        for (values, release, meaning) in [
            (&[1, 2, 1026, 258, 4096, 128][..], "4.15.0-65-generic", SwitchOut::Dead),
            (&[1, 2, 0x80, 0x100, 0x10], "4.4.0", SwitchOut::Dead),
            (&[1, 2, 8, 5], "4.14.62", SwitchOut::Dead),
        ] {
            let candidates = ReportedStates::candidates(release);
            let (states, _) = evidence(values).decide(&candidates);
            let last = values.last().copied().unwrap_or_default();
            assert_eq!(states.switch_out(last), meaning, "{values:?}");
        }
    }

    /// Sign: flags up to the idle state's, and the bit for a preempted task is not the next one.
    #[test]
    fn a_table_beside_the_index_is_told_by_the_bit_for_a_preempted_task() {
        let flags: Vec<_> = (0..8).map(|bit| (1 << bit, char::from(b"SDTtXZPI"[bit]))).collect();
        for (preempted, value, meaning) in [
            (0x1000, 5, SwitchOut::Dead),
            (0x1000, 8, SwitchOut::Blocked(BlockedState::Idle)),
            (0x100, 8, SwitchOut::Blocked(BlockedState::Traced)),
            (0x100, 0x10, SwitchOut::Dead),
        ] {
            let table = ReportedStates::from_flags(&flags, preempted);
            assert_eq!(ReportedStates::needs_evidence(Some(&table)), preempted == 0x1000);
            let (states, certain) = ReportedStates::by_table(Some(table), "4.14.62", evidence(&[1, value]));
            assert_eq!((states.switch_out(value), certain), (meaning, true), "{preempted:#x} {value}");
        }
    }

    /// 0x10 is a dead thread's bit: threads with it and a later run rule the meaning out.
    #[test]
    fn a_thread_that_runs_again_was_not_dead() {
        let states = ReportedStates::for_release("6.1.0");
        assert_eq!(evidence(&[1, 0x10]).contradictions(&states), 0);
        assert_eq!(evidence(&[0x10, 1]).contradictions(&states), 1);
    }

    #[test]
    fn values_that_two_kernels_give_two_meanings_are_in_doubt() {
        let candidates = ReportedStates::candidates("6.1.0");
        let (_, certain) = evidence(&[0, 1, 2]).decide(&candidates);
        assert!(certain, "all kernels agree about these");
        let (states, certain) = evidence(&[0, 1, 4]).decide(&candidates);
        assert!(!certain, "4 is a bit, or an index");
        assert_eq!(states.switch_out(4), SwitchOut::Blocked(BlockedState::Stopped), "the release's own");
    }
}

//! Waits that end in a time-out, and those of them that count as one wait.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, Softirq};
use wakepath_wait_graph::{Graph, StateInterval, StateIntervals, ThreadState, Wait, Waker};

/// The treatment of waits that end in a time-out.
///
/// An event loop that sleeps with short time-outs hides the cause of its wait (G15 §5.4.3, §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeouts {
    /// They are waits for a timer.
    #[default]
    AsTheyAre,
    /// They are parts of one wait if the thread goes back to the same wait, in the same system call with
    /// the same first argument, without having run for longer than it had waited. The end of the last
    /// part explains all of them. The segments have the rule
    /// [`Rule::JoinedTimeouts`](crate::Rule::JoinedTimeouts).
    Joined,
}

/// Several waits of a thread that count as one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinedWaits {
    /// The index of their last state interval.
    last: usize,
    /// The last wait ended in something other than a time-out.
    ended: bool,
}

impl JoinedWaits {
    /// The waits that count as one with that of the interval at `index`, if that ended in a time-out.
    /// `known` is returned if it still holds this one, so that every interval is read once. Intervals
    /// that end after `to` do not count.
    pub(crate) fn at(
        graph: &Graph,
        intervals: StateIntervals<'_>,
        index: usize,
        to: Stamp<Reference>,
        known: Option<Self>,
    ) -> Option<Self> {
        let interval = intervals.get(index)?;
        let first = graph.wait(&interval).filter(timed_out)?;
        if let Some(known) = known.filter(|known| index <= known.last) {
            return Some(known);
        }
        let call = first.call.filter(|call| !is_sleep(call.number))?;
        let (mut last, mut waited, mut ran) = (index, interval.to.since(interval.from), 0);
        for next in index + 1..intervals.len() {
            let Some(interval) = intervals.get(next).filter(|interval| interval.to <= to) else { break };
            match interval.state {
                ThreadState::Running { .. } => ran += interval.to.since(interval.from),
                ThreadState::Runnable { .. } | ThreadState::Throttled { .. } => {}
                ThreadState::Unknown(_) => break,
                ThreadState::Blocked(_) => {
                    let Some(wait) = graph.wait(&interval) else { break };
                    let same = wait.call.is_some_and(|c| (c.number, c.arg0) == (call.number, call.arg0));
                    if !same || ran > waited {
                        break;
                    }
                    last = next;
                    if !timed_out(&wait) {
                        let ended = matches!(wait.end, Waker::Woken { .. });
                        return Some(Self { last, ended });
                    }
                    (waited, ran) = (interval.to.since(interval.from), 0);
                }
            }
        }
        Some(Self { last, ended: false })
    }

    /// The last of the waits, which did not end in a time-out; `None` if all of them did.
    pub(crate) fn ending_wait(
        self,
        graph: &Graph,
        intervals: StateIntervals<'_>,
    ) -> Option<(StateInterval, Wait)> {
        let interval = intervals.get(self.last).filter(|_| self.ended)?;
        Some((interval, graph.wait(&interval)?))
    }
}

fn timed_out(wait: &Wait) -> bool {
    let Waker::Woken { context, .. } = wait.end else { return false };
    matches!(context, Context::LocalTimer | Context::Softirq(Softirq::Timer | Softirq::Hrtimer))
}

/// A sleep waits for nothing but its timer: `nanosleep`, `clock_nanosleep`.
pub const fn is_sleep(call: u32) -> bool {
    matches!(call, 35 | 230)
}

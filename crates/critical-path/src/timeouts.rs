use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, Softirq};
use wakepath_wait_graph::{Graph, StateInterval, StateIntervals, ThreadState, Wait, Waker};

/// What waits that end by their time-out count as.
///
/// An event loop that sleeps in short time-outs hides what it really waits for (G15 §5.4.3, §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeouts {
    /// Waits for a timer.
    #[default]
    AsTheyAre,
    /// Where a thread goes back to the same wait, in the same system call with the same first
    /// argument, without having run for longer than it had waited: parts of one wait, explained by
    /// what ended the last of them. Segments that stand on this say so:
    /// [`Rule::JoinedTimeouts`](crate::Rule::JoinedTimeouts).
    Joined,
}

/// Waits of a thread that count as one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joint {
    /// The last of their intervals. If it did not end in something other than a time-out, nothing is known.
    last: usize,
    ended: bool,
}

impl Joint {
    /// The waits around the interval `index`, if that ended in a time-out: `known` when that is still
    /// about them, so that every interval is looked at once. Nothing from `to` on is looked at.
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

    /// The wait whose end was none of the timer's.
    pub(crate) fn ender(self, graph: &Graph, intervals: StateIntervals<'_>) -> Option<(StateInterval, Wait)> {
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

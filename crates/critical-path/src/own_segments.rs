//! The segments of a state interval other than a wait: running, stolen, or runnable behind a competitor.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;
use wakepath_wait_graph::{
    Bookmarks, Graph, Occupancy, Occupant, QueueExit, StateInterval, StateIntervals, Stolen, ThreadIndex,
    ThreadState, UnknownReason,
};

use crate::tiles::{Position, Trust};
use crate::{Basis, Cause, Rule, Segment, SegmentKind};

/// Pushes the segments of a state interval from `from` to `to`, in order; none for a blocked interval.
pub(crate) fn own_segments(
    graph: &Graph,
    bookmarks: &mut Bookmarks<'_>,
    position: &Position,
    index: usize,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    mut push: impl FnMut(Segment),
) {
    let intervals = graph.state_intervals(position.thread);
    let Some(interval) = intervals.get(index) else { return };
    // The thread has no later record: a single lost record is enough to hide the end of its last state. If its CPU is known, the timeline ends the
    // state there.
    let may_hide_the_end =
        index + 1 == intervals.len() && graph.losses().touch_without_cpu(interval.from, interval.to);
    // The first state is the snapshot's: the thread may have been running then, and its switch-out is a
    // single record.
    let may_hide_the_beginning = index == 0 && graph.losses().touch(interval.from, interval.to);
    let may_hide_a_run = || {
        may_hide_the_end
            || may_hide_the_beginning
            || graph.losses().may_hide_a_run(interval.from, interval.to)
    };
    match interval.state {
        ThreadState::Running { cpu, interrupts_ns } => {
            let stolen = graph.stolen(cpu);
            let hidden = may_hide_the_end || graph.losses().may_hide_a_run_on(cpu, from, to);
            let basis = Basis::measured_unless(hidden);
            for (from, to, taken) in stolen.parts(from, to) {
                if taken {
                    push(stolen_segment(position, from, to));
                    continue;
                }
                let middle = to.minus(interrupt_share(&interval, interrupts_ns, stolen, from, to));
                push(position.segment(from, middle, SegmentKind::Running, Cause::None, basis));
                let inferred = Basis::Inferred(Rule::InterruptsInSum);
                push(position.segment(middle, to, SegmentKind::Interrupted, Cause::None, inferred));
            }
        }
        ThreadState::Runnable { cpu, left } => {
            let trust = match woken_before_switch_out(graph, intervals, index) {
                true => Trust::By(Rule::WakingBeforeSwitch),
                false => Trust::Sure,
            };
            let trust = match left {
                QueueExit::MovedUnseen(_) => trust.and(Trust::By(Rule::QueueThatItLeft)),
                QueueExit::Stayed | QueueExit::Moved => trust,
            };
            let basis = trust.basis(Basis::measured_unless(may_hide_a_run()));
            let cpu = if cpu == Cpu::UNKNOWN { last_cpu(intervals, index) } else { cpu };
            for occupancy in bookmarks.occupancies(cpu, from, to) {
                // While its old CPU was idle, the thread was no longer in that queue.
                let moved_to = match left {
                    QueueExit::MovedUnseen(to) if occupancy.occupant == Occupant::Idle => Some(to),
                    _ => None,
                };
                let Some(cpu) = moved_to else {
                    queue_segments(graph, position, cpu, occupancy, basis, &mut push);
                    continue;
                };
                for occupancy in bookmarks.occupancies(cpu, occupancy.from, occupancy.to) {
                    queue_segments(graph, position, cpu, occupancy, basis, &mut push);
                }
            }
        }
        ThreadState::Throttled { .. } => {
            let basis = Basis::measured_unless(may_hide_a_run());
            push(position.segment(from, to, SegmentKind::Throttled, Cause::None, basis));
        }
        ThreadState::Unknown(UnknownReason::NotSeenYet) => {
            push(position.segment(from, to, SegmentKind::Unknown, Cause::BeforeRecording, Basis::Measured));
        }
        ThreadState::Unknown(UnknownReason::Lost) => {
            let cause = Cause::missing(graph, interval.from, interval.to);
            push(position.segment(from, to, SegmentKind::Unknown, cause, Basis::Ambiguous));
        }
        ThreadState::Blocked(_) => {}
    }
}

/// Pushes the segments of queue time on `cpu` behind a single occupant.
fn queue_segments(
    graph: &Graph,
    position: &Position,
    cpu: Cpu,
    occupancy: Occupancy,
    basis: Basis,
    mut push: impl FnMut(Segment),
) {
    let Occupancy { from, to, occupant } = occupancy;
    let cause = competitor(graph, position.thread, occupant, from, to);
    let basis = if occupant == Occupant::Unknown { Basis::Ambiguous } else { basis };
    for (from, to, taken) in graph.stolen(cpu).parts(from, to) {
        // An idle CPU that the hypervisor does not let run is not the cause.
        push(match taken && occupant == Occupant::Idle {
            true => stolen_segment(position, from, to),
            false => position.segment(from, to, SegmentKind::Runnable, cause.clone(), basis),
        });
    }
}

/// A segment of stolen time.
fn stolen_segment(position: &Position, from: Stamp<Reference>, to: Stamp<Reference>) -> Segment {
    position.segment(from, to, SegmentKind::Stolen, Cause::None, Basis::Inferred(Rule::StolenBefore))
}

/// The interrupt time in a part of a running interval, ns: the interval's sum times the part's share, both
/// without stolen time. The shares of adjacent parts add up exactly.
fn interrupt_share(
    interval: &StateInterval,
    interrupts_ns: u32,
    stolen: &Stolen,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> u64 {
    if interrupts_ns == 0 {
        return 0;
    }
    let before = stolen.ns_before(interval.from);
    let unstolen_ns =
        |at: Stamp<Reference>| u128::from(at.since(interval.from) - (stolen.ns_before(at) - before));
    let unstolen = unstolen_ns(interval.to);
    if unstolen == 0 {
        return 0;
    }
    let interrupts = u128::from(interrupts_ns).min(unstolen);
    let until = |at: Stamp<Reference>| unstolen_ns(at) * interrupts / unstolen;
    // At most the part's own length, since interrupts took at most the interval.
    (until(to) - until(from)) as u64
}

/// Whether a runnable interval follows a wait whose wake-up came before its switch-out.
fn woken_before_switch_out(graph: &Graph, intervals: StateIntervals<'_>, index: usize) -> bool {
    let Some(before) = index.checked_sub(1).and_then(|before| intervals.get(before)) else { return false };
    graph.wait(&before).is_some_and(|wait| wait.is_woken_before(before.from))
}

/// The CPU on which a thread last ran, for a thread that waits for a CPU until the recording ends.
fn last_cpu(intervals: StateIntervals<'_>, index: usize) -> Cpu {
    (0..index)
        .rev()
        .take(4)
        .find_map(|before| match intervals.get(before)?.state {
            ThreadState::Running { cpu, .. } | ThreadState::Throttled { cpu } => Some(cpu),
            _ => None,
        })
        .unwrap_or(Cpu::UNKNOWN)
}

fn competitor(
    graph: &Graph,
    thread: ThreadIndex,
    occupant: Occupant,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Cause {
    match occupant {
        Occupant::Thread(other) if other != thread => Cause::Competitor(other),
        Occupant::Thread(_) => Cause::None,
        Occupant::Idle => Cause::IdleCpu,
        Occupant::Unknown if graph.losses().touch(from, to) => Cause::missing(graph, from, to),
        Occupant::Unknown => Cause::BeforeRecording,
    }
}

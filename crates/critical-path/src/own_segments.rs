//! What an interval that is no wait says by itself.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;
use wakepath_wait_graph::{
    Bookmarks, Graph, Occupant, StateInterval, StateIntervals, Stolen, ThreadIndex, ThreadState,
    UnknownReason, Waker,
};

use crate::tiles::Place;
use crate::{Basis, Cause, Rule, Segment, SegmentKind};

/// The segments of an interval's part from `from` to `to`, in order. Nothing for blocked intervals.
pub(crate) fn own_segments(
    graph: &Graph,
    bookmarks: &mut Bookmarks<'_>,
    place: &Place,
    index: usize,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    mut give: impl FnMut(Segment),
) {
    let intervals = graph.state_intervals(place.thread);
    let Some(interval) = intervals.get(index) else { return };
    match interval.state {
        ThreadState::Running { cpu, interrupts_ns } => {
            let stolen = graph.stolen(cpu);
            let basis = if graph.losses().may_hide_a_run_on(cpu, from, to) {
                Basis::Ambiguous
            } else {
                Basis::Measured
            };
            for (from, to, taken) in stolen.parts(from, to) {
                if taken {
                    give(taken_away(place, from, to));
                    continue;
                }
                let middle = to.minus(interrupt_share(&interval, interrupts_ns, stolen, from, to));
                give(place.segment(from, middle, SegmentKind::Running, Cause::None, basis));
                let inferred = Basis::Inferred(Rule::InterruptsInSum);
                give(place.segment(middle, to, SegmentKind::Interrupted, Cause::None, inferred));
            }
        }
        ThreadState::Runnable { cpu } => match early(graph, intervals, index) {
            // The waking before the switch-out counts because no other was seen; one may be lost.
            true if graph.losses().touch(interval.from, interval.to) => {
                let cause = Cause::missing(graph, interval.from, interval.to);
                give(place.segment(from, to, SegmentKind::Unknown, cause, Basis::Ambiguous));
            }
            early => {
                let basis = if graph.losses().may_hide_a_run(interval.from, interval.to) {
                    Basis::Ambiguous
                } else if early {
                    Basis::Inferred(Rule::WakingBeforeSwitch)
                } else {
                    Basis::Measured
                };
                let cpu = if cpu == Cpu::UNKNOWN { last_cpu(intervals, index) } else { cpu };
                for occupancy in bookmarks.occupancies(cpu, from, to) {
                    let cause =
                        competitor(graph, place.thread, occupancy.occupant, occupancy.from, occupancy.to);
                    let basis =
                        if occupancy.occupant == Occupant::Unknown { Basis::Ambiguous } else { basis };
                    // An idle CPU that is ready and does not run is not idle: somebody else has it.
                    let idle = occupancy.occupant == Occupant::Idle;
                    for (from, to, taken) in graph.stolen(cpu).parts(occupancy.from, occupancy.to) {
                        give(match taken && idle {
                            true => taken_away(place, from, to),
                            false => place.segment(from, to, SegmentKind::Runnable, cause.clone(), basis),
                        });
                    }
                }
            }
        },
        ThreadState::Throttled { .. } => {
            let basis = if graph.losses().may_hide_a_run(interval.from, interval.to) {
                Basis::Ambiguous
            } else {
                Basis::Measured
            };
            give(place.segment(from, to, SegmentKind::Throttled, Cause::None, basis));
        }
        ThreadState::Unknown(UnknownReason::NotSeenYet) => {
            give(place.segment(from, to, SegmentKind::Unknown, Cause::BeforeRecording, Basis::Measured));
        }
        ThreadState::Unknown(UnknownReason::Lost) => {
            let cause = Cause::missing(graph, interval.from, interval.to);
            give(place.segment(from, to, SegmentKind::Unknown, cause, Basis::Ambiguous));
        }
        ThreadState::Blocked(_) => {}
    }
}

/// What the hypervisor took.
fn taken_away(place: &Place, from: Stamp<Reference>, to: Stamp<Reference>) -> Segment {
    place.segment(from, to, SegmentKind::Stolen, Cause::None, Basis::Inferred(Rule::StolenBefore))
}

/// How much of a part of a stay interrupts took: as large a share of their sum as the part is of
/// the stay, without what the hypervisor took. Parts next to each other add up to what both together have.
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
    let left_until =
        |at: Stamp<Reference>| u128::from(at.since(interval.from) - (stolen.ns_before(at) - before));
    let stay = left_until(interval.to);
    if stay == 0 {
        return 0;
    }
    let interrupts = u128::from(interrupts_ns).min(stay);
    let until = |at: Stamp<Reference>| left_until(at) * interrupts / stay;
    // At most what was asked about, since interrupts took at most the stay.
    (until(to) - until(from)) as u64
}

/// Whether a runnable interval follows a wait whose waking came before its switch-out.
fn early(graph: &Graph, intervals: StateIntervals<'_>, index: usize) -> bool {
    let Some(before) = index.checked_sub(1).and_then(|before| intervals.get(before)) else { return false };
    match graph.wait(&before).map(|wait| wait.end) {
        Some(Waker::Woken { at, .. }) => at < before.from || (at == before.from && before.from == before.to),
        _ => false,
    }
}

/// Where a thread that waits for a CPU until the recording ends ran before.
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

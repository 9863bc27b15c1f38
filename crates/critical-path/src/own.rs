//! What a span that is no wait says by itself.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;
use wakepath_wait_graph::{Bookmarks, Doing, Graph, Occupant, Seen, Span, Spans, Stolen, ThreadIndex, Waker};

use crate::tiles::Place;
use crate::{Basis, Cause, Kind, Rule, Segment};

/// The segments of a span's part from `from` to `to`, in order. Nothing for blocked spans.
pub(crate) fn own(
    graph: &Graph,
    bookmarks: &mut Bookmarks<'_>,
    place: &Place,
    index: usize,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    mut give: impl FnMut(Segment),
) {
    let spans = graph.spans(place.thread);
    let Some(span) = spans.get(index) else { return };
    match span.doing {
        Doing::Running { cpu, interrupts_ns } => {
            let stolen = graph.stolen(cpu);
            let basis =
                if graph.losses().hide_a_stay_on(cpu, from, to) { Basis::Ambiguous } else { Basis::Measured };
            for (from, to, taken) in stolen.parts(from, to) {
                if taken {
                    give(taken_away(place, from, to));
                    continue;
                }
                let middle = to.minus(borrowed(&span, interrupts_ns, stolen, from, to));
                give(place.segment(from, middle, Kind::Running, Cause::None, basis));
                let inferred = Basis::Inferred(Rule::InterruptsInSum);
                give(place.segment(middle, to, Kind::Interrupted, Cause::None, inferred));
            }
        }
        Doing::Runnable { cpu } => match early(graph, spans, index) {
            // The waking before the switch-out counts because no other was seen; one may be lost.
            true if graph.losses().touch(span.from, span.to) => {
                give(place.segment(from, to, Kind::Unknown, Cause::Lost, Basis::Ambiguous));
            }
            early => {
                let basis = if graph.losses().hide_a_stay(span.from, span.to) {
                    Basis::Ambiguous
                } else if early {
                    Basis::Inferred(Rule::WakingBeforeSwitch)
                } else {
                    Basis::Measured
                };
                let cpu = if cpu == Cpu::UNKNOWN { last_cpu(spans, index) } else { cpu };
                for stay in bookmarks.stays(cpu, from, to) {
                    let cause = competitor(graph, place.thread, stay.occupant, stay.from, stay.to);
                    let basis = if stay.occupant == Occupant::Unknown { Basis::Ambiguous } else { basis };
                    // An idle CPU that is ready and does not run is not idle: somebody else has it.
                    let idle = stay.occupant == Occupant::Idle;
                    for (from, to, taken) in graph.stolen(cpu).parts(stay.from, stay.to) {
                        give(match taken && idle {
                            true => taken_away(place, from, to),
                            false => place.segment(from, to, Kind::Runnable, cause.clone(), basis),
                        });
                    }
                }
            }
        },
        Doing::Throttled { .. } => {
            let basis = if graph.losses().hide_a_stay(span.from, span.to) {
                Basis::Ambiguous
            } else {
                Basis::Measured
            };
            give(place.segment(from, to, Kind::Throttled, Cause::None, basis));
        }
        Doing::Unknown(Seen::NotYet) => {
            give(place.segment(from, to, Kind::Unknown, Cause::BeforeRecording, Basis::Measured));
        }
        Doing::Unknown(Seen::Lost) => {
            give(place.segment(from, to, Kind::Unknown, Cause::Lost, Basis::Ambiguous));
        }
        Doing::Blocked(_) => {}
    }
}

/// What the hypervisor took.
fn taken_away(place: &Place, from: Stamp<Reference>, to: Stamp<Reference>) -> Segment {
    place.segment(from, to, Kind::Stolen, Cause::None, Basis::Inferred(Rule::StolenBefore))
}

/// How much of a part of a stay interrupts took: as large a share of their sum as the part is of
/// the stay, without what the hypervisor took. Parts next to each other add up to what both together have.
fn borrowed(
    span: &Span,
    interrupts_ns: u32,
    stolen: &Stolen,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> u64 {
    if interrupts_ns == 0 {
        return 0;
    }
    let before = stolen.until(span.from);
    let left_until = |at: Stamp<Reference>| u128::from(at.since(span.from) - (stolen.until(at) - before));
    let stay = left_until(span.to);
    if stay == 0 {
        return 0;
    }
    let interrupts = u128::from(interrupts_ns).min(stay);
    let until = |at: Stamp<Reference>| left_until(at) * interrupts / stay;
    // At most what was asked about, since interrupts took at most the stay.
    (until(to) - until(from)) as u64
}

/// Whether a runnable span follows a wait whose waking came before its switch-out.
fn early(graph: &Graph, spans: Spans<'_>, index: usize) -> bool {
    let Some(before) = index.checked_sub(1).and_then(|before| spans.get(before)) else { return false };
    match graph.wait(&before).map(|wait| wait.end) {
        Some(Waker::Woken { at, .. }) => at < before.from || (at == before.from && before.from == before.to),
        _ => false,
    }
}

/// Where a thread that waits for a CPU until the recording ends ran before.
fn last_cpu(spans: Spans<'_>, index: usize) -> Cpu {
    (0..index)
        .rev()
        .take(4)
        .find_map(|before| match spans.get(before)?.doing {
            Doing::Running { cpu, .. } | Doing::Throttled { cpu } => Some(cpu),
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
        Occupant::Unknown if graph.losses().touch(from, to) => Cause::Lost,
        Occupant::Unknown => Cause::BeforeRecording,
    }
}

//! Finds a path's problems.

use std::collections::BTreeSet;

use wakepath_event::{Call, LostRecords};
use wakepath_wait_graph::{Graph, Loss};

use crate::{Basis, Cause, Problem, ProblemKind, Rule, Segment, Share, Wait, WaitId, Window};

/// A path's problems.
pub(crate) fn problems(graph: &Graph, window: &Window, segments: &[Segment], waits: &[Wait]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let thread = Some(window.thread);
    let share = |belongs: &dyn Fn(&Segment) -> bool| {
        let parts = segments.iter().filter(|segment| belongs(segment));
        let ns = parts.map(|segment| segment.to.since(segment.from)).sum();
        Share { ns, of_ns: window.to.since(window.from) }
    };
    let unexplained = |cause: Cause| share(&|segment| segment.cause == cause);
    let host = graph.thread(window.thread).tid().host();
    if window.from < graph.from() || window.to > graph.end_of(host) {
        let kind = ProblemKind::WindowOutside;
        problems.push(Problem { kind, from: window.from, to: window.to, thread });
    }
    let (reported, unrecorded): (Vec<&Loss>, Vec<&Loss>) =
        graph.losses().overlapping(window.from, window.to).partition(|loss| loss.reported);
    let (evidence, reported): (Vec<&Loss>, Vec<&Loss>) =
        reported.into_iter().partition(|loss| loss.records.is_evidence_alone());
    let [sockets, requests] = [LostRecords::Sockets, LostRecords::DiskRequests]
        .map(|records| evidence.iter().copied().filter(|loss| loss.records == records).collect::<Vec<_>>());
    let none = Share { ns: 0, of_ns: window.to.since(window.from) };
    let records_lost = |losses: &[&Loss], unexplained| ProblemKind::RecordsLost {
        of: losses.first().map_or(LostRecords::Any, |first| {
            let alike = losses.iter().all(|loss| loss.records == first.records);
            if alike { first.records } else { LostRecords::Any }
        }),
        records: losses.iter().map(|loss| loss.count).fold(0, u64::saturating_add),
        or_more: losses.iter().any(|loss| loss.count == 0),
        places: losses.len() as u64,
        unexplained,
    };
    let switches_unrecorded = || ProblemKind::SwitchesUnrecorded {
        switches: unrecorded.len() as u64,
        unexplained: unexplained(Cause::Unrecorded),
    };
    for (losses, kind) in [
        (&reported, &(|| records_lost(&reported, unexplained(Cause::Lost))) as &dyn Fn() -> ProblemKind),
        (&sockets, &|| records_lost(&sockets, none)),
        (&requests, &|| records_lost(&requests, none)),
        (&unrecorded, &switches_unrecorded),
    ] {
        if let (Some(from), Some(to)) =
            (losses.iter().map(|loss| loss.from).min(), losses.iter().map(|loss| loss.to).max())
        {
            let (from, to) = (from.max(window.from), to.min(window.to));
            problems.push(Problem { kind: kind(), from, to, thread: None });
        }
    }
    problems.extend(io_uring(window, segments, waits));
    let of_basis = |basis: Basis, kind: fn(Share) -> ProblemKind| {
        let has_it = |segment: &&Segment| segment.basis == basis;
        let (first, last) = (segments.iter().find(has_it)?, segments.iter().rfind(has_it)?);
        let kind = kind(share(&|segment| segment.basis == basis));
        Some(Problem { kind, from: first.from, to: last.to, thread })
    };
    problems.extend(of_basis(Basis::Ambiguous, ProblemKind::Ambiguous));
    problems.extend(of_basis(Basis::Inferred(Rule::PerhapsLate), ProblemKind::PerhapsLate));
    problems
}

/// The ended waits for any request of an io_uring, if no worker's time shows which: ended by a thread, or by another cause,
/// which then has segments.
fn io_uring(window: &Window, segments: &[Segment], waits: &[Wait]) -> Option<Problem> {
    let is_uring = |call: Option<Call>| call.is_some_and(|call| call.number == Call::IO_URING_ENTER);
    let is_request = |call: Option<Call>| call.is_some_and(|call| Call::requested(call.number).is_some());
    let of_segments =
        segments.iter().filter(|segment| is_request(segment.call)).map(|segment| segment.parent);
    let of_waits = waits.iter().filter(|wait| is_request(wait.call)).map(|wait| wait.parent);
    let known: BTreeSet<WaitId> = of_segments.chain(of_waits).flatten().collect();
    let by_threads = (0..).map(WaitId).zip(waits);
    let by_threads =
        by_threads.filter(|(id, wait)| is_uring(wait.call) && !wait.goes_on && !known.contains(id));
    let mut all: Vec<_> = by_threads.map(|(_, wait)| (wait.from, wait.to)).collect();
    let ended = |segment: &&Segment| !segment.goes_on && segment.cause != Cause::StillWaiting;
    for segment in segments.iter().filter(|segment| is_uring(segment.call)).filter(ended) {
        match all.last_mut() {
            // A late interrupt cuts a wait into parts; between two waits, the thread runs.
            Some((_, to)) if *to == segment.from => *to = segment.to,
            _ => all.push((segment.from, segment.to)),
        }
    }
    let (from, to) = (all.iter().map(|(from, _)| *from).min()?, all.iter().map(|(_, to)| *to).max()?);
    let kind = ProblemKind::IoUring { waits: all.len() as u64 };
    Some(Problem { kind, from, to, thread: Some(window.thread) })
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_wait_graph::{Builder, ThreadIndex};

    use super::*;

    #[test]
    fn an_io_uring_wait_lacks_its_request_unless_a_worker_did_it() {
        const REQUEST: u32 = 74 | Call::REQUEST;
        for (call, is_known) in [(format!(" call={REQUEST}:0x80000007"), true), (String::new(), false)] {
            let trace = format!(
                "thread A tid=10
                 thread W tid=11 tgid=10 blocked
                 0 c0 idle switch A
                 90 c0 A waking W
                 90 c1 idle switch W
                 100 c0 A switch idle blocked call=426:0x5
                 120 c1 W switch idle blocked{call}
                 200 c1 idle/timer waking W
                 200 c1 idle switch W
                 210 c1 W waking A
                 210 c0 idle switch A"
            );
            let mut builder = Builder::default();
            for event in &wakepath_scenario::text::parse(&trace).expect("a trace").events {
                builder.push(event);
            }
            let graph = builder.finish();
            let [from, to] = [0, 210].map(Stamp::from_ns);
            let path = crate::active(&graph, Window { thread: ThreadIndex(0), from, to });
            let kinds: Vec<_> = path.problems.into_iter().map(|problem| problem.kind).collect();
            assert_eq!(!kinds.contains(&ProblemKind::IoUring { waits: 1 }), is_known, "{kinds:?}");
        }
    }

    #[test]
    fn an_io_uring_wait_that_a_late_timer_cuts_into_parts_counts_once() {
        let trace = "thread A tid=10
             0 c0 idle switch A
             20 c0 A switch idle blocked call=426:0x5
             90 c0 idle stolen 38
             91 c0 idle/timer waking A
             95 c0 idle switch A
             120 c0 A switch idle blocked call=426:0x5
             200 c0 idle/timer waking A
             200 c0 idle switch A";
        let mut builder = Builder::default();
        for event in &wakepath_scenario::text::parse(trace).expect("a trace").events {
            builder.push(event);
        }
        let graph = builder.finish();
        let window = |to| Window { thread: ThreadIndex(0), from: Stamp::from_ns(0), to: Stamp::from_ns(to) };
        for (to, waits) in [(110, 1), (200, 2)] {
            let problems = crate::active(&graph, window(to)).problems;
            let kinds: Vec<_> = problems.into_iter().map(|problem| problem.kind).collect();
            assert_eq!(kinds, [ProblemKind::IoUring { waits }]);
        }
    }
}

//! The beginning of every answer: host, clock, problems and losses.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::HostIndex;
use wakepath_wait_graph::Loss;

use crate::{Cost, Head, Problem, ProblemKind, Recorded, clocks, problem};

/// The head for an answer about the time between `from` and `to`.
pub(crate) fn head(recorded: &Recorded, from: Stamp<Reference>, to: Stamp<Reference>) -> Head {
    let mut problems = recorded.problems.clone();
    problems.extend(recorded.hosts().flat_map(|(host, _)| host_problems(recorded, host, from, to)));
    problem::sort(&mut problems);
    let origin = recorded.from();
    // Each host counts its own CPUs.
    let own = |loss: &Loss| {
        let Some(numbering) = &recorded.numbering else { return (Some(HostIndex::default()), *loss) };
        let whose = numbering.cpu_of(loss.cpu);
        (whose.map(|(host, _)| host), Loss { cpu: whose.map_or(loss.cpu, |(_, cpu)| cpu), ..*loss })
    };
    let (loss_hosts, losses) = recorded.graph.losses().overlapping(from, to).map(own).unzip();
    Head {
        host: recorded.host.clone(),
        others: recorded.others.clone(),
        clock: recorded.clock,
        origin,
        origin_realtime_ns: recorded.realtime(origin),
        clock_error_ns: recorded.clock_error(None, from, to),
        problems,
        losses,
        loss_hosts,
        cost: Cost::of(recorded),
    }
}

/// The problems of a host's clocks between `from` and `to`, and at the end of its recording.
fn host_problems(
    recorded: &Recorded,
    host: HostIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<Problem> {
    let shows_steal = recorded.survey.steal.contains(&host);
    let own = |at: Stamp<Local>| recorded.own_stamp(host, at.on_reference_host());
    let mut problems = clocks::problems(recorded.survey.clocks_of(host), own, shows_steal, from, to);
    if recorded.is_cut_off(host) {
        let end = recorded.graph.end_of(host);
        problems.push(Problem::new(ProblemKind::CutOff, end, end));
    }
    if host != HostIndex::default() {
        for problem in &mut problems {
            let kind = Box::new(problem.kind.clone());
            problem.kind = ProblemKind::OneOfSeveral(recorded.source_of(host).clone(), kind);
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use wakepath_event::{Clocks, EventKind, Mark};
    use wakepath_loaded::testing::{event, read};
    use wakepath_loaded::{OtherHost, Session};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Readings at 0 and 1 s: the gains of boottime, realtime and steal in that second.
    fn clocks([boottime_ns, realtime_ns, steal_ns]: [u64; 3]) -> Vec<(Stamp<Local>, Clocks)> {
        let read = |at, [boottime_ns, realtime_ns, steal_ns]: [u64; 3]| {
            (Stamp::from_ns(at), Clocks { boottime_ns, realtime_ns, steal_ns })
        };
        vec![read(0, [0, 0, 0]), read(SECOND, [boottime_ns, realtime_ns, steal_ns])]
    }

    /// The problems in an answer about two hosts; the second has these clocks and this session.
    fn problems(of_second: OtherHost, shows_steal: bool) -> Vec<ProblemKind> {
        let marks = [(0, Mark::Started), (SECOND, Mark::Stopped)];
        let mut recorded = read(&marks.map(|(at, mark)| event(at, 0, 0, EventKind::Mark(mark))));
        recorded.survey.clocks = clocks([SECOND, SECOND, 0]);
        recorded.survey.others = vec![of_second];
        recorded.survey.steal.extend(shows_steal.then_some(HostIndex(1)));
        recorded.others = vec![recorded.host.clone()];
        recorded.sources = ["a.rec", "b.rec"].map(PathBuf::from).to_vec();
        let problems = head(&recorded, Stamp::MIN, Stamp::from_ns(SECOND)).problems;
        problems.into_iter().map(|problem| problem.kind).collect()
    }

    #[test]
    fn the_clocks_of_the_second_host_and_the_end_of_its_recording_are_problems_as_those_of_the_first_are() {
        let [started, stopped] = [0, SECOND].map(|at| Some(Stamp::from_ns(at)));
        let whole = Session { started, stopped, ..Session::default() };
        let cut_off = Session { started, ..Session::default() };
        let steady = [SECOND, SECOND, 0];
        for (gains, session, shows_steal, expected) in [
            (steady, &whole, false, None),
            ([SECOND, 5 * SECOND, 0], &whole, false, Some(ProblemKind::ClockSet(4 * i128::from(SECOND)))),
            ([3 * SECOND, SECOND, 0], &whole, false, Some(ProblemKind::Suspended(2 * SECOND))),
            ([SECOND, SECOND, SECOND / 2], &whole, false, Some(ProblemKind::Stolen(SECOND / 2))),
            // A segment shows it.
            ([SECOND, SECOND, SECOND / 2], &whole, true, None),
            (steady, &cut_off, false, Some(ProblemKind::CutOff)),
        ] {
            let of_second = OtherHost { clocks: clocks(gains), session: session.clone() };
            let expected = expected.map(|kind| ProblemKind::OneOfSeveral("b.rec".into(), Box::new(kind)));
            assert_eq!(problems(of_second, shows_steal), Vec::from_iter(expected), "{gains:?}");
        }
    }
}

//! The beginning of every answer: host, clock, problems and losses.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::HostIndex;
use wakepath_wait_graph::Loss;

use crate::{Cost, Head, Problem, ProblemKind, Recorded, clocks, problem};

/// The head of an answer about the time between `from` and `to`.
pub(crate) fn head(recorded: &Recorded, from: Stamp<Reference>, to: Stamp<Reference>) -> Head {
    let mut problems = recorded.problems.clone();
    problems.extend(clocks::problems(&recorded.survey.clocks, recorded.survey.counts.tell_steal(), from, to));
    if recorded.cut_off() {
        let end = recorded.graph.to();
        problems.push(Problem::new(ProblemKind::CutOff, end, end));
    }
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

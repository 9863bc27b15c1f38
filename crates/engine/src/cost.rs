//! The recording's cost: the recorder's own CPU time, and its kernel programs' time in other threads.

use wakepath_event::{CostKind, KernelCost};
use wakepath_loaded::Counts;
use wakepath_wait_graph::{Occupant, ThreadState};

use crate::Recorded;

/// The recording's cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// CPU time used by the recorder's own threads on all hosts, ns.
    pub observer_ns: u64,
    /// The recording's length, ns.
    pub over_ns: u64,
    /// The cost in the kernel; `None` where the recorder did not measure it.
    pub in_kernel: Option<CostInKernel>,
}

/// The CPU time taken from the recorded threads by the recorder's programs in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostInKernel {
    /// The least total, ns.
    pub from_ns: u64,
    /// The most, ns; `None` if a part was not measured. At most all CPUs' time.
    pub to_ns: Option<u64>,
    /// CPU time used by all threads but the recorder's, this cost included, ns.
    pub running_ns: u64,
    /// The parts by kind of work, only occurring kinds; they add up to the least and, below the limit, to the most.
    pub by_kind: Vec<CostOfKind>,
}

/// The cost by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostOfKind {
    /// A single execution's cost, as measured by the recorder.
    pub each: KernelCost,
    /// The number of executions.
    pub count: u64,
}

impl CostOfKind {
    /// The least time in all, ns.
    pub const fn from_ns(&self) -> u64 {
        self.each.from_ns.saturating_mul(self.count)
    }

    /// The most time in all, ns.
    pub fn to_ns(&self) -> Option<u64> {
        self.each.to_ns.map(|to_ns| to_ns.saturating_mul(self.count))
    }
}

impl Cost {
    /// A recording's cost; `None` if no recorder thread is noted, or the recording has no length.
    pub(crate) fn of(recorded: &Recorded) -> Option<Self> {
        let (from, to) = (recorded.from(), recorded.to());
        let observers = recorded.survey.observers();
        if observers.is_empty() || to <= from {
            return None;
        }
        let threads = observers.iter().flat_map(|&tid| recorded.with_tid(tid));
        let running = threads
            .flat_map(|&index| recorded.graph.state_intervals(index).overlapping(from, to))
            .filter_map(|interval| {
                let ran = matches!(interval.state, ThreadState::Running { .. });
                ran.then(|| interval.to.min(to).since(interval.from.max(from)))
            });
        let observer_ns = running.fold(0, u64::saturating_add);
        let over_ns = to.since(from);
        Some(Self { observer_ns, over_ns, in_kernel: CostInKernel::of(recorded, observer_ns, over_ns) })
    }
}

impl CostInKernel {
    /// `None` for several hosts, since events are not counted by host.
    fn of(recorded: &Recorded, observer_ns: u64, over_ns: u64) -> Option<Self> {
        let costs = &recorded.survey.costs;
        if costs.is_empty() || recorded.numbering.is_some() {
            return None;
        }
        let count =
            |cost: &KernelCost| cost.count.unwrap_or_else(|| records(&recorded.survey.counts, cost.kind));
        let by_kind = costs.values().map(|cost| CostOfKind { each: *cost, count: count(cost) });
        let by_kind: Vec<_> = by_kind.filter(|part| part.count > 0).collect();
        let graph = &recorded.graph;
        let cpus = graph.cpus().count() as u64;
        let occupancies = graph.cpus().flat_map(|cpu| graph.occupancies(cpu, recorded.from(), recorded.to()));
        let busy = occupancies.filter(|occupancy| matches!(occupancy.occupant, Occupant::Thread(_)));
        let busy = busy.map(|occupancy| occupancy.to.since(occupancy.from)).fold(0, u64::saturating_add);
        let all_cpus = over_ns.saturating_mul(cpus);
        let from_ns = by_kind.iter().map(CostOfKind::from_ns).fold(0, u64::saturating_add);
        let to_ns = by_kind.iter().map(CostOfKind::to_ns);
        let to_ns = to_ns.reduce(|sum, part| Some(sum?.saturating_add(part?))).unwrap_or(Some(0));
        Some(Self {
            from_ns: from_ns.min(all_cpus),
            to_ns: to_ns.map(|to_ns| to_ns.min(all_cpus)),
            running_ns: busy.saturating_sub(observer_ns),
            by_kind,
        })
    }

    /// The extra running time, as shares of the time without the cost: the least, and the most where known. `None`
    /// where nothing ran, or the cost is not below the running time: no share is right then.
    pub fn longer(&self) -> Option<(f64, Option<f64>)> {
        let share = |cost: u64| {
            let rest = self.running_ns.checked_sub(cost).filter(|&rest| rest > 0)?;
            Some(cost as f64 / rest as f64)
        };
        let most = match self.to_ns {
            Some(to_ns) => Some(share(to_ns)?),
            None => None,
        };
        Some((share(self.from_ns)?, most))
    }
}

/// The number of records of this kind. Records written along the way by another kind's program, such as stacks and
/// file names, are in the other kind's cost.
fn records(counts: &Counts, kind: CostKind) -> u64 {
    let names: &[&str] = match kind {
        CostKind::Switch => &["switch"],
        CostKind::Waking => &["waking"],
        CostKind::Packet => &["packet"],
        CostKind::Sample => &["sample"],
        CostKind::Call => &["function"],
        CostKind::Softirq | CostKind::Interrupt => &[],
        CostKind::Other => &[
            "fork",
            "exec",
            "exit",
            "rename",
            "move",
            "refill",
            "block_issue",
            "block_complete",
            "lock_begin",
            "lock_end",
            "signal",
        ],
    };
    let by_name = counts.by_name();
    names.iter().filter_map(|name| by_name.get(name)).fold(0, |sum, count| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_clock::Stamp;
    use wakepath_event::{CallEnd, EventKind, FunctionCall, Mark, SwitchOut, Tid};
    use wakepath_loaded::testing::{event, read};
    use wakepath_loaded::{OtherHost, Session};
    use wakepath_timeline::Numbering;

    fn cost(kind: CostKind, count: Option<u64>, from_ns: u64, to_ns: Option<u64>) -> EventKind {
        EventKind::KernelCost(KernelCost { kind, count, from_ns, to_ns })
    }

    /// A single CPU: the recorder (7) runs 0 to 1 µs, thread 3 to 5 µs, then nothing until 10 µs. Three switches.
    fn recorded(more: &[EventKind]) -> Recorded {
        let mut events = [Mark::Started, Mark::Observer(Tid(7))]
            .map(|mark| event(0, 0, 0, EventKind::Mark(mark)))
            .to_vec();
        let switch = |at, from, next, out| {
            event(at, 0, from, EventKind::Switch { next: Tid(next), out, interrupts_ns: 0, call: None })
        };
        events.push(event(0, 0, 7, EventKind::Current));
        events.push(switch(1_000, 7, 3, SwitchOut::Runnable));
        events.push(switch(5_000, 3, 0, SwitchOut::Runnable));
        events.push(switch(9_999, 0, 3, SwitchOut::Runnable));
        events.extend(more.iter().map(|kind| event(10_000, 0, 3, kind.clone())));
        read(&events)
    }

    fn in_kernel(more: &[EventKind]) -> CostInKernel {
        Cost::of(&recorded(more)).expect("there are observers").in_kernel.expect("there are costs")
    }

    #[test]
    fn the_cost_is_counts_times_costs_and_its_parts_add_up() {
        let found = in_kernel(&[
            cost(CostKind::Switch, None, 100, Some(150)),
            cost(CostKind::Softirq, Some(2), 40, Some(60)),
            cost(CostKind::Sample, None, 5_000, Some(9_000)),
        ]);
        assert_eq!((found.from_ns, found.to_ns), (3 * 100 + 2 * 40, Some(3 * 150 + 2 * 60)));
        let parts =
            found.by_kind.iter().map(|part| (part.each.kind, part.count, part.from_ns(), part.to_ns()));
        assert_eq!(
            parts.collect::<Vec<_>>(),
            [(CostKind::Switch, 3, 300, Some(450)), (CostKind::Softirq, 2, 80, Some(120))],
            "no part for samples, since there are none"
        );
        assert_eq!(found.running_ns, 4_001, "not the recorder's, not the idle thread's");
        let (least, most) = found.longer().expect("a share");
        assert_eq!((least, most), (380.0 / 3_621.0, Some(570.0 / 3_431.0)));
    }

    #[test]
    fn the_last_cost_of_a_kind_counts() {
        let found = in_kernel(&[
            cost(CostKind::Softirq, Some(1), 40, Some(60)),
            cost(CostKind::Softirq, Some(5), 41, Some(61)),
        ]);
        assert_eq!((found.from_ns, found.to_ns), (205, Some(305)));
    }

    #[test]
    fn a_cost_that_is_not_known_makes_the_most_unknown_only_if_it_occurred() {
        let call = cost(CostKind::Call, None, 10, None);
        let switch = cost(CostKind::Switch, None, 100, Some(150));
        assert_eq!(in_kernel(&[call.clone(), switch.clone()]).to_ns, Some(450));
        let called =
            FunctionCall { target: 0, thread: Tid(3), from: Stamp::from_ns(9_999), end: CallEnd::Returned };
        let found = in_kernel(&[call, switch, EventKind::Function(called)]);
        assert_eq!((found.from_ns, found.to_ns), (310, None));
        assert!(matches!(found.longer(), Some((least, None)) if least > 0.0));
    }

    #[test]
    fn absurd_costs_never_exceed_the_time_of_all_cpus() {
        let found = in_kernel(&[
            cost(CostKind::Switch, None, u64::MAX - 1, Some(u64::MAX - 1)),
            cost(CostKind::Softirq, Some(u64::MAX - 1), u64::MAX - 1, Some(u64::MAX - 1)),
        ]);
        assert_eq!((found.from_ns, found.to_ns), (10_000, Some(10_000)));
        assert_eq!(found.longer(), None, "more than ran");
    }

    #[test]
    fn a_cost_that_is_all_of_the_running_time_has_no_share() {
        let shares = |from_ns, to_ns, running_ns| {
            CostInKernel { from_ns, to_ns, running_ns, by_kind: Vec::new() }.longer()
        };
        assert_eq!(shares(100, Some(100), 100), None, "no number is the share of nothing");
        assert_eq!(shares(50, Some(100), 100), None);
        assert_eq!(shares(100, None, 100), None);
        assert_eq!(shares(50, Some(99), 100), Some((1.0, Some(99.0))));
        assert_eq!(shares(50, None, 100), Some((1.0, None)));
    }

    #[test]
    fn the_cost_of_a_kind_stays_at_the_largest_number() {
        let part = |from_ns, to_ns, count| CostOfKind {
            each: KernelCost { kind: CostKind::Switch, count: None, from_ns, to_ns },
            count,
        };
        let large = part(1 << 40, Some(1 << 41), 1 << 30);
        assert_eq!((large.from_ns(), large.to_ns()), (u64::MAX, Some(u64::MAX)));
        let small = part(3, Some(4), 5);
        assert_eq!((small.from_ns(), small.to_ns()), (15, Some(20)));
        assert_eq!(part(3, None, 5).to_ns(), None);
    }

    #[test]
    fn a_recording_without_costs_has_no_cost_in_the_kernel() {
        let cost = Cost::of(&recorded(&[])).expect("there are observers");
        assert_eq!((cost.observer_ns, cost.in_kernel), (1_000, None));
    }

    #[test]
    fn a_recording_of_several_hosts_has_no_cost_in_the_kernel() {
        let mut recorded = recorded(&[cost(CostKind::Switch, None, 100, Some(150))]);
        assert!(Cost::of(&recorded).is_some_and(|cost| cost.in_kernel.is_some()));
        recorded.numbering = Some(Numbering::default());
        assert!(
            Cost::of(&recorded).is_some_and(|cost| cost.in_kernel.is_none()),
            "events of all, costs of one"
        );
    }

    #[test]
    fn the_recorders_of_all_hosts_take_time() {
        let mut recorded = recorded(&[]);
        // The thread that runs from 1 to 5 µs.
        let session = Session { observers: [Tid(3)].into(), ..Session::default() };
        recorded.survey.others = vec![OtherHost { session, ..OtherHost::default() }];
        assert_eq!(Cost::of(&recorded).expect("there are observers").observer_ns, 1_000 + 4_000);
        recorded.survey.session.observers.clear();
        assert_eq!(Cost::of(&recorded).expect("there are observers").observer_ns, 4_000);
    }

    #[test]
    fn observers_may_have_taken_longer_than_fits() {
        let marks = [Mark::Started, Mark::Observer(Tid(7)), Mark::Observer(Tid(8))];
        let mut events = marks.map(|mark| event(0, 0, 0, EventKind::Mark(mark))).to_vec();
        for at in [1, u64::MAX] {
            events.extend([7, 8].map(|tid| event(at, tid as u16, tid, EventKind::Current)));
        }
        events.push(event(u64::MAX, 0, 0, cost(CostKind::Switch, Some(1), 1, Some(2))));
        let recorded = read(&events);
        let cost = Cost::of(&recorded).expect("there are observers");
        assert_eq!((cost.observer_ns, cost.over_ns), (u64::MAX, u64::MAX));
        assert_eq!(cost.in_kernel.expect("a cost").running_ns, 0);
    }
}

//! The cost of recording, as sentences: the recorder's own time, and the extra running time of threads.

use wakepath_engine::{Cost, CostInKernel, CostOfKind, Head};

use crate::units::{duration, duration_range, percent_least, percent_range, percent_text};
use crate::wording;

/// A recording's cost; `None` if the recorder's threads are not known.
pub fn cost(head: &Head) -> Option<String> {
    let cost = head.cost.as_ref().filter(|cost| cost.over_ns > 0)?;
    Some(sentence(cost, !head.others.is_empty()))
}

/// The sentence for a cost, in a recording from several hosts or from a single host.
pub fn sentence(cost: &Cost, of_several_hosts: bool) -> String {
    let Cost { observer_ns, over_ns, in_kernel } = cost;
    let own = format!("recording took {} of a CPU itself", percent_text(*observer_ns, *over_ns));
    match in_kernel {
        Some(in_kernel) => format!("{own}; {}", longer(in_kernel)),
        // The cost is the first host's alone.
        None if of_several_hosts => own,
        None => format!("{own}; how much longer threads ran for it was not measured"),
    }
}

/// The extra running time: `threads ran 9 to 13% longer for it (160 to 210 ms)`.
fn longer(cost: &CostInKernel) -> String {
    let time = match cost.to_ns {
        Some(to_ns) => duration_range(cost.from_ns, to_ns),
        None => format!("at least {}", duration(cost.from_ns)),
    };
    match cost.longer() {
        Some((least, Some(most))) => {
            format!("threads ran {} longer for it ({time})", percent_range(least, most))
        }
        Some((least, None)) => {
            format!("threads ran at least {} longer for it ({time})", percent_least(least))
        }
        None => format!("threads ran {time} longer for it"),
    }
}

/// The parts of the cost in the kernel, a line for each kind of work, largest first:
/// `switches          1400219  118 to 165 ns each     170 to 240 ms`.
pub fn parts(head: &Head) -> Vec<String> {
    let Some(in_kernel) = head.cost.as_ref().and_then(|cost| cost.in_kernel.as_ref()) else {
        return Vec::new();
    };
    let mut parts = in_kernel.by_kind.clone();
    parts.sort_by_key(|part| std::cmp::Reverse((part.from_ns(), part.to_ns())));
    parts.iter().map(line).collect()
}

fn line(part: &CostOfKind) -> String {
    let range = |from_ns, to_ns: Option<u64>| {
        to_ns.map_or_else(|| String::from("not measured"), |to_ns| duration_range(from_ns, to_ns))
    };
    let (each, all) = (range(part.each.from_ns, part.each.to_ns), range(part.from_ns(), part.to_ns()));
    format!("{:<16} {:>11} {each:>20} each {all:>20}", wording::cost_work(part.each.kind), part.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Answered, command};
    use wakepath_event::{CostKind, KernelCost};
    use wakepath_findings::testing::checkout;

    fn said(in_kernel: Option<CostInKernel>) -> String {
        let story = checkout();
        let mut answer = story.answer(command());
        answer.head.cost = Some(Cost { observer_ns: 4_000_000, over_ns: 1_000_000_000, in_kernel });
        cost(&answer.head).expect("a cost")
    }

    fn in_kernel(from_ns: u64, to_ns: Option<u64>, running_ns: u64) -> Option<CostInKernel> {
        Some(CostInKernel { from_ns, to_ns, running_ns, by_kind: Vec::new() })
    }

    #[test]
    fn both_costs_are_always_said() {
        for (in_kernel, expected) in [
            (
                in_kernel(160_400_000, Some(207_000_000), 1_900_000_000),
                "threads ran 9 to 13% longer for it (160 to 210 ms)",
            ),
            (
                in_kernel(300_000, Some(700_000), 900_000_000),
                "threads ran up to 0.1% longer for it (300 to 700 µs)",
            ),
            (
                in_kernel(10_000, Some(19_000), 900_000_000),
                "threads ran less than 0.1% longer for it (10 to 19 µs)",
            ),
            (
                in_kernel(90_000_000, None, 1_000_000_000),
                "threads ran at least 9% longer for it (at least 90.0 ms)",
            ),
            (in_kernel(10, Some(1_000), 1_000), "threads ran up to 1.0 µs longer for it"),
            (None, "how much longer threads ran for it was not measured"),
        ] {
            assert_eq!(said(in_kernel), format!("recording took 0.4% of a CPU itself; {expected}"));
        }
    }

    #[test]
    fn only_the_recorders_own_time_is_known_for_several_hosts() {
        let story = checkout();
        let mut answer = story.answer(command());
        answer.head.others = vec![answer.head.host.clone()];
        answer.head.cost = Some(Cost { observer_ns: 4_000_000, over_ns: 1_000_000_000, in_kernel: None });
        assert_eq!(cost(&answer.head).as_deref(), Some("recording took 0.4% of a CPU itself"));
        answer.head.cost = None;
        assert_eq!(cost(&answer.head), None);
    }

    #[test]
    fn the_parts_are_listed_by_size_and_one_without_a_limit_says_so() {
        let story = checkout();
        let mut answer = story.answer(command());
        let part = |kind, count, from_ns, to_ns| CostOfKind {
            each: KernelCost { kind, count: None, from_ns, to_ns },
            count,
        };
        let by_kind = vec![
            part(CostKind::Call, 3, 60, None),
            part(CostKind::Switch, 1_400_000, 118, Some(165)),
            part(CostKind::Waking, 1_400_000, 98, Some(140)),
        ];
        let in_kernel = CostInKernel { from_ns: 1, to_ns: None, running_ns: 1, by_kind };
        answer.head.cost = Some(Cost { observer_ns: 1, over_ns: 1, in_kernel: Some(in_kernel) });
        assert_eq!(
            parts(&answer.head),
            [
                "switches             1400000        110 to 170 ns each        160 to 240 ms",
                "wake-ups             1400000         90 to 140 ns each        130 to 200 ms",
                "calls                      3         not measured each         not measured",
            ]
        );
    }
}

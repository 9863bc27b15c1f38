//! Local timer ticks in a peak's calls (Traeger 2008, section 7.1).
//!
//! The kernel measures the handler's time alone. The way into the interrupt and back, the work that it put off (softirqs), and on a virtual
//! machine the hypervisor's part are not in it: they count as the function's own time, and are often longer. So the answer also counts the
//! calls hit by a tick. By chance, a tick hits only few calls if they are much shorter than its period.

use wakepath_collect::DrillCall;

/// The local timer's vector: `LOCAL_TIMER` in `bpf/drill.bpf.c`.
const LOCAL_TIMER: u32 = 236;
/// The shortest tick period in any kernel (`CONFIG_HZ=1000`), ns.
const SHORTEST_PERIOD: u64 = 1_000_000;
/// Calls of at most a tenth of the period are hit by chance in at most a tenth of all cases.
const BY_CHANCE: u64 = 10;
/// The fewest calls for a share.
const MIN_CALLS: u64 = 10;
/// A tick hit at least a third of the calls: over three times the share by chance.
const HIT_OF: u64 = 3;

/// The measured calls, and the calls hit by a tick.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    calls: u64,
    latency_ns: u64,
    hit: u64,
    handler_ns: u64,
}

impl Ticks {
    /// Counts a call.
    pub fn add(&mut self, call: &DrillCall) {
        let ticks = || call.nodes.iter().filter(|node| node.longest == (LOCAL_TIMER, node.longest.1));
        let ns = ticks().filter(|node| node.longest.1 > 0).map(|node| node.interrupted).sum::<u64>();
        self.calls += 1;
        self.latency_ns = self.latency_ns.saturating_add(call.latency);
        self.hit += u64::from(ns > 0);
        self.handler_ns = self.handler_ns.saturating_add(ns);
    }

    /// A sentence, if far more calls were hit by a tick than by chance.
    pub fn sentence(&self) -> Option<String> {
        let mean = self.latency_ns.checked_div(self.calls)?;
        let is_short = mean.saturating_mul(BY_CHANCE) <= SHORTEST_PERIOD;
        if self.calls < MIN_CALLS || !is_short || self.hit * HIT_OF < self.calls {
            return None;
        }
        Some(format!(
            "the local timer interrupted {} of the {} measured calls, and would by chance at most one in {}; its handler took {} of {} a call, and the way there and back counts as the function's own time",
            self.hit,
            self.calls,
            SHORTEST_PERIOD / mean.max(1),
            microseconds(self.handler_ns / self.hit),
            microseconds(mean),
        ))
    }
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:02} µs", ns / 1000, ns % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use wakepath_collect::DrillNode;

    use super::*;

    /// Calls with this latency, the first `hit` interrupted for 2.7 µs.
    fn calls(number: u64, hit: u64, latency: u64, interrupt: u32) -> Option<String> {
        let mut ticks = Ticks::default();
        for call in 0..number {
            let ns = if call < hit { 2_700 } else { 0 };
            let of_callee =
                DrillNode { node: 1, interrupted: ns, longest: (interrupt, ns), ..DrillNode::default() };
            let nodes = vec![DrillNode::default(), of_callee];
            ticks.add(&DrillCall { latency, nodes, ..DrillCall::default() });
        }
        ticks.sentence()
    }

    #[test]
    fn a_peak_of_calls_that_ticks_hit_is_said_to_be_that() {
        assert_eq!(
            calls(20, 19, 30_450, LOCAL_TIMER).as_deref(),
            Some(
                "the local timer interrupted 19 of the 20 measured calls, and would by chance at most one in 32; its handler took 2.70 µs of 30.45 µs a call, and the way there and back counts as the function's own time"
            )
        );
    }

    #[test]
    fn calls_that_a_tick_hits_by_chance_are_not() {
        assert_eq!(calls(20, 20, 100_001, LOCAL_TIMER), None, "long calls are hit by chance");
        assert!(calls(20, 20, 100_000, LOCAL_TIMER).is_some());
        assert_eq!(calls(21, 6, 30_000, LOCAL_TIMER), None);
        assert!(calls(21, 7, 30_000, LOCAL_TIMER).is_some());
        assert_eq!(calls(9, 9, 30_000, LOCAL_TIMER), None, "few");
        assert!(calls(10, 10, 30_000, LOCAL_TIMER).is_some());
        assert_eq!(calls(20, 20, 30_000, 11), None, "another interrupt has another rate");
        assert_eq!(calls(0, 0, 0, LOCAL_TIMER), None);
    }
}

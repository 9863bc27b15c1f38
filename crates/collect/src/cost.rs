//! The cost of the recorder's programs in the kernel on this machine, measured before a recording begins.
//!
//! 1. Two threads send each other bytes through pipes, then datagrams over the loopback interface, on one CPU:
//!    without the programs and, once they are attached, with them. The difference is the programs' whole cost.
//! 2. The kernel's own statistics for BPF programs, switched on during further round trips, give the time in each
//!    program. The unexplained rest is the *dispatch*: the cost of a call itself.
//! 3. A record costs its program's time and the dispatch. The programs time each 31st switch, here and while
//!    recording; the difference shifts the range of a switch, and extends the other ranges upward, since all programs
//!    meet the same caches.
//! 4. The time for stacks read anew depends on the load alone, and is many times the rest: with `--stacks` the
//!    programs time each read, here and while recording. The rare records' programs (disks, kernel locks, threads),
//!    which the round trips do not meet, time every seventh run while recording.
//!
//! Round trips are made in short slices, and the quick slices count: a neighbour on the same core, or another thread
//! on this CPU, slows a part of the slices down.

mod arithmetic;
mod kept;
mod ping_pong;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

use wakepath_event::KernelCost;

pub(crate) use self::arithmetic::{Costs, Interrupts};
use self::arithmetic::{Deltas, Load, Measured, Slices};
use self::kept::KeptCosts;
use self::ping_pong::{PingPong, Pinned};
use crate::libbpf;
use crate::options::{Options, Stacks};
use crate::programs::Programs;
use crate::rings::Rings;

/// Round trips in a slice, through pipes and over the loopback interface: some 100 µs.
const TRIPS: [u64; 2] = [25, 10];
/// The same with stacks: each place where a thread waits or wakes is met once per round trip, and its stack is read
/// anew every 64th time (`bpf/stack.h`), once in each slice. In shorter slices the quick slices would be those
/// without a read.
const TRIPS_WITH_STACKS: [u64; 2] = [64, 64];
/// Slices per load, without the programs and with them.
const SLICES: [usize; 2] = [80, 40];
/// Slices before the first counted slice, with the programs: stacks are read anew more often at first
/// (`bpf/stack.h`).
const WARM_SLICES: usize = 20;
/// Readings of the statistics, and the slices between two readings.
const GROUPS: usize = 6;
const SLICES_OF_GROUP: usize = 5;
/// A load is cut short after this time, but has some slices in any case.
const MAX_TIME: Duration = Duration::from_millis(20);
const MIN_SLICES: usize = 8;
/// The least ring size for a slice of round trips with stacks, bytes.
const MIN_RING_BYTES: usize = 64 << 10;

/// The programs' costs for a recording's options, before the programs are attached.
pub(crate) struct Forecast(Way);

enum Way {
    /// An earlier recording of this boot measured them.
    Kept(Costs),
    /// They are measured now.
    Measure(Calibration, Option<KeptCosts>),
}

impl Forecast {
    /// Finds the kept costs, or measures without the programs. `None` where nothing is to be measured, or cannot be.
    pub(crate) fn begin(options: &Options) -> Option<Self> {
        options.calibrate.then_some(())?;
        let kept = KeptCosts::of(options);
        let costs = kept.as_ref().and_then(|kept| kept.read(SystemTime::now()));
        let measure = || Some(Way::Measure(Calibration::begin(options.stacks != Stacks::None)?, kept));
        costs.map(Way::Kept).or_else(measure).map(Self)
    }

    /// Measures with the programs, unless kept costs were found: [`Calibration::finish`].
    pub(crate) fn finish(
        self,
        programs: &Programs<'_>,
        sched: &Rings,
        net: &Rings,
        meanwhile: impl FnMut(),
    ) -> Option<Costs> {
        match self.0 {
            Way::Kept(costs) => Some(costs),
            Way::Measure(calibration, kept) => {
                let costs = calibration.finish(programs, sched, net, meanwhile)?;
                if let Some(kept) = kept.filter(|_| costs.is_measured()) {
                    kept.write(&costs);
                }
                Some(costs)
            }
        }
    }
}

/// A calibration after its measurement without the programs.
struct Calibration {
    loads: Vec<(PingPong, u64, Slices)>,
    pinned: Pinned,
}

impl Calibration {
    /// Measures without the programs, for a recording with stacks or without. `None` where the threads cannot be
    /// pinned to a CPU.
    fn begin(stacks: bool) -> Option<Self> {
        let pinned = Pinned::new()?;
        let found = [PingPong::through_pipes().ok()?].into_iter().chain(PingPong::over_loopback().ok());
        let mut loads = Vec::new();
        let trips = if stacks { TRIPS_WITH_STACKS } else { TRIPS };
        for ((mut load, trips), slices) in found.zip(trips).zip(SLICES) {
            // The first round trips fill caches.
            let warm = load.slice(trips).is_some();
            match slices_of(&mut load, trips, slices, || ()).filter(|_| warm) {
                Some(bare) => loads.push((load, trips, bare)),
                // Packets do not pass here.
                None if !loads.is_empty() => {}
                None => return None,
            }
        }
        Some(Self { loads, pinned })
    }

    /// Measures with the programs, which are attached now. `None` where the kernel keeps no statistics, or the
    /// measurement is too noisy to show a cost. The calibration's records are dropped. Calls `meanwhile` behind each
    /// slice.
    fn finish(
        self,
        programs: &Programs<'_>,
        sched: &Rings,
        net: &Rings,
        mut meanwhile: impl FnMut(),
    ) -> Option<Costs> {
        let Self { loads, pinned } = self;
        if sched.size().min(net.size()) < MIN_RING_BYTES {
            return None;
        }
        let mut discard = || {
            sched.discard();
            net.discard();
            meanwhile();
        };
        let mut measured = Vec::new();
        for ((mut load, trips, bare), slices) in loads.into_iter().zip(SLICES) {
            for _ in 0..WARM_SLICES {
                load.slice(trips);
                discard();
            }
            // A late packet on a busy machine does not spoil the rest.
            if let Some(attached) = slices_of(&mut load, trips, slices, &mut discard) {
                measured.push((load, trips, bare, attached));
            }
        }
        let statistics = Statistics::enable().ok()?;
        let timed_before = sched.timed();
        let mut found = Vec::new();
        for (mut load, trips, bare, attached) in measured {
            let mut deltas = Deltas::default();
            for _ in 0..GROUPS {
                let before = programs.runs();
                let mut whole = true;
                for _ in 0..SLICES_OF_GROUP {
                    whole &= load.slice(trips).is_some();
                    discard();
                }
                if whole {
                    deltas.add(&before, &programs.runs(), trips * SLICES_OF_GROUP as u64);
                }
            }
            found.push(Load { bare, attached, deltas });
        }
        drop(statistics);
        drop(pinned);
        discard();
        Costs::new(&found, mean_since(timed_before, sched.timed())?)
    }
}

/// The times of round-trip slices, ns per round trip.
fn slices_of(load: &mut PingPong, trips: u64, slices: usize, mut after: impl FnMut()) -> Option<Slices> {
    let began = Instant::now();
    let mut times = Vec::with_capacity(slices);
    while times.len() < slices && (times.len() < MIN_SLICES || began.elapsed() < MAX_TIME) {
        times.push(load.slice(trips)?.as_nanos() as f64 / trips as f64);
        after();
    }
    Some(Slices::new(times))
}

/// The mean of times, from their number and sum before and after.
pub(crate) fn mean_since(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let count = after.0.checked_sub(before.0).filter(|&count| count > 0)?;
    Some(after.1.saturating_sub(before.1) as f64 / count as f64)
}

/// The kernel's statistics for BPF programs, while this value exists.
pub(crate) struct Statistics {
    _descriptor: OwnedFd,
}

impl Statistics {
    /// Switches them on. The kernel refuses without `CAP_SYS_ADMIN`, whatever other rights there are.
    pub(crate) fn enable() -> io::Result<Self> {
        let kind = libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME;
        // SAFETY: takes a number, returns a descriptor or an error number.
        let descriptor = unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(kind) };
        Ok(Self { _descriptor: libbpf::owned(descriptor)? })
    }
}

/// The number of interrupts on all CPUs since boot; `None` where the kernel does not report them.
pub(crate) fn interrupts() -> Option<Interrupts> {
    interrupts_in(&fs::read_to_string("/proc/stat").ok()?)
}

fn interrupts_in(stat: &str) -> Option<Interrupts> {
    let total = |name: &str| {
        let mut lines = stat.lines().map(str::split_whitespace);
        let mut words = lines.find(|words| words.clone().next() == Some(name))?;
        words.nth(1)?.parse().ok()
    };
    Some(Interrupts { hard: total("intr")?, soft: total("softirq")? })
}

/// The costs to be recorded now: the calibrated costs, with the programs' own counts and times.
pub(crate) struct Recorded {
    costs: Costs,
    before: Counters,
    calls: bool,
}

/// The programs' counters at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Counters {
    interrupts: Option<Interrupts>,
    /// The number of timed switches, and their time, ns.
    timed: (u64, u64),
    /// The numbers of switch records and of wake-up records, where stacks are recorded.
    records: (u64, u64),
    /// The time for reading stacks at switches and wake-ups, ns.
    stacks_ns: (u64, u64),
    /// The rare records' programs: runs, timed runs, and the timed runs' time, ns.
    rare: (u64, u64, u64),
}

impl Counters {
    fn now(programs: &Programs<'_>, sched: &Rings) -> Self {
        Self {
            interrupts: interrupts(),
            timed: sched.timed(),
            records: sched.counted(),
            stacks_ns: programs.stacks_ns(),
            rare: programs.rare(),
        }
    }

    fn since(&self, before: &Self) -> Measured {
        let stacks = |records: (u64, u64), ns: (u64, u64)| {
            mean_since((records.0, ns.0), (records.1, ns.1)).unwrap_or(0.0)
        };
        let (rare, rare_before) = (self.rare, before.rare);
        Measured {
            interrupts: self.interrupts.zip(before.interrupts).map(|(now, before)| now.since(before)),
            switch: mean_since(before.timed, self.timed),
            stacks_of_switch: stacks(
                (before.records.0, self.records.0),
                (before.stacks_ns.0, self.stacks_ns.0),
            ),
            stacks_of_waking: stacks(
                (before.records.1, self.records.1),
                (before.stacks_ns.1, self.stacks_ns.1),
            ),
            rare: rare.0.saturating_sub(rare_before.0),
            rare_timed: rare.1.saturating_sub(rare_before.1),
            rare_ns: mean_since((rare_before.1, rare_before.2), (rare.1, rare.2)),
        }
    }
}

impl Recorded {
    /// Counts from now on. `calls`: function calls are recorded, whose cost is not calibrated.
    pub(crate) fn new(costs: Costs, programs: &Programs<'_>, sched: &Rings, calls: bool) -> Self {
        Self { costs, before: Counters::now(programs, sched), calls }
    }

    pub(crate) fn now(&self, programs: &Programs<'_>, sched: &Rings) -> Vec<KernelCost> {
        self.costs.now(&Counters::now(programs, sched).since(&self.before), self.calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_the_first_numbers_of_two_lines() {
        let stat = "cpu  1 2 3\nintr 100 1 2 3\nctxt 5\nsoftirq 70 8 9\n";
        assert_eq!(interrupts_in(stat), Some(Interrupts { hard: 100, soft: 70 }));
        assert_eq!(interrupts_in("cpu 1\nintr 100 1\n"), None, "no softirqs: some containers hide them");
    }

    #[test]
    fn counters_become_means_of_what_happened_in_between() {
        let before = Counters {
            interrupts: Some(Interrupts { hard: 1, soft: 2 }),
            timed: (1, 100),
            records: (10, 20),
            stacks_ns: (1_000, 4_000),
            rare: (7, 1, 400),
        };
        let after = Counters {
            interrupts: Some(Interrupts { hard: 4, soft: 9 }),
            timed: (3, 260),
            records: (110, 220),
            stacks_ns: (6_000, 5_000),
            rare: (28, 4, 2_200),
        };
        let expected = Measured {
            interrupts: Some(Interrupts { hard: 3, soft: 7 }),
            switch: Some(80.0),
            stacks_of_switch: 50.0,
            stacks_of_waking: 5.0,
            rare: 21,
            rare_timed: 3,
            rare_ns: Some(600.0),
        };
        assert_eq!(after.since(&before), expected);
        let nothing = after.since(&after);
        assert_eq!((nothing.switch, nothing.stacks_of_switch, nothing.rare_ns), (None, 0.0, None));
    }

    #[test]
    fn the_mean_of_no_times_is_not_known() {
        assert_eq!(mean_since((4, 100), (6, 180)), Some(40.0));
        assert_eq!(mean_since((4, 100), (4, 100)), None);
        assert_eq!(mean_since((4, 100), (3, 90)), None, "a counter that went back");
    }
}

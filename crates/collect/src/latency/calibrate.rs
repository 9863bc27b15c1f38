//! The cost of probes on this machine, and their addition to the latencies they count.
//!
//! The cost is measured, since it is 0.6 µs on one machine and 40 µs on another: on empty functions in this program
//! that begin like the probed functions, with the same BPF programs attached in the same way, for this process alone.
//! The latency counted for an empty function is the probes' addition to any function's latency (T08 section 8.2); the
//! extra time for its call is the probes' cost to its caller.
//!
//! Calls are measured in rounds, and the median counts: an interrupted round does not matter. Rounds in which this
//! thread loses its CPU do not count at all; on a busy machine, these are most rounds.

use std::mem::MaybeUninit;
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::MapCore;
use libbpf_rs::skel::Skel;
use wakepath_functions::{Probe, Return};

use super::counters::Counters;
use super::empty::{Empty, Exit, ProbeKind};
use super::groups;
use super::options::{Counted, LatencyOptions};
use crate::kernel_probes::{KernelFunction, KernelTypes, call_test_functions};
use crate::priority::RaisedPriority;
use crate::probes::{GO, attach_one};

/// Calls of a user function in a round: the first comes after system calls, and takes half as long again.
const CALLS: u64 = 32;
/// The same where the kernel single-steps each call: a round with 32 calls would take a millisecond, and on a busy
/// machine most would be interrupted.
const STEPPED_CALLS: u64 = 8;
/// Calls of a kernel function in a round. Each takes a system call, which takes longer than the probes.
const KERNEL_CALLS: u64 = 8;
/// The number of rounds: with fewer, an interrupted round might be the median.
const ROUNDS: std::ops::RangeInclusive<usize> = 5..=41;
/// The time after which only the least number of rounds is still made.
const MAX_TIME: Duration = Duration::from_millis(2);
/// The time after which rounds with a lost CPU count, if there are no others.
const MAX_PATIENCE: Duration = Duration::from_millis(200);

/// The cost of a kind of probe on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// The extra time for a probed call, ns.
    pub per_call_ns: u64,
    /// The extra time for a call in a process whose latencies are not counted, ns.
    pub other_process_ns: u64,
    /// The latency counted for an empty function, ns or cycles.
    pub shift: u64,
}

/// The measured cost of this kind of probe; `None` where the kernel refuses it.
pub fn calibrate(probe: &Probe) -> Option<Calibration> {
    let options = LatencyOptions {
        targets: vec![Counted::Function(probe.clone())],
        processes: vec![std::process::id()],
        ..LatencyOptions::default()
    };
    let _priority = RaisedPriority::starting();
    let mut storage = MaybeUninit::uninit();
    Counters::load(&mut storage, &options).ok()?.calibrate(ProbeKind::of(probe))
}

/// The single-stepped functions' numbers, each with its measured cost of a call, ns.
pub(crate) fn stepped_costs<'a>(functions: impl Iterator<Item = &'a Probe>) -> Vec<(u32, Option<u64>)> {
    let mut measured: Vec<(ProbeKind, Option<u64>)> = Vec::new();
    let stepped = (0..).zip(functions).filter(|(_, probe)| ProbeKind::of(probe).is_stepped());
    let costs = stepped.map(|(number, probe)| {
        let kind = ProbeKind::of(probe);
        let known = measured.iter().find(|(other, _)| *other == kind).map(|(_, cost)| *cost);
        let cost = known.unwrap_or_else(|| {
            let cost = calibrate(probe).map(|cost| cost.per_call_ns);
            measured.push((kind, cost));
            cost
        });
        (number, cost)
    });
    costs.collect()
}

impl Counters<'_> {
    /// The cost of each target's probes; none for a function that never returns, since it has no latency.
    pub(super) fn calibrations(&mut self, options: &LatencyOptions) -> Vec<Option<Calibration>> {
        let mut measured: Vec<(ProbeKind, Option<Calibration>)> = Vec::new();
        let mut of_kind = |kind: ProbeKind| {
            if let Some(&(_, found)) = measured.iter().find(|(other, _)| *other == kind) {
                return found;
            }
            let found = self.calibrate(kind);
            measured.push((kind, found));
            found
        };
        let of_target = |target: &Counted| {
            let Counted::Function(probe) = target else { return None };
            if probe.returns == Return::Never { None } else { of_kind(ProbeKind::of(probe)) }
        };
        let mut found: Vec<_> = options.targets.iter().map(of_target).collect();
        let returns = |target: &Counted| matches!(target, Counted::KernelFunction(of) if !of.never_returns);
        if options.targets.iter().any(returns) {
            let of_kernel = self.calibrate_kernel();
            for (found, target) in found.iter_mut().zip(&options.targets) {
                *found = if returns(target) { of_kernel } else { *found };
            }
        }
        found
    }

    /// The probes stay for now, since the kernel takes longer to detach them than all of this; but these functions
    /// are never called again, and each kind has a function of its own.
    fn calibrate(&mut self, kind: ProbeKind) -> Option<Calibration> {
        let empty = Empty::of(kind)?;
        let calls = if kind.is_stepped() { STEPPED_CALLS } else { CALLS };
        self.measure(calls, |_| Some(empty.round(calls)), |counters| counters.probe(&empty))
    }

    /// The cost of a kernel function's probes; `None` if it cannot be measured.
    fn calibrate_kernel(&mut self) -> Option<Calibration> {
        let types = KernelTypes::read().ok()?;
        let round = |counters: &Self| {
            let began = Instant::now();
            for _ in 0..KERNEL_CALLS {
                call_test_functions(counters.skeleton.object()).ok()?;
            }
            u64::try_from(began.elapsed().as_nanos()).ok()
        };
        let found = self.measure(KERNEL_CALLS, round, |counters| {
            let (target, Self { skeleton, calibration_probes: (_, probes), .. }) =
                (counters.calibration_target, counters);
            probes.attach(skeleton.object(), &types, target, &KernelFunction::for_tests()).ok()
        })?;
        // The system calls' time varies: a result below the counted latency is noise.
        let is_known = found.per_call_ns > 0 && (self.in_cycles() || found.per_call_ns > found.shift);
        is_known.then_some(found)
    }

    /// Measures rounds with `calls` calls: without probes, with probes, and with their latencies counted.
    fn measure(
        &mut self,
        calls: u64,
        round: impl Fn(&Self) -> Option<u64>,
        probe: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<Calibration> {
        let bare = median(rounds(cpu_losses, || round(self))?)?;
        probe(self)?;
        // The kernel prepares a probe's place at the first call.
        round(self)?;
        let other_process = median(rounds(cpu_losses, || round(self))?)?;
        let own = std::process::id();
        self.follow(own).ok()?;
        let found = self.counted(calls, || round(self));
        // Processes that this process starts later are not to be followed unless requested.
        self.skeleton.maps.followed.delete(&own.to_ne_bytes()).ok()?;
        groups::clear(&self.skeleton);
        let (times, latencies): (Vec<u64>, Vec<u64>) = found?.into_iter().unzip();
        Some(Calibration {
            per_call_ns: median(times)?.saturating_sub(bare) / calls,
            other_process_ns: other_process.saturating_sub(bare) / calls,
            shift: median(latencies)? / calls,
        })
    }

    /// Each round's time for `calls` calls, ns, and the sum of their counted latencies.
    fn counted(&self, calls: u64, mut round: impl FnMut() -> Option<u64>) -> Option<Vec<(u64, u64)>> {
        rounds(cpu_losses, || {
            let before = self.total(self.calibration_target).ok()?;
            let time = round()?;
            let after = self.total(self.calibration_target).ok()?;
            let sum = |counts: &[u64; 64]| counts.iter().sum::<u64>();
            // If not all calls in a round are counted, the probes are not of the assumed kind.
            if sum(&after.buckets).checked_sub(sum(&before.buckets)) != Some(calls) {
                return None;
            }
            Some((time, after.sum.checked_sub(before.sum)?))
        })
    }

    fn probe(&mut self, empty: &Empty) -> Option<()> {
        let this_program = Path::new("/proc/self/exe");
        let own = std::process::id() as i32;
        let leave = match empty.kind.exit {
            Exit::ReturnAddress => ("function_return", empty.offset),
            Exit::Instruction => ("function_leave", empty.offset + empty.code.len() as u64 - 1),
        };
        let cookie = u64::from(self.calibration_target) | if empty.kind.go { GO } else { 0 };
        for (program, offset) in [leave, ("function_enter", empty.offset)] {
            let place = (this_program, offset);
            let link = attach_one(self.skeleton.object(), program, own, cookie, place).ok()?;
            self.calibration_probes.0.push(link);
        }
        Some(())
    }
}

/// The results of the rounds that fit into [`MAX_TIME`], within [`ROUNDS`], and in which `losses` stays the same; the
/// other rounds' results, if there are none within [`MAX_PATIENCE`].
fn rounds<T>(losses: impl Fn() -> i64, mut round: impl FnMut() -> Option<T>) -> Option<Vec<T>> {
    let began = Instant::now();
    let (mut kept, mut interrupted) = (Vec::new(), Vec::new());
    loop {
        let limit = if kept.len() < *ROUNDS.start() { MAX_PATIENCE } else { MAX_TIME };
        if kept.len() >= *ROUNDS.end() || (began.elapsed() >= limit && kept.len() + interrupted.len() > 0) {
            break;
        }
        let before = losses();
        let found = round()?;
        if losses() == before { kept.push(found) } else { interrupted.push(found) }
    }
    Some(if kept.is_empty() { interrupted } else { kept })
}

/// The number of times so far that this thread lost its CPU, by the kernel's count.
fn cpu_losses() -> i64 {
    // SAFETY: plain numbers, for which zero is valid; the call fills them.
    unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut used);
        used.ru_nivcsw
    }
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_in_which_the_cpu_was_lost_count_only_if_there_are_no_others() {
        let count = std::cell::Cell::new(0);
        let next = || {
            count.set(count.get() + 1);
            std::thread::sleep(Duration::from_millis(1));
            Some(count.get())
        };
        // Each second round loses the CPU.
        let found = rounds(|| count.get() / 2, next).expect("rounds");
        assert_eq!(found, [1, 3, 5, 7, 9], "the least number takes longer than the time");
        let began = Instant::now();
        let found = rounds(|| count.get(), next).expect("rounds");
        assert!(found.len() > 5 && began.elapsed() >= MAX_PATIENCE, "{found:?}");
        let fast = rounds(|| 0, || Some(())).expect("rounds");
        // All rounds fit, unless the machine stops this thread for longer than the time.
        assert!(ROUNDS.contains(&fast.len()), "{}", fast.len());
        assert_eq!(rounds(|| 0, || None::<()>), None);
    }

    #[test]
    fn an_interrupted_round_does_not_move_the_median() {
        assert_eq!(median(vec![7, 4_000_000, 8, 6, 9]), Some(8));
        assert_eq!(median(Vec::new()), None);
    }
}

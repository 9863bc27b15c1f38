//! The latency session, which counts in the kernel (T08 chapter 2) with `bpf/latency.bpf.c`.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant, SystemTime};

use crate::child::{Held, Running};
use crate::error::Error;
use crate::kernel_probes::KernelFunction;
use crate::probe_budget::{RemovedProbes, StepBudget};
use crate::rights::may_load_programs;
use crate::signals::Signals;
use crate::watch::{EndReason, Watch, pidfd};

pub(crate) mod calibrate;
mod counters;
pub(crate) mod counts;
mod cycles;
pub(crate) mod empty;
mod groups;
pub(crate) mod options;

use calibrate::Calibration;
use counters::Counters;
use counts::{Groups, Parts, Reading};
use empty::ProbeKind;
use options::{Counted, LatencyOptions};

/// The outcome of counting.
#[derive(Debug)]
pub struct LatencyOutcome {
    /// When counting began, on the wall clock.
    pub began: SystemTime,
    /// The reason why counting ended.
    pub reason: EndReason,
    /// The command's wait status, if it ran and ended.
    pub status: Option<i32>,
    /// The command, if it goes on without being counted.
    pub running: Option<Running>,
    /// The counts by group, target by target; empty without grouping.
    pub groups: Vec<Groups>,
    /// The cost of each target's probes, measured before; `None` for no probes or an unknown cost.
    pub calibrations: Vec<Option<Calibration>>,
}

/// The interval between checks whether the command has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The same where single-stepped probes may have to go.
const STEPPED_INTERVAL: Duration = Duration::from_millis(20);

/// Counts until the command ends, the time is over or `stop` asks for it. `take` gets the counts' readings in order,
/// the last at the end; counting goes on meanwhile.
///
/// # Errors
/// When counting could not begin, or the command could not run.
pub fn count(
    options: &LatencyOptions,
    stop: &Signals,
    take: &mut dyn FnMut(Reading),
) -> Result<LatencyOutcome, Error> {
    if let Some(&pid) = options.processes.iter().find(|&&pid| pidfd(pid).is_none()) {
        return Err(Error::NoProcess { pid });
    }
    let mut storage = MaybeUninit::uninit();
    let mut counters = Counters::load(&mut storage, options)?;
    // Before any process is followed, and anything is counted.
    let calibrations = counters.calibrations(options);
    let held = match options.command.as_slice() {
        [] => None,
        words => {
            let identity = options.caller.as_ref().filter(|_| !options.as_root);
            Some(Held::spawn(words, identity, None)?)
        }
    };
    let command = held.as_ref().map(|held| held.pid);
    let attached = Instant::now();
    let mut budget = StepBudget::new(options.budget, stepped(options, &calibrations));
    let mut removed = counters.attach(options, &mut budget, attached)?;
    // Each probe is attached for tens of milliseconds: until all are, no process is counted.
    for pid in options.processes.iter().copied().chain(command.map(|pid| pid as u32)) {
        counters.follow(pid)?;
    }
    // Before the command runs: a short one may have ended by the time this thread runs again.
    let (began, began_at) = (Instant::now(), SystemTime::now());
    if let Some(Err(source)) = held.map(Held::release) {
        return Err(Error::Exec { command: options.command[0].clone(), source });
    }
    // The kernel takes a tenth of a second to detach a probe: done meanwhile, or at once without a thread.
    let probes = std::mem::take(&mut counters.calibration_probes);
    let detached = std::thread::Builder::new().spawn(move || drop(probes)).ok();
    let mut watch = Watch::new(command, &options.processes, options.duration);
    // There are several readings only with an interval.
    let mut parts = Parts::new(options.by.is_some() && options.every.is_some());
    let mut next = options.every;
    let mut left = options.targets.len() - removed.len();
    let (reason, status) = loop {
        let due = next.map(|next| next.saturating_sub(began.elapsed()));
        let interval = if budget.is_needed() { STEPPED_INTERVAL } else { CHECK_INTERVAL };
        watch.sleep(due.unwrap_or(interval).min(interval), None);
        counters.learn_callers(options);
        let over = counters.keep_to(&mut budget, attached);
        left -= over.len();
        removed.extend(over);
        // A command's end is waited for.
        if left == 0 && command.is_none() {
            break (EndReason::OverBudget, None);
        }
        if let (Some(at), Some(every)) = (next, options.every)
            && began.elapsed() >= at
        {
            let (mut reading, groups) = counters.read(options, began.elapsed())?;
            reading.parts = parts.since(&groups);
            reading.removed = counted_until(std::mem::take(&mut removed), began - attached);
            take(reading);
            next = at.checked_add(every);
        }
        if let Some(ended) = watch.ended(stop) {
            break ended;
        }
    };
    // Before probes are detached, which takes longer than some commands: other processes count on meanwhile.
    let (mut last, mut groups) = counters.read(options, began.elapsed())?;
    last.parts = parts.since(&groups);
    last.removed = counted_until(removed, began - attached);
    counters.detach();
    counters.name(groups.iter_mut().flat_map(|of_target| &mut of_target.groups));
    take(last);
    if let Some(detached) = detached {
        let _ = detached.join();
    }
    let running = command.filter(|_| status.is_none()).map(|pid| Running { pid });
    Ok(LatencyOutcome { began: began_at, reason, status, running, groups, calibrations })
}

/// The removed probes, each with the time for which it counted: attaching took `until_counted`.
fn counted_until(removed: Vec<(u32, RemovedProbes)>, until_counted: Duration) -> Vec<(u32, RemovedProbes)> {
    let counted = removed.into_iter().map(|(target, removed)| {
        (target, RemovedProbes { after: removed.after.saturating_sub(until_counted), ..removed })
    });
    counted.collect()
}

/// The targets that the kernel single-steps, with the cost of a call, ns.
fn stepped(
    options: &LatencyOptions,
    costs: &[Option<Calibration>],
) -> impl Iterator<Item = (u32, Option<u64>)> {
    let targets = (0..).zip(&options.targets).zip(costs);
    targets.filter_map(|((target, counted), cost)| match counted {
        Counted::Function(probe) if ProbeKind::of(probe).is_stepped() => {
            Some((target, cost.map(|cost| cost.per_call_ns)))
        }
        _ => None,
    })
}

/// Probes an empty kernel function, and detaches the probes.
///
/// # Errors
/// When privileges are missing, or the kernel does not allow probes on its functions.
pub fn try_kernel_functions() -> Result<(), Error> {
    let options = LatencyOptions {
        targets: vec![Counted::KernelFunction(KernelFunction::for_tests())],
        processes: vec![std::process::id()],
        ..LatencyOptions::default()
    };
    let mut storage = MaybeUninit::uninit();
    let attached =
        Counters::load(&mut storage, &options).and_then(|mut counters| counters.attach_to_kernel(&options));
    attached.map_err(|error| match error {
        Error::Load { source } | Error::KernelProbe { source, .. } if may_load_programs() => {
            Error::NoKernelProbes { why: source.to_string() }
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_counted_from_the_end_of_attaching_until_they_were_removed() {
        let ms = Duration::from_millis;
        let removed = |after| RemovedProbes { after, hits: 1, per_call_ns: 2, share: 0.3, budget: 0.05 };
        let found = counted_until(vec![(3, removed(ms(50))), (4, removed(ms(350)))], ms(100));
        assert_eq!(found, [(3, removed(ms(0))), (4, removed(ms(250)))]);
    }
}

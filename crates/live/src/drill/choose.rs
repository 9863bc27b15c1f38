//! Chooses a drill-down's process where the user named none: the process with the most time in the function.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use wakepath_collect::{Counted, LatencyOptions, Signals, count};
use wakepath_distribution::GroupBy;
use wakepath_engine::latency::target::Target;
use wakepath_functions::{FindError, LibraryError, Target as FunctionTarget, processes_with, python_of};
use wakepath_process::{Process, processes};

use super::DrillError;
use super::driver::python::PythonTarget;
use crate::latency::{AllowedProbes, LiveLatencyError, is_function, kernel_functions, user_functions};

/// How long calls are counted at most, and the number of calls ending each round: a function with many calls is
/// probed for a moment only.
const ROUNDS: [(Duration, u64); 3] =
    [(Duration::from_millis(50), 100), (Duration::from_millis(500), 10), (Duration::from_secs(3), 0)];

/// The maximum number of searches for the processes with a file, as long as any ends meanwhile.
const MAX_LOOKS: usize = 5;

/// The process chosen for a drill-down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenProcess {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The time in the function, if there was a choice.
    pub share: Option<Share>,
}

/// A process's time in a function, among all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The process's time, ns.
    pub ns: u64,
    /// All processes' time, ns.
    pub of_ns: u64,
    /// The number of processes with calls.
    pub processes: usize,
    /// How long the calls were counted.
    pub counted_for: Duration,
}

impl fmt::Display for ChosenProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, name, share } = self;
        let name = name.escape_debug();
        match share {
            None => write!(f, "asked: process {pid} ({name}), the only one with the function"),
            Some(Share { ns, of_ns, processes, counted_for }) => write!(
                f,
                "asked: process {pid} ({name}), which had {:.1}% of the time in the function, of {processes} processes with calls in {} ms",
                *ns as f64 / (*of_ns).max(1) as f64 * 100.0,
                counted_for.as_millis()
            ),
        }
    }
}

/// Chooses the process for a drill-down: the only process with the function's file mapped, or the process with the most time in the
/// function, by a short count.
///
/// # Errors
/// When there is no such function or process, or none of several processes returned from it.
pub fn choose_process(
    target: &str,
    allowed: AllowedProbes,
    stop: &Signals,
) -> Result<ChosenProcess, DrillError> {
    let allowed = AllowedProbes { slow_probes: true, ..allowed };
    if PythonTarget::parse(target).is_some() {
        let found: Vec<u32> = processes().into_iter().filter(|pid| python_of(*pid).is_ok()).collect();
        return match found.as_slice() {
            [] => Err(DrillError::NoPython),
            [only] => Ok(chosen(*only, None)),
            _ => Err(DrillError::SeveralPythons(found)),
        };
    }
    if let Ok(Target::KernelFunction(pattern)) = Target::parse(target) {
        let counted = kernel_functions(&pattern)?.targets.into_iter().map(|target| target.counted).collect();
        return busiest(target, counted, Vec::new(), stop);
    }
    if !matches!(Target::parse(target), Ok(Target::Function)) || !is_function(target) {
        return Err(DrillError::NotAFunction(target.to_owned()));
    }
    let parsed = FunctionTarget::parse(target).map_err(LiveLatencyError::from)?;
    let mut left = MAX_LOOKS;
    let (candidates, found) = loop {
        let candidates = processes_with(&parsed.file);
        left -= 1;
        match user_functions(target, &candidates, allowed) {
            // A process has ended since.
            Err(LiveLatencyError::Find(FindError::Library(LibraryError::Process { .. }))) if left > 0 => {}
            found => break (candidates, found?),
        }
    };
    match candidates.as_slice() {
        [] => Err(DrillError::InNoProcess(target.to_owned())),
        [only] => Ok(chosen(*only, None)),
        _ => {
            let counted = found.targets.into_iter().map(|target| target.counted).collect();
            busiest(target, counted, candidates, stop)
        }
    }
}

/// The process with the most time in these functions.
fn busiest(
    target: &str,
    targets: Vec<Counted>,
    candidates: Vec<u32>,
    stop: &Signals,
) -> Result<ChosenProcess, DrillError> {
    let mut elapsed = Duration::ZERO;
    for (time, enough) in ROUNDS {
        let options = LatencyOptions {
            targets: targets.clone(),
            by: Some(GroupBy::Process),
            duration: Some(time),
            ..LatencyOptions::default()
        };
        let outcome = count(&options, stop, &mut |_| {})?;
        elapsed += time;
        let mut times: HashMap<u32, (u64, u64)> = HashMap::new();
        for group in outcome.groups.iter().flat_map(|groups| &groups.groups) {
            let (ns, calls) = times.entry(group.id as u32).or_default();
            *ns = ns.saturating_add(group.counts.sum);
            *calls += group.counts.buckets.iter().sum::<u64>();
        }
        if let Some(found) = most(&times, enough, time) {
            return Ok(found);
        }
        if stop.asked() > 0 {
            break;
        }
    }
    Err(DrillError::NoneChosen { target: target.to_owned(), processes: candidates, elapsed })
}

/// The process with the most time, if there are more than `enough` calls in all; of equal ones the first. `times` are ns and calls
/// by process.
fn most(times: &HashMap<u32, (u64, u64)>, enough: u64, counted_for: Duration) -> Option<ChosenProcess> {
    let own = std::process::id();
    let called = || times.iter().filter(|(pid, (_, calls))| **pid != own && *calls > 0);
    let calls: u64 = called().map(|(_, (_, calls))| calls).sum();
    let (&pid, &(ns, _)) = called().max_by_key(|&(pid, (ns, _))| (*ns, std::cmp::Reverse(*pid)))?;
    let of_ns = called().fold(0_u64, |sum, (_, (ns, _))| sum.saturating_add(*ns));
    let share = Share { ns, of_ns, processes: called().count(), counted_for };
    (calls > enough).then(|| chosen(pid, Some(share)))
}

fn chosen(pid: u32, share: Option<Share>) -> ChosenProcess {
    let name = Process::open(pid).and_then(|process| process.comm()).unwrap_or_default();
    ChosenProcess { pid, name: String::from_utf8_lossy(&name).into_owned(), share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_with_the_most_time_is_chosen_from_enough_calls() {
        let time = Duration::from_millis(50);
        let times =
            HashMap::from([(7, (100, 90)), (8, (300, 11)), (9, (0, 0)), (std::process::id(), (900, 900))]);
        let found = most(&times, 100, time).expect("101 calls");
        let share = Share { ns: 300, of_ns: 400, processes: 2, counted_for: time };
        assert_eq!((found.pid, found.share), (8, Some(share)));
        assert_eq!(most(&times, 101, time), None);
        assert_eq!(most(&HashMap::from([(9, (0, 0))]), 0, time), None, "it was not called");
        let equal = HashMap::from([(7, (100, 1)), (8, (100, 90))]);
        assert_eq!(most(&equal, 0, time).map(|found| found.pid), Some(7));
    }

    #[test]
    fn the_choice_is_a_sentence_with_the_share() {
        let share = Share { ns: 300, of_ns: 400, processes: 2, counted_for: Duration::from_millis(50) };
        let chosen = ChosenProcess { pid: 8, name: String::from("a\u{7}"), share: Some(share) };
        assert_eq!(
            chosen.to_string(),
            "asked: process 8 (a\\u{7}), which had 75.0% of the time in the function, of 2 processes with calls in 50 ms"
        );
        let only = ChosenProcess { share: None, ..chosen };
        assert_eq!(only.to_string(), "asked: process 8 (a\\u{7}), the only one with the function");
    }
}

//! Neighbours that use part of the machine beside a workload, and checks on how a path shows them.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use wakepath_runner::Running;

use crate::document::{PathDocument, Truth, clip};

/// A neighbour of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Noise {
    /// No neighbour.
    None,
    /// A thread that never waits.
    Spin,
    /// A writer that waits for the disk.
    Disk,
    /// On each CPU, two processes that exchange messages over TCP.
    Loopback,
    /// Two processes that exchange messages over TCP from CPU to CPU. They make a program's clocks wrong, which the judge
    /// corrects: see [`crate::dated_back`].
    Chatter,
}

impl Noise {
    /// Its name in tables and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spin => "spin",
            Self::Disk => "disk",
            Self::Loopback => "loopback",
            Self::Chatter => "chatter",
        }
    }

    /// Starts the program `noise` from this folder and waits until it is ready. It runs for at most `seconds`. `None`
    /// for [`Noise::None`].
    ///
    /// # Errors
    ///
    /// If the program cannot be started or does not print that it is ready.
    pub fn start(self, programs: &Path, seconds: u64) -> Result<Option<Running>> {
        if self == Self::None {
            return Ok(None);
        }
        let mut command = Command::new(programs.join("noise"));
        command.args([&format!("--{}", self.name()), "--seconds", &seconds.to_string()]);
        let (running, first) = Running::start(&mut command)?;
        ensure!(first == "noise: ready", "noise printed `{first}`");
        Ok(Some(running))
    }
}

/// The longest time for an idle CPU to start a thread, ns; on a slower machine, longer by its factor.
const MAX_LATENCY_NS: i64 = 1_000_000;

/// The largest share of the window charged to an idle CPU, in pieces over a millisecond; on a slower machine, larger by its
/// factor: an emulated machine's CPUs take turns, so that an idle CPU waits for its turn before it starts.
const MAX_IDLE: f64 = 0.01;

/// The window's runnable share, and the share charged to the judge's neighbours, as fractions; and errors in the
/// competitors named by the path.
///
/// Neighbours must show as `runnable` time. The comparison checks the amount, since the workload counts its runnable
/// time; this function checks the competitors. An idle CPU must not be the cause for more than 1% of the window in
/// pieces over a millisecond. Less is possible: a thread waits in a CPU's queue while the other CPU is idle, until the
/// load balancer runs; a virtual CPU wakes up late when its host is busy; the completion of a large write keeps a CPU
/// in interrupts.
///
/// A neighbour's share in a run is chance; a whole series of runs without any share is not: see [`never_blamed`].
pub fn blamed(truth: &Truth, path: &PathDocument, slowness: f64) -> (f64, f64, Vec<String>) {
    let origin: i64 = path.origin_ns.parse().unwrap_or(0);
    let from = truth.window.from_ns - origin;
    let to = truth.window.to_ns.map_or(path.window.to_ns, |to| to - origin);
    let (mut runnable, mut by_noise, mut by_idle) = (0, 0, 0);
    for segment in clip(&path.segments, from, to) {
        if segment.kind != "runnable" {
            continue;
        }
        let ns = segment.to_ns - segment.from_ns;
        runnable += ns;
        let Some(cause) = &segment.cause else { continue };
        if cause.comm.as_deref().is_some_and(|comm| comm.starts_with("noise-")) {
            by_noise += ns;
        }
        if cause.kind == "idle_cpu" && ns as f64 > MAX_LATENCY_NS as f64 * slowness {
            by_idle += ns;
        }
    }
    let share = |ns: i64| ns as f64 / (to - from).max(1) as f64;
    let mut violations = Vec::new();
    if share(by_idle) > MAX_IDLE * slowness {
        violations.push(format!(
            "runnable while its CPU was idle for {:.3}% of the window",
            share(by_idle) * 100.0
        ));
    }
    (share(runnable), share(by_noise), violations)
}

/// Whether a neighbour that uses a whole CPU was never named in a series of at least ten runs, by the `by_noise` of
/// each. A fifth of the workloads stay on a single CPU; the scheduler moves the others.
pub fn never_blamed(noise: Noise, by_noise: &[f64]) -> bool {
    const SERIES: usize = 10;
    noise == Noise::Spin && by_noise.len() >= SERIES && by_noise.iter().all(|&share| share == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use serde::Deserialize;
    use serde_json::json;

    const MAIN: made::Named<'_> = (1, "prog");

    /// 100 ms of main: the segments in ms, each with its competitor: a name, `-` for an idle CPU, or empty for running.
    fn blame(segments: &[(i64, &str)]) -> (f64, f64, Vec<String>) {
        let truth = made::truth(&[MAIN], 0, &[(MAIN, "running", None, 100_000_000)]);
        let mut at = 0;
        let mut list = Vec::new();
        for &(ms, who) in segments {
            let to = at + ms * 1_000_000;
            let (kind, cause) = match who {
                "" => ("running", json!(null)),
                "-" => ("runnable", json!({"type": "idle_cpu", "comm": null})),
                other => ("runnable", json!({"type": "competitor", "comm": other})),
            };
            list.push(json!({"from_ns": at, "to_ns": to, "kind": kind, "tid": 1, "comm": "prog",
                             "call": null, "cause": cause}));
            at = to;
        }
        let path = made::path(MAIN, &list);
        blamed(&Truth::deserialize(truth).unwrap(), &PathDocument::deserialize(path).unwrap(), 1.0)
    }

    #[test]
    fn time_of_a_neighbour_shows_with_its_name() {
        let (runnable, by_noise, violations) = blame(&[(70, ""), (20, "noise-spin"), (10, "bash")]);
        assert_eq!((runnable, by_noise, violations), (0.3, 0.2, vec![]));
    }

    #[test]
    fn a_spinning_neighbour_that_is_never_blamed_in_a_series_is_wrong() {
        assert!(never_blamed(Noise::Spin, &[0.0; 10]));
        assert!(!never_blamed(Noise::Spin, &[0.0; 9]));
        assert!(!never_blamed(Noise::Disk, &[0.0; 10]));
        let mut once = [0.0; 10];
        once[3] = 0.001;
        assert!(!never_blamed(Noise::Spin, &once));
    }

    #[test]
    fn a_thread_does_not_wait_for_long_for_an_idle_cpu() {
        assert_eq!(
            blame(&[(98, ""), (2, "-")]).2,
            ["runnable while its CPU was idle for 2.000% of the window"]
        );
        assert_eq!(blame(&[(99, ""), (1, "-")]).2.len(), 0);
        let brief: Vec<(i64, &str)> = [(10, ""), (1, "-")].repeat(9);
        assert_eq!(blame(&brief).2.len(), 0);
    }
}

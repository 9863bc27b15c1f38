//! Neighbours that take part of the machine while a workload runs, and what the path may make of them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::compare::clip;
use crate::document::{PathDocument, Truth};

/// What is beside the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Noise {
    /// Nothing of ours.
    None,
    /// A thread that never waits.
    Spin,
    /// A writer that waits for the disk.
    Disk,
    /// Two processes that chatter over TCP.
    Loopback,
}

/// A running neighbour; it ends when this is dropped, or when we die.
#[derive(Debug)]
pub struct Neighbour(Child);

impl Noise {
    /// As tables and flags call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spin => "spin",
            Self::Disk => "disk",
            Self::Loopback => "loopback",
        }
    }

    /// Starts `noise` of that folder and waits until it makes noise; nothing for [`Noise::None`].
    ///
    /// # Errors
    ///
    /// When the program cannot be started or says nothing.
    pub fn start(self, programs: &Path) -> Result<Option<Neighbour>> {
        if self == Self::None {
            return Ok(None);
        }
        let program = programs.join("noise");
        let mut child = Command::new(&program)
            .args([&format!("--{}", self.name()), "--seconds", "55"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", program.display()))?;
        let said = child.stdout.take().map(BufReader::new);
        let neighbour = Neighbour(child);
        let mut line = String::new();
        said.context("noise has no output")?.read_line(&mut line).context("cannot hear the noise")?;
        ensure!(line == "noise: ready\n", "noise said `{}`", line.trim());
        Ok(Some(neighbour))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It ends when its standard input closes.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A thread that waits for longer than this is not waiting for a CPU to wake up, ns.
const NO_LATENCY_NS: i64 = 1_000_000;

/// How much of the window was runnable, and how much of it by our neighbours, as fractions; and what
/// is wrong with whom the path names.
///
/// What they took must show as `runnable`. How much it was is in the comparison already, since the
/// workload counts how long it was runnable; here is by whom: not by an idle CPU (more than 1% of the
/// window in pieces of over a millisecond; a virtual CPU that its host keeps waiting wakes up that
/// late), and, where a spinning neighbour and a runnable of
/// more than 2% meet, some of it by that neighbour. Not more, since the machine has other neighbours.
pub fn blamed(noise: Noise, truth: &Truth, path: &PathDocument) -> (f64, f64, Vec<String>) {
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
        if cause.kind == "idle_cpu" && ns > NO_LATENCY_NS {
            by_idle += ns;
        }
    }
    let share = |ns: i64| ns as f64 / (to - from).max(1) as f64;
    let mut violations = Vec::new();
    if share(by_idle) > 0.01 {
        violations.push(format!("runnable by nobody for {:.3}% of the window", share(by_idle) * 100.0));
    }
    if noise == Noise::Spin && share(runnable) > 0.02 && by_noise == 0 {
        violations.push("runnable beside a spinning neighbour, and never by it".to_owned());
    }
    (share(runnable), share(by_noise), violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    /// 100 ms of main, the segments in ms with who is blamed: a name, or `-` for an idle CPU.
    fn blame(noise: Noise, segments: &[(i64, &str)]) -> (f64, f64, Vec<String>) {
        let truth = json!({
            "schema": "", "workload": "", "must": [], "never": [], "threads": [], "contributors": [],
            "window": {"pid": 1, "tid": 1, "comm": "prog", "from_ns": 0, "to_ns": 100_000_000},
            "clocks": {"running_ns": 0, "unawares_ns": 0, "stolen_ns": 0},
        });
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
        let path = json!({
            "schema": "", "origin_ns": "0", "segments": list, "contributors": [],
            "window": {"tid": 1, "comm": "prog", "from_ns": 0, "to_ns": at},
        });
        blamed(noise, &Truth::deserialize(truth).unwrap(), &PathDocument::deserialize(path).unwrap())
    }

    #[test]
    fn what_a_neighbour_took_shows_by_its_name() {
        let (runnable, by_noise, violations) =
            blame(Noise::Spin, &[(70, ""), (20, "noise-spin"), (10, "bash")]);
        assert_eq!((runnable, by_noise, violations), (0.3, 0.2, vec![]));
    }

    #[test]
    fn runnable_beside_a_spinning_neighbour_and_never_by_it_is_wrong() {
        assert_eq!(blame(Noise::Spin, &[(90, ""), (10, "bash")]).2.len(), 1);
        assert_eq!(blame(Noise::Disk, &[(90, ""), (10, "bash")]).2.len(), 0);
        assert_eq!(blame(Noise::Spin, &[(98, ""), (2, "bash")]).2.len(), 0);
    }

    #[test]
    fn a_thread_does_not_wait_for_long_for_an_idle_cpu() {
        assert_eq!(blame(Noise::None, &[(98, ""), (2, "-")]).2.len(), 1);
        assert_eq!(blame(Noise::None, &[(98, ""), (1, "-"), (1, "-")]).2.len(), 0);
    }
}

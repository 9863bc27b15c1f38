//! The load that is recorded: a program that repeats one small operation as often as it can and prints the number.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};

/// The CPU of the load; recorders have another.
pub const LOAD_CPU: usize = 1;

/// Real-time, so that nothing of the machine's daily life comes between.
const PRIORITY: &str = "50";

/// Loads by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Two threads pass a semaphore to and fro on one CPU: the most switches there can be.
    Schedfreq,
    /// A client and a server pass 32 bytes to and fro over loopback TCP on one CPU.
    Tcpping,
}

/// A load, ready to run.
pub struct Load {
    pub kind: Name,
    /// For people.
    pub name: &'static str,
    program: PathBuf,
    trips: u64,
}

/// The result of one run of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Round trips a second, over the whole run.
    pub rate: f64,
    /// The same in the slice that a tenth of the run's slices beat (`lab/workloads/rate.h`).
    pub quiet: f64,
    /// Round trips in all.
    pub count: f64,
}

/// The chosen loads; all if none is chosen. Each does a fixed number of round trips, as many as take
/// about `seconds` where a switch takes a microsecond.
pub fn chosen(names: &[Name], folder: &Path, seconds: f64) -> Vec<Load> {
    let names = if names.is_empty() { &[Name::Schedfreq, Name::Tcpping] } else { names };
    let load = |kind: &Name| {
        let (name, file, nominal) = match kind {
            Name::Schedfreq => ("semaphore ping-pong on one CPU", "schedfreq", 350e3),
            Name::Tcpping => ("TCP request and response of 32 bytes on one CPU", "tcpping", 140e3),
        };
        Load { kind: *kind, name, program: folder.join(file), trips: (seconds * nominal).max(1.0) as u64 }
    };
    names.iter().map(load).collect()
}

impl Load {
    fn words(&self) -> Vec<String> {
        let first = ["chrt", "-f", PRIORITY].map(str::to_owned);
        [first.to_vec(), self.words_on(LOAD_CPU)].concat()
    }

    /// Without priority.
    fn words_on(&self, cpu: usize) -> Vec<String> {
        let program = self.program.display().to_string();
        ["taskset", "-c", &cpu.to_string(), &program, "--rounds", &self.trips.to_string()]
            .map(str::to_owned)
            .to_vec()
    }

    /// The command line, so that a reader can run it again.
    pub fn command(&self) -> String {
        self.words().join(" ")
    }

    /// The same of [`Self::run_on_each`].
    pub fn command_on_each(&self) -> String {
        self.words_on(0).join(" ")
    }

    /// Runs it once.
    pub fn run(&self) -> Result<Run> {
        finished(&self.command(), started(&self.words())?)
    }

    /// Runs it once on each of the first `cpus` CPUs at a time, with normal priority.
    pub fn run_on_each(&self, cpus: usize) -> Result<Vec<Run>> {
        let started = (0..cpus).map(|cpu| started(&self.words_on(cpu))).collect::<Result<Vec<_>>>()?;
        started.into_iter().map(|child| finished(&self.command_on_each(), child)).collect()
    }
}

fn started(words: &[String]) -> Result<Child> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().with_context(|| format!("cannot run {}", words[0]))
}

fn finished(command: &str, child: Child) -> Result<Run> {
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{command}` failed ({}): {}", output.status, said.trim());
    parse(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| anyhow!("`{command}` printed no rate"))
}

/// Reads `schedfreq: round_trips 200000 seconds 0.564 per_second 354609.2 quiet_per_second 371023.9`.
fn parse(said: &str) -> Option<Run> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let after = |name: &str| -> Option<f64> {
        let index = words.iter().position(|word| *word == name)?;
        words.get(index + 1)?.parse().ok().filter(|figure: &f64| figure.is_finite() && *figure > 0.0)
    };
    Some(Run { rate: after("per_second")?, quiet: after("quiet_per_second")?, count: after("round_trips")? })
}

#[cfg(test)]
mod tests {
    use super::{Run, parse};

    #[test]
    fn the_rate_is_read_from_what_the_load_prints() {
        assert_eq!(
            parse(
                "schedfreq: round_trips 200000 seconds 0.5 per_second 354609.2 quiet_per_second 371023.9\n"
            ),
            Some(Run { rate: 354_609.2, quiet: 371_023.9, count: 200_000.0 })
        );
        for bad in [
            "",
            "round_trips 7 per_second 1",
            "round_trips 7 per_second 0 quiet_per_second 1",
            "round_trips 7 per_second nan quiet_per_second 1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

//! The recorded load: a program that repeats a small operation as often as it can and prints the number.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow};
pub use wakepath_runner::{LOAD_CPU, Run};
use wakepath_runner::{alone, stdout_of};

/// Loads by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Two threads pass a semaphore to and fro on the same CPU: the highest possible rate of switches.
    Schedfreq,
    /// A client and a server pass 32 bytes to and fro over loopback TCP on the same CPU.
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

/// The chosen loads; all by default. Each does a fixed number of round trips, which take about `seconds` if a
/// switch takes a microsecond.
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
        [alone(), self.program_words()].concat()
    }

    /// Without priority.
    fn words_on(&self, cpu: usize) -> Vec<String> {
        [["taskset", "-c", &cpu.to_string()].map(str::to_owned).to_vec(), self.program_words()].concat()
    }

    fn program_words(&self) -> Vec<String> {
        [&self.program.display().to_string(), "--rounds", &self.trips.to_string()].map(str::to_owned).to_vec()
    }

    /// The command line, so that a reader can run it again.
    pub fn command(&self) -> String {
        self.words().join(" ")
    }

    /// The same for [`Self::run_on_each`].
    pub fn command_on_each(&self) -> String {
        self.words_on(0).join(" ")
    }

    /// Runs it once.
    pub fn run(&self) -> Result<Run> {
        finished(&self.command(), started(&self.words())?)
    }

    /// Runs it at once on each of the first `cpus` CPUs, with normal priority.
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
    let said = stdout_of(command, &child.wait_with_output()?)?;
    Run::parse(&said).ok_or_else(|| anyhow!("`{command}` printed no rate"))
}

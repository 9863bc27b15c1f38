//! What is recorded: a program that does one small thing as often as it can and prints how often.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};

use crate::LOAD_CPU;

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
    /// For people.
    pub name: &'static str,
    program: PathBuf,
    seconds: f64,
}

/// What one run of the load did.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Round trips a second.
    pub rate: f64,
    /// Round trips in all.
    pub count: f64,
}

/// The chosen loads; all if none is chosen.
pub fn chosen(names: &[Name], folder: &Path, seconds: f64) -> Vec<Load> {
    let names = if names.is_empty() { &[Name::Schedfreq, Name::Tcpping] } else { names };
    let load = |name: &Name| {
        let (name, file) = match name {
            Name::Schedfreq => ("semaphore ping-pong on one CPU", "schedfreq"),
            Name::Tcpping => ("TCP request and response of 32 bytes on one CPU", "tcpping"),
        };
        Load { name, program: folder.join(file), seconds }
    };
    names.iter().map(load).collect()
}

impl Load {
    fn words(&self) -> Vec<String> {
        let cpu = LOAD_CPU.to_string();
        let seconds = self.seconds.to_string();
        let program = self.program.display().to_string();
        ["chrt", "-f", PRIORITY, "taskset", "-c", &cpu, &program, &seconds].map(str::to_owned).to_vec()
    }

    /// What is run, so that it can be run again.
    pub fn command(&self) -> String {
        self.words().join(" ")
    }

    /// Runs it once.
    pub fn run(&self) -> Result<Run> {
        let words = self.words();
        let output = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", words[0]))?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "`{}` failed ({}): {}",
            self.command(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let rate = rate(&said).ok_or_else(|| anyhow!("`{}` printed no rate", self.command()))?;
        Ok(Run { rate, count: rate * self.seconds })
    }
}

/// The figure of the line that begins with `rate`.
fn rate(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.trim_start().strip_prefix("rate"))?;
    let figure = line.split(|c: char| !c.is_ascii_digit() && c != '.').find(|piece| !piece.is_empty())?;
    figure.parse().ok().filter(|rate: &f64| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn the_rate_is_read_from_its_line() {
        assert_eq!(rate("round trips: 700\nrate: 354610.5 round trips a second\n"), Some(354_610.5));
        for bad in ["", "rate: none", "rate: 0", "rates high"] {
            assert_eq!(rate(bad), None, "{bad}");
        }
    }
}

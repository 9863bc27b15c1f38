//! Other tools: whether they exist, perf's probes on a function, a run to its end.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use wakepath_runner::stdout_of;

/// perf's probes at a function's entry and return, which affect all processes until they are removed.
pub struct PerfProbes {
    events: [String; 2],
}

impl PerfProbes {
    /// Puts them on a function in a program, whose file has this name.
    pub fn put(program: &Path, name: &str, function: &str) -> Result<Self> {
        let events = [format!("probe_{name}:{function}"), format!("probe_{name}:{function}__return")];
        let probes = Self { events };
        probes.remove();
        let program = program.display().to_string();
        for probe in [function, &format!("{function}%return")] {
            said(&owned(&["perf", "probe", "-q", "-x", &program, probe]))?;
        }
        Ok(probes)
    }

    fn remove(&self) {
        for event in &self.events {
            let mut command = Command::new("perf");
            command.args(["probe", "-q", "-d", event]).stdout(Stdio::null()).stderr(Stdio::null());
            let _ = command.status();
        }
    }
}

impl Drop for PerfProbes {
    fn drop(&mut self) {
        self.remove();
    }
}

pub fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Whether no program has this name.
pub fn is_missing(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
}

/// A program's version, in its own words.
pub fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    output.map_or_else(
        |_| format!("no {program}"),
        |output| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned(),
    )
}

/// Runs it to its end. Returns all its output.
pub fn said(words: &[String]) -> Result<String> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("cannot run {}", words[0]))?;
    let said = stdout_of(&words.join(" "), &output)?;
    Ok(format!("{said}\n{}", String::from_utf8_lossy(&output.stderr)))
}

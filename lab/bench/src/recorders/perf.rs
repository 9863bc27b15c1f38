//! `perf record -a` with the same events.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Recorded, Recorder, Recording, started};
use crate::{processes, tracepoints};

/// Large enough for a million events a second without loss.
const BUFFER: &str = "64M";

/// Its events count well before this time.
const START: Duration = Duration::from_millis(800);

/// The system call by which a traced program names its current request, and the filter that leaves out all others
/// ([`super::ftrace`] has the same).
const CALLS: [&str; 4] = ["-e", "raw_syscalls:sys_enter", "--filter", "id == 39"];

pub struct Perf {
    output: PathBuf,
    with_calls: bool,
}

struct Running {
    child: Child,
    output: PathBuf,
}

impl Perf {
    pub fn new(folder: &Path) -> Self {
        Self { output: folder.join("perf.data"), with_calls: false }
    }

    /// With the system call for a program's spans beside the events of all recorders.
    pub fn with_calls(folder: &Path) -> Self {
        Self { with_calls: true, ..Self::new(folder) }
    }
}

impl Recorder for Perf {
    fn name(&self) -> String {
        "perf".to_owned()
    }

    fn command(&self) -> String {
        let calls = if self.with_calls { " -e raw_syscalls:sys_enter --filter 'id == 39'" } else { "" };
        format!("perf record -a -m {BUFFER} -e EVENTS{calls}")
    }

    fn start(&mut self) -> Result<Box<dyn Recording>> {
        let mut command = Command::new("perf");
        command.args(["record", "-a", "-m", BUFFER, "-e", &tracepoints::here().join(",")]);
        if self.with_calls {
            command.args(CALLS);
        }
        let begun = Instant::now();
        // Its files do not show when its events count.
        let child = started(command.arg("-o").arg(&self.output), "perf", |_| begun.elapsed() > START)?;
        Ok(Box::new(Running { child, output: self.output.clone() }))
    }
}

impl Recording for Running {
    fn consumer_cpu(&mut self) -> Result<Duration> {
        processes::cpu_time(self.child.id())
    }

    fn stop(self: Box<Self>) -> Result<Recorded> {
        // It reads all its data once more, for build ids, before it ends.
        let output = processes::interrupt(self.child, Duration::from_secs(60))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let bytes = fs::metadata(&self.output).ok().map(|metadata| metadata.len());
        fs::remove_file(&self.output).context("perf left no recording")?;
        let events = number_before(&said, "samples)");
        Ok(Recorded { events, lost: Some(lost(&said)), bytes, ..Recorded::default() })
    }
}

/// `… (123 samples) ]`
fn number_before(said: &str, unit: &str) -> Option<u64> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let index = words.iter().position(|word| *word == unit)?;
    words.get(index.checked_sub(1)?)?.trim_start_matches('(').parse().ok()
}

/// `Processed 123 events and lost 4 chunks!` or `lost 4 samples`; no such line means none.
fn lost(said: &str) -> u64 {
    let words: Vec<&str> = said.split_whitespace().collect();
    let after = words.iter().position(|word| *word == "lost").and_then(|index| words.get(index + 1));
    after.and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{lost, number_before};

    #[test]
    fn what_perf_says_at_its_end_is_read() {
        let said = "[ perf record: Woken up 3 times to write data ]\n\
            Processed 130 events and lost 2 chunks!\n\nCheck IO/CPU overload!\n\n\
            [ perf record: Captured and wrote 1.2 MB perf.data (12345 samples) ]\n";
        assert_eq!(number_before(said, "samples)"), Some(12345));
        assert_eq!(lost(said), 2);
        assert_eq!(number_before("nothing", "samples)"), None);
        assert_eq!(lost("[ perf record: Captured and wrote 1.2 MB perf.data (1 samples) ]"), 0);
    }
}

//! `perf record` for this machine's scheduler.

use std::io::ErrorKind;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::live::{self, Place, not_possible, skip};

/// The events in the documents.
pub const EVENTS: &str =
    "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,irq:*,timer:hrtimer_expire_*";

/// A folder: two perfs break their cache.
pub struct PerfPlace(Place, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Deref for PerfPlace {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

/// A folder in which perf may record the scheduler on all CPUs; `None`, with a printed reason, if
/// it may not.
pub fn place(would_show: &str) -> Option<PerfPlace> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = live::place(would_show)?;
    let tried = Command::new("perf")
        .args(["record", "-q", "-a", "-e", "sched:sched_switch", "-o"])
        .arg(folder.join("tried.data"))
        .args(["--", "true"])
        .output();
    match tried {
        Ok(output) if output.status.success() => return Some(PerfPlace(folder, alone)),
        // A process that may record may also use perf.
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            skip(&format!("perf may not record: {}", said.trim()), would_show);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => not_possible("no perf here", would_show),
        Err(error) => panic!("perf cannot be run: {error}"),
    }
    None
}

/// Runs `perf record` on all CPUs into this file, with these arguments, while a command runs.
pub fn record(folder: &Path, file: &str, arguments: &[&str], command: &[&str]) {
    let output = Command::new("perf")
        .args(["record", "-q", "-N", "-a", "-m", "8M", "-o", file])
        .args(arguments)
        .arg("--")
        .args(command)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("perf");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

//! How a recording is found and read.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use wakepath_engine::{Recorded, open_all};

use crate::failure::Failure;

/// Which recording.
#[derive(Debug, Args)]
pub struct Input {
    /// The recording, the folder of a kernel trace by LTTng, a perf.data or a trace.dat; of several hosts, one
    /// each, and the first one's clock is everybody's, and its threads are those that --pid and --tid mean
    /// without --host
    #[arg(value_name = "REC", default_value = DEFAULT)]
    pub recordings: Vec<PathBuf>,
}

/// What every verb reads when given none, and what `record` writes.
pub const DEFAULT: &str = "./wakepath.rec";

impl Input {
    /// Reads it. Says on a terminal how far it is, where that takes long.
    pub fn read(&self) -> Result<Recorded, Failure> {
        let mut progress = Progress::new();
        let recorded = open_all(&self.recordings, |done, total| progress.tell(done, total));
        progress.end();
        Ok(recorded?)
    }

    /// How to ask for these recordings on the command line: nothing for the default one.
    pub fn argument(&self) -> String {
        if self.recordings == [Path::new(DEFAULT)] {
            return String::new();
        }
        self.recordings.iter().map(|recording| format!(" {}", recording.display())).collect()
    }
}

/// A line on a terminal that says how far reading is.
pub struct Progress {
    began: Instant,
    wanted: bool,
    told: bool,
}

/// Who waits no longer than this needs no progress.
const PATIENCE: Duration = Duration::from_millis(700);

impl Progress {
    /// Nothing is said so far.
    pub fn new() -> Self {
        Self { began: Instant::now(), wanted: io::stderr().is_terminal(), told: false }
    }

    /// So much of so much is read.
    pub fn tell(&mut self, done: u64, total: u64) {
        if !self.wanted || self.began.elapsed() < PATIENCE {
            return;
        }
        self.told = true;
        let [done, total] = [done, total.max(done)].map(|n| n as f64 / 1e6);
        let _ = write!(io::stderr(), "\rreading: {done:.0} of {total:.0} million events ");
    }

    /// Takes the line away.
    pub fn end(&self) {
        if self.told {
            // Back to the line's beginning, and erase it.
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

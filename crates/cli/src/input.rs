//! Reading recordings: which, and the progress line on a terminal.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use wakepath_engine::{Recorded, open_all, open_marks};

use crate::failure::Failure;

/// The recordings to read.
#[derive(Debug, Args)]
pub struct Input {
    /// The recording: by wakepath, an LTTng trace (its directory), a perf.data, a trace.dat, a Perfetto trace, or text by
    /// trace-cmd report, perf script or ftrace [default: ./wakepath.rec]
    ///
    /// perf's parts (perf record --switch-output) are a single recording: give all of them, or their folder.
    ///
    /// For several hosts, give a recording of each: all times are on the first host's clock, and --pid and --tid mean
    /// threads of the first host unless --host names another.
    #[arg(value_name = "REC")]
    pub recordings: Vec<PathBuf>,
}

/// The recording that verbs read and `record` writes by default.
pub const DEFAULT: &str = "./wakepath.rec";

impl Input {
    /// Reads the recordings. Shows progress on a terminal if reading takes long.
    pub fn read(&self) -> Result<Recorded, Failure> {
        self.read_by(|recordings, progress| open_all(recordings, progress))
    }

    /// Reads the recordings for a question about programs' own marks alone.
    pub fn read_marks(&self) -> Result<Recorded, Failure> {
        self.read_by(|recordings, progress| open_marks(recordings, progress))
    }

    fn read_by<E: Into<Failure>>(
        &self,
        open: impl FnOnce(&[PathBuf], &mut dyn FnMut(u64, u64)) -> Result<Recorded, E>,
    ) -> Result<Recorded, Failure> {
        let mut progress = Progress::new();
        let default = [PathBuf::from(DEFAULT)];
        let recordings = if self.recordings.is_empty() { &default[..] } else { &self.recordings };
        let recorded = open(recordings, &mut |done, total| progress.show(done, total));
        progress.end();
        recorded.map_err(Into::into)
    }

    /// The recordings as words for a command line: none for the default recording.
    pub fn words(&self) -> Vec<String> {
        if self.recordings == [Path::new(DEFAULT)] {
            return Vec::new();
        }
        self.recordings.iter().map(|recording| recording.display().to_string()).collect()
    }

    /// These words as text, each after a space.
    pub fn argument(&self) -> String {
        self.words().iter().map(|word| format!(" {word}")).collect()
    }
}

/// A terminal line with the progress of reading.
pub struct Progress {
    began: Instant,
    on_terminal: bool,
    shown: bool,
}

/// The reading time without a progress line.
const PATIENCE: Duration = Duration::from_millis(700);

impl Progress {
    /// A progress line that is not shown yet.
    pub fn new() -> Self {
        Self { began: Instant::now(), on_terminal: io::stderr().is_terminal(), shown: false }
    }

    /// Shows that `done` of `total` events are read.
    pub fn show(&mut self, done: u64, total: u64) {
        if !self.on_terminal || self.began.elapsed() < PATIENCE {
            return;
        }
        self.shown = true;
        let [done, total] = [done, total.max(done)].map(|n| n as f64 / 1e6);
        let _ = write!(io::stderr(), "\rreading: {done:.0} of {total:.0} million events ");
    }

    /// Erases the line.
    pub fn end(&self) {
        if self.shown {
            // Go to the line's beginning, and erase the line.
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

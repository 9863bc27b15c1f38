//! A measurement's programs, and its output folder.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::load::LOAD_CPU;
use crate::{machine, processes};

/// The CPU for everything but the load.
pub const OTHER_CPU: usize = 0;

#[derive(Debug, Args)]
pub struct Places {
    /// The programs that make the load.
    #[arg(long, default_value = "lab/workloads/bin")]
    pub workloads: PathBuf,
    /// The program under test.
    #[arg(long, default_value = "target/release/wakepath")]
    pub wakepath: PathBuf,
    /// Folder for the output of recorders and tools, which is removed.
    #[arg(long, default_value = "target/bench")]
    pub output: PathBuf,
}

impl Places {
    /// Makes the folder, and leaves the load's CPU to the load. `why_root`: the reason why `others` need root.
    pub fn prepare(&self, others: &str, why_root: &str) -> Result<()> {
        ensure!(machine::cpus() > LOAD_CPU, "needs 2 CPUs: one for the load, one for the {others}");
        ensure!(machine::is_root(), "{why_root}\nhint: sudo make bench");
        std::fs::create_dir_all(&self.output)
            .with_context(|| format!("cannot make {}", self.output.display()))?;
        processes::pin_this_process(OTHER_CPU)
    }
}

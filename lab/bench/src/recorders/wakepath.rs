//! `wakepath record`, whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use libbpf_rs::query::ProgInfoIter;
use serde_json::Value;
use wakepath_process::Process;
use wakepath_runner::{document, printed};

use super::{Recorded, Recorder, Recording, Stacks, started};
use crate::processes;

pub struct Wakepath {
    name: &'static str,
    program: PathBuf,
    options: &'static [&'static str],
    output: PathBuf,
}

struct Running {
    child: Child,
    program: PathBuf,
    output: PathBuf,
    is_flight: bool,
}

impl Running {
    /// The recording to read: a flight recorder has none until a trigger.
    fn recording(&self) -> Result<PathBuf> {
        if !self.is_flight {
            return Ok(self.output.clone());
        }
        let kept = printed(Command::new(&self.program).arg("trigger").arg(&self.output));
        Ok(PathBuf::from(kept.context("the flight recorder kept nothing")?.trim()))
    }
}

/// The table's rows: the default options, the smallest set that makes a path, and stacks.
pub fn rows(program: &Path, folder: &Path) -> Vec<Box<dyn Recorder>> {
    vec![
        with("wakepath, path events alone", &["--path-only"], program, folder),
        by_default(program, folder),
        with("wakepath --stacks", &["--stacks"], program, folder),
        with("wakepath --stacks, by frame pointers", &["--stacks", "--frame-pointers"], program, folder),
    ]
}

/// The row with default options.
pub fn by_default(program: &Path, folder: &Path) -> Box<dyn Recorder> {
    with("wakepath", &[], program, folder)
}

/// `wakepath record -a` with these options.
pub fn with(
    name: &'static str,
    options: &'static [&'static str],
    program: &Path,
    folder: &Path,
) -> Box<dyn Recorder> {
    let output = folder.join("wakepath.rec");
    Box::new(Wakepath { name, program: program.to_path_buf(), options, output })
}

/// Whether the process has attached its program for switches, which is among the last.
fn records(pid: u32) -> bool {
    let descriptors = Process::open(pid).and_then(|process| process.descriptors()).unwrap_or_default();
    let texts = descriptors.into_iter().filter_map(|text| String::from_utf8(text).ok());
    let attached: Vec<u32> =
        texts.filter(|text| text.contains("link_type:")).filter_map(|text| program_of_link(&text)).collect();
    !attached.is_empty()
        && ProgInfoIter::default()
            .any(|program| attached.contains(&program.id) && program.name == "sched_switch")
}

/// A link's program, as the kernel describes the link's descriptor.
fn program_of_link(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("prog_id:"))?.trim().parse().ok()
}

/// A recording's stacks, from the `info` document.
fn stacks(info: &Value) -> Option<Stacks> {
    let taken = info["stacks"]["taken"].as_u64()?;
    let repeated = info["stacks"]["repeated"].as_u64()?;
    Some(Stacks { taken, repeated, taken_ns: info["frames"]["taken_ns"].as_u64()? })
}

impl Recorder for Wakepath {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn command(&self) -> String {
        ["wakepath record -a"].iter().chain(self.options).copied().collect::<Vec<_>>().join(" ")
    }

    fn start(&mut self) -> Result<Box<dyn Recording>> {
        // Left by a run that was stopped.
        let _ = fs::remove_dir_all(&self.output);
        let mut command = Command::new(&self.program);
        command.arg("record").arg("-a").args(self.options).arg("-o").arg(&self.output);
        let child = started(&mut command, "wakepath", records)?;
        let is_flight = self.options.contains(&"--flight");
        Ok(Box::new(Running { child, program: self.program.clone(), output: self.output.clone(), is_flight }))
    }
}

impl Recording for Running {
    fn consumer_cpu(&mut self) -> Result<Duration> {
        processes::cpu_time(self.child.id())
    }

    fn stop(self: Box<Self>) -> Result<Recorded> {
        let recording = self.recording()?;
        processes::interrupt(self.child, Duration::from_secs(60))?;
        let info: Value = document(Command::new(&self.program).args(["info", "--json"]).arg(&recording))?;
        let events =
            info["events"].as_object().ok_or_else(|| anyhow!("no events in `wakepath info --json`"))?;
        let losses =
            info["losses"].as_array().map(|losses| losses.iter().filter_map(|it| it["count"].as_u64()));
        fs::remove_dir_all(&self.output)?;
        Ok(Recorded {
            events: Some(events.values().filter_map(Value::as_u64).sum()),
            lost: losses.map(Iterator::sum),
            bytes: info["recording"]["bytes"].as_u64(),
            stacks: stacks(&info),
        })
    }
}

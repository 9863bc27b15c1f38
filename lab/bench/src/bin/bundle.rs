//! Makes a recording fit for publication: `bundle FROM TO`.
//!
//! A recording is system-wide, and its names reveal facts about a machine and its users. The recorded command and the
//! kernel keep their names. All other threads keep their times and lose their names, so the path is the same to the
//! nanosecond.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use wakepath_event::{Comm, Event, EventKind, EventSource, Mark, NameSpace, RecordingFormat, Tid};
use wakepath_recording::{ClockReading, Options, Recording, Writer};

/// The name for every other process.
const OTHER: &[u8] = b"other";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = words.as_slice() else { bail!("usage: bundle FROM TO") };
    let recording = Recording::open(Path::new(from)).with_context(|| format!("cannot read {from}"))?;
    let source = recording.description();
    let (first, _) = source.extent.context("the recording is empty")?;
    let offset = source.realtime_offset_ns.unwrap_or(0);
    let format = source.format.clone().unwrap_or_default();
    let options = Options {
        clock: ClockReading {
            monotonic_ns: first.ns(),
            realtime_ns: u64::try_from(i128::from(first.ns()) + offset).context("it is from before 1970")?,
        },
        uuid: Some(recording.uuid()),
        ..Options::new(&format.writer, &format.options)
    };
    let mut writer = Writer::create(Path::new(to), &source.host, &options)?;

    let kept = KeptThreads::of(&recording)?;
    let mut failed = None;
    for (index, stream) in recording.streams().iter().enumerate() {
        if !stream.name.starts_with("life") {
            // Switches, wakings and packets contain numbers alone.
            let within = Path::new("kernel").join(&stream.name);
            fs::copy(Path::new(from).join(&within), Path::new(to).join(&within))?;
            continue;
        }
        let problems = recording.for_each_of(index, |event| {
            if let Some(event) = kept.without_names(event.clone())
                && let Err(error) = writer.life().push_event(&event)
            {
                failed.get_or_insert(error);
            }
        });
        ensure!(problems.is_empty(), "the recording is damaged: {problems:?}");
    }
    if let Some(error) = failed {
        return Err(error).context("cannot write an event");
    }
    writer.life().flush(u64::MAX, 0)?;
    Ok(())
}

/// The threads with kept names.
struct KeptThreads {
    processes: HashSet<Tid>,
    threads: HashSet<Tid>,
    /// The recorder, which reads other processes' files for their build ids.
    recorder: Option<Tid>,
}

impl KeptThreads {
    /// The recorded command, its descendants, the recorder and the kernel's threads.
    fn of(recording: &Recording) -> Result<Self> {
        let mut kept = Self { processes: HashSet::new(), threads: HashSet::new(), recorder: None };
        let mut forks = Vec::new();
        recording.for_each(|event| match &event.kind {
            EventKind::Mark(mark @ (Mark::Command { tgid, .. } | Mark::Observer(tgid))) => {
                kept.processes.insert(*tgid);
                kept.threads.insert(*tgid);
                if matches!(mark, Mark::Observer(_)) {
                    kept.recorder = Some(*tgid);
                }
            }
            EventKind::Thread { identity, .. } if identity.kernel => {
                kept.processes.insert(identity.tgid);
                kept.threads.insert(identity.tid);
            }
            EventKind::Fork { child } => forks.push(child.clone()),
            _ => {}
        });
        ensure!(!kept.processes.is_empty(), "no command was recorded");
        // A parent's fork precedes its children's.
        for child in forks {
            if child.kernel || kept.processes.contains(&child.parent) || kept.processes.contains(&child.tgid)
            {
                kept.processes.insert(child.tgid);
                kept.threads.insert(child.tid);
            }
        }
        Ok(kept)
    }

    /// The event without other processes' names; `None` if nothing is left.
    fn without_names(&self, mut event: Event) -> Option<Event> {
        let other = Comm::new(OTHER);
        let ours = self.threads.contains(&event.current);
        match &mut event.kind {
            EventKind::Thread { identity, .. } if !self.threads.contains(&identity.tid) => {
                identity.comm = other
            }
            EventKind::Fork { child } if !self.threads.contains(&child.tid) => child.comm = other,
            EventKind::Exec { comm, path, .. } if !ours => {
                *comm = other;
                *path = OTHER.into();
            }
            EventKind::Rename { tid, comm } if !self.threads.contains(tid) => *comm = other,
            EventKind::File(file) if !self.processes.contains(&file.tgid) => return None,
            EventKind::File(file) if self.recorder == Some(file.tgid) => return None,
            EventKind::Mapping(mapping) if !self.processes.contains(&mapping.tgid) => return None,
            EventKind::Name(
                NameSpace::Cgroup
                | NameSpace::CpuCgroup
                | NameSpace::IoCgroup
                | NameSpace::IoLimit
                | NameSpace::MemoryCgroup
                | NameSpace::Refaults
                | NameSpace::Scheduling
                | NameSpace::Program,
                ..,
            ) => {
                return None;
            }
            EventKind::Flow(..) => return None,
            _ => {}
        }
        Some(event)
    }
}

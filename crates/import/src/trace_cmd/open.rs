use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::Source;
use wakepath_event::Event;

use super::TraceDatError;
use super::container::{Buffer, Container};
use super::lane::{ItemKind, TSC, merge};
use super::tell::Teller;
use crate::formats::MAGIC;
use crate::normalise::{Normaliser, ReportedStates, WakeupBy};
use crate::plan::Kind;
use crate::{Clock, Damage, DamageKind, Fault, Host};

/// A `trace.dat`, opened for reading.
#[derive(Debug)]
pub struct TraceDat<S = File> {
    path: PathBuf,
    source: S,
    container: Container,
    /// Which of the buffers is read.
    buffer: usize,
    host: Host,
    clock: Clock,
    states: ReportedStates,
    wakings: bool,
    first: u64,
    last: u64,
    damages: Vec<Damage>,
}

/// What the first pass over a buffer finds.
#[derive(Default)]
struct Index {
    switches: bool,
    wakings: bool,
    /// Events by their number.
    counts: BTreeMap<u16, u64>,
    /// ns.
    first: Option<u64>,
    last: u64,
    faults: Vec<(u64, Fault)>,
}

impl TraceDat {
    /// Whether a file begins like one.
    pub fn is_one(path: &Path) -> bool {
        let mut begin = [0; MAGIC.len()];
        let read = File::open(path).and_then(|file| Source::read_at(&file, 0, &mut begin));
        read.is_ok_and(|read| begin[..read] == *MAGIC)
    }

    /// Opens a file and looks at all its events once.
    ///
    /// # Errors
    /// When it is none, is of a kind that is not read, or holds no switches. Damage among its pages is no
    /// error: see [`TraceDat::for_each`].
    pub fn open(path: &Path) -> Result<Self, TraceDatError> {
        let file = File::open(path).map_err(|source| TraceDatError::Io { path: path.to_owned(), source })?;
        Self::of(file, path)
    }
}

impl<S: Source> TraceDat<S> {
    /// The same, of bytes from anywhere; `path` is what they are called.
    ///
    /// # Errors
    /// As [`TraceDat::open`].
    pub fn of(source: S, path: &Path) -> Result<Self, TraceDatError> {
        let container = Container::read(&source, path)?;
        let mut chosen: Option<(usize, Index)> = None;
        let (mut holds, mut others) = (BTreeMap::new(), Vec::new());
        for (number, buffer) in container.buffers.iter().enumerate() {
            let index = Index::of(&source, &container, buffer);
            for (&id, count) in &index.counts {
                *holds.entry(id).or_insert(0_u64) += count;
            }
            if index.switches && chosen.is_none() {
                chosen = Some((number, index));
            } else if !index.counts.is_empty() {
                others.push(if buffer.name.is_empty() {
                    "the top one".to_owned()
                } else {
                    buffer.name.clone()
                });
            }
        }
        let Some((buffer, index)) = chosen else {
            let holds = told(&container, &holds);
            return Err(TraceDatError::NoSwitches { path: path.to_owned(), holds });
        };
        let name = container.buffers[buffer].clock.as_str();
        let clock = clock(name, container.said.tsc.is_some()).map_err(|why| TraceDatError::Clock {
            path: path.to_owned(),
            clock: name.to_owned(),
            why,
        })?;
        let mut damages: Vec<_> = index.faults.into_iter().map(|fault| Damage::at(path, fault)).collect();
        let mut add = |kind| damages.push(Damage::of(path, kind));
        if !others.is_empty() {
            add(DamageKind::OtherBuffers(others));
        }
        for &(cpu, count) in &container.said.dropped {
            add(DamageKind::BufferFull { cpu, count });
        }
        if clock == Clock::Uptime {
            add(DamageKind::CoarseClock);
        }
        let mut words = container.said.uname.split_whitespace().skip(1).map(str::to_owned);
        let (name, kernel_release) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let states = container.tracepoints.states.unwrap_or_else(|| {
            add(DamageKind::StatesUndescribed);
            ReportedStates::of_release(&kernel_release)
        });
        let version = container.said.version.split_whitespace().next().unwrap_or_default();
        let tracer = format!("trace-cmd {version}").trim_end().to_owned();
        Ok(Self {
            path: path.to_owned(),
            host: Host { name, kernel_release, tracer, boot_id: String::new() },
            buffer,
            clock,
            states,
            wakings: index.wakings,
            first: index.first.unwrap_or(0),
            last: index.last,
            damages,
            container,
            source,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose events it holds. Of which boot, trace-cmd does not note.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// By which clock its stamps are.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Realtime (ns since 1970) less the file's clock, to the µs; `None` where it was recorded without `--date`.
    pub fn realtime_offset_ns(&self) -> Option<i128> {
        self.container.said.realtime_offset_us.map(|us| i128::from(us) * 1000)
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> u64 {
        self.read().cpus.iter().map(|pages| pages.to - pages.from).sum()
    }

    /// The stamps of the first event and the last.
    pub const fn span(&self) -> (Stamp<Local>, Stamp<Local>) {
        (Stamp::from_ns(self.first), Stamp::from_ns(self.last))
    }

    /// Which tracepoint of a wake-up counts.
    pub const fn wakeup_by(&self) -> WakeupBy {
        if self.wakings { WakeupBy::Waking } else { WakeupBy::Wakeup }
    }

    /// Tells all events in time order, those of equal stamps by CPU. Says what was damaged or is doubtful; what
    /// was lost is told among the events.
    pub fn for_each(&self, tell: impl FnMut(&Event)) -> Vec<Damage> {
        self.for_each_with(tell, |_| {})
    }

    /// The same; now and then `progress` is told how many of [`TraceDat::bytes`] were read.
    pub fn for_each_with(&self, tell: impl FnMut(&Event), mut progress: impl FnMut(u64)) -> Vec<Damage> {
        /// Bytes between two reports of progress.
        const EVERY: u64 = 1 << 20;
        let normaliser = Normaliser::with_states(self.states, self.wakeup_by());
        let mut teller = Teller::new(&self.container, normaliser, self.first, tell);
        let (mut read, mut said) = (0, 0);
        // Where it cannot be read, the first pass found, too.
        merge(
            &self.source,
            &self.container,
            self.read(),
            |cpu, item, bytes| teller.item(cpu, item, bytes),
            |bytes| {
                read += bytes;
                if read - said >= EVERY {
                    said = read;
                    progress(read);
                }
            },
        );
        let mut damages = self.damages.clone();
        let mut add = |kind| damages.push(Damage::of(&self.path, kind));
        if teller.unreadable > 0 {
            add(DamageKind::EventsSkipped { count: teller.unreadable, first: None });
        }
        teller.doubt_of_wakings().into_iter().for_each(&mut add);
        // A CPU may be in an interrupt of each kind when recording begins.
        let unmatched = teller.unmatched();
        if unmatched > 8 * self.read().cpus.len() as u64 {
            add(DamageKind::UnmatchedInterrupts(unmatched));
        }
        damages
    }

    fn read(&self) -> &Buffer {
        &self.container.buffers[self.buffer]
    }
}

impl Index {
    fn of(source: &impl Source, container: &Container, buffer: &Buffer) -> Self {
        let mut index = Self::default();
        let faults = merge(
            source,
            container,
            buffer,
            |_, item, bytes| {
                index.first.get_or_insert(item.at);
                index.last = item.at;
                let (ItemKind::Event(_), Some(&id)) = (&item.what, bytes.first_chunk()) else { return };
                let id = u16::from_le_bytes(id);
                *index.counts.entry(id).or_insert(0) += 1;
                match container.tracepoints.plans.get(&id).map(|plan| plan.kind) {
                    Some(Kind::Switch) => index.switches = true,
                    Some(Kind::Waking) => index.wakings = true,
                    _ => {}
                }
            },
            |_| {},
        );
        index.faults = faults;
        index
    }
}

/// The clock that ftrace calls so; else why it is of no use.
fn clock(name: &str, tsc: bool) -> Result<Clock, &'static str> {
    Ok(match name {
        "mono" => Clock::Monotonic,
        "mono_raw" => Clock::Numbered(4),
        "boot" => Clock::Numbered(7),
        "tai" => Clock::Numbered(11),
        "perf" => Clock::Perf,
        // What ftrace takes where nobody asked for another.
        "local" | "" => Clock::Local,
        "global" => Clock::Global,
        "uptime" => Clock::Uptime,
        name if TSC.contains(&name) && tsc => Clock::Tsc,
        name if TSC.contains(&name) => {
            return Err("counts cycles, and the file does not say how many there are in a second");
        }
        "counter" => return Err("counts events and tells no time"),
        _ => return Err("nobody here knows how to read"),
    })
}

/// What was recorded, in a few words, most of it first.
fn told(container: &Container, counts: &BTreeMap<u16, u64>) -> String {
    const MAX_COUNT: usize = 4;
    let mut all: Vec<_> = counts.iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let name = |id: &u16| {
        container.tracepoints.names.get(id).map_or_else(|| format!("event {id}"), |name| name.to_string())
    };
    let mut names: Vec<_> = all.iter().take(MAX_COUNT).map(|(id, _)| name(id)).collect();
    match all.len() {
        0 => "no events".to_owned(),
        len if len > MAX_COUNT => {
            names.push(format!("{} more", len - MAX_COUNT));
            names.join(", ")
        }
        _ => names.join(", "),
    }
}

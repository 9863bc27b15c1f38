//! Counts latencies in the kernel (T08 chapter 2): a session of `bpf/latency.bpf.c`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};

use crate::child::{Held, Identity, Running, Start};
use crate::probes::{Probe, attach, open_calls};
use crate::programs::{into_io, silence_libbpf};
use crate::session::EndReason;
use crate::skeleton::latency::{LatencySkel, LatencySkelBuilder};
use crate::watch::{Watch, pidfd};
use crate::{Error, Signals};

mod calibrate;

pub use calibrate::{Calibration, Entry, Exit, ProbeKind, calibrate};

/// Most targets at once: `WP_TARGETS` of `bpf/latency.h`, but for the counters of calibration.
pub const MOST_TARGETS: usize = 63;
/// Most targets that are disks: `WP_DISK_TARGETS`.
pub const MOST_DISKS: usize = 4;

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// A system call, by its number.
    Call(u32),
    /// Waits for a CPU.
    RunQueue,
    /// Requests of a block device (major << 20 | minor), or of all.
    Disk(Option<u32>),
    /// Calls of user functions, all counted as one.
    Functions(Vec<Probe>),
}

/// What to count, of whom and for how long.
#[derive(Debug, Clone, Default)]
pub struct LatencyOptions {
    /// What is counted; at most [`MOST_TARGETS`].
    pub targets: Vec<Counted>,
    /// Of these processes and what they start; of all where there are none and no command.
    pub processes: Vec<u32>,
    /// The command to run and its arguments.
    pub command: Vec<OsString>,
    /// Who called sudo: the command runs as that user.
    pub caller: Option<Identity>,
    /// The command runs as root all the same.
    pub as_root: bool,
    /// Stop after this long.
    pub duration: Option<Duration>,
    /// Read the counts so often; only at the end if not said.
    pub every: Option<Duration>,
}

/// The counts of a target from the beginning up to a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Of 2^i up to below 2^(i+1) ns.
    pub buckets: [u64; 64],
    /// Of all of them, ns.
    pub sum: u64,
    /// Calls that were left without returning.
    pub left: u64,
    /// Calls that there was no room for, or that recursed too deep.
    pub crowded: u64,
    /// Calls that have not ended.
    pub open: u64,
}

/// The counts of all targets at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Since the beginning.
    pub at: Duration,
    /// In the order in which targets were asked for.
    pub counts: Vec<Counts>,
}

/// What counting came to.
#[derive(Debug)]
pub struct LatencyOutcome {
    /// Why it ended.
    pub reason: EndReason,
    /// The command's wait status, if it ran and ended.
    pub status: Option<i32>,
    /// The command, if it goes on without being counted.
    pub running: Option<Running>,
    /// The counts as time went on; the last is of the end.
    pub readings: Vec<Reading>,
    /// What the probes of each target cost, measured before; nothing where it is not known, or has none.
    pub calibrations: Vec<Option<Calibration>>,
}

/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Counts until the command ends, the time is over or `stop` was asked.
///
/// # Errors
/// When counting could not begin, or the command could not run.
pub fn count(options: &LatencyOptions, stop: &Signals) -> Result<LatencyOutcome, Error> {
    if let Some(&pid) = options.processes.iter().find(|&&pid| pidfd(pid).is_none()) {
        return Err(Error::NoProcess { pid });
    }
    let mut storage = MaybeUninit::uninit();
    let mut counters = Counters::load(&mut storage, options)?;
    // Before there is anybody else to be followed, and anything is counted.
    let calibrations = counters.calibrations(options);
    let held = match options.command.as_slice() {
        [] => None,
        words => Some(Held::spawn(words, options.caller.as_ref().filter(|_| !options.as_root))?),
    };
    let command = held.as_ref().map(|held| held.pid);
    for pid in options.processes.iter().copied().chain(command.map(|pid| pid as u32)) {
        counters.follow(pid)?;
    }
    counters.attach(options)?;
    if let Some(held) = held
        && let Start::Failed(source) = held.release()
    {
        return Err(Error::Exec { command: options.command[0].clone(), source });
    }
    // The kernel takes a tenth of a second to take away a probe: meanwhile, or at once without a thread.
    let calibrated = std::mem::take(&mut counters.calibrated);
    let taken_away = std::thread::Builder::new().spawn(move || drop(calibrated)).ok();
    let began = Instant::now();
    let mut watch = Watch::new(command, &options.processes, options.duration);
    let mut readings = Vec::new();
    let mut next = options.every;
    let (reason, status) = loop {
        let due = next.map(|next| next.saturating_sub(began.elapsed()));
        watch.sleep(due.unwrap_or(LOOK).min(LOOK));
        if let (Some(at), Some(every)) = (next, options.every)
            && began.elapsed() >= at
        {
            readings.push(counters.read(options, began.elapsed())?);
            next = at.checked_add(every);
        }
        if let Some(over) = watch.over(stop) {
            break over;
        }
    };
    // Taking probes away takes longer than many a command.
    let elapsed = began.elapsed();
    counters.links.clear();
    readings.push(counters.read(options, elapsed)?);
    if let Some(taken_away) = taken_away {
        let _ = taken_away.join();
    }
    let running = command.filter(|_| status.is_none()).map(|pid| Running { pid });
    Ok(LatencyOutcome { reason, status, running, readings, calibrations })
}

/// The loaded programs. They count until this is dropped.
struct Counters<'obj> {
    skeleton: LatencySkel<'obj>,
    links: Vec<Link>,
    /// Of calibration.
    calibrated: Vec<Link>,
}

impl<'obj> Counters<'obj> {
    fn load(storage: &'obj mut MaybeUninit<OpenObject>, options: &LatencyOptions) -> Result<Self, Error> {
        let failed = |source| Error::Load { source: into_io(source) };
        silence_libbpf();
        let mut open = LatencySkelBuilder::default().open(storage).map_err(failed)?;
        let asked = |wanted: fn(&Counted) -> bool| options.targets.iter().any(wanted);
        let calls = asked(|target| matches!(target, Counted::Call(_)));
        let run_queue = asked(|target| matches!(target, Counted::RunQueue));
        let disks = asked(|target| matches!(target, Counted::Disk(_)));
        let functions = asked(|target| matches!(target, Counted::Functions(_)));
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(match name.as_str() {
                "sys_enter" | "sys_exit" => calls,
                "sched_waking" | "sched_wakeup_new" | "sched_switch" => run_queue,
                "block_rq_issue" | "block_rq_complete" => disks,
                "follow_fork" => !everyone(options),
                _ => functions,
            });
        }
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or(Error::Skeleton("no .rodata"))?;
        rodata.everyone = everyone(options);
        let mut disk = 0;
        for (index, target) in options.targets.iter().enumerate() {
            let number = index as u16 + 1;
            match target {
                Counted::Call(call) => {
                    if let Some(slot) = rodata.target_of_call.get_mut(*call as usize) {
                        *slot = number;
                    }
                }
                Counted::RunQueue => rodata.run_queue_target = number,
                Counted::Disk(device) => {
                    if let Some(slot) = rodata.disk_targets.get_mut(disk) {
                        (slot.device, slot.target) = (device.unwrap_or(0), number.into());
                    }
                    disk += 1;
                }
                Counted::Functions(_) => {}
            }
        }
        let skeleton = open.load().map_err(failed)?;
        Ok(Self { skeleton, links: Vec::new(), calibrated: Vec::new() })
    }

    fn follow(&self, pid: u32) -> Result<(), Error> {
        let followed = &self.skeleton.maps.followed;
        let put = followed.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY);
        put.map_err(|source| Error::Load { source: into_io(source) })
    }

    fn attach(&mut self, options: &LatencyOptions) -> Result<(), Error> {
        for program in self.skeleton.object().progs_mut().filter(|program| program.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            if program.section().to_string_lossy().starts_with("tp_btf/") {
                let link =
                    program.attach().map_err(|source| Error::Attach { name, source: into_io(source) })?;
                self.links.push(link);
            }
        }
        for (index, target) in options.targets.iter().enumerate() {
            if let Counted::Functions(probes) = target {
                let links = attach(self.skeleton.object(), index, probes, &options.processes)?;
                self.links.extend(links);
            }
        }
        Ok(())
    }

    fn read(&self, options: &LatencyOptions, at: Duration) -> Result<Reading, Error> {
        let open = self.open();
        let counts = (0..options.targets.len()).map(|target| {
            let mut counts = self.counts(target as u32)?;
            counts.open = open.get(&(target as u64)).copied().unwrap_or(0);
            Ok(counts)
        });
        Ok(Reading { at, counts: counts.collect::<Result<_, Error>>()? })
    }

    fn counts(&self, target: u32) -> Result<Counts, Error> {
        let failed = |source: io::Error| Error::Counts { source };
        let values = self.skeleton.maps.distributions.lookup_percpu(&target.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(|source| failed(into_io(source)))?;
        let mut sums = [0_u64; 67];
        for value in values.iter().flatten() {
            for (sum, bytes) in sums.iter_mut().zip(value.chunks_exact(8)) {
                let word = bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
                *sum = sum.saturating_add(word);
            }
        }
        let [buckets @ .., sum, left, crowded] = sums;
        Ok(Counts { buckets, sum, left, crowded, open: 0 })
    }

    /// What has begun and not ended, by target.
    fn open(&self) -> HashMap<u64, u64> {
        let maps = &self.skeleton.maps;
        let mut open = HashMap::new();
        let target = |key: &[u8]| key.get(8..)?.first_chunk().map(|word| u64::from_ne_bytes(*word));
        for key in maps.begun.keys() {
            if let Some(target) = target(&key) {
                *open.entry(target).or_default() += 1;
            }
        }
        for call in open_calls(&maps.open_functions) {
            *open.entry(call.target.into()).or_default() += 1;
        }
        open
    }
}

fn everyone(options: &LatencyOptions) -> bool {
    options.processes.is_empty() && options.command.is_empty()
}

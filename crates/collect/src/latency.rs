//! Counts latencies in the kernel (T08 chapter 2): a session of `bpf/latency.bpf.c`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant, SystemTime};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use wakepath_distribution::{GroupBy, MAX_GROUPS};
use wakepath_functions::{Probe, Runtime};

use crate::child::{Held, Identity, Running, Start};
use crate::kernel_probes::{self, KernelFunction, KernelProbes};
use crate::probes::{attach, detach, open_calls};
use crate::programs::{FROM_THE_START, into_io, silence_libbpf};
use crate::sampling::possible_cpus;
use crate::session::EndReason;
use crate::skeleton::latency::{LatencySkel, LatencySkelBuilder};
use crate::watch::{Watch, pidfd};
use crate::{Error, Signals};

mod calibrate;
mod cycles;
mod groups;
mod kernel;

use cycles::Cycles;
use groups::{Grouping, Parts};

pub use calibrate::{Calibration, calibrate};
pub use groups::{Group, Part};
pub use kernel::try_kernel_functions;

/// Most targets at once: `WP_TARGETS` of `bpf/latency.h`, but for the counters of calibration.
pub const MAX_TARGETS: usize = 63;
/// Most targets that are disks: `WP_DISK_TARGETS`.
pub const MAX_DISKS: usize = 4;

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// A system call, by its number.
    Call(u32),
    /// Waits for a CPU.
    RunQueue,
    /// Waits for locks of user space: futexes.
    UserLock,
    /// Waits for locks of the kernel that put to sleep.
    KernelLock,
    /// Requests of a block device (major << 20 | minor), or of all.
    Disk(Option<u32>),
    /// Calls of a user function.
    Function(Probe),
    /// Calls of a function of the kernel.
    KernelFunction(KernelFunction),
}

/// What to count, of whom and for how long.
#[derive(Debug, Clone, Default)]
pub struct LatencyOptions {
    /// What is counted; at most [`MAX_TARGETS`].
    pub targets: Vec<Counted>,
    /// In cycles of the processor's time-stamp counter instead of nanoseconds.
    pub in_cycles: bool,
    /// Grouping of the counts; `None` makes one total. A disk's requests cannot be grouped.
    pub by: Option<GroupBy>,
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
    /// Of 2^i up to below 2^(i+1) ns or cycles.
    pub buckets: [u64; 64],
    /// Of all of them, ns or cycles.
    pub sum: u64,
    /// Calls that an exception, `longjmp` or the end of their thread unwound: they never returned.
    pub unwound: u64,
    /// Calls that there was no room for, or that recursed too deep.
    pub overflowed: u64,
    /// Calls that have not ended.
    pub open: u64,
    /// Calls of a function of the kernel that nobody saw begin, or return; not told apart by group.
    pub unseen: u64,
}

impl Counts {
    /// Of `struct wp_distribution`s.
    fn sum<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut sums = [0_u64; 67];
        for value in values {
            for (sum, bytes) in sums.iter_mut().zip(value.chunks_exact(8)) {
                let word = bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
                *sum = sum.saturating_add(word);
            }
        }
        let [buckets @ .., sum, unwound, overflowed] = sums;
        Self { buckets, sum, unwound, overflowed, open: 0, unseen: 0 }
    }

    /// What came since `before`; the kernel's counters only grow.
    fn since(&self, before: &Self) -> Self {
        Self {
            buckets: std::array::from_fn(|bucket| {
                self.buckets[bucket].saturating_sub(before.buckets[bucket])
            }),
            sum: self.sum.saturating_sub(before.sum),
            unwound: self.unwound.saturating_sub(before.unwound),
            overflowed: self.overflowed.saturating_sub(before.overflowed),
            open: 0,
            unseen: 0,
        }
    }

    fn add(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(other.buckets) {
            *count = count.saturating_add(more);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.unwound = self.unwound.saturating_add(other.unwound);
        self.overflowed = self.overflowed.saturating_add(other.overflowed);
    }
}

/// Whose the counts of a target are, at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// In no order.
    pub groups: Vec<Group>,
    /// Those for whom there was no room, taken together. With them the groups are the whole.
    pub others: Counts,
}

/// The counts of all targets at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Since the beginning.
    pub at: Duration,
    /// In the order in which targets were asked for.
    pub counts: Vec<Counts>,
    /// What of that came since the reading before, by whose it is; nothing where that was not asked, and no more
    /// once it were more than `MAX_GROUP_SLICES` in all.
    pub parts: Option<Vec<Vec<Part>>>,
}

/// What counting came to.
#[derive(Debug)]
pub struct LatencyOutcome {
    /// When counting began, by the clock on the wall.
    pub began: SystemTime,
    /// Why it ended.
    pub reason: EndReason,
    /// The command's wait status, if it ran and ended.
    pub status: Option<i32>,
    /// The command, if it goes on without being counted.
    pub running: Option<Running>,
    /// The counts as time went on; the last is of the end.
    pub readings: Vec<Reading>,
    /// Whose they are, target by target; nothing where that was not asked.
    pub groups: Vec<Groups>,
    /// The cost of each target's probes, measured before; `None` for no probes or an unknown cost.
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
    let calibrated =
        (std::mem::take(&mut counters.calibrated), std::mem::take(&mut counters.calibrated_kernel));
    let taken_away = std::thread::Builder::new().spawn(move || drop(calibrated)).ok();
    let (began, began_at) = (Instant::now(), SystemTime::now());
    let mut watch = Watch::new(command, &options.processes, options.duration);
    let mut readings = Vec::new();
    // Only then are there several readings.
    let mut parts = Parts::new(options.by.is_some() && options.every.is_some());
    let mut next = options.every;
    let (reason, status) = loop {
        let due = next.map(|next| next.saturating_sub(began.elapsed()));
        watch.sleep(due.unwrap_or(LOOK).min(LOOK));
        if let (Some(at), Some(every)) = (next, options.every)
            && began.elapsed() >= at
        {
            let (mut reading, groups) = counters.read(options, began.elapsed())?;
            reading.parts = parts.since(&groups);
            readings.push(reading);
            next = at.checked_add(every);
        }
        if let Some(over) = watch.over(stop) {
            break over;
        }
    };
    // Before probes are taken away, which takes longer than many a command: others count on meanwhile.
    let (mut last, mut groups) = counters.read(options, began.elapsed())?;
    last.parts = parts.since(&groups);
    counters.kernel_probes.detach();
    detach(&mut counters.links);
    counters.name(groups.iter_mut().flat_map(|of_target| &mut of_target.groups));
    readings.push(last);
    if let Some(taken_away) = taken_away {
        let _ = taken_away.join();
    }
    let running = command.filter(|_| status.is_none()).map(|pid| Running { pid });
    Ok(LatencyOutcome { began: began_at, reason, status, running, readings, groups, calibrations })
}

/// The loaded programs. They count until this is dropped.
struct Counters<'obj> {
    skeleton: LatencySkel<'obj>,
    links: Vec<Link>,
    kernel_probes: KernelProbes,
    grouping: Option<Grouping>,
    /// Kept open.
    cycles: Option<Cycles>,
    /// Of calibration.
    calibrated: Vec<Link>,
    calibrated_kernel: KernelProbes,
}

impl<'obj> Counters<'obj> {
    fn load(storage: &'obj mut MaybeUninit<OpenObject>, options: &LatencyOptions) -> Result<Self, Error> {
        let failed = |source| Error::Load { source: into_io(source) };
        silence_libbpf();
        let mut open = LatencySkelBuilder::default().open(storage).map_err(failed)?;
        let asked = |wanted: fn(&Counted) -> bool| options.targets.iter().any(wanted);
        let calls = asked(|target| matches!(target, Counted::Call(_) | Counted::UserLock));
        let kernel_locks = asked(|target| matches!(target, Counted::KernelLock));
        let run_queue = asked(|target| matches!(target, Counted::RunQueue));
        let disks = asked(|target| matches!(target, Counted::Disk(_)));
        let functions = asked(|target| matches!(target, Counted::Function(_)));
        let kernel_functions = asked(|target| matches!(target, Counted::KernelFunction(_)));
        let goroutines =
            asked(|target| matches!(target, Counted::Function(probe) if probe.runtime == Runtime::Go));
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            program.set_autoload(match name.as_str() {
                "sys_enter" | "sys_exit" => calls,
                "sched_waking" | "sched_wakeup_new" | "sched_switch" => run_queue,
                "contention_begin" | "contention_end" => kernel_locks,
                "read_origins" => options.in_cycles,
                "block_rq_issue" | "block_rq_complete" => disks,
                "goroutines_exit" | "goroutines_exec" => goroutines,
                "follow_fork" | "follow_free" => !everyone(options),
                "kernel_enter" | "kernel_leave" => kernel_functions,
                "function_exit" => functions || kernel_functions,
                "group_renamed" => matches!(options.by, Some(GroupBy::Process | GroupBy::Thread)),
                _ => functions,
            });
        }
        kernel_probes::prepare(open.open_object_mut())?;
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or(Error::Skeleton("no .rodata"))?;
        rodata.everyone = everyone(options);
        // Their numbers are those of all targets.
        rodata.function_targets =
            if functions || kernel_functions { options.targets.len() as u32 } else { 0 };
        let no_cycles = |source| Error::Cycles { source };
        let cycles = options.in_cycles.then(Cycles::open).transpose().map_err(no_cycles)?;
        if cycles.is_some() {
            (rodata.in_cycles, rodata.own_process) = (true, std::process::id());
            let cpus = possible_cpus().map_err(no_cycles)? as u32;
            for map in
                [&mut open.maps.cycle_events, &mut open.maps.cycle_origins, &mut open.maps.cycle_descriptors]
            {
                map.set_max_entries(cpus).map_err(failed)?;
            }
        }
        let grouping = options.by.map(Grouping::new);
        if let Some(grouping) = &grouping {
            rodata.told_apart_by = grouping.number();
            for map in [&mut open.maps.groups, &mut open.maps.group_names] {
                map.set_max_entries(MAX_GROUPS as u32).map_err(failed)?;
            }
        }
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
                Counted::UserLock => rodata.user_lock_target = number,
                Counted::KernelLock => rodata.kernel_lock_target = number,
                Counted::Disk(device) => {
                    if let Some(slot) = rodata.disk_targets.get_mut(disk) {
                        (slot.device, slot.target) = (device.unwrap_or(0), number.into());
                    }
                    disk += 1;
                }
                Counted::Function(_) => {}
                Counted::KernelFunction(_) => rodata.kernel_targets |= 1 << index,
            }
        }
        let skeleton = open.load().map_err(failed)?;
        let counters = Self {
            skeleton,
            links: Vec::new(),
            kernel_probes: KernelProbes::default(),
            grouping,
            cycles,
            calibrated: Vec::new(),
            calibrated_kernel: KernelProbes::default(),
        };
        if let Some(cycles) = &counters.cycles {
            counters.read_cycles(cycles).map_err(no_cycles)?;
        }
        Ok(counters)
    }

    fn follow(&self, pid: u32) -> Result<(), Error> {
        let followed = &self.skeleton.maps.followed;
        let put = followed.update(&pid.to_ne_bytes(), &FROM_THE_START, MapFlags::ANY);
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
            if let Counted::Function(probe) = target {
                let links = attach(self.skeleton.object(), index, probe)?;
                self.links.extend(links);
            }
        }
        self.attach_to_kernel(options)
    }

    fn read(&self, options: &LatencyOptions, at: Duration) -> Result<(Reading, Vec<Groups>), Error> {
        let open = self.open();
        let mut of_target = self.groups()?;
        let (mut counts, mut groups) = (Vec::new(), Vec::new());
        for target in 0..options.targets.len() as u32 {
            let others = self.others(target)?;
            let found = of_target.remove(&target.into()).unwrap_or_default();
            let mut whole = others.clone();
            found.iter().for_each(|group| whole.add(&group.counts));
            whole.open = open.get(&target.into()).copied().unwrap_or(0);
            whole.unseen = self.unseen(target)?;
            counts.push(whole);
            if self.grouping.is_some() {
                groups.push(Groups { groups: found, others });
            }
        }
        Ok((Reading { at, counts, parts: None }, groups))
    }

    /// Of nobody that is told apart.
    fn others(&self, target: u32) -> Result<Counts, Error> {
        let values = self.skeleton.maps.distributions.lookup_percpu(&target.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(|source| Error::Counts { source: into_io(source) })?;
        Ok(Counts::sum(values.iter().flatten().map(Vec::as_slice)))
    }

    /// What has begun and not ended, by target.
    fn open(&self) -> HashMap<u64, u64> {
        let maps = &self.skeleton.maps;
        let mut open = HashMap::new();
        // Of a lock the upper half is a thread.
        let target = |key: &[u8]| key.get(8..)?.first_chunk().map(|half| u32::from_ne_bytes(*half).into());
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

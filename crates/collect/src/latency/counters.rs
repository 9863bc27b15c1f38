//! The counting BPF programs: loaded, attached, and their counts read.

use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant, SystemTime};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, OpenObject};
use wakepath_distribution::{GroupBy, MAX_GROUPS};
use wakepath_event::Call;
use wakepath_functions::{Return, Runtime};
use wakepath_process::sees_all_processes;

use super::counts::{Counts, Group, Groups, Reading};
use super::cycles::Cycles;
use super::groups::{self, Grouping};
use super::options::{Counted, LatencyOptions, MAX_CALLS, MAX_TARGETS};
use crate::callers::LearnedCallers;
use crate::error::Error;
use crate::kernel_probes::{self, KernelProbes, KernelTypes};
use crate::libbpf::{self, into_io, load_error, per_cpu, sum_per_cpu};
use crate::probe_budget::{RemovedProbes, StepBudget};
use crate::probes;
use crate::sampling::possible_cpus;
use crate::skeleton::latency::{LatencySkel, LatencySkelBuilder};

/// The loaded programs. They count until this value is dropped.
pub(super) struct Counters<'obj> {
    pub(super) skeleton: LatencySkel<'obj>,
    links: Vec<Link>,
    /// The functions' probes, by target.
    probes: BTreeMap<u32, Vec<Link>>,
    /// Probes behind calls of functions.
    callers: LearnedCallers,
    kernel_probes: KernelProbes,
    grouping: Option<Grouping>,
    /// The cycle counters' events, kept open.
    cycles: Option<Cycles>,
    /// Calibration's own target: the number behind all others.
    pub(super) calibration_target: u32,
    /// Calibration's probes, on user functions and on the kernel's.
    pub(super) calibration_probes: (Vec<Link>, KernelProbes),
}

/// The first places in `target_of_call_32` behind the system calls' numbers: `WP_SOCKET_CALLS` and `WP_IPC_CALLS`.
const SOCKET_CALLS: usize = MAX_CALLS;
const IPC_CALLS: usize = SOCKET_CALLS + 32;

/// A system call's places in the 32-bit programs' table, `target_of_call_32`.
fn numbers_32_bit(call: u32) -> impl Iterator<Item = usize> {
    let direct = (0..Call::COUNT_32_BIT).filter(move |number| Call::from_32_bit(*number) == Some(call));
    let through = |first: usize, named: fn(u32) -> Option<u32>| {
        (0..32)
            .filter(move |argument| named(*argument) == Some(call))
            .map(move |argument| first + argument as usize)
    };
    let sockets = through(SOCKET_CALLS, Call::from_socketcall);
    direct.map(|number| number as usize).chain(sockets).chain(through(IPC_CALLS, Call::from_ipc))
}

impl<'obj> Counters<'obj> {
    /// Loads into `storage`. Nothing is counted yet.
    pub(super) fn load(
        storage: &'obj mut MaybeUninit<OpenObject>,
        options: &LatencyOptions,
    ) -> Result<Self, Error> {
        libbpf::silence();
        let mut open = LatencySkelBuilder::default().open(storage).map_err(load_error)?;
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
                "follow_fork" | "follow_free" => !options.everyone(),
                "kernel_enter" | "kernel_leave" => kernel_functions,
                "function_exit" => functions || kernel_functions,
                "group_renamed" => matches!(options.by, Some(GroupBy::Process | GroupBy::Thread)),
                _ => functions,
            });
        }
        kernel_probes::prepare(open.open_object_mut())?;
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or(Error::Skeleton(".rodata"))?;
        rodata.everyone = options.everyone();
        // Its own calls serve only the counting; calibration counts some of them. Elsewhere the number is another's.
        if sees_all_processes() {
            rodata.left_out = std::process::id();
        }
        open.maps.bss_data.as_deref_mut().ok_or(Error::Skeleton(".bss"))?.held_back = true;
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or(Error::Skeleton(".rodata"))?;
        // Functions have their targets' numbers.
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
                map.set_max_entries(cpus).map_err(load_error)?;
            }
        }
        let grouping = options.by.map(Grouping::new);
        if let Some(grouping) = &grouping {
            rodata.told_apart_by = grouping.number();
            for map in [&mut open.maps.groups, &mut open.maps.group_names] {
                map.set_max_entries(MAX_GROUPS as u32).map_err(load_error)?;
            }
        }
        // Calibration has a target behind all others, and functions have the first ones.
        let calibration_target = options.targets.len().max(MAX_TARGETS) as u32;
        for map in [&mut open.maps.distributions, &mut open.maps.unseen] {
            map.set_max_entries(calibration_target + 1).map_err(load_error)?;
        }
        let mut disk = 0;
        for (index, target) in options.targets.iter().enumerate() {
            let number = index as u16 + 1;
            match target {
                Counted::Call(call) => {
                    if let Some(slot) = rodata.target_of_call.get_mut(*call as usize) {
                        *slot = number;
                    }
                    for slot in numbers_32_bit(*call) {
                        if let Some(slot) = rodata.target_of_call_32.get_mut(slot) {
                            *slot = number;
                        }
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
        let skeleton = open.load().map_err(load_error)?;
        let counters = Self {
            skeleton,
            links: Vec::new(),
            probes: BTreeMap::new(),
            callers: LearnedCallers::default(),
            kernel_probes: KernelProbes::default(),
            grouping,
            cycles,
            calibration_target,
            calibration_probes: (Vec::new(), KernelProbes::default()),
        };
        if let Some(cycles) = &counters.cycles {
            cycles.connect(&counters.skeleton).map_err(no_cycles)?;
        }
        Ok(counters)
    }

    /// From now on, counts latencies in this process and in processes that it starts.
    pub(super) fn follow(&self, pid: u32) -> Result<(), Error> {
        probes::follow(&self.skeleton.maps.followed, pid)
    }

    /// Attaches all programs: from now on latencies are counted. Returns the functions whose probes took too much meanwhile. `began`: the
    /// beginning of this.
    pub(super) fn attach(
        &mut self,
        options: &LatencyOptions,
        budget: &mut StepBudget,
        began: Instant,
    ) -> Result<Vec<(u32, RemovedProbes)>, Error> {
        let mut removed = Vec::new();
        // First the slow probes, since disk requests count from their programs' attaching.
        for (index, target) in (0..).zip(&options.targets) {
            if let Counted::Function(probe) = target {
                let links = probes::attach(self.skeleton.object(), index as usize, probe, None)?;
                self.probes.insert(index, links);
                removed.extend(self.keep_to(budget, began));
            }
        }
        self.attach_to_kernel(options)?;
        for program in self.skeleton.object().progs_mut().filter(|program| program.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            if program.section().to_string_lossy().starts_with("tp_btf/") {
                let link =
                    program.attach().map_err(|source| Error::Attach { name, source: into_io(source) })?;
                self.links.push(link);
            }
        }
        let bss = self.skeleton.maps.bss_data.as_deref_mut().ok_or(Error::Skeleton(".bss"))?;
        bss.held_back = false;
        Ok(removed)
    }

    /// Attaches the kernel functions' programs.
    pub(super) fn attach_to_kernel(&mut self, options: &LatencyOptions) -> Result<(), Error> {
        let mut types = None;
        for (index, target) in (0..).zip(&options.targets) {
            let Counted::KernelFunction(function) = target else { continue };
            let types = match &types {
                Some(types) => types,
                None => types.insert(KernelTypes::read()?),
            };
            self.kernel_probes.attach(self.skeleton.object(), types, index, function)?;
        }
        Ok(())
    }

    /// Puts probes behind the calls of functions that need them there and came since the last time.
    pub(super) fn learn_callers(&mut self, options: &LatencyOptions) {
        let needs = |target: &Counted| matches!(target, Counted::Function(probe) if probe.returns == Return::AtCallers);
        if !options.targets.iter().any(needs) {
            return;
        }
        let object = self.skeleton.object();
        self.callers.learn(&self.skeleton.maps.callers_seen, |place| {
            let target = place.target as usize;
            let Some(Counted::Function(probe)) = options.targets.get(target) else {
                return Err(Error::Skeleton("callers_seen"));
            };
            let cookie = probes::cookie(target, probe);
            probes::attach_one(object, "function_returned", -1, cookie, (&place.file, place.offset))
        });
    }

    /// Removes probes beyond their budget. `began`: when the first was attached.
    pub(super) fn keep_to(&mut self, budget: &mut StepBudget, began: Instant) -> Vec<(u32, RemovedProbes)> {
        let Self { skeleton, probes, callers, .. } = self;
        let maps = &skeleton.maps;
        budget.keep(probes, callers, (&maps.entries, &maps.callers_seen), began)
    }

    /// Stops counting. The kernel takes tens of milliseconds for each probe.
    pub(super) fn detach(&mut self) {
        self.kernel_probes.detach();
        probes::detach(&mut self.links);
        self.probes.values_mut().rev().for_each(probes::detach);
        probes::detach(&mut self.callers.detach());
    }

    /// Whether cycles are counted, not nanoseconds.
    pub(super) fn in_cycles(&self) -> bool {
        self.cycles.is_some()
    }

    /// Gives groups their names.
    pub(super) fn name<'a>(&self, groups: impl Iterator<Item = &'a mut Group>) {
        if let Some(grouping) = &self.grouping {
            grouping.name(&self.skeleton, groups);
        }
    }

    /// Reads the counts by target and by group. `at` is the time since the beginning.
    pub(super) fn read(
        &self,
        options: &LatencyOptions,
        at: Duration,
    ) -> Result<(Reading, Vec<Groups>), Error> {
        let realtime = SystemTime::now();
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
        Ok((Reading { at, realtime, counts, parts: None, removed: Vec::new() }, groups))
    }

    fn groups(&self) -> Result<HashMap<u64, Vec<Group>>, Error> {
        if self.grouping.is_some() { groups::read(&self.skeleton) } else { Ok(HashMap::new()) }
    }

    /// All counts for a target, without the open and the unseen calls.
    pub(super) fn total(&self, target: u32) -> Result<Counts, Error> {
        let mut total = self.others(target)?;
        for group in self.groups()?.remove(&target.into()).unwrap_or_default() {
            total.add(&group.counts);
        }
        Ok(total)
    }

    /// A target's counts outside all groups.
    fn others(&self, target: u32) -> Result<Counts, Error> {
        let values = per_cpu(&self.skeleton.maps.distributions, target);
        let values = values.map_err(|source| Error::Counts { source: into_io(source) })?;
        Ok(Counts::sum(values.iter().map(Vec::as_slice)))
    }

    /// The number of calls of a target whose beginning or return was missed.
    fn unseen(&self, target: u32) -> Result<u64, Error> {
        let returned = sum_per_cpu(&self.skeleton.maps.unseen, target);
        let returned = returned.map_err(|source| Error::Counts { source: into_io(source) })?;
        Ok(self.kernel_probes.unseen(|other| other == target, returned))
    }

    /// Each target's number of unfinished calls, waits and requests.
    fn open(&self) -> HashMap<u64, u64> {
        let maps = &self.skeleton.maps;
        let mut open = HashMap::new();
        // For a lock, the upper half of the word is a thread.
        let target = |key: &[u8]| key.get(8..)?.first_chunk().map(|half| u32::from_ne_bytes(*half).into());
        for key in maps.begun.keys() {
            if let Some(target) = target(&key) {
                *open.entry(target).or_default() += 1;
            }
        }
        for call in probes::open_calls(&maps.open_functions) {
            *open.entry(call.target.into()).or_default() += 1;
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_all_its_numbers_of_32_bit_programs() {
        let numbers = |name| numbers_32_bit(Call::number(name).expect(name)).collect::<Vec<_>>();
        assert_eq!(numbers("nanosleep"), [162]);
        assert_eq!(numbers("clock_nanosleep"), [267, 407]);
        assert_eq!(numbers("futex"), [240, 422]);
        assert_eq!(numbers("sync"), [36]);
        assert_eq!(numbers("sendto"), [369, SOCKET_CALLS + 9, SOCKET_CALLS + 11]);
        assert_eq!(numbers("semtimedop"), [420, IPC_CALLS + 4]);
        assert_eq!(numbers("statx"), [383]);
        assert_eq!(numbers("clone3"), [435]);
    }
}

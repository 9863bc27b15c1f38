//! A recording session's BPF programs: the programs that the kernel and the options allow are loaded and attached.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::btf::Btf;
use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, ProgramAttachType, RingBuffer, RingBufferBuilder};
use wakepath_event::StackCounts;
use wakepath_functions::Runtime;

use crate::callers::LearnedCallers;
use crate::clocks;
use crate::contexts::{OpenSpanWatch, OpenSpans, Words};
use crate::error::Error;
use crate::goroutines::{self, GoFound, GoProbes, GoRefused, Way};
use crate::kernel_probes::{self, KernelProbes, KernelTypes};
use crate::libbpf::{
    self, has_function, has_helper, has_tracepoint, into_io, load_error, per_cpu, run_iterator, sum_per_cpu,
    word,
};
use crate::options::{Callers, Options, Stacks};
use crate::probe_budget::StepBudget;
use crate::probes::{self, OpenCall};
use crate::rings::{Rings, value_size};
use crate::skeleton::{self, WakepathSkel, WakepathSkelBuilder};
use crate::skips::Skipped;
use crate::sockets::OpenSocket;
use crate::unwind_rules::UnwindRules;
use crate::{relocation, sampling, steal};

mod functions;

/// The programs without which no wait can be explained.
const REQUIRED: [&str; 3] = ["sched_switch", "sched_waking", "sched_wakeup_new"];

/// Programs at a kernel function or tracepoint, each with the tracepoint that newer kernels have in its place. Such a
/// program is loaded only where the newer tracepoint is missing.
const STAND_INS: [(&str, &str); 2] =
    [("sock_def_readable", "sk_data_ready"), ("io_uring_submit_sqe", "io_uring_submit_req")];

/// Entries in each CPU's stack cache: `STACK_CACHE` of `bpf/stack.bpf.h`.
const STACK_CACHE: u32 = 4096;

/// The size of the ring buffer for stack copies, bytes: some 220 copies.
const COPY_BYTES: u32 = 2 << 20;

/// A facility that this kernel lacks, or that the privileges do not allow, and the consequence for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The tracepoint or facility.
    pub what: String,
    /// The consequence, as a sentence about an answer's limits.
    pub consequence: &'static str,
}

/// The programs that keep refused file locks in threads' storage.
const REFUSED_LOCKS: [&str; 2] = ["posix_lock_inode", "flock_lock_inode"];

/// The consequence if `program` cannot run.
fn consequence(program: &str) -> &'static str {
    match program {
        "sched_process_fork" | "sched_process_exec" | "sched_process_exit" | "task_rename" | "threads"
        | "cgroup_attach_task" => "some threads may have no name, process or cgroup",
        "net_dev_queue" | "netif_receive_skb" | "sk_data_ready" | "sock_def_readable" => {
            "waits for the network cannot name the sender"
        }
        "block_rq_issue" | "block_rq_complete" => {
            "waits for disks cannot be split into time in the queue and time in the device"
        }
        "block_bio_queue" => {
            "time in which an I/O limit held disk requests back counts as time in kernel threads"
        }
        "memcg_reclaim_begin" | "memcg_reclaim_end" => "memory limits of cgroups are not named",
        "contention_begin" | "contention_end" => "waits for kernel locks cannot name the holder",
        "hrtimer_expire_entry" => "time throttled by a CPU limit may include waiting for a CPU afterwards",
        "sched_migrate_task" => {
            "a runnable thread that moves to another CPU counts as waiting for the one that it left"
        }
        "mark_victim" => "the kernel's kills for want of memory are not named",
        "io_uring_submit_req" | "io_uring_submit_sqe" => "waits for an io_uring have no file",
        "signal_generate" | "signal_deliver" => "a wait that a signal cut short is charged to its sender",
        "sample" => "running time cannot be split by function",
        "failed_call" | "failed_exit" => "the calls that fail before sleeps are not known",
        "posix_lock_inode" | "flock_lock_inode" => "refused file locks are known only with --failed-calls",
        _ => "wake-ups from interrupts cannot name the interrupt",
    }
}

/// Whether stacks are unwound by the files' tables, and the missing facility if the kernel prevents it: the programs
/// walk in the kernel's loop, `bpf_loop`.
fn unwinding(options: &Options, has_loop: bool) -> (bool, Option<Missing>) {
    let wanted = options.takes_stacks() && options.callers == Callers::ByTables;
    let missing = Missing {
        what: "bpf_loop (Linux 5.17)".into(),
        consequence: "callers are found by frame pointers alone; functions that keep none have wrong ones, marked as not proved",
    };
    (wanted && has_loop, (wanted && !has_loop).then_some(missing))
}

/// Whether the options need a program.
fn is_wanted(program: &str, options: &Options, goroutines_wanted: bool) -> bool {
    match program {
        "sample" => options.samples_per_second > 0,
        name if goroutines::is_program(name) => goroutines_wanted,
        "goroutines_exit" | "goroutines_exec" => {
            options.functions.iter().any(|(_, probe)| probe.runtime == Runtime::Go)
        }
        "function_enter" | "function_return" | "function_returned" | "function_leave" | "function_exec" => {
            !options.functions.is_empty()
        }
        "kernel_enter" | "kernel_leave" => !options.kernel_functions.is_empty(),
        "function_exit" => options.records_functions(),
        "follow_fork" | "follow_free" => options.follows(),
        "failed_call" | "failed_exit" => options.failed_calls,
        "posix_lock_inode" | "flock_lock_inode" => options.calls,
        _ => true,
    }
}

/// A program's runs, their time, ns, and the part for reading stacks anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) program: String,
    pub(crate) runs: u64,
    pub(crate) ns: u64,
    pub(crate) stacks_ns: u64,
}

/// The loaded programs. They record until this value is dropped.
pub(crate) struct Programs<'obj> {
    skeleton: WakepathSkel<'obj>,
    links: Vec<Link>,
    /// The selected functions' probes.
    functions: BTreeMap<u32, Vec<Link>>,
    budget: StepBudget,
    /// Probes behind calls of functions.
    callers: LearnedCallers<OwnedFd>,
    kernel_probes: KernelProbes,
    pub(crate) missing: Vec<Missing>,
    /// Go programs in which the kernel refused our probes.
    pub(crate) go_refused: Vec<GoRefused>,
    go_way: Way,
    /// The probes on Go programs.
    go_links: Vec<OwnedFd>,
    /// The means to put probes on further Go programs, where goroutines are recorded.
    pub(crate) go_probes: Option<GoProbes>,
    /// Stacks are unwound by the files' tables.
    unwinds: bool,
}

impl<'obj> Programs<'obj> {
    /// Loads into `storage`. Nothing is recorded yet.
    pub(crate) fn load(
        storage: &'obj mut MaybeUninit<OpenObject>,
        options: &Options,
        goroutines_wanted: bool,
        cpus: usize,
    ) -> Result<Self, Error> {
        libbpf::silence();
        let kernel = libbpf::kernel_types()?;
        let builder = WakepathSkelBuilder::default();
        let (mut open, _types) = relocation::open(builder, &kernel, skeleton::RELOCATED, storage)?;

        let mut missing = Vec::new();
        // Kernels before 5.11 have no storage in threads.
        let has_storage = has_helper(&kernel, "BPF_FUNC_task_storage_get");
        let go_way = if options.single_probes { Way::PerfEvents } else { Way::of(&kernel) };
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            if (goroutines::is_program(&name) || name == "function_returned") && go_way == Way::Links {
                program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
            }
            let there =
                has_target(&kernel, &section) && (has_storage || !REFUSED_LOCKS.contains(&name.as_str()));
            let stands_for = STAND_INS.iter().find(|(place, _)| *place == name);
            let wanted = is_wanted(&name, options, goroutines_wanted)
                && stands_for.is_none_or(|(_, tracepoint)| !has_tracepoint(&kernel, tracepoint));
            let stand_in = STAND_INS.iter().find(|(_, tracepoint)| *tracepoint == name);
            let replaced = stand_in
                .is_some_and(|(place, _)| has_function(&kernel, place) || has_tracepoint(&kernel, place));
            if wanted && !there && !replaced {
                if REQUIRED.contains(&name.as_str()) {
                    return Err(Error::NoTracepoint { name });
                }
                missing.push(Missing { consequence: consequence(&name), what: name });
            }
            program.set_autoload(wanted && there);
        }

        kernel_probes::prepare(open.open_object_mut())?;
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or(Error::Skeleton(".rodata"))?;
        rodata.sched_ring_mask = options.sched_ring_bytes as u64 - 1;
        rodata.net_ring_mask = options.net_ring_bytes as u64 - 1;
        rodata.everyone = options.everyone();
        let functions = options.functions.len();
        let targets = functions + options.kernel_functions.len();
        rodata.function_targets = targets as u32;
        rodata.kernel_targets = (functions..targets).fold(0, |bits, target| bits | 1 << target);
        rodata.mask_bytes = cpus.div_ceil(64) as u32 * 8;
        rodata.scheduling_cpus = sampling::online_cpus().map_or(1, |cpus| cpus.len() as u32);
        rodata.steal_behind_run_queue = steal::offset_from_run_queue(&kernel).unwrap_or(0);
        rodata.record_calls = options.calls;
        rodata.record_failed_calls = options.failed_calls;
        rodata.keep_refused_locks = has_storage && options.calls;
        rodata.record_stacks = options.stacks != Stacks::None;
        rodata.remember_stacks = options.stacks == Stacks::Remembered;
        let (unwinds, not_unwound) = unwinding(options, has_helper(&kernel, "BPF_FUNC_loop"));
        rodata.unwind_by_tables = unwinds;
        missing.extend(not_unwound);
        let maps = &mut open.maps;
        for (map, size) in
            [(&mut maps.sched_rings, options.sched_ring_bytes), (&mut maps.net_rings, options.net_ring_bytes)]
        {
            map.set_value_size(value_size(size) as u32).map_err(load_error)?;
            map.set_max_entries(cpus as u32).map_err(load_error)?;
        }
        let cached = if options.stacks == Stacks::None { 1 } else { STACK_CACHE * cpus as u32 };
        for map in [&mut maps.stack_cache, &mut maps.stack_places, &mut maps.stacks_told] {
            map.set_max_entries(cached).map_err(load_error)?;
        }
        if unwinds {
            maps.unwind_rules.set_max_entries(wakepath_unwind::RULE_SETS as u32).map_err(load_error)?;
            maps.stack_copies.set_max_entries(COPY_BYTES).map_err(load_error)?;
        }
        maps.failures
            .set_autocreate((has_storage && options.calls) || options.failed_calls)
            .map_err(load_error)?;
        maps.path_rooms.set_autocreate(options.failed_calls).map_err(load_error)?;
        maps.current_places.set_max_entries(cpus as u32).map_err(load_error)?;
        maps.life.set_max_entries(options.life_bytes as u32).map_err(load_error)?;

        let skeleton = open.load().map_err(load_error)?;
        let kernel_probes = KernelProbes::default();
        let (go_refused, go_links, go_probes) = (Vec::new(), Vec::new(), None);
        let links = Vec::new();
        let callers = LearnedCallers::default();
        Ok(Self {
            skeleton,
            links,
            functions: BTreeMap::new(),
            budget: StepBudget::none(),
            callers,
            kernel_probes,
            missing,
            go_refused,
            go_way,
            go_links,
            go_probes,
            unwinds,
        })
    }

    /// Maps the rings: for switches and wake-ups, and for packets.
    pub(crate) fn rings(&self, options: &Options, cpus: usize) -> Result<(Rings, Rings), Error> {
        let map = |fd, size| Rings::map(fd, cpus, size).map_err(|source| Error::MapRings { source });
        Ok((
            map(self.skeleton.maps.sched_rings.as_fd(), options.sched_ring_bytes)?,
            map(self.skeleton.maps.net_rings.as_fd(), options.net_ring_bytes)?,
        ))
    }

    /// Maps the rules for unwinding; `None` if no stacks are unwound.
    pub(crate) fn unwind_rules(&self) -> Result<Option<UnwindRules>, Error> {
        let map = || UnwindRules::map(self.skeleton.maps.unwind_rules.as_fd());
        self.unwinds.then(map).transpose().map_err(|source| Error::MapRings { source })
    }

    /// Maps the table with the places of the words for threads' contexts.
    pub(crate) fn words(&self) -> Result<Words, Error> {
        let maps = &self.skeleton.maps;
        Words::map(maps.word_sets.as_fd(), maps.word_count.as_fd())
            .map_err(|source| Error::MapRings { source })
    }

    /// Maps the hashes of the threads' last contexts.
    pub(crate) fn open_spans(&self, asked: OpenSpans) -> Result<OpenSpanWatch, Error> {
        OpenSpanWatch::map(asked, self.skeleton.maps.contexts_told.as_fd())
            .map_err(|source| Error::MapRings { source })
    }

    /// A reader for the rare records and the stack copies, which passes each to `take`.
    pub(crate) fn life<'cb>(&self, take: impl Fn(&[u8]) + 'cb) -> Result<RingBuffer<'cb>, Error> {
        let take = Rc::new(take);
        let mut builder = RingBufferBuilder::new();
        let maps = &self.skeleton.maps;
        for ring in [&maps.life, &maps.stack_copies] {
            let take = Rc::clone(&take);
            builder
                .add(ring, move |record| {
                    take(record);
                    0
                })
                .map(|_| ())
                .map_err(load_error)?;
        }
        builder.build().map_err(load_error)
    }

    /// A descriptor that is readable while stack copies wait.
    pub(crate) fn copies(&self) -> BorrowedFd<'_> {
        self.skeleton.maps.stack_copies.as_fd()
    }

    /// The number of rare records lost so far for lack of room, by CPU.
    pub(crate) fn life_lost(&self) -> Vec<u64> {
        let values = per_cpu(&self.skeleton.maps.life_lost, 0).unwrap_or_default();
        values.iter().map(|value| word(value, 0)).collect()
    }

    /// The numbers of stacks so far by the way they were taken, over all CPUs.
    pub(crate) fn stack_counts(&self) -> StackCounts {
        let mut sum = StackCounts::default();
        for value in per_cpu(&self.skeleton.maps.stack_counters, 0).unwrap_or_default() {
            let counts =
                [&mut sum.taken, &mut sum.repeated, &mut sum.checked, &mut sum.disagreed, &mut sum.doubtful];
            for (at, count) in (0..).step_by(8).zip(counts) {
                *count += word(&value, at);
            }
        }
        sum
    }

    /// The time spent reading stacks anew so far, over all CPUs: at switch-outs and at wake-ups, ns.
    pub(crate) fn stacks_ns(&self) -> (u64, u64) {
        let values = per_cpu(&self.skeleton.maps.stack_counters, 0).unwrap_or_default();
        let (all, wakings) =
            values.iter().fold((0, 0), |sum, value| (sum.0 + word(value, 40), sum.1 + word(value, 48)));
        (all.saturating_sub(wakings), wakings)
    }

    /// The rare records' programs, over all CPUs so far: runs, timed runs, and the timed runs' time, ns.
    pub(crate) fn rare(&self) -> (u64, u64, u64) {
        let values = per_cpu(&self.skeleton.maps.rare, 0).unwrap_or_default();
        values.iter().fold((0, 0, 0), |sum, value| {
            (sum.0 + word(value, 0), sum.1 + word(value, 8), sum.2 + word(value, 16))
        })
    }

    /// Begins to record. The programs for the interrupt context come first, so the context is right at the first
    /// wake-up.
    pub(crate) fn attach(&mut self, options: &Options, go: &GoFound) -> Result<(), Error> {
        let object = self.skeleton.object();
        let mut programs: Vec<_> = object.progs_mut().filter(|program| program.autoload()).collect();
        programs.sort_by_key(|program| REQUIRED.contains(&program.name().to_string_lossy().as_ref()));
        for program in programs {
            let name = program.name().to_string_lossy().into_owned();
            match program.section().to_string_lossy().as_ref() {
                "perf_event" => {
                    let rate = sampling::allowed(options.samples_per_second);
                    if rate < options.samples_per_second {
                        let what = format!(
                            "sampling at more than {rate} per second (kernel.perf_event_max_sample_rate)"
                        );
                        self.missing.push(Missing { consequence: "fewer samples than were asked for", what });
                    }
                    match sampling::attach(&program, rate) {
                        Ok(links) => self.links.extend(links),
                        Err(_) => self
                            .missing
                            .push(Missing { consequence: consequence(&name), what: "sampling".into() }),
                    }
                }
                "iter/task" | "iter.s/task" | "iter/task_file" | "uprobe" | "uretprobe" | "fentry"
                | "fexit" => {}
                _ => match program.attach() {
                    Ok(link) => self.links.push(link),
                    Err(source) if REQUIRED.contains(&name.as_str()) => {
                        return Err(Error::Attach { name, source: into_io(source) });
                    }
                    Err(_) => self.missing.push(Missing { consequence: consequence(&name), what: name }),
                },
            }
        }
        if go.may_be_recorded() {
            let probes = GoProbes::new(self.skeleton.object(), &self.skeleton.maps.go_programs, self.go_way)?;
            for (number, file) in (0..).zip(&go.probed) {
                match probes.attach(number, file) {
                    Ok(links) => self.go_links.extend(links),
                    Err(error) => self.go_refused.push(file.refused(&error)),
                }
            }
            self.go_probes = Some(probes);
        }
        if options.kernel_functions.is_empty() {
            return Ok(());
        }
        let types = KernelTypes::read()?;
        for (target, (_, function)) in (options.functions.len() as u32..).zip(&options.kernel_functions) {
            self.kernel_probes.attach(self.skeleton.object(), &types, target, function)?;
        }
        Ok(())
    }

    /// From now on, records calls in this process and in processes that it starts.
    pub(crate) fn follow(&self, pid: u32) -> Result<(), Error> {
        probes::follow(&self.skeleton.maps.followed, pid)
    }

    /// The open calls.
    pub(crate) fn open_calls(&self) -> Vec<OpenCall> {
        probes::open_calls(&self.skeleton.maps.open_functions)
    }

    /// The number of calls not recorded since too many were open or recursion was too deep.
    pub(crate) fn calls_overflowed(&self) -> u64 {
        sum_per_cpu(&self.skeleton.maps.calls_untold, 0).unwrap_or(0)
    }

    /// The number of kernel function calls whose beginning or return was missed.
    pub(crate) fn calls_unseen(&self) -> u64 {
        let returned = sum_per_cpu(&self.skeleton.maps.calls_untold, 1).unwrap_or(0);
        self.kernel_probes.unseen(|_| true, returned)
    }

    /// The existing threads, as `WP_THREAD` records end to end.
    pub(crate) fn threads(&self) -> Result<Vec<u8>, Error> {
        run_iterator(self.skeleton.object(), "threads").map_err(|source| Error::Snapshot { source })
    }

    /// The threads with unusual scheduling, and those that had one, as `WP_SCHEDULING` records end to end. Empty where the
    /// kernel refuses to say.
    pub(crate) fn schedulings(&self) -> Vec<u8> {
        run_iterator(self.skeleton.object(), "schedulings").unwrap_or_default()
    }

    /// The threads' blocked system calls, as `WP_BLOCKED` records end to end. Their descriptors' files come as rare
    /// records.
    pub(crate) fn blocked(&self) -> Result<Vec<u8>, Error> {
        run_iterator(self.skeleton.object(), "blocked").map_err(|source| Error::Snapshot { source })
    }

    /// The start time of each thread that a signal is ending, ns on the records' clock. Empty where the kernel
    /// refuses to say.
    pub(crate) fn dying(&self) -> Vec<u64> {
        let starts = run_iterator(self.skeleton.object(), "dying").unwrap_or_default();
        starts.as_chunks().0.iter().map(|start| u64::from_ne_bytes(*start)).collect()
    }

    /// All processes' open sockets; `None` if that takes longer than `time`, or the kernel refuses.
    pub(crate) fn sockets(&self, time: Duration) -> Option<Vec<OpenSocket>> {
        let map = &self.skeleton.maps.search_until;
        let (key, until) = (0_u32.to_ne_bytes(), clocks::now().ns().saturating_add(time.as_nanos() as u64));
        map.update(&key, &until.to_ne_bytes(), MapFlags::ANY).ok()?;
        let found = run_iterator(self.skeleton.object(), "sockets").ok()?;
        let left = map.lookup(&key, MapFlags::ANY).ok()??;
        // It gives up by taking the time away.
        (word(&left, 0) == until).then(|| OpenSocket::read_all(&found))
    }

    /// The counts of our programs' runs that the kernel skipped so far.
    pub(crate) fn skipped(&self) -> Skipped {
        let mut skipped = Skipped::default();
        for program in self.skeleton.object().progs().filter(|program| program.autoload()) {
            let misses = libbpf::program_info(program.as_fd()).recursion_misses;
            skipped.add(&program.name().to_string_lossy(), misses);
        }
        skipped.add_kernel_probes(self.kernel_probes.skipped());
        skipped
    }

    /// Each program's runs so far and their time, as far as the kernel's statistics were on.
    pub(crate) fn runs(&self) -> Vec<Runs> {
        let loaded = self.skeleton.object().progs().filter(|program| program.autoload());
        let runs = loaded.map(|program| {
            let info = libbpf::program_info(program.as_fd());
            let program = program.name().to_string_lossy().into_owned();
            Runs { program, runs: info.run_cnt, ns: info.run_time_ns, stacks_ns: 0 }
        });
        let mut runs: Vec<_> = runs.collect();
        let (of_switches, of_wakings) = self.stacks_ns();
        for Runs { program, stacks_ns, .. } in &mut runs {
            match program.as_str() {
                "sched_switch" => *stacks_ns = of_switches,
                "sched_waking" => *stacks_ns = of_wakings,
                _ => {}
            }
        }
        runs
    }

    /// Stops recording: calls first, while their waits are still recorded.
    pub(crate) fn detach(&mut self) {
        self.kernel_probes.detach();
        probes::detach(&mut self.go_links);
        self.functions.values_mut().rev().for_each(probes::detach);
        probes::detach(&mut self.links);
        probes::detach(&mut self.callers.detach());
    }
}

/// Whether this kernel has the target of a program's section: a single program without its target would make the
/// whole load fail.
fn has_target(kernel: &Btf<'_>, section: &str) -> bool {
    match section.split_once('/') {
        Some(("tp_btf", tracepoint)) => has_tracepoint(kernel, tracepoint),
        Some(("fentry", function)) => has_function(kernel, function),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_kernels_loop_callers_are_found_by_frame_pointers_and_it_is_said() {
        let asked = |stacks, samples_per_second, callers| Options {
            stacks,
            samples_per_second,
            callers,
            ..Options::default()
        };
        for (options, wanted) in [
            (asked(Stacks::None, 99, Callers::ByTables), true),
            (asked(Stacks::Each, 0, Callers::ByTables), true),
            (asked(Stacks::None, 0, Callers::ByTables), false),
            (asked(Stacks::Remembered, 99, Callers::ByFramePointers), false),
        ] {
            assert_eq!(unwinding(&options, true), (wanted, None), "{options:?}");
            let (unwinds, missing) = unwinding(&options, false);
            assert!(!unwinds && missing.is_some() == wanted, "{options:?}");
        }
    }

    #[test]
    fn a_tracepoint_and_a_function_are_found_by_name_and_kind() {
        let Ok(kernel) = libbpf::kernel_types() else {
            return eprintln!(
                "skipped: no kernel types here; would show that attach points are found in them"
            );
        };
        assert!(has_tracepoint(&kernel, "sched_switch") && has_function(&kernel, "schedule"));
        for (name, why) in [("of_no_kernel", "no such name"), ("task_struct", "a type"), ("a\0b", "no name")]
        {
            assert!(!has_tracepoint(&kernel, name) && !has_function(&kernel, name), "{why}");
        }
    }

    #[test]
    fn a_helper_is_one_of_those_that_the_kernel_describes() {
        let Ok(kernel) = libbpf::kernel_types() else {
            return eprintln!(
                "skipped: no kernel types here; would show that the kernel describes its helpers"
            );
        };
        assert!(has_helper(&kernel, "BPF_FUNC_map_lookup_elem"));
        assert!(!has_helper(&kernel, "BPF_FUNC_of_no_kernel"));
    }
}

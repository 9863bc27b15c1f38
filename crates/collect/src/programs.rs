//! Loads the BPF programs and attaches those that the kernel and the options allow.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{
    Iter, IterOpts, Link, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder, libbpf_sys,
};

use wakepath_event::StackCounts;

use crate::kernel_probes::{self, KernelProbes, KernelTypes};
use crate::probes::{self, OpenCall};
use crate::rings::{Rings, value_size};
use crate::sampling;
use crate::skeleton::{WakepathSkel, WakepathSkelBuilder};
use crate::steal;
use crate::{Error, Options, Stacks};

/// Without these there is nothing to say about a wait.
const REQUIRED: [&str; 3] = ["sched_switch", "sched_waking", "sched_wakeup_new"];

/// Programs at a function, each with the tracepoint that newer kernels have in it: loaded only where
/// that is missing.
const STAND_INS: [(&str, &str); 1] = [("sock_def_readable", "sk_data_ready")];

/// Entries a CPU of what is remembered of stacks: `STACK_CACHE` of `bpf/stack.bpf.h`.
const STACK_CACHE: u32 = 4096;

/// Something that this kernel does not let us see, and what an answer lacks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The tracepoint or facility.
    pub what: String,
    /// What an answer lacks.
    pub consequence: &'static str,
}

/// What an answer lacks when `program` cannot run.
fn consequence(program: &str) -> &'static str {
    match program {
        "sched_process_fork" | "sched_process_exec" | "sched_process_exit" | "task_rename" | "threads"
        | "cgroup_attach_task" => "threads may be without name, process or cgroup",
        "net_dev_queue" | "netif_receive_skb" | "sk_data_ready" | "sock_def_readable" => {
            "waits for the network cannot name the sender"
        }
        "block_rq_issue" | "block_rq_complete" => "waits for disks cannot tell the queue from the device",
        "contention_begin" | "contention_end" => "waits for kernel locks cannot name the holder",
        "hrtimer_expire_entry" => "time kept off by a CPU limit may include waiting for a CPU behind it",
        "sample" => "running time cannot be told by function",
        _ => "wake-ups from interrupts cannot name the interrupt",
    }
}

/// The loaded programs. They record until this is dropped.
pub(crate) struct Programs<'obj> {
    skeleton: WakepathSkel<'obj>,
    links: Vec<Link>,
    kernel_probes: KernelProbes,
    pub(crate) missing: Vec<Missing>,
}

impl<'obj> Programs<'obj> {
    /// Loads into `storage`. Nothing is recorded yet.
    pub(crate) fn load(
        storage: &'obj mut MaybeUninit<OpenObject>,
        options: &Options,
        cpus: usize,
    ) -> Result<Self, Error> {
        silence_libbpf();
        let kernel = Btf::from_vmlinux().map_err(|source| Error::NoBtf { source: into_io(source) })?;
        let mut open = WakepathSkelBuilder::default()
            .open(storage)
            .map_err(|source| Error::Load { source: into_io(source) })?;

        let mut missing = Vec::new();
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            let there = has_target(&kernel, &section);
            let stands_for = STAND_INS.iter().find(|(function, _)| *function == name);
            let wanted = options.wants(&name)
                && stands_for.is_none_or(|(_, tracepoint)| !has_tracepoint(&kernel, tracepoint));
            let stand_in = STAND_INS.iter().find(|(_, tracepoint)| *tracepoint == name);
            let replaced = stand_in.is_some_and(|(function, _)| has_function(&kernel, function));
            if wanted && !there && !replaced {
                if REQUIRED.contains(&name.as_str()) {
                    return Err(Error::NoTracepoint { name });
                }
                missing.push(Missing { consequence: consequence(&name), what: name });
            }
            program.set_autoload(wanted && there);
        }

        kernel_probes::prepare(open.open_object_mut())?;
        let rodata = open.maps.rodata_data.as_deref_mut().ok_or(Error::Skeleton("no .rodata"))?;
        rodata.sched_ring_mask = options.sched_ring_bytes as u64 - 1;
        rodata.net_ring_mask = options.net_ring_bytes as u64 - 1;
        rodata.everyone = options.everyone();
        let functions = options.functions.len();
        let targets = functions + options.kernel_functions.len();
        rodata.function_targets = targets as u32;
        rodata.kernel_targets = (functions..targets).fold(0, |bits, target| bits | 1 << target);
        rodata.steal_behind_run_queue = steal::behind_run_queue(&kernel).unwrap_or(0);
        rodata.record_calls = options.calls;
        rodata.record_stacks = options.stacks != Stacks::None;
        rodata.remember_stacks = options.stacks == Stacks::Remembered;
        let too_large = |_| Error::Skeleton("ring size");
        let maps = &mut open.maps;
        for (map, size) in
            [(&mut maps.sched_rings, options.sched_ring_bytes), (&mut maps.net_rings, options.net_ring_bytes)]
        {
            let size = u32::try_from(value_size(size)).map_err(too_large)?;
            map.set_value_size(size).map_err(|source| Error::Load { source: into_io(source) })?;
            map.set_max_entries(cpus as u32).map_err(|source| Error::Load { source: into_io(source) })?;
        }
        let remembered = if options.stacks == Stacks::None { 1 } else { STACK_CACHE * cpus as u32 };
        for map in [&mut maps.stack_cache, &mut maps.stacks_told] {
            map.set_max_entries(remembered).map_err(|source| Error::Load { source: into_io(source) })?;
        }
        maps.current_places
            .set_max_entries(cpus as u32)
            .map_err(|source| Error::Load { source: into_io(source) })?;
        maps.life
            .set_max_entries(options.life_bytes as u32)
            .map_err(|source| Error::Load { source: into_io(source) })?;

        let skeleton = open.load().map_err(|source| Error::Load { source: into_io(source) })?;
        Ok(Self { skeleton, links: Vec::new(), kernel_probes: KernelProbes::default(), missing })
    }

    /// Maps the rings: switches and wakings, and packets.
    pub(crate) fn rings(&self, options: &Options, cpus: usize) -> Result<(Rings, Rings), Error> {
        let map = |fd, size| Rings::map(fd, cpus, size).map_err(|source| Error::MapRings { source });
        Ok((
            map(self.skeleton.maps.sched_rings.as_fd(), options.sched_ring_bytes)?,
            map(self.skeleton.maps.net_rings.as_fd(), options.net_ring_bytes)?,
        ))
    }

    /// A reader of the rare records, each handed to `take`.
    pub(crate) fn life<'cb>(&self, mut take: impl FnMut(&[u8]) + 'cb) -> Result<RingBuffer<'cb>, Error> {
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.skeleton.maps.life, move |record| {
                take(record);
                0
            })
            .map(|_| ())
            .map_err(|source| Error::Load { source: into_io(source) })?;
        builder.build().map_err(|source| Error::Load { source: into_io(source) })
    }

    /// Rare records that found no room so far, by CPU.
    pub(crate) fn life_lost(&self) -> Vec<u64> {
        let zero = 0u32.to_ne_bytes();
        match self.skeleton.maps.life_lost.lookup_percpu(&zero, MapFlags::ANY) {
            Ok(Some(values)) => values
                .iter()
                .map(|bytes| bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)))
                .collect(),
            Ok(None) | Err(_) => Vec::new(),
        }
    }

    /// How stacks came about so far, on all CPUs.
    pub(crate) fn stack_counts(&self) -> StackCounts {
        let zero = 0u32.to_ne_bytes();
        let mut sum = StackCounts::default();
        for of_cpu in self
            .skeleton
            .maps
            .stack_counters
            .lookup_percpu(&zero, MapFlags::ANY)
            .ok()
            .flatten()
            .iter()
            .flatten()
        {
            let counts =
                [&mut sum.taken, &mut sum.repeated, &mut sum.checked, &mut sum.disagreed, &mut sum.doubtful];
            for (count, bytes) in counts.into_iter().zip(of_cpu.chunks_exact(8)) {
                *count += bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
            }
        }
        sum
    }

    /// Begins to record. The interrupt context comes first, so that the first waking has it right.
    pub(crate) fn attach(&mut self, options: &Options) -> Result<(), Error> {
        let object = self.skeleton.object();
        let mut programs: Vec<_> = object.progs_mut().filter(|program| program.autoload()).collect();
        programs.sort_by_key(|program| REQUIRED.contains(&program.name().to_string_lossy().as_ref()));
        for program in programs {
            let name = program.name().to_string_lossy().into_owned();
            match program.section().to_string_lossy().as_ref() {
                "perf_event" => match sampling::attach(&program, options.samples_per_second) {
                    Ok(links) => self.links.extend(links),
                    Err(_) => self
                        .missing
                        .push(Missing { consequence: consequence(&name), what: "sampling".into() }),
                },
                "iter/task" | "iter.s/task" | "uprobe" | "uretprobe" | "fentry" | "fexit" => {}
                _ => match program.attach() {
                    Ok(link) => self.links.push(link),
                    Err(source) if REQUIRED.contains(&name.as_str()) => {
                        return Err(Error::Attach { name, source: into_io(source) });
                    }
                    Err(_) => self.missing.push(Missing { consequence: consequence(&name), what: name }),
                },
            }
        }
        // Last: what a call waits for is known from its beginning.
        for (target, (_, probe)) in options.functions.iter().enumerate() {
            self.links.extend(probes::attach(self.skeleton.object(), target, probe)?);
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

    /// Calls of this process, and of those that it starts, are recorded.
    pub(crate) fn follow(&self, pid: u32) -> Result<(), Error> {
        let put = self.skeleton.maps.followed.update(&pid.to_ne_bytes(), &FROM_THE_START, MapFlags::ANY);
        put.map_err(|source| Error::Load { source: into_io(source) })
    }

    /// Calls that have not ended.
    pub(crate) fn open_calls(&self) -> Vec<OpenCall> {
        probes::open_calls(&self.skeleton.maps.open_functions)
    }

    /// Calls that there was no room for, or that recursed too deep; and calls of functions of the kernel
    /// that were not seen to begin, or when they returned.
    pub(crate) fn calls_untold(&self) -> [u64; 2] {
        let word = |bytes: &Vec<u8>| bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        let counted = |why: u32| -> u64 {
            let values = self.skeleton.maps.calls_untold.lookup_percpu(&why.to_ne_bytes(), MapFlags::ANY);
            values.ok().flatten().iter().flatten().map(word).sum()
        };
        [counted(0), self.kernel_probes.unseen(|_| true, counted(1))]
    }

    /// The threads that live now, as `WP_THREAD` records end to end.
    pub(crate) fn threads(&self) -> Result<Vec<u8>, Error> {
        self.iterate("threads")
    }

    /// What threads are blocked in, as `WP_BLOCKED` records end to end. What their descriptors are
    /// comes by way of the rare records.
    pub(crate) fn blocked(&self) -> Result<Vec<u8>, Error> {
        self.iterate("blocked")
    }

    /// What a program writes that is called for each thread.
    fn iterate(&self, name: &str) -> Result<Vec<u8>, Error> {
        let failed = |source| Error::Snapshot { source };
        let object = self.skeleton.object();
        let program = object
            .progs_mut()
            .find(|program| program.name() == name)
            .ok_or(Error::Skeleton("no task iterator"))?;
        let link = program.attach_iter_with_opts(IterOpts::None).map_err(|source| failed(into_io(source)))?;
        let mut iterator = Iter::new(&link).map_err(|source| failed(into_io(source)))?;
        let mut records = Vec::new();
        io::Read::read_to_end(&mut iterator, &mut records).map_err(failed)?;
        Ok(records)
    }

    /// How often the kernel skipped one of our programs because it was already running on that CPU.
    pub(crate) fn recursion_misses(&self) -> u64 {
        let mut misses = self.kernel_probes.skipped();
        for program in self.skeleton.object().progs().filter(|program| program.autoload()) {
            misses += recursion_misses(program.as_fd());
        }
        misses
    }

    /// Stops recording: calls first, while what they wait for is still seen.
    pub(crate) fn detach(&mut self) {
        self.kernel_probes.detach();
        probes::detach(&mut self.links);
    }
}

/// Whether this kernel has what a program of that section attaches to: the load of all fails on one
/// that it has not.
fn has_target(kernel: &Btf<'_>, section: &str) -> bool {
    match section.split_once('/') {
        Some(("tp_btf", tracepoint)) => has_tracepoint(kernel, tracepoint),
        Some(("fentry", function)) => has_function(kernel, function),
        _ => true,
    }
}

fn has_tracepoint(kernel: &Btf<'_>, name: &str) -> bool {
    kernel.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
}

pub(crate) fn has_function(kernel: &Btf<'_>, name: &str) -> bool {
    kernel.type_by_name::<Func<'_>>(name).is_some()
}

pub(crate) fn recursion_misses(program: BorrowedFd<'_>) -> u64 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: `info` is plain data of `len` bytes that the call fills; its array fields are zero,
    // which asks for none of them.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut len)
    };
    if failed == 0 { info.recursion_misses } else { 0 }
}

/// The value of who was asked about, in the map of those who are followed: `followed` of `bpf/calls.bpf.h`.
pub(crate) const FROM_THE_START: [u8; 8] = [0; 8];

pub(crate) fn into_io(error: libbpf_rs::Error) -> io::Error {
    let kind = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        libbpf_rs::ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
        libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// libbpf prints to stderr by itself; what went wrong is in the errors we return.
pub(crate) fn silence_libbpf() {
    libbpf_rs::set_print(None);
}

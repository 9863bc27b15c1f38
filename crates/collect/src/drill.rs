//! A session that measures the functions below a function of a process, level by level: `bpf/drill.bpf.c` (T08
//! chapter 3).

mod behind;
mod callers;
mod hand_over;
mod kernel;
mod python;
mod record;
mod stubs;
mod watched;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{
    Link, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder, UprobeMultiOpts, UprobeOpts,
};
use wakepath_caller::Caller;
use wakepath_functions::{Probe, Return, Runtime};
use wakepath_inject::{Frame, Unwinder};
use wakepath_process::Process;

use crate::callers::LearnedCallers;
use crate::child::{Held, Running};
use crate::error::Error;
use crate::libbpf::{self, into_io, load_error, program_mut, word};
use crate::priority::RaisedPriority;
use crate::sampling;
use crate::signals::Signals;
use crate::skeleton::drill::{DrillSkel, DrillSkelBuilder};
use crate::steal;
use crate::watch::{EndReason, Watch, pidfd};

use behind::CallPlaces;
use kernel::KernelProbes;
use record::DEPTH;
use stubs::{Stubs, Ticks};

pub use behind::{CallPlace, PlaceHits};
pub use hand_over::{HandOverCounts, HandOverProbes, argument_register};
pub use kernel::{KernelCallee, KernelPlace, MAX_KERNEL_PLACES, kernel_allows_probes};
/// The memory for a drill-down's loaded programs.
pub use libbpf_rs::OpenObject as OpenStorage;
pub use python::{MAX_PYTHON_FUNCTIONS, PythonCall, PythonCounts};
pub use record::{DrillCall, DrillNode, MAX_DRILL_NODES, MAX_DRILL_SAMPLES};

/// Threads that detach probes at the same time.
const MAX_DETACHING: usize = 16;
/// Calls of f0 whose records fit into the buffer together, with room to spare.
const MAX_WANTED_CALLS: u64 = 64;

/// A command started for a drill-down.
#[derive(Debug, Clone)]
pub struct DrillCommand {
    /// The program and its arguments, at least the program.
    pub words: Vec<OsString>,
    /// The user as whom the command runs, if it is another user.
    pub caller: Option<Caller>,
}

impl DrillCommand {
    /// Starts the command, which has executed its program when this returns.
    ///
    /// # Errors
    /// When there is no such program, or it could not run.
    pub fn start(&self) -> Result<Running, Error> {
        let held = Held::spawn(&self.words, self.caller.as_ref(), None)?;
        let running = Running { pid: held.pid };
        held.release().map_err(|source| Error::Exec { command: self.words[0].clone(), source })?;
        Ok(running)
    }
}

/// A drill-down's loaded programs. Their probes are removed when this value is dropped, or by the kernel when this
/// process ends in whatever way.
pub struct Drill<'obj> {
    skeleton: DrillSkel<'obj>,
    /// Probes on functions, in the groups in which they were attached, with the functions' numbers.
    groups: Vec<(Vec<u32>, Vec<Link>)>,
    /// Probes on indirect calls, in the groups in which they were attached, with the sites' numbers.
    watched: Vec<(Vec<u32>, Vec<Link>)>,
    tracepoints: Vec<Link>,
    /// Probes on the functions that begin and end phases, and on functions that hand requests over.
    marks: Vec<Link>,
    /// Probes behind f0's calls.
    callers: LearnedCallers,
    /// Probes at and behind calls of f0's callees.
    call_places: CallPlaces,
    /// Probes in the kernel's code.
    kernel: KernelProbes,
    /// The CPUs' clocks for samples.
    sampling: Vec<Link>,
    stubs: Option<Stubs>,
    ticks: Rc<Ticks>,
    many_at_once: bool,
    plan: u64,
    records: RingBuffer<'static>,
    calls: Rc<RefCell<Vec<DrillCall>>>,
    /// Wanted calls still to come.
    remaining: u64,
    watch: Watch,
    pid: u32,
    /// Each change of probes waits for the kernel's grace periods: on a busy machine a search would take minutes.
    _priority: RaisedPriority,
}

/// The functions with a place for their own hits: `WP_DRILL_HITS`.
const MAX_HITS: u32 = 4096;
/// In a function's cookie: its returns are seen behind its calls (`WP_DRILL_BEHIND`).
const BEHIND: u64 = 1 << 32;

/// A node's call of a function, which is a node of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrillEdge {
    /// The calling node.
    pub parent: u32,
    /// The called function's number.
    pub function: u32,
    /// The return address in the process; `None`: it is called by a jump.
    pub returns_to: Option<u64>,
    /// The called node.
    pub node: u32,
    /// The caller's frame at the call, which is compared too where stubs measure.
    pub frame: Frame,
}

/// The nodes to measure.
#[derive(Debug, Clone, Default)]
pub struct DrillPlan {
    /// Latencies of f0 within the peak, ns.
    pub peak: Range<u64>,
    /// The nodes except f0, which is node 0.
    pub edges: Vec<DrillEdge>,
    /// The measured functions' callers, by number.
    pub callers: Vec<u32>,
    /// The number of wanted calls within the peak.
    pub wanted: u64,
}

/// The calls of f0 so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrillCounts {
    /// The number of calls from 2^i to below 2^(i+1) ns.
    pub buckets: [u64; 64],
    /// The sum of these calls' latencies, ns.
    pub sums: [u64; 64],
    /// Calls unwound without a return.
    pub left: u64,
    /// Calls without a measurement: too many threads, or calls too deep.
    pub crowded: u64,
    /// Records lost for lack of room.
    pub lost: u64,
}

impl Default for DrillCounts {
    fn default() -> Self {
        Self { buckets: [0; 64], sums: [0; 64], left: 0, crowded: 0, lost: 0 }
    }
}

impl<'obj> Drill<'obj> {
    /// Loads the programs into `storage`, for functions in a process with this runtime, and for this time at most.
    /// Nothing is measured yet. If the process is our `command`, it is waited for when it ends. With `in_kernel`,
    /// calls of kernel functions can be measured too; with `stubs`, code in the process can measure calls, and these
    /// unwinders get to know it.
    ///
    /// # Errors
    /// When privileges are missing, or the kernel does not take the programs.
    pub fn load(
        storage: &'obj mut MaybeUninit<OpenObject>,
        pid: u32,
        runtime: Runtime,
        command: Option<Running>,
        duration: Option<Duration>,
        stubs: Option<&[Unwinder]>,
        in_kernel: bool,
    ) -> Result<Self, Error> {
        if pidfd(pid).is_none() {
            return Err(Error::NoProcess { pid });
        }
        libbpf::silence();
        let kernel = libbpf::kernel_types()?;
        let many_at_once = libbpf::has_uprobe_sessions(&kernel);
        let mut open = DrillSkelBuilder::default().open(storage).map_err(load_error)?;
        for mut program in open.open_object_mut().progs_mut() {
            let section = program.section().to_string_lossy().into_owned();
            let is_of_python = program.name().to_string_lossy().contains("python");
            let wanted = match section.as_str() {
                _ if is_of_python && runtime != Runtime::Python => false,
                "uprobe" | "uretprobe" => !many_at_once,
                "uprobe.multi" | "uretprobe.multi" => many_at_once,
                "kprobe" | "kretprobe" | "tp_btf/sys_enter" | "tp_btf/sys_exit" => in_kernel,
                _ => true,
            };
            program.set_autoload(wanted);
        }
        let bss = open.maps.bss_data.as_deref_mut().ok_or(Error::Skeleton(".bss"))?;
        bss.process = pid;
        bss.of_go = (runtime == Runtime::Go).into();
        bss.in_kernel = in_kernel.into();
        bss.steal_behind_run_queue = steal::offset_from_run_queue(&kernel).unwrap_or(0);
        let constants = open.maps.rodata_data.as_deref_mut().ok_or(Error::Skeleton(".rodata"))?;
        constants.with_stubs = stubs.is_some().into();
        open.maps.stub_states.set_autocreate(stubs.is_some()).map_err(load_error)?;
        let mut skeleton = open.load().map_err(load_error)?;
        let stubs = stubs
            .map(|unwinders| Stubs::begin(pid, skeleton.maps.stub_states.as_fd(), unwinders))
            .transpose()?;
        if let (Some(stubs), Some(bss)) = (&stubs, skeleton.maps.bss_data.as_deref_mut()) {
            bss.stub_states_at = stubs.injection.states();
        }
        let calls = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&calls);
        let ticks = Rc::new(Ticks::new());
        let clock = Rc::clone(&ticks);
        let mut rings = RingBufferBuilder::new();
        rings
            .add(&skeleton.maps.drill_records, move |record| {
                into.borrow_mut().extend(DrillCall::read(record, clock.length()));
                0
            })
            .map_err(load_error)?;
        let records = rings.build().map_err(load_error)?;
        let mut drill = Self {
            skeleton,
            groups: Vec::new(),
            watched: Vec::new(),
            tracepoints: Vec::new(),
            marks: Vec::new(),
            callers: LearnedCallers::default(),
            call_places: CallPlaces::default(),
            kernel: KernelProbes::default(),
            sampling: Vec::new(),
            stubs,
            ticks,
            many_at_once,
            plan: 0,
            records,
            calls,
            remaining: 0,
            pid,
            watch: Watch::new(command.map(|command| command.pid), &[pid], duration),
            _priority: RaisedPriority::recording(),
        };
        drill.attach_tracepoints()?;
        Ok(drill)
    }

    fn attach_tracepoints(&mut self) -> Result<(), Error> {
        for program in self.skeleton.object().progs_mut().filter(|program| program.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            let section = program.section().to_string_lossy().into_owned();
            if section.starts_with("tp_btf/") && !section.starts_with("tp_btf/sys_") {
                let link =
                    program.attach().map_err(|source| Error::Attach { name, source: into_io(source) })?;
                self.tracepoints.push(link);
            }
        }
        Ok(())
    }

    /// Puts probes on functions; number 0 is f0. Returns are probed first: a return without its entry is ignored.
    ///
    /// # Errors
    /// When the kernel refuses a probe; then this call's probes are removed again.
    pub fn probe(&mut self, functions: &[(u32, &Probe)]) -> Result<(), Error> {
        // Where each place has a link of its own, each function can be removed alone.
        let at_once = if self.many_at_once { functions.len().max(1) } else { 1 };
        let groups = functions
            .chunks(at_once)
            .map(|group| Ok((group.iter().map(|(number, _)| *number).collect(), self.probe_group(group)?)));
        let groups = groups.collect::<Result<Vec<_>, Error>>()?;
        self.groups.extend(groups);
        Ok(())
    }

    fn probe_group(&self, functions: &[(u32, &Probe)]) -> Result<Vec<Link>, Error> {
        let mut places: BTreeMap<(u8, &Path), Vec<(u64, u64)>> = BTreeMap::new();
        for &(number, probe) in functions {
            let file = probe.file.as_path();
            match &probe.returns {
                Return::ReturnProbe => {
                    places.entry((0, file)).or_default().push((number.into(), probe.offset))
                }
                Return::AtInstructions(offsets) => places
                    .entry((1, file))
                    .or_default()
                    .extend(offsets.iter().map(|&offset| (number.into(), offset))),
                Return::AtCallers => {}
                Return::Never => continue,
            }
            let behind = if probe.returns == Return::AtCallers { BEHIND } else { 0 };
            places.entry((2, file)).or_default().push((u64::from(number) | behind, probe.offset));
        }
        let mut links = Vec::new();
        for ((kind, file), places) in places {
            let programs = [
                ("drill_return", "drill_return_one"),
                ("drill_leave", "drill_leave_one"),
                ("drill_enter", "drill_enter_one"),
            ];
            links.extend(self.attach(programs[usize::from(kind)], kind == 0, file, &places)?);
        }
        Ok(links)
    }

    /// Attaches a program to places in a file, each with its cookie. It has two names: for many places, and for a single place.
    fn attach(
        &self,
        (many, one): (&'static str, &'static str),
        retprobe: bool,
        file: &Path,
        places: &[(u64, u64)],
    ) -> Result<Vec<Link>, Error> {
        let failed =
            |offset: u64, source| Error::Probe { file: file.to_owned(), offset, source: into_io(source) };
        let object = self.skeleton.object();
        // In no other process: a library's probe slows all processes with the library.
        let pid = self.pid as i32;
        if self.many_at_once {
            let opts = UprobeMultiOpts {
                offsets: places.iter().map(|&(_, offset)| offset as usize).collect(),
                cookies: places.iter().map(|&(cookie, _)| cookie).collect(),
                retprobe,
                ..UprobeMultiOpts::default()
            };
            let link = program_mut(object, many)?.attach_uprobe_multi_with_opts(pid, file, "", opts);
            let first = places.first().map_or(0, |&(_, offset)| offset);
            return Ok(vec![link.map_err(|source| failed(first, source))?]);
        }
        let attach_one = |&(cookie, offset): &(u64, u64)| {
            let opts = UprobeOpts { cookie, retprobe, ..UprobeOpts::default() };
            let link = program_mut(object, one)?.attach_uprobe_with_opts(pid, file, offset as usize, opts);
            link.map_err(|source| failed(offset, source))
        };
        places.iter().map(attach_one).collect()
    }

    /// Removes the probes that are not needed. The kernel removes probes that were attached at once only together:
    /// needed functions lose their probes with the rest of their group, see [`Drill::is_probed`]. Calls open
    /// meanwhile may look unwound: another plan has to follow.
    pub fn remove_unneeded(&mut self, is_needed: impl Fn(u32) -> bool) {
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.groups)
            .into_iter()
            .partition(|(numbers, _)| numbers.iter().all(|&number| is_needed(number)));
        self.groups = kept;
        detach(gone.into_iter().flat_map(|(_, links)| links).collect());
    }

    /// Whether a function has probes.
    pub fn is_probed(&self, function: u32) -> bool {
        self.groups.iter().any(|(numbers, _)| numbers.contains(&function))
    }

    /// A function's hits at its entry probe so far; functions with high numbers share a place.
    pub fn hits(&self, function: u32) -> u64 {
        let place = function.min(MAX_HITS - 1).to_ne_bytes();
        let each = self.skeleton.maps.hits.lookup_percpu(&place, MapFlags::ANY).ok().flatten();
        each.into_iter().flatten().map(|count| word(&count, 0)).sum()
    }

    /// The reason why the drill-down is over (the process ended, the time is over, or `stop` was asked), and the
    /// command's wait status if it ended.
    pub fn ended(&mut self, stop: &Signals) -> Option<(EndReason, Option<i32>)> {
        self.watch.sleep(Duration::ZERO, None);
        self.watch.ended(stop)
    }

    /// Adds this time to the time at most.
    pub const fn add_time(&mut self, more: Duration) {
        self.watch.add_time(more);
    }

    /// Counts the calls of f0 from now on, and measures nothing below it.
    pub fn count(&mut self) -> Result<(), Error> {
        self.set(|bss| bss.phase = 1)
    }

    /// Measures by a plan from now on, without calls of f0 that are open now.
    ///
    /// # Errors
    /// When the kernel's memory does not hold the plan.
    pub fn measure(&mut self, plan: &DrillPlan) -> Result<(), Error> {
        self.set(|bss| (bss.phase, bss.wanted) = (1, 0))?;
        let maps = &self.skeleton.maps;
        for key in maps.edges.keys().collect::<Vec<_>>() {
            let _ = maps.edges.delete(&key);
        }
        for key in maps.callers.keys().collect::<Vec<_>>() {
            let _ = maps.callers.delete(&key);
        }
        for edge in &plan.edges {
            let mut key = [0; 16];
            key[..4].copy_from_slice(&edge.parent.to_ne_bytes());
            key[4..8].copy_from_slice(&edge.function.to_ne_bytes());
            key[8..].copy_from_slice(&edge.returns_to.unwrap_or(0).to_ne_bytes());
            maps.edges.update(&key, &child_bytes(edge), MapFlags::ANY).map_err(load_error)?;
        }
        for caller in &plan.callers {
            maps.callers
                .update(&caller.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY)
                .map_err(load_error)?;
        }
        if let Some(stubs) = &self.stubs {
            stubs.heard(&self.ticks);
        }
        self.plan += 1;
        self.calls.borrow_mut().clear();
        let (number, peak, trampoline) = (self.plan, plan.peak.clone(), trampoline(self.pid));
        let now = plan.wanted.min(MAX_WANTED_CALLS);
        self.remaining = plan.wanted;
        self.set(|bss| {
            (bss.low, bss.high, bss.plan) = (peak.start, peak.end, number);
            (bss.trampoline_from, bss.trampoline_to) = (trampoline.start, trampoline.end);
            (bss.wanted, bss.phase) = (now as i64, 2);
        })
    }

    /// Takes samples in a node's code from now on: this number in each second of a CPU's time. Calls of f0 carry the
    /// samples that found this node innermost.
    ///
    /// # Errors
    /// When perf events are not allowed, or a CPU has none.
    pub fn sample(&mut self, node: u32, per_second: u32) -> Result<(), Error> {
        self.set(|bss| bss.sampled_node = node)?;
        let name = String::from("drill_sample");
        let attached = sampling::attach(&program_mut(self.skeleton.object(), "drill_sample")?, per_second);
        self.sampling = attached.map_err(|source| Error::Attach { name, source })?;
        Ok(())
    }

    /// Takes no more samples.
    pub fn sample_no_more(&mut self) {
        self.sampling.clear();
    }

    /// Asks for more calls by the same plan.
    pub fn want(&mut self, more: u64) {
        self.remaining += more;
    }

    /// The calls of f0 within the peak that returned since this function's last call; waits for some until `timeout`.
    pub fn calls(&mut self, timeout: Duration) -> Result<Vec<DrillCall>, Error> {
        if let Some(stubs) = &self.stubs {
            stubs.heard(&self.ticks);
        }
        // A wait cut short by a signal has no calls.
        let _ = self.records.poll(timeout);
        let mut calls = std::mem::take(&mut *self.calls.borrow_mut());
        calls.retain(|call| call.plan == self.plan);
        self.remaining = self.remaining.saturating_sub(calls.len() as u64);
        let now = self.remaining.min(MAX_WANTED_CALLS);
        self.set(|bss| {
            // Calls that end at the same time on several CPUs count below zero.
            if bss.wanted <= 0 {
                bss.wanted = now as i64;
            }
        })?;
        Ok(calls)
    }

    /// From now on, measures only calls of f0 that begin after a call of the function `begins` and before a call of
    /// `ends` (T08 section 3.10); without `begins`, from now on.
    ///
    /// # Errors
    /// When the kernel refuses a probe on a function.
    pub fn mark_phases(&mut self, begins: Option<&Probe>, ends: Option<&Probe>) -> Result<(), Error> {
        self.set(|bss| {
            (bss.in_phases, bss.in_phase, bss.phases) = (1, begins.is_none().into(), begins.is_none().into())
        })?;
        for (cookie, probe) in [(0, ends), (1, begins)] {
            let Some(probe) = probe else { continue };
            let links =
                self.attach(("drill_mark", "drill_mark_one"), false, &probe.file, &[(cookie, probe.offset)])?;
            self.marks.extend(links);
        }
        Ok(())
    }

    /// Whether a phase of the program is open, and the number of phases so far; without phases, true.
    pub fn phases(&self) -> Result<(bool, u64), Error> {
        let bss = self.skeleton.maps.bss_data.as_deref().ok_or(Error::Skeleton(".bss"))?;
        Ok((bss.in_phases == 0 || bss.in_phase != 0, bss.phases))
    }

    /// The calls of f0 since the beginning.
    pub fn counts(&self) -> Result<DrillCounts, Error> {
        let bss = self.skeleton.maps.bss_data.as_deref().ok_or(Error::Skeleton(".bss"))?;
        Ok(DrillCounts {
            buckets: bss.counts,
            sums: bss.sums,
            left: bss.left,
            crowded: bss.crowded,
            lost: bss.lost,
        })
    }

    /// The currently open calls of f0, at most one in each thread. A call that began before its probes came is not
    /// known.
    pub fn open_calls(&self) -> usize {
        let map = &self.skeleton.maps.drilled;
        let is_open = |key: &Vec<u8>| {
            let thread = map.lookup(key, MapFlags::ANY).ok().flatten();
            thread.is_some_and(|thread| word(&thread, DEPTH) as u32 > 0)
        };
        map.keys().filter(is_open).count()
    }

    fn set(&mut self, change: impl FnOnce(&mut crate::skeleton::drill::types::bss)) -> Result<(), Error> {
        change(self.skeleton.maps.bss_data.as_deref_mut().ok_or(Error::Skeleton(".bss"))?);
        Ok(())
    }
}

impl Drop for Drill<'_> {
    fn drop(&mut self) {
        let _ = self.end_stubs();
        self.end_kernel();
        self.remove_unneeded(|_| false);
        detach(self.callers.detach());
        self.see_returns(&[]);
    }
}

/// Detaches probes. For each link the kernel waits for a grace period, 40 ms long; requests at the same time share
/// it.
fn detach(mut links: Vec<Link>) {
    let each = links.len().div_ceil(MAX_DETACHING).max(1);
    std::thread::scope(|scope| {
        while !links.is_empty() {
            let some = links.split_off(links.len().saturating_sub(each));
            scope.spawn(move || drop(some));
        }
    });
}

/// The address range at which the kernel catches function returns in a process; empty before the first return probe.
fn trampoline(pid: u32) -> Range<u64> {
    let mappings = Process::open(pid).and_then(|process| process.mappings()).unwrap_or_default();
    let found = mappings.into_iter().find(|mapping| mapping.name == b"[uprobes]");
    found.map_or(0..0, |mapping| mapping.addresses)
}

/// A `struct wp_drill_child`.
fn child_bytes(edge: &DrillEdge) -> [u8; 16] {
    let (frame, distance) = match edge.frame {
        Frame::AboveStack(bytes) => (0_u32, bytes as i64),
        Frame::AboveFramePointer(bytes) => (1, bytes),
        Frame::Unknown => (2, 0),
    };
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&edge.node.to_ne_bytes());
    bytes[4..8].copy_from_slice(&frame.to_ne_bytes());
    bytes[8..].copy_from_slice(&distance.to_ne_bytes());
    bytes
}

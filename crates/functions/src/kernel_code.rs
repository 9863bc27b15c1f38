//! The running kernel's functions, and the calls in their code.
//!
//! The code is read from memory (`/proc/kcore`), not from a file: at boot the kernel replaces instructions for this
//! machine, and joins calls through constant pointers (alternatives, static calls, return thunks). It is read once for
//! each function, before it contains any probe from wakepath.

mod calls;
mod memory;
mod symbols;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;

use crate::error::{Refusal, RefusalReason};
use crate::function::{Function, Probe, Return, Runtime};
use crate::instruction::ProbeMethod;
use crate::process_code::{ProcessCallee, ProcessFunction, ProcessSite, ProcessSites};
use crate::similar::similar;

use calls::{Calls, Target};
use memory::Memory;
use symbols::{Symbols, Text};

pub use calls::{KernelCall, KernelExit};

/// The maximum size of a function to decode, bytes.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;
/// The maximum number of functions in which a call goes on by jumps, so that their returns are its own.
const MAX_GOES_ON_IN: usize = 32;
/// The maximum number of probed return instructions per function: each costs its other callers a trap.
const MAX_EXITS: usize = 64;
/// System call numbers are below this.
const MAX_SYSTEM_CALLS: u32 = 512;
/// The maximum number of names in an error.
const MAX_LISTED: usize = 5;

/// Functions that never return to their callers: they end a thread or the system, or report that it is broken.
const NEVER: [&str; 16] = [
    "__kthread_complete_and_exit",
    "__module_put_and_kthread_exit",
    "__stack_chk_fail",
    "__x64_sys_exit",
    "__x64_sys_exit_group",
    "cpu_startup_entry",
    "do_exit",
    "do_group_exit",
    "do_task_dead",
    "fortify_panic",
    "kthread_complete_and_exit",
    "kthread_exit",
    "make_task_dead",
    "nmi_panic",
    "panic",
    "rewind_stack_and_make_dead",
];

/// The scheduler's own functions: a call to them is the wait, and below them other threads run.
const SCHEDULER: [&str; 8] = [
    "__cond_resched",
    "__schedule",
    "preempt_schedule",
    "preempt_schedule_common",
    "preempt_schedule_irq",
    "preempt_schedule_notrace",
    "schedule",
    "schedule_idle",
];

/// Name prefixes of functions called by BPF programs and probes: a probe in them is skipped while a probe runs, so that
/// calls would be missed.
const OF_PROBES: [&str; 20] = [
    "__bpf_",
    "__htab_",
    "__kprobe",
    "__perf_",
    "arch_ftrace_",
    "arch_rethook",
    "bpf_",
    "copy_from_kernel_nofault",
    "ftrace_",
    "get_kprobe",
    "htab_",
    "kprobe",
    "kretprobe",
    "ktime_get_mono_fast_ns",
    "perf_",
    "rethook",
    "rcu_read_unlock_strict",
    "trace_call_bpf",
    "text_poke",
    "uprobe",
];

/// The kernel's addresses: the upper half.
pub(crate) const fn is_of_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// The error for a name without a kernel function whose calls can be followed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum KernelCodeError {
    #[error("cannot read `{path}`: {source}")]
    Unreadable { path: &'static str, source: io::Error },
    #[error(
        "`/proc/kallsyms` has no addresses: only root sees them, and some systems show them to nobody (sysctl kernel.kptr_restrict)"
    )]
    NoAddresses,
    #[error(
        "there is no `kernel:{name}`{}",
        if .similar.is_empty() { String::new() } else { format!("; similar: kernel:{}", .similar.join(", kernel:")) }
    )]
    Unknown { name: String, similar: Vec<String> },
    #[error(
        "cannot probe the kernel's `{name}`: the compiler inlined or changed it, and only {} is left, which does not see all of its calls; probe a caller",
        .left.join(", ")
    )]
    Altered { name: String, left: Vec<String> },
    #[error("cannot probe the kernel's `{name}`: {count} functions have that name")]
    Several { name: String, count: usize },
    #[error("cannot probe the kernel's `{}`: {}", .0.name, .0.why)]
    Refused(Refusal),
}

/// The code of the running kernel and its modules.
#[derive(Debug)]
pub struct KernelCode {
    symbols: Symbols,
    memory: Memory,
    /// The kernel's build, in hexadecimal; empty if it states none.
    build: String,
    decoded: HashMap<u64, Option<Calls>>,
}

impl KernelCode {
    /// Reads the names, and opens the memory.
    ///
    /// # Errors
    /// When either may not be read.
    pub fn open() -> Result<Self, KernelCodeError> {
        let unreadable = |path| move |source| KernelCodeError::Unreadable { path, source };
        let names = std::fs::read_to_string("/proc/kallsyms").map_err(unreadable("/proc/kallsyms"))?;
        let blacklist = std::fs::read_to_string("/sys/kernel/debug/kprobes/blacklist").unwrap_or_default();
        let symbols = Symbols::new(names, &blacklist);
        if symbols.is_empty() {
            return Err(KernelCodeError::NoAddresses);
        }
        let memory = Memory::open().map_err(unreadable("/proc/kcore"))?;
        let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
        Ok(Self { symbols, memory, build: memory::build_id(&notes), decoded: HashMap::new() })
    }

    /// The function with this name.
    ///
    /// # Errors
    /// When there is none, or several, or its calls cannot be followed.
    pub fn named(&mut self, name: &str) -> Result<ProcessFunction, KernelCodeError> {
        let owned = || name.to_owned();
        match *self.symbols.named(name).as_slice() {
            [] => {
                let mut left = self.symbols.parts_of(name);
                left.truncate(MAX_LISTED);
                if !left.is_empty() {
                    return Err(KernelCodeError::Altered { name: owned(), left });
                }
                let similar = similar(name, self.symbols.names().map(Into::into));
                Err(KernelCodeError::Unknown { name: owned(), similar })
            }
            [address] => {
                if let Some(why) = self.forbidden(address) {
                    return Err(KernelCodeError::Refused(self.refusal(address, why)));
                }
                let mut found = self.function_at(address).map_err(KernelCodeError::Refused)?;
                found.function.readable = owned();
                found.function.names = vec![owned()];
                Ok(found)
            }
            [_, _, ..] => {
                Err(KernelCodeError::Several { name: owned(), count: self.symbols.named(name).len() })
            }
        }
    }

    /// The function that begins at an address. Its calls are seen where it is called, so that it need not allow a
    /// probe.
    ///
    /// # Errors
    /// When no function begins there.
    pub fn function_at(&self, address: u64) -> Result<ProcessFunction, Refusal> {
        let not_code = || self.refusal(address, RefusalReason::NotCode { address });
        let Text { name, module, end } = self.symbols.beginning_at(address).ok_or_else(not_code)?;
        let never = NEVER.contains(&name);
        Ok(ProcessFunction {
            address,
            function: Function {
                shown: PathBuf::from(
                    module.map_or_else(|| "kernel".to_owned(), |module| format!("kernel:{module}")),
                ),
                names: vec![name.to_owned()],
                readable: name.to_owned(),
                address,
                size: end - address,
                probe: Probe {
                    file: PathBuf::from("/proc/kcore"),
                    offset: 0,
                    method: ProbeMethod::Emulated,
                    returns: if never { Return::Never } else { Return::ReturnProbe },
                    runtime: Runtime::Kernel,
                    switches: false,
                },
                notes: Vec::new(),
            },
        })
    }

    /// The reason why no probe may be put into a function's code, if there is one.
    fn forbidden(&self, address: u64) -> Option<RefusalReason> {
        let of_kernel = |why| Some(RefusalReason::Kernel { why });
        let Some(Text { name, .. }) = self.symbols.beginning_at(address) else {
            return Some(RefusalReason::NotCode { address });
        };
        if self.symbols.is_amid_entry(address) {
            return of_kernel(
                "it is code by which the kernel is entered, where a probe would be reached again while it is handled",
            );
        }
        if self.symbols.is_blacklisted(address) {
            return of_kernel("it is on the kernel's list of functions that may not be probed");
        }
        if OF_PROBES.iter().any(|of| name.starts_with(of)) {
            return of_kernel(
                "programs at probes call it themselves, and the kernel skips a probe within a probe",
            );
        }
        let code = self.memory.read(address..address + 16).unwrap_or_default();
        (!calls::is_traceable(&code))
            .then_some(RefusalReason::Kernel { why: "the kernel does not allow tracing it" })
    }

    fn refusal(&self, address: u64, why: RefusalReason) -> Refusal {
        let name = self.name_of(address).unwrap_or_else(|| format!("{address:#x}"));
        Refusal { name, file: "the kernel".to_owned(), why }
    }

    /// The name of the function around an address.
    pub fn name_of(&self, address: u64) -> Option<String> {
        Some(self.symbols.around(address)?.name.to_owned())
    }

    /// Whether a function is the scheduler's: below it other threads run.
    pub fn is_scheduler(function: &ProcessFunction) -> bool {
        function.function.probe.runtime == Runtime::Kernel
            && SCHEDULER.contains(&function.function.readable.as_str())
    }

    /// The calls in a function's code.
    ///
    /// # Errors
    /// When the code may not contain a probe.
    pub fn sites(&mut self, of: &ProcessFunction) -> Result<ProcessSites, Refusal> {
        if let Some(why) = self.forbidden(of.address) {
            return Err(self.refusal(of.address, why));
        }
        self.decode(of.address);
        let not_code = || self.refusal(of.address, RefusalReason::NotCode { address: of.address });
        let calls = self.decoded.get(&of.address).and_then(Option::as_ref).ok_or_else(not_code)?;
        let site = |call: &KernelCall| ProcessSite {
            address: call.address,
            offset: call.address.wrapping_sub(of.address),
            returns_to: call.returns_to,
            behind: None,
            callee: match call.target {
                Target::Computed(operand) => ProcessCallee::Computed(operand),
                Target::At(address) => match self.function_at(address) {
                    Ok(function) => ProcessCallee::Function(Box::new(function)),
                    Err(refusal) => ProcessCallee::Refused(refusal),
                },
            },
        };
        Ok(ProcessSites {
            sites: calls.calls.iter().map(site).collect(),
            whole: calls.whole,
            computed_jumps: 0,
        })
    }

    /// The call at an address in code for which [`KernelCode::sites`] was asked.
    pub fn call_at(&self, function: u64, address: u64) -> Option<&KernelCall> {
        let calls = self.decoded.get(&function)?.as_ref()?;
        calls.calls.iter().find(|call| call.address == address)
    }

    /// The instructions at which a call to a function returns, in its own code or in functions that it leaves to by a
    /// jump. `None`: some are not known.
    pub fn exits(&mut self, function: u64) -> Option<Vec<KernelExit>> {
        let mut seen = BTreeSet::from([function]);
        let (mut todo, mut exits) = (vec![function], Vec::new());
        while let Some(next) = todo.pop() {
            if self.forbidden(next).is_some() || seen.len() > MAX_GOES_ON_IN {
                return None;
            }
            self.decode(next);
            let calls =
                self.decoded.get(&next)?.as_ref().filter(|calls| calls.whole && !calls.leaves_unseen)?;
            exits.extend(calls.exits.iter().copied());
            for jump in calls.calls.iter().filter(|call| call.returns_to.is_none()) {
                let Target::At(target) = jump.target else { return None };
                if seen.insert(target) {
                    todo.push(target);
                }
            }
        }
        (!exits.is_empty() && exits.len() <= MAX_EXITS).then_some(exits)
    }

    /// Decodes a function, with its seldom run part elsewhere.
    fn decode(&mut self, address: u64) {
        if self.decoded.contains_key(&address) {
            return;
        }
        let Self { symbols, memory, .. } = self;
        let found = symbols.beginning_at(address).and_then(|text| {
            let part = |range: std::ops::Range<u64>| {
                let short = range.end - range.start <= MAX_FUNCTION_BYTES;
                Some((range.start, memory.read(range).filter(|_| short)?))
            };
            let main = part(address..text.end)?;
            let cold = symbols.cold_part(text.name, text.module).and_then(part);
            let word = |address: u64| {
                let bytes = memory.read(address..address.checked_add(8)?)?;
                Some(u64::from_le_bytes(bytes.try_into().ok()?))
            };
            let code = |address: u64| memory.read(address..address.saturating_add(16)).unwrap_or_default();
            let parts: Vec<_> = [main].into_iter().chain(cold).collect();
            Some(Calls::of(&parts, symbols, &word, &code))
        });
        self.decoded.insert(address, found);
    }

    /// The kernel function for a system call number.
    pub fn system_call(&self, number: u32) -> Option<ProcessFunction> {
        let table = self.symbols.data("sys_call_table")?;
        let at = table.checked_add(u64::from(number) * 8)?;
        let bytes = self.memory.read(at..at + 8)?;
        self.function_at(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    }

    /// The number of the system call whose function is at an address.
    pub fn number_of_system_call(&self, address: u64) -> Option<u32> {
        (0..MAX_SYSTEM_CALLS).find(|&number| self.system_call(number).is_some_and(|it| it.address == address))
    }

    /// A name for a function by which another run finds it; `None` where its name is not unique, or the kernel names no
    /// build.
    pub(crate) fn place_of(&self, function: &ProcessFunction) -> Option<String> {
        let name = function.function.names.first()?;
        let is_only = self.symbols.named(name).len() == 1;
        (is_only && !self.build.is_empty()).then(|| format!("kernel {} {name}", self.build))
    }

    /// The function with this name, by [`KernelCode::place_of`].
    pub(crate) fn at_place(&self, place: &str) -> Option<ProcessFunction> {
        let (build, name) = place.strip_prefix("kernel ")?.split_once(' ')?;
        match *self.symbols.named(name).as_slice() {
            [address] if build == self.build => self.function_at(address).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

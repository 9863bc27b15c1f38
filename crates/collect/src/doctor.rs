//! The features that this kernel and these privileges allow, found by trying each.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

use libbpf_rs::libbpf_sys;
use wakepath_process::{Process, processes};

use crate::cost::Statistics;
use crate::error::Error;
use crate::goroutines::GoFound;
use crate::latency::try_kernel_functions;
use crate::libbpf::{kernel_types, owned};
use crate::options::{Options, Stacks};
use crate::programs::{Missing, Programs};
use crate::rights::{BPF, Capability, PERFMON, SYS_ADMIN, SYS_PTRACE, SYSLOG};
use crate::sampling;
use crate::steal::{StealTime, steal_time};

/// A tried feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The feature.
    pub what: String,
    /// The result.
    pub verdict: CheckVerdict,
}

/// The result of trying a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckVerdict {
    /// It works; with a detail worth showing, or an empty text.
    Works(String),
    /// It does not work, and answers lack something.
    Lacking {
        /// The error.
        why: String,
        /// The consequence: the gaps in answers.
        consequence: String,
        /// The next thing to try, as a noun phrase or an imperative.
        hint: String,
    },
    /// It does not work, and nothing can be recorded without it.
    Blocking {
        /// The error.
        why: String,
        /// The next thing to try, as a noun phrase or an imperative.
        hint: String,
    },
}

fn grant(capability: Capability) -> String {
    format!("run as root, or grant {}", capability.name)
}

fn lacking(why: impl Into<String>, consequence: &str, hint: impl Into<String>) -> CheckVerdict {
    CheckVerdict::Lacking { why: why.into(), consequence: consequence.into(), hint: hint.into() }
}

/// The verdict on a feature whose failure leaves gaps in answers.
fn works(tried: Result<(), Error>, consequence: &str, hint: &str) -> CheckVerdict {
    tried.map_or_else(|error| lacking(error.to_string(), consequence, hint), |()| WORKS)
}

/// Tries everything that a session with these options does, and leaves nothing running. `begins` hears of each feature
/// before it is tried.
pub fn examine(options: &Options, begins: &mut dyn FnMut(&str)) -> Vec<Check> {
    let mut checks = Checks { done: Vec::new(), begins };
    checks.attempt("the kernel's type information (BTF)", type_information);
    if !checks.are_blocked() {
        checks.attempt("creating BPF maps", map_creation);
    }
    if !checks.are_blocked() {
        programs(options, &mut checks);
    }
    if !checks.are_blocked() {
        checks.attempt("stacks at switches and wake-ups", || stacks(options));
        checks.attempt("probes on functions of the kernel", kernel_functions);
        checks.attempt("the kernel's statistics of BPF programs", statistics);
    }
    checks.attempt("reading other processes' mappings", other_processes);
    checks.attempt("reading the kernel's symbols", kernel_symbols);
    checks.attempt("disk statistics", disk_statistics);
    if let Some(verdict) = stolen_time() {
        checks.add("time stolen by the hypervisor (steal time)", verdict);
    }
    checks.done
}

/// The features tried so far.
struct Checks<'a> {
    done: Vec<Check>,
    begins: &'a mut dyn FnMut(&str),
}

impl Checks<'_> {
    fn attempt(&mut self, what: &str, check: impl FnOnce() -> CheckVerdict) {
        (self.begins)(what);
        self.add(what, check());
    }

    fn add(&mut self, what: impl Into<String>, verdict: CheckVerdict) {
        self.done.push(Check { what: what.into(), verdict });
    }

    /// Whether a failed feature makes further tries pointless.
    fn are_blocked(&self) -> bool {
        self.done.iter().any(|check| matches!(check.verdict, CheckVerdict::Blocking { .. }))
    }
}

const WORKS: CheckVerdict = CheckVerdict::Works(String::new());

fn type_information() -> CheckVerdict {
    let hint = "a kernel built with CONFIG_DEBUG_INFO_BTF, as those of distributions are since about 2021";
    kernel_types()
        .map_or_else(|error| CheckVerdict::Blocking { why: error.to_string(), hint: hint.into() }, |_| WORKS)
}

/// The simplest use of BPF, allowed to any process that may use BPF at all.
fn map_creation() -> CheckVerdict {
    // SAFETY: a NUL-terminated name and plain numbers; no options.
    let fd = unsafe {
        libbpf_sys::bpf_map_create(
            libbpf_sys::BPF_MAP_TYPE_RINGBUF,
            c"wakepath_try".as_ptr(),
            0,
            0,
            4096,
            std::ptr::null(),
        )
    };
    match owned(fd) {
        Ok(_) => WORKS,
        Err(error) => {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied if !BPF.is_held() => grant(BPF),
                io::ErrorKind::PermissionDenied => {
                    "to allow the bpf system call: a security module or a container's filter refuses it, not a missing capability"
                        .into()
                }
                _ => "Linux 5.8 or later, for BPF ring buffers".into(),
            };
            CheckVerdict::Blocking { why: error.to_string(), hint }
        }
    }
}

/// Loads and attaches a session's programs.
fn programs(options: &Options, checks: &mut Checks<'_>) {
    let what = "recording switches and wake-ups";
    (checks.begins)(what);
    let mut storage = MaybeUninit::uninit();
    let attached = sampling::possible_cpus().map_err(|source| Error::MapRings { source }).and_then(|cpus| {
        let mut programs = Programs::load(&mut storage, options, false, cpus)?;
        programs.rings(options, cpus)?;
        programs.attach(options, &GoFound::default())?;
        let threads = programs.threads().map(|records| records.len() / 88);
        programs.detach();
        Ok((programs.missing, threads))
    });
    let (missing, threads) = match attached {
        Ok(done) => done,
        Err(error) => {
            let hint = if PERFMON.is_held() {
                "the kernel's log, which has the messages of the verifier or of a security module".into()
            } else {
                grant(PERFMON)
            };
            checks.add(what, CheckVerdict::Blocking { why: error.to_string(), hint });
            return;
        }
    };
    checks.add(what, WORKS);
    for Missing { what, consequence } in missing {
        let why = "this kernel or your privileges do not allow it";
        let verdict = lacking(why, consequence, "another kernel, if the answers need it");
        checks.add(format!("recording `{what}`"), verdict);
    }
    let verdict = match threads {
        Ok(count) => CheckVerdict::Works(format!("{count} now")),
        Err(error) => lacking(
            error.to_string(),
            "threads that exist at the start have no name and no state",
            "Linux 5.8 or later, for its task iterator",
        ),
    };
    checks.add("listing threads", verdict);
}

/// Loads the programs for `--stacks`, which need more from the kernel than a session without it.
fn stacks(options: &Options) -> CheckVerdict {
    let options = Options { stacks: Stacks::Remembered, ..options.clone() };
    let mut storage = MaybeUninit::uninit();
    let loaded = sampling::possible_cpus()
        .map_err(|source| Error::MapRings { source })
        .and_then(|cpus| Programs::load(&mut storage, &options, false, cpus).map(drop));
    let consequence = "record --stacks cannot show which functions wait";
    works(loaded, consequence, "record without --stacks")
}

fn kernel_functions() -> CheckVerdict {
    let consequence = "latency and record --call cannot probe kernel:NAME";
    works(try_kernel_functions(), consequence, "syscall:NAME, lock:kernel or disk, which need no such probes")
}

/// Each program's time, the basis for calibrating the cost of recording.
fn statistics() -> CheckVerdict {
    let Err(error) = Statistics::enable() else { return WORKS };
    let hint = if SYS_ADMIN.is_held() {
        "Linux 5.8 or later; with one, a container's filter or a security module refuses it".into()
    } else {
        grant(SYS_ADMIN)
    };
    lacking(error.to_string(), "how much longer threads ran for a recording is not measured", hint)
}

fn other_processes() -> CheckVerdict {
    // Kernel threads have no command line and no mappings. A single process may refuse for reasons of its own; if
    // most refuse, we lack a privilege.
    let others = processes().into_iter().filter(|&pid| pid != std::process::id()).filter_map(|pid| {
        let process = Process::open(pid).ok()?;
        let words = process.command_line().ok()?;
        (!words.is_empty()).then(|| process.mappings().is_ok_and(|mappings| !mappings.is_empty()))
    });
    let (readable, refused): (Vec<bool>, Vec<bool>) = others.partition(|&readable| readable);
    if readable.len() >= refused.len() {
        return WORKS;
    }
    let all = readable.len() + refused.len();
    let why = format!("permission denied for {} of {all} processes", refused.len());
    lacking(why, "functions of other users' processes have no names", grant(SYS_PTRACE))
}

fn kernel_symbols() -> CheckVerdict {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let known = symbols.lines().take(1000).any(|line| !line.starts_with("0000000000000000"));
    if known {
        return WORKS;
    }
    let why = "all addresses in /proc/kallsyms are zero";
    lacking(why, "kernel functions in stacks have no names", grant(SYSLOG))
}

/// Without statistics a request has no stamps, so its time in the queue is not known.
fn disk_statistics() -> CheckVerdict {
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let off: Vec<String> = disks
        .filter(|disk| !disk.file_name().to_string_lossy().starts_with("zram"))
        .filter(|disk| {
            let switch: &Path = &disk.path().join("queue/iostats");
            fs::read_to_string(switch).is_ok_and(|text| text.trim() == "0")
        })
        .map(|disk| disk.file_name().to_string_lossy().into_owned())
        .collect();
    let Some(first) = off.first() else { return WORKS };
    lacking(
        format!("off for {}", off.join(", ")),
        "waits for these disks cannot be split into time in the queue and time in the device",
        format!("echo 1 | sudo tee /sys/block/{first}/queue/iostats"),
    )
}

/// On a virtual machine: whether the kernel reports when the hypervisor took a CPU away.
fn stolen_time() -> Option<CheckVerdict> {
    let seconds = |total_ns: u64| format!("{:.2} s since boot", total_ns as f64 / 1e9);
    Some(match steal_time(&kernel_types().ok()?) {
        StealTime::WithMoments { total_ns } => CheckVerdict::Works(seconds(total_ns)),
        StealTime::None => {
            CheckVerdict::Works("none since boot, or the hypervisor does not report it".into())
        }
        StealTime::Total { total_ns } => lacking(
            format!("the kernel reports the total, {}, but not when it was taken", seconds(total_ns)),
            "stolen time is shown as running or waiting, with a line that gives its total",
            "Linux 6.2 or later on KVM, built with CONFIG_PARAVIRT_TIME_ACCOUNTING",
        ),
    })
}

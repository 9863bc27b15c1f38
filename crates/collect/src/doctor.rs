//! What this kernel and these rights allow, found by trying each thing.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

use libbpf_rs::btf::Btf;
use libbpf_rs::libbpf_sys;

use crate::programs::{Missing, Programs};
use crate::steal::{self, Told};
use crate::{Error, Options, Stacks, sampling, try_kernel_functions};

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was tried.
    pub what: String,
    /// How it went.
    pub verdict: Verdict,
}

/// How a try went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It works; with a detail worth showing, or nothing.
    Works(String),
    /// It does not, and an answer lacks something for it.
    Lacking {
        /// What went wrong.
        why: String,
        /// What an answer lacks.
        consequence: String,
        /// What to do about it.
        hint: String,
    },
    /// It does not, and nothing can be recorded without it.
    Blocking {
        /// What went wrong.
        why: String,
        /// What to do about it.
        hint: String,
    },
}

/// A capability that recording needs, in the kernel's order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    number: u32,
    /// Its name.
    pub name: &'static str,
}

const PERFMON: Capability = Capability { number: 38, name: "CAP_PERFMON" };
const BPF: Capability = Capability { number: 39, name: "CAP_BPF" };
const SYS_ADMIN: Capability = Capability { number: 21, name: "CAP_SYS_ADMIN" };
const SYS_PTRACE: Capability = Capability { number: 19, name: "CAP_SYS_PTRACE" };
const SYSLOG: Capability = Capability { number: 34, name: "CAP_SYSLOG" };
const CHECKPOINT_RESTORE: Capability = Capability { number: 40, name: "CAP_CHECKPOINT_RESTORE" };

impl Capability {
    /// Whether this process has it in effect.
    fn held(self) -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
        // The old all-powerful one includes what was split from it.
        let split = [PERFMON.number, BPF.number, CHECKPOINT_RESTORE.number].contains(&self.number);
        bits & (1 << self.number) != 0 || split && bits & (1 << SYS_ADMIN.number) != 0
    }
}

fn grant(capability: Capability) -> String {
    format!("run as root, or grant {}", capability.name)
}

/// Tries everything that a session of `options` would do, and leaves nothing running.
pub fn examine(options: &Options) -> Vec<Check> {
    let mut checks = vec![kernel_types()];
    let blocked =
        |checks: &[Check]| checks.iter().any(|check| matches!(check.verdict, Verdict::Blocking { .. }));
    if !blocked(&checks) {
        checks.push(map_creation());
    }
    if !blocked(&checks) {
        programs(options, &mut checks);
    }
    if !blocked(&checks) {
        checks.push(stacks(options));
        checks.push(kernel_functions());
    }
    checks.push(other_processes());
    checks.push(kernel_symbols());
    checks.push(disk_statistics());
    checks.extend(steal_time());
    checks
}

fn kernel_types() -> Check {
    let verdict = match Btf::from_vmlinux() {
        Ok(_) => Verdict::Works(String::new()),
        Err(error) => Verdict::Blocking {
            why: error.to_string(),
            hint: "this needs a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions' kernels since about 2021 are"
                .into(),
        },
    };
    Check { what: "the kernel's type information (BTF)".into(), verdict }
}

/// The least that BPF allows to those who may use it at all.
fn map_creation() -> Check {
    // SAFETY: a name that is NUL-terminated and plain numbers; no options.
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
    let verdict = if fd >= 0 {
        // SAFETY: just opened, and nobody else has it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        Verdict::Works(String::new())
    } else {
        let error = io::Error::from_raw_os_error(-fd);
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied if !BPF.held() => grant(BPF),
            io::ErrorKind::PermissionDenied => {
                "the rights are there: a security module or a container's filter refuses the bpf system call"
                    .into()
            }
            _ => "BPF ring buffers need Linux 5.8".into(),
        };
        Verdict::Blocking { why: error.to_string(), hint }
    };
    Check { what: "creating BPF maps".into(), verdict }
}

/// Loads and attaches what a session would.
fn programs(options: &Options, checks: &mut Vec<Check>) {
    let mut storage = MaybeUninit::uninit();
    let attached = sampling::possible_cpus().map_err(|source| Error::MapRings { source }).and_then(|cpus| {
        let mut programs = Programs::load(&mut storage, options, cpus)?;
        programs.rings(options, cpus)?;
        programs.attach(options)?;
        let threads = programs.threads().map(|records| records.len() / 88);
        programs.detach();
        Ok((programs.missing, threads))
    });
    let what = "recording switches and wake-ups".to_owned();
    let (missing, threads) = match attached {
        Ok(done) => done,
        Err(error) => {
            let hint = if PERFMON.held() {
                "see the kernel's log for what the verifier or a security module says".into()
            } else {
                grant(PERFMON)
            };
            checks.push(Check { what, verdict: Verdict::Blocking { why: error.to_string(), hint } });
            return;
        }
    };
    checks.push(Check { what, verdict: Verdict::Works(String::new()) });
    for Missing { what, consequence } in missing {
        checks.push(Check {
            what: format!("recording `{what}`"),
            verdict: Verdict::Lacking {
                why: "this kernel or these rights do not allow it".into(),
                consequence: consequence.into(),
                hint: "nothing to do, if the kernel lacks it".into(),
            },
        });
    }
    let verdict = match threads {
        Ok(count) => Verdict::Works(format!("{count} now")),
        Err(error) => Verdict::Lacking {
            why: error.to_string(),
            consequence: "threads that live at the start have no name and no state".into(),
            hint: "the kernel's task iterator needs Linux 5.8".into(),
        },
    };
    checks.push(Check { what: "listing threads".into(), verdict });
}

/// Loads what `--stacks` would: it asks the kernel for more than recording does without.
fn stacks(options: &Options) -> Check {
    let options = Options { stacks: Stacks::Remembered, ..options.clone() };
    let mut storage = MaybeUninit::uninit();
    let loaded = sampling::possible_cpus()
        .map_err(|source| Error::MapRings { source })
        .and_then(|cpus| Programs::load(&mut storage, &options, cpus).map(drop));
    let verdict = match loaded {
        Ok(()) => Verdict::Works(String::new()),
        Err(error) => Verdict::Lacking {
            why: error.to_string(),
            consequence: "record --stacks cannot say which functions wait".into(),
            hint: "nothing to do, if the kernel does not allow it; record without --stacks".into(),
        },
    };
    Check { what: "stacks at switches and wake-ups".into(), verdict }
}

/// Whether this process may load the programs that there are.
pub(crate) fn may_load_programs() -> bool {
    BPF.held() && PERFMON.held()
}

fn kernel_functions() -> Check {
    let verdict = match try_kernel_functions() {
        Ok(()) => Verdict::Works(String::new()),
        Err(error) => Verdict::Lacking {
            why: error.to_string(),
            consequence: "`kernel:NAME` is nothing that latency or record --call can see".into(),
            hint: "nothing to do, if the kernel does not allow it; syscall:NAME, lock:kernel and disk work"
                .into(),
        },
    };
    Check { what: "probes on functions of the kernel".into(), verdict }
}

fn other_processes() -> Check {
    // Kernel threads have no command line and no mappings. One process that refuses may have its
    // reasons; when most do, it is our rights.
    let others = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<u32>().ok().filter(|&pid| pid != std::process::id())?;
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        (!words.is_empty()).then(|| fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| !maps.is_empty()))
    });
    let (readable, refused): (Vec<bool>, Vec<bool>) = others.partition(|&readable| readable);
    let verdict = if readable.len() >= refused.len() {
        Verdict::Works(String::new())
    } else {
        Verdict::Lacking {
            why: format!("permission denied for {} of {}", refused.len(), readable.len() + refused.len()),
            consequence: "functions of other users' processes have no names".into(),
            hint: grant(SYS_PTRACE),
        }
    };
    Check { what: "reading other processes' mappings".into(), verdict }
}

fn kernel_symbols() -> Check {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let known = symbols.lines().take(1000).any(|line| !line.starts_with("0000000000000000"));
    let verdict = if known {
        Verdict::Works(String::new())
    } else {
        Verdict::Lacking {
            why: "all addresses in /proc/kallsyms are zero".into(),
            consequence: "kernel functions in samples have no names".into(),
            hint: grant(SYSLOG),
        }
    };
    Check { what: "reading the kernel's symbols".into(), verdict }
}

/// Without statistics a request carries no stamps, and the queue cannot be told from the device.
fn disk_statistics() -> Check {
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let off: Vec<String> = disks
        .filter(|disk| !disk.file_name().to_string_lossy().starts_with("zram"))
        .filter(|disk| {
            let switch: &Path = &disk.path().join("queue/iostats");
            fs::read_to_string(switch).is_ok_and(|text| text.trim() == "0")
        })
        .map(|disk| disk.file_name().to_string_lossy().into_owned())
        .collect();
    let verdict = if off.is_empty() {
        Verdict::Works(String::new())
    } else {
        Verdict::Lacking {
            why: format!("off for {}", off.join(", ")),
            consequence: "waits for these disks cannot tell the queue from the device".into(),
            hint: format!("echo 1 | sudo tee /sys/block/{}/queue/iostats", off[0]),
        }
    };
    Check { what: "disk statistics".into(), verdict }
}

/// On a virtual machine: whether it is known when the host took a CPU away.
fn steal_time() -> Option<Check> {
    let told = steal::told(&Btf::from_vmlinux().ok()?);
    let in_all = |steal_ns: u64| format!("{:.2} s in all since it booted", steal_ns as f64 / 1e9);
    let verdict = match told {
        Told::When { steal_ns } => Verdict::Works(in_all(steal_ns)),
        Told::Nothing => Verdict::Works("none since it booted, or a host that does not say".into()),
        Told::Sum { steal_ns } => Verdict::Lacking {
            why: format!("the kernel says how much, {}, but not when", in_all(steal_ns)),
            consequence:
                "what the host took is told as running or waiting, with a line that says how much it was"
                    .into(),
            hint: "nothing to do here; it needs Linux 6.2, KVM and CONFIG_PARAVIRT_TIME_ACCOUNTING".into(),
        },
    };
    Some(Check { what: "time that the host takes (steal time)".into(), verdict })
}

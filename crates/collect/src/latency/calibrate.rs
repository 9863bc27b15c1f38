//! What probes cost a call on this machine, and by how much they shift what they count.
//!
//! Measured, since it is 0.6 µs here and 40 µs there: on empty functions of this program, which begin as
//! the functions begin that were asked about, with the same BPF programs attached in the same way, for
//! this process alone. What an empty function is counted to take is what the probes add to the latency of
//! any (T08 section 8.2); what it really takes longer is what they cost its caller.
//!
//! Rounds of some calls, and the median of the rounds: a round that was interrupted does not matter.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags};
use wakepath_functions::{Probe, ProbeMethod, Return, Runtime};

use super::{Counted, Counters, Counts, LatencyOptions, MAX_TARGETS};
use crate::probes::{GO, attach_one};
use crate::programs::FROM_THE_START;

/// The counters of calls that are made here: those that no target has.
pub(super) const COUNTER: u32 = MAX_TARGETS as u32;
/// Calls in a round: the first of them comes behind system calls, and takes half as long again.
const CALLS: u32 = 32;
/// Rounds: no more are needed, and no fewer tell a usual one from one that was interrupted.
const ROUNDS: std::ops::RangeInclusive<usize> = 5..=41;
/// Between the least and the most rounds, how long is taken for a kind of probe.
const PATIENCE: Duration = Duration::from_millis(2);

/// The properties of a function's probes on which their cost depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProbeKind {
    entry: ProbeMethod,
    exit: Exit,
    /// The function is Go's, so that the goroutine is read.
    go: bool,
}

/// How a return is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// By a probe in the place of the return address.
    ReturnAddress,
    /// At the return instruction, which is single-stepped.
    Instruction,
}

/// What probes of a kind cost on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// How much longer a call takes that is probed, ns.
    pub per_call_ns: u64,
    /// How much longer a call takes in a process that is not asked about, ns.
    pub elsewhere_ns: u64,
    /// What an empty function is counted to take, in what is counted: ns or cycles.
    pub shift: u64,
}

impl ProbeKind {
    fn of(probe: &Probe) -> Self {
        let exit = match probe.returns {
            Return::AtInstructions(_) => Exit::Instruction,
            Return::ReturnProbe | Return::Never => Exit::ReturnAddress,
        };
        Self { entry: probe.method, exit, go: probe.runtime == Runtime::Go }
    }
}

/// The measured cost of probes such as these; `None` where the kernel refuses them.
pub fn calibrate(probe: &Probe) -> Option<Calibration> {
    let options = LatencyOptions {
        targets: vec![Counted::Function(probe.clone())],
        processes: vec![std::process::id()],
        ..LatencyOptions::default()
    };
    let mut storage = MaybeUninit::uninit();
    Counters::load(&mut storage, &options).ok()?.calibrate(ProbeKind::of(probe))
}

impl Counters<'_> {
    /// The cost of each target's probes; none for a function that never returns, since it has no latency.
    pub(super) fn calibrations(&mut self, options: &LatencyOptions) -> Vec<Option<Calibration>> {
        let mut measured: Vec<(ProbeKind, Option<Calibration>)> = Vec::new();
        let mut of_kind = |kind: ProbeKind| {
            if let Some(&(_, found)) = measured.iter().find(|(other, _)| *other == kind) {
                return found;
            }
            let found = self.calibrate(kind);
            measured.push((kind, found));
            found
        };
        let of_target = |target: &Counted| {
            let Counted::Function(probe) = target else { return None };
            if probe.returns == Return::Never { None } else { of_kind(ProbeKind::of(probe)) }
        };
        let mut found: Vec<_> = options.targets.iter().map(of_target).collect();
        let returns = |target: &Counted| matches!(target, Counted::KernelFunction(of) if !of.never_returns);
        if options.targets.iter().any(returns) {
            let of_kernel = self.calibrate_kernel();
            for (found, target) in found.iter_mut().zip(&options.targets) {
                *found = if returns(target) { of_kernel } else { *found };
            }
        }
        found
    }

    /// The probes stay for now, since taking them away takes the kernel longer than all of this; but nobody
    /// calls these functions again, and each kind has a function of its own.
    fn calibrate(&mut self, kind: ProbeKind) -> Option<Calibration> {
        let empty = Empty::of(kind)?;
        let bare = median((0..*ROUNDS.end()).map(|_| empty.round()).collect())?;
        self.probe(&empty)?;
        // The kernel makes its places ready at the first call.
        empty.round();
        let elsewhere = median(rounds(|| Some(empty.round()))?)?;
        let own = std::process::id().to_ne_bytes();
        self.skeleton.maps.followed.update(&own, &FROM_THE_START, MapFlags::ANY).ok()?;
        let found = self.counted(CALLS.into(), || Some(empty.round()));
        // Of what this process starts later, nothing is followed that was not asked about.
        self.skeleton.maps.followed.delete(&own).ok()?;
        self.forget_groups();
        let (times, latencies) = found?;
        let a_call = |of_round: u64| of_round / u64::from(CALLS);
        Some(Calibration {
            per_call_ns: a_call(median(times)?.saturating_sub(bare)),
            elsewhere_ns: a_call(elsewhere.saturating_sub(bare)),
            shift: a_call(median(latencies)?),
        })
    }

    /// Of calls that are made here, whoever in this program makes them.
    fn of_counter(&self) -> Option<Counts> {
        let mut counts = self.others(COUNTER).ok()?;
        for group in self.groups().ok()?.remove(&COUNTER.into()).unwrap_or_default() {
            counts.add(&group.counts);
        }
        Some(counts)
    }

    fn probe(&mut self, empty: &Empty) -> Option<()> {
        let this_program = Path::new("/proc/self/exe");
        let own = std::process::id() as i32;
        let leave = match empty.kind.exit {
            Exit::ReturnAddress => ("function_return", empty.offset),
            Exit::Instruction => ("function_leave", empty.offset + empty.code.len() as u64 - 1),
        };
        let cookie = u64::from(COUNTER) | if empty.kind.go { GO } else { 0 };
        for (program, offset) in [leave, ("function_enter", empty.offset)] {
            let place = (this_program, offset);
            let link = attach_one(self.skeleton.object(), program, own, cookie, place).ok()?;
            self.calibrated.push(link);
        }
        Some(())
    }

    /// How long rounds of so many calls take, ns, and how long their calls are counted to take.
    pub(super) fn counted(
        &self,
        calls: u64,
        mut round: impl FnMut() -> Option<u64>,
    ) -> Option<(Vec<u64>, Vec<u64>)> {
        let mut latencies = Vec::new();
        let times = rounds(|| {
            let before = self.of_counter()?;
            let time = round()?;
            let after = self.of_counter()?;
            let sum = |counts: &[u64; 64]| counts.iter().sum::<u64>();
            // Where a round's calls are not counted, the probes are not what they are taken to be.
            if sum(&after.buckets).checked_sub(sum(&before.buckets)) != Some(calls) {
                return None;
            }
            latencies.push(after.sum.checked_sub(before.sum)?);
            Some(time)
        })?;
        Some((times, latencies))
    }
}

/// As many rounds as there is patience for.
pub(super) fn rounds(mut round: impl FnMut() -> Option<u64>) -> Option<Vec<u64>> {
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < *ROUNDS.start() || (times.len() < *ROUNDS.end() && began.elapsed() < PATIENCE) {
        times.push(round()?);
    }
    Some(times)
}

pub(super) fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// An empty function of this program.
struct Empty {
    kind: ProbeKind,
    code: &'static [u8],
    call: unsafe extern "C" fn(),
    /// Where it is in this program's file, bytes.
    offset: u64,
}

impl Empty {
    fn of(kind: ProbeKind) -> Option<Self> {
        let (code, call) = functions::of(kind)?;
        let offset = offset(call as usize as u64)?;
        let mut there = [0; 16];
        let there = there.get_mut(..code.len())?;
        File::open("/proc/self/exe").ok()?.read_exact_at(there, offset).ok()?;
        // A probe anywhere else would do harm: in another file's mapping, say.
        (there == code).then_some(Self { kind, code, call, offset })
    }

    /// Ns.
    fn round(&self) -> u64 {
        // What Go keeps of a goroutine begins with the bounds of its stack, which are nowhere near here.
        let goroutine = [0_u64; 2];
        let began = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: it is one of the functions below, which take nothing, change no register that the
            // caller keeps, and return.
            unsafe { functions::call(self.call, self.kind.go.then_some(&goroutine)) };
        }
        u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Where in its file an address of this process is mapped from.
fn offset(address: u64) -> Option<u64> {
    let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
    maps.lines().map_while(Result::ok).find_map(|line| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let [start, end, offset] = [start, end, offset].map(|hex| u64::from_str_radix(hex, 16));
        let (start, end, offset) = (start.ok()?, end.ok()?, offset.ok()?);
        (start..end).contains(&address).then(|| address - start + offset)
    })
}

#[cfg(target_arch = "x86_64")]
mod functions {
    use super::{Exit, ProbeKind, ProbeMethod};

    // A kind's entry and, where it returns at an instruction, that of a function that has no other probe.
    // Each begins at a multiple of 16, so that a 5-byte no-operation lies in one page; none keeps anything
    // below its stack pointer.
    std::arch::global_asm!(
        ".pushsection .text.wakepath_empty, \"ax\", @progbits",
        ".macro wakepath_empty name:req, code:vararg",
        ".p2align 4, 0xcc",
        ".globl \\name",
        ".hidden \\name",
        ".type \\name, @function",
        "\\name: .byte \\code",
        ".size \\name, . - \\name",
        ".endm",
        "wakepath_empty wakepath_empty_nop, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3",
        "wakepath_empty wakepath_empty_nop_leave, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3",
        "wakepath_empty wakepath_empty_nop_go, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3",
        "wakepath_empty wakepath_empty_push, 0x55, 0x5d, 0xc3",
        "wakepath_empty wakepath_empty_push_leave, 0x55, 0x5d, 0xc3",
        "wakepath_empty wakepath_empty_push_go, 0x55, 0x5d, 0xc3",
        "wakepath_empty wakepath_empty_lea, 0x48, 0x8d, 0x47, 0x01, 0xc3",
        "wakepath_empty wakepath_empty_lea_leave, 0x48, 0x8d, 0x47, 0x01, 0xc3",
        "wakepath_empty wakepath_empty_lea_go, 0x48, 0x8d, 0x47, 0x01, 0xc3",
        ".purgem wakepath_empty",
        ".popsection",
    );

    unsafe extern "C" {
        fn wakepath_empty_nop();
        fn wakepath_empty_nop_leave();
        fn wakepath_empty_nop_go();
        fn wakepath_empty_push();
        fn wakepath_empty_push_leave();
        fn wakepath_empty_push_go();
        fn wakepath_empty_lea();
        fn wakepath_empty_lea_leave();
        fn wakepath_empty_lea_go();
    }

    /// `nopl 0(%rax,%rax)`, `ret`.
    const NOP: &[u8] = &[0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3];
    /// `push %rbp`, `pop %rbp`, `ret`.
    const PUSH: &[u8] = &[0x55, 0x5d, 0xc3];
    /// `lea 1(%rdi),%rax`, `ret`.
    const LEA: &[u8] = &[0x48, 0x8d, 0x47, 0x01, 0xc3];

    /// A function's code, the last byte of which is its return, and where it is.
    pub fn of(kind: ProbeKind) -> Option<(&'static [u8], unsafe extern "C" fn())> {
        Some(match (kind.entry, kind.exit, kind.go) {
            (ProbeMethod::Optimised, Exit::ReturnAddress, false) => (NOP, wakepath_empty_nop),
            (ProbeMethod::Optimised, Exit::Instruction, false) => (NOP, wakepath_empty_nop_leave),
            (ProbeMethod::Optimised, Exit::Instruction, true) => (NOP, wakepath_empty_nop_go),
            (ProbeMethod::Emulated, Exit::ReturnAddress, false) => (PUSH, wakepath_empty_push),
            (ProbeMethod::Emulated, Exit::Instruction, false) => (PUSH, wakepath_empty_push_leave),
            (ProbeMethod::Emulated, Exit::Instruction, true) => (PUSH, wakepath_empty_push_go),
            (ProbeMethod::SingleStepped, Exit::ReturnAddress, false) => (LEA, wakepath_empty_lea),
            (ProbeMethod::SingleStepped, Exit::Instruction, false) => (LEA, wakepath_empty_lea_leave),
            (ProbeMethod::SingleStepped, Exit::Instruction, true) => (LEA, wakepath_empty_lea_go),
            // Go's return addresses are let alone.
            (_, Exit::ReturnAddress, true) => return None,
        })
    }

    /// Calls one of them; as a goroutine does that is known by this place.
    ///
    /// # Safety
    /// It is one of them.
    pub unsafe fn call(function: unsafe extern "C" fn(), goroutine: Option<&[u64; 2]>) {
        match goroutine {
            // SAFETY: as the caller promises.
            None => unsafe { function() },
            // SAFETY: as the caller promises; and what a function may change by its ABI is said to change.
            Some(place) => unsafe {
                std::arch::asm!(
                    "call {function}",
                    function = in(reg) function,
                    in("r14") place.as_ptr(),
                    clobber_abi("C"),
                );
            },
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod functions {
    pub fn of(_: super::ProbeKind) -> Option<(&'static [u8], unsafe extern "C" fn())> {
        None
    }

    /// # Safety
    /// It is one of those that there are not.
    pub unsafe fn call(function: unsafe extern "C" fn(), _: Option<&[u64; 2]>) {
        // SAFETY: there are none.
        unsafe { function() };
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    const KINDS: [(ProbeMethod, Exit, bool); 9] = [
        (ProbeMethod::Optimised, Exit::ReturnAddress, false),
        (ProbeMethod::Optimised, Exit::Instruction, false),
        (ProbeMethod::Optimised, Exit::Instruction, true),
        (ProbeMethod::Emulated, Exit::ReturnAddress, false),
        (ProbeMethod::Emulated, Exit::Instruction, false),
        (ProbeMethod::Emulated, Exit::Instruction, true),
        (ProbeMethod::SingleStepped, Exit::ReturnAddress, false),
        (ProbeMethod::SingleStepped, Exit::Instruction, false),
        (ProbeMethod::SingleStepped, Exit::Instruction, true),
    ];

    #[test]
    fn each_kind_of_probe_has_an_empty_function_of_its_own_in_this_programs_file() {
        let found =
            KINDS.map(|(entry, exit, go)| Empty::of(ProbeKind { entry, exit, go }).expect("it is there"));
        let mut offsets: Vec<_> = found.iter().map(|empty| empty.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), KINDS.len());
        for empty in &found {
            assert_eq!(empty.offset % 16, 0, "in one page");
            empty.round();
        }
    }

    #[test]
    fn an_address_that_is_mapped_from_no_code_of_ours_has_no_empty_function() {
        assert_eq!(offset(8), None);
    }

    #[test]
    fn the_median_is_not_moved_by_what_was_interrupted() {
        assert_eq!(median(vec![7, 4_000_000, 8, 6, 9]), Some(8));
        assert_eq!(median(Vec::new()), None);
    }
}

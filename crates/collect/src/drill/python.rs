//! Python function calls: `bpf/drill_python.bpf.h`.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, UprobeMultiOpts, UprobeOpts};
use wakepath_functions::Python;

use super::Drill;
use crate::error::Error;
use crate::latency::calibrate::Calibration;
use crate::latency::empty::Empty;
use crate::libbpf::{into_io, load_error, program_mut, word};

/// The most functions known by a number: `WP_PYTHON_FUNCTIONS`.
pub const MAX_PYTHON_FUNCTIONS: usize = 4096;
/// `WP_DRILL_IDLE`, `WP_DRILL_COUNT` and `WP_DRILL_LOOK`.
const IDLE: u32 = 0;
const COUNT: u32 = 1;
const LOOK: u32 = 3;

/// A Python call, by the caller's and callee's code objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PythonCall {
    /// The caller's code object; 0 while f0 is looked for.
    pub caller: u64,
    /// The callee's code object.
    pub callee: u64,
    /// The caller's instruction, bytes from its first instruction.
    pub place: u64,
}

/// The counts of Python calls so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PythonCounts {
    /// Functions and generators that began or went on.
    pub entries: u64,
    /// Calls of f0 in which a generator was ended or thrown into, without a visible beginning.
    pub unbalanced: u64,
    /// Calls below f0 without room in the list of different calls.
    pub full: u64,
}

impl Drill<'_> {
    /// Puts the pair of probes on the interpreter that sees all Python functions, and looks for called functions. A
    /// call outside all nodes takes `cost` ns longer, which is taken off.
    ///
    /// # Errors
    /// When the kernel refuses a probe.
    pub fn probe_python(&mut self, python: &Python, cost: u64) -> Result<(), Error> {
        self.set(|bss| {
            (bss.python_thread, bss.python_cost, bss.phase) = (python.thread, cost, LOOK);
        })?;
        let mut links = self.attach_python(
            self.pid,
            ("drill_leave_python", "drill_leave_python_one"),
            &python.file,
            &[python.ends],
            python.semaphore,
        )?;
        let names = ("drill_enter_python", "drill_enter_python_one");
        links.extend(self.attach_python(self.pid, names, &python.file, &python.begins, 0)?);
        // The probes belong to f0, number 0, and stay as long as its probes would.
        self.groups.push((vec![0], links));
        Ok(())
    }

    /// The cost of the pair of probes on this machine, by the same programs and a made-up Python frame in this
    /// process: how much longer a call takes, and the latency counted for an empty call. To be called before other
    /// probes are put. `None` where it cannot be measured.
    ///
    /// # Errors
    /// When the kernel's memory does not hold the calibration's entries.
    pub fn calibrate_python(&mut self) -> Result<Option<Calibration>, Error> {
        let Some([begins, ends]) = Empty::pair() else { return Ok(None) };
        let mut made_up = MadeUp::new();
        let bare = shortest(|| call_both(&begins, &ends, CALLS));
        let (own, this_program) = (std::process::id(), Path::new("/proc/self/exe"));
        let of_enter = ("drill_enter_python", "drill_enter_python_one");
        let of_leave = ("drill_leave_python", "drill_leave_python_one");
        let links = [(of_leave, ends.offset), (of_enter, begins.offset)]
            .map(|(names, offset)| self.attach_python(own, names, this_program, &[offset], 0));
        let [Ok(_ends), Ok(_begins)] = links else { return Ok(None) };
        let at = made_up.current();
        self.know_python(made_up.outer_code(), 0)?;
        self.set(|bss| (bss.process, bss.phase, bss.python_thread, bss.python_cost) = (own, COUNT, at, 0))?;
        // An empty call of f0, and then empty calls in an open call.
        let counted = |drill: &Self| Ok::<u64, Error>(drill.counts()?.sums.iter().sum());
        let mut latencies = Vec::new();
        for _ in 0..ROUNDS {
            let before = counted(self)?;
            call_both(&begins, &ends, CALLS);
            latencies.push(counted(self)?.saturating_sub(before));
        }
        begins.call();
        made_up.go_into();
        let inside = shortest(|| call_both(&begins, &ends, CALLS));
        made_up.come_back();
        ends.call();
        let pid = self.pid;
        self.forget_python()?;
        self.set(|bss| {
            (bss.process, bss.phase, bss.python_thread) = (pid, IDLE, 0);
            (bss.counts, bss.sums, bss.left) = ([0; 64], [0; 64], 0);
            (bss.python_entries, bss.python_unbalanced, bss.python_full) = (0, 0, 0);
            bss.python_shortest = 0;
        })?;
        let per_call_ns = inside.saturating_sub(bare) / CALLS;
        let shift = latencies.into_iter().min().map_or(0, |all| (all / CALLS).min(per_call_ns));
        // Without a latency, the programs saw no call.
        Ok((shift > 0).then_some(Calibration { per_call_ns, other_process_ns: 0, shift }))
    }

    /// From now on, takes this time off for each call outside all nodes, ns. Returns it; or less, where the process's
    /// calls show shorter probes.
    ///
    /// # Errors
    /// None is known.
    pub fn take_off_python(&mut self, cost: u64) -> Result<u64, Error> {
        let bss = self.skeleton.maps.bss_data.as_deref_mut().ok_or(Error::Skeleton(".bss"))?;
        let shortest = Some(bss.python_shortest).filter(|ns| *ns > 0);
        bss.python_cost = cost.min(shortest.unwrap_or(cost));
        Ok(bss.python_cost)
    }

    /// Forgets all functions and calls.
    fn forget_python(&self) -> Result<(), Error> {
        let maps = &self.skeleton.maps;
        for key in maps.python_functions.keys().collect::<Vec<_>>() {
            maps.python_functions.delete(&key).map_err(load_error)?;
        }
        for key in maps.python_calls.keys().collect::<Vec<_>>() {
            maps.python_calls.delete(&key).map_err(load_error)?;
        }
        Ok(())
    }

    fn attach_python(
        &self,
        pid: u32,
        (many, one): (&'static str, &'static str),
        file: &Path,
        offsets: &[u64],
        semaphore: u64,
    ) -> Result<Vec<Link>, Error> {
        let object = self.skeleton.object();
        let failed =
            |offset: u64, source| Error::Probe { file: file.to_owned(), offset, source: into_io(source) };
        let attach = |&offset: &u64| {
            let (pid, at) = (pid as i32, offset as usize);
            let link = if self.many_at_once {
                let opts = UprobeMultiOpts {
                    offsets: vec![at],
                    ref_ctr_offsets: (semaphore != 0).then_some(semaphore as usize).into_iter().collect(),
                    ..UprobeMultiOpts::default()
                };
                program_mut(object, many)?.attach_uprobe_multi_with_opts(pid, file, "", opts)
            } else {
                let opts = UprobeOpts { ref_ctr_offset: semaphore as usize, ..UprobeOpts::default() };
                program_mut(object, one)?.attach_uprobe_with_opts(pid, file, at, opts)
            };
            link.map_err(|source| failed(offset, source))
        };
        offsets.iter().map(attach).collect()
    }

    /// Counts the calls of f0 from now on, which has its number.
    ///
    /// # Errors
    /// None is known.
    pub fn count_python(&mut self) -> Result<(), Error> {
        let calls = &self.skeleton.maps.python_calls;
        for key in calls.keys().collect::<Vec<_>>() {
            let _ = calls.delete(&key);
        }
        self.set(|bss| bss.python_entries = 0)?;
        self.set(|bss| bss.phase = COUNT)
    }

    /// Gives the Python function with this code object a number.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn know_python(&self, code: u64, number: u32) -> Result<(), Error> {
        let functions = &self.skeleton.maps.python_functions;
        functions.update(&code.to_ne_bytes(), &number.to_ne_bytes(), MapFlags::ANY).map_err(load_error)
    }

    /// The different Python calls seen below f0, or, while f0 is looked for, the functions; each with its count.
    pub fn python_calls(&self) -> Vec<(PythonCall, u64)> {
        let calls = &self.skeleton.maps.python_calls;
        let of_key = |key: Vec<u8>| {
            let times = calls.lookup(&key, MapFlags::ANY).ok()??;
            let call = PythonCall { caller: word(&key, 0), callee: word(&key, 8), place: word(&key, 16) };
            Some((call, word(&times, 0)))
        };
        let mut all: Vec<_> = calls.keys().filter_map(of_key).collect();
        all.sort_unstable();
        all
    }

    /// The counts of Python calls so far.
    ///
    /// # Errors
    /// None is known.
    pub fn python_counts(&self) -> Result<PythonCounts, Error> {
        let bss = self.skeleton.maps.bss_data.as_deref().ok_or(Error::Skeleton(".bss"))?;
        Ok(PythonCounts {
            entries: bss.python_entries,
            unbalanced: bss.python_unbalanced,
            full: bss.python_full,
        })
    }
}

/// Calls in a round, and rounds, for measuring the cost. The shortest counts: an interrupt makes others longer.
const CALLS: u64 = 32;
const ROUNDS: usize = 41;

fn shortest(mut round: impl FnMut() -> u64) -> u64 {
    (0..ROUNDS).map(|_| round()).min().unwrap_or(0)
}

/// The time for `calls` calls of both functions, in turn, ns.
fn call_both(begins: &Empty, ends: &Empty, calls: u64) -> u64 {
    let began = Instant::now();
    for _ in 0..calls {
        begins.call();
        ends.call();
    }
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A Python thread's state with two frames, laid out as in CPython 3.11 where `bpf/drill_python.bpf.h` looks. The
/// numbers are addresses in `words`, counted in words.
struct MadeUp {
    words: Box<[AtomicU64; WORDS]>,
}

const WORDS: usize = 128;
/// The word that points to the current thread's state; the state; its C frame; the two frames; and their code
/// objects, each with a single instruction.
const CURRENT: usize = 0;
const THREAD: usize = 1;
const C_FRAME: usize = 30;
const OUTER: usize = 40;
const INNER: usize = 50;
const OUTER_CODE: usize = 60;
const INNER_CODE: usize = 90;
/// Offsets in these, in words: `cframe`, `current_frame`, `f_code`, `previous`, `prev_instr`, `co_code_adaptive`.
const CFRAME: usize = 7;
const CURRENT_FRAME: usize = 1;
const CODE: usize = 4;
const PREVIOUS: usize = 6;
const INSTRUCTION: usize = 7;
const INSTRUCTIONS: usize = 23;
/// The instruction RESUME.
const RESUME: u64 = 151;

impl MadeUp {
    fn new() -> Self {
        let made_up = Self { words: Box::new([const { AtomicU64::new(0) }; WORDS]) };
        let set = |at: usize, value: u64| made_up.words[at].store(value, Relaxed);
        set(CURRENT, made_up.at(THREAD));
        set(THREAD + CFRAME, made_up.at(C_FRAME));
        set(C_FRAME + CURRENT_FRAME, made_up.at(OUTER));
        for (frame, code, previous) in [(OUTER, OUTER_CODE, INNER), (INNER, INNER_CODE, OUTER)] {
            set(frame + CODE, made_up.at(code));
            set(frame + PREVIOUS, made_up.at(previous));
            set(frame + INSTRUCTION, made_up.at(code + INSTRUCTIONS));
            set(code + INSTRUCTIONS, RESUME);
        }
        made_up
    }

    fn at(&self, word: usize) -> u64 {
        &raw const self.words[word] as u64
    }

    fn current(&self) -> u64 {
        self.at(CURRENT)
    }

    fn outer_code(&self) -> u64 {
        self.at(OUTER_CODE)
    }

    fn go_into(&mut self) {
        self.words[C_FRAME + CURRENT_FRAME].store(self.at(INNER), Relaxed);
    }

    fn come_back(&mut self) {
        self.words[C_FRAME + CURRENT_FRAME].store(self.at(OUTER), Relaxed);
    }
}

//! A drill-down: it finds the functions, inside a function's slow calls, that make them slow (T08 chapter 3).
//! `wakepath-drilldown` makes the decisions; their effects are here.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use wakepath_collect::{
    Calibration, Counted, Drill, DrillCounts, GRACE, OpenStorage, Running, Signals, Unwinder,
};
pub use wakepath_collect::{DrillCommand, EndReason};
use wakepath_distribution::{Histogram, Peak, Sums, Unit, peaks, slow_strays, slowest_by_time};
pub use wakepath_drilldown::{Mode, ParameterError, Parameters, ParametersFile};
use wakepath_engine::drill::{Drilled, HandOver, PhaseMarks};
use wakepath_engine::latency::target::{MAX_LISTED, Target};
pub use wakepath_functions::KernelCodeError;
pub use wakepath_functions::PythonError;
use wakepath_functions::{
    Function, KernelCode, ProcessCode, ProcessFunction, Python, Return, Runtime, Unwinding,
};

mod choose;
mod driver;
mod error;
mod explain;
mod look;
mod save;

pub use choose::{ChosenProcess, choose_process};
use driver::Driver;
use driver::hand_over;
use driver::python::{self, PythonOfSearch, PythonTarget};
pub use error::DrillError;
use explain::{AskedPeak, range_of};
pub use look::{LookRequest, Unrecorded, record_look, unrecorded};
pub use save::{ResumeError, SavedSearch};

use crate::command::CommandEnd;
use crate::latency::{AllowedProbes, is_function, user_functions};

/// The share of the machine's time that probes may take, where nobody says another.
pub const BUDGET: f64 = 0.05;

/// A request to find the functions that make a function's calls slow.
#[derive(Debug, Clone)]
pub struct DrillQuery {
    /// The function, as users write it.
    pub target: String,
    /// The process; 0 for a command.
    pub pid: u32,
    /// The command to start.
    pub command: Option<DrillCommand>,
    /// The peak number, from 1 on; `None`: the parameters' start peak, or else the slowest.
    pub peak: Option<usize>,
    /// The decisions' parameters.
    pub parameters: Parameters,
    /// The search's time limit.
    pub duration: Duration,
    /// The allowed probes on functions.
    pub allowed: AllowedProbes,
    /// The share of the machine's time that the probes may take.
    pub budget: f64,
    /// The program's phases in which calls count.
    pub phases: PhaseMarks,
    /// Only calls with requests handed over in this way count.
    pub hand_over: Option<HandOver>,
    /// The search to resume.
    pub resume: Option<SavedSearch>,
}

/// A drill-down's progress, to be shown.
#[derive(Debug, Clone)]
pub enum DrillProgress {
    /// The f0 calls so far.
    Counted(u64),
    /// The peak is chosen.
    Peak(Peak),
    /// Calls are measured.
    Measuring {
        /// Their call sites.
        sites: usize,
        /// The paths from f0 to the calling functions.
        of: Vec<Vec<String>>,
        /// The f0 calls within the peak since the last decision, and the calls for the next; `None` in
        /// manual mode.
        calls: Option<(u64, u64)>,
    },
    /// The code of a path's last function is sampled.
    Sampling {
        /// The function.
        function: String,
    },
    /// The search looks for a Python function among the called functions.
    Looking {
        /// The number so far.
        functions: usize,
    },
    /// Indirect calls are watched: the kernel single-steps each.
    Watching {
        /// Their call sites.
        sites: usize,
    },
}

/// An ended drill-down.
#[derive(Debug, Clone)]
pub struct Searched {
    /// The answer.
    pub drilled: Drilled,
    /// The search, to resume later; `None` where a file with a function of the search names no build.
    pub save: Option<SavedSearch>,
    /// The started command.
    pub command: CommandEnd,
}

/// f0's counted calls and the peaks to explain, while nothing below f0 has probes.
#[derive(Debug, Clone)]
pub struct ChosenPeaks {
    /// The process.
    pub pid: u32,
    /// The calls' latencies.
    pub histogram: Histogram,
    /// The peaks in it.
    pub peaks: Vec<Peak>,
    /// The numbers to explain, from 1 on, in this order.
    pub numbers: Vec<usize>,
    /// The time in which the calls were counted.
    pub counted_for: Duration,
    /// Whether goroutines make the calls.
    pub of_goroutines: bool,
    /// Whether the calls come so often that recording each would take more than the budget.
    pub is_too_often: bool,
}

/// The step behind a first look at chosen peaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The search by probes.
    Search,
    /// Nothing: the look was the answer.
    End,
}

/// A first look at chosen peaks.
pub type Look<'a> = dyn FnMut(&ChosenPeaks) -> Next + 'a;

/// A process's ended drill-downs.
#[derive(Debug)]
pub struct Drills {
    /// A search for each explained peak.
    pub searched: Vec<Searched>,
    /// The started command.
    pub command: CommandEnd,
}

/// Finds the functions that make a peak's calls slow. `progress` gets each step worth showing; `look` comes between the count and the search.
///
/// # Errors
/// When the target cannot be probed, or its calls are too few, or the kernel refuses.
pub fn drill(
    query: &DrillQuery,
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
    look: &mut Look<'_>,
) -> Result<Drills, DrillError> {
    let chosen = |found: &[Peak], sums: &Sums| {
        let asked = query.peak.or(query.parameters.start_peak.map(|number| number as usize));
        Ok(vec![match &query.resume {
            Some(saved) => saved.peak(found)?,
            None => asked.unwrap_or_else(|| slowest_by_time(found, sums)),
        }])
    };
    drill_peaks(query, &chosen, stop, progress, look)
}

/// Finds the functions that make each peak's calls slow, from the slowest peak on; `query.peak` is not used. Peaks whose search did not
/// begin before the time limit or the process's end are missing at the end, with a note in the last answer.
///
/// # Errors
/// The errors of [`drill`].
pub fn drill_all(
    query: &DrillQuery,
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
    look: &mut Look<'_>,
) -> Result<Drills, DrillError> {
    drill_peaks(query, &|found, _| Ok((1..=found.len()).rev().collect()), stop, progress, look)
}

/// Chooses the peaks to explain, by number and in order.
type Chosen<'a> = dyn Fn(&[Peak], &Sums) -> Result<Vec<usize>, DrillError> + 'a;

fn drill_peaks(
    query: &DrillQuery,
    chosen: &Chosen<'_>,
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
    look: &mut Look<'_>,
) -> Result<Drills, DrillError> {
    query.parameters.check()?;
    query.hand_over.as_ref().map_or(Ok(()), |_| hand_over::check_target(&query.target))?;
    let command = query.command.as_ref().map(DrillCommand::start).transpose()?;
    let mut is_begun = false;
    let found = search((query, command), (chosen, look), stop, progress, &mut is_begun);
    if let (Some(command), Err(error)) = (command, &found)
        && (!is_begun || error.ends_the_command())
    {
        command.end(GRACE);
    }
    found
}

/// Searches in the process, or in the started command. Sets `is_begun` before the calls are counted.
fn search(
    (query, command): (&DrillQuery, Option<Running>),
    (chosen, look): (&Chosen<'_>, &mut Look<'_>),
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
    is_begun: &mut bool,
) -> Result<Drills, DrillError> {
    let pid = command.map_or(query.pid, |command| command.pid as u32);
    let mut storage = MaybeUninit::uninit();
    let process = (pid, command);
    let begun = match PythonTarget::parse(&query.target) {
        Some(target) => python::begin(query, target, process, &mut storage, stop, progress)?,
        None => begin(query, process, &mut storage, stop)?,
    };
    let Begun { drill, mut code, f0, probe, python, notes } = begun;
    let in_kernel = code.kernel().is_some();
    let runtime = f0.function.probe.runtime;
    let mut driver = Driver::new(pid, drill, code, f0, query, probe);
    driver.mark_phases(query, pid)?;
    driver.follow_requests(query, pid)?;
    if let Some((search, python)) = python {
        driver.follow_python(search, python);
    }
    let of_kernel = if in_kernel { driver.calibrate_kernel()? } else { None };
    let probe = if runtime == Runtime::Kernel { of_kernel } else { probe };
    let began = Instant::now();
    *is_begun = true;
    let counts = driver.count(query, began, stop, progress)?;
    let counted_for = began.elapsed();
    let probe = driver.python_cost(probe)?;
    let histogram = histogram_of(&counts);
    let peaks = with_strays(&histogram, &counts);
    let counted = CountedCalls { process, runtime, counts, histogram, peaks, probe, notes };
    let numbers = chosen(&counted.peaks, &counted.counts.sums)?;
    check_peaks(query, &counted.peaks, &numbers)?;
    let peaks = ChosenPeaks {
        pid,
        histogram: counted.histogram.clone(),
        peaks: counted.peaks.clone(),
        numbers: numbers.clone(),
        counted_for,
        of_goroutines: runtime == Runtime::Go,
        is_too_often: driver.is_f0_dear(),
    };
    let looked = Instant::now();
    let next = match peaks.is_too_often {
        true => driver.unprobed_while(|| look(&peaks))?,
        false => look(&peaks),
    };
    // The search has its own time.
    driver.add_time(looked.elapsed());
    let began = began + looked.elapsed();
    if next == Next::End {
        let status = driver.command_status(stop);
        let running = command.filter(|_| status.is_none());
        return Ok(Drills { searched: Vec::new(), command: CommandEnd { running, status } });
    }
    let mut answers: Vec<Searched> = Vec::new();
    for (index, &number) in numbers.iter().enumerate() {
        if index > 0 && driver.has_ended(stop) {
            let last = answers.last_mut().map(|last| &mut last.drilled.notes);
            last.into_iter().for_each(|notes| notes.push(not_begun(&numbers[index..])));
            break;
        }
        let left = (numbers.len() - index) as u32;
        // A peak with rare calls must not take the time for the others.
        let at_most = (left > 1).then(|| query.duration.saturating_sub(began.elapsed()) / left);
        let (began, before) = match index {
            0 => (began, DrillCounts::default()),
            _ => (Instant::now(), driver.counts()?),
        };
        let asked = AskedPeak { number, at_most, began, before };
        match (driver.explain(query, &counted, &asked, stop, progress), answers.last_mut()) {
            (Ok(found), _) => answers.push(found),
            // Existing answers are worth more than an error about another peak.
            (Err(error), Some(last)) => {
                last.drilled.notes.push(format!("peak {number} has no answer: {error}"))
            }
            (Err(error), None) => return Err(error),
        }
    }
    driver.end(&mut answers);
    let command = answers.last().map(|last| last.command).unwrap_or_default();
    Ok(Drills { searched: answers, command })
}

/// A histogram's peaks, and the slow calls outside, if they have enough time.
fn with_strays(histogram: &Histogram, counts: &DrillCounts) -> Vec<Peak> {
    let mut found = peaks(histogram);
    found.extend(slow_strays(&found, &counts.buckets, &counts.sums));
    found
}

/// f0's latencies in its counts.
fn histogram_of(counts: &DrillCounts) -> Histogram {
    let sum = counts.sums.iter().map(|&ns| u128::from(ns)).sum();
    Histogram::from_counters(Unit::Nanoseconds, counts.buckets, sum)
}

/// Whether a few slow calls have so much time that a longer count may show more such calls.
fn is_unsettled(counts: &DrillCounts) -> bool {
    let strays = slow_strays(&peaks(&histogram_of(counts)), &counts.buckets, &counts.sums);
    strays.is_some_and(|strays| strays.count < SETTLED_CALLS)
}

/// The slow calls that are enough for a peak.
const SETTLED_CALLS: u64 = 10;

/// Whether the peaks to explain are there.
fn check_peaks(query: &DrillQuery, found: &[Peak], numbers: &[usize]) -> Result<(), DrillError> {
    match numbers.iter().find(|number| !(1..=found.len()).contains(*number)) {
        Some(&asked) => {
            Err(DrillError::NoSuchPeak { target: query.target.clone(), asked, peaks: found.to_vec() })
        }
        None => Ok(()),
    }
}

/// A sentence about the peaks whose search did not begin.
fn not_begun(numbers: &[usize]) -> String {
    let listed: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let (peaks, was) = if numbers.len() == 1 { ("peak", "was") } else { ("peaks", "were") };
    format!("{peaks} {} {was} not searched: the search had ended before", listed.join(", "))
}

/// f0's calls before any probes below it.
struct CountedCalls {
    /// The process, and the started command.
    process: (u32, Option<Running>),
    runtime: Runtime,
    counts: DrillCounts,
    histogram: Histogram,
    peaks: Vec<Peak>,
    /// A probed call's cost.
    probe: Option<Calibration>,
    /// Limits to the meaning of f0's calls.
    notes: Vec<String>,
}

/// A process's code, with the kernel's code below it where the kernel allows probes. Where it does not, a path ends at the function that
/// makes a system call, and that call's waits explain it.
fn into_kernel(code: ProcessCode) -> ProcessCode {
    match KernelCode::open() {
        Ok(kernel)
            if kernel.system_call(0).is_some_and(|it| wakepath_collect::kernel_allows_probes(it.address)) =>
        {
            code.with_kernel(kernel)
        }
        _ => code,
    }
}

/// The process's unwinders, which need to know the stubs; `None` without stubs.
fn stubs_of(
    query: &DrillQuery,
    runtime: Runtime,
    code: &mut ProcessCode,
) -> Result<Option<Vec<Unwinder>>, DrillError> {
    if !query.allowed.stubs {
        return Ok(None);
    }
    match runtime {
        Runtime::Go => return Err(DrillError::StubsInGo),
        Runtime::Kernel => return Err(DrillError::StubsInKernel),
        Runtime::Python => return Err(DrillError::StubsInPython),
        Runtime::Native => {}
    }
    match code.unwinding() {
        Unwinding::Tables(found) => {
            Ok(Some(found.iter().map(|&[register, deregister]| Unwinder { register, deregister }).collect()))
        }
        Unwinding::Unknown(file) if !query.allowed.no_exceptions => {
            Err(DrillError::StubsBelowExceptions { file })
        }
        Unwinding::Never | Unwinding::Unknown(_) => Ok(Some(Vec::new())),
    }
}

/// A search with loaded programs, and its first function.
struct Begun<'obj> {
    drill: Drill<'obj>,
    code: ProcessCode,
    f0: ProcessFunction,
    /// A probed call's cost at f0.
    probe: Option<Calibration>,
    /// Set if f0 is a Python function.
    python: Option<(PythonOfSearch, Python)>,
    /// Limits to the meaning of f0's calls.
    notes: Vec<String>,
}

/// Begins a search below a machine-code function.
fn begin<'obj>(
    query: &DrillQuery,
    (pid, command): (u32, Option<Running>),
    storage: &'obj mut MaybeUninit<OpenStorage>,
    stop: &Signals,
) -> Result<Begun<'obj>, DrillError> {
    let (mut code, f0) = find(query, pid, command.is_some(), stop)?;
    let notes = f0.function.notes.iter().map(ToString::to_string).collect();
    let runtime = f0.function.probe.runtime;
    if runtime == Runtime::Native && !query.allowed.stubs {
        code = into_kernel(code);
    }
    let in_kernel = code.kernel().is_some();
    let probe =
        (runtime != Runtime::Kernel).then(|| wakepath_collect::calibrate(&f0.function.probe)).flatten();
    let stubs = stubs_of(query, runtime, &mut code)?;
    let time = Some(query.duration);
    let drill = Drill::load(storage, pid, runtime, command, time, stubs.as_deref(), in_kernel)?;
    Ok(Begun { drill, code, f0, probe, python: None, notes })
}

/// The process's code and the drill-down's first function. A new command may not have loaded the function's library
/// yet.
fn find(
    query: &DrillQuery,
    pid: u32,
    is_new: bool,
    stop: &Signals,
) -> Result<(ProcessCode, ProcessFunction), DrillError> {
    let began = Instant::now();
    loop {
        let mut code = ProcessCode::of(pid, !query.allowed.no_exceptions)
            .map_err(|source| DrillError::Memory { pid, source })?;
        if let Ok(Target::KernelFunction(name)) = Target::parse(&query.target) {
            let mut kernel = KernelCode::open()?;
            let f0 = kernel.named(name.as_str())?;
            if f0.function.probe.returns == Return::Never {
                return Err(DrillError::NeverReturns(f0.function.readable));
            }
            return Ok((code.with_kernel(kernel), f0));
        }
        match f0_of(query, pid, &mut code) {
            Ok(f0) => return Ok((code, f0)),
            Err(DrillError::NotMapped { .. })
                if is_new && began.elapsed() < LOADED_WITHIN && stop.asked() == 0 =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

/// The time limit for a new command's library to appear: at its start, or at the first use.
const LOADED_WITHIN: Duration = Duration::from_secs(10);

/// The drill-down's first function.
fn f0_of(query: &DrillQuery, pid: u32, code: &mut ProcessCode) -> Result<ProcessFunction, DrillError> {
    let function = one_function(&query.target, pid, query.allowed)?;
    let name = || function.readable.clone();
    match function.probe {
        _ if function.probe.returns == Return::Never => Err(DrillError::NeverReturns(name())),
        _ => match code.address_of(&function) {
            Some(address) => Ok(ProcessFunction { address, function }),
            None => Err(DrillError::NotMapped { pid, function: name(), file: function.shown.clone() }),
        },
    }
}

/// The target's only function in a program.
fn one_function(target: &str, pid: u32, allowed: AllowedProbes) -> Result<Function, DrillError> {
    if !matches!(Target::parse(target), Ok(Target::Function)) || !is_function(target) {
        return Err(DrillError::NotAFunction(target.to_owned()));
    }
    // Its rate decides.
    let found = user_functions(target, &[pid], AllowedProbes { slow_probes: true, ..allowed })?;
    match found.targets.as_slice() {
        [one] => match (&one.counted, &one.function) {
            (Counted::Function(_), Some(function)) => Ok(function.clone()),
            _ => Err(DrillError::NotAFunction(target.to_owned())),
        },
        several => {
            let names = several.iter().take(MAX_LISTED).map(|one| one.name.clone()).collect();
            Err(DrillError::Several { target: target.to_owned(), count: several.len(), names })
        }
    }
}

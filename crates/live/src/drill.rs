//! A drill-down: which functions, inside the slow calls of one, make them slow (T08 chapter 3). The decisions are those of
//! `wakepath-drilldown`; here are their effects.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use wakepath_collect::{Calibration, Counted, Drill, DrillCounts, OpenStorage, Running, Signals, Unwinder};
pub use wakepath_collect::{DrillCommand, EndReason};
use wakepath_distribution::{Histogram, Peak, Unit, peaks};
pub use wakepath_drilldown::{Mode, ParameterError, Parameters, ParametersFile};
use wakepath_engine::drill::{Drilled, HandOver, PhaseMarks};
use wakepath_engine::latency::target::Target;
pub use wakepath_functions::KernelCodeError;
pub use wakepath_functions::PythonError;
use wakepath_functions::{
    Function, KernelCode, ProcessCode, ProcessFunction, Python, Return, Runtime, Unwinding,
};

mod driver;
mod error;
mod explain;
mod save;
mod waits;

use driver::Driver;
use driver::hand_over;
use driver::python::{self, PythonOfSearch, PythonTarget};
pub use error::DrillError;
use explain::{AskedPeak, range_of};
pub use save::{ResumeError, SavedSearch};
pub use waits::{Unrecorded, WaitsRequest, record_waits, time_of_waits, unrecorded, waits_of_peak};

use crate::command::CommandEnd;
use crate::latency::{AllowedProbes, user_functions};

/// A request to find the functions that make the calls of one slow.
#[derive(Debug, Clone)]
pub struct DrillQuery {
    /// The function, as people write it.
    pub target: String,
    /// The process; 0 if a command is started.
    pub pid: u32,
    /// The command to start.
    pub command: Option<DrillCommand>,
    /// The number of the peak, counted from 1; without one, the slowest.
    pub peak: Option<usize>,
    /// The parameters of the decisions.
    pub parameters: Parameters,
    /// The time after which the search stops.
    pub duration: Duration,
    /// The probes that may be put on functions.
    pub allowed: AllowedProbes,
    /// The phases of the program in which calls count.
    pub phases: PhaseMarks,
    /// Only calls count whose requests come on this way.
    pub hand_over: Option<HandOver>,
    /// The search to go on with.
    pub resume: Option<SavedSearch>,
}

/// The moments of a drill-down that are worth showing while it goes on.
#[derive(Debug, Clone)]
pub enum DrillProgress {
    /// Calls of f0 counted so far.
    Counted(u64),
    /// The peak is chosen.
    Peak(Peak),
    /// Calls are measured.
    Measuring {
        /// The number of places in the code where they are made.
        sites: usize,
        /// The paths of functions, from f0 to those that make them.
        of: Vec<Vec<String>>,
        /// The calls of f0 within the peak that were measured since the last decision, and those that it takes; `None` in
        /// manual mode.
        calls: Option<(u64, u64)>,
    },
    /// The code of the function that a path ends at is sampled.
    Sampling {
        /// The function.
        function: String,
    },
    /// A function of Python is looked for among those that are called.
    Looking {
        /// Their number so far.
        functions: usize,
    },
    /// Indirect calls are watched: the kernel single-steps each.
    Watching {
        /// The number of places in the code where they are made.
        sites: usize,
    },
}

/// A drill-down that has ended.
#[derive(Debug, Clone)]
pub struct Searched {
    /// The answer.
    pub drilled: Drilled,
    /// The search, to go on with later; `None` where a file with one of its functions names no build.
    pub save: Option<SavedSearch>,
    /// The command that was started.
    pub command: CommandEnd,
}

/// Finds the functions that make the calls of a peak slow. `progress` gets each moment that is worth showing.
///
/// # Errors
/// When the target cannot be probed, or its calls are too few, or the kernel refuses.
pub fn drill(
    query: &DrillQuery,
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
) -> Result<Searched, DrillError> {
    let chosen = |found: &[Peak]| {
        let asked = query.peak.or(query.parameters.start_peak.map(|number| number as usize));
        Ok(vec![match &query.resume {
            Some(saved) => saved.peak(found)?,
            None => asked.unwrap_or(found.len()),
        }])
    };
    let no_peak = || DrillError::NoSuchPeak { target: query.target.clone(), asked: 0, peaks: Vec::new() };
    drill_peaks(query, &chosen, stop, progress)?.pop().ok_or_else(no_peak)
}

/// Finds the functions that make the calls of each peak slow, from the slowest peak on; `query` names none. Peaks whose search did not
/// begin before the end of the time or of the process are missing at the end, and the last answer says so.
///
/// # Errors
/// Those of [`drill`].
pub fn drill_all(
    query: &DrillQuery,
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
) -> Result<Vec<Searched>, DrillError> {
    drill_peaks(query, &|found| Ok((1..=found.len()).rev().collect()), stop, progress)
}

/// The numbers of the peaks to explain, of all that the calls have, in this order.
type Chosen<'a> = dyn Fn(&[Peak]) -> Result<Vec<usize>, DrillError> + 'a;

fn drill_peaks(
    query: &DrillQuery,
    chosen: &Chosen<'_>,
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
) -> Result<Vec<Searched>, DrillError> {
    query.parameters.check()?;
    query.hand_over.as_ref().map_or(Ok(()), |_| hand_over::check_target(&query.target))?;
    let command = query.command.as_ref().map(DrillCommand::start).transpose()?;
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
    let counts = driver.count(query, began, stop, progress)?;
    let counted_for = began.elapsed();
    let probe = driver.python_cost(probe)?;
    let histogram = Histogram::from_counters(
        Unit::Nanoseconds,
        counts.buckets,
        counts.sums.iter().map(|&ns| u128::from(ns)).sum(),
    );
    let peaks = peaks(&histogram);
    let counted = CountedCalls { process, runtime, counts, histogram, peaks, counted_for, probe, notes };
    let numbers = chosen(&counted.peaks)?;
    let mut answers: Vec<Searched> = Vec::new();
    for (index, &number) in numbers.iter().enumerate() {
        if index > 0 && driver.has_ended(stop) {
            let last = answers.last_mut().map(|last| &mut last.drilled.notes);
            last.into_iter().for_each(|notes| notes.push(not_begun(&numbers[index..])));
            break;
        }
        let left = (numbers.len() - index) as u32;
        // A peak whose calls are rare must not take all of the time of the others.
        let at_most = (left > 1).then(|| query.duration.saturating_sub(began.elapsed()) / left);
        let (began, before) = match index {
            0 => (began, DrillCounts::default()),
            _ => (Instant::now(), driver.counts()?),
        };
        let asked = AskedPeak { number, at_most, began, before };
        match (driver.explain(query, &counted, &asked, stop, progress), answers.last_mut()) {
            (Ok(found), _) => answers.push(found),
            // The answers that are there are worth more than an error about another peak.
            (Err(error), Some(last)) => {
                last.drilled.notes.push(format!("peak {number} has no answer: {error}"))
            }
            (Err(error), None) => return Err(error),
        }
    }
    driver.end(&mut answers);
    Ok(answers)
}

/// The peaks whose search did not begin, in a sentence.
fn not_begun(numbers: &[usize]) -> String {
    let listed: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let (peaks, was) = if numbers.len() == 1 { ("peak", "was") } else { ("peaks", "were") };
    format!("{peaks} {} {was} not searched: the search had ended before", listed.join(", "))
}

/// The calls of f0 before anything below it was probed.
struct CountedCalls {
    /// The process, and the command that was started.
    process: (u32, Option<Running>),
    runtime: Runtime,
    counts: DrillCounts,
    histogram: Histogram,
    peaks: Vec<Peak>,
    counted_for: Duration,
    /// The cost of a probed call.
    probe: Option<Calibration>,
    /// Limits to the meaning of f0's calls.
    notes: Vec<String>,
}

/// The code of a process, with that of the kernel below it where the kernel allows probes there. Where it does not, a path ends at the
/// function that makes a system call, and the waits of that explain it.
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

/// The unwinders of the process that are to know the stubs; `None` where there are to be none.
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

/// A search whose programs are loaded, with the function that it begins at.
struct Begun<'obj> {
    drill: Drill<'obj>,
    code: ProcessCode,
    f0: ProcessFunction,
    /// The cost of a probed call of it.
    probe: Option<Calibration>,
    /// Where f0 is a function of Python.
    python: Option<(PythonOfSearch, Python)>,
    /// Limits to the meaning of its calls.
    notes: Vec<String>,
}

/// Begins a search below a function of machine code.
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

/// The code of the process and the function that the drill-down begins at. A command that was just started may not have
/// loaded the function's library yet.
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

/// A command loads its libraries at its start, or when it first needs one.
const LOADED_WITHIN: Duration = Duration::from_secs(10);

/// The function that the drill-down begins at.
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

/// The one function of a program that a target names.
fn one_function(target: &str, pid: u32, allowed: AllowedProbes) -> Result<Function, DrillError> {
    if !matches!(Target::parse(target), Ok(Target::Function)) || !target.contains(':') {
        return Err(DrillError::NotAFunction(target.to_owned()));
    }
    let found = user_functions(target, &[pid], allowed)?;
    match found.as_slice() {
        [one] => match (&one.counted, &one.function) {
            (Counted::Function(_), Some(function)) => Ok(function.clone()),
            _ => Err(DrillError::NotAFunction(target.to_owned())),
        },
        several => Err(DrillError::Several { target: target.to_owned(), count: several.len() }),
    }
}

//! A drill-down: which functions, inside the slow calls of one, make them slow (T08 chapter 3). The decisions are those of
//! `wakepath-drilldown`; here are their effects.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use wakepath_collect::{Calibration, DrillCommand, EndReason};
use wakepath_collect::{Counted, Drill, DrillCounts, OpenStorage, Running, Signals, Unwinder};
use wakepath_distribution::{Histogram, Peak, Unit, bounds, peaks};
pub use wakepath_drilldown::{
    Cause, Contribution, Contributor, Decision, Doubt, End, Epoch, Foreign, FunctionId, LevelVotes, Mode,
    NoSites, NodeId, ParameterError, Parameters, ParametersFile, RootCause, SiteId, Status, StopReason,
};
use wakepath_drilldown::{Drilldown, Event, LatencyRange};
pub use wakepath_functions::KernelCodeError;
pub use wakepath_functions::PythonError;
use wakepath_functions::{
    Function, KernelCode, ProcessCode, ProcessFunction, Python, Return, Runtime, Unwinding,
};
use wakepath_recording::this_host;

mod driver;
mod error;
mod save;

use driver::python::{self, PythonOfSearch, PythonTarget};
use driver::{Driver, cost_of};
pub use driver::{PhaseMarks, Phases};
pub use error::DrillError;
pub use save::{ResumeError, SavedSearch};

use crate::latency::live::{AllowedProbes, user_functions};
use crate::latency::target::Target;
use crate::{Host, Which};

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

/// The answer of a drill-down.
#[derive(Debug, Clone)]
pub struct Drilled {
    /// The machine.
    pub host: Host,
    /// The function as it was asked for, and as its language writes it.
    pub target: String,
    /// The names of all functions, by their numbers in the tree.
    pub functions: Vec<DrillFunction>,
    /// The process, and its command's name.
    pub process: (u32, String),
    /// The command that was started, if it goes on.
    pub running: Option<Running>,
    /// Its wait status, if it ended.
    pub command_status: Option<i32>,
    /// The latencies of f0 before anything below it was probed.
    pub histogram: Histogram,
    /// Its peaks.
    pub peaks: Vec<Peak>,
    /// The number of the one that is explained, counted from 1.
    pub peak: usize,
    /// How long f0 was counted before its peak was chosen.
    pub counted_for: Duration,
    /// How long all of it took.
    pub elapsed: Duration,
    /// The calls of f0 since the beginning.
    pub calls: u64,
    /// The phases of the program in which these calls began; `None` where all of its time counts.
    pub phases: Option<Phases>,
    /// How far it came.
    pub status: Status,
    /// The paths from f0 to what takes the time.
    pub root_causes: Vec<RootCause>,
    /// The decisions, in order, with the votes of each contributor.
    pub decisions: Vec<Decision>,
    /// The tree: for each node its parent, its call site and its function.
    pub nodes: HashMap<NodeId, DrilledNode>,
    /// The source files and lines at which the nodes of the paths are called, where debug information has them.
    pub lines: HashMap<NodeId, (String, u32)>,
    /// Where samples found the threads within the last function of a path, for those that took time of a CPU.
    pub sampled: HashMap<NodeId, Sampled>,
    /// Whether the calls are those of goroutines: while one waits, its thread runs others.
    pub of_goroutines: bool,
    /// Whether the calls are those of Python, all functions of which have probes.
    pub of_python: bool,
    /// The cost of a probed call, where it could be measured.
    pub probe: Option<Calibration>,
    /// The functions that were probed at once, at most.
    pub most_probed: usize,
    /// Limits to the meaning of the answer.
    pub notes: Vec<String>,
    /// The search, to go on with later; `None` where a file with one of its functions names no build.
    pub save: Option<SavedSearch>,
}

/// Samples of a function's code, in calls of the peak.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Their number.
    pub samples: u64,
    /// The calls that had any.
    pub calls: u64,
    /// Where they were, those with most samples first.
    pub places: Vec<SampledPlace>,
}

/// A line of a function's code, or a function that it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledPlace {
    /// The function, perhaps inlined into the one that is sampled; the file where it has no name.
    pub function: String,
    /// The last component of its source file, and the line; `None` without debug information.
    pub line: Option<(String, u32)>,
    /// The number of samples.
    pub samples: u64,
}

/// Whether the cause at the end of a path is, for most of its time, a wait.
fn is_wait(path: &RootCause) -> bool {
    path.ns > 0 && path.blocked_ns.saturating_mul(2) >= path.ns
}

impl Drilled {
    /// Whether a path ends at a function whose thread waited for most of the time: the path of that wait explains it.
    pub fn waits(&self) -> bool {
        !self.of_goroutines && self.root_causes.iter().any(is_wait)
    }

    /// The calls to explain: those of the peak, and longer ones.
    pub fn calls_of_peak(&self) -> Which {
        let peak = self.peak.checked_sub(1).and_then(|index| self.peaks.get(index));
        Which::Above(peak.map_or(0, |peak| bounds(peak.from_bucket).start().saturating_sub(1)))
    }

    /// A time in which some ten calls of the peak come, if they come as often as before: from 1 to 10 s.
    pub fn time_of_calls(&self) -> Duration {
        let peak = self.peak.checked_sub(1).and_then(|index| self.peaks.get(index));
        let calls = peak.map_or(1, |peak| peak.count.max(1));
        let ten = self.counted_for.as_secs_f64() * 10.0 / calls as f64;
        Duration::from_secs_f64(ten.clamp(1.0, 10.0))
    }
}

/// A function of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrillFunction {
    /// Its name in the form of its language.
    pub name: String,
    /// The file that it is in, as the process sees it.
    pub file: PathBuf,
    /// Its address as the file states it.
    pub address: u64,
    /// The reason why it is not probed.
    pub refused: Option<String>,
}

/// A node of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrilledNode {
    /// Its caller's node; `None` for f0.
    pub parent: Option<NodeId>,
    /// The offset of the call in the caller's file.
    pub site: Option<SiteId>,
    /// Its function; `None` for unknown targets of an indirect call.
    pub function: Option<FunctionId>,
}

/// Finds the functions that make the calls of a peak slow. `progress` gets each moment that is worth showing.
///
/// # Errors
/// When the target cannot be probed, or its calls are too few, or the kernel refuses.
pub fn drill(
    query: &DrillQuery,
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
) -> Result<Drilled, DrillError> {
    query.parameters.check()?;
    let command = query.command.as_ref().map(DrillCommand::start).transpose()?;
    let pid = command.map_or(query.pid, |command| command.pid as u32);
    let mut storage = MaybeUninit::uninit();
    let process = (pid, command);
    let begun = match PythonTarget::parse(&query.target) {
        Some(target) => python::begin(query, target, process, &mut storage, stop, progress)?,
        None => begin(query, process, &mut storage, stop)?,
    };
    let Begun { drill, mut code, f0, probe, python, notes: notes_of_f0 } = begun;
    let in_kernel = code.kernel().is_some();
    let runtime = f0.function.probe.runtime;
    let of_goroutines = runtime == Runtime::Go;
    let mut driver = Driver::new(pid, drill, code, f0, query, probe);
    driver.mark_phases(query, pid)?;
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
    let found = peaks(&histogram);
    let asked = query.peak.or(query.parameters.start_peak.map(|number| number as usize));
    let number = match &query.resume {
        Some(saved) => saved.peak(&found)?,
        None => asked.unwrap_or(found.len()),
    };
    let Some(peak) = number.checked_sub(1).and_then(|index| found.get(index)) else {
        return Err(DrillError::NoSuchPeak { target: query.target.clone(), asked: number, peaks: found });
    };
    progress(DrillProgress::Peak(*peak));
    // A search that goes on keeps the range that it began with.
    let range = query.resume.as_ref().map_or_else(|| range_of(peak, &found), SavedSearch::range);
    driver.explain(range, mean_of(peak, &counts).max(range.from_ns));
    let cost = probe.map(cost_of).unwrap_or_default();
    // The peak is chosen here, and its range handed in.
    let parameters = Parameters { start_peak: None, ..query.parameters.clone() };
    let mut machine = match &query.resume {
        Some(saved) => driver.resume(saved, parameters, cost)?,
        None => Drilldown::new(FunctionId(0), parameters, cost)?,
    };
    let mut effects = machine.handle(Event::Histogram(Box::new(histogram.clone())))?;
    if query.resume.is_none() {
        effects.extend(machine.handle(Event::Peak(range))?);
    } else if machine.status() == Status::Counting {
        // Fewer calls came than are wanted for a comparison.
        effects.extend(machine.handle(Event::Resume)?);
    }
    let status = driver.search(&mut machine, effects, stop, progress)?;
    let calls = driver.counts()?;
    let phases = driver.phases(query)?;
    let of_driver = |cause| {
        let cause = driver.with_park(driver.with_loop(cause));
        driver.with_late_calls(cause)
    };
    let root_causes: Vec<RootCause> = machine.root_causes().into_iter().map(of_driver).collect();
    let save = driver.save(&machine, &query.target);
    let sampled = driver.sample(&root_causes, stop, progress)?;
    // Samples show some loops.
    let root_causes: Vec<RootCause> = root_causes.into_iter().map(|cause| driver.with_loop(cause)).collect();
    let save = save.map(|save| save.with_frequent(driver.frequent()));
    // The loops are the driver's, so that the machine knows no cause there.
    let has_cause = root_causes.iter().any(|path| path.cause.is_some());
    let status = if status == Status::EndsEarly && has_cause { Status::RootCauseFound } else { status };
    let found_below = driver.into_found(&root_causes);
    let of_f0 = notes_of_f0.into_iter().chain(found_below.notes);
    let parked = (of_goroutines && root_causes.iter().any(is_wait)).then(|| PARKED.to_owned());
    let notes = of_f0.chain(missed(&calls, runtime == Runtime::Kernel)).chain(parked).collect();
    Ok(Drilled {
        host: Host::from(&this_host()),
        target: query.target.clone(),
        process: (pid, command_of(pid)),
        running: command.filter(|_| found_below.command_status.is_none()),
        command_status: found_below.command_status,
        histogram,
        peak: number,
        peaks: found,
        counted_for,
        elapsed: began.elapsed(),
        calls: calls.buckets.iter().sum(),
        phases,
        status,
        root_causes,
        decisions: machine.decisions().to_vec(),
        functions: found_below.functions,
        nodes: found_below.nodes,
        lines: found_below.lines,
        sampled,
        of_goroutines,
        of_python: runtime == Runtime::Python,
        probe,
        most_probed: found_below.most_probed,
        notes,
        save,
    })
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

/// The note about a wait in Go.
const PARKED: &str = "a goroutine waited there, and its thread ran others meanwhile, so that no recording of threads explains it; \
     wakepath record --goroutines --slow-probes --call FILE:FUNCTION -p PID, then wakepath path --call, names the goroutine that \
     made it ready";

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

/// The latencies that count as those of a peak. Its outer buckets hold few calls, but calls near their bounds pass these by
/// the time of the probes, and by what the machine takes off for that: a quarter more belongs to the peak, unless another one
/// begins there.
fn range_of(peak: &Peak, all: &[Peak]) -> LatencyRange {
    let (from_ns, to_ns) = (*bounds(peak.from_bucket).start(), *bounds(peak.to_bucket).end());
    let below = all.iter().any(|other| other.to_bucket + 1 == peak.from_bucket);
    let above = all.iter().any(|other| other.from_bucket == peak.to_bucket + 1);
    LatencyRange {
        from_ns: if below { from_ns } else { from_ns - from_ns / 4 },
        to_ns: if above { to_ns } else { to_ns.saturating_add(to_ns / 4) },
    }
}

/// The mean latency of the calls of a peak, ns.
fn mean_of(peak: &Peak, counts: &DrillCounts) -> u64 {
    let total = |of: &[u64; 64]| -> u128 {
        of.get(peak.from_bucket..=peak.to_bucket).unwrap_or_default().iter().map(|&one| u128::from(one)).sum()
    };
    let mean = total(&counts.sums) / total(&counts.buckets).max(1);
    mean.try_into().unwrap_or(u64::MAX)
}

/// The calls that were not measured, in sentences.
fn missed(counts: &DrillCounts, in_kernel: bool) -> Vec<String> {
    let sentence = |number: u64, what: &str| (number > 0).then(|| format!("{number} {what}"));
    [
        sentence(
            counts.left,
            if in_kernel {
                "calls of the function returned unseen"
            } else {
                "calls of the function were unwound without a return"
            },
        ),
        sentence(counts.crowded, "calls were not measured: too many threads, or calls too deep"),
        sentence(counts.lost, "records of calls found no room"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn command_of(pid: u32) -> String {
    let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(comm.trim_ascii_end()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_peak_is_that_of_its_calls_alone() {
        let (mut buckets, mut sums) = ([0; 64], [0; 64]);
        (buckets[3], sums[3]) = (100, 1000);
        (buckets[20], sums[20]) = (1, 2_000_000);
        (buckets[21], sums[21]) = (3, 6_400_000);
        let counts = DrillCounts { buckets, sums, left: 0, crowded: 0, lost: 0 };
        let mean = |from_bucket, to_bucket| mean_of(&Peak { from_bucket, to_bucket, count: 4 }, &counts);
        assert_eq!((mean(20, 21), mean(3, 3), mean(5, 6)), (2_100_000, 10, 0));
        assert_eq!(mean(20, 99), 0, "no bucket");
    }

    #[test]
    fn a_peak_reaches_a_quarter_beyond_its_buckets_but_not_into_another_one() {
        let peak = |from_bucket, to_bucket| Peak { from_bucket, to_bucket, count: 1 };
        let range = |peak: &Peak, all: &[Peak]| {
            let LatencyRange { from_ns, to_ns } = range_of(peak, all);
            (from_ns, to_ns)
        };
        let (low, middle, high) = (peak(2, 3), peak(4, 4), peak(8, 9));
        let all = [low, middle, high];
        assert_eq!(range(&low, &all), (3, 15));
        assert_eq!(range(&middle, &all), (16, 38));
        assert_eq!(range(&high, &all), (192, 1278));
    }
}

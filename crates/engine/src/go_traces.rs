//! Goroutines' steps from Go programs' execution traces, written during a recording.
//!
//! A trace's stamps are on the recording's own clock, `CLOCK_MONOTONIC`: nothing is converted. That is not believed. A thread writes most events
//! itself, so at their stamps it had a CPU by the kernel's records. A contradicting trace (from another machine, another boot, or a container with its
//! own thread numbers) is left out whole, and the answer says so.

use std::collections::HashMap;
use std::path::Path;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{
    Context, Cpu, Damage, Event, EventKind, GoStep, GoroutineStep, HostIndex, NameSpace, Tid,
};
use wakepath_go_trace::{Step, StepKind, Trace};
use wakepath_recording::GoTraceFile;
use wakepath_wait_graph::{Graph, StateIntervals, ThreadIndex, ThreadState};

use crate::{Problem, ProblemKind, Recorded};

/// The first program number for traces; programs with probes have lower numbers.
const FIRST_PROGRAM: u16 = 1024;
/// The distance by which a step's stamp may lie outside its thread's time on a CPU, ns. The trace rounds down to 64 ns, and counts up by as much where
/// two events follow each other faster; two CPUs' clocks were 2 µs apart on a virtual machine.
const MAX_APART_NS: u64 = 10_000;
/// The fewest steps for each step further outside. A step due after another thread's gets a later stamp; and beside a switch which the kernel did not
/// report, a thread's state is wrong: on a busy virtual machine with 47 such switches, 1.7% of 14,500 steps were outside.
const MIN_STEPS_PER_MISFIT: u64 = 20;
/// Another clock's steps fall on times without a CPU by chance: this many times as often, or more.
const LESS_THAN_CHANCE: f64 = 5.0;

/// A trace's fault as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Misfit {
    #[error("no goroutine is known from it: cannot be read: {0}")]
    Unread(String),
    #[error("no goroutine is known from it: the program wrote nothing")]
    Empty,
    #[error("no goroutine is known from it: {0}")]
    Trace(#[from] wakepath_go_trace::Error),
    #[error(
        "no goroutine is known from it: none of its threads was recorded, such as {0}; in a container they have other numbers"
    )]
    NoThreads(u32),
    #[error(
        "no goroutine is known from it: its threads are of several recorded processes, such as {0} and {1}"
    )]
    Processes(u32, u32),
    #[error(
        "no goroutine is known from it: its clock or its threads are not those of the recording, since in {apart} of {steps} steps the \
         thread had no CPU"
    )]
    Apart { apart: u64, steps: u64 },
    #[error("no goroutine is known from it: none of its {0} steps can be compared with the recording")]
    Unproved(usize),
    #[error("goroutines are known only for its first {:.3} s: {fault}", *whole_ns as f64 / 1e9)]
    Cut { whole_ns: u64, fault: wakepath_go_trace::Fault },
}

/// Adds the steps in a recording's traces to the recording in memory. `convert` brings the host's stamps to the first host's clock.
pub(crate) fn join(
    recorded: &mut Recorded,
    host: HostIndex,
    files: Vec<GoTraceFile>,
    convert: &dyn Fn(u64) -> Stamp<Local>,
) {
    if files.is_empty() {
        return;
    }
    let mut joined = Vec::new();
    for (number, file) in (FIRST_PROGRAM..).zip(files) {
        let bytes = file.bytes.map_err(|error| Misfit::Unread(error.to_string()));
        let trace = bytes.and_then(|bytes| match bytes.is_empty() {
            true => Err(Misfit::Empty),
            false => Ok(wakepath_go_trace::read(&bytes)?),
        });
        let found = trace.and_then(|trace| Ok((fit(recorded, host, &trace, convert)?, trace)));
        let problem = match found {
            Ok((process, trace)) => {
                let problem = trace
                    .fault
                    .clone()
                    .map(|fault| Misfit::Cut { whole_ns: trace.to_ns - trace.from_ns, fault });
                let program =
                    number.wrapping_add(host.0.wrapping_mul(wakepath_recording::MAX_GO_TRACES as u16));
                joined.push(Joined { process, program, trace });
                problem
            }
            Err(misfit) => Some(misfit),
        };
        if let Some(misfit) = problem {
            let kind = ProblemKind::Recording(Damage::at(Path::new(&file.name), 0, &misfit));
            let kind = match recorded.sources.get(usize::from(host.0)) {
                Some(path) => ProblemKind::OneOfSeveral(path.clone(), Box::new(kind)),
                None => kind,
            };
            let (from, to) = (recorded.graph.from(), recorded.graph.to());
            recorded.problems.push(Problem::new(kind, from, to));
        }
    }
    add(recorded, host, &joined, convert);
}

/// A fitting trace.
struct Joined {
    /// The program's process.
    process: Tid,
    program: u16,
    trace: Trace,
}

/// The process whose trace it is, if its threads had a CPU when they took its steps.
fn fit(
    recorded: &Recorded,
    host: HostIndex,
    trace: &Trace,
    convert: &dyn Fn(u64) -> Stamp<Local>,
) -> Result<Tid, Misfit> {
    let graph = &recorded.graph;
    // Outside of the session no switch is recorded: the trace begins before it, and ends behind it.
    let session = recorded.survey.session_of(host);
    let bound = |at: Option<Stamp<Local>>, otherwise| at.map_or(otherwise, Stamp::on_reference_host);
    let from = bound(session.and_then(|session| session.started), graph.from());
    let to = bound(session.and_then(|session| session.stopped), graph.end_of(host));
    let mut threads: HashMap<u32, Option<ThreadIndex>> = HashMap::new();
    let (mut process, mut apart, mut steps, mut by_chance) = (None, 0, 0, 0.0);
    let mut idle: HashMap<ThreadIndex, f64> = HashMap::new();
    for step in &trace.steps {
        let at = convert(step.at_ns).on_reference_host();
        let thread = *threads
            .entry(step.thread)
            .or_insert_with(|| recorded.thread_between(Tid(step.thread).on(host), at, at));
        let Some(thread) = thread else { continue };
        let Some(tgid) = graph.thread(thread).tgid() else { continue };
        match process {
            None => process = Some(tgid),
            Some(other) if other == tgid => {}
            Some(other) => return Err(Misfit::Processes(other.number(), tgid.number())),
        }
        if !matches!(step.kind, StepKind::Found)
            && (from..to).contains(&at)
            && let Some(had_cpu) = had_cpu(graph, thread, at)
        {
            steps += 1;
            apart += u64::from(!had_cpu);
            by_chance += *idle.entry(thread).or_insert_with(|| share_without_cpu(graph, thread, from, to));
        }
    }
    let first = trace.steps.first().map_or(0, |step| step.thread);
    let process = process.ok_or(Misfit::NoThreads(first))?;
    if steps == 0 {
        return Err(Misfit::Unproved(trace.steps.len()));
    }
    if apart > steps / MIN_STEPS_PER_MISFIT || apart as f64 * LESS_THAN_CHANCE > by_chance {
        return Err(Misfit::Apart { apart, steps });
    }
    Ok(process)
}

/// The share of a time in which a thread had no CPU.
fn share_without_cpu(
    graph: &Graph,
    thread: ThreadIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> f64 {
    let is_running = |state| matches!(state, ThreadState::Running { .. });
    let ran_ns = graph.state_intervals(thread).time_in(from, to, is_running);
    1.0 - ran_ns as f64 / to.since(from).max(1) as f64
}

/// Whether a thread had a CPU at `at`, or nearby; `None` if the records do not say it.
fn had_cpu(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> Option<bool> {
    let states: StateIntervals<'_> = graph.state_intervals(thread);
    let (from, to) = (at.minus(MAX_APART_NS), at.plus(MAX_APART_NS));
    let near =
        (states.find(from)..).map_while(|place| states.get(place)).take_while(|state| state.from <= to);
    let mut known = false;
    for state in near {
        match state.state {
            ThreadState::Running { .. } => return Some(true),
            ThreadState::Unknown(_) => return None,
            _ => known = true,
        }
    }
    // A switch which the kernel did not report hides a run, even from a thread's known state.
    let is_known = known && !graph.losses().touch(at.minus(MAX_APART_NS), at.plus(MAX_APART_NS));
    is_known.then_some(false)
}

/// Adds the fitting traces' steps. Where a recording has traces, its probes saw only where spans begin: in other programs, and outside a trace's
/// time, these would leave a goroutine running for ever.
fn add(recorded: &mut Recorded, host: HostIndex, joined: &[Joined], convert: &dyn Fn(u64) -> Stamp<Local>) {
    let survey = &mut recorded.survey;
    let within: Vec<_> = joined
        .iter()
        .map(|one| (one.process, convert(one.trace.from_ns), convert(one.trace.to_ns)))
        .collect();
    survey.goroutines.retain(|(at, tid, step)| {
        let is_within = |(process, from, to): &(Tid, Stamp<Local>, Stamp<Local>)| {
            *process == step.tgid && from <= at && at <= to
        };
        tid.host() != host || within.iter().any(is_within)
    });
    for Joined { process, program, trace } in joined {
        for (reason, name) in (0_u64..).zip(&trace.reasons) {
            let name =
                EventKind::Name(NameSpace::GoWait, u64::from(*program) << 8 | reason, name.as_bytes().into());
            survey.names.observe(&Event {
                at: convert(trace.from_ns),
                cpu: Cpu::UNKNOWN,
                context: Context::Task,
                current: *process,
                kind: name,
            });
        }
        let numbers = trace.steps.iter().map(|step| {
            let tid = Tid(step.thread).on(host);
            (convert(step.at_ns), tid, goroutine_step(*process, *program, step))
        });
        survey.goroutines.extend(numbers);
        let end = recorded.graph.to().ns();
        let to = convert(trace.to_ns);
        if to.ns() < end {
            survey.goroutines_unseen.push((to, Stamp::from_ns(end)));
        }
    }
    // Stable: steps with one stamp stay in their order.
    survey.goroutines.sort_by_key(|(at, ..)| *at);
}

fn goroutine_step(tgid: Tid, program: u16, step: &Step) -> GoroutineStep {
    let (kind, leaves) = match step.kind {
        StepKind::Found => (GoStep::Runs(0), false),
        StepKind::Runs(parent) => (GoStep::Runs(parent), false),
        StepKind::Ready(by) => (GoStep::Ready(by), false),
        StepKind::Parks(reason) => (GoStep::Parks(reason), true),
        StepKind::Yields => (GoStep::Yields, true),
        StepKind::Ends => (GoStep::Ends, true),
    };
    let began_in = if leaves { step.began_in } else { 0 };
    GoroutineStep { tgid, program, goroutine: step.goroutine, began_in, step: kind }
}

#[cfg(test)]
mod tests;

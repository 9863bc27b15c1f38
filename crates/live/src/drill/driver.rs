//! Carries out the effects for a drill-down's state machine, and hands it the measured calls.

mod behind;
mod budget;
mod drift;
mod functions;
pub(super) mod hand_over;
mod kernel;
mod measure;
pub(super) mod peaks;
mod phases;
pub(super) mod python;
mod sample;
mod stubs;
mod table;
mod ticks;
mod unmeasured;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use wakepath_collect::{Calibration, Drill, DrillCounts, EndReason, Error as CollectError, Signals};
use wakepath_drilldown::{
    Drilldown, Effect, Event, EventError, FunctionId, LatencyRange, Measurement, NodeCause, NodeId,
    ProbeCost, RootCause, Status, StopReason,
};
use wakepath_engine::drill::{DrillFunction, DrilledNode, NotMeasured, Queued, Unmeasured};
use wakepath_functions::{Probe, ProbeMethod, ProcessCode, ProcessFunction, Python, Return, Runtime};
use wakepath_symbols::{Boot, DebugFiles, Found, Kept, Symbols};

use budget::{Budget, removed};
use drift::drift;
use kernel::{KernelOfSearch, is_kernel};
use peaks::{PeakSearch, since};
use python::{PythonOfSearch, is_python};
use stubs::StubsOfSearch;
use table::{FunctionTable, Key, Known};
use ticks::Ticks;

use super::{DrillError, DrillProgress, DrillQuery, is_unsettled};
use crate::latency::AllowedProbes;

/// The time limit for counting f0's distribution, if too few calls come.
const COUNT_FOR: Duration = Duration::from_secs(10);
/// The polling interval for the counts.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The interval between checks for unloaded code, while no calls come.
const LOOK_AT_CODE: Duration = Duration::from_secs(1);
/// The effects' executor, and its state.
pub(super) struct Driver<'obj> {
    pid: u32,
    drill: Drill<'obj>,
    code: ProcessCode,
    allowed: AllowedProbes,
    /// The calls within the peak for a decision.
    wanted: u64,
    functions: FunctionTable,
    /// The process's stubs, which measure calls, where allowed.
    stubs: Option<StubsOfSearch>,
    /// The probed places in the kernel's code.
    kernel: KernelOfSearch,
    /// Set if f0 is a Python function.
    python: Option<(PythonOfSearch, Python)>,
    /// The probed functions' numbers.
    probed: BTreeSet<u32>,
    /// Numbers below this belong to the indirect calls watched in earlier peaks' searches.
    watched_before: u32,
    /// The counts before any probes below f0.
    counted: Option<DrillCounts>,
    /// The current peak's search.
    search: PeakSearch,
    /// The probes' time, and its limit.
    budget: Budget,
    /// A probed call's extra time, by kind of probe; `None` where it could not be measured.
    costs: HashMap<Kind, Option<Calibration>>,
    command_status: Option<i32>,
}

/// Hands an event to the machine. A refusal may come late: the machine has decided after an earlier refusal, and measures other nodes.
fn handled(machine: &mut Drilldown, event: Event) -> Result<Vec<Effect>, DrillError> {
    let is_refusal = matches!(event, Event::Refused { .. });
    match machine.handle(event) {
        Err(EventError::NotMeasured(_)) if is_refusal => Ok(Vec::new()),
        found => Ok(found?),
    }
}

/// Finds functions and lines in files as they are now.
fn symbols() -> Symbols {
    Symbols::new(Boot::This { began_ns: None }, Kept::default(), DebugFiles::default())
}

/// A probe's properties with an effect on its cost: the instruction at the entry, whether each return instruction has a
/// probe, and whether they are in the kernel's code.
type Kind = (ProbeMethod, bool, bool);

fn kind(probe: &Probe) -> Kind {
    let at_returns = matches!(probe.returns, Return::AtInstructions(_) | Return::AtCallers);
    (probe.method, at_returns, probe.runtime == Runtime::Kernel)
}

/// The parts of a probed call's cost inside and outside its two stamps (T08 section 8.2).
pub(super) fn cost_of(probe: Calibration) -> ProbeCost {
    ProbeCost { inside_ns: probe.shift, outside_ns: probe.per_call_ns.saturating_sub(probe.shift) }
}

/// The driver's part of an answer.
pub(super) struct FoundBelow {
    pub functions: Vec<DrillFunction>,
    pub nodes: HashMap<NodeId, DrilledNode>,
    pub lines: HashMap<NodeId, (String, u32)>,
    pub unmeasured: HashMap<NodeId, Vec<Unmeasured>>,
    pub most_probed: usize,
    /// An ended command's wait status.
    pub command_status: Option<i32>,
    pub notes: Vec<String>,
}

impl<'obj> Driver<'obj> {
    /// Begins at `f0`, which has no probes yet.
    pub fn new(
        pid: u32,
        drill: Drill<'obj>,
        code: ProcessCode,
        f0: ProcessFunction,
        query: &DrillQuery,
        probe: Option<Calibration>,
    ) -> Self {
        let kind = kind(&f0.function.probe);
        Self {
            pid,
            drill,
            code,
            allowed: query.allowed,
            wanted: query.parameters.decision_calls,
            functions: FunctionTable::new(f0),
            stubs: query.allowed.stubs.then(StubsOfSearch::default),
            kernel: KernelOfSearch::default(),
            python: None,
            probed: BTreeSet::new(),
            watched_before: 0,
            counted: None,
            search: PeakSearch::new(LatencyRange { from_ns: 0, to_ns: 0 }, 0, None),
            budget: Budget::new(query.budget),
            costs: HashMap::from([(kind, probe)]),
            command_status: None,
        }
    }

    /// Adds a tree node from another run.
    pub fn add_node(&mut self, node: NodeId, known: DrilledNode) {
        self.search.nodes.insert(node, known);
    }

    /// A node's function.
    pub fn function_of(&self, node: NodeId) -> Option<FunctionId> {
        self.search.nodes.get(&node)?.function
    }

    /// The callees with too many calls to be measured: the caller's node, theirs, and the call count.
    pub fn frequent(&self) -> Vec<(NodeId, NodeId, u64)> {
        self.search.frequent.clone()
    }

    /// Restores another run's frequent callees, as far as they are nodes in this tree.
    pub fn restore_frequent(&mut self, saved: &[(NodeId, NodeId, u64)]) {
        let is_there = |(caller, callee, _): &&(NodeId, NodeId, u64)| {
            self.search.nodes.get(callee).is_some_and(|known| known.parent == Some(*caller))
        };
        self.search.frequent = saved.iter().filter(is_there).copied().collect();
    }

    /// The counts of f0's calls since the beginning.
    pub fn counts(&self) -> Result<DrillCounts, CollectError> {
        self.drill.counts()
    }

    /// All findings below f0, with the call lines on these paths.
    pub fn found(&mut self, paths: &[RootCause]) -> FoundBelow {
        let mut symbols = symbols();
        let on_paths: BTreeSet<NodeId> = paths.iter().flat_map(|cause| cause.path.iter().copied()).collect();
        let lines = on_paths.into_iter().filter_map(|node| Some((node, self.line(node, &mut symbols)?)));
        let lines = lines.collect();
        let unmeasured = self.unmeasured(paths);
        let watched = self.watched_calls();
        let of_python = self.python_notes();
        let notes = self.search.notes.iter().cloned().chain(self.search.ticks.sentence()).chain(watched);
        let notes = notes.chain(removed(&self.search.too_often)).chain(self.single_steps()).chain(of_python);
        let notes = notes.chain(self.without_probes(paths)).chain(self.unseen_calls());
        let notes = notes.collect();
        FoundBelow {
            functions: self.functions.iter().map(Known::shown).collect(),
            nodes: self.search.nodes.clone(),
            lines,
            unmeasured,
            most_probed: self.search.most_probed,
            command_status: self.command_status,
            notes,
        }
    }

    /// The source line with the call to a node's function.
    fn line(&self, node: NodeId, symbols: &mut Symbols) -> Option<(String, u32)> {
        let called = self.search.nodes.get(&node)?;
        let caller = self.search.nodes.get(&called.parent?)?.function?;
        let Known::Probed(function) = self.functions.get(caller)? else { return None };
        if is_python(function) {
            return self.python_line(node);
        }
        if is_kernel(function) {
            return None;
        }
        match symbols.in_file_as_it_is(&function.function.probe.file, called.site?.address) {
            Found::Function(found) => found.line,
            _ => None,
        }
    }

    /// Counts f0 until there are enough calls, or the time limit.
    pub fn count(
        &mut self,
        query: &DrillQuery,
        began: Instant,
        stop: &Signals,
        progress: &mut dyn FnMut(DrillProgress),
    ) -> Result<DrillCounts, DrillError> {
        self.probe([0])?;
        self.place_kernel()?;
        self.drill.count()?;
        self.begin_budget();
        let counting = Instant::now();
        let mut looked = Instant::now();
        let (mut last, mut between_phases) = (Instant::now(), Duration::ZERO);
        loop {
            std::thread::sleep(LOOK_EVERY);
            self.learn_callers();
            let counts = self.drill.counts()?;
            let calls = counts.buckets.iter().sum();
            self.check_f0(&query.target, counting.elapsed())?;
            let since = std::mem::replace(&mut last, Instant::now()).elapsed();
            if !self.drill.phases()?.0 {
                between_phases += since;
            }
            progress(DrillProgress::Counted(calls));
            let (target, elapsed) = (query.target.clone(), began.elapsed());
            if let Some((reason, _)) = self.drill.ended(stop) {
                if let Some(error) = self.not_in_question(query, elapsed) {
                    return Err(error);
                }
                if calls == 0 && reason == EndReason::Duration {
                    return Err(self.unseen(target, elapsed));
                }
                let wanted = query.parameters.start_ops;
                return Err(DrillError::EndedBefore { target, calls, wanted, elapsed, reason });
            }
            if looked.elapsed() >= LOOK_AT_CODE {
                looked = Instant::now();
                if let Some(file) = self.unloaded() {
                    return Err(DrillError::Unloaded { pid: self.pid, target, file, calls, elapsed });
                }
            }
            match calls {
                calls
                    if calls >= query.parameters.start_ops
                        && (self.is_f0_dear() || !is_unsettled(&counts)) =>
                {
                    return Ok(counts);
                }
                _ if elapsed.saturating_sub(between_phases) < COUNT_FOR => {}
                0 => {
                    let why = self.not_in_question(query, elapsed);
                    return Err(why.unwrap_or_else(|| self.unseen(target, elapsed)));
                }
                _ => return Ok(counts),
            }
        }
    }

    /// The reason why no f0 call matched the query.
    fn not_in_question(&self, query: &DrillQuery, elapsed: Duration) -> Option<DrillError> {
        self.no_phase(query, elapsed).or_else(|| self.no_request(query, elapsed))
    }

    /// The reason why no f0 call was seen from its beginning to its end.
    fn unseen(&self, target: String, elapsed: Duration) -> DrillError {
        match (self.drill.open_calls(), self.functions.first()) {
            _ if self.drill.unseen() > 0 => {
                DrillError::CallersUnseen { target, unseen: self.drill.unseen(), elapsed }
            }
            (0, Some(Known::Probed(f0))) => {
                let notes = f0.function.notes.iter().map(ToString::to_string).collect();
                DrillError::NotCalled { target, elapsed, notes }
            }
            (open, _) => DrillError::NotReturned { target, open, elapsed },
        }
    }

    /// The file of a probed function or caller whose code has moved. Its return addresses have changed: its calls would
    /// count as their caller's own time.
    fn unloaded(&self) -> Option<PathBuf> {
        let callers = self
            .search
            .measured
            .iter()
            .filter_map(|node| Some(self.search.nodes.get(&node.parent)?.function?.0));
        let probed: BTreeSet<u32> = self.probed.iter().copied().chain(callers).collect();
        let probed =
            probed.into_iter().filter_map(|number| match self.functions.get(FunctionId(number))? {
                Known::Probed(found) if !is_python(found) => Some(&**found),
                _ => None,
            });
        // `ended` sees a process's end.
        Some(self.code.moved(probed).ok()??.function.shown.clone())
    }

    /// Carries out effects and hands in calls until the machine has finished.
    pub fn search(
        &mut self,
        machine: &mut Drilldown,
        mut effects: Vec<Effect>,
        stop: &Signals,
        progress: &mut dyn FnMut(DrillProgress),
    ) -> Result<Status, DrillError> {
        let at_begin = self.drill.counts()?;
        let counted = *self.counted.get_or_insert(at_begin);
        let mut is_rarer = false;
        let mut came = 0;
        let mut looked = Instant::now();
        loop {
            let mut todo: VecDeque<Effect> = effects.drain(..).collect();
            while let Some(effect) = todo.pop_front() {
                match effect {
                    Effect::FindSites { function, .. } => {
                        let sites = self.find_sites(function);
                        todo.extend(machine.handle(Event::Sites { function, sites })?);
                    }
                    Effect::Measure(measurement) => {
                        for event in self.measure_or_end(&measurement, stop, progress)? {
                            todo.extend(handled(machine, event)?);
                        }
                        came = 0;
                    }
                    // Their probes were removed when their replacements were measured.
                    Effect::Remove { nodes } => todo.extend(machine.handle(Event::Removed { nodes })?),
                    Effect::Report => {}
                    Effect::Finished(status) => {
                        self.drill.count()?;
                        return Ok(status);
                    }
                }
            }
            if let Some(reason) = self.ended(stop) {
                let reason = match reason {
                    EndReason::Ended => StopReason::ProgramEnded,
                    EndReason::Interrupted => StopReason::User,
                    EndReason::Duration | EndReason::OutOfRoom | EndReason::OverBudget => StopReason::Budget,
                };
                effects.extend(machine.handle(Event::Stop(reason))?);
                continue;
            }
            let calls = self.drill.calls(LOOK_EVERY)?;
            self.learn_callers();
            self.budget.heard(calls.len());
            // Calls may be missing because the code is gone.
            if !calls.is_empty() || looked.elapsed() >= LOOK_AT_CODE {
                looked = Instant::now();
                if let Some(file) = self.unloaded() {
                    self.note(format!(
                        "the process unloaded {} meanwhile, or loaded it again elsewhere: drill again while it has it",
                        file.display()
                    ));
                    effects.extend(machine.handle(Event::Stop(StopReason::Unloaded))?);
                    continue;
                }
            }
            for call in calls {
                came += 1;
                let dear = self.too_dear(&call);
                if !dear.is_empty() {
                    self.measure_without(&dear)?;
                    came = 0;
                    self.refuse(machine, dear, NotMeasured::TooOften, &mut effects)?;
                    break;
                }
                self.search.ticks.add(&call);
                self.search.queued.add(call.queued);
                effects.extend(machine.handle(Event::Call(self.record(call)))?);
                if effects.iter().any(|effect| matches!(effect, Effect::Measure(_) | Effect::Finished(_))) {
                    break;
                }
            }
            let is_changing = |effect: &Effect| matches!(effect, Effect::Measure(_) | Effect::Finished(_));
            if !effects.iter().any(is_changing) {
                for (gone, why) in
                    [(self.without_returns(), NotMeasured::Jump), (self.over_budget(), NotMeasured::Budget)]
                {
                    if !gone.is_empty() {
                        self.measure_without(&gone)?;
                        came = 0;
                        self.refuse(machine, gone, why, &mut effects)?;
                    }
                }
            }
            if let Some(left) = machine.calls_to_decision() {
                self.show(Some((self.wanted.saturating_sub(left), self.wanted)), progress);
            }
            if !is_rarer
                && let Some(drift) =
                    drift(&counted, &since(&self.drill.counts()?, &at_begin), self.search.peak.from_ns)
            {
                is_rarer = true;
                effects.extend(machine.handle(Event::Drift(drift))?);
            }
            // Some calls had no vote.
            if came >= self.wanted {
                came = 0;
                self.drill.want(self.wanted);
            }
        }
    }

    /// Measures nodes; if the process ends meanwhile and takes no probes, the search ends.
    fn measure_or_end(
        &mut self,
        measurement: &Measurement,
        stop: &Signals,
        progress: &mut dyn FnMut(DrillProgress),
    ) -> Result<Vec<Event>, DrillError> {
        self.measure(measurement, stop, progress).or_else(|failed| {
            // A process's memory goes before its end is seen.
            std::thread::sleep(LOOK_EVERY);
            match self.ended(stop) {
                Some(EndReason::Ended) => Ok(vec![Event::Stop(StopReason::ProgramEnded)]),
                _ => Err(failed),
            }
        })
    }

    /// The reason to end the search now, if any. A command's wait status can be read only once: it is kept.
    fn ended(&mut self, stop: &Signals) -> Option<EndReason> {
        if self.command_status.is_some() {
            return Some(EndReason::Ended);
        }
        let Some((reason, status)) = self.drill.ended(stop) else {
            return self.is_over().then_some(EndReason::Duration);
        };
        self.command_status = status;
        Some(reason)
    }

    /// Adds this time to the search's.
    pub(super) const fn add_time(&mut self, more: Duration) {
        self.drill.add_time(more);
    }

    /// An ended command's wait status; `None` while it runs.
    pub(super) fn command_status(&mut self, stop: &Signals) -> Option<i32> {
        self.ended(stop);
        self.command_status
    }

    /// The cost of a node's probes, or f0's where it could not be measured.
    fn cost(&self, node: NodeId) -> Option<Calibration> {
        if self.is_stubbed(node) {
            return self.stub_cost();
        }
        let of = |function: FunctionId| match self.functions.get(function)? {
            Known::Probed(found) => *self.costs.get(&kind(&found.function.probe))?,
            Known::Refused { .. } => None,
        };
        let cost = of(self.search.nodes.get(&node)?.function?).or_else(|| of(FunctionId(0)))?;
        let per_call_ns = cost.per_call_ns.saturating_add(self.at_call_ns(node));
        Some(Calibration { per_call_ns, ..cost })
    }

    /// A path whose last function calls another too often for its probes ends in that loop.
    pub fn with_loop(&self, mut cause: RootCause) -> RootCause {
        let last = cause.path.last().copied().unwrap_or_default();
        let most = self
            .search
            .frequent
            .iter()
            .filter(|(caller, ..)| *caller == last)
            .max_by_key(|(.., times)| *times);
        if let (Some(&(_, callee, calls)), None | Some(NodeCause::Itself)) = (most, cause.cause) {
            cause.cause = Some(NodeCause::Loop { callee, calls });
        }
        cause
    }

    fn name(&self, node: NodeId) -> Option<String> {
        let function = self.search.nodes.get(&node)?.function?;
        Some(self.functions.get(function)?.shown().name)
    }
}

#[cfg(test)]
mod tests {
    use wakepath_distribution::{Histogram, Unit};
    use wakepath_drilldown::{Parameters, Refusal, Site, SiteId, SiteKind};

    use super::*;

    #[test]
    fn a_refusal_may_come_after_the_machines_decision_and_nothing_else_may() {
        let machine = Drilldown::new(FunctionId(0), Parameters::default(), ProbeCost::default());
        let mut machine = machine.expect("a machine");
        let mut histogram = Histogram::new(Unit::Nanoseconds);
        (0..100).for_each(|_| histogram.add(1_000_000));
        let peak = LatencyRange { from_ns: 500_000, to_ns: 2_000_000 };
        let site = Site { id: SiteId { address: 1 }, kind: SiteKind::Direct(FunctionId(1)), refused: None };
        for event in [
            Event::Histogram(Box::new(histogram)),
            Event::Peak(peak),
            Event::Sites { function: FunctionId(0), sites: Ok(vec![site]) },
        ] {
            machine.handle(event).expect("its next event");
        }
        let refused = Event::Refused { node: NodeId::F0, refusal: Refusal::Dear };
        assert!(machine.handle(refused.clone()).is_err());
        assert!(handled(&mut machine, refused).is_ok_and(|effects| effects.is_empty()));
        let sites = Event::Sites { function: FunctionId(7), sites: Ok(Vec::new()) };
        assert!(handled(&mut machine, sites).is_err());
    }
}

//! Python functions: f0 is found among the called functions, and a function's callees are known from its calls so far.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use wakepath_collect::{
    Calibration, Drill, DrillEdge, EndReason, Frame, MAX_PYTHON_FUNCTIONS, PythonCall, Running, Signals,
};
use wakepath_drilldown::{Doubt, FunctionId, NoSites, NodeId, RootCause, Site, SiteId, SiteKind};
use wakepath_functions::{
    Function, Probe, ProbeMethod, ProcessCode, ProcessFunction, Python, PythonCode, PythonError, Return,
    Runtime, python_of, similar,
};
use wakepath_process::{Memory, Process};

use super::{COUNT_FOR, Driver, Key, Known, LOOK_EVERY};
use crate::drill::{Begun, DrillError, DrillProgress, DrillQuery, LOADED_WITHIN, OpenStorage};
use crate::latency::probe_cost;

/// The prefix of a Python function as a target.
const PREFIX: &str = "python:";
/// The time after the first function in which other called functions with the same name are noticed.
const OTHERS_WITHIN: Duration = Duration::from_millis(300);
/// The maximum number of callees at a place in the code.
const MAX_AT_PLACE: u64 = 256;
/// The maximum number of functions with the same name in an error.
const MAX_LISTED: usize = 5;

/// The state of a search in Python functions.
pub(in crate::drill) struct PythonOfSearch {
    memory: Memory,
    /// Code objects by address; `None` where there is no code object.
    codes: HashMap<u64, Option<PythonCode>>,
    /// The calls' places, bytes from the caller's first instruction.
    places: HashMap<(FunctionId, SiteId), u64>,
    /// The calls known when a function's sites were asked for.
    known: HashMap<FunctionId, BTreeSet<(u64, FunctionId)>>,
}

/// A function's identity: its file, its name, and its definition's line.
type Identity = (String, String, u32);

fn identity(code: &PythonCode) -> Identity {
    (code.file.clone(), code.qualified_name.clone(), code.line)
}

/// A target `python:NAME`, `python:Class.NAME` or `python:module.py:NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::drill) struct PythonTarget<'a> {
    file: Option<&'a str>,
    name: &'a str,
}

impl<'a> PythonTarget<'a> {
    /// Reads a target; `None` if it is no Python function.
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix(PREFIX)?;
        let (file, name) = text.rsplit_once(':').map_or((None, text), |(file, name)| (Some(file), name));
        Some(Self { file, name })
    }

    /// Whether the target names this function.
    fn means(&self, code: &PythonCode) -> bool {
        let has_name = code.name == self.name || code.qualified_name == self.name;
        has_name && self.file.is_none_or(|wanted| is_file(wanted, &code.file))
    }
}

/// Whether `wanted`, a path's last components, names this file.
fn is_file(wanted: &str, file: &str) -> bool {
    let before = file.strip_suffix(wanted).filter(|_| !wanted.is_empty());
    before.is_some_and(|before| before.is_empty() || before.ends_with('/') || wanted.starts_with('/'))
}

/// Whether a function is written in Python.
pub(super) fn is_python(function: &ProcessFunction) -> bool {
    function.function.probe.runtime == Runtime::Python
}

/// A Python function as a function in the process.
fn function_of(code: &PythonCode, python: &Python) -> ProcessFunction {
    let probe = Probe {
        file: python.file.clone(),
        offset: python.begins.first().copied().unwrap_or_default(),
        method: ProbeMethod::Emulated,
        returns: Return::ReturnProbe,
        runtime: Runtime::Python,
        switches: false,
    };
    let function = Function {
        shown: PathBuf::from(&code.file),
        names: vec![code.qualified_name.clone()],
        readable: code.qualified_name.clone(),
        address: code.address,
        size: code.length,
        probe,
        notes: Vec::new(),
    };
    ProcessFunction { address: code.address, function }
}

/// A process's interpreter. A new command may not have loaded it yet.
fn interpreter(pid: u32, is_new: bool, stop: &Signals) -> Result<Python, DrillError> {
    let began = Instant::now();
    loop {
        match python_of(pid) {
            Err(PythonError::NoPython { .. })
                if is_new && began.elapsed() < LOADED_WITHIN && stop.asked() == 0 =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            found => return Ok(found?),
        }
    }
}

/// Begins a search below a Python function: puts probes on the interpreter, and waits for a call of the function.
pub(in crate::drill) fn begin<'obj>(
    query: &DrillQuery,
    target: PythonTarget<'_>,
    (pid, command): (u32, Option<Running>),
    storage: &'obj mut MaybeUninit<OpenStorage>,
    stop: &Signals,
    progress: &mut dyn FnMut(DrillProgress),
) -> Result<Begun<'obj>, DrillError> {
    if query.allowed.stubs {
        return Err(DrillError::StubsInPython);
    }
    let python = interpreter(pid, command.is_some(), stop)?;
    let of_memory = |source| DrillError::Memory { pid, source };
    let memory = Process::open(pid).and_then(|process| process.memory());
    let memory = memory.map_err(|error| of_memory(error.into()))?;
    let code = ProcessCode::of(pid, true).map_err(of_memory)?;
    let (time, runtime) = (Some(query.duration), Runtime::Python);
    let mut drill = Drill::load(storage, pid, runtime, command, time, None, false)?;
    let probe = drill.calibrate_python()?;
    drill.probe_python(&python, probe.map_or(0, |probe| probe.per_call_ns))?;
    let mut search =
        PythonOfSearch { memory, codes: HashMap::new(), places: HashMap::new(), known: HashMap::new() };
    let found = search.look(&mut drill, query, target, stop, progress)?;
    for same in &found {
        drill.know_python(same.address, 0)?;
    }
    drill.count_python()?;
    let Some(first) = found.first() else { return Err(DrillError::NotAFunction(query.target.clone())) };
    let f0 = function_of(first, &python);
    let mut notes = Vec::new();
    if first.suspends {
        notes.push(format!(
            "{} is a generator or a coroutine: each of its steps counts as a call, from where it goes on to where it waits",
            first.qualified_name
        ));
    }
    Ok(Begun { drill, code, f0, probe, python: Some((search, python)), notes })
}

impl PythonOfSearch {
    fn code(&mut self, address: u64) -> Option<&PythonCode> {
        let Self { memory, codes, .. } = self;
        codes.entry(address).or_insert_with(|| PythonCode::read(memory, address)).as_ref()
    }

    /// The code objects of the target function among the called functions, all with the same definition.
    fn look(
        &mut self,
        drill: &mut Drill<'_>,
        query: &DrillQuery,
        target: PythonTarget<'_>,
        stop: &Signals,
        progress: &mut dyn FnMut(DrillProgress),
    ) -> Result<Vec<PythonCode>, DrillError> {
        let began = Instant::now();
        let mut first = None;
        loop {
            std::thread::sleep(LOOK_EVERY);
            let called: Vec<u64> = drill.python_calls().iter().map(|(call, _)| call.callee).collect();
            progress(DrillProgress::Looking { functions: called.len() });
            let mut found: BTreeMap<Identity, Vec<PythonCode>> = BTreeMap::new();
            for address in called {
                if let Some(code) = self.code(address)
                    && target.means(code)
                {
                    found.entry(identity(code)).or_default().push(code.clone());
                }
            }
            if !found.is_empty() && first.get_or_insert_with(Instant::now).elapsed() >= OTHERS_WITHIN {
                if let [_, _, ..] = found.keys().collect::<Vec<_>>().as_slice() {
                    let all = found.keys().map(|(file, name, line)| format!("{file}:{name} (line {line})"));
                    let found = all.take(MAX_LISTED).collect();
                    return Err(DrillError::SeveralOfPython { target: query.target.clone(), found });
                }
                return Ok(found.into_values().next().unwrap_or_default());
            }
            let elapsed = began.elapsed();
            if let Some((reason, _)) = drill.ended(stop)
                && reason != EndReason::Duration
            {
                let (target, wanted) = (query.target.clone(), query.parameters.start_ops);
                return Err(DrillError::EndedBefore { target, calls: 0, wanted, elapsed, reason });
            }
            if found.is_empty() && elapsed >= COUNT_FOR.min(query.duration) {
                return Err(self.unseen(drill, query, target, elapsed));
            }
        }
    }

    /// The reason that no call of the function was seen.
    fn unseen(
        &self,
        drill: &Drill<'_>,
        query: &DrillQuery,
        target: PythonTarget<'_>,
        elapsed: Duration,
    ) -> DrillError {
        let names: BTreeSet<&str> =
            self.codes.values().flatten().map(|code| code.qualified_name.as_str()).collect();
        let called = drill.python_counts().map_or(0, |counts| counts.entries);
        DrillError::NotCalledInPython {
            target: query.target.clone(),
            elapsed,
            called,
            similar: similar(target.name, names.iter().map(|name| (*name).into())),
        }
    }
}

impl Driver<'_> {
    /// Follows calls of Python functions. The kernel already subtracts the cost of a call that belongs to no node.
    pub fn follow_python(&mut self, search: PythonOfSearch, python: Python) {
        self.python = Some((search, python));
    }

    /// A probed call's cost, now that the process made calls: its interpreter may be faster than the frame that the cost was measured with.
    pub(in crate::drill) fn python_cost(
        &mut self,
        measured: Option<Calibration>,
    ) -> Result<Option<Calibration>, DrillError> {
        let Some(measured) = measured.filter(|_| self.python.is_some()) else { return Ok(measured) };
        let per_call_ns = self.drill.take_off_python(measured.per_call_ns)?;
        let found = Some(Calibration { per_call_ns, shift: measured.shift.min(per_call_ns), ..measured });
        self.costs.values_mut().for_each(|cost| *cost = found);
        Ok(found)
    }

    /// A Python function's number; its definition identifies it.
    fn number_of_python(&mut self, address: u64) -> Option<FunctionId> {
        let (search, python) = self.python.as_mut()?;
        let code = search.code(address)?.clone();
        let function = function_of(&code, python);
        let identity = identity(&code);
        let is_f0 = match self.functions.first() {
            Some(Known::Probed(f0)) => {
                search.code(f0.address).map(self::identity).as_ref() == Some(&identity)
            }
            _ => false,
        };
        let number = if is_f0 {
            FunctionId(0)
        } else {
            if self.functions.len() >= MAX_PYTHON_FUNCTIONS {
                return None;
            }
            let (file, name, line) = identity;
            self.number(Key::Named(file, format!("{name}:{line}")), || Known::Probed(Box::new(function)))
        };
        // Each execution of a definition makes a new code object, at any time.
        self.drill.know_python(address, number.0).ok()?;
        Some(number)
    }

    /// A function's calls so far: the place in its code and the callee.
    fn calls_of_python(&mut self, caller: FunctionId) -> BTreeSet<(u64, FunctionId)> {
        let calls: Vec<PythonCall> = self.drill.python_calls().into_iter().map(|(call, _)| call).collect();
        let mut found = BTreeSet::new();
        for call in calls {
            if self.number_of_python(call.caller) == Some(caller)
                && let Some(callee) = self.number_of_python(call.callee)
            {
                found.insert((call.place, callee));
            }
        }
        found
    }

    /// A Python function's call sites: its calls below f0 so far. An instruction may call several functions; each is a site.
    pub(super) fn python_sites(&mut self, function: FunctionId) -> Result<Vec<Site>, NoSites> {
        let calls = self.calls_of_python(function);
        let mut at_place: BTreeMap<u64, u64> = BTreeMap::new();
        let mut sites = Vec::new();
        for &(place, callee) in &calls {
            let index = at_place.entry(place).or_default();
            if *index >= MAX_AT_PLACE {
                continue;
            }
            let id = SiteId { address: place * MAX_AT_PLACE + *index };
            *index += 1;
            sites.push(Site { id, kind: SiteKind::Direct(callee), refused: None });
            if let Some((search, _)) = &mut self.python {
                search.places.insert((function, id), place);
            }
        }
        if let Some((search, _)) = &mut self.python {
            search.known.insert(function, calls);
        }
        if sites.is_empty() { Err(NoSites::Leaf) } else { Ok(sites) }
    }

    /// Adds a doubt to a path whose last Python function has more callees by now than when its calls were measured:
    /// their time counts as its own.
    pub(in crate::drill) fn with_late_calls(&mut self, mut path: RootCause) -> RootCause {
        let last = path.path.last().copied().unwrap_or_default();
        let Some(function) = self.function_of(last).filter(|_| self.python.is_some()) else { return path };
        let now = self.calls_of_python(function);
        let known = self.python.as_ref().and_then(|(search, _)| search.known.get(&function));
        let late = known.map_or(0, |known| now.difference(known).count() as u64);
        if late > 0 {
            path.doubts.push(Doubt::SitesNotMeasured { node: last, sites: late });
        }
        path
    }

    /// The measured nodes' calls, in the kernel's form.
    pub(super) fn python_edges(&self, slot: &HashMap<NodeId, u32>) -> Vec<DrillEdge> {
        let Some((search, _)) = &self.python else { return Vec::new() };
        let edge = |node: &wakepath_drilldown::MeasuredNode| {
            let caller = self.search.nodes.get(&node.parent)?.function?;
            Some(DrillEdge {
                parent: *slot.get(&node.parent)?,
                function: node.callee?.0,
                returns_to: Some(*search.places.get(&(caller, node.site))?),
                node: *slot.get(&node.node)?,
                frame: Frame::Unknown,
            })
        };
        self.search.measured.iter().filter_map(edge).collect()
    }

    /// The source line of a node's call.
    pub(super) fn python_line(&self, node: NodeId) -> Option<(String, u32)> {
        let (search, _) = self.python.as_ref()?;
        let called = self.search.nodes.get(&node)?;
        let caller = self.search.nodes.get(&called.parent?)?.function?;
        let place = search.places.get(&(caller, called.site?))?;
        let Known::Probed(function) = self.functions.get(caller)? else { return None };
        let code = search.codes.get(&function.address)?.as_ref()?;
        Some((base_name(&code.file), code.line_at(*place)?))
    }

    /// A sample's function and line.
    pub(super) fn python_place(&mut self, instruction: u64) -> Option<(String, Option<(String, u32)>)> {
        let calls = self.drill.python_calls();
        let (search, _) = self.python.as_mut()?;
        if instruction == 0 {
            return Some((String::from("code that runs without the interpreter's lock"), None));
        }
        for (call, _) in calls {
            search.code(call.callee);
        }
        let Some(code) = search.codes.values().flatten().find(|code| code.has(instruction)) else {
            return Some((String::from("Python code that was not seen to be called"), None));
        };
        let line = code.line_at(instruction - code.begin());
        Some((code.qualified_name.clone(), line.map(|line| (base_name(&code.file), line))))
    }

    /// The probes' time on all Python functions in the process, ns.
    pub(super) fn python_ns(&self) -> u64 {
        let cost = self.python.as_ref().and_then(|_| self.costs.values().flatten().next());
        let entries = self.drill.python_counts().map_or(0, |counts| counts.entries);
        cost.map_or(0, |cost| entries.saturating_mul(cost.per_call_ns))
    }

    /// The answer's limits, and the cost of the probes to all Python functions in the process, in sentences.
    pub(super) fn python_notes(&mut self) -> Vec<String> {
        if self.python.is_none() {
            return Vec::new();
        }
        let Ok(counts) = self.drill.python_counts() else { return Vec::new() };
        let cost = self.costs.values().flatten().next().map(|cost| overhead(counts.entries, *cost));
        let sentence = |number: u64, what: &str| (number > 0).then(|| format!("{number} {what}"));
        [
            sentence(
                counts.unbalanced,
                "calls of the function ended or threw into generators, whose beginning nothing shows: that is their callers' own time",
            ),
            sentence(counts.full, "calls found no room in the list of calls: their time is their callers' own"),
        ]
        .into_iter()
        .flatten()
        .chain(cost)
        .collect()
    }
}

/// The cost of the probes to all Python functions in the process, in a sentence.
fn overhead(entries: u64, cost: Calibration) -> String {
    let all_ms = entries.saturating_mul(cost.per_call_ns) as f64 / 1e6;
    let from = 1_u128 << probe_cost(cost).from_bucket.min(63);
    format!(
        "each call of any function of Python in the process had probes: {entries} calls, {all_ms:.1} ms together; latencies from {:.1} µs on stay in \
         their bucket",
        from as f64 / 1000.0
    )
}

fn base_name(file: &str) -> String {
    file.rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_a_function_and_perhaps_its_file() {
        let of = |text| PythonTarget::parse(text).map(|target| (target.file, target.name));
        assert_eq!(of("python:handle"), Some((None, "handle")));
        assert_eq!(of("python:Server.handle"), Some((None, "Server.handle")));
        assert_eq!(of("python:shop/views.py:handle"), Some((Some("shop/views.py"), "handle")));
        assert_eq!(of("python:by_key.<locals>.<lambda>"), Some((None, "by_key.<locals>.<lambda>")));
        // Functions in the interpreter itself, and other functions.
        assert_eq!([of("python3.11:PyObject_Call"), of("./python:main"), of("handle")], [None; 3]);
    }

    #[test]
    fn a_part_of_a_path_means_whole_names_of_folders() {
        let is_meant = |wanted, file| is_file(wanted, file);
        assert!(
            is_meant("views.py", "/srv/shop/views.py") && is_meant("shop/views.py", "/srv/shop/views.py")
        );
        assert!(is_meant("views.py", "views.py") && is_meant("/srv/shop/views.py", "/srv/shop/views.py"));
        assert!(!is_meant("iews.py", "/srv/shop/views.py") && !is_meant("views.py", "/srv/shop/reviews.py"));
        assert!(!is_meant("", "/srv/shop/views.py") && !is_meant("views.p", "/srv/shop/views.py"));
    }

    #[test]
    fn the_cost_to_all_functions_is_said_with_the_bucket_that_does_not_shift() {
        let cost = Calibration { per_call_ns: 2_000, other_process_ns: 0, shift: 900 };
        assert_eq!(
            overhead(1_000_000, cost),
            "each call of any function of Python in the process had probes: 1000000 calls, 2000.0 ms together; \
             latencies from 2.0 µs on stay in their bucket"
        );
    }
}

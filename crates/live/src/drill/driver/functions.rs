//! The functions in a drill-down: their numbers, the calls in their code, and their probes.

use wakepath_collect::SINGLE_STEP_NS;
use wakepath_drilldown::{Doubt, FunctionId, NoSites, Refusal, RootCause, Site, SiteId, SiteKind};
use wakepath_engine::drill::NotMeasured;
use wakepath_functions::{KernelCode, ProbeMethod, ProcessCallee, ProcessFunction, Return, Runtime};

use super::kernel::is_kernel;
use super::python::is_python;
use super::unmeasured::{Callee, reason};
use super::{Driver, Key, Known};

/// The cost does not shift a peak if a call takes this multiple.
const NEGLIGIBLE: u64 = 64;

impl Driver<'_> {
    /// A function's number.
    pub(super) fn number(&mut self, key: Key, function: impl FnOnce() -> Known) -> FunctionId {
        self.functions.number(key, function)
    }

    pub(super) fn number_of(&mut self, found: Box<ProcessFunction>) -> FunctionId {
        if let Some(Known::Probed(f0)) = self.functions.first()
            && f0.address == found.address
        {
            return FunctionId(0);
        }
        self.number(Key::At(found.address), || Known::Probed(found))
    }

    /// A name for each function, by which another run finds it; `None` where there is none.
    pub(in crate::drill) fn places(&mut self) -> Vec<Option<String>> {
        let Self { functions, code, .. } = self;
        let place = |known: &Known| match known {
            Known::Probed(found) => code.place_of(found),
            Known::Refused { name, file, why } => serde_json::to_string(&(name, file, why)).ok(),
        };
        functions.iter().map(place).collect()
    }

    /// The number of the function with this name, by [`Driver::places`].
    pub(in crate::drill) fn number_at(&mut self, place: &str) -> Option<FunctionId> {
        if let Ok((name, file, why)) = serde_json::from_str::<(String, String, String)>(place) {
            let key = Key::Named(file.clone(), name.clone());
            return Some(self.number(key, || Known::Refused { name, file, why }));
        }
        let found = self.code.at_place(place)?;
        Some(self.number_of(Box::new(found)))
    }

    /// A function's call sites.
    pub(super) fn find_sites(&mut self, function: FunctionId) -> Result<Vec<Site>, NoSites> {
        let Some(Known::Probed(caller)) = self.functions.get(function) else {
            return Err(NoSites::Refused(Refusal::Unsafe));
        };
        if is_park(caller) || KernelCode::is_scheduler(caller) {
            return Err(NoSites::Leaf);
        }
        if is_python(caller) {
            return self.python_sites(function);
        }
        let caller = caller.clone();
        let found = match self.code.sites(&caller) {
            Ok(found) => found,
            Err(refusal) if is_kernel(&caller) => {
                self.note(format!(
                    "the calls of {} are not measured: {}",
                    caller.function.readable, refusal.why
                ));
                return Err(NoSites::Refused(Refusal::Unsafe));
            }
            Err(_) => return Err(NoSites::NotDecodable),
        };
        if !found.whole {
            self.note(format!(
                "not all code of {} could be decoded: some calls may be missing",
                caller.function.readable
            ));
        }
        let mut sites = Vec::new();
        for site in found.sites {
            let id = SiteId { address: site.offset };
            let is_tail = site.returns_to.is_none();
            let direct = |number| if is_tail { SiteKind::Tail(number) } else { SiteKind::Direct(number) };
            let mut why = NotMeasured::Unsafe;
            let (kind, refused) = match site.callee.clone() {
                // The function was never called from here; or it never returns.
                ProcessCallee::Unbound => continue,
                ProcessCallee::Function(callee) if callee.function.probe.returns == Return::Never => continue,
                ProcessCallee::Function(callee) => {
                    let refused = self.refusal(&callee);
                    (direct(self.number_of(callee)), refused)
                }
                ProcessCallee::Refused(refusal) => {
                    why = reason(&refusal.why);
                    (direct(self.number_refused(refusal)), Some(Refusal::Unsafe))
                }
                ProcessCallee::OfKernel => (SiteKind::Indirect, None),
                ProcessCallee::Computed(_) if is_tail => (SiteKind::IndirectTail, None),
                ProcessCallee::Computed(_) => (SiteKind::Indirect, None),
            };
            // A place in two parts of a function is listed twice.
            if !sites.iter().any(|known: &Site| known.id == id) {
                let unseen = refused.is_none()
                    && matches!(&site.callee, ProcessCallee::Function(callee) if self.is_return_unseen(callee, &site));
                let refused = refused.or(unseen.then_some(Refusal::Unsafe));
                self.functions.add_site(function, id, site);
                // A stub needs no probe on the callee.
                let refused = refused
                    .filter(|why| !(unseen || *why == Refusal::SingleStep) || !self.takes_stub(function, id));
                if let (Some(refusal), Some(callee)) = (refused, kind.callee()) {
                    let why = match refusal {
                        Refusal::SingleStep => NotMeasured::SingleStep,
                        _ if unseen => NotMeasured::Jump,
                        _ => why,
                    };
                    self.leave_unmeasured(function, Callee { function: callee, why, is_target: false });
                }
                if let (Some(refusal), Some(callee)) = (refused, kind.callee())
                    && let Some(Known::Probed(callee)) = self.functions.get(callee)
                {
                    let callee = callee.clone();
                    self.leave_out(&callee, refusal);
                }
                sites.push(Site { id, kind, refused });
            }
        }
        if sites.is_empty() { Err(NoSites::Leaf) } else { Ok(sites) }
    }

    /// The reason not to probe a function, if any.
    pub(super) fn refusal(&self, callee: &ProcessFunction) -> Option<Refusal> {
        let is_dear = self.search.typical_ns < NEGLIGIBLE * SINGLE_STEP_NS;
        if is_stepped(callee) && is_dear && !self.allowed.slow_probes {
            return Some(Refusal::SingleStep);
        }
        // All calls are made by threads, or all by goroutines.
        let is_other = callee.function.probe.runtime != self.runtime() && !is_kernel(callee);
        is_other.then_some(Refusal::Unsafe)
    }

    /// Keeps a function's name if it has no probe because the kernel would single-step it.
    pub(super) fn leave_out(&mut self, callee: &ProcessFunction, refusal: Refusal) {
        let name = &callee.function.readable;
        if refusal == Refusal::SingleStep && !self.search.not_stepped.contains(name) {
            self.search.not_stepped.push(name.clone());
        }
    }

    fn runtime(&self) -> Runtime {
        match self.functions.first() {
            Some(Known::Probed(f0)) => f0.function.probe.runtime,
            _ => Runtime::Native,
        }
    }

    /// A path that ends where Go parks a goroutine ends in a wait.
    pub(in crate::drill) fn with_park(&self, mut path: RootCause) -> RootCause {
        let last = path.path.last().and_then(|last| self.search.nodes.get(last)?.function);
        if let Some(Known::Probed(last)) = last.and_then(|last| self.functions.get(last))
            && is_park(last)
        {
            path.blocked_ns = path.ns;
        }
        path
    }

    /// Finds the call sites of functions that another run has decided on, without probes or notes about missing probes.
    pub(in crate::drill) fn find_decided_sites(&mut self, callers: impl IntoIterator<Item = FunctionId>) {
        for caller in callers {
            // Without its sites, its callees are not measured, as in a search without a saved state.
            let _ = self.find_sites(caller);
        }
        self.search.stepped.clear();
        self.search.not_stepped.clear();
    }

    /// The single-stepped probes, and the probes missing for this reason, in sentences.
    pub(super) fn single_steps(&self) -> Vec<String> {
        let listed = |names: &[String]| match names {
            [] => None,
            [one] => Some(one.clone()),
            [first, second] => Some(format!("{first} and {second}")),
            [first, second, rest @ ..] => Some(format!("{first}, {second} and {} more", rest.len())),
        };
        let measured = self
            .costs
            .iter()
            .filter(|((method, at_returns, _), _)| *method == ProbeMethod::SingleStepped || *at_returns);
        let most = measured.filter_map(|(_, cost)| Some((*cost)?.per_call_ns)).max();
        let cost =
            most.map_or_else(|| String::from("some 20 µs"), |ns| format!("{:.1} µs", ns as f64 / 1000.0));
        let stepped = listed(&self.search.stepped)
            .map(|names| format!("the kernel single-steps the probes of {names}: {cost} a call"));
        let not = listed(&self.search.not_stepped).map(|names| {
            format!(
                "not measured: {names}; the kernel would single-step the probes, some 20 µs a call (--slow-probes does{})",
                if self.can_have_stubs() { "; --stubs measures them without probes" } else { "" }
            )
        });
        stepped.into_iter().chain(not).collect()
    }

    /// The number of watched indirect calls, in a sentence.
    pub(super) fn watched_calls(&self) -> Option<String> {
        let calls = match self.search.watched.len() - self.kernel.watched {
            0 => return None,
            1 => String::from("an indirect call was"),
            several => format!("{several} indirect calls were"),
        };
        Some(format!(
            "{calls} watched to learn what is called: the kernel single-steps each, some 20 µs a call"
        ))
    }

    /// Whether stubs could measure calls in the place of probes.
    fn can_have_stubs(&self) -> bool {
        self.runtime() == Runtime::Native && self.stubs.is_none()
    }

    /// Whether f0's returns are seen behind its calls, whose places are learned as they come.
    pub(super) fn learns_callers(&self) -> bool {
        matches!(self.functions.first(), Some(Known::Probed(f0)) if f0.function.probe.returns == Return::AtCallers)
    }

    /// Puts probes behind new calls of f0, if its returns are seen there.
    pub(super) fn learn_callers(&mut self) {
        if self.learns_callers() {
            self.drill.learn_callers();
        }
    }

    /// The number of f0's calls whose return no probe showed, in a sentence.
    pub(super) fn unseen_calls(&self) -> Option<String> {
        let unseen = self.drill.unseen();
        (unseen > 0).then(|| {
            let calls = if unseen == 1 { "1 call was".to_owned() } else { format!("{unseen} calls were") };
            format!("{calls} not measured: a place that calls the function is learned at its first call")
        })
    }

    /// A way without probes, if the answer depends on their time.
    pub(super) fn without_probes(&self, paths: &[RootCause]) -> Option<String> {
        let is_of_cost = |doubt: &Doubt| matches!(doubt, Doubt::ProbeCost { .. } | Doubt::PeakShift { .. });
        let depends = paths.iter().flat_map(|path| &path.doubts).any(is_of_cost);
        (depends && self.can_have_stubs()).then(|| {
            String::from(
                "the answer depends on the time of probes: --stubs puts code into the process in their place, which takes some 20 ns a call",
            )
        })
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.search.notes.contains(&note) {
            self.search.notes.push(note);
        }
    }
}

/// Whether the kernel single-steps a function's probes.
pub(super) fn is_stepped(function: &ProcessFunction) -> bool {
    let probe = &function.function.probe;
    let at_returns = matches!(probe.returns, Return::AtInstructions(_) | Return::AtCallers);
    probe.method == ProbeMethod::SingleStepped || at_returns
}

/// Whether this is the function in Go's runtime that parks a goroutine, whose thread meanwhile runs others.
fn is_park(function: &ProcessFunction) -> bool {
    function.function.probe.runtime == Runtime::Go && function.function.readable == "runtime.gopark"
}

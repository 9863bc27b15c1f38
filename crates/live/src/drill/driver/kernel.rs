//! Calls made by kernel functions: the probed places in the kernel's code.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_collect::{Calibration, Error as CollectError, KernelCallee, KernelPlace};
use wakepath_drilldown::{Event, MeasuredNode, Refusal};
use wakepath_engine::drill::NotMeasured;
use wakepath_functions::{KernelExit, ProcessCode, ProcessFunction, Runtime};

use super::{Driver, Known, kind};

/// A search's state in the kernel's code.
#[derive(Default)]
pub(in crate::drill) struct KernelOfSearch {
    /// Places where the kernel refuses a probe, with its error number.
    refused: BTreeMap<u64, i32>,
    /// Whether a return probe sees f0's returns.
    by_return_probe: bool,
    /// The watched indirect calls in the kernel.
    pub watched: usize,
}

/// Whether a function is kernel code.
pub(super) fn is_kernel(function: &ProcessFunction) -> bool {
    function.function.probe.runtime == Runtime::Kernel
}

/// The places for a function as f0; `None` where not all of its returns are known.
pub(in crate::drill) fn places_of_f0(
    code: &mut ProcessCode,
    address: u64,
) -> Option<BTreeMap<u64, KernelPlace>> {
    let exits = code.kernel()?.exits(address)?;
    let mut places = BTreeMap::from([(address, entry(0))]);
    for KernelExit { address, condition } in exits {
        add(&mut places, address, KernelPlace { returns: true, condition, ..KernelPlace::default() });
    }
    Some(places)
}

fn entry(function: u32) -> KernelPlace {
    KernelPlace { enters: Some(function), ..KernelPlace::default() }
}

fn add(places: &mut BTreeMap<u64, KernelPlace>, address: u64, place: KernelPlace) {
    let known = places.entry(address).or_default();
    *known = known.and(place);
}

/// A call's probes, or the kernel's error number where it refuses a place.
type Placed = Result<Vec<(u64, KernelPlace)>, i32>;

impl Driver<'_> {
    /// Measures and returns the cost of probes in the kernel's code, which is then also f0's if it is a kernel function.
    pub fn calibrate_kernel(&mut self) -> Result<Option<Calibration>, CollectError> {
        let function = self.code.kernel().and_then(|kernel| kernel.system_call(libc_getppid()));
        let Some(function) = function else { return Ok(None) };
        let Some(places) = places_of_f0(&mut self.code, function.address) else { return Ok(None) };
        let cost = self.drill.calibrate_kernel(&places)?;
        self.costs.insert(kind(&function.function.probe), cost);
        Ok(cost)
    }

    /// Puts probes at the measured nodes' calls in kernel code, and at f0 if it is a kernel function, and nowhere else. Returns the nodes that
    /// cannot be measured.
    pub(super) fn place_kernel(&mut self) -> Result<Vec<Event>, CollectError> {
        if self.code.kernel().is_none() {
            return Ok(Vec::new());
        }
        let mut events = Vec::new();
        loop {
            let wanted = self.wanted_places(&mut events)?;
            let refused = self.drill.probe_kernel(&wanted)?;
            if refused.is_empty() {
                break;
            }
            for (address, why) in refused {
                self.kernel.refused.insert(address, why.raw_os_error().unwrap_or(0));
            }
            if let Some(f0) = self.f0_of_kernel()
                && let Some(&errno) = self.kernel.refused.get(&f0)
            {
                let source = std::io::Error::from_raw_os_error(errno);
                let name = self.functions.first().map_or_else(String::new, |f0| f0.shown().name);
                return Err(CollectError::KernelProbe { name, source });
            }
        }
        if !events.is_empty() {
            self.number_slots();
        }
        Ok(events)
    }

    /// Adds a note if a return probe sees f0's returns.
    pub(super) fn note_return_probe(&mut self) {
        if self.kernel.by_return_probe
            && let Some(f0) = self.functions.first().map(|f0| f0.shown().name)
        {
            self.note(format!(
                "the returns of {f0} are seen by a return probe, of which the kernel has few: it misses returns where many threads are in {f0}"
            ));
        }
    }

    /// f0's address, if it is a kernel function.
    fn f0_of_kernel(&self) -> Option<u64> {
        match self.functions.first() {
            Some(Known::Probed(f0)) if is_kernel(f0) => Some(f0.address),
            _ => None,
        }
    }

    /// The places for f0 and the measured nodes. Nodes without a place are no longer measured.
    fn wanted_places(&mut self, events: &mut Vec<Event>) -> Result<BTreeMap<u64, KernelPlace>, CollectError> {
        let mut wanted = BTreeMap::new();
        if let Some(f0) = self.f0_of_kernel() {
            let places = places_of_f0(&mut self.code, f0)
                .filter(|places| places.keys().all(|at| *at == f0 || !self.kernel.refused.contains_key(at)));
            match places {
                Some(places) if !self.kernel.by_return_probe => wanted.extend(places),
                _ => {
                    wanted.insert(f0, entry(0));
                    if !self.kernel.by_return_probe {
                        self.drill.probe_kernel_returns(f0)?;
                        self.kernel.by_return_probe = true;
                        self.note_return_probe();
                    }
                }
            }
        }
        let mut refused = BTreeSet::new();
        for node in self.search.measured.clone() {
            match self.places_of_node(&node) {
                Some(Ok(places)) => {
                    places.into_iter().for_each(|(address, place)| add(&mut wanted, address, place));
                }
                Some(Err(errno)) => {
                    refused.insert(node.node);
                    self.note_unmeasured(node.node, NotMeasured::Kernel);
                    events.push(Event::Refused { node: node.node, refusal: Refusal::Kernel { errno } });
                }
                None => {}
            }
        }
        self.search.measured.retain(|node| !refused.contains(&node.node));
        for node in self.search.measured.clone() {
            let caller = self.search.nodes.get(&node.parent).and_then(|parent| parent.function);
            let Some((number, Known::Probed(caller))) =
                caller.and_then(|caller| Some((caller.0, self.functions.get(caller)?)))
            else {
                continue;
            };
            // A call of the caller from elsewhere is a different call: without a probe at its entry, its callees may count for this node.
            if is_kernel(caller) && number != 0 && !self.kernel.refused.contains_key(&caller.address) {
                add(&mut wanted, caller.address, entry(number));
            }
        }
        Ok(wanted)
    }

    /// A measured node's places; `None` if the kernel does not make its call, or the callee is not known.
    fn places_of_node(&mut self, node: &MeasuredNode) -> Option<Placed> {
        let callee = node.callee?;
        let caller = self.search.nodes.get(&node.parent)?.function?;
        let Some(Known::Probed(function)) = self.functions.get(caller) else { return None };
        if !is_kernel(function) {
            // A system call: the program at all system calls knows it by its number.
            if let Some(Known::Probed(target)) = self.functions.get(callee)
                && is_kernel(target)
                && let Some(number) = self.code.kernel()?.number_of_system_call(target.address)
            {
                let followed = self.drill.follow_system_calls();
                let known = self.drill.know_target(number.into(), callee.0);
                return (followed.is_err() || known.is_err()).then_some(Err(0));
            }
            return None;
        }
        let site = self.functions.site(caller, node.site)?;
        let call = self.code.kernel()?.call_at(function.address, site.address)?.clone();
        let Some(Known::Probed(target)) = self.functions.get(callee) else { return None };
        let target = target.address;
        let Self { kernel, drill, .. } = self;
        let errno = |address: &u64| kernel.refused.get(address).copied();
        let called = match site.callee {
            wakepath_functions::ProcessCallee::Computed(operand) => {
                // Without room for it, its calls belong to no node.
                let _ = drill.know_target(target, callee.0);
                KernelCallee::At(operand)
            }
            _ => KernelCallee::Function(callee.0),
        };
        let mut places = Vec::new();
        let of_call = KernelPlace {
            opens: Some(called),
            condition: call.condition,
            returns_to: call.returns_to,
            ..KernelPlace::default()
        };
        match (errno(&call.address), errno(&target), call.returns_to) {
            (None, ..) => places.push((call.address, of_call)),
            // Then the probe goes to the callee's entry, with the return address.
            (Some(_), None, Some(_)) => {
                places.push((target, KernelPlace { called: Some(callee.0), ..KernelPlace::default() }));
            }
            (Some(why), ..) => return Some(Err(why)),
        }
        if call.returns_to.is_some() {
            let Some(&resume) = call.resumes.iter().find(|at| errno(at).is_none()) else {
                return Some(Err(call.resumes.first().and_then(errno).unwrap_or(0)));
            };
            places.push((resume, KernelPlace { closes: true, ..KernelPlace::default() }));
        }
        Some(Ok(places))
    }
}

/// The number of a system call with almost no work.
const fn libc_getppid() -> u32 {
    110
}

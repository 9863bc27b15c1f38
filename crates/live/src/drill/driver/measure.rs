//! Measures the nodes in a drill-down.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use wakepath_collect::{
    DrillCall, DrillCounts, DrillEdge, DrillNode, DrillPlan, Error as CollectError, Signals,
};
use wakepath_drilldown::{
    CallRecord, Event, FunctionId, InterruptTime, MeasuredNode, Measurement, NodeId, NodeRecord, OwnTime,
    Refusal, SiteId,
};
use wakepath_engine::drill::{DrilledNode, NotMeasured};
use wakepath_functions::{Operand, ProcessCallee, Return};

use super::functions::is_stepped;
use super::kernel::is_kernel;
use super::python::is_python;
use super::unmeasured::{Callee, reason};
use super::{Driver, Known, cost_of, kind};
use crate::drill::{DrillError, DrillProgress};

/// The interval between counts for watched calls: the kernel single-steps each.
const LOOK_AT_STEPS: Duration = Duration::from_millis(5);

/// The time limit for watching indirect calls before their targets are measured.
const WATCH_FOR: Duration = Duration::from_secs(2);

impl Driver<'_> {
    /// The call, with the machine's node ids.
    pub(super) fn record(&self, call: DrillCall) -> CallRecord {
        let nodes = call.nodes.into_iter().filter_map(|times| {
            let node = *self.search.slots.get(times.node as usize)?;
            Some(NodeRecord {
                node,
                max_ns: times.max,
                sum_ns: times.sum,
                count: times.count,
                own: own_time(&times),
                cost: self.cost(node).map(cost_of),
            })
        });
        let nodes = nodes.filter(|record| record.count > 0 || record.node == NodeId::F0).collect();
        CallRecord { epoch: self.search.epoch, latency_ns: call.latency, nodes, overflowed: false }
    }

    /// Removes all probes while `look` looks at the program: probes of a function that is called too often would be what its samples show.
    pub(in crate::drill) fn unprobed_while<T>(
        &mut self,
        look: impl FnOnce() -> T,
    ) -> Result<T, CollectError> {
        self.drill.remove_unneeded(|_| false);
        self.drill.see_returns(&[]);
        let probed = std::mem::take(&mut self.probed);
        let seen = look();
        self.probe_behind_calls();
        self.probe(probed)?;
        self.begin_budget();
        Ok(seen)
    }

    /// Puts probes on these functions, where they have none.
    pub(super) fn probe(&mut self, numbers: impl IntoIterator<Item = u32>) -> Result<(), CollectError> {
        let new: Vec<u32> = numbers.into_iter().filter(|number| !self.probed.contains(number)).collect();
        let probes: Vec<_> = new
            .iter()
            .filter_map(|&number| match self.functions.get(FunctionId(number))? {
                Known::Probed(found) if !is_kernel(found) && !is_python(found) => {
                    Some((number, &found.function.probe))
                }
                _ => None,
            })
            .collect();
        for (_, probe) in &probes {
            self.costs.entry(kind(probe)).or_insert_with(|| wakepath_collect::calibrate(probe));
        }
        let below = new.iter().filter(|&&number| number != 0);
        for found in below.filter_map(|&number| self.functions.get(FunctionId(number))) {
            if let Known::Probed(found) = found
                && is_stepped(found)
                && !self.search.stepped.contains(&found.function.readable)
            {
                self.search.stepped.push(found.function.readable.clone());
            }
        }
        if !probes.is_empty() {
            self.drill.probe(&probes)?;
        }
        self.probed.extend(new);
        self.search.most_probed = self.search.most_probed.max(self.probed.len());
        Ok(())
    }

    /// Leaves probes only on f0 and the measured nodes' functions: the callees that were not chosen would take most of
    /// a search's cost. Calls open meanwhile belong to an earlier plan.
    pub(super) fn probe_measured(&mut self) -> Result<(), CollectError> {
        let by_probes = self.search.measured.iter().filter(|node| !self.is_stubbed(node.node));
        let needed: BTreeSet<u32> = by_probes.filter_map(|node| Some(node.callee?.0)).collect();
        self.drill.remove_unneeded(|number| number == 0 || needed.contains(&number));
        let drill = &self.drill;
        self.probed.retain(|&number| drill.is_probed(number));
        self.probe_behind_calls();
        self.probe(needed)
    }

    /// Measures nodes. Returns the events that occurred meanwhile.
    pub(super) fn measure(
        &mut self,
        measurement: &Measurement,
        stop: &Signals,
        progress: &mut dyn FnMut(DrillProgress),
    ) -> Result<Vec<Event>, DrillError> {
        let mut events = Vec::new();
        for node in &measurement.nodes {
            let known =
                DrilledNode { parent: Some(node.parent), site: Some(node.site), function: node.callee };
            self.search.nodes.insert(node.node, known);
        }
        events.extend(self.watch_indirect(measurement, stop, progress)?);
        if !events.is_empty() {
            // A new measurement comes with the targets.
            self.search.epoch = measurement.epoch;
            return Ok(events);
        }
        let parents: BTreeSet<NodeId> = measurement.nodes.iter().map(|node| node.parent).collect();
        self.search.of = parents.iter().map(|&parent| self.names_to(parent)).collect();
        self.search.epoch = measurement.epoch;
        self.search.measured = measurement.nodes.clone();
        self.number_slots();
        events.extend(self.place_stubs()?);
        events.extend(self.leave_dear_out());
        self.pay_back(stop)?;
        self.probe_measured()?;
        events.extend(self.place_kernel()?);
        self.install()?;
        self.begin_budget();
        self.show(None, progress);
        Ok(events)
    }

    /// Shows the measured calls, and the calls so far and for the next decision.
    pub(super) fn show(&self, calls: Option<(u64, u64)>, progress: &mut dyn FnMut(DrillProgress)) {
        progress(DrillProgress::Measuring {
            sites: self.search.measured.len(),
            of: self.search.of.clone(),
            calls,
        });
    }

    /// The function names from f0 to a node.
    fn names_to(&self, node: NodeId) -> Vec<String> {
        let above = |node: &NodeId| self.search.nodes.get(node)?.parent;
        let mut path: Vec<String> = std::iter::successors(Some(node), above)
            .map(|node| self.name(node).unwrap_or_default())
            .collect();
        path.reverse();
        path
    }

    /// Goes on without some nodes and their probes.
    pub(super) fn measure_without(&mut self, gone: &[NodeId]) -> Result<(), CollectError> {
        self.search.measured.retain(|node| !gone.contains(&node.node));
        self.number_slots();
        // Stubs can still measure their nodes.
        self.place_stubs()?;
        self.probe_measured()?;
        self.place_kernel()?;
        self.install()?;
        self.begin_budget();
        Ok(())
    }

    /// Leaves out the nodes whose function's probes were too dear before.
    fn leave_dear_out(&mut self) -> Vec<Event> {
        let is_dear = |node: &MeasuredNode| {
            node.callee.is_some_and(|callee| self.budget.is_dear(callee.0)) && !self.is_stubbed(node.node)
        };
        let dear: Vec<NodeId> =
            self.search.measured.iter().filter(|node| is_dear(node)).map(|node| node.node).collect();
        if !dear.is_empty() {
            self.search.measured.retain(|node| !dear.contains(&node.node));
            self.number_slots();
        }
        dear.iter().for_each(|node| self.note_unmeasured(*node, NotMeasured::Budget));
        dear.into_iter().map(|node| Event::Refused { node, refusal: Refusal::Dear }).collect()
    }

    /// Numbers the measured nodes for the kernel and the stubs.
    pub(super) fn number_slots(&mut self) {
        self.search.slots = vec![NodeId::F0];
        self.search
            .slots
            .extend(self.search.measured.iter().filter(|node| node.callee.is_some()).map(|node| node.node));
    }

    /// A measured node's number there.
    pub(super) fn slot(&self, node: NodeId) -> Option<u32> {
        self.search.slots.iter().position(|it| *it == node).map(|slot| slot as u32)
    }

    /// Hands the measured nodes to the kernel.
    pub(super) fn install(&mut self) -> Result<(), CollectError> {
        let parents: BTreeSet<NodeId> = self.search.measured.iter().map(|node| node.parent).collect();
        let slot: HashMap<NodeId, u32> =
            self.search.slots.iter().zip(0..).map(|(&node, slot)| (node, slot)).collect();
        let mut edges = self.python_edges(&slot);
        for node in self.search.measured.clone() {
            let (Some(callee), Some(&parent), Some(&number)) =
                (node.callee, slot.get(&node.parent), slot.get(&node.node))
            else {
                continue;
            };
            let caller = self.search.nodes.get(&node.parent).and_then(|parent| parent.function);
            let Some(caller) = caller.filter(|_| !self.is_stubbed(node.node)) else { continue };
            let frame = self.frame(caller, node.site);
            let Some(site) = self.functions.site(caller, node.site) else { continue };
            let (function, returns_to) = (callee.0, site.returns_to);
            edges.push(DrillEdge { parent, function, returns_to, node: number, frame });
        }
        let callers =
            parents.iter().filter_map(|parent| Some(self.search.nodes.get(parent)?.function?.0)).collect();
        self.drill.measure(&DrillPlan {
            // Probes make calls longer; the machine subtracts their time before it checks whether a call lies within
            // the peak.
            peak: self.search.peak.from_ns..u64::MAX,
            edges,
            callers,
            wanted: self.wanted,
        })
    }

    /// Watches the indirect calls among these nodes for a while. Returns their targets.
    fn watch_indirect(
        &mut self,
        measurement: &Measurement,
        stop: &Signals,
        progress: &mut dyn FnMut(DrillProgress),
    ) -> Result<Vec<Event>, DrillError> {
        let mut new: Vec<(u32, PathBuf, u64, Operand)> = Vec::new();
        let mut of_kernel: Vec<(u32, u64, Operand)> = Vec::new();
        let mut of_system: Vec<(u32, u64)> = Vec::new();
        for node in measurement.nodes.iter().filter(|node| node.callee.is_none()) {
            let place = (node.parent, node.site);
            if self.search.watched.values().any(|places| places.contains(&place)) {
                continue;
            }
            let Some(caller) = self.search.nodes.get(&node.parent).and_then(|parent| parent.function) else {
                continue;
            };
            let (Some(site), Some(Known::Probed(function))) =
                (self.functions.site(caller, node.site), self.functions.get(caller))
            else {
                continue;
            };
            let number = self.watched_before + self.search.watched.len() as u32;
            if let (ProcessCallee::OfKernel, Some(behind)) = (&site.callee, site.returns_to) {
                of_system.push((number, behind));
                self.search.watched.insert(number, vec![place]);
                continue;
            }
            let ProcessCallee::Computed(operand) = site.callee else { continue };
            if is_kernel(function) {
                of_kernel.push((number, site.address, operand));
            } else {
                new.push((number, function.function.probe.file.clone(), site.offset, operand));
            }
            self.search.watched.insert(number, vec![place]);
        }
        let sites = new.len() + of_kernel.len() + of_system.len();
        if sites == 0 {
            return Ok(Vec::new());
        }
        progress(DrillProgress::Watching { sites });
        self.drill.watch(&new)?;
        self.kernel.watched += of_kernel.len() + of_system.len();
        self.drill.watch_system_calls(&of_system)?;
        self.drill.watch_kernel(&of_kernel)?;
        let began = Instant::now();
        let from = self.search.peak.from_ns.checked_ilog2().unwrap_or(0) as usize;
        let calls = |counts: &DrillCounts| counts.buckets.get(from..).unwrap_or_default().iter().sum::<u64>();
        let before = calls(&self.drill.counts()?);
        while began.elapsed() < WATCH_FOR && calls(&self.drill.counts()?) < before + self.wanted {
            std::thread::sleep(LOOK_AT_STEPS);
            if self.ended(stop).is_some() || self.steps_are_over_budget(began.elapsed()) {
                break;
            }
        }
        let targets = self.drill.targets();
        self.drill.watch_no_more();
        self.count_steps();
        let mut events = Vec::new();
        for (number, address, _) in targets {
            let is_system = of_system.iter().any(|(watched, _)| *watched == number);
            let is_new =
                new.iter().map(|(number, ..)| number).chain(of_kernel.iter().map(|(number, ..)| number));
            let places = self.search.watched.get(&number).cloned().unwrap_or_default();
            let callers: BTreeSet<FunctionId> =
                places.iter().filter_map(|(parent, _)| self.search.nodes.get(parent)?.function).collect();
            let found = if is_system {
                self.code.kernel().and_then(|kernel| kernel.system_call(address as u32))
            } else if is_new.copied().any(|watched| watched == number) {
                match self.code.function_at(address) {
                    Ok(found) => Some(found),
                    Err(refusal) => {
                        let why = reason(&refusal.why);
                        let function = self.number_refused(refusal);
                        for &caller in &callers {
                            self.leave_unmeasured(caller, Callee { function, why, is_target: true });
                        }
                        None
                    }
                }
            } else {
                None
            };
            let Some(found) = found else { continue };
            let is_unseen = |&(parent, site): &(NodeId, SiteId)| {
                let caller = self.search.nodes.get(&parent).and_then(|parent| parent.function);
                let site = caller.and_then(|caller| self.functions.site(caller, site));
                site.is_some_and(|site| self.is_return_unseen(&found, site))
            };
            let unseen = places.iter().any(is_unseen).then_some(Refusal::Unsafe);
            if let Some(refusal) = self.refusal(&found).or(unseen) {
                self.leave_out(&found, refusal);
                let why = match (refusal, unseen) {
                    (Refusal::SingleStep, _) => NotMeasured::SingleStep,
                    (_, Some(_)) => NotMeasured::Jump,
                    _ => NotMeasured::Unsafe,
                };
                let function = self.number_of(Box::new(found));
                for caller in callers {
                    self.leave_unmeasured(caller, Callee { function, why, is_target: true });
                }
                continue;
            }
            if found.function.probe.returns == Return::Never {
                continue;
            }
            let callee = self.number_of(Box::new(found));
            events.extend(places.into_iter().map(|(parent, site)| Event::Target { parent, site, callee }));
        }
        Ok(events)
    }
}

/// The time taken from a node while it was the innermost.
fn own_time(times: &DrillNode) -> OwnTime {
    let (number, longest) = times.longest;
    // The kernel keeps the sum over all interrupts, and the number of the longest.
    let interrupts = (longest > 0).then_some(InterruptTime { number, ns: times.interrupted });
    OwnTime {
        blocked_ns: times.blocked,
        preempted_ns: times.waited,
        stolen_ns: times.stolen,
        interrupts: interrupts.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_that_was_taken_from_a_node_has_its_own_place() {
        let times = DrillNode {
            blocked: 1,
            waited: 2,
            stolen: 3,
            interrupted: 40,
            longest: (236, 30),
            ..DrillNode::default()
        };
        let interrupts = vec![InterruptTime { number: 236, ns: 40 }];
        let expected = OwnTime { blocked_ns: 1, preempted_ns: 2, stolen_ns: 3, interrupts };
        assert_eq!(own_time(&times), expected);
        assert!(own_time(&DrillNode { longest: (236, 0), ..times }).interrupts.is_empty());
    }
}

//! A driver without a program: it obeys the effects, and checks them against their documentation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use wakepath_drilldown::{
    Drilldown, Effect, Event, FunctionId, LatencyRange, NoSites, NodeId, Parameters, ProbeCost, Refusal,
    Site, SiteId, Status,
};

use crate::program::{Call, Probes, record};

/// All latencies.
pub const ALL: LatencyRange = LatencyRange { from_ns: 0, to_ns: u64::MAX };

pub struct Driver {
    pub machine: Drilldown,
    pub cost: ProbeCost,
    sites: BTreeMap<FunctionId, Result<Vec<Site>, NoSites>>,
    /// The sites where probes are refused at their placement.
    pub unattachable: BTreeSet<SiteId>,
    max_nodes: usize,
    pub probes: Rc<Probes>,
    measured: BTreeSet<NodeId>,
    asked: BTreeSet<FunctionId>,
    pub finished: Option<Status>,
    /// The nodes in each measurement.
    pub measurements: Vec<Vec<NodeId>>,
    /// The effects not obeyed yet. An answer to an effect may have more, which come behind.
    effects: VecDeque<Effect>,
    is_obeying: bool,
}

impl Driver {
    pub fn new(
        f0: FunctionId,
        sites: BTreeMap<FunctionId, Result<Vec<Site>, NoSites>>,
        parameters: Parameters,
        cost: ProbeCost,
    ) -> Self {
        let max_nodes = parameters.max_nodes;
        let machine = Drilldown::new(f0, parameters, cost).unwrap();
        Self::resuming(machine, sites, max_nodes, cost)
    }

    pub fn resuming(
        machine: Drilldown,
        sites: BTreeMap<FunctionId, Result<Vec<Site>, NoSites>>,
        max_nodes: usize,
        cost: ProbeCost,
    ) -> Self {
        Self {
            machine,
            cost,
            sites,
            unattachable: BTreeSet::new(),
            max_nodes,
            probes: Rc::default(),
            measured: BTreeSet::new(),
            asked: BTreeSet::new(),
            finished: None,
            measurements: Vec::new(),
            effects: VecDeque::new(),
            is_obeying: false,
        }
    }

    /// Hands in an event and obeys the effects.
    pub fn handle(&mut self, event: Event) {
        self.effects.extend(self.machine.handle(event).unwrap());
        if !std::mem::replace(&mut self.is_obeying, true) {
            self.obey();
            self.is_obeying = false;
        }
    }

    fn obey(&mut self) {
        while let Some(effect) = self.effects.pop_front() {
            assert_eq!(self.finished, None, "nothing comes behind the end: {effect:?}");
            match effect {
                Effect::FindSites { function, .. } => {
                    assert!(self.asked.insert(function), "a function is asked about once");
                    let sites = self.sites.get(&function).cloned().unwrap_or(Err(NoSites::Leaf));
                    self.handle(Event::Sites { function, sites });
                }
                Effect::Measure(measurement) => {
                    let nodes = &measurement.nodes;
                    assert!(nodes.len() <= self.max_nodes, "{} nodes at a time", nodes.len());
                    assert!(measurement.epoch > self.probes.epoch);
                    let mut seen = BTreeSet::from([NodeId::F0]);
                    for node in nodes {
                        assert!(seen.contains(&node.parent), "a node is measured behind its parent");
                        assert!(seen.insert(node.node), "a node is measured once");
                    }
                    self.measured.extend(nodes.iter().map(|node| node.node));
                    self.probes = Rc::new(Probes::new(&measurement));
                    self.measurements.push(nodes.iter().map(|node| node.node).collect());
                    let refused: Vec<NodeId> = nodes
                        .iter()
                        .filter(|node| self.unattachable.contains(&node.site))
                        .map(|node| node.node)
                        .collect();
                    for node in refused {
                        self.measured.remove(&node);
                        Rc::make_mut(&mut self.probes).without(node);
                        self.handle(Event::Refused { node, refusal: Refusal::Kernel { errno: 22 } });
                    }
                }
                Effect::Remove { nodes } => {
                    for node in &nodes {
                        assert!(self.measured.remove(node), "only what is measured is removed");
                        Rc::make_mut(&mut self.probes).without(*node);
                    }
                    self.handle(Event::Removed { nodes });
                }
                Effect::Report => {}
                Effect::Finished(status) => {
                    assert!(self.measured.is_empty(), "probes are left: {:?}", self.measured);
                    self.finished = Some(status);
                }
            }
        }
    }

    /// Runs a call to f₀ under the current probes.
    pub fn call(&mut self, f0: &Call) {
        self.call_under(f0, &self.probes.clone());
    }

    /// Ends a call to f₀ that began under these probes.
    pub fn call_under(&mut self, f0: &Call, probes: &Probes) {
        let (record, targets) = record(f0, probes, self.cost);
        for (parent, site, callee) in targets {
            self.handle(Event::Target { parent, site, callee });
        }
        self.handle(Event::Call(record));
    }
}

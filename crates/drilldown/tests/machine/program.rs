//! Made-up executions: the calls inside one call to f₀, and the record that probes would make.

use std::collections::BTreeMap;

use wakepath_drilldown::{
    CallRecord, Epoch, FunctionId, InterruptTime, Measurement, NodeId, NodeRecord, OwnTime, ProbeCost, SiteId,
};

/// A function call: its own time, and the calls that it makes.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The function's number.
    pub function: u32,
    /// The call site's address.
    pub site: u64,
    /// The time in its own code, ns.
    pub own_ns: u64,
    /// The time in which it was blocked, ns.
    pub blocked_ns: u64,
    /// The time of preemptions in its own code, ns.
    pub preempted_ns: u64,
    /// The time that the hypervisor took from its own code, ns.
    pub stolen_ns: u64,
    /// The interrupts in its own code: number and ns.
    pub interrupts: Vec<(u32, u64)>,
    /// Its calls.
    pub calls: Vec<Call>,
}

impl Call {
    /// Its latency without any probe, ns.
    pub fn latency_ns(&self) -> u64 {
        self.without_calls_ns() + self.calls.iter().map(Call::latency_ns).sum::<u64>()
    }

    fn without_calls_ns(&self) -> u64 {
        let interrupts: u64 = self.interrupts.iter().map(|(_, ns)| ns).sum();
        self.own_ns + self.blocked_ns + self.preempted_ns + self.stolen_ns + interrupts
    }
}

/// An epoch's probes.
#[derive(Debug, Clone, Default)]
pub struct Probes {
    pub epoch: Epoch,
    nodes: BTreeMap<(NodeId, SiteId, Option<FunctionId>), NodeId>,
}

impl Probes {
    pub fn new(measurement: &Measurement) -> Self {
        let nodes = measurement.nodes.iter().map(|it| ((it.parent, it.site, it.callee), it.node));
        Self { epoch: measurement.epoch, nodes: nodes.collect() }
    }

    pub fn without(&mut self, node: NodeId) {
        self.nodes.retain(|_, &mut other| other != node);
    }
}

/// An indirect site's target without a node: its caller's node, the site, the function.
pub type Target = (NodeId, SiteId, FunctionId);

/// The record of one call to f₀, and the unknown targets met in it.
pub fn record(f0: &Call, probes: &Probes, cost: ProbeCost) -> (CallRecord, Vec<Target>) {
    let mut recorder = Recorder { probes, cost, nodes: BTreeMap::new(), targets: Vec::new() };
    let latency_ns = recorder.run(f0, Some(NodeId::F0), NodeId::F0);
    let nodes = recorder.nodes.into_values().filter(|it| it.node == NodeId::F0 || it.count > 0);
    let record = CallRecord { epoch: probes.epoch, latency_ns, nodes: nodes.collect(), overflowed: false };
    (record, recorder.targets)
}

struct Recorder<'a> {
    probes: &'a Probes,
    cost: ProbeCost,
    nodes: BTreeMap<NodeId, NodeRecord>,
    targets: Vec<Target>,
}

impl Recorder<'_> {
    /// Runs a call; returns its time with all probes inside it, ns.
    ///
    /// A call without a node has left the tree, with everything that it calls (Traeger 2008, section 3.11).
    fn run(&mut self, call: &Call, node: Option<NodeId>, innermost: NodeId) -> u64 {
        let own = &mut self.entry(innermost).own;
        own.blocked_ns += call.blocked_ns;
        own.preempted_ns += call.preempted_ns;
        own.stolen_ns += call.stolen_ns;
        own.interrupts.extend(call.interrupts.iter().map(|&(number, ns)| InterruptTime { number, ns }));
        let mut latency_ns = call.without_calls_ns();
        for callee in &call.calls {
            let site = SiteId { address: callee.site };
            let function = FunctionId(callee.function);
            let known = |callee| node.and_then(|node| self.probes.nodes.get(&(node, site, callee)).copied());
            let Some(child) = known(Some(function)).or_else(|| known(None)) else {
                latency_ns += self.run(callee, None, innermost);
                continue;
            };
            if known(Some(function)).is_none()
                && let Some(node) = node
            {
                self.targets.push((node, site, function));
            }
            let ns = self.run(callee, Some(child), child) + self.cost.inside_ns;
            let entry = self.entry(child);
            entry.max_ns = entry.max_ns.max(ns);
            entry.sum_ns += ns;
            entry.count += 1;
            latency_ns += ns + self.cost.outside_ns;
        }
        latency_ns
    }

    fn entry(&mut self, node: NodeId) -> &mut NodeRecord {
        self.nodes.entry(node).or_insert_with(|| NodeRecord {
            node,
            max_ns: 0,
            sum_ns: 0,
            count: 0,
            own: OwnTime::default(),
            cost: None,
        })
    }
}

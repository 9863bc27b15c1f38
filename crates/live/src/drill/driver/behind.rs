//! Callees that may leave by a jump: their returns are seen behind their calls.

use std::collections::BTreeMap;

use wakepath_collect::{Calibration, CallPlace, PlaceHits, SINGLE_STEP_NS};
use wakepath_drilldown::{FunctionId, MeasuredNode, NodeId, SiteKind};
use wakepath_functions::{ProbeMethod, ProcessFunction, ProcessSite, Return};

use super::{Driver, Known, kind};

/// A probe whose instruction the kernel emulates takes less than this, ns, as for a direct call.
const EMULATED_NS: u64 = 1_000;

/// The time for a hit at a call instruction, and for a hit behind it, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PlaceCost {
    at_call: u64,
    behind: u64,
}

impl PlaceCost {
    pub(super) const fn ns(self, hits: PlaceHits) -> u64 {
        hits.calls.saturating_mul(self.at_call).saturating_add(hits.returns.saturating_mul(self.behind))
    }
}

/// A probed call's time in two parts: at the entry, and behind the call, ns.
pub(super) fn parts(entry: ProbeMethod, cost: Option<Calibration>) -> (u64, u64) {
    let stepped = entry == ProbeMethod::SingleStepped;
    let whole = cost
        .map_or(SINGLE_STEP_NS + if stepped { SINGLE_STEP_NS } else { EMULATED_NS }, |cost| cost.per_call_ns);
    let at_entry = if stepped { whole / 2 } else { EMULATED_NS.min(whole / 2) };
    (at_entry, whole - at_entry)
}

impl Driver<'_> {
    /// Whether no probe can see the returns from calls at a site: the function may leave by a jump, and no probe fits behind the call. A function
    /// that is jumped to returns where its caller returns.
    pub(super) fn is_return_unseen(&self, callee: &ProcessFunction, site: &ProcessSite) -> bool {
        // Beside stubs, which put other return addresses in the place of the calls' own, only stubs measure such functions.
        is_seen_behind(callee) && (self.stubs.is_some() || site.returns_to.is_some() && site.behind.is_none())
    }

    /// The place at which a node's calls are seen to return; `None` where its function's probes see it, or its caller's do.
    fn call_place(&self, node: &MeasuredNode) -> Option<CallPlace> {
        let Known::Probed(callee) = self.functions.get(node.callee?)? else { return None };
        // f0's are learned, from all callers.
        if !is_seen_behind(callee) || node.callee == Some(FunctionId(0)) || self.is_stubbed(node.node) {
            return None;
        }
        let caller = self.search.nodes.get(&node.parent)?.function?;
        let site = self.functions.site(caller, node.site)?;
        let Known::Probed(caller) = self.functions.get(caller)? else { return None };
        Some(CallPlace {
            file: caller.function.probe.file.clone(),
            call: (site.offset, site.address),
            behind: (site.behind?, site.returns_to?),
        })
    }

    /// Puts probes at the calls whose returns are seen behind them.
    pub(super) fn probe_behind_calls(&mut self) {
        let mut places = Vec::new();
        for node in &self.search.measured {
            let Some(place) = self.call_place(node) else { continue };
            let cost = self.place_cost(node);
            self.budget.places.insert(place.behind.1, cost);
            places.push(place);
        }
        self.drill.see_returns(&places);
    }

    /// The measured nodes whose returns no probe sees any more: others' returns hit it too often, or the kernel refused it.
    pub(super) fn unseen_behind(&mut self) -> Vec<NodeId> {
        self.drill.refuse_strays();
        let is_unseen = |node: &&MeasuredNode| {
            self.call_place(node).is_some_and(|place| !self.drill.is_seen_behind(place.behind.1))
        };
        self.search.measured.iter().filter(is_unseen).map(|node| node.node).collect()
    }

    /// The same in a search: their functions get no probes any more, and this is said.
    pub(super) fn without_returns(&mut self) -> Vec<NodeId> {
        let unseen = self.unseen_behind();
        for node in &unseen {
            let function = self.search.nodes.get(node).and_then(|node| node.function);
            function.into_iter().for_each(|function| self.budget.leave_out(function.0));
            let name = self.name(*node).unwrap_or_default();
            self.note(format!(
                "{name} also leaves by a jump, and no probe sees when it returns: the kernel refused it, or the returns of other calls hit it too often; its time counts as its caller's own"
            ));
        }
        unseen
    }

    fn place_cost(&self, node: &MeasuredNode) -> PlaceCost {
        let at_call = match node.kind {
            SiteKind::Direct(_) => EMULATED_NS,
            _ => SINGLE_STEP_NS,
        };
        let behind = node.callee.map_or(SINGLE_STEP_NS, |callee| self.parts_of(callee.0).1);
        PlaceCost { at_call, behind }
    }

    /// A function's time for probes in two parts, ns.
    pub(super) fn parts_of(&self, function: u32) -> (u64, u64) {
        let Some(Known::Probed(found)) = self.functions.get(FunctionId(function)) else { return (0, 0) };
        let probe = &found.function.probe;
        parts(probe.method, self.costs.get(&kind(probe)).copied().flatten())
    }

    /// The time for the probe at a node's call instruction, ns.
    pub(super) fn at_call_ns(&self, node: NodeId) -> u64 {
        let node = self.search.measured.iter().find(|measured| measured.node == node);
        let place = node.and_then(|node| self.budget.places.get(&self.call_place(node)?.behind.1));
        place.map_or(0, |cost| cost.at_call)
    }

    /// Each place's time for probes so far, ns.
    pub(super) fn places_ns(&self) -> BTreeMap<u64, u64> {
        let ns = |(at, cost): (&u64, &PlaceCost)| (*at, cost.ns(self.drill.place_hits(*at)));
        self.budget.places.iter().map(ns).collect()
    }

    /// The functions whose returns are seen at each place now.
    pub(super) fn functions_by_place(&self) -> BTreeMap<u64, u32> {
        let place = |node: &MeasuredNode| Some((self.call_place(node)?.behind.1, node.callee?.0));
        // An indirect call's several functions share a place: the first stands for all.
        self.search.measured.iter().rev().filter_map(place).collect()
    }
}

/// Whether a function's returns are seen behind its calls.
pub(super) fn is_seen_behind(function: &ProcessFunction) -> bool {
    function.function.probe.returns == Return::AtCallers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hit_at_a_call_and_behind_it_belongs_to_the_cost() {
        let cost = PlaceCost { at_call: 1_000, behind: 20_000 };
        let hits = PlaceHits { calls: 7, returns: 3, strays: 2 };
        assert_eq!(cost.ns(hits), 67_000);
        assert_eq!(cost.ns(PlaceHits { calls: u64::MAX, ..hits }), u64::MAX);
    }

    #[test]
    fn a_probed_calls_time_is_that_at_its_entry_and_behind_it() {
        let calibrated = |per_call_ns| Some(Calibration { per_call_ns, shift: 0, other_process_ns: 0 });
        for (method, cost, expected) in [
            (ProbeMethod::Emulated, calibrated(19_000), (1_000, 18_000)),
            (ProbeMethod::Emulated, calibrated(500), (250, 250)),
            (ProbeMethod::SingleStepped, calibrated(38_000), (19_000, 19_000)),
            (ProbeMethod::Emulated, None, (1_000, 20_000)),
            (ProbeMethod::SingleStepped, None, (20_000, 20_000)),
        ] {
            assert_eq!(parts(method, cost), expected, "{method:?} {cost:?}");
        }
    }
}

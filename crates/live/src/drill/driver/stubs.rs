//! Calls measured by stubs in the process: direct calls at places with a known frame.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use wakepath_collect::{Calibration, Error as CollectError, Frame, StubNode, StubSite};
use wakepath_drilldown::{Event, FunctionId, MeasuredNode, NodeId, Refusal, SiteId, SiteKind};
use wakepath_engine::drill::NotMeasured;
use wakepath_functions::ProcessCallee;
use wakepath_unwind::{Base, Module, Rule};

use super::behind::is_seen_behind;
use super::{Driver, Known};

/// The state of a search's stubs.
#[derive(Default)]
pub(in crate::drill) struct StubsOfSearch {
    /// The nodes whose calls stubs measure now.
    pub nodes: BTreeSet<NodeId>,
    /// The sites with stubs, and the refused sites with the reason.
    pub sites: BTreeSet<(FunctionId, SiteId)>,
    pub refused: BTreeMap<(FunctionId, SiteId), String>,
    /// The tables for unwinding, by file.
    tables: BTreeMap<std::path::PathBuf, Option<Module>>,
}

impl Driver<'_> {
    /// Whether a stub can be put at a function's call site.
    pub(super) fn takes_stub(&self, caller: FunctionId, site: SiteId) -> bool {
        let Some(stubs) = &self.stubs else { return false };
        let Some(found) = self.functions.site(caller, site) else { return false };
        let is_known = |callee: &ProcessCallee| match callee {
            ProcessCallee::Function(callee) => {
                !callee.function.names.iter().any(|name| wakepath_collect::needs_its_return_address(name))
            }
            _ => false,
        };
        found.returns_to.is_some() && is_known(&found.callee) && !stubs.refused.contains_key(&(caller, site))
    }

    /// A function's frame at a site.
    pub(super) fn frame(&mut self, caller: FunctionId, site: SiteId) -> Frame {
        let Some(Known::Probed(function)) = self.functions.get(caller) else {
            return Frame::Unknown;
        };
        let Some(stubs) = &mut self.stubs else { return Frame::Unknown };
        let file = &function.function.probe.file;
        let table = stubs
            .tables
            .entry(file.clone())
            .or_insert_with(|| Some(Module::new(File::open(file).ok()?, false)));
        match table.as_ref().map(|table| table.place(site.address, true).rule) {
            Some(Rule::Frame { base: Base::Sp, words, .. }) => Frame::AboveStack(u64::from(words) * 8),
            Some(Rule::Frame { base: Base::Bp, words, .. }) => {
                Frame::AboveFramePointer(i64::from(words) * 8 - 8)
            }
            _ => Frame::Unknown,
        }
    }

    /// Puts stubs at the measured nodes' sites, where possible. Returns refusals for the nodes without a stub that may not be probed in
    /// another way.
    pub(super) fn place_stubs(&mut self) -> Result<Vec<Event>, CollectError> {
        if self.stubs.is_none() {
            return Ok(Vec::new());
        }
        let mut places: BTreeMap<(FunctionId, SiteId), (StubSite, Vec<NodeId>)> = BTreeMap::new();
        for node in self.search.measured.clone() {
            let Some(caller) = self.search.nodes.get(&node.parent).and_then(|parent| parent.function) else {
                continue;
            };
            if !matches!(node.kind, SiteKind::Direct(_)) || !self.takes_stub(caller, node.site) {
                continue;
            }
            let frame = self.frame(caller, node.site);
            let (Some(site), Some(Known::Probed(function))) =
                (self.functions.site(caller, node.site), self.functions.get(caller))
            else {
                continue;
            };
            let (Some(parent), Some(number)) = (self.slot(node.parent), self.slot(node.node)) else {
                continue;
            };
            if frame == Frame::Unknown {
                self.refuse_stub((caller, node.site), "no table for unwinding has its frame".to_owned());
                continue;
            }
            let file = function.function.probe.file.clone();
            let empty =
                StubSite { address: site.address, file, offset: site.offset, frame, nodes: Vec::new() };
            let (site, nodes) = places.entry((caller, node.site)).or_insert_with(|| (empty, Vec::new()));
            site.nodes.push(StubNode { parent, node: number });
            nodes.push(node.node);
        }
        let sites: Vec<StubSite> = places.values().map(|(site, _)| site.clone()).collect();
        let answers = self.drill.redirect(&sites)?;
        let Some(stubs) = &mut self.stubs else { return Ok(Vec::new()) };
        stubs.nodes.clear();
        for ((place, (_, nodes)), answer) in places.into_iter().zip(answers) {
            match answer {
                Ok(()) => {
                    stubs.sites.insert(place);
                    stubs.nodes.extend(nodes);
                }
                Err(why) => {
                    stubs.refused.insert(place, why.to_string());
                }
            }
        }
        Ok(self.refuse_dear())
    }

    fn refuse_stub(&mut self, place: (FunctionId, SiteId), why: String) {
        if let Some(stubs) = &mut self.stubs {
            stubs.refused.insert(place, why);
        }
    }

    /// Refuses nodes for which a stub was planned but is impossible, if the kernel would single-step their probes.
    fn refuse_dear(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for node in self.search.measured.clone() {
            let function = node.callee.and_then(|callee| self.functions.get(callee));
            let Some(Known::Probed(callee)) = function else { continue };
            let callee = callee.clone();
            if self.is_stubbed(node.node) || !matches!(node.kind, SiteKind::Direct(_)) {
                continue;
            }
            // Beside stubs, no probe sees it return behind its calls.
            let unseen = is_seen_behind(&callee).then_some(Refusal::Unsafe);
            let refusal = self.refusal(&callee).filter(|why| *why == Refusal::SingleStep).or(unseen);
            if let Some(refusal) = refusal {
                self.leave_out(&callee, refusal);
                let is_step = refusal == Refusal::SingleStep;
                let why = if is_step { NotMeasured::SingleStep } else { NotMeasured::Jump };
                self.note_unmeasured(node.node, why);
                events.push(Event::Refused { node: node.node, refusal });
            }
        }
        let is_refused = |node: &MeasuredNode| {
            events
                .iter()
                .any(|event| matches!(event, Event::Refused { node: refused, .. } if *refused == node.node))
        };
        self.search.measured.retain(|node| !is_refused(node));
        events
    }

    pub(super) fn is_stubbed(&self, node: NodeId) -> bool {
        self.stubs.as_ref().is_some_and(|stubs| stubs.nodes.contains(&node))
    }

    /// A stub's extra time.
    pub(super) fn stub_cost(&self) -> Option<Calibration> {
        let (whole, inside) = self.drill.stub_cost()?;
        Some(Calibration {
            per_call_ns: whole.ceil() as u64,
            other_process_ns: 0,
            shift: inside.ceil() as u64,
        })
    }

    /// Takes the stubs out. Returns sentences about the calls that they measured, and about the stubs still in use.
    pub(in crate::drill) fn end_stubs(&mut self) -> Vec<String> {
        let cost = self.stub_cost();
        let ended = self.drill.end_stubs();
        let (Some(stubs), Some(cost)) = (&self.stubs, cost) else { return Vec::new() };
        let calls = |count: usize| if count == 1 { "1 call".to_owned() } else { format!("{count} calls") };
        let left = match ended {
            _ if self.command_status.is_some() => "the process has ended".to_owned(),
            Ok(0) => "their code is as it was again".to_owned(),
            Ok(open) => format!(
                "their code is as it was again, and {} that are open return through stubs",
                calls(open)
            ),
            Err(why) => format!("their code could not be changed back: {why}"),
        };
        let count = calls(stubs.sites.len());
        let mut notes = vec![format!(
            "{count} in the code were measured by stubs in the process, {} ns each time; {left}",
            cost.per_call_ns
        )];
        if let Some(why) = stubs.refused.values().next() {
            notes.push(format!("{} had probes of the kernel instead: {why}", calls(stubs.refused.len())));
        }
        notes
    }
}

//! The calls below f0 that are not measured: the functions, and why.

use std::collections::HashMap;

use wakepath_drilldown::{
    Doubt, Drilldown, Effect, Event, FunctionId, NodeCause, NodeId, Refusal, RootCause,
};
use wakepath_engine::drill::{NotMeasured, Unmeasured};
use wakepath_functions::RefusalReason;

use super::{Driver, Known, handled};
use crate::drill::DrillError;

/// A function without probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Callee {
    pub function: FunctionId,
    pub why: NotMeasured,
    /// Whether a call by a pointer goes there: the machine does not know it.
    pub is_target: bool,
}

/// The reason by which a function was refused.
pub(super) const fn reason(why: &RefusalReason) -> NotMeasured {
    match why {
        RefusalReason::NotCode { .. } => NotMeasured::OutsideFiles,
        RefusalReason::NoInstruction { .. }
        | RefusalReason::NoBeginning
        | RefusalReason::Amid { .. }
        | RefusalReason::UnnamedPart => NotMeasured::NotDecoded,
        RefusalReason::Instruction { .. } => NotMeasured::Kernel,
        RefusalReason::GoReturns { .. }
        | RefusalReason::ExceptionReturns { .. }
        | RefusalReason::SwitchReturns { .. } => NotMeasured::Jump,
        RefusalReason::Ifunc { .. }
        | RefusalReason::LoopToEntry
        | RefusalReason::InnerNop
        | RefusalReason::Kernel { .. }
        | RefusalReason::Inside { .. }
        | RefusalReason::ColdPart { .. }
        | RefusalReason::ReturnsTwice
        | RefusalReason::NoGoroutine { .. } => NotMeasured::Unsafe,
    }
}

impl Driver<'_> {
    /// Reports to the machine that nodes lost their probes.
    pub(super) fn refuse(
        &mut self,
        machine: &mut Drilldown,
        nodes: Vec<NodeId>,
        why: NotMeasured,
        effects: &mut Vec<Effect>,
    ) -> Result<(), DrillError> {
        for node in nodes {
            self.note_unmeasured(node, why);
            effects.extend(handled(machine, Event::Refused { node, refusal: Refusal::Dear })?);
        }
        Ok(())
    }

    /// Keeps a callee without probes, for its caller's doubt.
    pub(super) fn note_unmeasured(&mut self, node: NodeId, why: NotMeasured) {
        let Some(known) = self.search.nodes.get(&node).copied() else { return };
        let caller = known.parent.and_then(|parent| self.search.nodes.get(&parent)?.function);
        if let (Some(caller), Some(function)) = (caller, known.function) {
            self.leave_unmeasured(caller, Callee { function, why, is_target: false });
        }
    }

    /// The same for a function that has no node.
    pub(super) fn leave_unmeasured(&mut self, caller: FunctionId, callee: Callee) {
        let all = self.search.unmeasured.entry(caller).or_default();
        if !all.contains(&callee) {
            all.push(callee);
        }
    }

    /// The callees without probes, for each node on these paths, and the reasons.
    pub(super) fn unmeasured(&self, paths: &[RootCause]) -> HashMap<NodeId, Vec<Unmeasured>> {
        let of = |node: NodeId| {
            let function = self.search.nodes.get(&node)?.function?;
            let mut named: Vec<Unmeasured> = Vec::new();
            for callee in self.search.unmeasured.get(&function)? {
                let function = self.functions.get(callee.function)?.shown().name;
                if !named.iter().any(|known| known.function == function) {
                    named.push(Unmeasured { function, why: callee.why });
                }
            }
            Some((node, named))
        };
        paths.iter().flat_map(|path| &path.path).filter_map(|node| of(*node)).collect()
    }

    /// A path that ends in a function which calls others by a pointer, without probes: they may have its time.
    pub(in crate::drill) fn with_targets(&self, mut path: RootCause) -> RootCause {
        let last = path.path.last().copied().unwrap_or_default();
        let callees = self.function_of(last).and_then(|function| self.search.unmeasured.get(&function));
        let targets = callees.into_iter().flatten().filter(|callee| callee.is_target).count() as u64;
        if targets == 0 || !matches!(path.cause, Some(NodeCause::Itself)) {
            return path;
        }
        let known = path.doubts.iter_mut().find_map(|doubt| match doubt {
            Doubt::SitesNotMeasured { node, sites } if *node == last => Some(sites),
            _ => None,
        });
        match known {
            // Their number is not known.
            Some(0) => {}
            Some(sites) => *sites = sites.saturating_add(targets),
            None => path.doubts.push(Doubt::SitesNotMeasured { node: last, sites: targets }),
        }
        path
    }

    /// A refused function's number.
    pub(super) fn number_refused(&mut self, refusal: wakepath_functions::Refusal) -> FunctionId {
        let key = super::Key::Named(refusal.file.clone(), refusal.name.clone());
        let why = refusal.why.to_string();
        self.number(key, || Known::Refused { name: refusal.name, file: refusal.file, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_the_reason_that_a_user_can_act_on() {
        let why = String::from("it also leaves by a jump to `g`");
        for (refusal, expected) in [
            (RefusalReason::NotCode { address: 1 }, NotMeasured::OutsideFiles),
            (RefusalReason::NoInstruction { address: 1 }, NotMeasured::NotDecoded),
            (RefusalReason::Instruction { instruction: String::from("f0") }, NotMeasured::Kernel),
            (RefusalReason::GoReturns { why }, NotMeasured::Jump),
            (RefusalReason::ReturnsTwice, NotMeasured::Unsafe),
        ] {
            assert_eq!(reason(&refusal), expected, "{refusal}");
        }
    }
}

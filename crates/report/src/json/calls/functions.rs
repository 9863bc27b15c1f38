//! The path to the function behind slow calls, by samples and waits, as JSON.

use serde::Serialize;
use wakepath_findings::{SampledDoubt, SampledPath};

use crate::wording;

#[derive(Serialize)]
pub(super) struct FunctionPathJson {
    /// The selected calls' samples and waits.
    samples: u64,
    waits: u64,
    /// A selected call's mean time less a usual call's, ns.
    more_ns: u64,
    /// Its part without a CPU, ready to run, ns.
    ready_ns: u64,
    /// Its part in the kernel's work for probes, ns.
    probes_ns: u64,
    /// The last function's own part, ns, and whether it waited there.
    own_ns: u64,
    own_waits: bool,
    /// The functions below the target; empty where the target itself has most, and where too little was seen.
    path: Vec<StepJson>,
    doubts: Vec<DoubtJson>,
}

#[derive(Serialize)]
struct StepJson {
    function: String,
    samples: u64,
    waits: u64,
    more_ns: u64,
}

#[derive(Serialize)]
struct DoubtJson {
    code: &'static str,
    /// The number of functions above the doubtful choice; null for doubts about all functions.
    depth: Option<usize>,
    /// The function that has nearly as much; null for the calling function itself.
    other: Option<String>,
    /// Samples and waits whose stacks do not show the target.
    unplaced: Option<u64>,
}

pub(super) fn functions(path: &SampledPath) -> FunctionPathJson {
    let ns = |ns: f64| ns.max(0.0).round() as u64;
    let SampledPath { steps, spent, more_ns, ready_ns, probes_ns, own_ns, waits, doubts, .. } = path;
    let is_enough = path.is_ranked();
    let steps = steps.iter().filter(|_| is_enough).map(|step| StepJson {
        function: wording::function(&step.frame),
        samples: step.spent.samples,
        waits: step.spent.waits,
        more_ns: ns(step.more_ns),
    });
    FunctionPathJson {
        samples: spent.samples,
        waits: spent.waits,
        more_ns: ns(*more_ns),
        ready_ns: ns(*ready_ns),
        probes_ns: ns(*probes_ns),
        own_ns: ns(*own_ns),
        own_waits: *waits,
        path: steps.collect(),
        doubts: doubts.iter().map(doubt).collect(),
    }
}

fn doubt(doubt: &SampledDoubt) -> DoubtJson {
    let none = DoubtJson { code: "few", depth: None, other: None, unplaced: None };
    match doubt {
        SampledDoubt::Few => none,
        SampledDoubt::Close(depth, other) => {
            let other = other.as_ref().map(wording::function);
            DoubtJson { code: "close", depth: Some(*depth), other, ..none }
        }
        SampledDoubt::Unplaced(lost, _) => DoubtJson { code: "unplaced", unplaced: Some(*lost), ..none },
    }
}

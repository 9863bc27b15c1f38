//! `wakepath.drill/1`: the function path behind a peak.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use wakepath_distribution::bounds;
use wakepath_engine::drill::{
    Contribution, Contributor, Decision, Doubt, Drilled, End, Foreign, HandedOver, NodeCause, NodeId,
    NotMeasured, Queued, RootCause, Sampled, SearchCost, Status, StopReason, Unmeasured,
};

use super::latency::{BucketJson, PeakJson, buckets};
use super::{text, write};

/// Writes the document for a drill-down; `explained_by` is the line of [`super::calls`] about the peak's calls, recorded before it.
pub fn drill(answer: &Drilled, explained_by: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let explained_by: Option<serde_json::Value> =
        explained_by.and_then(|line| serde_json::from_str(line).ok());
    let (pid, comm) = &answer.process;
    let peak = answer.peak.checked_sub(1).and_then(|index| answer.peaks.get(index));
    let tree = TreeJson::of(answer, NodeId::F0, 0);
    write(
        out,
        &DrillJson {
            schema: "wakepath.drill/1",
            target: &answer.target,
            pid: *pid,
            comm,
            count: answer.histogram.calls(),
            buckets: buckets(&answer.histogram),
            peaks: answer.peaks.iter().copied().map(PeakJson::new).collect(),
            peak: peak.map(|peak| PeakOfDrill {
                number: answer.peak,
                from_ns: *bounds(peak.from_bucket).start(),
                to_ns: *bounds(peak.to_bucket).end(),
                count: peak.count,
            }),
            phases: answer.phases.as_ref().map(|phases| PhasesJson {
                begins: phases.marks.begins.as_deref(),
                ends: phases.marks.ends.as_deref(),
                began: phases.began,
            }),
            handed_over: answer.handed_over.as_ref().map(HandedOverJson::of),
            status: status(answer.status),
            tree,
            root_causes: answer.root_causes.iter().map(|cause| names(answer, &cause.path)).collect(),
            causes: answer.root_causes.iter().map(|cause| CauseJson::of(answer, cause)).collect(),
            decisions: answer.decisions.iter().map(DecisionJson::of).collect(),
            elapsed_ns: u64::try_from(answer.elapsed.as_nanos()).unwrap_or(u64::MAX),
            calls: answer.calls,
            most_probed: answer.most_probed,
            cost: CostJson::of(&answer.cost),
            probe_ns: answer.probe.map(|probe| probe.per_call_ns),
            notes: &answer.notes,
            explained_by,
        },
    )
}

#[derive(Serialize)]
struct DrillJson<'a> {
    schema: &'static str,
    target: &'a str,
    pid: u32,
    comm: &'a str,
    count: u64,
    buckets: Vec<BucketJson>,
    peaks: Vec<PeakJson>,
    peak: Option<PeakOfDrill>,
    /// Null if all the program's time counts.
    phases: Option<PhasesJson<'a>>,
    /// Null unless only calls with handed-over requests count.
    handed_over: Option<HandedOverJson<'a>>,
    status: &'static str,
    tree: TreeJson,
    /// The function names on each path, from the target down.
    root_causes: Vec<Vec<String>>,
    /// The same paths, in the same order, with the cause of the time at their ends.
    causes: Vec<CauseJson>,
    decisions: Vec<DecisionJson>,
    elapsed_ns: u64,
    calls: u64,
    most_probed: usize,
    cost: CostJson,
    /// The extra time of a probed call; null if it could not be measured.
    probe_ns: Option<u64>,
    notes: &'a [String],
    /// The document by `path --call --json` about the peak's calls; null if none were recorded.
    explained_by: Option<serde_json::Value>,
}

/// The search's cost to the program.
#[derive(Serialize)]
struct CostJson {
    /// The probes' time.
    probes_ns: u64,
    of_machine: f64,
    elapsed_ns: u64,
    /// The mean for calls at least as long as the peak's; 0 without such calls.
    slow_call_before_ns: u64,
    slow_call_meanwhile_ns: u64,
}

impl CostJson {
    fn of(cost: &SearchCost) -> Self {
        Self {
            probes_ns: cost.ns,
            of_machine: cost.of_machine,
            elapsed_ns: u64::try_from(cost.elapsed.as_nanos()).unwrap_or(u64::MAX),
            slow_call_before_ns: cost.call_before_ns,
            slow_call_meanwhile_ns: cost.call_meanwhile_ns,
        }
    }
}

#[derive(Serialize)]
struct PhasesJson<'a> {
    /// Null if phases begin at once.
    begins: Option<&'a str>,
    /// Null if phases end with the program.
    ends: Option<&'a str>,
    began: u64,
}

#[derive(Serialize)]
struct HandedOverJson<'a> {
    by: &'a str,
    /// The numbers of the arguments that are the request: in `by`, and in the target.
    argument: u32,
    request: u32,
    /// Null for calls from anywhere.
    within: Option<&'a str>,
    requests: u64,
    /// Requests that were not followed, because too many had not begun.
    not_followed: u64,
    begun: QueuedJson,
    in_peak: QueuedJson,
    /// Calls to the target that began with another argument.
    others: u64,
}

#[derive(Serialize)]
struct QueuedJson {
    requests: u64,
    /// From the hand-over to the beginning, on average; null without requests.
    mean_ns: Option<u64>,
}

impl<'a> HandedOverJson<'a> {
    fn of(handed_over: &'a HandedOver) -> Self {
        let queued = |of: Queued| QueuedJson { requests: of.requests, mean_ns: of.mean_ns() };
        let HandedOver { way, requests, not_followed, begun, in_peak, others } = handed_over;
        Self {
            by: &way.by,
            argument: way.argument,
            request: way.request,
            within: way.within.as_deref(),
            requests: *requests,
            not_followed: *not_followed,
            begun: queued(*begun),
            in_peak: queued(*in_peak),
            others: *others,
        }
    }
}

#[derive(Serialize)]
struct PeakOfDrill {
    number: usize,
    from_ns: u64,
    to_ns: u64,
    count: u64,
}

#[derive(Serialize)]
struct TreeJson {
    node: u32,
    /// Null for an indirect call's unknown targets.
    name: Option<String>,
    file: Option<String>,
    /// The reason why the function has no probe; null if it has one.
    refused: Option<String>,
    /// The call's offset in the caller's file; null for the target.
    site: Option<u64>,
    /// The call's source line, on a path; null without debug information.
    line: Option<String>,
    children: Vec<TreeJson>,
}

impl TreeJson {
    /// A node with all nodes below. A node's number is above its parent's, so that this ends.
    fn of(answer: &Drilled, node: NodeId, depth: usize) -> Self {
        let known = answer.nodes.get(&node);
        let function = known.and_then(|known| answer.functions.get(known.function?.0 as usize));
        let mut below: Vec<NodeId> = answer
            .nodes
            .iter()
            .filter(|(child, known)| known.parent == Some(node) && **child > node && depth < DEEPEST)
            .map(|(child, _)| *child)
            .collect();
        below.sort_unstable();
        Self {
            node: node.0,
            name: function.map(|function| function.name.clone()),
            file: function.map(|function| text(function.file.as_os_str().as_bytes())),
            refused: function.and_then(|function| function.refused.clone()),
            site: known.and_then(|known| known.site).map(|site| site.address),
            line: answer.lines.get(&node).map(|(file, line)| format!("{file}:{line}")),
            children: below.into_iter().map(|child| Self::of(answer, child, depth + 1)).collect(),
        }
    }
}

/// The maximum depth of a shown tree.
const DEEPEST: usize = 100;

#[derive(Serialize)]
struct CauseJson {
    /// `itself`, `loop`, `preempted`, `interrupt`, `stolen`, `unknown target`; null if unknown.
    cause: Option<&'static str>,
    /// For `loop`: the function called so often.
    callee: Option<String>,
    /// For `loop`: the number of calls.
    times: Option<u64>,
    /// For `interrupt`: its number.
    interrupt: Option<u32>,
    /// The reason why the path ends there; null while it is examined.
    end: Option<&'static str>,
    /// The mean time of the cause in the peak's calls.
    ns: u64,
    /// The part in which the function waited itself.
    blocked_ns: u64,
    /// Those calls' latency.
    of_ns: u64,
    /// From 0 to 1.
    confidence: f64,
    levels: Vec<LevelJson>,
    doubts: Vec<&'static str>,
    /// The callees without probes on the path.
    unmeasured: Vec<UnmeasuredJson>,
    /// The code sites at which samples found the path's last function; null if it was not sampled, because it
    /// waits.
    sampled: Option<SampledJson>,
}

#[derive(Serialize)]
struct UnmeasuredJson {
    function: String,
    /// The caller's node.
    called_by: u32,
    /// The kind of the reason, as earlier versions have it.
    why: &'static str,
    reason: &'static str,
    /// The most time that the caller's unmeasured calls may hold together in a call: its own; null before a decision.
    at_most_ns: Option<u64>,
}

impl UnmeasuredJson {
    fn of(answer: &Drilled, called_by: NodeId, one: &Unmeasured) -> Self {
        let (why, reason) = match one.why {
            NotMeasured::SingleStep => ("single_step", "single_step"),
            NotMeasured::Jump => ("unsafe", "jump"),
            NotMeasured::OutsideFiles => ("unsafe", "outside_files"),
            NotMeasured::NotDecoded => ("unsafe", "not_decoded"),
            NotMeasured::Unsafe => ("unsafe", "unsafe"),
            NotMeasured::Kernel => ("kernel", "kernel"),
            NotMeasured::TooOften => ("dear", "too_often"),
            NotMeasured::Budget => ("dear", "budget"),
        };
        let at_most_ns = answer.own_ns(called_by);
        Self { function: text(one.function.as_bytes()), called_by: called_by.0, why, reason, at_most_ns }
    }
}

#[derive(Serialize)]
struct SampledJson {
    samples: u64,
    /// The peak's calls with samples.
    calls: u64,
    /// Places, most samples first.
    places: Vec<SampledPlaceJson>,
}

#[derive(Serialize)]
struct SampledPlaceJson {
    /// The function, or a function that it calls; without a name, its file.
    function: String,
    /// Its source line; null without debug information.
    line: Option<String>,
    samples: u64,
}

impl SampledJson {
    fn of(sampled: &Sampled) -> Self {
        let places = sampled.places.iter().map(|place| SampledPlaceJson {
            function: place.function.clone(),
            line: place.line.as_ref().map(|(file, line)| format!("{file}:{line}")),
            samples: place.samples,
        });
        Self { samples: sampled.samples, calls: sampled.calls, places: places.collect() }
    }
}

#[derive(Serialize)]
struct LevelJson {
    node: u32,
    calls: u64,
    votes: u64,
    runner_up: u64,
}

impl CauseJson {
    fn of(answer: &Drilled, cause: &RootCause) -> Self {
        let (mut callee, mut times, mut interrupt) = (None, None, None);
        let kind = cause.cause.map(|kind| match kind {
            NodeCause::Itself => "itself",
            NodeCause::Loop { callee: node, calls } => {
                (callee, times) = (Some(name(answer, node)), Some(calls));
                "loop"
            }
            NodeCause::Preempted { .. } => "preempted",
            NodeCause::Interrupt { number, .. } => {
                interrupt = Some(number);
                "interrupt"
            }
            NodeCause::Stolen { .. } => "stolen",
            NodeCause::UnknownTarget => "unknown target",
        });
        let levels = cause.levels.iter().map(|level| LevelJson {
            node: level.node.0,
            calls: level.calls,
            votes: level.chosen,
            runner_up: level.runner_up,
        });
        Self {
            cause: kind,
            callee,
            times,
            interrupt,
            end: cause.end.map(end),
            ns: cause.ns,
            blocked_ns: cause.blocked_ns,
            of_ns: cause.f0_ns,
            confidence: cause.confidence,
            levels: levels.collect(),
            doubts: cause.doubts.iter().map(doubt).collect(),
            unmeasured: cause
                .path
                .iter()
                .flat_map(|node| answer.unmeasured.get(node).into_iter().flatten().map(|one| (*node, one)))
                .map(|(node, one)| UnmeasuredJson::of(answer, node, one))
                .collect(),
            sampled: cause.path.last().and_then(|last| answer.sampled.get(last)).map(SampledJson::of),
        }
    }
}

#[derive(Serialize)]
struct DecisionJson {
    node: u32,
    /// The target's calls with a vote.
    calls: u64,
    /// The calls whose vote depends on the probes' time.
    unsure: u64,
    not_measured: u64,
    contributors: Vec<ContributorJson>,
}

#[derive(Serialize)]
struct ContributorJson {
    /// `itself`, `callee`, `preempted`, `interrupt`, `stolen`.
    of: &'static str,
    /// A callee's node.
    node: Option<u32>,
    /// An interrupt's number.
    interrupt: Option<u32>,
    votes: u64,
    mean_ns: u64,
    chosen: bool,
}

impl DecisionJson {
    fn of(decision: &Decision) -> Self {
        let contributor = |one: &Contribution| {
            let (of, node, interrupt) = match one.contributor {
                Contributor::Itself => ("itself", None, None),
                Contributor::Callee(node) => ("callee", Some(node.0), None),
                Contributor::Foreign(Foreign::Preemption) => ("preempted", None, None),
                Contributor::Foreign(Foreign::Steal) => ("stolen", None, None),
                Contributor::Foreign(Foreign::Interrupt(number)) => ("interrupt", None, Some(number)),
            };
            let Contribution { maxcount: votes, mean_ns, chosen, .. } = *one;
            ContributorJson { of, node, interrupt, votes, mean_ns, chosen }
        };
        Self {
            node: decision.node.0,
            calls: decision.votes,
            unsure: decision.unsure,
            not_measured: decision.not_measured,
            contributors: decision.contributors.iter().map(contributor).collect(),
        }
    }
}

fn names(answer: &Drilled, path: &[NodeId]) -> Vec<String> {
    path.iter().map(|&node| name(answer, node)).collect()
}

/// The name of a node's function; `?` if unknown.
fn name(answer: &Drilled, node: NodeId) -> String {
    let function = answer.nodes.get(&node).and_then(|node| node.function);
    let found = function.and_then(|function| answer.functions.get(function.0 as usize));
    found.map_or_else(|| String::from("?"), |function| function.name.clone())
}

const fn status(status: Status) -> &'static str {
    match status {
        Status::Counting => "counting",
        Status::InProgress => "in progress",
        Status::MaxDepthReached => "maximum depth reached",
        Status::RootCauseFound => "root cause found",
        Status::EndsEarly => "path ends early",
        Status::Stopped(reason) => match reason {
            StopReason::User => "stopped: by the user",
            StopReason::ProgramEnded => "stopped: the process ended",
            StopReason::Budget => "stopped: the time is over",
            StopReason::Unloaded => "stopped: the code was unloaded",
            StopReason::NoSuchPeak { .. } => "stopped: no such peak",
            StopReason::NotSeen => "stopped: the functions were not called any more",
            StopReason::TreeFull => "stopped: the tree is full",
        },
    }
}

const fn end(end: End) -> &'static str {
    match end {
        End::Itself => "itself",
        End::NoCallees(_) => "no callees",
        End::MaxDepth => "maximum depth",
        End::BelowMinBucket => "below the lowest bucket",
        End::UnknownTarget => "unknown target",
        End::NotSeen => "not called any more",
        End::Stopped => "stopped",
    }
}

const fn doubt(doubt: &Doubt) -> &'static str {
    match doubt {
        Doubt::CloseVotes { .. } => "close votes",
        Doubt::NoMajority { .. } => "no majority",
        Doubt::FewCalls { .. } => "few calls",
        Doubt::ProbeCost { .. } => "probe cost",
        Doubt::PeakShift { .. } => "peak shift",
        Doubt::SitesNotMeasured { .. } => "call sites not measured",
        Doubt::UnknownTargets { .. } => "unknown targets",
        Doubt::LeftOut { .. } => "left out",
        Doubt::CallsMissing { .. } => "calls missing",
        Doubt::Drift(_) => "drift",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::json::shape::{document, golden};
    use crate::sample;

    #[test]
    fn documents_keep_the_contract() {
        let mut answer = sample::drilled();
        let document = document(include_str!("../../contract/drill.txt"), |out| {
            drill(&answer, None, out)?;
            assert!(out.is_ascii(), "nothing that turns a terminal's text around");
            Ok(())
        });
        golden(&document, &expect_test::expect_file!["../../tests/golden/drill.json"]);
        assert_eq!(document["root_causes"][0], json!(["serve", "look_up\u{1b}[2J", "read_block"]));
        assert_eq!(document["peak"]["number"], 2);
        let children = &document["tree"]["children"][0]["children"];
        let names: Vec<_> = (0..3).map(|child| children[child]["name"].clone()).collect();
        assert_eq!(names, [json!("read_block"), json!("memcpy"), json!(null)]);
        assert_eq!(children[1]["refused"], "an IFUNC");
        let causes = &document["causes"];
        assert_eq!((&causes[0]["callee"], &causes[0]["blocked_ns"]), (&json!(null), &json!(3_800_000)));
        assert_eq!((&causes[1]["callee"], &causes[1]["times"]), (&json!("memcpy"), &json!(20_000)));
        assert_eq!(causes[1]["doubts"], json!(["close votes", "few calls"]));
        let chosen = json!({"of": "callee", "node": 1, "interrupt": null, "votes": 20, "mean_ns": 3_900_000, "chosen": true});
        assert_eq!(document["decisions"][0]["contributors"][1], chosen);
        assert_eq!(document["decisions"][0]["contributors"][3]["of"], "preempted");
        assert_eq!(causes[0]["levels"][1], json!({"node": 1, "calls": 20, "votes": 19, "runner_up": 0}));
        answer.status = Status::Stopped(StopReason::Budget);
        answer.root_causes[0].cause = Some(NodeCause::Interrupt { number: 236, spread: false });
        answer.root_causes[1].cause = Some(NodeCause::Loop { callee: NodeId(2), calls: 7 });
        let document = super::super::shape::document(include_str!("../../contract/drill.txt"), |out| {
            drill(&answer, None, out)
        });
        assert_eq!(document["status"], "stopped: the time is over");
        assert_eq!(document["causes"][0]["interrupt"], 236);
        assert_eq!(document["causes"][1]["callee"], "read_block");
    }
}

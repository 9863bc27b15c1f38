//! The causes of a peak's calls, as JSON.

mod functions;
mod rows;

use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::requests::Parked;
use wakepath_engine::{CallsAnswer, Ender, EndersRequest, FunctionStacks, Group, PathAnswer, Which};
use wakepath_findings::{CallCause, CallCausePart, CauseTree, Code, Evidence, PerGroup, Sum, Tally};

use super::goroutine::reason_in_words;
use super::head::{HeadJson, since_origin};
use super::latency::{BucketJson, PeakJson, buckets, peaks};
use super::path::{FirstScreenJson, MAX_FUNCTIONS};
use super::text;
use crate::escape::escape;
use crate::wording;
use functions::{FunctionPathJson, functions};
use rows::{CallRowJson, headline, rows};

#[derive(Serialize)]
pub(super) struct CallsJson {
    #[serde(flatten)]
    head: HeadJson,
    target: String,
    unit: &'static str,
    buckets: Vec<BucketJson>,
    peaks: Vec<PeakJson>,
    left: u64,
    open: u64,
    moved: u64,
    /// Null if the probes stayed until the end.
    unprobed_after_ns: Option<u64>,
    of_goroutines: bool,
    /// The explained calls, usual calls included, whose path is their goroutine's.
    followed: u64,
    /// The time in which the explained calls' goroutines did not run, by reason.
    goroutine_waits: Vec<GoroutineWaitJson>,
    asked: GroupJson,
    /// Null without other calls.
    usual: Option<GroupJson>,
    /// The path to the function behind the difference, by samples and waits; null for goroutines and requests.
    functions: Option<FunctionPathJson>,
    #[serde(flatten)]
    screen: FirstScreenJson<CallRowJson>,
    causes: Vec<CauseJson>,
    /// The calls' cause tree: parents before their children.
    tree: Vec<NodeJson>,
    /// The selected calls with an explanation.
    calls: Vec<CallJson>,
}

#[derive(Serialize)]
struct GoroutineWaitJson {
    state: &'static str,
    /// In the words of Go's runtime.
    reason: Option<String>,
    total_ns: u64,
    times: u64,
    /// The goroutine that ended most of this time.
    ended_by: Option<EnderJson>,
}

#[derive(Serialize)]
struct EnderJson {
    goroutine: u64,
    /// The function in which it began; null if unknown.
    function: Option<String>,
    /// The thread that ran it then.
    tid: u32,
    comm: String,
    total_ns: u64,
    /// The request for which it worked, most of this time; null if unknown.
    request: Option<EndersRequestJson>,
}

#[derive(Serialize)]
struct EndersRequestJson {
    trace_id: String,
    span_id: String,
    service: String,
    operation: String,
    total_ns: u64,
}

fn goroutine_waits(answer: &CallsAnswer) -> Vec<GoroutineWaitJson> {
    let Some(recorded) = answer.asked.paths.first().map(|path| path.recorded) else { return Vec::new() };
    let wait = |parked: &Parked<Ender>| {
        let (state, reason) = reason_in_words(&parked.reason);
        let ended_by = parked.ended_by.as_ref().map(|(ender, total_ns)| {
            let Ender { number, function, thread, at, request } = ender;
            let thread = recorded.thread_at(*thread, *at);
            EnderJson {
                goroutine: *number,
                function: function.as_ref().and_then(wording::function_name),
                tid: thread.tid.number(),
                comm: wording::comm(thread.comm),
                total_ns: *total_ns,
                request: request.as_ref().map(enders_request),
            }
        });
        GoroutineWaitJson { state, reason, total_ns: parked.total_ns, times: parked.times, ended_by }
    };
    answer.parked.iter().map(wait).collect()
}

fn enders_request(request: &EndersRequest) -> EndersRequestJson {
    EndersRequestJson {
        trace_id: request.trace.to_string(),
        span_id: request.span.to_string(),
        service: escape(request.operation.service.as_bytes()),
        operation: escape(request.operation.name.as_bytes()),
        total_ns: request.total_ns,
    }
}

#[derive(Serialize)]
struct CallJson {
    tid: u32,
    from_ns: i64,
    to_ns: i64,
    /// Its largest cause; null for a call of length 0.
    first: Option<FirstJson>,
}

#[derive(Serialize)]
struct FirstJson {
    #[serde(rename = "type")]
    kind: &'static str,
    what: String,
    ns: u64,
}

#[derive(Serialize)]
struct GroupJson {
    /// From 1 on; null unless calls were selected by their peak.
    peak: Option<usize>,
    calls: u64,
    explained: usize,
    mean_ns: u64,
}

#[derive(Serialize)]
struct NodeJson {
    /// Its index in the list.
    id: usize,
    parent: Option<usize>,
    /// Null for the thread that made the call.
    who: Option<String>,
    call: Option<String>,
    via: Option<&'static str>,
    #[serde(flatten)]
    total: SumJson,
    /// Code sites where the waits above began, and were ended.
    code: Vec<CodeJson>,
    /// The causes of their own time.
    own: Vec<OwnJson>,
}

#[derive(Serialize)]
struct OwnJson {
    kind: &'static str,
    /// The responsible cause; null for the thread itself.
    #[serde(rename = "type")]
    responsible: Option<&'static str>,
    what: String,
    #[serde(flatten)]
    total: SumJson,
    code: Vec<CodeJson>,
}

#[derive(Serialize)]
struct SumJson {
    /// The selected calls' time, ns per call.
    asked_ns: f64,
    /// The number of selected calls with this time.
    asked_calls: u64,
    usual_ns: f64,
    usual_calls: u64,
}

#[derive(Serialize)]
struct CauseJson {
    #[serde(rename = "type")]
    kind: &'static str,
    what: String,
    asked_ns: f64,
    usual_ns: f64,
    first_in: u64,
    /// The part of `asked_ns` timed at both ends.
    asked_measured_ns: f64,
    parts: Vec<PartJson>,
    code: Vec<CodeJson>,
}

/// A part of a cause, at the end of the wait chain.
#[derive(Serialize)]
struct PartJson {
    /// Null if the cause has it.
    kind: Option<&'static str>,
    #[serde(rename = "type")]
    responsible: Option<&'static str>,
    what: String,
    asked_ns: f64,
    usual_ns: f64,
    code: Vec<CodeJson>,
}

/// A function in which threads were seen, in the selected calls.
#[derive(Serialize)]
struct CodeJson {
    /// `samples` while running, or `waits` that began there, or `wakeups` made there.
    of: &'static str,
    count: u64,
    /// The number of all such samples, waits or wake-ups.
    total: u64,
    function: String,
    /// Its caller, as text.
    caller: Option<String>,
}

/// Writes an answer about calls.
///
/// # Errors
/// Write errors on `out`.
pub fn calls(answer: &CallsAnswer, out: &mut dyn Write) -> io::Result<()> {
    super::write(out, &document(answer, "wakepath.calls/1", None))
}

/// A process's time in a function whose calls are not known: its waits as calls, and who they are.
#[derive(Serialize)]
struct FunctionStacksJson {
    #[serde(flatten)]
    waits: CallsJson,
    pid: u32,
    comm: Option<String>,
    /// The recorded time, ns.
    recorded_ns: u64,
    /// All samples of the process.
    process_samples: u64,
}

/// Writes an answer about a function whose calls are not known.
///
/// # Errors
/// Write errors on `out`.
pub fn function_stacks(answer: &FunctionStacks, out: &mut dyn Write) -> io::Result<()> {
    let mut waits = document(&answer.waits, "wakepath.function_stacks/1", None);
    waits.functions = Some(functions(&answer.path));
    let (pid, comm) = &answer.process;
    super::write(
        out,
        &FunctionStacksJson {
            waits,
            pid: pid.number(),
            comm: comm.map(wording::comm),
            recorded_ns: answer.window_ns,
            process_samples: answer.samples,
        },
    )
}

/// A document about calls, with a schema's name and the next command.
pub(super) fn document(answer: &CallsAnswer, schema: &'static str, next: Option<Vec<String>>) -> CallsJson {
    let usual = answer.usual.as_ref();
    let group = |peak, Group { calls, paths }: &Group<'_>| GroupJson {
        peak,
        calls: *calls,
        explained: paths.len(),
        mean_ns: paths.iter().map(PathAnswer::window_ns).sum::<u64>() / paths.len().max(1) as u64,
    };
    let peak = match answer.which {
        Which::Peak(peak) => Some(peak),
        Which::Above(_) | Which::Between(..) | Which::Slowest(_) | Which::All => None,
    };
    let names = answer.asked.paths.first().map(PathAnswer::evidence);
    CallsJson {
        head: HeadJson::new(schema, &answer.head),
        target: text(answer.target.bytes()),
        unit: "ns",
        buckets: buckets(&answer.histogram),
        peaks: peaks(&answer.histogram),
        left: answer.unwound,
        open: answer.open,
        moved: answer.moved,
        unprobed_after_ns: answer.unprobed_after,
        of_goroutines: answer.of_goroutines,
        followed: answer.followed,
        goroutine_waits: goroutine_waits(answer),
        asked: group(peak, &answer.asked),
        usual: usual.map(|(peak, usual)| group(*peak, usual)),
        functions: answer.sampled_path().as_ref().map(functions),
        screen: FirstScreenJson { headline: headline(answer), rows: rows(answer), next },
        causes: answer.causes().map(|one| cause(one, answer.asked.paths.len())).collect(),
        tree: names.map_or(Vec::new(), |names| tree(&names, &answer.tree())),
        calls: answer.asked.paths.iter().map(call).collect(),
    }
}

fn cause((cause, evidence): (&CallCause, Evidence<'_>), calls: usize) -> CauseJson {
    let (evidence, (_, row)) = (&evidence, &cause.example);
    let part = |part: &CallCausePart| PartJson {
        kind: part.end.activity.as_ref().map(|end| end.kind.name()),
        responsible: part.end.activity.as_ref().and_then(|end| wording::blamed_code(evidence, &end.blamed)),
        what: wording::end(evidence, &cause.key, part),
        asked_ns: part.mean_ns.asked,
        usual_ns: part.mean_ns.usual,
        code: code(&part.code),
    };
    let (kind, what) = wording::cause(evidence, &cause.key, row);
    CauseJson {
        kind,
        what,
        asked_ns: cause.mean_ns.asked,
        usual_ns: cause.mean_ns.usual,
        first_in: cause.first_in,
        asked_measured_ns: cause.basis.measured as f64 / calls.max(1) as f64,
        parts: cause.parts.iter().map(part).collect(),
        code: code(&cause.code),
    }
}

fn code(code: &Code) -> Vec<CodeJson> {
    seen("samples", &code.ran).chain(seen("waits", &code.waited)).collect()
}

fn seen(of: &'static str, tally: &Tally) -> impl Iterator<Item = CodeJson> {
    let total = tally.total();
    tally.seen().into_iter().take(MAX_FUNCTIONS).map(move |seen| CodeJson {
        of,
        count: seen.count,
        total,
        function: wording::function(seen.function),
        caller: seen.caller.and_then(wording::function_caller),
    })
}

/// `names`: the evidence of any call, for its names.
fn tree(names: &Evidence<'_>, tree: &CauseTree) -> Vec<NodeJson> {
    let sum = |sum: &Sum| {
        let PerGroup { asked: asked_ns, usual: usual_ns } = sum.mean(tree.calls);
        SumJson { asked_ns, asked_calls: sum.calls.asked, usual_ns, usual_calls: sum.calls.usual }
    };
    let nodes = tree.nodes.iter().enumerate().map(|(id, node)| NodeJson {
        id,
        parent: node.parent,
        who: node.parent.map(|_| wording::node_thread(names, node.thread.as_ref())),
        call: node.call.as_ref().map(wording::call),
        via: node.parent.map(|_| node.via.and_then(wording::via_word).unwrap_or("")),
        total: sum(&node.total),
        code: seen("waits", &node.began).chain(seen("wakeups", &node.ended)).collect(),
        own: node
            .leaves
            .iter()
            .map(|leaf| OwnJson {
                kind: leaf.activity.kind.name(),
                responsible: wording::blamed_code(names, &leaf.activity.blamed),
                what: wording::leaf(names, leaf),
                total: sum(&leaf.total),
                code: code(&leaf.code),
            })
            .collect(),
    });
    nodes.collect()
}

fn call(answer: &PathAnswer<'_>) -> CallJson {
    CallJson {
        tid: answer.subject().tid.number(),
        from_ns: since_origin(&answer.head, answer.path.window.from),
        to_ns: since_origin(&answer.head, answer.path.window.to),
        first: answer.first_cause().map(|(key, row)| {
            let (kind, what) = wording::cause(&answer.evidence(), &key, &row);
            FirstJson { kind, what, ns: row.total_ns }
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::json::shape::{document, golden};
    use wakepath_findings::{PerGroup, SampledPath, Spent};

    use crate::sample::{calls_of, calls_of_a_chain, calls_until, function_stacks_of};

    const SHAPE: &str = include_str!("../../contract/calls.txt");

    /// Adds up a list's values for this key.
    fn sum(list: &Value, key: &str) -> f64 {
        let list = list.as_array().expect("a list").iter();
        list.map(|one| one[key].as_f64().expect("a number")).sum()
    }

    #[test]
    fn the_time_from_which_calls_are_not_recorded_is_there() {
        calls_until(5_950_000, |answer| {
            let document = document(SHAPE, |out| super::calls(answer, out));
            assert_eq!(document["unprobed_after_ns"], 5_950_000);
        });
    }

    #[test]
    fn documents_keep_the_contract_and_causes_add_up() {
        calls_of(|answer| {
            let document = document(SHAPE, |out| super::calls(answer, out));
            assert_eq!((&document["asked"]["calls"], &document["usual"]["calls"]), (&20.into(), &60.into()));
            golden(&document, &expect_test::expect_file!["../../tests/golden/calls.json"]);
            assert!(document["unprobed_after_ns"].is_null());
            // The mean time in each group's calls.
            let mean = |key| sum(&document["causes"], key).round();
            assert_eq!((mean("asked_ns"), mean("usual_ns")), (100_100.0, 200.0));
            assert_eq!(document["calls"][0]["first"]["what"], "waiting for a lock that holder held");
            // Rows are the same causes, summed over all calls.
            let [rows, causes] =
                ["rows", "causes"].map(|key| document[key].as_array().expect("a list").clone());
            let keys = |list: &[Value], code: &str| -> Vec<_> {
                list.iter()
                    .map(|one| (one[code].clone(), one["what"].clone(), one["asked_ns"].clone()))
                    .collect()
            };
            assert_eq!(keys(&rows, "code"), keys(&causes, "type"));
            assert_eq!(sum(&document["rows"], "total_ns"), 20.0 * 100_100.0);
            assert!((sum(&document["rows"], "share") - 1.0).abs() < 1e-9);
            assert_eq!(rows[0]["text"], "waiting for a lock that holder held: running");
            assert_eq!((&rows[0]["basis"], &rows[0]["shown"]), (&"measured".into(), &true.into()));
            let headline = &document["headline"];
            let text = "20 calls of peak 2 of ./app:handle took 100 µs on average, calls of peak 1 take 200 ns: \
                        mostly waiting for a lock that holder held, which spent that time running (100% of the \
                        difference, the largest cause in 20 of 20 calls)";
            assert_eq!((&headline["code"], &headline["text"]), (&"thread".into(), &text.into()));
            assert_eq!((&headline["row"], &headline["is_most"]), (&0.into(), &true.into()));
            assert_eq!((&headline["total_ns"], &headline["share"]), (&99_900.into(), &1.0.into()));
            assert_eq!(headline["who"]["comm"], "holder");
            assert_eq!(document["next"], Value::Null);
            // The tree's parts add up, too.
            let tree = document["tree"].as_array().expect("a list").iter();
            assert_eq!(tree.map(|node| sum(&node["own"], "asked_ns")).sum::<f64>().round(), 100_100.0);
        });
    }

    #[test]
    fn time_in_a_function_without_calls_keeps_the_contract() {
        let path = SampledPath {
            steps: Vec::new(),
            times: PerGroup::default(),
            spent: Spent { samples: 40, waits: 20, waited_ns: 2_000_000 },
            more_ns: 6e6,
            ready_ns: 0.0,
            probes_ns: 0.0,
            own_ns: 5e6,
            waits: false,
            doubts: Vec::new(),
        };
        function_stacks_of(path, |answer| {
            let shape = include_str!("../../contract/function_stacks.txt");
            let document = document(shape, |out| super::function_stacks(answer, out));
            assert_eq!(document["functions"]["own_ns"], 5_000_000);
            assert_eq!((&document["pid"], &document["comm"]), (&10.into(), &"worker".into()));
            assert_eq!(
                (&document["recorded_ns"], &document["process_samples"]),
                (&6_000_000.into(), &990.into())
            );
            assert_eq!((&document["asked"]["calls"], &document["usual"]), (&20.into(), &Value::Null));
            assert_eq!(document["headline"]["code"], "thread");
        });
    }

    #[test]
    fn what_those_were_at_who_were_waited_for_is_told_with_where_in_the_code() {
        calls_of_a_chain(1, |answer| {
            let document = document(SHAPE, |out| super::calls(answer, out));
            golden(&document, &expect_test::expect_file!["../../tests/golden/calls_of_a_chain.json"]);
            let cause = &document["causes"][0];
            assert_eq!(cause["what"], "waiting for backend (20)");
            assert_eq!(
                cause["asked_ns"].as_f64().map(f64::round),
                Some(sum(&cause["parts"], "asked_ns").round())
            );
            let [disk, running] = [0, 1].map(|part| &cause["parts"][part]);
            assert_eq!(disk["what"], "waiting for disk sda, in fdatasync of log.0");
            let seen = |part: &Value| {
                let code = &part["code"][0];
                (code["of"].clone(), code["count"].clone(), code["function"].clone())
            };
            let backend = "backend (cannot be read here)";
            assert_eq!(seen(disk), ("waits".into(), 20.into(), backend.into()));
            assert_eq!(seen(running), ("samples".into(), 20.into(), backend.into()));
        });
    }
}

//! Loads what `export --format perfetto` writes into a real trace_processor, and compares.
//!
//! Needs node and Perfetto's engine, so it is not part of `cargo test`; `tests/trace_processor` runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wakepath_engine::requests::{self, Traced};
use wakepath_engine::{Algorithm, Answer, Host, Name, PathQuery, Recorded, Subject, Tid, open_all, path};
use wakepath_event::{Clocks, Event, EventKind};
use wakepath_report::{perfetto, perfetto_requests};
use wakepath_scenario::draw;
use wakepath_wait_graph::{ThreadState, UnknownReason, WakeUp, Waker};

/// Drawings with every state, wake-ups by threads and interrupts, a fork and an exit. A wake-up before its own
/// switch-out cannot be drawn; recordings are full of them.
const DRAWINGS: [&str; 4] = [
    "0 =.....1=
     1 ==...2==
     2 ========",
    "0 =...t==b
     1 ==.n=i==",
    "0@0 ==rr===....1==
     1@0 .0==.0xxrr==rr",
    "0 ====.....1===
     1 __0====.t===_",
];

/// A row in Perfetto's states: a thread's total time in a state, ns.
type States = BTreeMap<(u64, &'static str), u64>;

#[test]
#[ignore = "needs node and trace_processor: would show that Perfetto reads our traces as we mean them"]
fn perfetto_sees_our_states_and_the_path_tiles_its_window() {
    for drawing in DRAWINGS {
        let drawn = draw(drawing);
        let host = Host { kernel: Name::from("6.18.0"), ..Host::default() };
        let recorded = Recorded::from_events(PathBuf::from("drawing"), host, &drawn.events);
        check(&recorded, Subject::Tid(drawn.tids[0]), drawing);
    }
}

#[test]
#[ignore = "needs node, trace_processor and a recording: would show that Perfetto reads it as we do"]
fn perfetto_sees_a_recording_as_we_do() {
    let recordings =
        std::env::var_os("WAKEPATH_RECORDING").expect("WAKEPATH_RECORDING names one, or several");
    let recordings: Vec<_> = std::env::split_paths(&recordings).collect();
    let recorded = open_all(&recordings, |_, _| {}).expect("recordings");
    check(&recorded, Subject::Recorded, &recordings[0].display().to_string());
}

/// `cart` waits for a mutex held by `pay`, which waited for the mutex while `stock` held it.
const LOCKS: &str = "
thread cart tid=10
thread stock tid=11 tgid=10
thread pay tid=12 tgid=10
0 c0 idle started
0 c0 idle switch pay
0 c1 idle switch stock
50 c0 pay switch cart blocked call=202:0x1000 op=128 value=2 claim=stock
100 c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=stock
350 c1 stock waking pay
360 c1 stock switch pay blocked call=35:0
500 c1 pay waking cart
510 c0 idle switch cart
650 c0 cart switch idle blocked call=35:0
800 c1 pay switch idle blocked call=35:0
";

const REALTIME: u64 = 1_795_229_921_310_000_000;

/// Requests, and two overlapping parts of the first request: id, parent's id, beginning, end, thread, name.
const SPANS: [&str; 5] = [
    "a - 50 650 10 GET /cart",
    "d a 60 300 0 SELECT",
    "e a 200 640 0 UPDATE",
    "b - 0 360 11 PUT /stock",
    "c - 0 520 12 POST /pay",
];

#[test]
#[ignore = "needs node and trace_processor: would show that Perfetto has no state where none is known"]
fn perfetto_sees_in_our_states_no_wait_for_a_cpu_where_nothing_is_known_and_after_a_death() {
    let trace = "
        thread lost tid=10
        thread dead tid=11
        thread last tid=12
        0 c0 idle started
        0 c0 idle switch lost
        0 c1 idle switch dead
        100 c0 lost waking last
        150 c0 last waking dead
        170 c1 dead switch idle dead
        250 c0 last switch lost runnable
        300 c0 lost switch idle blocked
        400 c0 idle stopped
    ";
    let events = wakepath_scenario::text::parse(trace).expect("a trace").events;
    let host = Host { kernel: Name::from("6.18.0"), ..Host::default() };
    let recorded = Recorded::from_events(PathBuf::from("lost"), host, &events);
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let mut file = std::fs::File::create(&trace).expect("a file");
    perfetto(&recorded, &[], &mut file).expect("written");
    let [errors, states] = ask(
        &trace,
        [
            "select name, value from stats where value > 0 and severity != 'info'",
            "select tid, ts, dur, state from thread_state join thread using (utid) where tid in (10, 11) order by 1, 2",
        ],
    );
    // Perfetto counts each unknown state as an error: it has no other word for it.
    assert_eq!(errors, [serde_json::json!({"name": "task_state_invalid", "value": 1})], "import errors");
    let rows = states
        .iter()
        .map(|row| format!("{} {} {} {}\n", number(row, "tid"), number(row, "ts"), row["dur"], row["state"]));
    expect_test::expect![[r#"
        10 0 100 "Running"
        10 100 150 null
        10 250 50 "Running"
        10 300 -1 "S"
        11 0 170 "Running"
        11 170 -1 "X"
    "#]]
    .assert_eq(&rows.collect::<String>());
}

#[test]
#[ignore = "needs node and trace_processor: would show that Perfetto has tracks and arrows of each request"]
fn perfetto_sees_our_states_and_each_request_with_its_spans_its_path_and_its_blockers() {
    let mut events = wakepath_scenario::text::parse(LOCKS).expect("a trace").events;
    let clocks = Clocks { boottime_ns: 0, realtime_ns: REALTIME, steal_ns: 0 };
    let first = Event { kind: EventKind::Clocks(clocks), ..events[0].clone() };
    events.insert(0, first);
    let host = Host { kernel: Name::from("6.18.0"), ..Host::default() };
    let recorded = Recorded::from_events(PathBuf::from("locks"), host, &events);
    let spans = SPANS.map(|span| {
        let words: Vec<_> = span.splitn(6, ' ').collect();
        let [id, above, from, to, tid, name] = words.try_into().expect("six words");
        let above = if above == "-" { "" } else { above };
        let [from, to] = [from, to].map(|at| REALTIME + at.parse::<u64>().expect("a time"));
        serde_json::json!({"traceId": if above.is_empty() { id } else { above }, "spanId": id,
            "parentSpanId": above, "name": name, "startTimeUnixNano": from, "endTimeUnixNano": to,
            "attributes": [{"key": "wakepath.tid", "value": {"intValue": tid}}]})
    });
    let shop = serde_json::json!([{"key": "service.name", "value": {"stringValue": "shop"}}]);
    let file = serde_json::json!({"resourceSpans": [
        {"resource": {"attributes": shop}, "scopeSpans": [{"spans": spans}]}]});
    let (spans, dropped) = requests::read_spans(&file.to_string().into()).expect("spans");
    let traced = Traced::new(spans, dropped);
    let joined = requests::join(&recorded, &traced).expect("a clock");
    let find = |id: &str| requests::find_request(&traced, &format!("{id:0>32}")).expect("a request");
    // One blocker is explained itself, the other is not.
    let answers = ["a", "c"].map(|id| requests::request(&joined, find(id), Algorithm::default()));
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let mut file = std::fs::File::create(&trace).expect("a file");
    perfetto_requests(&joined, &answers, &mut file).expect("written");
    let [errors, slices, arrows] = ask(&trace, [
        "select name, value from stats where value > 0 and severity != 'info'",
        "select g.name as request, t.name as track, s.name as name, s.ts as ts, s.dur as dur, s.depth as depth from slice s
         join track t on t.id = s.track_id join track g on g.id = t.parent_id order by 1, 2, t.id, s.ts, s.depth",
        "select a.name as one, b.name as other, b.ts as ts from flow join slice a on a.id = slice_out
         join slice b on b.id = slice_in order by b.ts, 1",
    ]);
    assert_eq!(errors, [] as [Value; 0], "import errors");
    let row = |row: &Value, keys: &[&str]| -> String {
        let text = |key: &&str| row[*key].as_str().map_or(row[*key].to_string(), str::to_owned);
        keys.iter().map(text).collect::<Vec<_>>().join(" | ")
    };
    let slices =
        slices.iter().map(|one| row(one, &["request", "track", "name", "ts", "dur", "depth"]) + "\n");
    expect_test::expect![[r#"
        request: shop GET /cart, 600 ns, span 000000000000000a | spans | shop GET /cart | 50 | 600 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | spans | shop SELECT | 60 | 240 | 1
        request: shop GET /cart, 600 ns, span 000000000000000a | spans | shop UPDATE | 200 | 440 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | what the time went to | cart (10): running | 50 | 50 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | what the time went to | blocked by shop PUT /stock: stock (11): running | 100 | 250 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | what the time went to | blocked by shop POST /pay: pay (12): waiting for a CPU that stock (11) had | 350 | 10 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | what the time went to | blocked by shop POST /pay: pay (12): running | 360 | 140 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | what the time went to | cart (10): could run while its CPU was idle | 500 | 10 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | what the time went to | cart (10): running | 510 | 140 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | who waited for whom | cart (10) waits in futex for pay (12) | 100 | 400 | 0
        request: shop GET /cart, 600 ns, span 000000000000000a | who waited for whom | pay (12) waits in futex for stock (11) | 100 | 250 | 1
        request: shop POST /pay, 520 ns, span 000000000000000c | spans | shop POST /pay | 0 | 520 | 0
        request: shop POST /pay, 520 ns, span 000000000000000c | what the time went to | pay (12): running | 0 | 50 | 0
        request: shop POST /pay, 520 ns, span 000000000000000c | what the time went to | blocked by shop PUT /stock: stock (11): running | 50 | 300 | 0
        request: shop POST /pay, 520 ns, span 000000000000000c | what the time went to | pay (12): waiting for a CPU that stock (11) had | 350 | 10 | 0
        request: shop POST /pay, 520 ns, span 000000000000000c | what the time went to | pay (12): running | 360 | 160 | 0
        request: shop POST /pay, 520 ns, span 000000000000000c | who waited for whom | pay (12) waits in futex for stock (11) | 50 | 300 | 0
        requests that blocked others | requests | shop PUT /stock | 0 | 360 | 0
    "#]].assert_eq(&slices.collect::<String>());
    let arrows = arrows.iter().map(|one| row(one, &["one", "other", "ts"]) + "\n");
    expect_test::expect![[r#"
        shop PUT /stock | blocked by shop PUT /stock: stock (11): running | 50
        shop PUT /stock | blocked by shop PUT /stock: stock (11): running | 100
        shop POST /pay | blocked by shop POST /pay: pay (12): waiting for a CPU that stock (11) had | 350
        shop POST /pay | blocked by shop POST /pay: pay (12): running | 360
    "#]]
    .assert_eq(&arrows.collect::<String>());
}

fn check(recorded: &Recorded, subject: Subject, what: &str) {
    let ask_path = |subject| {
        path(recorded, &PathQuery { subject, ..PathQuery::default() }).expect("threads and a window")
    };
    let mut answer = ask_path(subject);
    if let Answer::Overview(overview) = &answer {
        // Without a window of its own: the window of the first host's first thread.
        let mut tids = overview.threads.iter().map(|times| recorded.graph.thread(times.thread).tid());
        answer = ask_path(Subject::Tid(tids.find(|tid| tid.host().0 == 0).expect("a thread")));
    }
    let Answer::Paths(paths) = answer else { panic!("{what}: no window") };
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let mut file = std::fs::File::create(&trace).expect("a file");
    perfetto(recorded, &paths, &mut file).expect("written");

    let states = format!(
        "select tid, state, sum(dur) as ns from thread_state join thread using (utid)
         where dur > 0 and ts + dur < {} and tid > 0 group by 1, 2",
        recorded.graph.to().ns()
    );
    let [errors, states, slices, wakers] = ask(&trace, [
        "select name, value from stats where value > 0 and severity != 'info'",
        &states,
        "select track.name as name, sum(dur) as ns from slice join track on track.id = track_id where track.name like 'what%'",
        "select t.tid as tid, s.ts as ts, w.tid as waker, s.irq_context as irq from thread_state s join thread t using (utid)
         join thread w on w.utid = s.waker_utid where s.state = 'R' order by 2, 1",
    ]);
    assert_eq!(errors, [] as [Value; 0], "{what}: import errors");

    let mut theirs = States::new();
    for row in &states {
        let state = match text(row, "state") {
            "Running" => "running",
            "R" | "R+" => "runnable",
            _ => "blocked",
        };
        *theirs.entry((number(row, "tid"), state)).or_default() += number(row, "ns");
    }
    let ours = ours(recorded);
    // A thread with lost records has no states to compare.
    let known = |tid: u64| {
        let mut lives = recorded.with_tid(Tid(tid as u32)).iter();
        lives.all(|&thread| {
            (0..)
                .map_while(|n| recorded.graph.state_intervals(thread).get(n))
                .all(|interval| !matches!(interval.state, ThreadState::Unknown(UnknownReason::Lost)))
        })
    };
    let keys: BTreeSet<_> =
        ours.keys().chain(theirs.keys()).copied().filter(|&(tid, _)| known(tid)).collect();
    let differing: Vec<_> = keys
        .iter()
        .filter(|key| ours.get(key) != theirs.get(key))
        .map(|key| (key, ours.get(key), theirs.get(key)))
        .collect();
    assert!(differing.is_empty(), "{what}: states as (thread, state), ours, theirs: {differing:?}");
    assert!(!keys.is_empty(), "{what}: nothing to compare");

    let window: u64 = paths.iter().map(|path| path.window_ns()).sum();
    assert_eq!(slices.iter().map(|row| number(row, "ns")).sum::<u64>(), window, "{what}: path slices");

    // Perfetto's wakers, in wake-ups by threads. For wakepath, the idle thread wakes no thread.
    let theirs = wakers.iter().filter(|row| row["irq"] != 1 && number(row, "waker") != 0);
    let theirs: BTreeSet<_> =
        theirs.map(|row| (number(row, "ts"), number(row, "tid"), number(row, "waker"))).collect();
    let ours = wakings(recorded);
    let differing: Vec<_> = ours
        .symmetric_difference(&theirs)
        .filter(|&&(_, tid, waker)| known(tid) && known(waker))
        .map(|waking| (ours.contains(waking), waking))
        .collect();
    assert!(differing.is_empty(), "{what}: (is it ours, (at, thread, waker)): {differing:?}");
}

/// Our thread states, from the first time a thread was seen to run or want to, without those that the end cut off:
/// the same that Perfetto has.
fn ours(recorded: &Recorded) -> States {
    let graph = &recorded.graph;
    let mut states = States::new();
    for (index, thread) in graph.threads() {
        if thread.tid() == Tid::IDLE {
            continue;
        }
        let (mut seen, mut woken) = (false, false);
        for interval in (0..).map_while(|n| graph.state_intervals(index).get(n)) {
            let state = match interval.state {
                ThreadState::Running { .. } => "running",
                ThreadState::Runnable { .. } | ThreadState::Throttled { .. } => "runnable",
                ThreadState::Blocked(_) => "blocked",
                ThreadState::Unknown(_) => continue,
            };
            // Perfetto drops states of zero length, and has none from snapshots.
            seen |= state == "running" || state == "runnable" && interval.from < interval.to && woken;
            woken = state == "blocked";
            if seen && interval.to < graph.to() && interval.from < interval.to {
                *states.entry((thread.tid().0.into(), state)).or_default() +=
                    interval.to.since(interval.from);
            }
        }
    }
    states
}

/// Wake-ups (time, thread, waker) after which the thread had to wait for a CPU: Perfetto keeps the waker with that
/// state.
fn wakings(recorded: &Recorded) -> BTreeSet<(u64, u64, u64)> {
    let graph = &recorded.graph;
    let mut wakings = BTreeSet::new();
    for (index, thread) in graph.threads() {
        let intervals = graph.state_intervals(index);
        for n in 0..intervals.len() {
            let (Some(interval), Some(next)) = (intervals.get(n), intervals.get(n + 1)) else { continue };
            let wait = graph.wait(&interval);
            let Some(Waker::Woken(WakeUp { at, current, context, .. })) = wait.map(|wait| wait.end) else {
                continue;
            };
            let waited = matches!(next.state, ThreadState::Runnable { .. }) && next.from < next.to;
            let counts =
                waited && !context.is_interrupt() && at >= interval.from && interval.from < interval.to;
            if let Some(waker) = current.thread().filter(|_| counts) {
                wakings.insert((at.ns(), thread.tid().0.into(), graph.thread(waker).tid().0.into()));
            }
        }
    }
    wakings
}

fn ask<const N: usize>(trace: &Path, queries: [&str; N]) -> [Vec<Value>; N] {
    let engine =
        std::env::var_os("WAKEPATH_TRACE_PROCESSOR").expect("WAKEPATH_TRACE_PROCESSOR names its folder");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace_processor.mjs");
    let output =
        Command::new("node").arg(script).arg(engine).arg(trace).args(queries).output().expect("node");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<Vec<Value>> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    answers.try_into().expect("an answer to each")
}

fn number(row: &Value, key: &str) -> u64 {
    let value = &row[key];
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{key} in {row}"))
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} in {row}"))
}

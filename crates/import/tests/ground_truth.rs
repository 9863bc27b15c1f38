//! Paths through real LTTng traces, against the known truth about their programs. The traces lie in
//! `$WAKEPATH_TRACES`; without it these tests print a note and pass.
//!
//! A sleep's truth is the program's own system call: from its entry into `nanosleep` to its exit. The timer's wait on
//! the path lies within it; the rest is the way into the sleep and out, on an emulated machine some hundred
//! microseconds, once each 10 to 20 ms. So two points of a window are allowed, and the error has a single sign.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use wakepath_clock::Stamp;
use wakepath_critical_path::{Contributor, SegmentKind, Window, active, contributors};
use wakepath_ctf::plan::Visitor;
use wakepath_ctf::schema::EventClass;
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};
use wakepath_ctf::trace::Trace;
use wakepath_event::{EventSource, RecordingFormat, Tid};
use wakepath_import::Lttng;
use wakepath_wait_graph::{Builder, Graph};

const TOLERANCE: f64 = 0.02;

fn traces() -> Option<PathBuf> {
    let folder = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from);
    if folder.is_none() {
        println!(
            "skipped: not possible here: WAKEPATH_TRACES names no folder of traces whose truth is known"
        );
    }
    folder
}

/// A system call, from entry to exit, ns.
#[derive(Debug, Clone)]
struct Call {
    tid: i64,
    name: String,
    from: u64,
    to: u64,
}

#[derive(Default)]
struct Next(Option<i64>);

impl Visitor for Next {
    fn unsigned(&mut self, _: u16, _: u64) {}
    fn signed(&mut self, _: u16, value: i64) {
        self.0 = Some(value);
    }
    fn float(&mut self, _: u16, _: f64) {}
    fn bytes(&mut self, _: u16, _: &[u8]) {}
}

/// A trace's system calls, read without the conversion into events.
fn calls(kernel: &Path) -> Vec<Call> {
    let trace = Trace::open(kernel).expect("a trace");
    let wanted = |event: &EventClass| {
        let switch = event.name == "sched_switch";
        Some(if switch { vec![("next_tid", 0)] } else { vec![] })
    };
    let plans = Plans::new(trace.metadata, &Selection::Fields(&wanted)).expect("plans");
    let mut ends = Vec::new();
    for path in trace.streams {
        let mut reader = Reader::new(&plans, File::open(path).expect("a stream")).expect("a stream");
        let mut current = Next::default();
        while let Some(item) = reader.next() {
            let Item::Event(head) = item else { continue };
            let name = &plans.class(head.class).expect("a class").event.name;
            if name == "sched_switch" {
                reader.fields(&mut current).expect("fields");
            } else if let (Some(call), Some(tid)) = (name.strip_prefix("syscall_"), current.0) {
                ends.push((head.stamp, tid, call.to_owned()));
            }
        }
    }
    ends.sort();
    let (mut begun, mut calls) = (HashMap::new(), Vec::new());
    for (at, tid, end) in ends {
        if let Some(name) = end.strip_prefix("entry_") {
            begun.insert(tid, (at, name.to_owned()));
        } else if let Some((from, name)) = begun.remove(&tid) {
            calls.push(Call { tid, name, from, to: at });
        }
    }
    calls
}

/// The sleep that counts for a window's thread: it slept itself, or waited in another call while another thread of
/// the program slept.
fn slept(calls: &[Call], main: i64, sleepers: &[i64], from: u64, to: u64) -> u64 {
    let sleeps = calls.iter().filter(|call| call.name.ends_with("nanosleep"));
    let mut counted: Vec<(u64, u64)> = Vec::new();
    for sleep in sleeps {
        if sleep.tid == main {
            counted.push((sleep.from, sleep.to));
        } else if sleepers.contains(&sleep.tid) {
            let waits = calls.iter().filter(|call| call.tid == main && !call.name.ends_with("nanosleep"));
            counted.extend(waits.map(|wait| (sleep.from.max(wait.from), sleep.to.min(wait.to))));
        }
    }
    counted.sort_unstable();
    let (mut sum, mut done) = (0, from);
    for (begin, end) in counted {
        let (begin, end) = (begin.max(done), end.min(to));
        if begin < end {
            sum += end - begin;
            done = end;
        }
    }
    sum
}

fn graph(trace: &Path) -> Graph {
    let mut builder = Builder::default();
    let damages = Lttng::open(trace).expect("a trace").for_each(|event| builder.push(event));
    assert_eq!(damages, [], "{}", trace.display());
    let graph = builder.finish();
    assert_eq!((graph.counts().inversions, graph.counts().missing_switches), (0, 0), "{}", trace.display());
    graph
}

/// The contributors to a window of the last thread with this tid.
fn path(graph: &Graph, tid: i64, window: Option<(u64, u64)>) -> (Window, Vec<Contributor>) {
    let tid = Tid(tid as u32);
    let (index, thread) = graph.threads().filter(|(_, thread)| thread.had_tid(tid)).last().expect("it lived");
    let (from, to) =
        window.map_or((thread.first, thread.last), |(from, to)| (Stamp::from_ns(from), Stamp::from_ns(to)));
    let window = Window { thread: index, from, to };
    let path = active(graph, window);
    let mut at = window.from;
    for segment in &path.segments {
        assert_eq!(segment.from, at, "segments tile the window");
        at = segment.to;
    }
    assert_eq!(at, window.to, "segments tile the window");
    (window, contributors(graph, &path))
}

/// The largest parts by name and kind.
fn largest(contributors: &[Contributor]) -> Vec<(String, SegmentKind)> {
    let mut sums: Vec<(String, SegmentKind, u64)> = Vec::new();
    for one in contributors {
        let name = one.comm.lossy().into_owned();
        match sums.iter_mut().find(|(other, kind, _)| *other == name && *kind == one.kind) {
            Some((_, _, sum)) => *sum += one.total_ns,
            None => sums.push((name, one.kind, one.total_ns)),
        }
    }
    sums.sort_by_key(|&(_, _, sum)| std::cmp::Reverse(sum));
    sums.into_iter().map(|(name, kind, _)| (name, kind)).collect()
}

#[test]
fn sleeps_are_as_long_as_the_programs_own_calls_say_and_the_largest_parts_have_the_right_names() {
    use SegmentKind::{Interrupted, Runnable, Running, Timer};
    let Some(folder) = traces() else { return };
    // The thread from the shell, the threads that sleep for it, the three largest parts of its life. A program
    // computes whenever it does not sleep, on an emulated machine: user + sys in `workload.out`.
    for (trace, main, sleepers, top) in [
        ("lttng-mutex", 250, &[252][..], [("wk-mutex", Running), ("wk-mutex", Timer), ("bash", Running)]),
        (
            "lttng-pipeline",
            325,
            &[327],
            [("wk-pipeline", Running), ("wk-pipeline", Timer), ("bash", Running)],
        ),
        (
            "lttng-imbalance",
            479,
            &[],
            [("wk-imbalance", Running), ("wk-imbalance", Runnable), ("bash", Running)],
        ),
        // The server computes, sleeps, answers at once.
        (
            "lttng-rpc-local",
            253,
            &[248],
            [("wk-rpc-server", Running), ("wk-rpc-client", Running), ("wk-rpc-client", Interrupted)],
        ),
        (
            "lttng-rpc-local",
            260,
            &[248],
            [("wk-rpc-server", Timer), ("wk-rpc-client", Running), ("bash", Running)],
        ),
    ] {
        let place = folder.join(trace);
        let (graph, calls) = (graph(&place), calls(&place.join("ctf/kernel")));
        let (window, parts) = path(&graph, main, None);
        let whole = window.to.since(window.from) as f64;
        let truth = slept(&calls, main, sleepers, window.from.ns(), window.to.ns()) as f64 / whole;
        let timer: u64 = parts.iter().filter(|part| part.kind == Timer).map(|part| part.total_ns).sum();
        let said = timer as f64 / whole;
        println!("{trace} {main}: slept {:.2}%, said {:.2}%", truth * 100.0, said * 100.0);
        assert!((said - truth).abs() <= TOLERANCE, "{trace} {main}: slept {truth}, said {said}");
        assert!(said <= truth, "{trace} {main}: no timer's wait is longer than the sleep around it");
        let named = largest(&parts);
        let named: Vec<_> = named.iter().take(3).map(|(name, kind)| (name.as_str(), *kind)).collect();
        assert_eq!(named, top, "{trace} {main}");
    }
}

/// Read by other code, which knows only each CPU's current thread: a thread that waited in a call waited between its
/// entry and its exit, and a thread that waited in no call was in none.
#[test]
fn waits_are_in_the_calls_that_were_entered_and_not_left() {
    let Some(folder) = traces() else { return };
    for trace in [
        "lttng-mutex",
        "lttng-pipeline",
        "lttng-imbalance",
        "lttng-rpc-local",
        "lttng-ust-app",
        "many-threads",
    ] {
        let place = folder.join(trace);
        let kernel = if trace == "many-threads" { place.clone() } else { place.join("ctf/kernel") };
        let (graph, calls) = (graph(&place), calls(&kernel));
        let mut of_thread: HashMap<i64, Vec<&Call>> = HashMap::new();
        for call in &calls {
            of_thread.entry(call.tid).or_default().push(call);
        }
        let (mut named, mut nameless) = (0, 0);
        for (index, thread) in graph.threads() {
            let tid = i64::from(thread.tid().0);
            let own = of_thread.get(&tid).map_or(&[][..], Vec::as_slice);
            let window = Window { thread: index, from: thread.first, to: thread.last };
            let path = active(&graph, window);
            let explained = path.waits.iter().filter(|wait| wait.thread == index);
            let explained = explained.map(|wait| (wait.from.ns(), wait.to.ns(), wait.call));
            let devices = path.segments.iter().filter(|segment| {
                segment.depth == 0
                    && segment.thread == Some(index)
                    && matches!(segment.kind, SegmentKind::Timer | SegmentKind::BlockDevice)
            });
            let devices = devices.map(|segment| (segment.from.ns(), segment.to.ns(), segment.call));
            for (from, to, call) in explained.chain(devices) {
                let around: Vec<_> = own.iter().filter(|call| call.from <= from && to <= call.to).collect();
                let said = call.and_then(|call| wakepath_event::Call::name(call.number));
                match (said, &around[..]) {
                    (Some(said), [around]) => {
                        let is = around.name.trim_start_matches("new");
                        assert_eq!(said, is, "{trace} {tid} at {from}");
                        named += 1;
                    }
                    // The call was still open at the trace's end, or the wait was outside all calls.
                    (_, []) => nameless += usize::from(said.is_none()),
                    (None, [around]) => {
                        assert_eq!(around.name, "unknown", "{trace} {tid} at {from}: no call is said");
                    }
                    other => panic!("{trace} {tid} at {from}: {other:?}"),
                }
            }
        }
        println!("{trace}: {named} waits in calls, {nameless} in none");
        assert!(named > 20, "{trace}: {named} waits in calls");
    }
}

/// The truth is only the program's output for each request, by its own clock.
#[test]
fn each_request_goes_to_what_the_program_says_it_did() {
    let Some(folder) = traces() else { return };
    let place = folder.join("lttng-ust-app");
    let told = std::fs::read_to_string(place.join("workload.out")).expect("what it printed");
    let tid_of = |who: &str| -> i64 {
        let line = told.lines().find_map(|line| line.strip_prefix(who)).expect(who);
        line.parse().expect("a tid")
    };
    let (worker, hog) = (tid_of("worker tid="), tid_of("hog tid="));
    let (graph, calls) = (graph(&place), calls(&place.join("ctf/kernel")));
    let mut requests = 0;
    for line in told.lines().filter(|line| line.starts_with("req ")) {
        let words: Vec<_> = line.split([' ', '=']).collect();
        let [_, _, kind, _, begun, _, took] = words[..] else { panic!("{line}") };
        let (begun, took): (f64, f64) = (begun.parse().expect("s"), took.parse().expect("ms"));
        let (from, whole) = ((begun * 1e9) as u64, took * 1e6);
        let (_, parts) = path(&graph, worker, Some((from, from + whole as u64)));
        let share = |tid: i64, kinds: &[SegmentKind]| {
            let of = |part: &&Contributor| {
                part.thread.is_some_and(|thread| graph.thread(thread).had_tid(Tid(tid as u32)))
                    && kinds.contains(&part.kind)
            };
            parts.iter().filter(of).map(|part| part.total_ns).sum::<u64>() as f64 / whole
        };
        match kind {
            // The request slept for at least 20 ms.
            "A-sleep20" => {
                let said = share(worker, &[SegmentKind::Timer]);
                let sleeps = slept(&calls, worker, &[], from, from + whole as u64) as f64 / whole;
                assert!(said >= 20.0 / took - TOLERANCE && said <= sleeps + TOLERANCE, "{line}: said {said}");
            }
            // The request waited for the other thread's lock, held while asleep.
            "B-lock15" => {
                let said = share(hog, &[SegmentKind::Timer]);
                let held = slept(&calls, worker, &[hog], from, from + whole as u64) as f64 / whole;
                println!("{line}: held {:.2}%, said {:.2}%", held * 100.0, said * 100.0);
                assert!((said - held).abs() <= TOLERANCE, "{line}: held {held}, said {said}");
                assert!(held > 0.4, "{line}: the holder slept for a good part of it");
            }
            // The request computed for 10 ms.
            _ => {
                let said = share(worker, &[SegmentKind::Running, SegmentKind::Interrupted]);
                assert!(said >= 10.0 / took - TOLERANCE, "{line}: said {said}");
            }
        }
        requests += 1;
    }
    assert_eq!(requests, 9);
}

/// Traces without a known truth: the answers add up, and little is unknown.
#[test]
fn other_peoples_traces_make_graphs_that_add_up() {
    let Some(folder) = traces() else { return };
    for (trace, comm) in [("many-threads", ""), ("scp_src", "scp"), ("scp_dest", "scp")] {
        let mut builder = Builder::default();
        let damages =
            Lttng::open(&folder.join(trace)).expect("a trace").for_each(|event| builder.push(event));
        // The only damage: these two have no sched_waking.
        assert_eq!(damages.len(), usize::from(trace != "many-threads"), "{damages:?}");
        let graph = builder.finish();
        let (mut whole, mut unknown, mut threads) = (0, 0, 0);
        let named: Vec<_> = graph
            .threads()
            .filter(|(_, thread)| comm.is_empty() || *thread.name().bytes() == *comm.as_bytes())
            .map(|(_, thread)| i64::from(thread.tid().0))
            .take(200)
            .collect();
        for tid in named {
            let (window, parts) = path(&graph, tid, None);
            whole += window.to.since(window.from);
            unknown += parts
                .iter()
                .filter(|part| part.kind == SegmentKind::Unknown)
                .map(|part| part.total_ns)
                .sum::<u64>();
            threads += 1;
        }
        println!("{trace}: {threads} threads, unknown {:.2}%", unknown as f64 * 100.0 / whole as f64);
        assert!(threads > 0 && unknown <= whole, "{trace}");
    }
}

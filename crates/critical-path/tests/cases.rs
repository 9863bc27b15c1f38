//! The situations in `cases/`: a folder each, with a trace as text and the answers to its questions.
//!
//! `WAKEPATH_BLESS=1 cargo test -p wakepath-critical-path --test cases` writes the answers anew;
//! read the difference before you keep it.

use std::fmt::Write;
use std::path::Path as File;
use std::{env, fs};

use wakepath_clock::Stamp;
use wakepath_critical_path::{
    Basis, Cause, Hang, LockCause, Path, SignalCause, SignalSender, Timeouts, Window, active, active_by,
    contributors, deadlocks, exact, hangs,
};
use wakepath_event::{Call, WaitEnd};
use wakepath_scenario::text::{Question, Script, parse};
use wakepath_wait_graph::{Graph, ThreadIndex};

#[test]
fn every_case_has_its_answer() {
    let cases = File::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let bless = env::var_os("WAKEPATH_BLESS").is_some();
    let mut names: Vec<_> = fs::read_dir(&cases)
        .expect("the folder cases/")
        .map(|entry| entry.expect("an entry of cases/").path())
        .filter(|path| path.join("trace.txt").exists())
        .collect();
    names.sort();
    assert!(names.len() > 20, "only {} cases in {}", names.len(), cases.display());
    let mut wrong = String::new();
    for case in names {
        let trace = fs::read_to_string(case.join("trace.txt")).expect("a readable trace");
        let script = parse(&trace).unwrap_or_else(|mistake| panic!("{}: {mistake}", case.display()));
        let answer = answer(&script);
        let expected = case.join("expected.txt");
        if bless {
            fs::write(&expected, &answer).expect("a writable case");
        } else if fs::read_to_string(&expected).ok().as_deref() != Some(&answer) {
            let _ = writeln!(wrong, "{} answers:\n{answer}", case.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn answer(script: &Script) -> String {
    let graph: Graph = script.events.iter().collect();
    let mut out = String::new();
    for question in &script.questions {
        let _ = writeln!(out, "{}", question.text);
        match question.verb.as_str() {
            "active" => show(&mut out, script, &graph, &active(&graph, window(&graph, question))),
            "joined" | "slices" | "alike" => {
                let timeouts = match question.verb.as_str() {
                    "joined" => Timeouts::Joined,
                    "slices" => Timeouts::JoinedInSlices,
                    _ => Timeouts::JoinedIfAlike,
                };
                show(&mut out, script, &graph, &active_by(&graph, window(&graph, question), timeouts));
            }
            "exact" => show(&mut out, script, &graph, &exact(&graph, window(&graph, question))),
            "hangs" => hangs(&graph).iter().for_each(|hang| show_hang(&mut out, &graph, hang)),
            "deadlocks" => {
                for cycle in deadlocks(&graph) {
                    let _ = writeln!(out, "  a cycle of {}", cycle.len());
                    cycle.iter().for_each(|hang| show_hang(&mut out, &graph, hang));
                }
            }
            "losses" => {
                for loss in graph.losses().all() {
                    let reported = if loss.reported { "reported" } else { "noticed" };
                    let (from, to) = (loss.from.ns(), loss.to.ns());
                    let _ = writeln!(out, "  c{} {from}..{to} {reported} count {}", loss.cpu.0, loss.count);
                }
            }
            other => panic!("nobody can answer {other}"),
        }
        out.push('\n');
    }
    out
}

/// The thread introduced by the question's name; for `#12`, the first thread with that number.
fn window(graph: &Graph, question: &Question) -> Window {
    let tid = question.tid.expect("a thread in the question");
    let named = |(_, thread): &(ThreadIndex, &wakepath_wait_graph::Thread)| {
        let any = question.name.starts_with('#');
        thread.had_tid(tid) && (any || thread.names.first().is_some_and(|n| n.1.lossy() == question.name))
    };
    let (thread, _) = graph.threads().find(named).expect("the question's thread is in the graph");
    let (from, to) = question.window;
    Window { thread, from: Stamp::from_ns(from), to: Stamp::from_ns(to) }
}

fn name(graph: &Graph, thread: ThreadIndex) -> String {
    let thread = graph.thread(thread);
    match thread.names.first() {
        Some((_, comm)) => comm.lossy().into_owned(),
        None => format!("#{}", thread.tid()),
    }
}

fn show(out: &mut String, script: &Script, graph: &Graph, path: &Path) {
    assert!(path.tiles_window(), "{path:#?}");
    for segment in &path.segments {
        let who = segment.thread.map_or_else(|| "-".to_owned(), |thread| name(graph, thread));
        let mut line = format!(
            "{:>8} {:>8}  {:<12} {who:<8} {:<8}",
            segment.from.ns(),
            segment.to.ns(),
            format!("{:?}", segment.kind),
            format!("{:?}", segment.via)
        );
        if let Some(parent) = segment.parent {
            let _ = write!(line, " wait {}", parent.0);
            assert_eq!(segment.depth, path.waits[parent.0 as usize].depth + 1);
        }
        if let Some(call) = segment.call {
            let _ = write!(line, " call {}", named(&call));
        }
        let _ = write!(line, "{}", cause(script, graph, &segment.cause));
        match segment.basis {
            Basis::Measured => {}
            Basis::Inferred(rule) => {
                let _ = write!(line, " inferred: {rule:?}");
            }
            other => {
                let _ = write!(line, " {}", format!("{other:?}").to_lowercase());
            }
        }
        let _ = writeln!(out, "{}{}", line.trim_end(), if segment.goes_on { ", goes on" } else { "" });
    }
    for (id, wait) in path.waits.iter().enumerate() {
        let _ = write!(out, "  wait {id}: {} {}..{}", name(graph, wait.thread), wait.from.ns(), wait.to.ns());
        let ended_by = wait.ended_by.map_or_else(|| "nobody".to_owned(), |thread| name(graph, thread));
        let _ = write!(out, ", {:?} by {ended_by}", wait.via);
        if let Some(parent) = wait.parent {
            let _ = write!(out, ", under wait {}", parent.0);
        }
        if let Some(call) = wait.call {
            let _ = write!(out, ", call {}", named(&call));
        }
        if let Some(held) = wait.lock {
            let _ = write!(out, ",{}", lock(graph, &held));
        }
        if wait.basis != Basis::Measured {
            let _ = write!(out, ", {:?}", wait.basis);
        }
        out.push_str(if wait.timed_out { ", timed out" } else { "" });
        out.push_str(if wait.goes_on { ", goes on\n" } else { "\n" });
    }
    if path.joined.waits > 0 {
        let _ = writeln!(out, "  joined: {} waits, {} ns", path.joined.waits, path.joined.ns);
    }
    let sum: u64 = contributors(graph, path).iter().map(|part| part.total_ns).sum();
    assert_eq!(sum, path.window.to.since(path.window.from), "contributors add up");
    for part in contributors(graph, path) {
        let kind = format!("{:?}", part.kind);
        let what = cause(script, graph, &part.what);
        let line =
            format!("  {:>8} in {:>2}  {kind:<12} {}{what}", part.total_ns, part.segments, part.comm.lossy());
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for problem in &path.problems {
        let (from, to) = (problem.from.ns(), problem.to.ns());
        let _ = writeln!(out, "  {:?} {from}..{to}: {:?}", problem.kind.severity(), problem.kind);
    }
}

fn cause(script: &Script, graph: &Graph, cause: &Cause) -> String {
    match cause {
        Cause::None => String::new(),
        Cause::Competitor(thread) => format!(" behind {}", name(graph, *thread)),
        Cause::Network { flow: Some(flow) } => format!(" flow {}", script.flows[flow.0 as usize - 1]),
        Cause::SentByTimer { flow, purpose } => {
            format!(" {purpose:?} sent by a timer on {}", script.flows[flow.0 as usize - 1])
        }
        Cause::Block { request: Some(request), queued } => {
            format!(" request {} in the {}", request.id, if *queued { "queue" } else { "device" })
        }
        Cause::HeldBack { request, cgroup } => {
            format!(" request {} held back by the I/O limit of cgroup {}", request.id, cgroup.0)
        }
        Cause::Lock(held) => lock(graph, held),
        Cause::Signal(cut) => signal(graph, cut),
        other => format!(" {other:?}"),
    }
}

fn signal(graph: &Graph, signal: &SignalCause) -> String {
    let sender = match signal.sender {
        SignalSender::Thread(by) => format!(" of {}", name(graph, by)),
        other => format!(" of {other:?}"),
    };
    format!(" signal {}{sender} ({:?})", signal.number, signal.effect)
}

fn lock(graph: &Graph, lock: &LockCause) -> String {
    let sort = if lock.kernel { "kernel lock" } else { "futex" };
    let owner = lock.owner.map_or_else(String::new, |owner| format!(" of {}", name(graph, owner)));
    format!(" {sort} {:#x}{owner}", lock.address)
}

fn show_hang(out: &mut String, graph: &Graph, hang: &Hang) {
    let before = if hang.began_before { " at least" } else { "" };
    let _ = write!(out, "  {} waits since{before} {}", name(graph, hang.thread), hang.since.ns());
    if let Some(call) = hang.call {
        let _ = write!(out, ", call {}", named(&call));
    }
    if let Some(held) = &hang.lock {
        let sure = if hang.proved { "" } else { " (a claim)" };
        let _ = write!(out, ", for{}{sure}", lock(graph, held));
    }
    if let Some(killed) = hang.killed {
        let _ = write!(out, ", until{} at {}", signal(graph, &killed.by), killed.at.ns());
    }
    out.push('\n');
}

/// A call's number and first argument, and the known end of a wait in it.
fn named(call: &Call) -> String {
    let text = format!("{}:{:#x}", call.number, call.argument());
    match call.ended_by() {
        WaitEnd::NotKnown => text,
        end => format!("{text} {end:?}"),
    }
}

//! The spans that threads name in their memory, compared with the programs' own logs: in each model of thread-local
//! memory, in processes that ran before the recording, and where the memory cannot be read.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use wakepath_event::{EventKind, EventSource, RecordingFormat, ThreadContext};
use wakepath_harness::live::{Beside, command, document, list, not_possible, number, place, record, run};
use wakepath_recording::Recording;

/// The place of the program's thread-local word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Model {
    /// The program itself.
    Program,
    /// A library linked at the start, compiled with these options.
    Linked(&'static str),
    /// A library that the program loads.
    Loaded(&'static str),
}

const MODELS: [Model; 7] = [
    Model::Program,
    Model::Linked("-mtls-dialect=gnu"),
    Model::Linked("-mtls-dialect=gnu2"),
    Model::Linked("-ftls-model=initial-exec"),
    Model::Loaded("-mtls-dialect=gnu"),
    Model::Loaded("-mtls-dialect=gnu2"),
    Model::Loaded("-ftls-model=initial-exec"),
];

fn compile(options: &[&str], more: &[&Path], to: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/workloads/contexts.c");
    let all = ["-O1", "-std=gnu11", "-pthread"];
    let compiled =
        Command::new("cc").args(all).args(options).arg("-o").arg(to).arg(source).args(more).status();
    assert!(compiled.expect("a C compiler").success(), "contexts.c does not build with {options:?}");
}

/// Builds the program in a folder, and returns its command line.
fn program(folder: &Path, model: Model) -> Vec<String> {
    let (program, library) = (folder.join("contexts"), folder.join("libword.so"));
    let library_of = |dialect| compile(&["-DWORD_ONLY", "-shared", "-fPIC", dialect], &[], &library);
    match model {
        Model::Program => compile(&["-rdynamic"], &[], &program),
        Model::Linked(dialect) => {
            library_of(dialect);
            compile(&["-DWORD_IN_LIBRARY"], &[&library], &program);
        }
        Model::Loaded(dialect) => {
            library_of(dialect);
            compile(&["-DWORD_LOADED"], &[], &program);
        }
    }
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let mut words = vec![text(&program)];
    if matches!(model, Model::Loaded(_)) {
        words.extend(["--library".to_owned(), text(&library)]);
    }
    words.extend(["--log".to_owned(), "log".to_owned(), "--spans".to_owned(), "spans.json".to_owned()]);
    words
}

/// A change in a thread's context, by the program's log.
#[derive(Debug, Clone, Copy)]
struct Change {
    before: u64,
    after: u64,
    state: Logged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logged {
    None,
    Span(u64, u64),
    Unknown,
}

/// The log's threads: their names and changes.
fn log(path: PathBuf) -> HashMap<u32, (String, Vec<Change>)> {
    let mut threads = HashMap::new();
    for line in fs::read_to_string(path).expect("a log").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let tid = number(1) as u32;
        match words[0] {
            "thread" => {
                threads.insert(tid, (words[2].to_owned(), Vec::new()));
            }
            _ => {
                let state = match words[4] {
                    "none" => Logged::None,
                    "unknown" => Logged::Unknown,
                    _ => Logged::Span(number(4), number(5)),
                };
                let (_, changes) = threads.get_mut(&tid).expect("its thread");
                changes.push(Change { before: number(2), after: number(3), state });
            }
        }
    }
    threads
}

fn is_that(read: ThreadContext, logged: Logged) -> bool {
    match (read, logged) {
        (ThreadContext::None, Logged::None) | (ThreadContext::Unknown, Logged::Unknown) => true,
        (ThreadContext::Span { trace, span, flags }, Logged::Span(own_trace, own_span)) => {
            trace[..8] == own_trace.to_le_bytes()
                && trace[8..] == [0xab; 8]
                && span == own_span.to_le_bytes()
                && flags == 1
        }
        _ => false,
    }
}

/// A thread's switches: those with a context in the recording, all, and those whose context contradicts the log.
#[derive(Debug, Default)]
struct Judged {
    read: usize,
    all: usize,
    wrong: Vec<String>,
}

/// Compares each thread's recorded context at each switch with the log.
fn judge(folder: &Path, log: &HashMap<u32, (String, Vec<Change>)>) -> HashMap<String, Judged> {
    let mut judged: HashMap<String, Judged> = HashMap::new();
    let mut contexts = HashMap::new();
    let recording = Recording::open(&folder.join("wakepath.rec")).expect("a recording");
    let problems = recording.for_each(|event| {
        let Some((name, changes)) = log.get(&event.current.0) else { return };
        match &event.kind {
            EventKind::ThreadContext(context) => {
                contexts.insert(event.current, *context);
            }
            EventKind::Switch { .. } => {
                let at = event.at.ns();
                let judged = judged.entry(name.clone()).or_default();
                judged.all += 1;
                let Some(&read) = contexts.get(&event.current) else { return };
                judged.read += 1;
                // The last finished change, and the changes that may have been under way.
                let done = changes.iter().rposition(|change| change.after <= at);
                let before = done.map_or(Logged::None, |done| changes[done].state);
                let first = done.map_or(0, |done| done + 1);
                let under_way = changes[first..]
                    .iter()
                    .take_while(|change| change.before <= at)
                    .map(|change| change.state);
                let mut possible = std::iter::once(before).chain(under_way.clone());
                // While a record is written in place, its context is not known.
                let half_written = name == "alone" && under_way.count() > 0 && read == ThreadContext::Unknown;
                if !possible.any(|logged| is_that(read, logged)) && !half_written {
                    judged.wrong.push(format!("{name} at {at}: read {read:?}, logged {before:?}"));
                }
            }
            _ => {}
        }
    });
    assert!(problems.is_empty(), "{problems:?}");
    judged
}

fn all_right(judged: &HashMap<String, Judged>, model: Model) {
    assert_eq!(judged.len(), 10, "{model:?}: {judged:?}");
    for (name, judged) in judged {
        assert!(judged.wrong.is_empty(), "{model:?}: {} wrong: {:?}", judged.wrong.len(), judged.wrong);
        // A context is read at each switch from the first on.
        assert_eq!(judged.read, judged.all, "{model:?}: {name}");
        assert!(judged.all >= 5, "{model:?}: {name}: {judged:?}");
    }
    let switches: usize = judged.values().map(|judged| judged.all).sum();
    eprintln!("{model:?}: {switches} of {switches} switches right");
}

/// Whether there is a compiler.
fn can_compile(would_show: &str) -> bool {
    let can = std::env::var_os("WAKEPATH_WORKLOADS").is_none();
    if !can {
        not_possible("there is no compiler", would_show);
    }
    can
}

#[test]
fn the_span_that_a_thread_says_it_works_for_is_read_at_each_switch_in_each_model_of_thread_local_memory() {
    let shows = "contexts are read in programs and libraries";
    let Some(folder) = place(shows).filter(|_| can_compile(shows)) else { return };
    let _one = one_at_a_time();
    for model in MODELS {
        let words = program(&folder, model);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (_, err) = record(&folder, &[&["--"], &words[..]].concat(), 0);
        assert!(!err.contains("work for are not read"), "{model:?}: {err}");
        all_right(&judge(&folder, &log(folder.join("log"))), model);
    }
}

#[test]
fn a_process_that_ran_before_the_recording_is_found_too_with_a_library_that_it_loaded() {
    let shows = "contexts are read in a process that runs already";
    let Some(folder) = place(shows).filter(|_| can_compile(shows)) else { return };
    let _one = one_at_a_time();
    for model in [MODELS[0], MODELS[2], MODELS[4]] {
        let words = program(&folder, model);
        let mut program = Command::new(&words[0]);
        program.args(&words[1..]).arg("--wait").current_dir(&folder);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Beside(program.spawn().expect("the program"));
        let mut line = String::new();
        BufReader::new(program.0.stdout.take().expect("its output")).read_line(&mut line).expect("ready");
        let pid = program.0.id().to_string();
        let mut recorder = command(&folder, &["record", "-p", &pid]);
        let recorder =
            Beside(recorder.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("wakepath"));
        // The recorder is attached once its recording exists, and has looked at all processes soon after.
        std::thread::sleep(std::time::Duration::from_secs(4));
        writeln!(program.0.stdin.take().expect("its input"), "go").expect("it reads");
        assert!(program.0.wait().expect("its end").success());
        let mut recorder = recorder;
        assert!(recorder.0.wait().expect("its end").success());
        all_right(&judge(&folder, &log(folder.join("log"))), model);
    }
}

/// A recording beside another begins late, and a program beside another waits for a CPU: neither is tested here.
fn one_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether the states of a request's threads are known: this kernel leaves some switches unrecorded, and then no request is
/// blamed.
fn is_known(one: &Value) -> bool {
    let unknown = list(&one["states"]).iter().filter(|state| state["state"] == "unknown");
    unknown.map(|state| number(&state["total_ns"])).sum::<u64>() == 0
}

#[test]
fn a_request_is_blocked_by_the_one_that_had_the_lock_by_what_the_threads_say_alone() {
    let shows = "requests are joined with threads by contexts";
    let Some(folder) = place(shows).filter(|_| can_compile(shows)) else { return };
    let _one = one_at_a_time();
    let words = program(&folder, Model::Program);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    record(&folder, &[&["--"], &words[..]].concat(), 0);
    let all = document(&folder, &["requests", "wakepath.rec", "spans.json", "--operation", "GET /cart"]);
    let requests = list(&all["requests"]);
    assert_eq!(requests.len(), 20);
    assert!(requests.iter().all(|request| request["join"] == "context"), "{requests:?}");
    let arguments =
        ["requests", "wakepath.rec", "spans.json", "--operation", "GET /cart", "--slowest", "20", "--json"];
    let (out, _) = run(&folder, &arguments, 0);
    let documents: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(documents.len(), 20);
    let known: Vec<Value> = documents.into_iter().filter(is_known).collect();
    assert!(known.len() >= 10, "{} of 20 can be judged", known.len());
    for one in known {
        let blocked_by = list(&one["blocked_by"]);
        let first = blocked_by.first().unwrap_or_else(|| panic!("a request had the lock: {one}"));
        assert_eq!(first["operation"], "PUT /stock", "{first}");
        // Other threads may have had the CPU that the holder needed.
        let others: u64 = blocked_by[1..].iter().map(|other| number(&other["total_ns"])).sum();
        assert!(others < 5_000_000, "{blocked_by:?}");
        // The request waits from half a millisecond after the beginning to the end of the 20 ms hold.
        assert!((15_000_000..40_000_000).contains(&number(&first["total_ns"])), "{first}");
        let of_other = list(&one["pieces"]).iter().filter(|piece| piece["trace_id"] == first["trace_id"]);
        let (mut measured, mut whole) = (0, 0);
        for piece in of_other {
            let length = wakepath_harness::live::length(piece);
            assert_eq!(piece["join"], "context", "{piece}");
            whole += length;
            measured += if piece["basis"] == "measured" { length } else { 0 };
        }
        assert!(measured * 10 > whole * 9, "the holder slept: {measured} of {whole}");
    }
}

#[test]
fn a_request_that_was_not_sampled_is_named_by_its_trace() {
    let shows = "a blocker without spans is named";
    let Some(folder) = place(shows).filter(|_| can_compile(shows)) else { return };
    let _one = one_at_a_time();
    let mut words = program(&folder, Model::Program);
    words.extend(["--unsampled".to_owned(), "PUT /stock".to_owned()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    record(&folder, &[&["--"], &words[..]].concat(), 0);
    let all =
        ["requests", "wakepath.rec", "spans.json", "--operation", "GET /cart", "--slowest", "20", "--json"];
    let (out, _) = run(&folder, &all, 0);
    let mut documents = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let one = documents.find(is_known).expect("a request whose switches were all recorded");
    let id = one["request"]["trace_id"].as_str().expect("an id");
    let arguments = ["requests", "wakepath.rec", "spans.json", "--request", id];
    let first = list(&one["blocked_by"]).first().unwrap_or_else(|| panic!("a request had the lock: {one}"));
    assert_eq!((&first["operation"], &first["sampled"]), (&Value::Null, &Value::Bool(false)), "{first}");
    let (text, _) = run(&folder, &arguments, 0);
    let trace = &first["trace_id"].as_str().expect("an id")[..16];
    let head: String = text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    assert!(head.contains(&format!("request {trace}")) && head.contains("not sampled"), "{text}");
}

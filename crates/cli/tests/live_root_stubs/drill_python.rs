//! `wakepath drill` into Python functions: the path to the function that makes calls slow, and the limits of following.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{Place, command, document, list, not_possible, number, place, run};

/// Debian 12's interpreter, which has CPython's probes.
const PYTHON: &str = "/usr/bin/python3.11";

/// A place for a single test in this file, if there is an interpreter with probes.
fn alone(would_show: &str) -> Option<(Place, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if semaphore().is_none() {
        not_possible("no CPython 3.11 with probes at /usr/bin/python3.11", would_show);
        return None;
    }
    Some((place(would_show)?, guard))
}

/// The address of the counter for `function__return`, in a program loaded at its file's addresses.
fn semaphore() -> Option<u64> {
    let notes = Command::new("readelf").args(["-hnW", PYTHON]).output().ok()?;
    let text = String::from_utf8(notes.stdout).ok()?;
    if !text.contains("EXEC") {
        return None;
    }
    let (_, behind) = text.split_once("Name: function__return")?;
    let (_, behind) = behind.split_once("Semaphore: 0x")?;
    u64::from_str_radix(behind.get(..16)?, 16).ok()
}

/// The number of probes that count function ends in a process.
fn probed(pid: &str) -> u16 {
    let mut bytes = [0; 2];
    let memory = File::open(format!("/proc/{pid}/mem")).expect("its memory");
    memory.read_exact_at(&mut bytes, semaphore().expect("a counter")).expect("the counter");
    u16::from_le_bytes(bytes)
}

/// A running shop; it ends when dropped.
struct Shop(Child, String);

impl Shop {
    fn start(arguments: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live_root_stubs/drill_python/shop.py");
        // Before all ordinary threads: beside other tests it would wait longer for a CPU than it computes.
        let mut child = Command::new("chrt")
            .args(["-f", "10", PYTHON, script])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the shop");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("its number");
        Self(child, line.trim().to_owned())
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The answer about a shop's slow requests.
fn answer(folder: &Place, arguments: &[&str]) -> Value {
    let shop = Shop::start(arguments);
    document(folder, &["drill", "python:serve", "-p", &shop.1, "--start-ops", "400", "--no-waits"])
}

/// The answer's only path, and the cause at its end.
fn only_path(answer: &Value) -> (Vec<&str>, &Value) {
    let ([path], [cause]) = (list(&answer["root_causes"]), list(&answer["causes"])) else {
        panic!("{answer}")
    };
    (list(path).iter().filter_map(Value::as_str).collect(), cause)
}

/// Whether all votes against the last decision's choice are for the hypervisor: it took the CPU for so long that these calls
/// were slow without the culprit.
fn only_stolen_votes(answer: &Value) -> bool {
    let last = list(&answer["decisions"]).last().expect("a decision");
    let votes = list(&last["contributors"]).iter().filter(|it| number(&it["votes"]) > 0);
    votes.filter(|it| it["chosen"] == false).all(|it| it["of"] == "stolen")
}

fn notes(answer: &Value) -> String {
    answer["notes"].to_string()
}

#[test]
fn the_function_that_takes_the_time_is_found_with_the_lines_of_the_calls() {
    let Some((folder, _alone)) = alone("the function of Python that makes calls slow is found") else {
        return;
    };
    for (culprit, waits) in [("compute", false), ("sleep", true), ("lock", true), ("read", true)] {
        let answer = answer(&folder, &[culprit]);
        let (path, cause) = only_path(&answer);
        // The lock is Python's own semaphore class, below `price`.
        let wanted: &[&str] = &["serve", "look_up", "Stock.price"];
        assert!(path.starts_with(wanted) && (culprit == "lock" || path.len() == 3), "{culprit}: {answer}");
        assert_eq!(cause["cause"], "itself", "{culprit}: {answer}");
        assert_eq!(number(&cause["blocked_ns"]) * 2 > number(&cause["ns"]), waits, "{culprit}: {answer}");
        let doubts: Vec<_> = list(&cause["doubts"]).iter().filter_map(Value::as_str).collect();
        let is_certain = doubts.is_empty() || (doubts == ["close votes"] && only_stolen_votes(&answer));
        assert!(is_certain, "{culprit}: {answer}");
        let line = |node: &Value| node["line"].as_str().unwrap_or_default().to_owned();
        let look_up =
            list(&answer["tree"]["children"]).iter().find(|it| it["name"] == "look_up").expect("it");
        assert!(line(look_up).starts_with("shop.py:"), "{answer}");
        let prices = list(&look_up["children"]).iter().filter(|it| it["name"] == "Stock.price").count();
        assert_eq!(prices, 2, "two calls on one line are two nodes: {answer}");
        if culprit == "compute" {
            let top = &list(&cause["sampled"]["places"])[0];
            assert_eq!(top["function"], "Stock.price", "{answer}");
            assert!(top["line"].as_str().is_some_and(|line| line.starts_with("shop.py:1")), "{answer}");
        }
    }
}

#[test]
fn a_loop_is_the_answer_with_its_number_of_calls() {
    let Some((folder, _alone)) = alone("a loop over a function of Python is named") else { return };
    let answer = answer(&folder, &["loop"]);
    let (path, cause) = only_path(&answer);
    assert_eq!(path, ["serve", "Stock.many"], "{answer}");
    assert_eq!((&cause["cause"], &cause["callee"]), (&"loop".into(), &"one_of".into()), "{answer}");
    assert_eq!(number(&cause["times"]), 600, "{answer}");
}

#[test]
fn recursion_generators_callbacks_and_exceptions_are_followed() {
    let Some((folder, _alone)) = alone("paths through recursion, generators and exceptions") else { return };
    for (way, path, has_unseen) in [
        ("deep", &["serve", "look_up", "deep", "deep", "deep", "deep", "Stock.price"][..], false),
        // An abandoned generator is ended by its owner.
        ("generator", &["serve", "look_up", "items", "Stock.price"], true),
        ("key", &["serve", "look_up", "by_key.<locals>.<lambda>", "Stock.price"], false),
        // The exception is thrown into the context's generator.
        ("exception", &["serve", "look_up", "fails", "Stock.price"], true),
    ] {
        let answer = answer(&folder, &["sleep", way]);
        assert_eq!(only_path(&answer).0, path, "{way}: {answer}");
        assert_eq!(notes(&answer).contains("whose beginning nothing shows"), has_unseen, "{way}: {answer}");
    }
}

#[test]
fn a_path_below_more_calls_than_are_kept_ends_in_doubt() {
    let Some((folder, _alone)) = alone("a path that is too deep is not a wrong one") else { return };
    let shop = Shop::start(&["sleep", "very-deep"]);
    let answer = document(
        &folder,
        &[
            "drill",
            "python:serve",
            "-p",
            &shop.1,
            "--start-ops",
            "400",
            "--no-waits",
            "--max-depth",
            "50",
            "-d",
            "20s",
        ],
    );
    let (path, cause) = only_path(&answer);
    assert!(path[2..].iter().all(|name| *name == "deep"), "{answer}");
    assert!(cause["cause"].is_null() || !list(&cause["doubts"]).is_empty(), "{answer}");
}

#[test]
fn all_probes_are_gone_at_the_end_and_where_wakepath_is_killed() {
    let Some((folder, _alone)) = alone("no probe stays behind in an interpreter") else { return };
    let shop = Shop::start(&["sleep"]);
    let arguments = ["drill", "python:serve", "-p", &shop.1, "--no-waits", "--json", "--start-ops"];
    assert_eq!(probed(&shop.1), 0);
    for signal in [None, Some(libc::SIGKILL), Some(libc::SIGINT)] {
        let mut search = command(&folder, &arguments);
        search.arg(if signal.is_some() { "100000" } else { "100" });
        let search = search.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut search) = search else { panic!("wakepath") };
        let began = Instant::now();
        while probed(&shop.1) == 0 && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(probed(&shop.1), 1, "{signal:?}");
        if let Some(signal) = signal {
            // SAFETY: the child is not waited for yet, so the number is its own.
            unsafe { libc::kill(search.id() as i32, signal) };
        }
        search.wait().expect("it ends");
        let began = Instant::now();
        while probed(&shop.1) != 0 && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(probed(&shop.1), 0, "{signal:?}");
    }
}

#[test]
fn what_cannot_be_followed_is_refused_with_the_reason() {
    let Some((folder, _alone)) = alone("why a search in Python cannot begin") else { return };
    let shop = Shop::start(&["sleep"]);
    let mut other = Command::new("sleep").arg("60").spawn().expect("sleep");
    let sleep = other.id().to_string();
    for (arguments, code, says) in [
        (&["python:serve", "-p", &sleep][..], 2, &["runs no CPython", "FILE:FUNCTION"][..]),
        (&["python:server", "-p", &shop.1], 2, &["was not called in 10.0 s", "among them: serve"]),
        (
            &["python:look_up", "-p", &shop.1],
            2,
            &["several functions of Python", "shop.py:Other.look_up (line"],
        ),
        (
            &["python:serve", "-p", &shop.1, "--start-ops", "50", "--samples-only"],
            2,
            &["samples and waits gave no answer", "without --samples-only"],
        ),
        (
            &["python:serve", "-p", &shop.1, "--stubs"],
            2,
            &["cannot be measured by stubs", "leave --stubs out"],
        ),
    ] {
        let no_waits =
            if arguments.contains(&"--samples-only") { &["drill"][..] } else { &["drill", "--no-waits"] };
        let (_, said) = run(&folder, &[no_waits, arguments].concat(), code);
        assert!(says.iter().all(|part| said.contains(part)), "{arguments:?}: {said}");
    }
    other.kill().and_then(|()| other.wait()).expect("sleep ends");
    // Other builds of CPython, by their symbols.
    let of_3 = "void _PyEval_EvalFrameDefault(void) {} int _PyRuntime;";
    let version = |number: &str| format!("{of_3} const unsigned long Py_Version = {number};");
    for (symbols, says) in [
        ("void PyEval_EvalFrameEx(void) {}".to_owned(), "is CPython before 3.11"),
        ("void _PyEval_EvalFrameDefault(void) {}".to_owned(), "is CPython before 3.11"),
        (of_3.to_owned(), "is CPython before 3.11"),
        (version("0x030c01f0"), "is CPython 3.12: functions of Python are followed in 3.11"),
        (version("0x030b07f0"), "was built without CPython's probes"),
    ] {
        let (source, program) = (folder.join("other.c"), folder.join("other"));
        std::fs::write(
            &source,
            format!("#include <unistd.h>\n{symbols}\nint main(void) {{ return pause(); }}\n"),
        )
        .expect("room");
        let built = Command::new("cc").arg("-rdynamic").arg("-o").arg(&program).arg(&source).status();
        assert!(built.expect("cc").success());
        let mut other = Command::new(&program).spawn().expect("it starts");
        let (_, said) = run(&folder, &["drill", "python:serve", "-p", &other.id().to_string()], 4);
        other.kill().and_then(|()| other.wait()).expect("it ends");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(says) && said.contains("/usr/bin/python3"), "{symbols}: {said}");
    }
    // The whole name is enough, and so is the file.
    for target in ["python:Other.look_up", "python:shop.py:serve"] {
        let answer = document(&folder, &["drill", target, "-p", &shop.1, "--start-ops", "50", "--no-waits"]);
        assert_eq!(answer["target"], target, "{answer}");
    }
}

#[test]
fn a_command_is_followed_from_its_start_and_its_waits_have_a_next_step() {
    let Some((folder, _alone)) = alone("a command of Python is drilled into") else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live_root_stubs/drill_python/shop.py");
    let mut search =
        command(&folder, &["drill", "python:serve", "--start-ops", "200", "--", PYTHON, script, "sleep"]);
    // The shop ends with its standard input; the search takes 2 s, longer on a busy machine.
    let mut search =
        search.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath");
    let input = search.stdin.take();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(15));
        drop(input);
    });
    let output = search.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("└─ Stock.price  called at shop.py:"), "{said}");
    assert!(said.contains("in Stock.price, which waited for"), "{said}");
    assert!(said.contains("a recording follows no functions of Python; wakepath record -p"), "{said}");
}

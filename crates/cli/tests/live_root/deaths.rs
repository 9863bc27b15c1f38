//! Killed processes, recorded live: named where a wait did not end or ended by the death, and nowhere else. Signals without
//! effect.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wakepath_harness::live::{
    Beside, Place, document, list, not_possible, number, path, place, program, record,
};

use crate::memory_limits::Group;

const SOURCE: &str = include_str!("deaths/deaths.c");

fn deaths(would_show: &str) -> Option<Place> {
    let folder = place(would_show)?;
    program(&folder, "deaths", SOURCE, &["-O1", "-pthread"]);
    Some(folder)
}

/// The headline of a document.
fn headline(document: &Value) -> &str {
    document["headline"]["text"].as_str().expect("a sentence")
}

/// Records the program in a mode, until `timeout` ends it after 1.5 s. Returns the printed number, and the document.
fn given_up(folder: &Path, signal: &str, mode: &str) -> (u64, Value) {
    let code = if signal == "KILL" { 137 } else { 124 };
    let (printed, _) = record(folder, &["--", "timeout", "-s", signal, "1.5", "./deaths", mode], code);
    let pid = printed.lines().find_map(|line| line.parse().ok());
    (pid.unwrap_or_else(|| panic!("{mode}: {printed}")), path(folder))
}

/// The only awaited death.
fn awaited<'a>(document: &'a Value, mode: &str) -> &'a Value {
    let deaths = list(&document["deaths"]);
    let [death] = deaths else { panic!("{mode}: {deaths:?}") };
    assert_eq!((&death["part"], &death["basis"]), (&json!("awaited"), &json!("inferred")), "{mode}: {death}");
    death
}

#[test]
fn a_killed_worker_is_named_where_its_answer_did_not_come() {
    let Some(folder) = deaths("a killed worker is why its parent waits for ever") else { return };
    for (mode, evidence, words) in [
        ("pool", "ended_earlier_waits", "which had ended 1 wait like this"),
        ("pool-first", "unanswered", "which had work from it since"),
        ("pool-unasked", "writes_pipe", "which could write to the pipe"),
    ] {
        let (worker, document) = given_up(&folder, "TERM", mode);
        let death = awaited(&document, mode);
        assert_eq!((number(&death["pid"]), &death["name"]), (worker, &json!("SIGKILL")), "{mode}: {death}");
        assert_eq!(death["sender"]["comm"], "deaths", "{mode}: {death}");
        assert_ne!(death["sender"]["pid"], death["awaited"]["waiter"]["pid"], "{mode}: {death}");
        assert_eq!(death["awaited"]["evidence"], evidence, "{mode}: {death}");
        let waited = death["awaited"]["until_ns"].as_i64().unwrap() - death["at_ns"].as_i64().unwrap();
        assert!((500_000_000..1_500_000_000).contains(&waited), "{mode}: {death}");
        let said = headline(&document);
        let named = format!("deaths ({worker}), {words}");
        assert!(said.contains(&named) && said.contains("was killed by SIGKILL from deaths ("), "{said}");
    }
}

#[test]
fn a_recording_that_ends_while_the_parent_waits_names_the_killed_worker() {
    let Some(folder) = deaths("a killed worker is why its parent still waits") else { return };
    let parent = Beside(
        Command::new("./deaths")
            .arg("pool-late")
            .current_dir(&*folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("it"),
    );
    record(&folder, &["-p", &parent.0.id().to_string(), "-d", "7s"], 0);
    let document = document(&folder, &["path", "--tid", &parent.0.id().to_string()]);
    assert_eq!(document["headline"]["code"], "still_waiting", "{document}");
    let death = awaited(&document, "pool-late");
    assert_eq!(death["name"], "SIGKILL", "{death}");
    let said = headline(&document);
    assert!(said.contains("is still waiting after") && said.contains("nobody woke it: deaths ("), "{said}");
}

#[test]
fn a_death_for_which_nobody_waits_is_not_named() {
    let Some(folder) = deaths("a death has its place only where something waits for it") else { return };
    for (signal, mode) in [
        ("TERM", "pool-alive"),
        // Ctrl-C reaches the worker, too.
        ("INT", "pool-alive"),
        ("TERM", "pool-exit"),
        ("TERM", "pool-idle"),
        ("TERM", "pool-other"),
        ("TERM", "mutex-other"),
    ] {
        let (_, document) = given_up(&folder, signal, mode);
        let deaths = list(&document["deaths"]);
        assert!(deaths.iter().all(|death| death["part"] != "awaited"), "{signal} {mode}: {deaths:?}");
        let said = headline(&document);
        assert!(!said.contains("SIGKILL") && !said.contains("nobody woke"), "{signal} {mode}: {said}");
    }
}

#[test]
fn a_python_pool_whose_worker_is_killed_names_it() {
    const POOL: &str = "import multiprocessing, os, subprocess, time\n\
        def work(n):\n    open('pid', 'w').write(str(os.getpid()))\n    time.sleep(100)\n\
        if __name__ == '__main__':\n\
        \x20   pool = multiprocessing.get_context('fork').Pool(2)\n\
        \x20   subprocess.Popen(['sh', '-c', 'sleep 0.7; kill -9 $(cat pid)'])\n\
        \x20   pool.map(work, [1])\n";
    let Some(folder) = place("a lost task of a pool names the killed worker") else { return };
    fs::write(folder.join("pool.py"), POOL).expect("a file");
    record(&folder, &["--", "timeout", "-s", "TERM", "3", "python3", "pool.py"], 124);
    let worker: u64 = fs::read_to_string(folder.join("pid")).expect("a number").parse().expect("a number");
    let document = path(&folder);
    let death = awaited(&document, "pool.py");
    assert_eq!((number(&death["pid"]), &death["sender"]["comm"]), (worker, &json!("sh")), "{death}");
    assert!(headline(&document).contains("was killed by SIGKILL from sh ("), "{}", headline(&document));
}

#[test]
fn a_lock_whose_owner_was_killed_names_the_owner() {
    let Some(folder) = deaths("a lock's dead owner is why nobody woke the waiter") else { return };
    let (holder, document) = given_up(&folder, "TERM", "mutex");
    let death = awaited(&document, "mutex");
    assert_eq!(number(&death["pid"]), holder, "{death}");
    assert_eq!(death["awaited"]["evidence"], "holds_lock", "{death}");
    let said = headline(&document);
    let words = format!("deaths ({holder}), which holds the lock, was killed by SIGKILL from deaths (");
    assert!(said.contains(&words), "{said}");
}

/// The master, once it listens. Returns it and its worker.
fn master(folder: &Path, mode: &str) -> Beside {
    for file in ["ready", "asked"] {
        let _ = fs::remove_file(folder.join(file));
    }
    let mut command = Command::new("./deaths");
    let master = Beside(command.arg(mode).current_dir(folder).stdout(Stdio::null()).spawn().expect("it"));
    let began = Instant::now();
    while !folder.join("ready").exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "no master");
        std::thread::sleep(Duration::from_millis(20));
    }
    master
}

#[test]
fn a_worker_that_its_master_kills_ends_its_clients_wait() {
    let Some(folder) = deaths("a client is told that its worker was killed, and by whom") else { return };
    let killer = master(&folder, "master");
    record(&folder, &["--", "./deaths", "client"], 0);
    let document = path(&folder);
    let deaths = list(&document["deaths"]);
    let [death] = deaths else { panic!("{document}") };
    assert_eq!((&death["part"], &death["name"]), (&json!("ended_wait"), &json!("SIGABRT")), "{death}");
    assert_eq!(number(&death["sender"]["pid"]), u64::from(killer.0.id()), "{death}");
    let words = format!("was killed by SIGABRT from deaths ({})", killer.0.id());
    assert!(headline(&document).contains(&words), "{}", headline(&document));
    // The twin's worker answers, and is killed behind its answer.
    drop(killer);
    let _master = master(&folder, "master-answers");
    record(&folder, &["--", "./deaths", "client"], 0);
    let document = path(&folder);
    assert_eq!(list(&document["deaths"]), &[Value::Null; 0], "{}", headline(&document));
}

#[test]
fn a_child_that_the_kernel_kills_for_want_of_memory_is_named_with_the_limit() {
    const LIMIT: u64 = 20 << 20;
    const WOULD_SHOW: &str = "a kill for want of memory is named with the limit";
    let Some(folder) = deaths(WOULD_SHOW) else { return };
    let script = |then: &str| format!("(echo 0 >$1/cgroup.procs; exec ./deaths hog 40){then}; echo next");
    for (limit, then, by) in [
        (LIMIT, "", Some("no_memory")),
        (1 << 40, "", None),
        (1 << 40, " & sleep 0.3; kill -9 $!; wait", Some("thread")),
    ] {
        let Some(group) = Group::new("wakepath-oom", limit) else {
            return not_possible("no cgroup whose memory could be limited", WOULD_SHOW);
        };
        let group_path = group.0.to_str().expect("a path");
        record(&folder, &["--", "sh", "-c", &script(then), "hogs", group_path], 0);
        let document = path(&folder);
        let deaths = list(&document["deaths"]);
        let found: Vec<&str> = deaths.iter().filter_map(|death| death["by"].as_str()).collect();
        if by != Some("no_memory") {
            // A shell killing its own child after a sleep waited for the sleep.
            assert!(!found.contains(&"no_memory"), "{deaths:?}");
            assert!(!headline(&document).contains("memory"), "{}", headline(&document));
            continue;
        }
        assert_eq!(found, ["no_memory"], "{}", headline(&document));
        let name = group.0.file_name().expect("a name").to_string_lossy();
        assert_eq!((&deaths[0]["limit_unit"], number(&deaths[0]["limit_bytes"])), (&json!(name), LIMIT));
        let words = format!("was killed by the kernel: out of memory, memory limit of {name} (21 MB)");
        assert!(headline(&document).contains(&words), "{}", headline(&document));
    }
}

/// A script: asks a process to end, looks each tenth of a second for a second and a half, and kills it then.
const STOP: &str = "kill -TERM $1; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do \
    kill -0 $1 2>/dev/null || exit 0; sleep 0.1; done; kill -KILL $1; sleep 0.1";

/// The program in a mode, and the number printed by it.
fn entry(folder: &Path, words: &[&str]) -> (Beside, u64) {
    use std::io::{BufRead, BufReader};
    let mut command = Command::new(words[0]);
    let mut child =
        command.args(&words[1..]).current_dir(folder).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let pid = line.trim().parse().unwrap_or_else(|_| panic!("{line}"));
    (Beside(child), pid)
}

#[test]
fn a_signal_without_effect_is_named_with_the_reason() {
    let Some(folder) = deaths("a SIGTERM without effect is why a stop takes its time") else { return };
    for (mode, why, words) in [
        ("entry-ignores", "ignores", "had no effect (it ignores the signal); it lived "),
        ("entry-handles", "handler_ran", "had no effect (its handler ran); it lived "),
        ("entry-blocks", "not_taken", "had no effect (no thread took it); it lived "),
    ] {
        let (_entry, pid) = entry(&folder, &["./deaths", mode]);
        record(&folder, &["--", "sh", "-c", STOP, "stop", &pid.to_string()], 0);
        let document = path(&folder);
        let signals = list(&document["unheeded_signals"]);
        let [signal] = signals else { panic!("{mode}: {document}") };
        assert_eq!((number(&signal["pid"]), &signal["name"]), (pid, &json!("SIGTERM")), "{mode}: {signal}");
        assert_eq!((&signal["why"], &signal["end"]), (&json!(why), &json!("killed")), "{mode}: {signal}");
        assert_eq!(signal["killed"]["name"], "SIGKILL", "{mode}: {signal}");
        assert!((1_400_000_000..3_000_000_000).contains(&number(&signal["lived_ns"])), "{mode}: {signal}");
        let said = headline(&document);
        assert!(said.contains(&format!("SIGTERM to deaths ({pid}) {words}")), "{mode}: {said}");
        assert!(said.contains("until it was killed by SIGKILL from sh ("), "{mode}: {said}");
    }
}

#[test]
fn the_first_process_in_a_pid_namespace_without_a_handler_gets_no_sigterm() {
    let Some(folder) = deaths("the first process in a container does not obey SIGTERM") else { return };
    let (outer, _) = entry(&folder, &["unshare", "--pid", "--fork", "--kill-child", "./deaths", "entry"]);
    let children = format!("/proc/{0}/task/{0}/children", outer.0.id());
    let pid = fs::read_to_string(children).expect("its child").trim().to_owned();
    record(&folder, &["--", "sh", "-c", STOP, "stop", &pid], 0);
    let document = path(&folder);
    let signals = list(&document["unheeded_signals"]);
    let [signal] = signals else { panic!("{document}") };
    assert_eq!(
        (&signal["why"], &signal["pid"].to_string()),
        (&json!("first_in_namespace"), &pid),
        "{signal}"
    );
}

#[test]
fn a_signal_with_an_effect_or_for_which_nothing_waits_is_not_named() {
    let Some(folder) = deaths("a SIGTERM that is obeyed, or not waited for, is no reason") else { return };
    // Whoever sends it sleeps for reasons of its own.
    const OTHERWISE: &str = "kill -TERM $1; sleep 1.5";
    for (mode, script) in [("entry", STOP), ("entry", OTHERWISE), ("entry-ignores", OTHERWISE)] {
        let (_entry, pid) = entry(&folder, &["./deaths", mode]);
        // `sh` is not the parent: the process stays as a zombie, which `kill -0` finds.
        let script = script.replace("kill -0 $1", "grep -q 'State:.[SR]' /proc/$1/status");
        record(&folder, &["--", "sh", "-c", &script, "stop", &pid.to_string()], 0);
        let document = path(&folder);
        assert_eq!(list(&document["unheeded_signals"]), &[Value::Null; 0], "{mode} {script}");
        assert!(!headline(&document).contains("SIGTERM"), "{mode}: {}", headline(&document));
    }
}

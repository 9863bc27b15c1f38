//! Calls failing before sleeps, recorded live: each try beside a twin that sleeps without this reason.

use std::path::Path;

use serde_json::{Value, json};
use wakepath_harness::live::{Place, list, number, path, place, program, record, run};

const SOURCE: &str = include_str!("polling/tries.c");

/// A program's recording: its row of sleeps, the failures in it, and the program's two numbers.
struct Polled {
    row: Value,
    failures: Vec<Value>,
    numbers: Vec<u64>,
    document: Value,
}

/// Records the program in this mode.
fn polled(folder: &Path, mode: &str) -> Polled {
    polled_with(folder, &["--failed-calls"], mode)
}

fn polled_with(folder: &Path, options: &[&str], mode: &str) -> Polled {
    let (printed, _) = record(folder, &[options, &["--", "./tries", mode]].concat(), 0);
    let document = path(folder);
    let rows = list(&document["rows"]).iter();
    let row = rows.clone().find(|row| row["code"] == "timer").unwrap_or_else(|| panic!("{mode}: {document}"));
    let numbers = printed.lines().find_map(|line| {
        let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        numbers.ok().filter(|numbers| numbers.len() == 2)
    });
    Polled {
        failures: list(&row["failed_calls"]).to_vec(),
        row: row.clone(),
        numbers: numbers.unwrap_or_else(|| panic!("{mode}: {printed}")),
        document,
    }
}

fn tries(would_show: &str) -> Option<Place> {
    let folder = place(would_show)?;
    program(&folder, "tries", SOURCE, &["-O1"]);
    Some(folder)
}

/// Asserts a failure before at least 18 of 20 sleeps of 10 ms. A kernel may leave switches out: the answer says so, and such a time counts too.
fn is_before_nearly_all(mode: &str, found: &Polled, failure: &Value) {
    let contributors = list(&found.document["contributors"]).iter();
    let unseen = contributors.filter(|one| one["code"] == "unrecorded" || one["code"] == "lost");
    let unseen: u64 = unseen.map(|one| number(&one["total_ns"])).sum();
    let sleeps = number(&failure["sleeps"]) + unseen / 10_000_000;
    assert!(sleeps >= 18 && failure["explains"] == true, "{mode}, {unseen} ns unseen: {failure}");
}

#[test]
fn the_call_that_failed_before_each_sleep_is_named_with_its_object() {
    let Some(folder) = tries("a failing try is the reason of sleep") else { return };
    let long = format!("{}/the/end", "y".repeat(56));
    for (mode, call, error, object) in [
        ("access", "access", json!("ENOENT"), json!({"type": "path", "name": "ready"})),
        ("access-poll", "access", json!("ENOENT"), json!({"type": "path", "name": "ready"})),
        ("then-looks", "access", json!("ENOENT"), json!({"type": "path", "name": "ready"})),
        ("then-opens", "newfstatat", json!("ENOENT"), json!({"type": "path", "name": "ready"})),
        ("script", "access", json!("ENOENT"), json!({"type": "path", "name": "ready"})),
        ("long", "access", json!("ENOENT"), json!({"type": "path_end", "name": long})),
    ] {
        let found = polled(&folder, mode);
        let [failure] = &found.failures[..] else { panic!("{mode}: {}", found.row) };
        is_before_nearly_all(mode, &found, failure);
        assert_eq!((&failure["call"], &failure["error"]), (&json!(call), &error), "{mode}: {failure}");
        assert_eq!(failure["object"], object, "{mode}");
        // A script counts on: a sleep that a kernel left out has its try counted with the next one.
        let tries = number(&failure["tries"]);
        let is_counted =
            tries == number(&failure["sleeps"]) || mode == "script" && (18..=20).contains(&tries);
        assert!(is_counted, "{mode}: {failure}");
    }
    let (screen, _) = run(&folder, &["path"], 0);
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        screen.contains(": access(\"…yyyy") && screen.contains("/the/end\") failed with ENOENT"),
        "{screen}"
    );
}

/// The failures before the sleeps in a script's loop that runs `tried` and a `sleep` ten times.
fn before_sleeps(folder: &Path, tried: &str) -> Vec<Value> {
    let script = format!(
        "mkdir -p lock.d\ntries=0\nuntil [ $tries = 10 ]; do\n{tried}\nsleep 0.03\ntries=$((tries + 1))\ndone\n"
    );
    std::fs::write(folder.join("loop.sh"), script).expect("a script");
    record(folder, &["--failed-calls", "--", "sh", "loop.sh"], 0);
    let document = path(folder);
    let row = list(&document["rows"]).iter().find(|row| row["code"] == "timer").cloned();
    let row = row.unwrap_or_else(|| panic!("{tried}: {document}"));
    list(&row["failed_calls"]).to_vec()
}

#[test]
fn a_try_in_a_script_s_child_is_the_reason_of_sleep_if_the_child_failed() {
    let Some(folder) = place("a script's try in another process is the reason of sleep") else { return };
    let failures = before_sleeps(&folder, "mkdir lock.d 2>/dev/null");
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    assert!(number(&failure["sleeps"]) >= 8 && failure["explains"] == true, "{failure}");
    assert_eq!((&failure["call"], &failure["error"]), (&json!("mkdir"), &json!("EEXIST")), "{failure}");
    assert_eq!(failure["object"], json!({"type": "path", "name": "lock.d"}));
    for twin in [
        // It ends well.
        "mkdir -p lock.d",
        // Its child failed, and it did not.
        "sh -c 'mkdir lock.d 2>/dev/null; true'",
        // It made sure of a folder long before it failed.
        "python3 -c \"import os; os.makedirs('lock.d', exist_ok=True); [os.stat('.') for _ in range(99)]; exit(1)\"",
        // It looked for a file: programs do so for many reasons.
        "cat nothing 2>/dev/null",
        "false",
    ] {
        assert_eq!(before_sleeps(&folder, twin), [Value::Null; 0], "{twin}");
    }
}

#[test]
fn a_lock_s_holder_is_the_process_whose_lock_is_in_the_way() {
    let Some(folder) = tries("a polled lock names its holder") else { return };
    for (mode, call) in
        [("lock", "fcntl"), ("near-lock", "fcntl"), ("read-lock", "fcntl"), ("flock", "flock")]
    {
        let found = polled(&folder, mode);
        let [failure] = &found.failures[..] else { panic!("{mode}: {}", found.row) };
        is_before_nearly_all(mode, &found, failure);
        assert_eq!(
            (&failure["call"], &failure["error"]),
            (&json!(call), &json!("EAGAIN")),
            "{mode}: {failure}"
        );
        assert_eq!(failure["object"], json!({"type": "file", "name": "lock"}), "{mode}");
        assert_eq!(failure["held_by"], json!([found.numbers[0]]), "{mode}: {failure}");
    }
}

#[test]
fn a_refused_lock_is_the_reason_of_sleep_without_an_option() {
    let Some(folder) = tries("a refused file lock is known without --failed-calls") else { return };
    for (options, mode, call) in [
        (&[][..], "lock", "fcntl"),
        (&[], "near-lock", "fcntl"),
        (&[], "flock", "flock"),
        (&[], "lock-around", "fcntl"),
        (&["--failed-calls"], "lock-around", "fcntl"),
        (&["--failed-calls"], "late-lock", "fcntl"),
    ] {
        let found = polled_with(&folder, options, mode);
        let [failure] = &found.failures[..] else { panic!("{mode}: {}", found.row) };
        is_before_nearly_all(mode, &found, failure);
        assert_eq!((&failure["call"], &failure["error"]), (&json!(call), &json!("EAGAIN")), "{mode}");
        assert_eq!(failure["tries"], failure["sleeps"], "{mode}: {failure}");
        assert_eq!(failure["object"], json!({"type": "file", "name": "lock"}), "{mode}");
        assert_eq!(failure["held_by"], json!([found.numbers[0]]), "{mode}: {failure}");
        let headline = found.document["headline"]["text"].as_str().expect("a sentence");
        // It computes for longer than it sleeps.
        let leads = mode != "late-lock";
        assert_eq!(headline.contains("polling for the lock lock"), leads, "{mode}: {headline}");
        assert_eq!(found.document["next"][1], "path", "{mode}: the option would say no more");
    }
    // It has the lock; it came too long before, for all that is known; it counts for one sleep.
    for (options, mode) in [
        (&[][..], "twin-lock"),
        (&[], "twin-got"),
        (&["--failed-calls"], "twin-got"),
        (&[], "late-lock"),
        (&[], "twin-once-refused"),
    ] {
        let found = polled_with(&folder, options, mode);
        assert_eq!(found.failures, [Value::Null; 0], "{mode}");
    }
}

#[test]
fn a_refused_connection_is_known_at_once_or_by_the_socket_s_error() {
    let Some(folder) = tries("a refused connection is the reason of sleep") else { return };
    for mode in ["connect", "connect-later"] {
        let found = polled(&folder, mode);
        let [failure] = &found.failures[..] else { panic!("{mode}: {}", found.row) };
        is_before_nearly_all(mode, &found, failure);
        assert_eq!(
            (&failure["call"], &failure["error"]),
            (&json!("connect"), &json!("ECONNREFUSED")),
            "{mode}"
        );
        let address = format!("127.0.0.1:{}", found.numbers[1]);
        assert_eq!(failure["object"], json!({"type": "address", "name": address}), "{mode}");
        let headline = found.document["headline"]["text"].as_str().expect("a sentence");
        let wanted = format!("sleeping between tries: connect to {address} failed with ECONNREFUSED");
        assert!(headline.contains(&wanted), "{mode}: {headline}");
    }
}

#[test]
fn a_process_that_is_found_alive_is_the_reason_of_sleep() {
    let Some(folder) = tries("waiting for a process by asking again and again is the reason of sleep") else {
        return;
    };
    for (mode, call) in [("alive", "kill"), ("child", "wait4")] {
        let found = polled(&folder, mode);
        let [failure] = &found.failures[..] else { panic!("{mode}: {}", found.row) };
        is_before_nearly_all(mode, &found, failure);
        assert_eq!((&failure["call"], &failure["error"]), (&json!(call), &Value::Null), "{mode}: {failure}");
        let object = json!({"type": "process", "name": found.numbers[0].to_string()});
        assert_eq!(failure["object"], object, "{mode}");
    }
}

#[test]
fn a_try_for_a_lock_stays_the_reason_behind_weaker_failures() {
    let Some(folder) = tries("failures behind a try for a lock do not hide it") else { return };
    // Where the lock is free, a path's failure is the strongest.
    for (mode, call) in [("lock-then-prints", "fcntl"), ("then-prints", "access")] {
        let found = polled(&folder, mode);
        let [failure] = &found.failures[..] else { panic!("{mode}: {}", found.row) };
        is_before_nearly_all(mode, &found, failure);
        assert_eq!(failure["call"], call, "{mode}: {failure}");
    }
}

#[test]
fn sleep_without_a_failed_try_has_no_such_reason() {
    let Some(folder) = tries("sleep without a failing try is sleep") else { return };
    for mode in [
        "twin-access",
        "twin-second",
        "twin-far",
        "twin-once",
        "twin-lock",
        "twin-read-lock",
        "twin-gone",
        "twin-connect",
        "twin-connect-later",
        "twin-32-bit",
        "twin-tty",
        "twin-no-child",
        "twin-script",
    ] {
        let found = polled(&folder, mode);
        assert_eq!(found.failures, [Value::Null; 0], "{mode}");
        assert!(number(&found.row["calls"][0]["waits"]) >= 18, "{mode}: it sleeps: {}", found.row);
        // The option was on: a recording with it would say no more.
        assert_eq!(found.document["next"][1], "path", "{mode}");
    }
}

#[test]
fn calls_that_fail_in_quick_succession_are_counted() {
    let Some(folder) = tries("calls failing again and again are counted") else { return };
    let spins = |mode: &str| -> Vec<Value> {
        let found = polled(&folder, mode);
        let rows = list(&found.document["rows"]).iter().filter(|row| row["code"] == "running");
        rows.flat_map(|row| list(&row["spins"]).to_vec()).collect()
    };
    let found = spins("spin");
    let [spin] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&spin["call"], &spin["error"]), (&json!("close"), &json!("EBADF")), "{spin}");
    assert!((360_000..=400_000).contains(&number(&spin["count"])), "{spin}");
    assert_eq!(spins("twin-spin"), [Value::Null; 0]);
}

#[test]
fn a_recording_without_the_option_proposes_it() {
    let Some(folder) = tries("record --failed-calls is proposed where sleep has no known reason") else {
        return;
    };
    record(&folder, &["--", "./tries", "access"], 0);
    let document = path(&folder);
    let next: Vec<&str> = list(&document["next"]).iter().filter_map(Value::as_str).collect();
    assert_eq!(next, ["wakepath", "record", "--failed-calls", "--", "./tries", "access"], "{document}");
    let rows = list(&document["rows"]).iter();
    assert!(rows.clone().all(|row| list(&row["failed_calls"]).is_empty() && list(&row["spins"]).is_empty()));
    let (screen, _) = run(&folder, &["path"], 0);
    assert!(screen.contains("next: wakepath record --failed-calls -- ./tries access"), "{screen}");
}

#[test]
fn threads_that_are_not_asked_about_have_no_records() {
    let Some(folder) = tries("other processes are left alone") else { return };
    let mut other = wakepath_harness::live::Beside(
        std::process::Command::new("./tries").arg("access").current_dir(&*folder).spawn().expect("it starts"),
    );
    record(&folder, &["--failed-calls", "--", "./tries", "twin-access"], 0);
    other.0.wait().expect("it ends");
    let (info, _) = run(&folder, &["info", "--json"], 0);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info["events"]["failed_call"], Value::Null, "{info}");
}

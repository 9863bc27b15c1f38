//! The counts by `wakepath latency`, compared with counts by programs and the kernel.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{
    Beside, WAKEPATH, command, counts, document, document_among, first_byte, latency, list, number, place,
    place_alone, record, run, texts, wakepath, workload,
};

/// The counts by bucket.
fn buckets(target: &Value) -> Vec<(u64, u64)> {
    let bucket = |bucket: &Value| (number(&bucket["index"]), number(&bucket["count"]));
    list(&target["buckets"]).iter().map(bucket).collect()
}

#[test]
fn system_calls_are_counted_one_by_one_and_sleeps_make_two_peaks() {
    let Some(folder) = place_alone("each system call is counted") else { return };
    let calls = workload(&folder, "calls");
    let targets = ["syscall:getcpu", "syscall:clock_nanosleep"];
    // Processes started by a command are counted with it; the shell makes neither kind of call.
    let line = format!("{calls} threads=4 syscalls=50000 short=20 long=10; exit 0");
    let (counted, own) = latency(&folder, &targets, &["sh", "-c", &line]);
    assert_eq!(counted[0]["count"], own["syscalls"], "{counted:#?}");
    let sleeps = buckets(&counted[1]);
    assert_eq!(sleeps.iter().map(|(_, count)| count).sum::<u64>(), own["sleeps"], "{counted:#?}");
    // No sleep is shorter than requested: 1 ms is in bucket 19, 30 ms in bucket 24.
    assert!(sleeps.iter().all(|&(index, _)| index >= 19), "{sleeps:?}");
    let long: u64 = sleeps.iter().filter(|(index, _)| *index >= 24).map(|(_, count)| count).sum();
    assert!((40..60).contains(&long), "{sleeps:?}");
    let peaks = list(&counted[1]["peaks"]).iter();
    let peaks: Vec<_> =
        peaks.map(|peak| (number(&peak["from_bucket"]), number(&peak["to_bucket"]))).collect();
    assert!(peaks.iter().any(|&(from, to)| (from..=to).contains(&20) && to < 24), "{peaks:?}");
    assert!(peaks.iter().any(|&(from, to)| (from..=to).contains(&24) && from > 20), "{peaks:?}");
}

#[test]
fn waits_for_a_cpu_are_those_that_the_scheduler_accounts_for() {
    let Some(folder) = place_alone("waits for a CPU add up") else { return };
    let calls = workload(&folder, "calls");
    // Three threads compete for one CPU.
    let command = ["taskset", "-c", "0", &calls, "threads=3", "syscalls=1000000"];
    let (counted, own) = latency(&folder, &["runqueue", "--by", "thread"], &command);
    // Only these three threads: their log leaves out the time to start and end them.
    let theirs = list(&counted[0]["groups"]).iter().filter(|group| group["tid"] != group["pid"]);
    let sum = theirs.map(|group| number(&group["sum"])).sum::<u64>() as f64;
    let truth = own["waited_ns"] as f64;
    assert!(truth > 100e6, "three threads on one CPU wait for it: {truth} ns");
    // Only events that some kernels leave unrecorded are lost here.
    assert!((sum - truth).abs() < 0.05 * truth, "{sum} ns counted, {truth} ns by the scheduler");
}

/// A target's number of latencies, and their sum, ns.
fn totals(target: &Value) -> (f64, f64) {
    (number(&target["count"]) as f64, number(&target["sum"]) as f64)
}

#[test]
fn a_recording_says_what_was_counted_meanwhile() {
    let Some(folder) = place_alone("a recording says what was counted meanwhile") else { return };
    let calls = workload(&folder, "calls");
    // Three threads on one CPU wait for it; each sleeps, and unwinds every other call of a function.
    let load =
        ["taskset", "-c", "0", &calls, "threads=3", "syscalls=1000000", "short=50", "long=10", "left=100"];
    let asked = ["./calls:left", "runqueue", "syscall:clock_nanosleep"];
    let counting = [&["latency"][..], &asked, &["--json", "--"], &load].concat();
    let recording = [&["--call", "./calls:left", "--", *WAKEPATH][..], &counting].concat();
    let (counted, own) = counts(&record(&folder, &recording, 0).0);
    let targets = ["left", "runqueue", "blocked:clock_nanosleep"];
    let arguments = [&["latency", "-i", "wakepath.rec", "--comm", "calls"][..], &targets].concat();
    let recorded = document(&folder, &arguments);
    let ([left, waits, sleeps], [counted_left, counted_waits, counted_sleeps]) =
        ([0, 1, 2].map(|n| &recorded["targets"][n]), [0, 1, 2].map(|n| &counted[n]));
    println!(
        "recorded {:?} {:?}; counted {:?} {:?}",
        totals(waits),
        totals(sleeps),
        totals(counted_waits),
        totals(counted_sleeps)
    );
    // The same probes saw the same calls.
    assert_eq!(ends(left), [own["left"] / 2, own["left"] / 2, 0], "{recorded}");
    assert_eq!(ends(left), ends(counted_left));
    // Each sleep blocks once, except in the rare case where the thread loses its CPU before blocking for longer than
    // the requested sleep. The recorded wait is shorter than the call: it ends with the wake-up, and begins with the
    // block.
    assert_eq!(ends(counted_sleeps), [own["sleeps"], 0, 0], "{counted:#?}");
    let [blocked, others @ ..] = ends(sleeps);
    assert!(blocked <= own["sleeps"] && blocked > own["sleeps"] * 19 / 20, "{blocked}: {recorded}");
    assert_eq!(others, [0, 0]);
    assert!(totals(sleeps).1 < totals(counted_sleeps).1, "{recorded}");
    // The same events, except while either was still being attached; stamps for the same event are taken one after the
    // other. So a few of the many waits may be missing.
    let ((n, ns), (counted_n, counted_ns)) = (totals(waits), totals(counted_waits));
    assert!(counted_n > 200.0, "{counted:#?}");
    assert!((n - counted_n).abs() <= 0.01 * counted_n + 10.0, "{n} recorded, {counted_n} counted");
    assert!((ns - counted_ns).abs() <= 0.02 * counted_ns, "{ns} ns recorded, {counted_ns} ns counted");
    // The recording itself names the threads to count.
    let whole = document(&folder, &["latency", "-i", "wakepath.rec", "runqueue"]);
    assert!(totals(&whole["targets"][0]).0 >= n, "the command and what it started: {whole}");
}

/// The numbers of calls that returned, were unwound, and had not ended.
fn ends(target: &Value) -> [u64; 3] {
    ["count", "left", "open"].map(|key| number(&target[key]))
}

#[test]
fn ten_million_calls_of_a_function_on_four_threads_are_counted_one_by_one() {
    let Some(folder) = place("each call of a function is counted") else { return };
    let calls = workload(&folder, "calls");
    let command = [calls.as_str(), "threads=4", "functions=2500000"];
    let (counted, own) = latency(&folder, &["./calls:counted"], &command);
    assert_eq!(own["functions"], 10_000_000);
    assert_eq!(buckets(&counted[0]).iter().map(|(_, count)| count).sum::<u64>(), 10_000_000, "{counted:#?}");
    assert_eq!(ends(&counted[0]), [10_000_000, 0, 0], "{counted:#?}");
}

#[test]
fn calls_that_are_nested_left_or_never_over_are_told_apart() {
    let Some(folder) = place("nested, left and open calls are told apart") else { return };
    let calls = workload(&folder, "calls");
    let targets = ["nested", "left", "leaves", "stays"].map(|name| format!("./calls:{name}"));
    let targets = targets.each_ref().map(String::as_str);
    let command = [calls.as_str(), "threads=4", "nested=500", "left=1000", "open"];
    let (counted, own) = latency(&folder, &targets, &command);
    let [nested, left, leaves, stays] = counted.as_slice() else { panic!("{counted:#?}") };
    assert_eq!(ends(nested), [own["nested"], 0, 0]);
    // Every other call returns; the last unwound call in each thread is found at the thread's end.
    assert_eq!(ends(left), [own["left"] / 2, own["left"] / 2, 0]);
    assert_eq!(ends(leaves), [0, own["left"], 0]);
    assert_eq!(ends(stays), [0, 1, 0]);
}

#[test]
fn recorded_calls_are_told_apart_like_counted_ones() {
    let Some(folder) = place("recorded calls that were left or are open are told apart") else { return };
    let calls = workload(&folder, "calls");
    record(&folder, &["--call", "./calls:left", "--", &calls, "threads=4", "left=100"], 0);
    let answer = document(&folder, &["path", "--call", "--slowest", "1"]);
    let buckets = buckets(&answer);
    assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 200, "{answer}");
    assert_eq!((&answer["left"], &answer["open"]), (&200.into(), &0.into()), "{answer}");
}

#[test]
fn a_call_whose_thread_ends_or_becomes_another_program_was_left() {
    let Some(folder) = place("calls of threads that end are told apart from open ones") else { return };
    let calls = workload(&folder, "calls");
    // In the foreground, `timeout` outlives the program; else it kills itself too, in any order.
    let killed = ["timeout", "--foreground", "--signal=KILL", "5", calls.as_str(), "held"];
    for (target, options, command, expected) in [
        ("./calls:held", &["-d", "3"][..], &killed[..], [0, 0, 1]),
        ("./calls:held", &[], &killed, [0, 1, 0]),
        ("./calls:replaced", &[], &[&calls, "replaced"], [0, 1, 0]),
    ] {
        let counted =
            wakepath(&folder, &[&["latency", target, "--json"], options, &["--"], command].concat());
        let (document, _) = document_among(&texts(&counted).0);
        assert_eq!(ends(&document["targets"][0]), expected, "{target} {options:?}: {document}");

        let rec = wakepath(&folder, &[&["record", "--call", target], options, &["--"], command].concat());
        eprintln!("REC {}", texts(&rec).1);
        let (_, said) = texts(&wakepath(&folder, &["path", "--call", "--slowest", "1"]));
        let [_, left, open] = expected;
        assert!(said.contains(&format!("{left} were unwound, {open} had not ended")), "{target}: {said}");
    }
}

#[test]
fn a_single_stepped_function_is_counted_within_its_budget() {
    let Some(folder) = place("single-stepped probes keep to their budget") else { return };
    let calls = workload(&folder, "calls");
    let stepped = |count: &'static str| [calls.as_str(), "threads=2", count];
    let (counted, own) = latency(&folder, &["./calls:stepped"], &stepped("stepped=50"));
    assert_eq!((ends(&counted[0]), &counted[0]["removed"]), ([own["stepped"], 0, 0], &Value::Null));
    // A second with single steps; a tenth is allowed at once.
    let many = stepped("stepped=100000");
    let (counted, own) = latency(&folder, &["./calls:stepped", "syscall:getppid"], &many);
    let [removed, kept] = counted.as_slice() else { panic!("{counted:#?}") };
    let probes = &removed["removed"];
    let [calls, after_ns, per_call_ns] = ["calls", "after_ns", "per_call_ns"].map(|key| number(&probes[key]));
    // The same calls; both threads make 500 more in the 5 ms for which wakepath may lose its CPU before the breakpoint goes.
    let told = number(&removed["count"]) + number(&removed["open"]);
    assert!(calls > 0 && told.abs_diff(calls) < 500, "{removed}");
    assert!(calls < own["stepped"] / 4, "{removed}");
    assert!((1..1_000_000_000).contains(&after_ns) && (500..1_000_000).contains(&per_call_ns), "{removed}");
    let share = |key: &str| probes[key].as_f64().expect("a share");
    assert!(share("share") > 0.05 && share("budget") == 0.05, "{removed}");
    assert_eq!((&kept["removed"], &kept["count"]), (&Value::Null, &Value::from(0)));
    // Every call, as fast as single steps allow.
    let asked = ["./calls:stepped", "--slow-probes"];
    let (counted, own) = latency(&folder, &asked, &stepped("stepped=30000"));
    assert_eq!((ends(&counted[0]), &counted[0]["removed"]), ([own["stepped"], 0, 0], &Value::Null));

    let (_, said) = run(&folder, &[&["latency", "./calls:stepped", "--"][..], &many].concat(), 0);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("its probes were removed after ") && said.contains("--budget allows more"),
        "{said}"
    );
    let watched = ["watch", "./calls:stepped", "--every", "1s", "--json", "--"];
    let (said, _) = run(&folder, &[&watched[..], &many].concat(), 0);
    assert_eq!(said.matches(r#""event":"removed""#).count(), 1, "{said}");
    // A wider budget.
    let asked = ["./calls:stepped", "--budget", "100"];
    let (counted, own) = latency(&folder, &asked, &stepped("stepped=3000"));
    assert_eq!((ends(&counted[0]), &counted[0]["removed"]), ([own["stepped"], 0, 0], &Value::Null));
}

#[test]
fn an_unrelated_process_counts_in_the_budget_and_nothing_is_waited_for_without_probes() {
    let Some(folder) = place("probes keep to their budget in other processes too") else { return };
    let calls = workload(&folder, "calls");
    let busy = Command::new(&calls).arg("stepped=1000000000000").stdout(Stdio::null()).spawn();
    let busy = Beside(busy.expect("calls"));
    let sleeps = Command::new(&calls).arg("long=10000").stdout(Stdio::null()).spawn();
    let sleeps = Beside(sleeps.expect("calls"));
    for (process, has_calls) in [(&sleeps, false), (&busy, true)] {
        let (pid, began) = (process.0.id().to_string(), Instant::now());
        let asked = ["latency", "./calls:stepped", "--json", "-p", &pid, "-d", "60s"];
        let (counted, _) = counts(&run(&folder, &asked, 0).0);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert_eq!(number(&counted[0]["count"]) > 0, has_calls, "{counted:#?}");
        assert!(number(&counted[0]["removed"]["calls"]) > 100, "{counted:#?}");
        // Its code is the file's again.
        assert_eq!(first_byte(busy.0.id(), &calls, "stepped"), first_byte(sleeps.0.id(), &calls, "stepped"));
    }
}

#[test]
fn recorded_calls_end_where_their_single_stepped_probes_took_too_much() {
    let Some(folder) = place("a recording's single-stepped probes keep to their budget") else { return };
    let calls = workload(&folder, "calls");
    // A narrow budget, so that the many calls are too many on a busy machine too.
    let recorded = |target, budget, count| {
        let asked = ["--call", target, "--budget", budget, "--", &calls, "threads=2", count];
        let (_, said) = record(&folder, &asked, 0);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let answer = document(&folder, &["path", "--call", target, "--slowest", "1"]);
        let recorded: u64 = list(&answer["buckets"]).iter().map(|bucket| number(&bucket["count"])).sum();
        (said, answer["unprobed_after_ns"].as_u64(), recorded)
    };
    let (said, after, all) = recorded("./calls:stepped", "5", "stepped=50");
    assert!(!said.contains("later calls") && after.is_none() && all == 100, "{said} {after:?} {all}");
    let (said, after, some) = recorded("./calls:stepped", "0.1", "stepped=100000");
    assert!(
        said.contains("later calls of ./calls:stepped are not recorded: its probes were removed"),
        "{said}"
    );
    assert!(after.is_some_and(|ns| ns < 1_000_000_000) && some > 0 && some < 50_000, "{after:?} {some}");
    let (text, _) = run(&folder, &["path", "--call", "--slowest", "1"], 0);
    assert!(text.contains("its probes were removed"), "{text}");
    let (text, _) = run(&folder, &["latency", "stepped", "-i", "wakepath.rec"], 0);
    assert!(text.contains("its probes were removed"), "{text}");
    // Probes that cost less stay, whatever they take.
    let (said, after, all) = recorded("./calls:counted", "0.1", "functions=20000");
    assert!(!said.contains("later calls") && after.is_none() && all == 40_000, "{said} {after:?} {all}");
}

/// The cost of a target's probes: ns for each call, ns added to a latency, the first unshifted bucket.
fn cost(target: &Value) -> Option<[u64; 3]> {
    let key = |key: &str| target["probe"][key].as_u64();
    Some([key("per_call_ns")?, key("shift_ns")?, key("from_bucket")?])
}

#[test]
fn what_probes_cost_is_what_an_empty_function_is_counted_to_take() {
    let Some(folder) = place_alone("the cost of probes is measured") else { return };
    let calls = workload(&folder, "calls");
    // Other programs only slow calls, in either measurement: by a third if they share the core, by far more if they run
    // in between. The number of calls is small, so some run is undisturbed; a function that does almost nothing then
    // takes as long as an empty function.
    let mut best = f64::INFINITY;
    for _ in 0..8 {
        let command = [calls.as_str(), "functions=2000", "stepped=200", "left=10"];
        let targets = ["./calls:counted", "./calls:stepped", "./calls:leaves", "syscall:getppid"];
        let arguments = [&targets[..], &["--slow-probes"]].concat();
        let (counted, own) = latency(&folder, &arguments, &command);
        let [quick, stepped, leaves, call] = counted.as_slice() else { panic!("{counted:#?}") };
        assert_eq!(ends(quick), [own["functions"], 0, 0], "none that was made to measure is counted");
        assert_eq!(ends(stepped), [own["stepped"], 0, 0], "none that was made to measure is counted");
        assert_eq!((cost(leaves), cost(call)), (None, None), "of what has no latency or no probe");
        let (Some(quick_cost), Some(stepped_cost)) = (cost(quick), cost(stepped)) else {
            panic!("measured: {counted:#?}")
        };
        for [per_call, shift, bucket] in [quick_cost, stepped_cost] {
            assert!(shift > 0 && shift < per_call, "the latency is part of the call: {counted:#?}");
            assert!(2 * shift < 1 << bucket && 2 * shift >= 1 << (bucket - 1), "{counted:#?}");
        }
        assert!(quick_cost[0] < stepped_cost[0], "a step is dearer: {counted:#?}");
        let mean = number(&quick["sum"]) as f64 / own["functions"] as f64;
        println!("counted {mean:.0} ns, calibrated {quick_cost:?}, single-stepped {stepped_cost:?}");
        best = best.min((mean / quick_cost[1] as f64).ln().abs());
    }
    assert!(best < (4.0_f64 / 3.0).ln(), "off by {:.2} times at best", best.exp());
}

#[test]
fn killing_wakepath_leaves_the_program_as_it_was() {
    let Some(folder) = place("a killed wakepath leaves no probe behind") else { return };
    let calls = workload(&folder, "calls");
    let mut program = Command::new(&calls).args(["long=1000"]).spawn().expect("calls");
    std::thread::sleep(Duration::from_millis(200));
    let before = first_byte(program.id(), &calls, "counted");
    let pid = program.id().to_string();
    let mut wakepath =
        command(&folder, &["latency", "./calls:counted", "-p", &pid]).spawn().expect("wakepath");
    let until = Instant::now() + Duration::from_secs(20);
    let byte_is = |wanted: u8| {
        while first_byte(program.id(), &calls, "counted") != wanted && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        first_byte(program.id(), &calls, "counted") == wanted
    };
    const BREAKPOINT: u8 = 0xcc;
    let probed = byte_is(BREAKPOINT);
    // SIGKILL.
    wakepath.kill().expect("it lives");
    wakepath.wait().expect("it ends");
    let restored = byte_is(before);
    let lives = program.try_wait().expect("a child").is_none();
    program.kill().expect("it lives");
    program.wait().expect("it ends");
    assert!(probed, "the probe was there");
    assert!(restored && lives, "restored: {restored}, lives: {lives}");
}

#[test]
fn requests_of_a_disk_are_counted_for_all_processes() {
    let Some(_) = place("requests of disks are counted") else { return };
    // Direct file writes are requests, if the file is on a disk at all.
    let command = ["dd", "if=/dev/zero", "of=made", "bs=64K", "count=32", "oflag=direct", "status=none"];
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (counted, _) = latency(here.path(), &["disk"], &command);
    assert!(number(&counted[0]["count"]) >= 32, "{counted:#?}");
    let slowest = buckets(&counted[0]).last().map_or(0, |&(index, _)| index);
    assert!((10..34).contains(&slowest), "no request takes less than 1 µs or more than 10 s: {counted:#?}");
}

#[test]
fn what_cannot_be_counted_is_refused_with_what_can() {
    let Some(folder) = place("targets that are none are refused") else { return };
    for (target, expected) in [
        ("syscall:fsyncs", "there is no `syscall:fsyncs`; similar: `syscall:fsync`, `syscall:sync`"),
        ("disk:none", "there is no `disk:none` on this machine"),
        ("libc:mallco", "similar: malloc"),
        ("whatever", "`whatever` is not a target"),
    ] {
        let (_, said) = run(&folder, &["latency", target, "-d", "1", "-a"], 2);
        assert!(said.contains(expected), "{target}: {said}");
    }
}

#[test]
fn the_commands_own_exit_code_is_passed_on() {
    let Some(folder) = place("exit codes are passed on") else { return };
    for (command, code) in [(["sh", "-c", "exit 7"], 7), (["no-such-command", "", ""], 127)] {
        run(&folder, &[&["latency", "syscall:read", "--"][..], &command].concat(), code);
    }
}

#[test]
fn calls_that_go_on_when_counting_ends_are_not_taken_for_left() {
    let Some(folder) = place("what is under way at the end is open, and nothing else") else { return };
    let calls = workload(&folder, "calls");
    let busy = Beside(Command::new(&calls).arg("functions=1000000000").spawn().expect("calls"));
    let pid = busy.0.id().to_string();
    let counted = document(&folder, &["latency", "./calls:counted", "-p", &pid, "-d", "0.5"]);
    record(&folder, &["--call", "./calls:counted", "-p", &pid, "-d", "0.2"], 0);
    drop(busy);
    let recorded = document(&folder, &["path", "--call", "--slowest", "1"]);
    for target in [&counted["targets"][0], &recorded] {
        assert!(!buckets(target).is_empty(), "{target}");
        assert_eq!(target["left"], 0, "{target}");
        assert!(target["open"].as_u64() <= Some(1), "{target}");
    }
}

#[test]
fn calls_of_what_a_process_starts_are_counted_with_its_own() {
    let Some(folder) = place("calls of children are counted") else { return };
    let calls = workload(&folder, "calls");
    let line = format!("read go; {calls} threads=2 functions=1000 >own; exit 0");
    let mut shell = Command::new("sh");
    let mut shell = shell.args(["-c", &line]).current_dir(&folder).stdin(Stdio::piped()).spawn().expect("sh");
    let pid = shell.id().to_string();
    let mut counting = command(&folder, &["latency", "./calls:counted", "--json", "-p", &pid]);
    let counting = counting.stdout(Stdio::piped()).spawn().expect("wakepath");
    // By then wakepath counts; its beginning is not announced.
    std::thread::sleep(Duration::from_secs(4));
    drop(shell.stdin.take());
    let output = counting.wait_with_output().expect("wakepath");
    shell.wait().expect("sh");
    let counted: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(ends(&counted["targets"][0]), [2000, 0, 0], "{counted}");
}

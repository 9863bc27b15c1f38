//! The program's output and exit codes, on recordings written by the tests.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use expect_test::{Expect, expect};
use serde_json::Value;
use wakepath_event::{EventKind, Mark, Tid};
use wakepath_harness::live::{contributed_ns, document, length};
use wakepath_harness::made::{Made, made, made_with_ends};
use wakepath_recording::FORMAT;

/// A worker waits for a helper, which waits in a read whose end has no known cause.
const TRACE: &str = "
thread worker tid=10
thread helper tid=11 blocked=interruptible call=0:3
   0 c0 idle    started
   0 c0 idle    switch worker
2000 c0 worker  waking helper
3000 c0 worker  switch idle blocked call=202:0x1000
2000 c1 idle    switch helper
5900 c1 helper  waking worker
6000 c0 idle    switch worker
7000 c1 helper  switch idle blocked call=0:3
9000 c0 worker  switch idle blocked call=35:0
9900 c1 idle    switch idle
";

fn helper() -> Made {
    made(TRACE, &[])
}

#[track_caller]
fn check(made: &Made, arguments: &[&str], expected: Expect) {
    let (code, out, err) = made.run(arguments);
    expected.assert_eq(&format!("{out}{err}code {code}\n"));
}

/// A worker polls with a time-out until a helper has something for it.
const POLLS: &str = "
thread worker tid=10
thread helper tid=11
   0 c0 idle    started
   0 c0 idle    switch worker
   0 c1 idle    switch helper
1000 c0 worker  switch idle blocked call=7:0x10
5000 c0 idle/timer waking worker
5000 c0 idle    switch worker
6000 c0 worker  switch idle blocked call=7:0x10
8000 c1 helper  waking worker
8100 c0 idle    switch worker
9000 c0 worker  stopped
";

#[test]
fn waits_that_timed_out_are_joined_by_default_where_that_is_proved() {
    let ask = |made: &Made, more: &[&str]| {
        let (code, out, err) = made.run([&["path", "--tid", "10", "--json"][..], more].concat());
        assert_eq!(code, 0, "{err}");
        let answer: Value = serde_json::from_str(&out).expect("JSON");
        let largest = &answer["contributors"][0];
        format!("{} {} {} {}", answer["algorithm"], answer["joins"], largest["comm"], largest["total_ns"])
    };
    let polls = made(POLLS, &[]);
    assert_eq!(ask(&polls, &[]), r#""joined" "proved" "worker" 4000"#, "one time-out of unknown descriptors");
    assert_eq!(ask(&polls, &["--as-timed-out"]), r#""active" "none" "worker" 4000"#);
    assert_eq!(ask(&polls, &["--join-timeouts"]), r#""joined" "alike" "helper" 6000"#);
    let twice = "3000 c0 idle/timer waking worker\n3000 c0 idle switch worker\n3100 c0 worker switch idle blocked call=7:0x10\n";
    let slices = made(&POLLS.replace("5000 c0 idle/timer", &format!("{twice}5000 c0 idle/timer")), &[]);
    assert_eq!(ask(&slices, &[]), r#""joined" "slices" "helper" 5900"#);
    assert_eq!(ask(&slices, &["--as-timed-out"]), r#""active" "none" "worker" 3900"#);
    let lock = "call=202:0x1000 op=393 value=2 claim=helper";
    let lock = POLLS.replace("helper tid=11", "helper tid=11 tgid=10").replace("call=7:0x10", lock);
    let lock = made(&lock, &[]);
    assert_eq!(ask(&lock, &[]), r#""joined" "proved" "helper" 6000"#);
    assert_eq!(ask(&lock, &["--as-timed-out"]), r#""active" "none" "worker" 4000"#);
    assert_eq!(ask(&lock, &["--join-timeouts"]), r#""joined" "alike" "helper" 6000"#);
    let says_nothing_changed = |made: &Made| {
        let (_, out, _) = made.run(["path", "--tid", "10", "--join-timeouts"]);
        out.contains("--join-timeouts changed nothing: no wait went on after a time-out")
    };
    assert!(!says_nothing_changed(&polls));
    assert!(says_nothing_changed(&made("thread A tid=10\n0 c0 idle switch A\n9 c0 A stopped\n", &[])));
    for both in
        [["--exact", "--join-timeouts"], ["--exact", "--as-timed-out"], ["--as-timed-out", "--join-timeouts"]]
    {
        let (code, _, err) = lock.run([&["path"][..], &both].concat());
        assert_eq!(code, 2, "{err}");
    }
}

/// A worker's waits for a CPU, 1 and 2 µs, and for a disk; records were lost at the end.
const WAITS: &str = "
thread worker tid=10
thread other tid=20
   0 c0 idle   started
   0 c0 idle   switch worker
1000 c0 worker switch other runnable
2000 c0 other  switch worker blocked call=0:3
2100 c0 worker issue 1
3000 c0 worker switch other runnable
5000 c0 other  switch worker blocked call=0:3
6000 c0 worker complete 1
8000 c0 worker loss from=7000 count=2
9000 c0 worker stopped
";

#[test]
fn latencies_are_counted_in_a_recording() {
    let made = made(WAITS, &[]);
    let latency = |arguments: &[&'static str]| [&["latency", "-i", "wakepath.rec"][..], arguments].concat();
    check(
        &made,
        &latency(&["runqueue", "disk", "-p", "10", "--every", "2500ns"]),
        expect![[r#"
            recorded 2026-11-21 02:58:41.310000000 to 02:58:41.310009000 UTC on web3
            covers process 10 and what it started
            lost 2 records

            runqueue: 2 waits for a CPU in 9.00 µs, 3.00 µs in all, 1.50 µs on average
            peak            latency  count  log scale
               1  512 ns to 1.02 µs      1  ████████████████████████████████████████
               1    1.02 to 2.05 µs      1  ████████████████████████████████████████

            over time; columns: buckets from 512 ns to 2.05 µs; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                +0 ns ·   1 wait for a CPU
             +2.50 µs  ·  1 wait for a CPU
             +5.00 µs     0 waits for a CPU
             +7.50 µs     0 waits for a CPU

            disk: 1 request in 9.00 µs, 3.90 µs in all, 3.90 µs on average
            peak          latency  count  log scale
               1  2.05 to 4.09 µs      1  ████████████████████████████████████████

            over time; columns: buckets from 2.05 µs to 4.09 µs; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                +0 ns    0 requests
             +2.50 µs    0 requests
             +5.00 µs ·  1 request
             +7.50 µs    0 requests
            code 0
        "#]],
    );
    let answer = made.document(latency(&["runqueue", "--tid", "10", "--to", "2.5us", "--json"]));
    let target = &answer["targets"][0];
    assert_eq!(
        (&target["count"], &target["sum"], &target["of"]),
        (&1.into(), &"1000".into(), &"waits".into())
    );
    assert_eq!((&answer["source"], &answer["window"]["to_ns"]), (&"recording".into(), &2500.into()));
    assert_eq!(made.run(latency(&["runqueue", "-a", "--strict"])).0, 1, "records were lost");
    let (code, _, err) = made.run(latency(&["runqueue", "--parquet", "waits.parquet"]));
    assert_eq!((code, err.as_str()), (0, ""));
    let file = std::fs::read(made.folder().join("waits.parquet")).expect("a file");
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    let (code, _, err) = made.run(latency(&["runqueue", "--parquet", "no/such/folder"]));
    assert!(code == 3 && err.contains("cannot write `no/such/folder`"), "{code}: {err}");
    for (arguments, expected) in [
        (&["syscall:read"][..], "hint: blocked:read counts how long threads were blocked in it"),
        (&["./app:f"], "hint: wakepath record --call ./app:f records them"),
        (&["segment:timer"], "hint: choose them by --comm, --tid, --cgroup or -p"),
        (&["whatever"], "error: `whatever` is not a target"),
        (&["disk", "-p", "11"], "error: no process 11 in this recording"),
        (&["disk", "-d", "1"], "cannot be used with"),
    ] {
        let (code, _, err) = made.run(latency(arguments));
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn every_verb_reads_the_recording_beside_it_when_given_none() {
    let made = helper();
    check(
        &made,
        &["path", "--tid", "10", "--to", "9us"],
        expect![[r#"
            worker (10) took 9.00 µs: mostly running (67%, measured)
            2026-11-21 02:58:41.310000000 to 02:58:41.310009000 UTC on web3

             share     time  what the time went to, largest first
             66.7%  6.00 µs  running worker
             32.2%  2.90 µs  waiting for helper (11), 1 wait in futex: running
              1.1%   100 ns  waiting for a CPU
                             its CPU meanwhile: idle 100 ns

            lost 0 records
            next: wakepath path --tree
            code 0
        "#]],
    );
    check(
        &made,
        &["path", "--tid", "10", "--to", "9us", "wakepath.rec", "--tree"],
        expect![[r#"
            2026-11-21 02:58:41.310000000 to 02:58:41.310009000 UTC on web3

             share     time  who waited for whom
              100%  9.00 µs  worker (10)
             66.7%  6.00 µs  ├─ running
             32.2%  2.90 µs  ├─ in futex for helper (11)  [wakeup]
             32.2%  2.90 µs  │  └─ running
              1.1%   100 ns  └─ could run while its CPU was idle
            code 0
        "#]],
    );
    check(
        &made,
        &["info"],
        expect![[r#"
            9.90 µs recorded
            2026-11-21 02:58:41.310000000 to 02:58:41.310009900 UTC on web3

            host        web3, Linux 6.18.0 x86_64, boot 67e2237c-99e6-488f-b6e0-82e34227d61c
            machine     2 CPUs, 2 threads, 2 processes
            on disk     840 B in 3 streams, 60.0 bytes per event
            written by  wakepath 0.1.0, format 17
            lost        0 records
            cost        not recorded

                 events     per second  kind
                      7         707071  switch
                      2         202020  mark
                      2         202020  thread
                      2         202020  waking
                      1         101010  clocks

            code 0
        "#]],
    );
}

#[test]
fn a_recording_without_a_window_lists_its_threads() {
    check(
        &helper(),
        &["path"],
        expect![[r#"
            the whole machine, 9.90 µs, 2 threads: ask about one of these threads
            2026-11-21 02:58:41.310000000 to 02:58:41.310009900 UTC on web3

              waiting undecided       CPU   running  sleeping      idle  thread, and its longest wait
                    –   2.90 µs    100 ns   6.00 µs    900 ns         –   worker (10), 2.90 µs in futex
                                                                          (undecided)
                    –   4.90 µs         –   5.00 µs         –         –   helper (11), 2.90 µs in read
                                                                          (undecided)

            undecided: blocked for work or for an answer, and the recording does not show which (a futex without
            an owner, epoll_wait, poll)
            sleeping: in a sleeping call
            threads blocked at the end: 1 undecided, 1 sleeping

            lost 0 records
            next: wakepath path --tid 10
            code 0
        "#]],
    );
}

#[test]
fn a_recorded_command_is_the_question() {
    let words = b"worker\0--fast\0".as_slice().into();
    let command = EventKind::Mark(Mark::Command { tgid: Tid(10), words });
    let (code, out, _) = made(TRACE, &[command]).run(["path"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("worker is still waiting after 900 ns in nanosleep; its 9.90 µs were "), "{out}");
}

#[test]
fn questions_that_make_no_sense_end_with_2_and_say_what_to_do() {
    let made = helper();
    for (arguments, expected) in [
        (
            &["path", "--tid", "99"][..],
            expect![[r#"
                error: no thread 99 in this recording
                hint: wakepath info shows what was recorded; without an option, wakepath path lists the threads of a recording that was not made for one command
            "#]],
        ),
        (
            &["path", "--comm", "\u{1b}[31m"],
            expect![[r#"
                error: no thread named `\x1b[31m` in this recording
                hint: wakepath info shows what was recorded; without an option, wakepath path lists the threads of a recording that was not made for one command
            "#]],
        ),
        (
            &["path", "--tid", "10", "--from", "-0.000001", "--to", "0"],
            expect![[r#"
                error: the window is empty: it ends where it begins, or before
                hint: wakepath info shows when the recording began and ended
            "#]],
        ),
        (
            &["path", "--tid", "10", "--from", "noon"],
            expect![[r#"
            error: invalid value 'noon' for '--from <TIME>': `noon` is not a time: write UTC (`02:58:41.310` or `2026-11-21T02:58:41`), seconds since the start (`1.5`), or time before the end (`-5s`)

            For more information, try '--help'.
        "#]],
        ),
        (
            &["path", "--tree", "--json"],
            expect![[r#"
                error: the argument '--tree' cannot be used with '--json'

                Usage: wakepath path --tree [REC]...

                For more information, try '--help'.
            "#]],
        ),
        (
            &["record", "--flight", "30s", "--max-size", "100M", "-a"],
            expect![[r#"
                error: a kept recording may take 320 MiB (--flight-memory is 256 MiB), and --max-size allows 100 MiB for all of them together
                hint: --max-size 320M, or --flight-memory 80M
            "#]],
        ),
        (
            &["pathfinder"],
            expect![[r#"
            error: unrecognized subcommand 'pathfinder'

              tip: a similar subcommand exists: 'path'

            Usage: wakepath [OPTIONS] <COMMAND>

            For more information, try '--help'.
        "#]],
        ),
    ] {
        let (code, out, err) = made.run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        expected.assert_eq(&err);
    }
}

#[test]
fn several_threads_of_a_name_are_listed() {
    let two = TRACE.replace("thread helper tid=11 ", "thread worker tid=12 tgid=10\nthread helper tid=11 ");
    let made = made(&two, &[]);
    check(
        &made,
        &["path", "--comm", "worker"],
        expect![[r#"
            error: 2 threads fit: thread named `worker`
               --tid 10: worker, 9.90 µs from 0 ns on
               --tid 12: worker of process 10, 9.90 µs from 0 ns on
            hint: choose one with --tid, or answer for each with --all
            code 2
        "#]],
    );
    let (code, out, _) = made.run(["path", "--comm", "worker", "--all", "--json"]);
    let documents: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let tids: Vec<_> = documents.iter().map(|document| document["window"]["tid"].as_u64()).collect();
    assert_eq!((code, tids), (0, vec![Some(10), Some(12)]));
}

#[test]
fn input_that_cannot_be_read_ends_with_3_and_names_it() {
    let made = helper();
    std::fs::create_dir(made.folder().join("empty")).expect("a folder");
    for (argument, says) in
        [("missing", "cannot read missing"), ("empty", "empty is not a recording of wakepath")]
    {
        for verb in ["path", "info"] {
            let (code, out, err) = made.run([verb, argument]);
            assert_eq!((code, out.as_str()), (3, ""), "{verb} {argument}");
            assert!(err.starts_with(&format!("error: {says}")) && err.contains("\nhint: "), "{err}");
        }
    }
    let metadata = made.recording().join("kernel/metadata");
    let text = std::fs::read_to_string(&metadata).expect("metadata");
    let later = text.replace(&format!("format = {FORMAT};"), "format = 77;");
    assert_ne!(later, text, "the recording says its format");
    std::fs::write(&metadata, later).expect("writable");
    check(
        &made,
        &["path"],
        expect![[r#"
            error: ./wakepath.rec: recording is of format 77, this wakepath reads up to 17
            hint: read it with the version of wakepath that wrote it, or a later one
            code 3
        "#]],
    );
}

#[test]
fn losses_show_as_code_1_only_where_strictness_is_asked_for() {
    let lossy = TRACE.replace("6000 c0 idle ", "5950 c0 idle loss from=3500 count=2\n6000 c0 idle ");
    let made = made(&lossy, &[]);
    let question = ["path", "--tid", "10", "--to", "9us"];
    let (code, out, _) = made.run(question);
    assert!(code == 0 && out.contains("warning: "), "{code} {out}");
    assert_eq!(made.run(question.iter().chain(&["--strict"])).0, 1);
    assert_eq!(helper().run(question.iter().chain(&["--strict"])).0, 0);
    let (_, out, err) = made.run(question.iter().chain(&["--json"]));
    assert!(err.starts_with("warning: ") && serde_json::from_str::<Value>(&out).is_ok(), "{err}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    // More than a pipe holds, so the program is still writing when its reader is gone.
    let mut trace = String::from("thread worker tid=10\n 0 c0 idle started\n 0 c0 idle switch worker\n");
    for i in 1..4000 {
        trace += &format!(
            "{}0 c0 worker switch idle blocked call=35:0\n{}5 c0 idle/timer waking worker\n{}5 c0 idle switch worker\n",
            i * 2,
            i * 2,
            i * 2
        );
    }
    let made = made(&trace, &[]);
    for view in ["--segments", "--json"] {
        let mut child = made
            .wakepath(["path", "--tid", "10", view])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut some = [0; 100];
        child.stdout.take().expect("a pipe").read_exact(&mut some).expect("an answer");
        let output = child.wait_with_output().expect("it ends");
        let (code, _, err) = wakepath_harness::made::told(&output);
        assert_eq!((code, err.as_str()), (0, ""), "{view}");
    }
}

#[test]
fn colours_are_used_on_terminals_or_if_asked_for() {
    let made = helper();
    let coloured = |arguments: &[&str], no_colour: bool| {
        let mut command = made.wakepath(["path", "--tid", "10"].iter().chain(arguments));
        if no_colour {
            command.env("NO_COLOR", "1");
        }
        wakepath_harness::made::told(&command.output().expect("it runs")).1.contains('\u{1b}')
    };
    assert!(!coloured(&[], false), "a pipe is no terminal");
    assert!(coloured(&["--color", "always"], false));
    assert!(coloured(&["--color", "always"], true), "an option is closer than the environment");
}

#[test]
fn a_thread_named_with_terminal_escapes_prints_as_text_in_every_view() {
    let evil = made(&TRACE.replace("worker", "a\u{1b}[2J"), &[]);
    for view in [&[][..], &["--tree"], &["--segments"], &["--explain"], &["--json"]] {
        let (code, out, err) = evil.run(["path", "--tid", "10"].iter().chain(view));
        assert_eq!(code, 0, "{err}");
        assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{view:?}");
        assert!(out.contains("[2J"), "{view:?} {out}");
    }
}

#[test]
fn the_version_names_the_recording_format() {
    let expected = format!("wakepath {} (recording format 17)\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(helper().run(["--version"]), (0, expected, String::new()));
}

#[test]
fn completions_and_the_manual_page_know_every_verb() {
    let made = helper();
    for arguments in [&["completion", "bash"][..], &["completion", "zsh"], &["completion", "fish"], &["man"]]
    {
        let (code, out, err) = made.run(arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        let text = out.to_lowercase();
        for verb in ["path", "info", "export"] {
            assert!(text.contains(verb), "{arguments:?} lacks {verb}");
        }
    }
}

#[test]
fn recordings_of_all_formats_so_far_are_read() {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
    for (name, format) in [("backup-of-format-1", 1), ("backup", 3)] {
        let info = document(&bundled, &["info", name]);
        assert_eq!(info["recording"]["format"], format, "{name}");
        let path = document(&bundled, &["path", name]);
        let (window, of) = (length(&path["window"]), |kind: &str| contributed_ns(&path, kind));
        // The lock is held for 0.4 s, and packing takes longer: in both recordings.
        assert!((390_000_000..450_000_000).contains(&of("timer")), "{name}: {}", of("timer"));
        assert!(of("running") > window / 2 && of("unknown") * 100 < window, "{name}");
    }
}

/// Threads in each class of blocked time, one blocked until the end, and one whose wait a signal interrupted.
const CLASSES: &str = "
thread sleeper tid=10
thread server tid=11
thread writer tid=12
thread worker tid=13
        0 c0 idle    started
        0 c0 idle    switch sleeper
        0 c1 idle    switch server
 10000000 c0 sleeper switch writer blocked call=230:0
 10000000 c1 server  switch worker blocked call=43:3
 20000000 c0 writer  switch idle blocked=uninterruptible call=74:3
 20000000 c1 worker  switch idle blocked call=202:0x1000
 50000000 c1 idle/timer waking sleeper
 50000000 c1 idle    switch sleeper
 60000000 c1 sleeper waking worker
 60000100 c0 idle    switch worker
 60000200 c0 worker  signal 10 handled cut=202 sent=60000000 by=sleeper
 80000000 c0 worker  switch idle blocked call=0:0
 90000000 c1 sleeper switch idle blocked call=230:0
100000000 c0 idle    stopped
";

#[test]
fn the_classes_of_blocked_time_add_up_in_text_and_document() {
    let made = made(CLASSES, &[]);
    let document = made.document(["path", "--json"]);
    let (code, text, _) = made.run(["path"]);
    assert_eq!(code, 0);
    for (comm, classes, open) in [
        // Waiting, undecided, sleeping, idle, ms.
        ("sleeper", [0, 0, 50, 0], "sleeping_at_end"),
        ("server", [0, 0, 0, 90], "idle_at_end"),
        ("writer", [80, 0, 0, 0], ""),
        ("worker", [0, 60, 0, 0], "undecided_at_end"),
    ] {
        let threads = document["threads"].as_array().expect("threads");
        let thread = threads.iter().find(|thread| thread["comm"] == comm).expect("a thread");
        let ns = ["waiting_ns", "undecided_ns", "sleeping_ns", "idle_ns"].map(|key| &thread[key]);
        let ms = |ns: &Value| (ns.as_f64().expect("ns") / 1e6).round() as u64;
        assert_eq!(ns.map(ms), classes, "{thread}");
        let row = text
            .lines()
            .rev()
            .find(|line| line.contains(&format!(" {comm} (")))
            .unwrap_or_else(|| panic!("{text}"));
        let words: Vec<_> = row.split_whitespace().collect();
        let of_text: Vec<String> = words.chunks(2).take(6).map(|words| words.join(" ")).collect();
        for (column, ms) in [0, 1, 4, 5].into_iter().zip(classes) {
            let figure = if ms == 0 { String::from("–") } else { format!("{ms}.0 ms") };
            assert!(row.contains(&figure), "{comm}, column {column} of {of_text:?}: {figure}");
        }
        assert!(open.is_empty() || document[open] == 1, "{open}: {}", document[open]);
    }
    assert_eq!(document["still_waiting"].as_array().map(Vec::len), Some(1));
}

/// CPU 1's stream without its end: its last packet, or the mark alone, is missing.
#[test]
fn a_cpu_whose_stream_ends_early_is_unknown_from_there_on() {
    let made = made_with_ends(CLASSES);
    let asked = ["path", "--json"];
    let thread = |document: &Value, comm: &str| {
        let threads = document["threads"].as_array().expect("threads");
        threads.iter().find(|thread| thread["comm"] == comm).expect("a thread").clone()
    };
    let whole = made.document(asked);
    assert_eq!(whole["problems"], Value::Array(Vec::new()));
    let stream = made.recording().join("kernel/sched_1");
    let bytes = std::fs::read(&stream).expect("a stream");
    std::fs::write(&stream, &bytes[..bytes.len() - 80]).expect("room");
    let (code, out, err) = made.run(asked);
    assert_eq!(code, 0, "{out}{err}");
    let cut: Value = serde_json::from_str(&out).expect("JSON");
    // The server and the sleeper were last on this CPU, whose last record is at 90 ms.
    for (comm, ms) in [("server", 10), ("sleeper", 10), ("worker", 0), ("writer", 0)] {
        let unknown = thread(&cut, comm)["unknown_ns"].as_u64().expect("ns") / 1_000_000;
        assert_eq!(unknown, ms, "{comm}: {}", thread(&cut, comm));
        assert_eq!(thread(&whole, comm)["unknown_ns"], 0);
    }
    let said = cut["problems"].to_string();
    assert!(said.contains("kernel/sched_1"), "{said}");
    assert!(said.contains("nothing is known of its CPU in the last 0.010 s of the recording"), "{said}");
}

/// The bundled recordings have no marks: the loss from a cut within a packet is known all the same.
#[test]
fn a_bundled_recording_whose_stream_was_cut_is_unknown_from_there_on() {
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/backup/kernel");
    let copy = tempfile::tempdir().expect("a temporary directory");
    let kernel = copy.path().join("backup/kernel");
    std::fs::create_dir_all(&kernel).expect("a directory");
    for entry in std::fs::read_dir(bundled).expect("a recording") {
        let entry = entry.expect("an entry");
        std::fs::write(kernel.join(entry.file_name()), std::fs::read(entry.path()).expect("a file"))
            .expect("room");
    }
    let whole = document(copy.path(), &["path", "backup"]);
    let bytes = std::fs::read(kernel.join("sched_1")).expect("a stream");
    std::fs::write(kernel.join("sched_1"), &bytes[..bytes.len() / 2 + 4]).expect("room");
    let cut = document(copy.path(), &["path", "backup"]);
    let [unknown, before] = [&cut, &whole].map(|document| contributed_ns(document, "unknown"));
    assert!(before < 1_000_000 && unknown > length(&cut["window"]) / 10, "{unknown} {before}");
    let last = cut["segments"].as_array().and_then(|segments| segments.last()).expect("a segment");
    assert_eq!((&last["kind"], &last["cause"]["type"]), (&"unknown".into(), &"lost".into()), "{last}");
    let said = cut["problems"].to_string();
    assert!(said.contains("damaged recording: kernel/sched_1"), "{said}");
}

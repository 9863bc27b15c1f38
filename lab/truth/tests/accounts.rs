//! The workloads' logs of their own time are right by the workloads' own clocks, without any recording.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;
use wakepath_truth::audit;
use wakepath_truth::document::{Truth, TruthPart};
use wakepath_truth::workloads::{self, View, Workload};

/// The largest number of runs until a program does not report a machine too busy to measure.
const MAX_TRIES: usize = 10;

/// Builds the workloads, once for all tests here; returns their folder.
fn build() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads");
        let made = Command::new("make").arg("-s").arg("-C").arg(&folder).status().expect("make");
        assert!(made.success(), "the workloads do not build");
        folder.join("bin")
    })
}

fn run(programs: &Path, workload: &Workload) -> Truth {
    let file = tempfile::NamedTempFile::new().expect("a file for the truth");
    let which = match workload.view {
        View::Host => "--truth",
        View::TwoHosts => "--truth-hosts",
    };
    let status = Command::new(programs.join(workload.program))
        .args(workload.arguments)
        .arg(which)
        .arg(file.path())
        .stdout(Stdio::null())
        .status()
        .expect("the workload starts");
    assert!(status.success() || workload.record_for.is_some(), "{} ended with {status}", workload.name);
    let truth = serde_json::from_slice(&std::fs::read(file.path()).expect("a truth")).expect("JSON");
    Truth::deserialize::<serde_json::Value>(truth).expect("a truth of its schema")
}

/// A cgroup's CPU limit needs root and a writable hierarchy.
fn may_limit_cpu() -> bool {
    let group = Path::new("/sys/fs/cgroup/cpu");
    let parent = if group.join("cpu.shares").exists() { group } else { Path::new("/sys/fs/cgroup") };
    let probe = parent.join(format!("wakepath-probe-{}", std::process::id()));
    let made = std::fs::create_dir(&probe).is_ok();
    let limits = probe.join("cpu.cfs_quota_us").exists() || probe.join("cpu.max").exists();
    let _ = std::fs::remove_dir(&probe);
    made && limits
}

/// A link needs root, TUN and veth devices and the kernel's token bucket filter.
fn may_make_links(programs: &Path) -> bool {
    [["--delay-ms", "1"], ["--rate-mbit", "100"]].iter().all(|link| {
        let mut command = Command::new(programs.join("rpc"));
        command.args(["--rounds", "0"]).args(link).stderr(Stdio::null());
        command.status().expect("the workload starts").success()
    })
}

#[test]
fn every_workload_accounts_for_its_whole_window() {
    let programs = build();
    let limits = may_limit_cpu();
    let links = may_make_links(programs);
    for workload in workloads::ALL {
        if workload.program == "quota" && !limits {
            println!("skipped: {}: no right to limit CPU here; it would show throttled time", workload.name);
            continue;
        }
        let link = |argument: &&str| ["--delay-ms", "--rate-mbit"].contains(argument);
        if !links && (workload.program == "bulk" || workload.arguments.iter().any(link)) {
            println!("skipped: {}: no right to make links here; it would show time in flight", workload.name);
            continue;
        }
        let mut faults = Vec::new();
        for _ in 0..MAX_TRIES {
            let truth = run(programs, workload);
            assert_eq!(truth.window.thread.comm, workload.program);
            assert!(truth.threads.contains(&truth.window.thread));
            faults = audit::truth(&truth, 1.0);
            // The log adds up even where it has the parts of a wait in no order, as on a busy machine.
            faults.retain(|fault| !fault.ends_with("in no certain order"));
            if faults.is_empty() {
                break;
            }
            // Mostly stolen time, which lasts for a while.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert!(faults.is_empty(), "{}: {faults:?}", workload.name);
    }
}

/// On loopback, where nothing is in flight for long, the client's waiting time is the server's working time.
#[test]
fn the_halves_of_rpcpair_account_for_each_other() {
    let programs = build();
    let mut faults = Vec::new();
    for _ in 0..MAX_TRIES {
        let [client, server] = halves(programs);
        faults = [&client, &server].map(|half| audit::truth(half, 1.0)).concat();
        let sum = |half: &Truth, wanted: &dyn Fn(&str) -> bool| -> i64 {
            half.contributors.iter().filter(|part| wanted(&part.kind)).filter_map(|part| part.total_ns).sum()
        };
        let waited = sum(&client, &|kind| kind == "network");
        let did = sum(&server, &|kind| !["network", "beside"].contains(&kind));
        // The shares of `rpc` on two machines may be off by 1%; here a single machine's scheduler is between: 5%.
        if (waited - did).abs() * 20 > waited {
            faults.push(format!("the client waited {waited} ns for what took the server {did} ns"));
        }
        if faults.is_empty() {
            return;
        }
    }
    panic!("{faults:?}");
}

/// The truths of a client and its server, each a process of its own.
fn halves(programs: &Path) -> [Truth; 2] {
    // A port that was free just before.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = port.expect("a free port").port();
    let start = |half: &str| {
        let file = tempfile::NamedTempFile::new().expect("a file for the truth");
        let child = Command::new(programs.join("rpcpair"))
            .args([half, "127.0.0.1", "--port", &port.to_string(), "--truth"])
            .arg(file.path())
            .spawn()
            .expect("rpcpair starts");
        (child, file)
    };
    let server = start("--listen");
    let listens = format!(":{port:04X} 00000000:0000 0A ");
    while !std::fs::read_to_string("/proc/net/tcp").expect("the list of sockets").contains(&listens) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    [start("--connect"), server].map(|(mut child, file)| {
        assert!(child.wait().expect("it ends").success());
        serde_json::from_slice(&std::fs::read(file.path()).expect("a truth")).expect("a truth of its schema")
    })
}

#[test]
fn a_workload_refuses_what_it_does_not_know() {
    let programs = build();
    for arguments in [&["--no-such-flag"][..], &["--rounds"], &["--rounds", "many"], &["--rounds", "-1"]] {
        let output = Command::new(programs.join("semaphore")).args(arguments).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(arguments[0]), "{output:?}");
    }
}

#[test]
fn a_benchmark_load_prints_its_rate_in_a_line_that_can_be_read() {
    let programs = build();
    for (name, rounds) in [("schedfreq", "500"), ("tcpping", "200")] {
        let output =
            Command::new(programs.join(name)).args(["--rounds", rounds]).output().expect("it starts");
        let said = String::from_utf8(output.stdout).expect("text");
        let words: Vec<&str> = said.split_whitespace().collect();
        let [_, "round_trips", trips, "seconds", seconds, "per_second", rate, "quiet_per_second", quiet] =
            words[..]
        else {
            panic!("{name} said {said:?}");
        };
        assert_eq!(trips, rounds);
        let [seconds, rate, quiet] = [seconds, rate, quiet].map(|word| word.parse::<f64>().unwrap());
        assert!(seconds >= 0.0 && rate > 0.0 && quiet > 0.0);
    }
}

/// The number of poll series with two readings in the program's log, and the number with a wait of more than 10 ms for a timer
/// in the second reading only.
fn series_with_two_readings(command: &mut Command, stopped: Option<(u64, u64)>) -> (usize, usize) {
    let file = tempfile::NamedTempFile::new().expect("a file for the truth");
    let mut child = command.arg("--truth").arg(file.path()).spawn().expect("the workload starts");
    if let Some((from_ms, to_ms)) = stopped {
        for (signal, ms) in [("-STOP", from_ms), ("-CONT", to_ms - from_ms)] {
            std::thread::sleep(std::time::Duration::from_millis(ms));
            let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
            assert!(sent.success());
        }
    }
    assert!(child.wait().expect("it ends").success());
    let truth: Truth = serde_json::from_slice(&std::fs::read(file.path()).expect("a truth")).expect("JSON");
    assert_eq!(audit::truth(&truth, 1.0).iter().filter(|fault| fault.contains("reading")).count(), 0);
    let polls = |parts: &[TruthPart]| {
        let is_long = |part: &TruthPart| part.total_ns.is_some_and(|ns| ns > 10_000_000);
        parts.iter().any(|part| part.kind == "timer" && part.call.as_deref() == Some("poll") && is_long(part))
    };
    let differ = truth.either.iter().filter(|either| polls(&either.timed_out) && !polls(&either.ended));
    (truth.either.len(), differ.count())
}

#[test]
fn a_series_of_polls_has_one_reading_where_its_last_one_slept_until_an_event_in_time() {
    let programs = build();
    let sleeps = || {
        let mut command = Command::new(programs.join("eventloop"));
        command.args(["--rounds", "2", "--work-ms", "20", "--timeout-ms", "30000"]);
        series_with_two_readings(&mut command, None)
    };
    // The answer is there when the client begins to poll.
    let finds_it = || {
        let mut command = Command::new(programs.join("rpc"));
        command.args(["--event-loop", "--rounds", "2", "--async", "300"]);
        series_with_two_readings(command.args(["--timeout-ms", "30000"]), None)
    };
    // The server answers 400 ms after it was asked; the client, which asks after 10 ms, is stopped meanwhile.
    let stopped = |timeout_ms: &str, stopped| {
        let mut command = Command::new(programs.join("rpc"));
        command.args(["--event-loop", "--rounds", "1", "--work-ms", "200", "--sleep-ms", "200"]);
        series_with_two_readings(command.args(["--timeout-ms", timeout_ms]), Some(stopped))
    };
    let mut found = [(0, 0); 4];
    let expected = [(0, 0), (2, 0), (0, 0), (1, 1)];
    for _ in 0..MAX_TRIES {
        found = [
            sleeps(),
            finds_it(),
            // The second poll returns after its time-out, but the answer came before.
            stopped("300", (350, 700)),
            // The answer came after the second poll's time-out.
            stopped("180", (280, 600)),
        ];
        if found == expected {
            return;
        }
    }
    assert_eq!(found, expected);
}

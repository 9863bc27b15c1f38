//! Traces that LTTng wrote, asked like recordings of our own. They are found through `WAKEPATH_TRACES`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::WAKEPATH;

/// The folder of real traces; without it, stderr names what is not tested.
fn traces(shows: &str) -> Option<PathBuf> {
    let found = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from);
    if found.is_none() {
        eprintln!("skipped: WAKEPATH_TRACES names no folder; would show that {shows}");
    }
    found
}

/// The output of the program on stdout.
fn run(arguments: &[&str], traces: &[&Path]) -> String {
    let mut command = Command::new(*WAKEPATH);
    let output = command.args(arguments).args(traces).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn document(arguments: &[&str], traces: &[&Path]) -> Value {
    serde_json::from_str(&run(arguments, traces)).expect("a document")
}

#[test]
fn a_wait_in_an_old_trace_of_two_machines_is_explained_by_the_other_one() {
    let Some(folder) = traces("ssh on one machine waited for sshd on the other") else { return };
    let hosts = [folder.join("scp_src"), folder.join("scp_dest")];
    let hosts = [hosts[0].as_path(), hosts[1].as_path()];

    let sync = document(&["sync", "--json"], &hosts);
    let pair = &sync["pairs"][0];
    // Facts that others found there, with other tools.
    assert!(pair["matched"].as_u64() >= Some(46) && pair["inversions"] == 0, "{pair}");

    let path = document(&["path", "--tid", "7422", "--json"], &hosts);
    let ns = |value: &Value| value.as_i64().expect("ns");
    let segments = path["segments"].as_array().expect("segments");
    let sum: i64 = segments.iter().map(|part| ns(&part["to_ns"]) - ns(&part["from_ns"])).sum();
    assert_eq!(sum, ns(&path["window"]["to_ns"]) - ns(&path["window"]["from_ns"]), "the parts add up");
    let there = &path["hosts"][1];
    assert_eq!(there["name"], "VM3");
    // It waits most for a timer of sshd there, through packets.
    let most = &path["contributors"][0];
    assert_eq!(
        (&most["host"], &most["comm"], &most["kind"]),
        (&there["host"], &"sshd".into(), &"timer".into())
    );
    let of_each = segments.iter().filter(|part| part["host"] == there["host"]);
    assert!(of_each.clone().count() > 10 && of_each.clone().any(|part| part["via"] == "packet"));
}

#[test]
fn a_kernel_trace_by_lttng_is_asked_like_a_recording() {
    let Some(folder) = traces("a mutex held over a sleep is why another thread waited") else { return };
    let trace = folder.join("lttng-mutex/ctf");
    let info = run(&["info"], &[&trace]);
    assert!(info.contains("written by  lttng-modules") && !info.contains("cut off"), "{info}");
    // A thread that waits for work at the end of tracing is not reported as hanging.
    let overview = document(&["path", "--json"], &[&trace]);
    assert_eq!(overview["still_waiting"].as_array().map(Vec::len), Some(0), "{}", overview["still_waiting"]);
    // The second worker waits for the first one, which sleeps with the lock, and sleeps itself.
    let path = document(&["path", "--tid", "252", "--json"], &[&trace]);
    let waits = path["waits"].as_array().expect("waits");
    assert!(waits.iter().any(|wait| wait["ended_by"]["tid"] == 251), "{waits:#?}");
    let most = &path["contributors"][0];
    assert_eq!(most["kind"], "timer", "{most}");
}

#[test]
fn latencies_in_a_trace_by_lttng_are_those_that_another_reader_counts() {
    let Some(folder) = traces("waits for a CPU and in system calls are as long as babeltrace2 says") else {
        return;
    };
    // Counted from the text that babeltrace2 prints: from the sched_waking of a thread that left its CPU, or from
    // a switch-out that leaves it runnable, to its switch-in; and from its switch-out between syscall_entry and
    // syscall_exit to its sched_waking.
    for (trace, whom, expected) in [
        ("lttng-mutex/ctf", &["-a"][..], &[("runqueue", 339, 480_140_245)][..]),
        (
            "lttng-rpc-local/ctf",
            &["-p", "248"],
            &[
                ("runqueue", 20, 35_653_555),
                ("blocked:read", 5, 5_262_312),
                ("blocked:openat", 4, 10_956_650),
                ("blocked:newfstatat", 1, 60_865),
                ("blocked:accept", 4, 2_087_503_257),
                // The server sleeps 100 ms for one of its requests.
                ("blocked:clock_nanosleep", 1, 100_315_683),
            ],
        ),
    ] {
        let mut arguments = vec!["latency", "runqueue", "blocked:*", "--json"];
        arguments.extend(whom);
        arguments.push("-i");
        let told = document(&arguments, &[&folder.join(trace)]);
        let targets = told["targets"].as_array().expect("targets");
        for &(name, count, ns) in expected {
            let found = targets.iter().find(|target| target["target"] == name).expect(name);
            let ns: u64 = ns;
            assert_eq!((&found["count"], &found["sum"]), (&count.into(), &ns.to_string().into()), "{name}");
            assert_eq!((&found["open"], &found["unseen"]), (&0.into(), &0.into()), "{name}");
        }
        if whom != ["-a"] {
            assert_eq!(targets.len(), expected.len(), "{targets:#?}");
        }
    }
}

//! LTTng's traces, read like wakepath's own recordings. They are found through `WAKEPATH_TRACES`.

use std::path::PathBuf;

use wakepath_harness::live::{document, length, list, not_possible, run};

/// The folder with real traces; without it, stderr names the untested claim.
fn traces(shows: &str) -> Option<PathBuf> {
    let found = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from);
    if found.is_none() {
        not_possible("WAKEPATH_TRACES names no folder", shows);
    }
    found
}

#[test]
fn a_wait_in_an_old_trace_of_two_machines_is_explained_by_the_other_one() {
    let Some(folder) = traces("ssh on one machine waited for sshd on the other") else { return };
    let sync = document(&folder, &["sync", "scp_src", "scp_dest"]);
    let pair = &sync["pairs"][0];
    // Facts found there by others, with other tools.
    assert!(pair["matched"].as_u64() >= Some(46) && pair["inversions"] == 0, "{pair}");

    let path = document(&folder, &["path", "--tid", "7422", "scp_src", "scp_dest"]);
    let segments = list(&path["segments"]);
    let sum: i64 = segments.iter().map(length).sum();
    assert_eq!(sum, length(&path["window"]), "the parts add up");
    let there = &path["hosts"][1];
    assert_eq!(there["name"], "VM3");
    // The longest wait is for a timer of sshd there, through packets.
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
    let trace = "lttng-mutex/ctf";
    let (info, _) = run(&folder, &["info", trace], 0);
    assert!(info.contains("written by  lttng-modules") && !info.contains("cut off"), "{info}");
    // A thread that waits for work at the end of tracing is not reported as hanging.
    let overview = document(&folder, &["path", trace]);
    assert_eq!(overview["still_waiting"].as_array().map(Vec::len), Some(0), "{}", overview["still_waiting"]);
    // The second worker waits for the first, which sleeps with the lock, and sleeps itself.
    let path = document(&folder, &["path", "--tid", "252", trace]);
    let waits = list(&path["waits"]);
    assert!(waits.iter().any(|wait| wait["ended_by"]["tid"] == 251), "{waits:#?}");
    let most = &path["contributors"][0];
    assert_eq!(most["kind"], "timer", "{most}");
}

#[test]
fn latencies_in_a_trace_by_lttng_are_those_that_another_reader_counts() {
    let Some(folder) = traces("waits for a CPU and in system calls are as long as babeltrace2 says") else {
        return;
    };
    // Counted from the text printed by babeltrace2: from the sched_waking of a thread that left its CPU, or from a
    // switch-out that leaves it runnable, to its switch-in; and from its switch-out between syscall_entry and
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
        let asked = [&["latency", "runqueue", "blocked:*", "-i", trace][..], whom].concat();
        let told = document(&folder, &asked);
        let targets = list(&told["targets"]);
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

#[test]
fn nothing_goes_on_when_the_recording_of_its_host_has_ended() {
    let Some(folder) = traces("a thread is unknown after the end of its host's recording") else { return };
    let of_both = |asked: &[&str]| {
        let both = ["path", "--host", "VM3", "scp_src", "scp_dest"];
        document(&folder, &[&both, asked].concat())
    };
    let alone = document(&folder, &["path", "--tid", "1361", "scp_dest"]);
    let sum = |path: &serde_json::Value, kind: &str| {
        let its = list(&path["segments"]).iter().filter(|one| one["kind"] == kind && one["tid"] == 1361);
        its.map(length).sum::<i64>()
    };
    // The second recording ends 3 s before the first, while this thread has a CPU.
    let of_life = of_both(&["--tid", "1361"]);
    let to_the_end = of_both(&["--tid", "1361", "--to", "23.0"]);
    for (path, unknown) in [(&of_life, 0..1), (&to_the_end, 3_000_000_000..3_100_000_000)] {
        let (ran, before) = (sum(path, "running"), sum(&alone, "running"));
        assert!(before < 20_000_000 && ran.abs_diff(before) < 1_000_000, "{ran} ns, alone {before} ns");
        assert!(unknown.contains(&sum(path, "unknown")), "{} ns unknown", sum(path, "unknown"));
        let problems = list(&path["problems"]);
        assert!(problems.iter().any(|problem| problem["code"] == "partly_recorded"), "{problems:#?}");
    }
    let last = list(&to_the_end["segments"]).last().expect("a segment");
    assert_eq!((&last["kind"], &last["cause"]["type"]), (&"unknown".into(), &"after_recording".into()));
    // No thread waits 3 s for this thread's CPU.
    for thread in list(&of_both(&[])["threads"]) {
        for (key, most) in
            [("running_ns", 1_000_000_000), ("runnable_ns", 1_000_000_000), ("idle_ns", 17_500_000_000)]
        {
            assert!(thread[key].as_u64() < Some(most), "{key}: {thread}");
        }
    }
}

/// The end of each packet in an LTTng stream file, bytes: `packet_size` stands 56 bytes after the packet's beginning.
fn packet_ends(bytes: &[u8]) -> Vec<usize> {
    let size = |at: usize| {
        let bits = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        usize::try_from(bits / 8).expect("a size")
    };
    let mut ends = Vec::new();
    while ends.last().is_none_or(|&end| end < bytes.len()) {
        let begin = ends.last().copied().unwrap_or(0);
        ends.push(begin + size(begin + 56));
    }
    ends
}

#[test]
fn no_stream_and_no_first_packet_is_left_out_of_a_trace_unnoticed() {
    let Some(folder) = traces("a stream that is left out is noticed") else { return };
    for (trace, kernel) in [("many-threads", "many-threads"), ("lttng-mutex", "lttng-mutex/ctf/kernel")] {
        let copy = tempfile::tempdir().expect("a temporary directory");
        let mut streams = Vec::new();
        for entry in std::fs::read_dir(folder.join(kernel)).expect("a trace") {
            let entry = entry.expect("an entry");
            if entry.path().is_file() {
                let bytes = std::fs::read(entry.path()).expect("a file");
                std::fs::write(copy.path().join(entry.file_name()), &bytes).expect("room");
                if entry.file_name() != "metadata" {
                    streams.push((entry.file_name(), bytes));
                }
            }
        }
        assert!(streams.len() > 1, "{trace} has {} streams", streams.len());
        // The sum of all waits for a CPU.
        let asked = ["latency", "runqueue", "-a", "-i", "."];
        let waits = |codes: &[&str]| -> u64 {
            let document = document(copy.path(), &asked);
            let problems = list(&document["problems"]);
            let is_said = problems.iter().any(|problem| codes.iter().any(|code| problem["code"] == *code));
            assert!(codes.is_empty() || is_said, "{trace}: {codes:?}: {problems:#?}");
            document["targets"][0]["sum"].as_str().and_then(|sum| sum.parse().ok()).expect("a sum")
        };
        let whole = waits(&[]);
        for (name, bytes) in &streams {
            let path = copy.path().join(name);
            let ends = packet_ends(bytes);
            std::fs::remove_file(&path).expect("a file");
            let without = waits(&["cpus_unrecorded"]);
            assert!(without <= whole, "{trace} without {name:?}: {without} ns, {whole} ns in all");
            // The first to begin, and a stream with a single packet, leave nothing to notice it by.
            if ends.len() > 1 {
                std::fs::write(&path, &bytes[ends[0]..]).expect("room");
                let without = waits(&["begin_missing"]);
                assert!(without <= whole, "{trace} without the first packet of {name:?}: {without} ns");
            }
            std::fs::write(&path, bytes).expect("room");
        }
    }
}

#[test]
fn nothing_is_known_of_a_cpu_after_the_end_of_its_stream() {
    let Some(folder) = traces("a CPU whose stream ends early is unknown from there on") else { return };
    let copy = tempfile::tempdir().expect("a temporary directory");
    let trace = copy.path().join("many-threads");
    std::fs::create_dir(&trace).expect("a directory");
    for entry in std::fs::read_dir(folder.join("many-threads")).expect("a trace") {
        let entry = entry.expect("an entry");
        if entry.path().is_file() {
            std::fs::write(trace.join(entry.file_name()), std::fs::read(entry.path()).expect("a file"))
                .expect("room");
        }
    }
    let asked = ["path", "many-threads"];
    let whole = document(copy.path(), &asked);
    assert!(list(&whole["problems"]).iter().all(|problem| problem["code"] != "end_missing"));
    let stream = trace.join("channel0_4");
    let bytes = std::fs::read(&stream).expect("a stream");
    let ends = packet_ends(&bytes);
    assert_eq!(ends.last(), Some(&bytes.len()), "all packets are found");
    let unknown = |document: &serde_json::Value| -> i64 {
        list(&document["threads"]).iter().map(|thread| thread["unknown_ns"].as_i64().unwrap_or(0)).sum()
    };
    let ran = |document: &serde_json::Value| -> i64 {
        list(&document["threads"]).iter().map(|thread| thread["running_ns"].as_i64().unwrap_or(0)).sum()
    };
    // Without its last three packets, which hold 187 ms of the trace, and cut within the packet before.
    let last = ends[ends.len() - 4];
    for cut in [last, last - 9_000] {
        std::fs::write(&stream, &bytes[..cut]).expect("room");
        let document = document(copy.path(), &asked);
        let problems = list(&document["problems"]);
        let of_end: Vec<_> = problems.iter().filter(|problem| problem["code"] == "end_missing").collect();
        assert_eq!(of_end.len(), 1, "{problems:#?}");
        let said = of_end[0]["text"].as_str().expect("a text");
        assert!(said.starts_with("channel0_4: the stream ends "), "{said}");
        assert!(said.ends_with(" before the trace: from there on nothing is known of CPU 4"), "{said}");
        // No thread there continues in its last state.
        assert!(unknown(&document) > unknown(&whole) + 100_000_000, "{}", unknown(&document));
        assert!(ran(&document) <= ran(&whole), "{} {}", ran(&document), ran(&whole));
    }
}

/// A request as the traced program printed it: its number, its begin (s) and its length (ms), on its own clock.
fn printed_requests(text: &str) -> Vec<(u64, f64, f64)> {
    let requests = text.lines().filter(|line| line.starts_with("req "));
    let value = |line: &str, key: &str| {
        let value = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).expect("a number")
    };
    let number =
        |line: &str| line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    requests.map(|line| (number(line), value(line, "mono"), value(line, "dur_ms"))).collect()
}

#[test]
fn a_programs_states_are_as_long_as_the_program_printed_and_lie_over_its_path() {
    let Some(folder) = traces("requests marked by LTTng-UST are as long as their program says") else {
        return;
    };
    let session = "lttng-ust-app/ctf";
    let printed =
        std::fs::read_to_string(folder.join("lttng-ust-app/workload.out")).expect("the program's words");
    let requests = printed_requests(&printed);
    assert_eq!(requests.len(), 9);
    // The program takes its times outside its marks, and prints them with 1 us.
    let around = 0.0..1.0;
    for whom in [&["-a"][..], &["--tid", "224"]] {
        let told = document(&folder, &[&["latency", "ust:rca:req", "-i", session], whom].concat());
        let target = &list(&told["targets"])[0];
        assert_eq!((&target["of"], &target["count"]), (&"user_states".into(), &9.into()), "{target}");
        assert_eq!((&target["open"], &target["unseen"]), (&0.into(), &0.into()));
        let sum: f64 = target["sum"].as_str().and_then(|sum| sum.parse().ok()).expect("a sum");
        let all: f64 = requests.iter().map(|(.., ms)| ms).sum();
        assert!((0.0..2.0).contains(&(all - sum / 1e6)), "{sum} ns of {all} ms");
    }
    // The worker alone serves requests.
    let of_client = document(&folder, &["latency", "ust:rca:req", "-i", session, "--tid", "220"]);
    assert_eq!(list(&of_client["targets"])[0]["count"], 0);
    let path = document(&folder, &["path", "--tid", "224", session]);
    let origin: f64 = path["origin_ns"].as_str().and_then(|ns| ns.parse().ok()).expect("a number");
    for (number, begin, ms) in requests {
        let from = begin - origin / 1e9;
        let window = [format!("{from:.6}"), format!("{:.6}", from + ms / 1e3)];
        let asked = ["path", "--tid", "224", "--from", &window[0], "--to", &window[1], session];
        let path = document(&folder, &asked);
        let states = list(&path["user_states"]);
        let state = states.iter().find(|state| state["name"] == "rca:req").expect("the request's state");
        assert_eq!((&state["tid"], &state["count"], &state["unseen"]), (&224.into(), &1.into(), &0.into()));
        let in_state = state["total_ns"].as_f64().expect("a number") / 1e6;
        assert!(around.contains(&(ms - in_state)), "request {number}: {in_state} ms of {ms} ms");
        // 7: the other thread sleeps 15 ms with the mutex, and then the worker gets no CPU for 19 ms. Otherwise 0, 3, 6: it sleeps; 1, 4, 7: another thread has its mutex and sleeps; 2, 5, 8: it runs.
        let code = &state["largest"]["code"];
        let expected = match number % 3 {
            _ if number == 7 => &["cpu"][..],
            0 => &["timer", "timed_out", "timer_ready"][..],
            1 => &["process", "timer", "timed_out", "timer_ready"],
            _ => &["running"],
        };
        assert!(expected.iter().any(|one| code == one), "request {number}: {state}");
    }
}

#[test]
fn programs_traced_alone_answer_for_their_states_and_for_no_path() {
    let Some(folder) = traces("a trace of programs alone says what it lacks") else { return };
    let alone = "lttng-ust-app/ctf/ust";
    let told = document(&folder, &["latency", "ust:rca:req", "-i", alone]);
    let beside = document(&folder, &["latency", "ust:rca:req", "-i", "lttng-ust-app/ctf"]);
    let [target, other] = [&told, &beside].map(|told| list(&told["targets"])[0].clone());
    assert_eq!((&target["count"], &target["sum"]), (&other["count"], &other["sum"]));
    let lacks = |target: &serde_json::Value| {
        list(&target["notes"])
            .iter()
            .any(|note| note.as_str().is_some_and(|note| note.contains("record the kernel")))
    };
    assert_eq!([&target, &other].map(lacks), [true, false]);
    let (_, refused) = run(&folder, &["path", alone], 3);
    assert!(refused.contains("traces of programs only") && refused.contains("sched_switch"), "{refused}");
    let (_, unknown) = run(&folder, &["latency", "ust:rca:nothing", "-i", alone], 2);
    assert!(unknown.contains("`ust:rca:queue_push`") && unknown.contains("`ust:rca:req`"), "{unknown}");
}

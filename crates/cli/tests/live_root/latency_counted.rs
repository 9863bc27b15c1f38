//! The processes that `wakepath latency` counts, and for how long, compared with programs that know.

use std::process::{Command, Stdio};

use serde_json::Value;
use wakepath_harness::live::{
    Beside, Place, command, document, document_among, latency, list, not_possible, number, place, program,
    run,
};

/// The frame pointer's push is an instruction that the kernel need not single-step.
const OPTIONS: [&str; 2] = ["-O1", "-fno-omit-frame-pointer"];

fn naps(folder: &Place) -> String {
    program(folder, "naps", include_str!("latency_counted/naps.c"), &OPTIONS)
}

/// A target of a document, by its name.
#[track_caller]
fn target<'a>(document: &'a Value, name: &str) -> &'a Value {
    let found = list(&document["targets"]).iter().find(|target| target["target"] == name);
    found.unwrap_or_else(|| panic!("{name} in {document}"))
}

#[test]
fn a_short_commands_time_is_no_shorter_than_its_calls_and_its_own_clock_says() {
    let Some(folder) = place("a short command's time is right") else { return };
    let naps = naps(&folder);
    let mut least_beyond = u64::MAX;
    for _ in 0..20 {
        let arguments = ["latency", "syscall:clock_nanosleep", "--json", "--", naps.as_str(), "2"];
        let (printed, _) = run(&folder, &arguments, 0);
        let (document, lines) = document_among(&printed);
        let own = lines.iter().find_map(|line| line.strip_prefix("own_ns ")?.parse::<u64>().ok());
        let own = own.unwrap_or_else(|| panic!("its own time in {lines:?}"));
        let elapsed = number(&document["elapsed_ns"]);
        let calls = target(&document, "syscall:clock_nanosleep");
        assert_eq!(number(&calls["count"]), 2, "{document}");
        assert!(number(&calls["sum"]) <= elapsed, "calls of one thread, one after the other: {document}");
        assert!((2_000_000..=elapsed).contains(&own), "{own} ns by its own clock: {document}");
        least_beyond = least_beyond.min(elapsed - own);
    }
    // Its start and its end belong to it; the rest is to be short beside what people notice.
    assert!(least_beyond < 50_000_000, "{least_beyond} ns beyond its own time");
}

#[test]
fn nothing_counts_before_all_probes_are_attached() {
    let Some(folder) = place("counting begins for all targets at once") else { return };
    let naps = naps(&folder);
    let busy = Command::new(&naps).arg("1000000").stdout(Stdio::null()).spawn().expect("naps");
    let busy = Beside(busy);
    let pid = busy.0.id().to_string();
    for whom in [&["-a"][..], &["-p", &pid]] {
        let asked = ["latency", "./naps:nap", "syscall:clock_nanosleep", "./naps:other_*", "-d", "0.3"];
        let document = document(&folder, &[&asked, whom].concat());
        let elapsed = number(&document["elapsed_ns"]);
        assert_eq!(list(&document["targets"]).len(), 14, "{document}");
        let nap = target(&document, "./naps:nap");
        assert!(number(&nap["count"]) > 20, "{document}");
        // One thread is in one call at a time; a call may have begun before the time's beginning by a moment.
        assert!(number(&nap["sum"]) <= elapsed + 1_000_000, "{whom:?}: more than the whole time: {document}");
        // The cost is measured on calls of the counting process, which do not count.
        assert!(number(&nap["probe"]["per_call_ns"]) > 0, "{document}");
    }
}

#[test]
fn calls_of_32_bit_programs_count_under_their_names() {
    let Some(folder) = place("system calls of 32-bit programs are counted") else { return };
    let source = include_str!("latency_counted/calls_32.c");
    let options = ["-O1", "-nostdlib", "-static", "-no-pie", "-fno-pie", "-fno-stack-protector"];
    for (name, kind) in [("calls_32", &["-m32"][..]), ("calls_64", &[])] {
        let program = program(&folder, name, source, &[&options[..], kind].concat());
        if !Command::new(&program).status().is_ok_and(|status| status.success()) {
            not_possible("this kernel runs no 32-bit calls", "system calls of 32-bit programs are counted");
            return;
        }
        let expected = [
            ("syscall:nanosleep", 10),
            ("syscall:clock_nanosleep", 20),
            ("syscall:geteuid", 30),
            ("syscall:socket", 40),
            ("syscall:msgget", 50),
            ("syscall:getegid", 60),
            ("syscall:futex", 7 + 8 + 9),
            ("lock:user", 7 + 8),
            // An exec has its old program's number at its beginning, and its new one's at its end.
            ("syscall:execve", 1),
            // 64-bit calls with the same numbers.
            ("syscall:sync", 0),
            ("syscall:time", 0),
            ("syscall:getuid", 0),
            ("syscall:setresuid", 0),
            ("syscall:mq_open", 0),
        ];
        let targets = expected.map(|(target, _)| target);
        let (counted, _) = latency(&folder, &targets, &[&program]);
        let found: Vec<_> = counted.iter().map(|target| number(&target["count"])).collect();
        assert_eq!(found, expected.map(|(_, calls)| calls), "{name}: {targets:?}");
        let shortest = number(&counted[0]["buckets"][0]["from"]);
        assert!(shortest >= 65_536, "no sleep of 100 µs is shorter: {:?}", counted[0]);
    }
}

#[test]
fn the_counting_process_is_left_out_where_all_are_counted() {
    let Some(folder) = place("wakepath's own calls are left out") else { return };
    let naps = naps(&folder);
    let busy = Command::new(&naps).arg("1000000").stdout(Stdio::null()).spawn().expect("naps");
    let busy = Beside(busy);
    let asked = ["latency", "syscall:*", "runqueue", "lock", "-a", "--by", "process", "--every", "20ms"];
    let mut counting = command(&folder, &[&asked[..], &["-d", "0.5", "--json"]].concat());
    let counting = counting.stdout(Stdio::piped()).spawn().expect("wakepath");
    let own = u64::from(counting.id());
    let output = counting.wait_with_output().expect("wakepath");
    let (document, _) = document_among(std::str::from_utf8(&output.stdout).expect("UTF-8"));
    let pids = |target: &Value| -> Vec<u64> {
        list(&target["groups"]).iter().filter_map(|group| group["pid"].as_u64()).collect()
    };
    for counted in list(&document["targets"]) {
        assert!(!pids(counted).contains(&own), "{counted}");
    }
    let of_others = [target(&document, "syscall:clock_nanosleep"), target(&document, "runqueue")];
    for counted in of_others {
        assert!(pids(counted).contains(&u64::from(busy.0.id())), "{counted}");
    }
}

#[test]
fn all_system_calls_can_be_counted_at_once_beside_functions() {
    let Some(folder) = place("all system calls are counted at once") else { return };
    let naps = naps(&folder);
    let (counted, own) = latency(&folder, &["syscall:*", "./naps:nap"], &[&naps, "50"]);
    assert!(counted.len() > 300, "{}", counted.len());
    assert_eq!(counted[0]["target"], "./naps:nap", "behind it are the system calls");
    let calls = |name: &str| {
        let found = counted.iter().find(|target| target["target"] == name);
        number(&found.unwrap_or_else(|| panic!("{name}"))["count"])
    };
    assert_eq!((calls("./naps:nap"), own["naps"]), (50, 50));
    assert_eq!((calls("syscall:clock_nanosleep"), calls("syscall:execve")), (50, 1));
    assert_eq!((calls("syscall:exit_group"), calls("syscall:getcpu")), (0, 0));
    // The answer stands on stderr, beside the command's own output.
    let (_, shown) = run(&folder, &["latency", "syscall:*", "--", naps.as_str(), "50"], 0);
    assert!(shown.contains("most time first: "), "{shown}");
    assert!(shown.contains("syscall:exit_group: 0 calls") && !shown.contains("syscall:getcpu"), "{shown}");
}

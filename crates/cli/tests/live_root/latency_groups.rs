//! The groups of `wakepath latency --by`, compared with what programs report about themselves.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{
    command, counts as counted_by, list, not_possible, number, place, run, skip, texts, wakepath, workload,
};

/// The counts under a shell command line, by target.
fn counted(folder: &Path, arguments: &[&str], line: &str) -> Vec<Value> {
    let command = ["--json", "--", "sh", "-c", line];
    let (printed, said) = run(folder, &[&["latency"], arguments, &command].concat(), 0);
    // Shown if the test fails.
    println!("{arguments:?} -- {line}: {}", format!("{said}{printed}").escape_debug());
    let (targets, _) = counted_by(&printed);
    targets.iter().for_each(adds_up);
    targets
}

/// Checks that the groups add up to the whole: in number, in time, in each bucket.
fn adds_up(target: &Value) {
    let groups = list(&target["groups"]);
    for key in ["count", "sum", "left", "crowded"] {
        let sum: u64 = groups.iter().map(|group| number(&group[key])).sum();
        assert_eq!(sum, number(&target[key]), "{key}: {target}");
    }
    for bucket in list(&target["buckets"]) {
        let parts = groups.iter().flat_map(|group| list(&group["buckets"]));
        let parts = parts.filter(|part| part["index"] == bucket["index"]);
        assert_eq!(
            parts.map(|part| number(&part["count"])).sum::<u64>(),
            number(&bucket["count"]),
            "{target}"
        );
    }
}

/// Checks that the groups' slices add up to each slice, and to each group.
fn adds_up_over_time(target: &Value) {
    let counted = |of: &Value| list(&of["slices"]).iter().map(|slice| number(&slice["count"])).sum::<u64>();
    assert_eq!(counted(target), number(&target["count"]), "{target}");
    let groups = list(&target["groups"]);
    for group in groups {
        assert_eq!(counted(group), number(&group["count"]), "{group}");
    }
    for slice in list(&target["slices"]) {
        for key in ["count", "sum"] {
            let of_groups = groups.iter().flat_map(|group| list(&group["slices"]));
            let of_slice = of_groups.filter(|part| part["from_ns"] == slice["from_ns"]);
            assert_eq!(of_slice.map(|part| number(&part[key])).sum::<u64>(), number(&slice[key]), "{target}");
        }
    }
}

/// Each group's key and count, by count.
fn counts(target: &Value, key: &str) -> Vec<(String, u64)> {
    let mut counts: Vec<_> = list(&target["groups"])
        .iter()
        .map(|group| (group[key].as_str().unwrap_or_default().to_owned(), number(&group["count"])))
        .collect();
    counts.sort();
    counts
}

#[test]
fn each_process_has_the_calls_that_it_made() {
    let Some(folder) = place("each process has its own calls") else { return };
    let calls = workload(&folder, "calls");
    let line = format!(
        "{calls} threads=2 syscalls=3000 left=10; {calls} threads=1 syscalls=500 functions=700; exit 0"
    );
    let arguments = [
        "syscall:getcpu",
        "./calls:counted",
        "./calls:left",
        "runqueue",
        "--by",
        "process",
        "--every",
        "50ms",
    ];
    let found = counted(&folder, &arguments, &line);
    let calls = |n: u64| (String::from("calls"), n);
    assert_eq!(counts(&found[0], "comm"), [calls(500), calls(6000)]);
    assert_eq!(counts(&found[1], "comm"), [calls(700)]);
    assert_eq!(counts(&found[2], "comm"), [calls(10)], "half of them return");
    assert_eq!(number(&found[2]["groups"][0]["left"]), 10, "half of them leave, the last of each thread too");
    let pids = |target: &Value| -> BTreeSet<u64> {
        list(&target["groups"]).iter().map(|group| number(&group["pid"])).collect()
    };
    assert_eq!(pids(&found[0]).len(), 2);
    // The shell and both processes waited for a CPU, at least when they began.
    assert!(pids(&found[3]).len() >= 3 && pids(&found[3]).is_superset(&pids(&found[0])), "{}", found[3]);
    found.iter().for_each(adds_up_over_time);
}

#[test]
fn each_thread_has_the_calls_that_it_made_under_its_last_name() {
    let Some(folder) = place("each thread has its own calls") else { return };
    let calls = workload(&folder, "calls");
    // Each thread asks for its process group before it takes a name.
    let targets = ["syscall:getcpu", "./calls:nested", "syscall:getpgid", "--by", "thread"];
    let found = counted(&folder, &targets, &format!("{calls} threads=4 syscalls=4000 nested=100; exit 0"));
    let named = |n: u64| -> Vec<_> { (0..4).map(|thread| (format!("\u{1b}[7m{thread}"), n)).collect() };
    assert_eq!(counts(&found[0], "comm"), named(4000));
    assert_eq!(counts(&found[1], "comm"), named(500));
    let mut began = counts(&found[2], "comm");
    // The shell's own calls do not matter.
    began.retain(|(name, _)| name != "sh");
    assert_eq!(began, named(1));
    // All threads belong to one process, and its first thread is not among them. The first thread need not have the
    // smallest number, where numbers begin anew.
    let of = |key: &str| -> BTreeSet<u64> {
        found.iter().flat_map(|target| list(&target["groups"])).map(|group| number(&group[key])).collect()
    };
    let (processes, threads) = (of("pid"), of("tid"));
    assert_eq!((processes.len(), threads.len()), (1, 4), "{processes:?} {threads:?}");
    assert!(processes.is_disjoint(&threads), "{processes:?} {threads:?}");
    // A name cannot send commands to a terminal.
    let line = format!("{calls} threads=2 syscalls=10");
    let output = wakepath(&folder, &["latency", "syscall:getcpu", "--by", "thread", "--", "sh", "-c", &line]);
    let (_, said) = texts(&output);
    assert!(said.contains("\\x1b[7m1 (") && !said.contains('\u{1b}'), "{}: {said:?}", output.status);
}

#[test]
fn a_process_with_a_reused_number_is_another_group() {
    let Some(folder) = place("processes with one number are told apart") else { return };
    let calls = workload(&folder, "calls");
    let found = counted(&folder, &["syscall:getcpu", "--by", "process"], &format!("{calls} again=3; exit 0"));
    let groups = list(&found[0]["groups"]);
    let distinct = |key: &str| groups.iter().map(|group| number(&group[key])).collect::<BTreeSet<_>>().len();
    assert_eq!(counts(&found[0], "comm"), vec![(String::from("calls"), 1); 3], "{}", found[0]);
    assert_eq!((distinct("pid"), distinct("start_ns")), (1, 3), "{}", found[0]);
}

#[test]
fn another_process_that_gets_the_number_is_not_followed() {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    const SHOWS: &str = "another process with the number of a followed one is not followed";
    let Some(folder) = place(SHOWS) else { return };
    if !Path::new(LAST).exists() {
        return not_possible("this kernel does not let processes choose a number", SHOWS);
    }
    let calls = workload(&folder, "calls");
    // After its child is reaped, the shell starts no process that could take the number, and waits for a line.
    let line = format!("{calls} syscalls=10 threads=1 > own & echo $!; wait; echo reaped; read told; exit 0");
    let mut counting = command(&folder, &["latency", "syscall:getcpu", "--json", "--", "sh", "-c", &line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("wakepath");
    let mut printed = BufReader::new(counting.stdout.take().expect("a pipe")).lines();
    let mut printed_line = || printed.next().expect("a line").expect("text");
    let its: u32 = printed_line().parse().expect("a number");
    assert_eq!(printed_line(), "reaped");
    let own = std::fs::read_to_string(folder.join("own")).expect("what it says");
    assert!(own.contains("syscalls 10\n"), "{own}");
    // Other tests start programs meanwhile, and one of these may get the number and keep it for a while.
    let until = Instant::now() + Duration::from_secs(60);
    let mut is_reused = false;
    while !is_reused && Instant::now() < until {
        std::fs::write(LAST, (its - 1).to_string()).expect("root may");
        let mut other = Command::new(&calls)
            .args(["syscalls=777", "threads=1"])
            .stdout(Stdio::null())
            .spawn()
            .expect("calls");
        is_reused = other.id() == its;
        other.wait().expect("it ends");
    }
    counting.stdin.take().expect("a pipe").write_all(b"now\n").expect("the shell reads");
    let document = printed.map(|line| line.expect("text")).find(|line| line.starts_with('{'));
    let document: Value = serde_json::from_str(&document.expect("a document")).expect("JSON");
    assert!(counting.wait().expect("it ends").success());
    assert!(is_reused, "nobody got number {its}");
    assert_eq!(number(&document["targets"][0]["count"]), 10, "{document}");
}

#[test]
fn groups_for_which_there_is_no_room_are_counted_together() {
    let Some(folder) = place("more threads than are told apart are counted all the same") else { return };
    let calls = workload(&folder, "calls");
    let targets = ["getcpu", "getsid", "getpriority", "sched_getscheduler", "getitimer", "times", "sysinfo"];
    let targets = targets.map(|call| format!("syscall:{call}"));
    let arguments: Vec<_> =
        targets.iter().map(String::as_str).chain(["syscall:getrusage", "--by", "thread"]).collect();
    let found = counted(&folder, &arguments, &format!("{calls} brief=2100; exit 0"));
    // A group for each thread and target, up to `MAX_GROUPS`, 16384.
    let (others, known): (Vec<_>, Vec<_>) =
        found.iter().flat_map(|target| list(&target["groups"])).partition(|group| group["others"] == true);
    assert_eq!(known.len(), 16384);
    assert_eq!(others.iter().map(|group| number(&group["count"])).sum::<u64>(), 8 * 2100 - 16384);
    assert!(found.iter().all(|target| target["count"] == 2100));
}

/// A cgroup for this test in each existing hierarchy, removed when dropped.
struct Cgroups(Vec<PathBuf>);

impl Cgroups {
    fn new() -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        let roots = mounts.lines().filter_map(|line| {
            let fields: Vec<_> = line.split(' ').collect();
            let cpu = fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "cpu");
            (cpu || fields[2] == "cgroup2").then(|| PathBuf::from(fields[1]))
        });
        let cgroups: Vec<_> =
            roots.map(|root| root.join(format!("wakepath-by-{}", std::process::id()))).collect();
        cgroups.iter().for_each(|cgroup| std::fs::create_dir(cgroup).expect("a cgroup"));
        Self(cgroups)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for cgroup in &self.0 {
            let _ = std::fs::remove_dir(cgroup);
        }
    }
}

#[test]
fn each_cgroup_has_the_calls_that_were_made_in_it() {
    let Some(folder) = place("each cgroup has its own calls") else { return };
    let calls = workload(&folder, "calls");
    let cgroups = Cgroups::new();
    let mut line = format!("{calls} syscalls=300;");
    for cgroup in &cgroups.0 {
        line.push_str(&format!("echo $$ > {}/cgroup.procs;", cgroup.display()));
    }
    line.push_str(&format!("{calls} threads=2 syscalls=1000; exit 0"));
    let found = counted(&folder, &["syscall:getcpu", "--by", "cgroup"], &line);
    let name = format!("/wakepath-by-{}", std::process::id());
    let own = list(&found[0]["groups"]).iter().filter(|group| group["cgroup"] == name.as_str());
    assert_eq!(own.map(|group| number(&group["count"])).collect::<Vec<_>>(), [2000], "{}", found[0]);
    assert_eq!((number(&found[0]["count"]), list(&found[0]["groups"]).len()), (2300, 2), "{}", found[0]);
}

#[test]
fn requests_of_a_disk_cannot_be_grouped() {
    let Some(folder) = place("requests of disks are nobody's") else { return };
    let asked = ["latency", "syscall:read", "disk", "--by", "process", "-a", "-d", "1"];
    let (_, said) = run(&folder, &asked, 2);
    assert!(said.contains("a disk request does not say which process it is for"), "{said}");
}

/// Raises the largest process id, so that enough exist at once; restores it when dropped.
struct Numbers(String);

impl Numbers {
    const PID_MAX: &'static str = "/proc/sys/kernel/pid_max";

    fn at_least(most: u32) -> Option<Self> {
        let before = std::fs::read_to_string(Self::PID_MAX).ok()?;
        let larger = before.trim().parse().map_or(most, |before: u32| before.max(most));
        std::fs::write(Self::PID_MAX, larger.to_string()).ok()?;
        Some(Self(before))
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::PID_MAX, &self.0);
    }
}

#[test]
fn a_new_process_is_followed_however_many_ended_before() {
    const SHOWS: &str = "processes that ended take no room";
    let Some(folder) = place(SHOWS) else { return };
    let Some(_numbers) = Numbers::at_least(131_072) else {
        return skip("pid_max cannot be raised", SHOWS);
    };
    let calls = workload(&folder, "calls");
    // More than the map `followed` in bpf/calls.bpf.h has room for.
    let line = format!("{calls} forks=33000; {calls} syscalls=10; exit 0");
    let found = counted(&folder, &["syscall:getcpu", "--by", "process"], &line);
    assert_eq!(number(&found[0]["count"]), 10, "{}", found[0]);
}

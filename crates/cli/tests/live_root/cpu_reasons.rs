//! Why others had the CPU, in a live recording: nice value, class and allowed CPUs of both sides are said where they
//! count, and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use wakepath_harness::live::{document, list, not_possible, number, place_alone, record};

const WOULD_SHOW: &str =
    "nice values, classes and allowed CPUs are said where they are why others had the CPU";

/// A program with this name that computes until it is dropped.
struct Competitor(Child);

impl Competitor {
    /// `before` are the words of programs that start it: `taskset -c 0`.
    fn new(folder: &Path, before: &str) -> Self {
        let program = folder.join("batchjob");
        let _ = std::os::unix::fs::symlink("/bin/sh", &program);
        let mut words = before.split(' ').map(str::to_owned).collect::<Vec<_>>();
        words.extend([
            program.to_string_lossy().into_owned(),
            "-c".to_owned(),
            "while :; do :; done".to_owned(),
        ]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        let competitor = Self(command.spawn().expect("a competitor"));
        // Before, it is the program in front of it, on any CPU.
        let name = format!("/proc/{}/comm", competitor.0.id());
        while fs::read_to_string(&name).expect("a name").trim() != "batchjob" {
            std::thread::sleep(Duration::from_millis(1));
        }
        competitor
    }
}

impl Drop for Competitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records a program that computes, started by these words; the row of its waits for a CPU.
fn waits(folder: &Path, before: &str, rounds: u32) -> Option<Value> {
    let mut words = vec!["--"];
    words.extend(before.split(' '));
    let computes = format!("i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); done");
    words.extend(["sh", "-c", &computes]);
    record(folder, &words, 0);
    let document = document(folder, &["path"]);
    let row = list(&document["rows"]).iter().find(|row| row["code"] == "cpu")?;
    println!("{before}: {} {}", row["text"], row["total_ns"]);
    Some(row.clone())
}

/// The row where the competitor had the CPU for the longest time.
fn behind(folder: &Path, before: &str, rounds: u32) -> Value {
    let row = waits(folder, before, rounds).expect("waits for a CPU");
    assert_eq!(row["parts"][0]["what"], "batchjob", "the competitor had the CPU: {row}");
    row
}

fn affinity(row: &Value) {
    let confined = &row["confined"];
    assert_eq!(
        (&confined["cpus"], &confined["by"], &confined["cpuset"]),
        (&json!("0"), &json!("affinity"), &Value::Null)
    );
    assert!(list(&confined["comms"]).contains(&json!("sh")), "{confined}");
    assert!(number(&confined["total_ns"]) <= number(&row["total_ns"]));
    assert!(number(&confined["idle_ns"]) <= number(&confined["total_ns"]));
}

fn standing(class: &str, nice: i32) -> Value {
    json!({"class": class, "nice": nice, "priority": 0})
}

#[test]
fn nice_values_and_allowed_cpus_are_said_where_they_count_and_nowhere_else() {
    let Some(folder) = place_alone(WOULD_SHOW) else { return };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return not_possible("there is one CPU", WOULD_SHOW);
    }
    let competitor = Competitor::new(&folder, "taskset -c 0");
    let row = behind(&folder, "taskset -c 0 nice -n 10", 60_000);
    let precedence = &row["precedence"];
    assert_eq!(precedence["waiting"], standing("SCHED_OTHER", 10), "{row}");
    assert_eq!(precedence["running"], standing("SCHED_OTHER", 0));
    assert!(list(&precedence["comms"]).contains(&json!("sh")), "{row}");
    assert!(list(&precedence["running_comms"]).contains(&json!("batchjob")), "{row}");
    assert!(list(&precedence["running_processes"]).contains(&json!(competitor.0.id())), "{row}");
    affinity(&row);

    // Long enough: what waits between the change of class and the exec has had both classes.
    let row = behind(&folder, "taskset -c 0 chrt -i 0", 10_000);
    assert_eq!(row["precedence"]["waiting"], standing("SCHED_IDLE", 0), "{row}");
    assert_eq!(row["precedence"]["running"], standing("SCHED_OTHER", 0));

    // Equal nice values, and a lower one: they share the CPU, but are not why.
    for before in ["taskset -c 0 nice -n 0", "taskset -c 0 nice -n -3"] {
        let row = behind(&folder, before, 200_000);
        assert_eq!(row["precedence"], Value::Null, "{before}");
        affinity(&row);
    }
    drop(competitor);

    // The same affinity and nice value, and the CPU is free: the competitor is elsewhere.
    let competitor = Competitor::new(&folder, "taskset -c 1");
    if let Some(row) = waits(&folder, "taskset -c 0 nice -n 10", 200_000) {
        assert!(!row["precedence"].to_string().contains("batchjob"), "{row}");
        let ns = |all: &str, key: &str, name: &str| -> u64 {
            let named = list(&row[all]).iter().filter(|it| it[key] == name);
            named.map(|it| number(&it["total_ns"])).sum()
        };
        // The program in front may still run on any CPU.
        assert!(ns("parts", "what", "batchjob") <= ns("users", "comm", "taskset"), "{row}");
    }
    drop(competitor);
}

#[test]
fn a_nice_value_does_not_count_between_sessions_that_share_the_cpu() {
    let Some(folder) = place_alone(WOULD_SHOW) else { return };
    let has_sessions = fs::read_to_string("/proc/self/autogroup")
        .is_ok_and(|text| text.starts_with("/autogroup-"))
        && fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled")
            .is_ok_and(|text| text.trim() == "1");
    // In a CPU cgroup of its own, a session has no group.
    let is_in_root = fs::read_to_string("/proc/self/cgroup").is_ok_and(|text| {
        let mut cpu = text.lines().filter(|line| {
            line.split(':').nth(1).is_some_and(|names| names.split(',').any(|name| name == "cpu"))
        });
        cpu.next().map_or(text.lines().any(|line| line == "0::/"), |line| line.ends_with(":/"))
    });
    if !has_sessions || !is_in_root {
        return not_possible("sessions share no CPU here (autogroup)", WOULD_SHOW);
    }
    let _competitor = Competitor::new(&folder, "setsid taskset -c 0");
    let row = behind(&folder, "taskset -c 0 nice -n 10", 200_000);
    assert_eq!(row["precedence"], Value::Null, "{row}");
    affinity(&row);
}

/// A cpuset with CPU 0, until it is dropped.
struct Cpuset(PathBuf);

impl Cpuset {
    fn new() -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup/cpuset");
        let v2 = Path::new("/sys/fs/cgroup");
        let is_v1 = v1.join("cpuset.cpus").exists();
        if !is_v1 {
            fs::write(v2.join("cgroup.subtree_control"), "+cpuset").ok()?;
        }
        let folder = if is_v1 { v1 } else { v2 }.join(format!("wakepath-cpuset-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        fs::write(group.0.join("cpuset.cpus"), "0").ok()?;
        if is_v1 {
            fs::write(group.0.join("cpuset.mems"), "0").ok()?;
        }
        Some(group)
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_cpuset_is_named_where_a_thread_waits_in_it() {
    let Some(folder) = place_alone(WOULD_SHOW) else { return };
    let Some(group) = Cpuset::new() else {
        return not_possible("no cgroup that could have a cpuset", WOULD_SHOW);
    };
    let _competitor = Competitor::new(&folder, "taskset -c 0");
    let tasks = group.0.join("cgroup.procs");
    let joins = folder.join("joins");
    fs::write(&joins, format!("#!/bin/sh\necho 0 >{} && exec \"$@\"\n", tasks.display())).expect("room");
    let row = behind(&folder, "sh ./joins", 200_000);
    let confined = &row["confined"];
    let name = group.0.file_name().expect("a name").to_string_lossy();
    assert_eq!(
        (&confined["cpus"], &confined["by"], &confined["cpuset"]),
        (&json!("0"), &json!("cpuset"), &json!(name)),
        "{row}"
    );
    assert_eq!(row["precedence"], Value::Null, "{row}");
}

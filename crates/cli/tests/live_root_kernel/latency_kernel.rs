//! Kernel function calls counted by `wakepath latency`, compared with the programs' own calls: on kernels that allow
//! probes on their functions. `vm/tests` runs these tests in guests with such kernels.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{
    Beside, Place, command, counts, document, list, not_possible, number, place, record, texts, wakepath,
    workload,
};

/// Whether the kernel allows probes on its functions, or why not; `None` if nothing can be recorded here. Tried only
/// once, since it takes a while.
fn allowed() -> &'static Option<Result<(), String>> {
    static ALLOWED: OnceLock<Option<Result<(), String>>> = OnceLock::new();
    ALLOWED.get_or_init(|| {
        let output = wakepath(Path::new("."), &["doctor", "--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let check = list(&found["checks"])
            .iter()
            .find(|check| check["what"] == "probes on functions of the kernel")?;
        Some(check["why"].as_str().map_or(Ok(()), |why| Err(why.to_owned())))
    })
}

/// A folder where a test may count kernel function calls; `None`, with a printed reason, where the kernel does not
/// allow it, whatever the rights.
fn kernel_place(would_show: &str) -> Option<Place> {
    match allowed() {
        None | Some(Ok(())) => place(would_show),
        Some(Err(why)) => {
            assert!(why.starts_with("this kernel does not allow BPF programs at its functions"), "{why}");
            not_possible(why, would_show);
            None
        }
    }
}

/// The counts of `wakepath latency` for a command, and the numbers that the command printed; any exit code is accepted.
fn counted(folder: &Path, arguments: &[&str], command: &[&str]) -> (Vec<Value>, HashMap<String, u64>) {
    let output = wakepath(folder, &[&["latency", "--json"], arguments, &["--"], command].concat());
    counts(&texts(&output).0)
}

/// The numbers of calls that returned, were unwound, had not ended, overflowed, and were unseen.
fn ends(target: &Value) -> [u64; 5] {
    ["count", "left", "open", "crowded", "unseen"].map(|key| number(&target[key]))
}

#[test]
fn each_call_of_a_kernel_function_is_counted_once_for_its_caller() {
    let Some(folder) = kernel_place("each call of a kernel function is counted") else { return };
    let calls = workload(&folder, "calls");
    // These calls come from an uncounted process.
    let others = Command::new(&calls).arg("syscalls=1000000000").stdout(Stdio::null()).spawn();
    let _others = Beside(others.expect("calls"));
    let targets = ["kernel:__x64_sys_getcpu", "syscall:getcpu", "./calls:counted", "--by", "thread"];
    let load = [&calls, "threads=4", "syscalls=20000", "functions=1000"];
    let (found, own) = counted(&folder, &targets, &load);
    let [kernel, call, user] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(ends(kernel), [own["syscalls"], 0, 0, 0, 0], "{kernel}");
    assert_eq!((ends(call)[0], ends(user)[0]), (own["syscalls"], own["functions"]), "{found:#?}");
    let counts: Vec<_> = list(&kernel["groups"]).iter().map(|group| number(&group["count"])).collect();
    assert_eq!(counts, [20000; 4], "{kernel}");
    // The function is within the system call, with its probes between.
    assert!(number(&kernel["sum"]) < number(&call["sum"]), "{found:#?}");
    // The cost is unknown if the system calls around the measured calls vary by more.
    if !kernel["probe"].is_null() {
        let cost = ["per_call_ns", "shift_ns"].map(|key| number(&kernel["probe"][key]));
        println!("probes cost {} ns a call, {} ns of it counted", cost[0], cost[1]);
        assert!(cost[1] > 0 && cost[1] < cost[0] && cost[0] < 1_000_000, "{kernel}");
    }

    // The same at an interval, by a pattern, and for processes started by a command.
    let line = format!("{calls} threads=2 syscalls=5000 short=200; exit 0");
    let (found, own) =
        counted(&folder, &["kernel:__x64_sys_getcp?", "--every", "0.1s"], &["sh", "-c", &line]);
    let slices = list(&found[0]["slices"]);
    assert_eq!(found[0]["target"], "kernel:__x64_sys_getcpu");
    assert!(slices.len() > 1, "{found:#?}");
    assert_eq!(slices.iter().map(|slice| number(&slice["count"])).sum::<u64>(), own["syscalls"]);
}

#[test]
fn cycles_of_a_kernel_function_are_counted_too() {
    const SHOWS: &str = "cycles of a kernel function are counted";
    let Some(folder) = kernel_place(SHOWS) else { return };
    if !Path::new("/sys/bus/event_source/devices/msr/events/tsc").exists() {
        return not_possible("this kernel has no counter of cycles", SHOWS);
    }
    let calls = workload(&folder, "calls");
    let (found, own) = counted(&folder, &["kernel:__x64_sys_getcpu", "--cycles"], &[&calls, "syscalls=3000"]);
    assert_eq!(found[0]["unit"], "cycles");
    assert_eq!(ends(&found[0]), [own["syscalls"], 0, 0, 0, 0], "{found:#?}");
}

#[test]
fn a_call_within_a_call_is_another_one() {
    let Some(folder) = kernel_place("nested calls of a kernel function are kept apart") else { return };
    let epolls = workload(&folder, "epolls");
    let (found, own) = counted(&folder, &["kernel:ep_loop_check_proc"], &[&epolls, "500"]);
    assert_eq!(own["walks"], 5000);
    assert_eq!(ends(&found[0]), [5000, 0, 0, 0, 0], "{found:#?}");
}

#[test]
fn however_many_threads_are_in_a_function_at_once_each_is_seen_to_return() {
    let Some(folder) = kernel_place("many calls at once of a kernel function are counted") else { return };
    let calls = workload(&folder, "calls");
    let targets = ["kernel:__x64_sys_clock_nanosleep", "kernel:do_exit"];
    let (found, own) = counted(&folder, &targets, &[&calls, "threads=60", "short=10", "long=10"]);
    assert_eq!(ends(&found[0]), [own["sleeps"], 0, 0, 0, 0], "{found:#?}");
    assert_eq!(own["sleeps"], 1200);
    // No sleep is shorter than requested: 1 ms is in bucket 19.
    let is_long = |bucket: &Value| number(&bucket["index"]) >= 19 || bucket["count"] == 0;
    assert!(list(&found[0]["buckets"]).iter().all(is_long), "{found:#?}");
    // The threads and the process: each calls its end once, which never returns.
    assert_eq!(ends(&found[1]), [0, 61, 0, 0, 0], "{found:#?}");
}

#[test]
fn calls_that_have_not_ended_are_open_and_an_exec_does_not_end_them() {
    let Some(folder) = kernel_place("open calls of a kernel function are counted apart") else { return };
    let calls = workload(&folder, "calls");
    // In the foreground, `timeout` outlives the program; else it kills itself too, in any order.
    let held = ["timeout", "--foreground", "--signal=KILL", "10", &calls, "held"];
    let (found, _) = counted(&folder, &["kernel:__x64_sys_pause", "-d", "5"], &held);
    assert_eq!(ends(&found[0]), [0, 0, 1, 0, 0], "{found:#?}");
    // The process's end interrupts the call, which returns.
    let (found, _) = counted(&folder, &["kernel:__x64_sys_pause"], &held);
    assert_eq!(ends(&found[0]), [1, 0, 0, 0, 0], "{found:#?}");
    // The program's own start, and another thread that becomes another program: with the first thread's number.
    let replaced = [calls.as_str(), "replaced"];
    let targets = ["kernel:__x64_sys_execve", "./calls:counted"];
    let (found, _) = counted(&folder, &targets, &replaced);
    assert_eq!(ends(&found[0]), [2, 0, 0, 0, 0], "{found:#?}");
}

#[test]
fn calls_that_the_kernel_hides_are_counted_as_unseen() {
    let Some(folder) = kernel_place("calls whose beginning or return was missed are counted") else { return };
    let calls = workload(&folder, "calls");
    // The programs at both functions call the second function, a call which the kernel hides from them.
    let targets = ["kernel:__x64_sys_getcpu", "kernel:bpf_get_current_pid_tgid"];
    let (found, own) = counted(&folder, &targets, &[&calls, "syscalls=1000"]);
    assert_eq!(ends(&found[0]), [own["syscalls"], 0, 0, 0, 0], "{found:#?}");
    println!("of the function that the programs call: {:?}", ends(&found[1]));
    assert!(ends(&found[1])[4] >= 2 * own["syscalls"], "at the entry and at the return: {found:#?}");
}

#[test]
fn the_whole_machine_is_counted_interrupts_and_idle_cpus_with_it() {
    let Some(folder) = kernel_place("kernel functions are counted in whatever context") else { return };
    // Any interrupted thread, idle threads included, calls the first function on the interrupt stack; all sleeping
    // threads call `schedule`.
    let found =
        document(&folder, &["latency", "-a", "-d", "2", "kernel:hrtimer_interrupt", "kernel:schedule"]);
    let [interrupts, switches] = [0, 1].map(|n| ends(&found["targets"][n]));
    println!("interrupts {interrupts:?}, switches {switches:?}");
    assert!(interrupts[0] > 10 && switches[0] > 10, "{found}");
    assert_eq!((interrupts[1], interrupts[3], switches[3]), (0, 0, 0), "{found}");
    assert!(interrupts[2] <= 2, "one a CPU at most: {found}");
}

#[test]
fn recorded_calls_of_a_kernel_function_are_windows_of_their_own() {
    let Some(folder) = kernel_place("calls of a kernel function are recorded") else { return };
    let calls = workload(&folder, "calls");
    let asked = ["--call", "kernel:__x64_sys_clock_nanosleep", "--call", "./calls:counted", "--"];
    let load = [calls.as_str(), "threads=3", "short=20", "long=20", "functions=50"];
    record(&folder, &[&asked[..], &load].concat(), 0);
    for target in ["kernel:__x64_sys_clock_nanosleep", "kernel:__x64_sys_clock_*"] {
        let again = document(&folder, &["latency", "-i", "wakepath.rec", target]);
        assert_eq!(ends(&again["targets"][0])[..3], [120, 0, 0], "{again}");
    }
    let user = document(&folder, &["latency", "-i", "wakepath.rec", "counted"]);
    assert_eq!(ends(&user["targets"][0])[..3], [150, 0, 0], "{user}");
    // The longest call slept for 30 ms, and waited for a timer.
    let answer =
        document(&folder, &["path", "--call", "kernel:__x64_sys_clock_nanosleep", "--slowest", "20"]);
    assert!(answer.to_string().contains("timer"), "{answer}");
}

#[test]
fn calls_of_a_process_that_runs_already_and_of_its_children_are_counted() {
    let Some(folder) = kernel_place("kernel functions of a process are counted") else { return };
    let calls = workload(&folder, "calls");
    let line = format!("read go; {calls} threads=2 syscalls=1000 >own; exit 0");
    let mut shell = Command::new("sh");
    let mut shell = shell.args(["-c", &line]).current_dir(&folder).stdin(Stdio::piped()).spawn().expect("sh");
    let pid = shell.id().to_string();
    let mut counting = command(&folder, &["latency", "kernel:__x64_sys_getcpu", "--json", "-p", &pid]);
    let counting = counting.stdout(Stdio::piped()).spawn().expect("wakepath");
    // The kernel lists the functions with programs. Entries come last, and an emulated machine is slow.
    let probed = || {
        let list = std::fs::read_to_string("/sys/kernel/tracing/enabled_functions").unwrap_or_default();
        list.lines().any(|line| line.starts_with("__x64_sys_getcpu "))
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !probed() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(10));
    drop(shell.stdin.take());
    let output = counting.wait_with_output().expect("wakepath");
    shell.wait().expect("sh");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(ends(&found["targets"][0]), [2000, 0, 0, 0, 0], "{found}");
}

#[test]
fn what_cannot_be_probed_is_refused_with_its_reason() {
    let Some(folder) = kernel_place("kernel functions that cannot be probed are refused") else { return };
    for (target, expected) in [
        ("kernel:vfs_raed", "there is no `kernel:vfs_raed`; similar: `"),
        ("kernel:*", "functions; at most 63 can be counted: narrow the pattern"),
        ("kernel:__ep_eventpoll_poll", "the compiler inlined or changed it"),
        ("kernel:ext4_sync_file", "it belongs to the module `ext4`"),
        ("kernel:asm_exc_page_fault", "the kernel does not allow tracing it"),
    ] {
        for verb in [&["latency"][..], &["record", "--call"]] {
            let output = wakepath(&folder, &[verb, &[target, "-d", "1", "-a"]].concat());
            let (_, said) = texts(&output);
            assert!(!output.status.success() && said.contains(expected), "{target}: {said}");
        }
    }
}

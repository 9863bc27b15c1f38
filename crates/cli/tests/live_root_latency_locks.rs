//! Waits for locks, as `wakepath latency` counts them, compared with the waits that a program makes.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{WAKEPATH, place, wakepath, workload};

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value} is a number"))
}

#[test]
fn waits_for_locks_of_users_and_of_the_kernel_are_counted_one_by_one() {
    let Some(folder) = place("each wait for a lock is counted") else { return };
    let folder = folder.path();
    let locks = workload(folder, "locks");
    // A wait for a condition variable is a futex wait too, and none for a lock.
    let output = Command::new(*WAKEPATH)
        .args(["latency", "lock", "syscall:futex", "--by", "thread", "--json", "--"])
        .args([&locks, "user=20", "kernel=15", "signals=10"])
        .current_dir(folder)
        .output()
        .expect("wakepath");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    let (document, own): (Vec<&str>, Vec<&str>) = printed.lines().partition(|line| line.starts_with('{'));
    let document: Value = serde_json::from_str(document[0]).expect("JSON");
    let own: HashMap<_, u64> = own
        .iter()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, number)| (name, number.parse().expect("a number")))
        .collect();
    // The other threads may wait for locks of the kernel too: they have their memory in common.
    let waiter = |target: usize| {
        let groups = document["targets"][target]["groups"].as_array().expect("a list");
        let waiter = groups.iter().find(|group| group["comm"] == "waiter");
        waiter.unwrap_or_else(|| panic!("the waiter waited: {document:#}"))
    };
    for (target, name) in [(0, "user"), (1, "kernel")] {
        let (count, sum) = (number(&waiter(target)["count"]), number(&waiter(target)["sum"]));
        assert_eq!(count, own[name], "{name}: {document:#}");
        let own_ns = own[format!("{name}_ns").as_str()];
        // The lock is held for 2 ms after the waiter is blocked, and its own clock runs around the wait.
        assert!((2_000_000 * count..=own_ns).contains(&sum), "{name}: {sum} of {own_ns} ns");
    }
    let futexes = number(&waiter(2)["count"]);
    assert!(futexes >= own["user"] + own["signals"], "each of them is a futex call: {document:#}");
    let open = document["targets"].as_array().expect("a list").iter().take(2);
    assert!(open.clone().all(|target| target["open"] == 0), "{document:#}");
}

#[test]
fn what_is_no_function_of_the_kernel_and_no_lock_is_refused_with_what_is() {
    let Some(folder) = place("functions of the kernel are refused") else { return };
    let refused = |target: &str| {
        let output = wakepath(folder.path(), &["latency", target, "-d", "0.1", "-a"]);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (target, expected) in [
        ("kernel:vfs_raed", "there is no `kernel:vfs_raed`; similar: `"),
        ("kernel:vfs_raed", "`kernel:vfs_read`"),
        ("lock:spin", "there is no `lock:spin`; similar: `lock:user` and `lock:kernel`"),
    ] {
        let (code, said) = refused(target);
        assert_eq!(code, Some(2), "{target}: {said}");
        assert!(said.contains(expected), "{target}: {said}");
    }
    // `live_root_latency_kernel.rs` covers kernels that allow probes on their functions.
    let (code, said) = refused("kernel:vfs_read");
    if code != Some(0) {
        assert_eq!(code, Some(4), "{said}");
        for expected in
            ["`vfs_read` is a function of this kernel", "does not allow BPF programs", "syscall:NAME"]
        {
            assert!(said.contains(expected), "{said}");
        }
    }
}

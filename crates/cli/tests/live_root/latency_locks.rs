//! Lock waits counted by `wakepath latency`, compared with a program's own waits.

use wakepath_harness::live::{latency, list, number, place, run, texts, wakepath, workload};

#[test]
fn waits_for_locks_of_users_and_of_the_kernel_are_counted_one_by_one() {
    let Some(folder) = place("each wait for a lock is counted") else { return };
    let locks = workload(&folder, "locks");
    // A wait for a condition variable is a futex wait too, but no wait for a lock.
    let asked = ["lock", "syscall:futex", "--by", "thread"];
    let (targets, own) = latency(&folder, &asked, &[&locks, "user=20", "kernel=15", "signals=10"]);
    // The other threads may wait for kernel locks too: they share their memory.
    let waiter = |target: usize| {
        let waiter = list(&targets[target]["groups"]).iter().find(|group| group["comm"] == "waiter");
        waiter.unwrap_or_else(|| panic!("the waiter waited: {targets:#?}"))
    };
    for (target, name) in [(0, "user"), (1, "kernel")] {
        let (count, sum) = (number(&waiter(target)["count"]), number(&waiter(target)["sum"]));
        assert_eq!(count, own[name], "{name}: {targets:#?}");
        let own_ns = own[format!("{name}_ns").as_str()];
        // The lock is held for 2 ms after the waiter is blocked, and the waiter's own clock runs around the wait.
        assert!((2_000_000 * count..=own_ns).contains(&sum), "{name}: {sum} of {own_ns} ns");
    }
    let futexes = number(&waiter(2)["count"]);
    assert!(futexes >= own["user"] + own["signals"], "each of them is a futex call: {targets:#?}");
    assert!(targets[..2].iter().all(|target| target["open"] == 0), "{targets:#?}");
}

#[test]
fn what_is_no_function_of_the_kernel_and_no_lock_is_refused_with_what_is() {
    let Some(folder) = place("functions of the kernel are refused") else { return };
    for (target, expected) in [
        ("kernel:vfs_raed", "there is no `kernel:vfs_raed`; similar: `"),
        ("kernel:vfs_raed", "`kernel:vfs_read`"),
        ("lock:spin", "there is no `lock:spin`; similar: `lock:user` and `lock:kernel`"),
    ] {
        let (_, said) = run(&folder, &["latency", target, "-d", "0.1", "-a"], 2);
        assert!(said.contains(expected), "{target}: {said}");
    }
    // `live_root_kernel/latency_kernel.rs` covers kernels that allow probes on their functions.
    let answer = wakepath(&folder, &["latency", "kernel:vfs_read", "-d", "0.1", "-a"]);
    if answer.status.code() != Some(0) {
        let (_, said) = texts(&answer);
        assert_eq!(answer.status.code(), Some(4), "{said}");
        for expected in
            ["`vfs_read` is a function of this kernel", "does not allow BPF programs", "syscall:NAME"]
        {
            assert!(said.contains(expected), "{said}");
        }
    }
}

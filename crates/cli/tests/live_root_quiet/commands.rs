//! `wakepath record` for commands whose sleeps must end in time.

use std::time::Duration;

use wakepath_harness::live::{adds_up, contributed_ns, list, number, path, place_alone, record};

#[test]
fn a_sleeping_command_waited_for_a_timer() {
    let Some(folder) = place_alone("a sleep is told as a timer") else { return };
    record(&folder, &["--", "sleep", "0.3"], 0);
    let document = path(&folder);
    let window = adds_up(&document);
    assert!(window >= 300_000_000, "{window}");
    // A sleep of 300 ms ends within its slack of 50 µs; if the kernel leaves a wake-up unrecorded, the answer reports
    // it.
    let timer = contributed_ns(&document, "timer") + contributed_ns(&document, "unknown");
    assert!((299_000_000..301_000_000).contains(&timer), "{timer}");
}

/// Each recording learns the places of the current thread and its registers anew, from the threads running then.
#[test]
fn the_call_that_a_thread_waits_in_is_the_one_it_made() {
    let Some(folder) = place_alone("a wait is told with the call that was made") else { return };
    let mut timers = 0;
    for _ in 0..8 {
        // On an idle machine, a recording that learns then must not learn from the idle thread.
        std::thread::sleep(Duration::from_millis(300));
        let sleeps = "taskset -c 0 sleep 0.02; taskset -c 1 sleep 0.02; sleep 0.02";
        record(&folder, &["--", "sh", "-c", sleeps], 0);
        let document = path(&folder);
        timers += contributed_ns(&document, "timer");
        for one in list(&document["contributors"]) {
            assert!(one["kind"] != "timer" || one["call"] == "clock_nanosleep", "{one}");
        }
    }
    // With busy CPUs, the shell is still on its way to wait while its child sleeps; and a sleep whose end the kernel
    // left unrecorded is unknown.
    assert!(timers > 100_000_000, "five at least of 24 sleeps of 20 ms: {timers}");
}

#[test]
fn a_wait_for_a_child_is_what_the_child_did() {
    let Some(folder) = place_alone("a wait for a child resolves into it") else { return };
    record(&folder, &["--", "sh", "-c", "sleep 0.2; true"], 0);
    let document = path(&folder);
    adds_up(&document);
    let mut contributors = list(&document["contributors"]).iter();
    let sleep = contributors
        .find(|one| one["comm"] == "sleep" && (one["kind"] == "timer" || one["kind"] == "unknown"));
    let sleep = number(&sleep.expect("the child's sleep")["total_ns"]);
    assert!((190_000_000..210_000_000).contains(&sleep), "{sleep}");
}

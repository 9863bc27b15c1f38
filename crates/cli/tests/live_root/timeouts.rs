//! Waits that time out and continue, recorded live: lock waits are waits for the holder, waits in slices lead with what they were
//! for, and waits for possibly different events are not joined.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{
    adds_up, document, length, list, number, path, place, program, record, run, skip, workload,
};

/// The first screen's lines up to the empty line, joined.
fn headline(folder: &Path) -> String {
    let (screen, _) = run(folder, &["path"], 0);
    screen.split("\n\n").next().expect("a headline").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first contributor: its thread name, its call and its share of the window.
fn first(document: &Value) -> (String, String, f64) {
    let first = &document["contributors"][0];
    let text = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
    (text("comm"), text("call"), first["share"].as_f64().expect("a share"))
}

/// Whether no record is missing. Some kernels do not report all task switches, and a wait that lacks a switch is not
/// joined.
fn is_complete(document: &Value) -> bool {
    list(&document["losses"]).is_empty()
}

#[test]
fn a_lock_that_was_retried_is_a_wait_for_its_holder() {
    let Some(folder) = place("time-outs of a lock are a wait for its holder") else { return };
    let retry = workload(&folder, "retry");
    record(&folder, &["--", &retry, "--rounds", "1"], 0);
    let document = path(&folder);
    let window = adds_up(&document);
    let (comm, call, share) = first(&document);
    assert_eq!((comm.as_str(), call.as_str()), ("retry-holder", "clock_nanosleep"), "{document}");
    let joined = number(&document["joined"]["waits"]);
    if is_complete(&document) {
        assert!((17..=20).contains(&joined), "{joined} waits of 50 ms in 1 s");
        assert!(share > 0.9, "{share}");
    }
    let headline = headline(&folder);
    assert!(headline.contains(": mostly waiting in futex for retry-holder ("), "{headline}");
    assert!(headline.contains("), which was sleeping until a timer ("), "{headline}");
    assert!(headline.contains(", inferred)"), "{headline}");

    // Each wait of main is there, with its own time; the holder slept once.
    let waits = list(&document["waits"]).iter();
    let timed_out: Vec<&Value> = waits.filter(|wait| wait["timed_out"] == true).collect();
    assert_eq!(timed_out.len() as u64, joined);
    for wait in &timed_out {
        let told = [&wait["comm"], &wait["call"], &wait["rule"], &wait["ended_by"]["comm"]];
        assert_eq!(told, ["retry", "futex", "joined_timeouts", "retry-holder"], "{wait}");
        assert!(length(wait) < window / 5, "one time-out: {wait}");
    }
    let (screen, _) = run(&folder, &["path"], 0);
    assert!(screen.contains("1 wait in clock_nanosleep"), "{screen}");
    if is_complete(&document) {
        assert!(screen.contains("1 wait in clock_nanosleep (retry-holder)"), "{screen}");
    }

    let plain = wakepath_harness::live::document(&folder, &["path", "--as-timed-out"]);
    assert_eq!((plain["algorithm"].as_str(), number(&plain["joined"]["waits"])), (Some("active"), 0));
    assert_eq!(first(&plain).1, "futex", "{plain}");
}

/// A worker waits for jobs on a condition variable, at most 50 ms each time; a job comes after 1 s.
const CONDITION: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <time.h>
    #include <unistd.h>
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    static int jobs;
    static void *giver(void *unused)
    {
        pthread_setname_np(pthread_self(), "giver");
        usleep(1000000);
        pthread_mutex_lock(&mutex);
        jobs = 1;
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&changed);
        return unused;
    }
    int main(void)
    {
        pthread_t thread;
        pthread_create(&thread, 0, giver, 0);
        pthread_mutex_lock(&mutex);
        while (!jobs) {
            struct timespec end;
            clock_gettime(CLOCK_REALTIME, &end);
            long ns = end.tv_nsec + 50000000;
            end.tv_sec += ns / 1000000000;
            end.tv_nsec = ns % 1000000000;
            pthread_cond_timedwait(&changed, &mutex, &end);
        }
        pthread_join(thread, 0);
    }
"#;

/// Checks that the first reading has what the waits were for, and the line below the program's own time-outs.
fn waits_in_slices(folder: &Path, own: &str, call: &str, other: &str) {
    let document = path(folder);
    let window = adds_up(&document) as u64;
    // On a busy machine the program waits longer for a CPU, and without a switch a wait is not joined.
    if !is_complete(&document) || window > 1_500_000_000 {
        return;
    }
    assert_eq!((&document["joins"], &document["if_joined"]), (&"slices".into(), &Value::Null), "{document}");
    let slices = number(&document["if_not_joined"]["waits"]);
    assert!((15..=20).contains(&slices), "{slices} waits of 50 ms in 1 s");
    assert_eq!(document["contributors"][0]["comm"], other, "{document}");
    let own_ns: u64 = list(&document["if_not_joined"]["contributors"])
        .iter()
        .filter(|one| {
            (&one["comm"], &one["kind"], &one["call"]) == (&own.into(), &"timer".into(), &call.into())
        })
        .map(|one| number(&one["total_ns"]))
        .sum();
    assert!(own_ns > 700_000_000, "{own_ns} ns of its own time-outs: {document}");
    let headline = headline(folder);
    assert!(headline.contains(&format!(": mostly waiting in {call} for {other} (")), "{headline}");
    let below =
        format!(" or, if none of the {slices} waits that timed out went on: mostly waiting until a time-out");
    assert!(headline.contains(&below), "{headline}");
}

#[test]
fn time_outs_of_a_condition_variable_are_slices() {
    let Some(folder) = place("time-outs of a condition variable are slices of a wait") else { return };
    let condition = program(&folder, "condition", CONDITION, &["-pthread"]);
    record(&folder, &["--", &condition], 0);
    waits_in_slices(&folder, "condition", "futex", "giver");
}

#[test]
fn a_ticker_is_not_blamed_for_the_slices_that_it_ends() {
    let Some(folder) = place("a ticker that ends slices is not blamed") else { return };
    let ticks = "
    static void *ticker(void *unused)
    {
        pthread_setname_np(pthread_self(), \"ticker\");
        for (;;) {
            usleep(20000);
            pthread_cond_broadcast(&changed);
        }
        return unused;
    }
    int main(void)
    {
        pthread_t other;
        pthread_create(&other, 0, ticker, 0);";
    let source = CONDITION.replace("    int main(void)\n    {", ticks);
    let ticked = program(&folder, "ticked", &source, &["-pthread"]);
    record(&folder, &["--", &ticked], 0);
    let document = path(&folder);
    adds_up(&document);
    if !is_complete(&document) {
        return;
    }
    assert_eq!(document["joins"], "slices", "{document}");
    assert_eq!(document["contributors"][0]["comm"], "giver", "{document}");
    let ended = number(&document["if_not_joined"]["by_threads"]);
    assert!(ended >= 30, "{ended} of 50 ticks: {document}");
    assert_eq!(document["headline"]["other_reading"]["basis"], "ambiguous", "{document}");
    let headline = headline(&folder);
    assert!(headline.contains(": mostly waiting in futex for giver ("), "{headline}");
    assert!(headline.contains(" waits that ended early went on: mostly waiting for ticker"), "{headline}");
}

#[test]
fn an_event_loop_waits_in_slices_for_its_backend_unless_it_asks_only_then() {
    let Some(folder) = place("slices of epoll_wait are a wait for a backend") else { return };
    if !python("slices of epoll_wait are a wait for a backend") {
        return;
    }
    let code = "
import os, select, socket, sys, time
client, server = socket.socketpair()
if os.fork() == 0:
    open('/proc/self/comm', 'w').write('backend')
    server.recv(9)
    time.sleep(WORKS)
    server.send(b'answer')
    os._exit(0)
events = select.epoll()
events.register(client, select.EPOLLIN)
if SLEEPS:
    for _ in range(10):
        events.poll(0.1)
client.send(b'question')
while not events.poll(0.1):
    pass
";
    let first = |works: &str, sleeps: &str| {
        let code = code.replace("WORKS", works).replace("SLEEPS", sleeps);
        record(&folder, &["--", "python3", "-c", &code], 0);
        let document = path(&folder);
        adds_up(&document);
        is_complete(&document).then(|| (document["joins"].clone(), headline(&folder)))
    };
    if let Some((joins, headline)) = first("1", "False") {
        assert_eq!(joins, "slices", "{headline}");
        assert!(headline.contains(": mostly waiting in epoll_wait for backend ("), "{headline}");
    }
    // Ten time-outs, then a question, which the backend answers after three: that sleep is no part of the wait.
    if let Some((_, headline)) = first("0.35", "True") {
        assert!(headline.contains(": mostly waiting until a time-out: nothing came ("), "{headline}");
    }
}

/// Whether Python is installed; prints a reason if not.
fn python(would_show: &str) -> bool {
    let is_there =
        Command::new("python3").arg("-c").arg("import asyncio").status().is_ok_and(|it| it.success());
    if !is_there {
        skip("no python3", would_show);
    }
    is_there
}

#[test]
fn a_semaphore_looks_like_a_condition_variable_so_pythons_lock_is_waited_for_in_slices() {
    let Some(folder) = place("a lock that is a semaphore is waited for in slices") else { return };
    if !python("a lock that is a semaphore is waited for in slices") {
        return;
    }
    let code = "
import threading, time
lock = threading.Lock()
lock.acquire()
def hold():
    open('/proc/thread-self/comm', 'w').write('holder')
    time.sleep(1)
    lock.release()
threading.Thread(target=hold).start()
while not lock.acquire(timeout=0.05):
    pass
";
    record(&folder, &["--", "python3", "-c", code], 0);
    waits_in_slices(&folder, "python3", "futex", "holder");
}

#[test]
fn an_event_loops_timer_and_the_packet_after_it_are_two_waits() {
    let Some(folder) = place("an event loop's timer is not joined to the packet after it") else { return };
    if !python("an event loop's timer is not joined to the packet after it") {
        return;
    }
    let code = "
import asyncio, os, socket, threading, time
here, there = socket.socketpair()
def send():
    open('/proc/thread-self/comm', 'w').write('sender')
    time.sleep(0.8)
    there.send(b'x')
async def main():
    threading.Thread(target=send).start()
    await asyncio.sleep(0.5)
    here.setblocking(False)
    await asyncio.get_running_loop().sock_recv(here, 1)
asyncio.run(main())
";
    record(&folder, &["--", "python3", "-c", code], 0);
    for arguments in [&["path"][..], &["path", "--join-timeouts"]] {
        let document = document(&folder, arguments);
        assert_eq!(number(&document["joined"]["waits"]), 0, "{document}");
        assert!(document["if_joined"].is_null(), "{document}");
        let segments = list(&document["segments"]).iter();
        let timer =
            segments.filter(|one| one["call"] == "epoll_wait" && one["kind"] == "timer" && one["depth"] == 0);
        let slept: i64 = timer.map(length).sum();
        assert!((450_000_000..700_000_000).contains(&slept), "{slept} ns until the loop's timer");
    }
}

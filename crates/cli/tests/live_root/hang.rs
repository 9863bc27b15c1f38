//! A process that already hangs is recorded: its wait began before the recording.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{Beside, place, program, record, run};

use super::signals::DEADLOCKED;

/// Waits until all `threads` of a process sleep.
fn until_asleep(process: &Beside, threads: usize) {
    let folder = format!("/proc/{}/task", process.0.id());
    let asleep = || {
        let threads = std::fs::read_dir(&folder).expect("its threads");
        let stats = threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(") S ")).count()
    };
    let began = Instant::now();
    while asleep() < threads {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not hang");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The answer from `wakepath record -p` for a process.
fn asked(process: &Beside, folder: &Path) -> String {
    let pid = process.0.id().to_string();
    let (answer, _) = record(folder, &["-p", &pid, "-d", "300ms"], 0);
    // Lines are wrapped at the screen's width.
    answer.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_deadlock_from_before_the_recording_is_a_cycle() {
    let Some(folder) = place("a process that hangs already is told why") else { return };
    let program = program(&folder, "deadlock", DEADLOCKED, &["-pthread"]);
    let hanging = Beside(Command::new(program).spawn().expect("it starts"));
    until_asleep(&hanging, 2);
    let said = asked(&hanging, &folder);
    assert!(said.contains("deadlock: each thread waits for a lock that the next one owns"), "{said}");
    assert_eq!(said.matches("that deadlock (").count(), 2, "{said}");
}

#[test]
fn a_read_from_before_the_recording_names_its_file() {
    let Some(folder) = place("a process that waits for a pipe already is told which") else { return };
    let mut command = Command::new("cat");
    let mut waiting = Beside(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat"));
    // One byte passes, so that the process waits in the expected call.
    waiting.0.stdin.as_mut().expect("a pipe").write_all(b"x").unwrap();
    until_asleep(&waiting, 1);
    let pid = waiting.0.id().to_string();
    asked(&waiting, &folder);
    let (said, err) = run(&folder, &["path", "--tid", &pid], 0);
    assert!(said.contains("read on a pipe"), "{said}{err}");
}

/// Threads blocked in different ways: `waits` for the mutex that `holds` keeps while it sleeps, `semaphore` for a futex
/// without an owner, `accepts` for a connection.
const BLOCKED: &str = r#"
    #define _GNU_SOURCE
    #include <pthread.h>
    #include <semaphore.h>
    #include <sys/socket.h>
    #include <unistd.h>
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *holds(void *unused)
    {
        for (;;) {
            pthread_mutex_lock(&lock);
            usleep(50000);
            pthread_mutex_unlock(&lock);
            usleep(1000);
        }
        return unused;
    }
    static void *waits(void *unused)
    {
        for (;;) {
            pthread_mutex_lock(&lock);
            pthread_mutex_unlock(&lock);
            usleep(1000);
        }
        return unused;
    }
    static void *semaphore(void *unused)
    {
        sem_t never;
        sem_init(&never, 0, 0);
        sem_wait(&never);
        return unused;
    }
    static void *accepts(void *unused)
    {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        listen(s, 1);
        accept(s, 0, 0);
        return unused;
    }
    static void begin(void *(*what)(void *), const char *name)
    {
        pthread_t thread;
        pthread_create(&thread, 0, what, 0);
        pthread_setname_np(thread, name);
    }
    int main(void)
    {
        begin(holds, "holds");
        begin(waits, "waits");
        begin(semaphore, "semaphore");
        begin(accepts, "accepts");
        pause();
    }
"#;

#[test]
fn a_thread_that_waits_for_a_mutex_is_not_idle() {
    let Some(folder) = place("threads of a process are idle only where that is shown") else { return };
    let program = program(&folder, "blocked", BLOCKED, &["-pthread"]);
    let process = Beside(Command::new(program).spawn().expect("it starts"));
    until_asleep(&process, 5);
    let said = asked(&process, &folder);
    assert!(said.contains("sleeping: in a sleeping call") && !said.contains("for work at the end"), "{said}");
    let (document, err) = run(&folder, &["path", "--json"], 0);
    let document: Value = serde_json::from_str(&document).expect(&err);
    let threads = document["threads"].as_array().expect("threads");
    for (comm, key) in [
        ("waits", "waiting_ns"),
        ("holds", "sleeping_ns"),
        ("semaphore", "undecided_ns"),
        ("accepts", "idle_ns"),
        ("blocked", "undecided_ns"),
    ] {
        let thread = threads.iter().find(|thread| thread["comm"] == comm).expect(comm);
        let ns = |key: &str| thread[key].as_u64().expect(key);
        let others = ["waiting_ns", "sleeping_ns", "undecided_ns", "idle_ns"];
        let blocked: u64 = others.iter().map(|key| ns(key)).sum();
        assert!(ns(key) > blocked / 10 * 8 && blocked > 200_000_000, "{comm}: {thread}");
        assert!(key == "idle_ns" || ns("idle_ns") == 0, "{comm}: {thread}");
    }
}

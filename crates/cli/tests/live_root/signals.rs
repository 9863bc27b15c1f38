//! A signal that kills, stops or interrupts does not count as the awaited event: recorded live.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use wakepath_harness::live::{command, place, program, run, texts};

/// Two threads each wait forever for the other's mutex.
pub const DEADLOCKED: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
    static pthread_barrier_t both;
    static void *peer(void *unused)
    {
        pthread_mutex_lock(&b);
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&a);
        return unused;
    }
    int main(void)
    {
        pthread_t thread;
        pthread_barrier_init(&both, 0, 2);
        pthread_create(&thread, 0, peer, 0);
        pthread_mutex_lock(&a);
        pthread_barrier_wait(&both);
        write(1, "stuck\n", 6);
        pthread_mutex_lock(&b);
    }
"#;

/// A handled SIGALRM interrupts a read from an empty pipe after half a second.
const INTERRUPTED: &str = r#"
    #include <signal.h>
    #include <sys/time.h>
    #include <unistd.h>
    static void handler(int unused) { (void)unused; }
    int main(void)
    {
        struct sigaction action = { .sa_handler = handler };
        struct itimerval half = { .it_value.tv_usec = 500000 };
        int ends[2];
        char byte;
        sigaction(SIGALRM, &action, 0);
        pipe(ends);
        setitimer(ITIMER_REAL, &half, 0);
        return read(ends[0], &byte, 1) != -1;
    }
"#;

/// Waits forever: for a pipe or a socket, or in a sleep.
const SILENT: &str = r#"
    #include <sys/socket.h>
    #include <unistd.h>
    int main(int count, char **words)
    {
        int ends[2];
        char byte;
        if (words[1][0] == 'p')
            pipe(ends);
        else if (words[1][1] == 'o')
            socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        else
            sleep(60);
        return read(ends[0], &byte, 1) != count;
    }
"#;

/// `wakepath record` with a command in a separate process group, which gets SIGINT as a whole a second after the
/// command has reported that it is stuck.
fn interrupted_from_the_keyboard(folder: &Path, of: &str) -> Output {
    let mut record = command(folder, &["record", "--", of]);
    record.process_group(0).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut recording = record.spawn().expect("wakepath");
    let mut line = [0; 6];
    recording.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("a line of the command");
    std::thread::sleep(Duration::from_secs(1));
    let kill = format!("kill -INT -{}", recording.id());
    assert!(std::process::Command::new("sh").args(["-c", &kill]).status().expect("sh").success());
    recording.wait_with_output().expect("an end")
}

fn document(folder: &Path) -> Value {
    serde_json::from_str(&run(folder, &["path", "--json"], 0).0).expect("JSON")
}

/// Checks for a cycle of two whose waits this signal ended, after at least half a second.
fn check_cycle(document: &Value, signal: &str) {
    let cycle = document["deadlocks"][0].as_array().unwrap_or_else(|| panic!("{}", document["deadlocks"]));
    assert_eq!(cycle.len(), 2, "{cycle:?}");
    for wait in cycle.iter().chain([&document["killed"]]) {
        assert_eq!(wait["signal"]["name"], signal, "{wait}");
        let waited = wait["signal"]["at_ns"].as_i64().unwrap() - wait["since_ns"].as_i64().unwrap();
        assert!(waited > 500_000_000, "{wait}");
        assert_eq!(wait["lock"]["owner"]["pid"], wait["pid"], "{wait}");
    }
}

#[test]
fn a_deadlock_that_ctrl_c_ends_is_a_cycle_until_then() {
    let Some(folder) = place("Ctrl-C is not what a deadlocked program waited for") else { return };
    let deadlocked = program(&folder, "deadlocked", DEADLOCKED, &["-pthread"]);
    let (said, problems) = texts(&interrupted_from_the_keyboard(&folder, &deadlocked));
    let said = format!("{said}{problems}");
    assert!(said.starts_with("deadlocked was killed by SIGINT from "), "{said}");
    assert!(said.contains(" while waiting 1"), "{said}");
    assert!(said.contains("deadlock: each thread waits for a lock that the next one owns"), "{said}");
    check_cycle(&document(&folder), "SIGINT");
}

#[test]
fn a_deadlock_that_another_process_ends_is_a_cycle_until_then() {
    let Some(folder) = place("whoever kills a deadlocked program is not what that waited for") else {
        return;
    };
    let deadlocked = program(&folder, "deadlocked", DEADLOCKED, &["-pthread"]);
    let kill = format!("{deadlocked} & sleep 1; kill -KILL $!; wait $!");
    for (name, command, code) in [
        ("SIGTERM", ["timeout", "-s", "TERM", "1", &deadlocked].as_slice(), 124),
        ("SIGQUIT", &["timeout", "-s", "QUIT", "1", &deadlocked], 124),
        ("SIGKILL", &["timeout", "-s", "KILL", "1", &deadlocked], 137),
        ("SIGKILL", &["sh", "-c", &kill], 137),
    ] {
        let (said, problems) = run(&folder, &[&["record", "--"], command].concat(), code);
        let said = format!("{said}{problems}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&format!("was killed by {name}")), "{said}");
        check_cycle(&document(&folder), name);
    }
}

/// No data comes through any of these. `timeout` ends the program: no other process answers.
#[test]
fn what_a_killed_program_waited_for_is_named_and_no_answer_of_the_killer() {
    let Some(folder) = place("whoever kills a program does not answer what that waited for") else { return };
    let silent = program(&folder, "silent", SILENT, &[]);
    // With KILL, `timeout` kills itself right after, before the program runs and takes its signal.
    for (signal, code) in [("TERM", 124), ("QUIT", 124), ("KILL", 137)] {
        for (what, object) in
            [("pipe", "read on a pipe"), ("socket", "read on a socket"), ("sleep", "clock_nanosleep")]
        {
            let command = ["record", "--", "timeout", "-s", signal, "1", &silent, what];
            let (said, problems) = run(&folder, &command, code);
            let said = format!("{said}{problems}");
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            let (who, rest) =
                said.split_once(&format!(" was killed by SIG{signal} from timeout (")).expect(&said);
            assert!(who.contains("; silent ("), "{said}");
            let (_, waits) = rest.split_once(") while waiting ").expect(&said);
            let first = waits.split(';').next().unwrap_or_default();
            assert!(first.ends_with(&format!("in {object}")), "{said}");
            let killed = &document(&folder)["killed"];
            assert_eq!(killed["signal"]["name"], format!("SIG{signal}"), "{killed}");
            assert_eq!(killed["signal"]["sender"]["comm"], "timeout", "{killed}");
            let waited = killed["signal"]["at_ns"].as_i64().unwrap() - killed["since_ns"].as_i64().unwrap();
            assert!((500_000_000..1_100_000_000).contains(&waited), "{killed}");
        }
    }
}

#[test]
fn a_signal_that_a_handler_takes_is_named_where_it_cut_a_read_short() {
    let Some(folder) = place("a timer's signal is not what a read waited for") else { return };
    let interrupted = program(&folder, "interrupted", INTERRUPTED, &[]);
    let (said, problems) = run(&folder, &["record", "--", &interrupted], 0);
    let said = format!("{said}{problems}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("mostly waiting until SIGALRM from a timer cut the wait short"), "{said}");
    assert!(said.contains("1 wait in read on a pipe"), "{said}");
    let document = document(&folder);
    let cut = document["segments"].as_array().unwrap().iter().find(|it| it["cause"]["type"] == "signal");
    let cut = cut.expect("a wait that a signal cut short");
    let took = cut["to_ns"].as_i64().unwrap() - cut["from_ns"].as_i64().unwrap();
    assert!((450_000_000..550_000_000).contains(&took), "{cut}");
    assert_eq!(document["killed"], Value::Null);
}

#[test]
fn a_stopped_program_names_the_stop_and_who_let_it_go_on() {
    let Some(folder) = place("a stop is not a wait for the process that ends it") else { return };
    let stopped = "(kill -STOP $$; sleep 0.3; kill -CONT $$) & wait";
    let (said, problems) = run(&folder, &["record", "--", "sh", "-c", stopped], 0);
    let said = format!("{said}{problems}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("mostly stopped by a signal until SIGCONT from sh ("), "{said}");
    let document = document(&folder);
    let stops = document["segments"].as_array().unwrap().iter().filter(|it| it["kind"] == "stopped");
    let took: i64 = stops.map(|it| it["to_ns"].as_i64().unwrap() - it["from_ns"].as_i64().unwrap()).sum();
    assert!((280_000_000..340_000_000).contains(&took), "{took} ns");
}

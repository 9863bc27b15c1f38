//! Processes that wait for each other: a deadlock only where nothing but a signal could end it. Most circles are idle pairs.

use std::path::Path;
use std::process::Command;

use wakepath_harness::live::place;

use crate::far_ends::{asked, python};

/// Two processes with pipes both ways, `a` to the child and `b` from it; each has closed the other's ends.
const PAIR: &str = "import fcntl, os, select, signal, socket, threading, time
S, T = socket.socketpair(); a, A = os.pipe(); b, B = os.pipe()
if os.fork() == 0:
 os.close(A); os.close(b)
 CHILD
 os._exit(0)
os.close(a); os.close(B)
PARENT
";

/// The answer about the parent.
fn pair(folder: &Path, child: &str, parent: &str) -> String {
    let process = python(folder, &PAIR.replace("CHILD", child).replace("PARENT", parent));
    let said = asked(&process, folder);
    let parent = process.0.id().to_string();
    Command::new("pkill").args(["-KILL", "-P", &parent]).status().expect("pkill");
    said
}

#[test]
fn a_circle_that_nothing_but_a_signal_could_end_is_a_deadlock() {
    let Some(folder) = place("a deadlock is called that") else { return };
    let lock = |file: &str| format!("fcntl.flock(open('{file}', 'w'), fcntl.LOCK_EX)");
    // A variable keeps the file open.
    let flocks = |first: &str, second: &str| {
        format!("f = open('{first}', 'w'); fcntl.flock(f, fcntl.LOCK_EX); time.sleep(0.3); {}", lock(second))
    };
    let full = "os.write(A, bytes(1 << 20))";
    for (what, child, parent, ways) in [
        (
            "both read",
            "os.read(a, 1)",
            "os.read(b, 1)",
            &["in read on a pipe that python3 (", "which waits in read"][..],
        ),
        (
            "the child reads what its parent never writes",
            "os.read(a, 1)",
            "os.wait()",
            &["in wait4 for its child", "which waits in read"],
        ),
        (
            "the parent fills a pipe that the child does not read",
            "os.read(a, 0); os.write(B, bytes(1 << 20))",
            full,
            &["in write on a pipe", "which waits in write"],
        ),
        ("locks of flock", &flocks("x", "y"), &flocks("y", "x"), &["in flock", "which waits in flock"]),
    ] {
        let said = pair(&folder, child, parent);
        assert!(
            said.contains(": deadlock: ") && said.contains("nothing but a signal could end it"),
            "{what}: {said}"
        );
        assert!(ways.iter().all(|way| said.contains(way)), "{what}: {said}");
    }
    let alone = python(&folder, "import os\na, A = os.pipe()\nos.read(a, 1)");
    let said = asked(&alone, &folder);
    assert!(said.contains(": deadlock: "), "it alone could write: {said}");
}

#[test]
fn idle_pairs_are_no_deadlocks() {
    let Some(folder) = place("an idle pair is no deadlock") else { return };
    assert!(Command::new("mkfifo").arg(folder.join("f")).status().expect("mkfifo").success());
    const READ: &str = "os.read(a, 1)";
    const SLEEP: &str = "time.sleep(61)";
    const THREAD: &str = "threading.Thread(target=time.sleep, args=(61,), daemon=True).start()";
    const POLL: &str = "p = select.poll(); p.register(b, select.POLLIN)";
    const EPOLL: &str = "e = select.epoll(); e.register(b, select.EPOLLIN)";
    for (what, child, parent) in [
        ("a second writer", READ, "if os.fork() == 0: time.sleep(61)\nos.read(b, 1)"),
        ("a named pipe", "f = os.open('f', os.O_RDWR); os.read(f, 1)", "os.wait()"),
        ("a poll with a time-out", READ, &format!("{POLL}; p.poll(60000)")),
        (
            "a poll of another descriptor too",
            READ,
            &format!("{POLL}; p.register(T, select.POLLIN); p.poll()"),
        ),
        ("an epoll with a time-out", READ, &format!("{EPOLL}; e.poll(60)")),
        ("another thread", READ, &format!("{THREAD}; os.read(b, 1)")),
        ("another thread of the child", &format!("{THREAD}; os.read(a, 1)"), "os.wait()"),
        ("a child that sleeps", SLEEP, "os.wait()"),
        ("a second child", READ, "if os.fork() == 0: time.sleep(61)\nos.wait()"),
        ("a pair of sockets", "S.recv(1)", "T.recv(1)"),
        ("a signal's handler that writes", "signal.pause()", "os.read(b, 1)"),
    ] {
        let said = pair(&folder, child, parent);
        assert!(!said.contains("deadlock"), "{what}: {said}");
    }
}

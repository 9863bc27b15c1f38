//! A process hangs already: the answer names the processes able to end its wait, by pipes, connections, locks and children.
//! Each cause has a twin in which another process could end the wait too, or in which nobody has an end.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wakepath_harness::live::{Beside, place, record};

/// A script for the shell, in the folder; its process sleeps soon.
pub fn shell(folder: &Path, script: &str) -> Beside {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    asleep(command.spawn().expect("a shell"))
}

pub fn python(folder: &Path, text: &str) -> Beside {
    let mut command = Command::new("python3");
    asleep(command.args(["-c", text]).current_dir(folder).stdout(Stdio::null()).spawn().expect("python3"))
}

/// Waits until the process has slept for a while: its wait is the expected one then.
pub fn asleep(child: Child) -> Beside {
    let (began, mut since) = (Instant::now(), Instant::now());
    let stat = format!("/proc/{}/stat", child.id());
    while since.elapsed() < Duration::from_millis(600) {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not hang");
        std::thread::sleep(Duration::from_millis(20));
        if !std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") S ")) {
            since = Instant::now();
        }
    }
    Beside(child)
}

/// The answer for a process, in one line.
pub fn asked(process: &Beside, folder: &Path) -> String {
    let (answer, _) = record(folder, &["-p", &process.0.id().to_string(), "-d", "300ms"], 0);
    answer.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_read_of_a_fifo_names_each_process_that_could_write_and_no_other() {
    let Some(folder) = place("a hanging read names the writers of its pipe") else { return };
    assert!(Command::new("mkfifo").arg(folder.join("f")).status().expect("mkfifo").success());
    let _writer = shell(&folder, "exec 3<>f; exec sleep 61.7");
    let reader = shell(&folder, "exec cat f");
    let said = asked(&reader, &folder);
    assert!(said.contains("in read on a pipe that sleep (") && said.contains(") writes"), "{said}");
    assert!(said.contains("s in clock_nanosleep") && !said.contains("wait for each other"), "{said}");
    // The twin: a second process could write as well.
    let _second = shell(&folder, "exec 3>f; exec sleep 61.8");
    let said = asked(&reader, &folder);
    assert!(said.contains("on a pipe that sleep (") && said.contains(") and sleep ("), "{said}");
}

#[test]
fn a_full_pipe_between_a_parent_and_the_child_that_it_waits_for_is_a_circle_unless_another_reads() {
    let Some(folder) = place("a pipe that nobody empties is a circle") else { return };
    const PARENT: &str = "import subprocess\nchild = subprocess.Popen(['cat', '/dev/zero'], stdout=subprocess.PIPE)\nMORE\nchild.wait()\n";
    let parent = python(&folder, &PARENT.replace("MORE", ""));
    let said = asked(&parent, &folder);
    assert!(said.contains("in wait4 for its child cat ("), "{said}");
    assert!(said.contains("that python3 (") && said.contains("deadlock"), "{said}");
    let parent =
        python(&folder, &PARENT.replace("MORE", "subprocess.Popen(['sleep', '61.9'], stdin=child.stdout)"));
    let said = asked(&parent, &folder);
    assert!(!said.contains("deadlock") && !said.contains("each other"), "another process could read: {said}");
}

#[test]
fn a_connection_within_the_host_names_the_process_at_its_other_end() {
    let Some(folder) = place("a hanging request names the server's process") else { return };
    const SERVER: &str = "import socket, time\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen(5)\n\
        open('port', 'w').write(str(s.getsockname()[1]))\nACCEPT\ntime.sleep(61)\n";
    const CLIENT: &str =
        "import socket\ns = socket.create_connection(('127.0.0.1', int(open('port').read())))\ns.recv(9)\n";
    for (accept, expected) in
        [("c, _ = s.accept()", "whose other end python3 ("), ("", "on a connection that python3 (")]
    {
        std::fs::remove_file(folder.join("port")).ok();
        let server = Beside(
            Command::new("python3")
                .args(["-c", &SERVER.replace("ACCEPT", accept)])
                .current_dir(&*folder)
                .spawn()
                .expect("python3"),
        );
        let began = Instant::now();
        while std::fs::read_to_string(folder.join("port")).map_or(true, |port| port.is_empty()) {
            assert!(began.elapsed() < Duration::from_secs(20), "no server");
            std::thread::sleep(Duration::from_millis(20));
        }
        let said = asked(&python(&folder, CLIENT), &folder);
        let server = format!("{expected}{})", server.0.id());
        assert!(said.contains(&server), "{server}: {said}");
    }
}

/// Two processes at the ends of a unix socket; `DO` is what the parent does with `a`, the child with `b`.
const PAIR: &str = "import os, select, socket, time\na, b = socket.socketpair(FAMILY)\nif os.fork() == 0:\n a.close()\n CHILD; os._exit(0)\nb.close()\nPARENT\n";

#[test]
fn a_unix_socket_names_the_process_at_its_other_end_and_an_idle_pair_is_no_deadlock() {
    let Some(folder) = place("a hanging unix socket names the process at its other end") else { return };
    let pair = |family: &str, child: &str, parent: &str| {
        let text = PAIR.replace("FAMILY", family).replace("CHILD", child).replace("PARENT", parent);
        let process = python(&folder, &text);
        let children = format!("/proc/{0}/task/{0}/children", process.0.id());
        let child = std::fs::read_to_string(children).expect("its child").trim().to_owned();
        let said = asked(&process, &folder);
        Command::new("kill").arg(&child).status().expect("kill");
        (said, child)
    };
    let stream = "socket.AF_UNIX, socket.SOCK_STREAM";
    let full = "[a.send(bytes(99999)) for i in range(99)]";
    let epoll = "e = select.epoll()\ne.register(a, select.EPOLLIN)\ne.poll()";
    for (family, child, parent, call) in [
        (stream, "time.sleep(61)", "a.recv(1)", "recvfrom"),
        (stream, "time.sleep(61)", full, "sendto"),
        ("socket.AF_UNIX, socket.SOCK_DGRAM", "time.sleep(61)", "a.recv(1)", "recvfrom"),
        (stream, "time.sleep(61)", epoll, "epoll_wait"),
        (stream, "time.sleep(61)", "select.select([a], [], [])", "pselect6"),
    ] {
        let (said, child) = pair(family, child, parent);
        let expected = format!("whose other end python3 ({child}) has");
        assert!(said.contains(&format!("in {call}")) && said.contains(&expected), "{call}: {said}");
        assert!(said.contains("s in clock_nanosleep"), "what that waits for: {said}");
        assert!(!said.contains("deadlock") && !said.contains("wait for each other"), "{said}");
    }
    // Both are idle: each may be woken by other descriptors, or is healthy.
    let (said, child) = pair(stream, "b.recv(1)", "a.recv(1)");
    assert!(said.contains(&format!("whose other end python3 ({child}) has")), "{said}");
    assert!(!said.contains("deadlock"), "{said}");
    // A second process has the other end: nobody alone could end the wait.
    let (said, _) = pair(stream, "os.fork(); time.sleep(61)", "a.recv(1)");
    assert!(said.contains(") and python3 (") && !said.contains("in clock_nanosleep"), "{said}");
    // An event loop with a time-out is idle, and a set with something else may be woken by that.
    let (said, _) =
        pair(stream, "time.sleep(61)", "e = select.epoll()\ne.register(a, select.EPOLLIN)\ne.poll(30)");
    assert!(!said.contains("whose other end"), "{said}");
    let more = "r = os.eventfd(0)\ne = select.epoll()\ne.register(a, select.EPOLLIN)\ne.register(r, select.EPOLLIN)\ne.poll()";
    let (said, _) = pair(stream, "time.sleep(61)", more);
    assert!(said.contains("has and something whose other end is not known"), "{said}");
    assert!(!said.contains("in clock_nanosleep"), "{said}");
}

#[test]
fn a_connection_to_a_unix_socket_that_nobody_accepted_names_the_listener() {
    let Some(folder) = place("a unix connection without accept names the listener") else { return };
    let listener = python(
        &folder,
        "import socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind('s')\ns.listen(5)\ntime.sleep(61)\n",
    );
    let said = asked(
        &python(&folder, "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('s')\ns.recv(9)\n"),
        &folder,
    );
    let expected = format!("on a connection that python3 ({}) has not accepted", listener.0.id());
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn a_lock_of_a_file_names_its_holder_and_its_child_and_a_free_lock_nobody() {
    let Some(folder) = place("a hanging flock names the holder") else { return };
    let holder = shell(&folder, "exec flock l sleep 61.5");
    let said = asked(&shell(&folder, "exec flock l true"), &folder);
    let expected = format!("in flock of l whose lock flock ({}) and sleep (", holder.0.id());
    assert!(said.contains(&expected) && said.contains(" have "), "{said}");
    // The first waits for the second.
    assert!(said.contains("s in clock_nanosleep") && !said.contains("each other"), "{said}");
    // The twin waits for its own child alone.
    let said = asked(&shell(&folder, "exec flock other sleep 61.6"), &folder);
    assert!(!said.contains("whose lock") && said.contains("for its child sleep ("), "{said}");
    // The process that took the lock lives, but only its child has the file now, and sleeps elsewhere.
    const TAKER: &str = "import fcntl, os, time\nf = open('m', 'w')\nfcntl.flock(f, fcntl.LOCK_EX)\n\
        if os.fork() == 0: time.sleep(61)\nf.close()\ntime.sleep(61)\n";
    let taker = python(&folder, TAKER);
    let said = asked(&shell(&folder, "exec flock m true"), &folder);
    assert!(said.contains("in flock of m whose lock python3 (") && said.contains(") has "), "{said}");
    assert!(!said.contains(&format!("python3 ({})", taker.0.id())), "it closed the file: {said}");
}

#[test]
fn a_fifo_that_is_opened_names_it_and_whose_end_nobody_opens() {
    let Some(folder) = place("a hanging open of a FIFO says that nobody has its other end") else { return };
    for name in ["orders.fifo", "answers.fifo"] {
        assert!(Command::new("mkfifo").arg(folder.join(name)).status().expect("mkfifo").success());
    }
    let writer = shell(&folder, "exec cat /dev/null > orders.fifo");
    let said = asked(&writer, &folder);
    assert!(said.contains("in openat of orders.fifo that no process reads"), "{said}");
    let reader = shell(&folder, "exec cat < $PWD/answers.fifo");
    let said = asked(&reader, &folder);
    assert!(said.contains("in openat of answers.fifo that no process writes"), "{said}");
    // The twin: both ends are open, and it waits for bytes.
    let _other = shell(&folder, "exec 3>answers.fifo; exec sleep 61.6");
    std::thread::sleep(Duration::from_millis(100));
    let said = asked(&reader, &folder);
    assert!(said.contains("in read on a pipe that sleep (") && !said.contains("no process"), "{said}");
}

//! Failed calls on the first screen and in the document.

use std::cell::RefCell;

use wakepath_event::AttemptObject;

use super::*;
use crate::sample::{path_of, polled};
use crate::screen::Layout;
use crate::text::{Source, headline, path};

/// The headline's reason, and the line under the row.
fn told(failed: &str) -> [String; 2] {
    let found = RefCell::new(Default::default());
    path_of(&polled(failed), 10, |answer| {
        let wide = path(answer, Source::Read(""), Layout::PLAIN).replace("\n                 ", " ");
        let row = wide.lines().find(|line| line.contains("sleeping until a timer, 3 waits")).expect("a row");
        let (_, under) = row.split_once("clock_nanosleep").expect("its call");
        let sentence = headline(answer).into_plain();
        let reason = sentence.split_once(": mostly ").and_then(|(_, reason)| reason.split_once(" (88%"));
        found.replace([reason.expect("a reason").0.to_owned(), under.trim().to_owned()]);
    });
    found.into_inner()
}

#[test]
fn a_failed_call_has_its_object_its_error_and_a_lock_s_holder() {
    let tries = |call: &str| {
        [format!("sleeping between tries: {call} 3 times"), format!("before 3 of 3 sleeps: {call}")]
    };
    for (failed, expected) in [
        ("21 2 path=/run/ready", tries("access(\"/run/ready\") failed with ENOENT")),
        ("257 13 end=/very/long", tries("openat(\"…/very/long\") failed with EACCES")),
        ("42 111 address=127.0.0.1:18009", tries("connect to 127.0.0.1:18009 failed with ECONNREFUSED")),
        ("42 2 unix=/run/db.sock", tries("connect to unix /run/db.sock failed with ENOENT")),
        ("62 3 process=4711", tries("kill(4711, 0) failed with ESRCH")),
        ("62 0 process=4711", tries("kill(4711, 0) found the process alive")),
        ("61 0 process=4711 op=1", tries("wait4(4711) found no ended child")),
        ("0 11 file=fifo", tries("read(fifo) failed with EAGAIN")),
        ("72 22 op=6 file=lock", tries("fcntl(lock, F_SETLK) failed with EINVAL")),
        ("72 22 op=9 file=lock", tries("fcntl(lock) failed with EINVAL")),
        ("39 900", tries("getpid failed with error 900")),
        (
            "72 11 op=6 file=lock-frontend holder=python3",
            [
                String::from(
                    "polling for the lock lock-frontend (fcntl F_SETLK: EAGAIN), which python3 (812) held",
                ),
                String::from(
                    "before 3 of 3 sleeps: fcntl(lock-frontend, F_SETLK) failed with EAGAIN; python3 (812) had the lock",
                ),
            ],
        ),
        (
            "73 11 op=6 file=.cargo-lock",
            [
                String::from("polling for the lock .cargo-lock (flock: EAGAIN)"),
                String::from("before 3 of 3 sleeps: flock(.cargo-lock) failed with EAGAIN"),
            ],
        ),
        (
            "72 13 op=37 file=lock",
            [
                String::from("polling for the lock lock (fcntl F_OFD_SETLK: EACCES)"),
                String::from("before 3 of 3 sleeps: fcntl(lock, F_OFD_SETLK) failed with EACCES"),
            ],
        ),
        (
            "21 2 path=a tries=500",
            [
                String::from("sleeping between tries: access(\"a\") failed with ENOENT 1,500 times"),
                String::from("before 3 of 3 sleeps: access(\"a\") failed with ENOENT, 1,500 times"),
            ],
        ),
    ] {
        assert_eq!(told(failed), expected, "{failed}");
    }
}

#[test]
fn a_path_cannot_control_the_terminal() {
    let evil = AttemptObject::Path(b"\x1b[2Ja\nb\xff"[..].into());
    assert_eq!(object(&evil).as_deref(), Some(r#""\x1b[2Ja\nb\xff""#));
    let name = AttemptObject::Unix(b"\0\x1b[2J"[..].into());
    assert_eq!(object(&name).as_deref(), Some(r"unix @\x1b[2J"));
    assert_eq!(object(&AttemptObject::Unreadable), None);
    let file = AttemptObject::File("\u{9b}2J".as_bytes().into());
    assert_eq!(object(&file).as_deref(), Some(r"\u{9b}2J"));
}

#[test]
fn a_failure_before_too_few_sleeps_has_no_line_and_no_headline() {
    let rare = polled("21 2 path=/run/ready").replacen("120 c0 app failed 21 2 path=/run/ready", "", 1);
    let last = "340 c0 app switch idle blocked call=230:0
        440 c0 idle/timer waking app
        440 c0 idle switch app
        450 c0 app stopped";
    path_of(&rare.replace("340 c0 app stopped", last), 10, |answer| {
        let screen = path(answer, Source::Read(""), Layout::PLAIN);
        assert!(screen.contains("sleeping until a timer, 4 waits") && !screen.contains("access"), "{screen}");
    });
}

#[test]
fn calls_that_fail_again_and_again_stand_under_running_time() {
    let spin = "thread app tid=10\n0 c0 idle started\n0 c0 idle switch app
        100000000 c0 app spin 3 9 from=10000000 count=1200000
        200000000 c0 app stopped";
    path_of(spin, 10, |answer| {
        let screen = path(answer, Source::Read(""), Layout::PLAIN);
        assert!(screen.contains("1,200,000 calls of close failed with EBADF"), "{screen}");
    });
}

#[test]
fn digits_stand_in_groups_of_three() {
    for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
        assert_eq!(grouped(count), text);
    }
}

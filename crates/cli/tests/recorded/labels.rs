//! Names in recordings written by the tests: a recording after `--call`, a thread without a name, the threads in a
//! headline.

use wakepath_event::{EventKind, Mark, NameSpace, Tid};
use wakepath_harness::made::{Made, made};

/// Two calls of a function.
const CALLS: &str = "
thread worker tid=10
thread backend tid=20
    0 c0 idle    started
    0 c0 idle    switch worker
    0 c1 idle    switch backend
 1000 c0 worker  switch idle blocked call=202:0x1000
 5000 c1 backend waking worker
 5000 c0 idle    switch worker
 6000 c0 worker  called 0 from=950
20000 c0 worker  switch idle blocked call=35:0
";

fn calls_of(target: &str) -> Made {
    made(CALLS, &[EventKind::Name(NameSpace::Target, 0, target.as_bytes().into())])
}

#[test]
fn a_recording_after_call_is_read_unless_a_function_has_its_name() {
    let made = calls_of("./app:handle");
    let copy = |name: &str| {
        let mut copying = std::process::Command::new("cp");
        copying.arg("-r").args([made.recording(), made.folder().join(name)]);
        assert!(copying.status().expect("cp").success());
    };
    copy("web.rec");
    let asked = |arguments: &[&str]| {
        let (code, out, err) = made.run([&["path"], arguments].concat());
        (code, out.lines().next().map(str::to_owned).unwrap_or_default(), err)
    };
    let (_, expected, _) = asked(&["web.rec", "--call"]);
    assert!(expected.contains("handle"), "{expected}");
    // The default recording is there, and has no such function.
    assert_eq!(asked(&["--call", "web.rec"]), (0, expected.clone(), String::new()));
    // Another recording is given: the word is either the target or the recording.
    let (code, _, err) = asked(&["wakepath.rec", "--call", "web.rec"]);
    assert_eq!(code, 2);
    assert_eq!(
        err,
        "error: `web.rec` after --call is no function whose calls were recorded; it is a recording\n\
         hint: --call=FUNCTION names the function; to read web.rec alone: wakepath path web.rec --call\n"
    );
    // A function and a recording with the same name.
    copy("handle");
    assert_eq!(asked(&["--call", "handle"]), (0, expected.clone(), String::new()));
    assert_eq!(asked(&["wakepath.rec", "--call", "handle"]), (0, expected.clone(), String::new()));
    // A word that is neither stays an unrecorded function.
    let (code, _, err) = asked(&["--call", "nothing"]);
    assert_eq!(code, 2);
    assert!(err.contains("no calls of `nothing` were recorded, but of `./app:handle`"), "{err}");
    // Without a default recording.
    std::fs::rename(made.recording(), made.folder().join("moved")).expect("a name");
    assert_eq!(asked(&["--call", "web.rec"]), (0, expected, String::new()));
    let (code, _, err) = asked(&["--call", "nothing"]);
    assert!(code == 3 && err.contains("cannot read ./wakepath.rec"), "{code} {err}");
}

/// The recording ended before a record with the command's name was written.
const NAMELESS: &str = "
   0 c0 idle started
   0 c0 idle switch #9
1000 c0 #9 switch idle blocked call=0:3
5000 c1 #77 waking #9
5000 c0 idle switch #9
6000 c0 #9 stopped
";

#[test]
fn a_command_without_a_recorded_name_is_no_blank() {
    let command = EventKind::Mark(Mark::Command { tgid: Tid(9), words: b"./it\0--now".as_slice().into() });
    let (code, out, err) = made(NAMELESS, &[command]).run(["path"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("the command took "), "{out}");
    assert!(out.contains("running a thread without a name"), "{out}");
    assert!(!out.contains("  running\n") && !out.contains("running ,"), "{out}");
}

/// A main thread waits for a worker in its process, which runs, then for a child's child, which sleeps.
fn headline(worker: &str, of: &str) -> String {
    let trace = format!(
        "
        thread checkout tid=10
        thread {worker} tid=11 {of}
           0 c0 idle started
           0 c0 idle switch checkout
           0 c1 idle switch {worker}
        2000 c0 checkout switch idle blocked call=202:0x1000
        9000 c1 {worker} waking checkout
        9001 c0 idle switch checkout
        9001 c1 {worker} switch idle blocked call=0:3
        10000 c0 checkout stopped
        "
    );
    let (code, out, err) = made(&trace, &[]).run(["path", "--tid", "10"]);
    assert_eq!(code, 0, "{err}");
    out.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn the_headline_says_that_the_asked_thread_waited_where_another_one_ran() {
    let took = |what: &str| format!("checkout (10) took 10.0 µs: mostly waiting for {what} (70%, measured)");
    assert_eq!(headline("inventory", "tgid=10"), took("inventory, which was running"));
    assert_eq!(headline("gzip", "parent=10"), took("gzip (11), which was running"));
}

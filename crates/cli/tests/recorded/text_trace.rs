//! Text of other tracers, read like wakepath's own recordings.

use wakepath_harness::live::{document, list, run};

/// Thread 7 wakes 8 on the other CPU, and waits until 8 wakes it.
const MEETING: &str = "\
          <idle>-0       [000] d..2.   100.000100: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=here next_pid=7 next_prio=120
            here-7       [000] d..3.   100.000200: sched_waking: comm=there pid=8 prio=120 target_cpu=001
          <idle>-0       [001] d..2.   100.000210: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=there next_pid=8 next_prio=120
            here-7       [000] d..2.   100.000300: sched_switch: prev_comm=here prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
           there-8       [001] d..3.   100.000800: sched_waking: comm=here pid=7 prio=120 target_cpu=000
          <idle>-0       [000] d..2.   100.000810: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=here next_pid=7 next_prio=120
           there-8       [001] d..2.   100.000900: sched_switch: prev_comm=there prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
            here-7       [000] d..2.   100.001000: sched_switch: prev_comm=here prev_pid=7 prev_prio=120 prev_state=X ==> next_comm=swapper/0 next_pid=0 next_prio=120
";

#[test]
fn a_path_through_text_leads_to_the_thread_that_ended_the_wait_and_has_no_date() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("trace.txt"), MEETING).expect("room");
    let path = document(folder.path(), &["path", "trace.txt", "--tid", "7"]);
    assert_eq!(path["clock"]["name"], "unknown");
    let is_there = list(&path["segments"]).iter().any(|one| {
        (&one["from_ns"], &one["to_ns"], &one["kind"], &one["tid"])
            == (&200_000.into(), &700_000.into(), &"running".into(), &8.into())
    });
    assert!(is_there, "{path}");
    let codes: Vec<_> = list(&path["problems"]).iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, ["rounded_stamps"]);
    let (said, _) = run(folder.path(), &["info", "trace.txt"], 0);
    assert!(said.contains("ftrace or trace-cmd, as text") && !said.contains("1970"), "{said}");
    assert!(said.contains("host        its name is not known, its kernel neither\n"), "{said}");
    assert!(said.contains("clock       unknown\n"), "{said}");
    run(folder.path(), &["latency", "-i", "trace.txt", "runqueue"], 0);
}

#[test]
fn a_hostile_name_controls_no_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("trace.txt"), MEETING.replace("there", "\x1b]0;x\x07\u{202e}"))
        .expect("room");
    let (said, _) = run(folder.path(), &["path", "trace.txt", "--tid", "7"], 0);
    assert!(!said.contains(['\x1b', '\x07', '\u{202e}']) && said.contains("\\x1b"), "{said}");
}

#[test]
fn packed_text_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("trace.txt.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]).expect("room");
    let (_, said) = run(folder.path(), &["path", "trace.txt.gz"], 3);
    assert!(said.contains("unpacked"), "{said}");
}

//! A thread's identity, process and call at a time.

use wakepath_event::{EventKind, NameSpace};

use super::*;
use crate::testing::{event, read, thread, trace};

#[test]
fn workers_of_one_kind_have_one_name() {
    for (name, family) in [
        ("kworker/u8:4", "kworker"),
        ("kworker/0:1H", "kworker"),
        ("ksoftirqd/1", "ksoftirqd"),
        ("jbd2/sda1-8", "jbd2/sda1-8"),
        ("kswapd0", "kswapd0"),
        ("a/", "a/"),
    ] {
        let comm = |name: &str| Comm::new(name.as_bytes());
        assert_eq!(worker_family(comm(name)), comm(family), "{name}");
    }
}

#[test]
fn threads_of_a_pool_have_one_name_but_a_number_without_a_separator_belongs_to_it() {
    for (name, family) in [
        ("GC Thread#0", "GC Thread#"),
        ("worker-12", "worker-"),
        ("pool-1-thread-1", "pool-1-thread-"),
        ("my_thread_7", "my_thread_"),
        ("Thread 3", "Thread "),
        ("rayon:5", "rayon:"),
        ("cpu/1", "cpu/"),
        ("worker-", "worker-"),
        ("python3", "python3"),
        ("h2", "h2"),
        ("-1", "-1"),
        ("7-1", "7-1"),
        ("12", "12"),
        ("", ""),
    ] {
        let comm = |name: &str| Comm::new(name.as_bytes());
        assert_eq!(pool_family(comm(name)), comm(family), "{name}");
    }
}

#[test]
fn a_grandchild_descends_and_a_circle_of_reused_ids_ends() {
    let tree = [(2, 1), (3, 2), (8, 9), (9, 8)];
    let recorded = read(&tree.map(|(tgid, parent)| event(1, 0, 0, thread(tgid, tgid, parent, "x"))));
    let at = Stamp::from_ns(5);
    assert!(recorded.descends(Tid(3), Tid(1), at) && recorded.descends(Tid(3), Tid(3), at));
    assert!(!recorded.descends(Tid(1), Tid(3), at) && !recorded.descends(Tid(8), Tid(1), at));
}

#[test]
fn a_reused_id_means_the_process_of_that_time() {
    let recorded = trace("thread first tid=7 at=10\n20 c0 idle started\nthread other tid=8 at=30", &[]);
    let name = |tid, at| recorded.process_comm(Tid(tid), Stamp::from_ns(at));
    assert_eq!(name(7, 5), Some(Comm::new(b"first")), "nearest where it is not there yet");
    assert_eq!(name(9, 5), None);
}

#[test]
fn a_pid_that_is_used_again_is_the_process_that_was_born_last_until_then() {
    let recorded = trace(
        "thread asked tid=10
         thread other tid=20
         thread old tid=12 parent=10
         0 c0 idle started
         0 c0 idle switch old
         0 c1 idle switch other
         100 c0 old exit
         110 c0 old switch idle dead
         200 c1 other fork new tid=12 parent=20
         300 c1 other stopped",
        &[],
    );
    let &[old, new] = recorded.with_tid(Tid(12)) else { panic!("two threads had the number") };
    let birth = recorded.graph.thread(new).first.ns();
    for (at, leader, name, parent) in [
        (0, old, &b"old"[..], 10),
        (100, old, b"old", 10),
        // Between the two lives, the earlier is the last known.
        (birth - 1, old, b"old", 10),
        (birth, new, b"new", 20),
        (999, new, b"new", 20),
    ] {
        let at = Stamp::from_ns(at);
        assert_eq!(recorded.leader(Tid(12), at), Some(leader), "{}", at.ns());
        assert_eq!(recorded.process_comm(Tid(12), at), Some(Comm::new(name)), "{}", at.ns());
        let parents = [10, 20].map(|ancestor| recorded.descends(Tid(12), Tid(ancestor), at));
        assert_eq!(parents, [parent == 10, parent == 20], "{}", at.ns());
    }
}

#[test]
fn a_reused_tid_is_the_last_thread_that_had_it_at_that_time() {
    const REUSED: &str = "
        thread A tid=10
        thread old tid=12
        0 c0 idle started
        0 c0 idle switch old
        0 c1 idle switch A
        100 c0 old exit
        110 c0 old switch idle dead
        200 c1 A fork new tid=12
        210 c1 A waking new newborn
        220 c0 idle switch new
        300 c0 new stopped
    ";
    let recorded = trace(REUSED, &[]);
    let &[old, new] = recorded.with_tid(Tid(12)) else { panic!("two threads had the number") };
    for (from, to, expected) in [
        (0, 50, old),
        (110, 199, old),
        (105, 250, new),
        (300, 400, new),
        // Neither lived then.
        (150, 180, new),
    ] {
        let found = recorded.thread_between(Tid(12), Stamp::from_ns(from), Stamp::from_ns(to));
        assert_eq!(found, Some(expected), "{from} to {to}");
    }
    assert_eq!(recorded.thread_between(Tid(99), Stamp::MIN, Stamp::from_ns(300)), None);
}

#[test]
fn a_thread_that_executes_a_program_leads_its_process_from_then_on() {
    let recorded = trace(
        "thread leader tid=10
         thread worker tid=11 tgid=10
         0 c0 idle started
         0 c0 idle switch leader
         0 c1 idle switch worker
         100 c0 leader exit
         160 c0 leader switch idle dead
         200 c1 leader exec other from=worker
         300 c1 leader stopped",
        &[],
    );
    let [leader, worker] = [10, 11].map(|tid| recorded.with_tid(Tid(tid))[0]);
    let of = |at| recorded.leader(Tid(10), Stamp::from_ns(at));
    assert_eq!([50, 199, 200].map(of), [Some(leader), Some(leader), Some(worker)]);
}

#[test]
fn a_thread_has_the_name_and_the_cgroups_of_that_time_and_its_own_start() {
    let moved = |at, cgroup| {
        let (cgroup, cpu_cgroup) = (CgroupId(cgroup), CgroupId(cgroup + 1));
        event(at, 0, 7, EventKind::Move { tid: Tid(8), tgid: Tid(7), whole: false, cgroup, cpu_cgroup })
    };
    let text = "thread app tid=7
        thread worker tid=8 tgid=7 ns=2/1 start=5
        thread kworker/0:1 tid=9 kernel
        0 c0 idle switch worker
        50 c0 worker rename worker later
        90 c0 worker switch #10
        99 c0 #10 switch idle";
    let recorded = trace(text, &[moved(20, 100), moved(60, 200)]);
    let thread = |tid, at| recorded.thread_at(recorded.with_tid(Tid(tid))[0], Stamp::from_ns(at));
    let worker = |comm: &str, cgroup, cpu_cgroup| ThreadInfo {
        tid: Tid(8),
        tgid: Some(Tid(7)),
        ns_tgid: Some(Tid(1)),
        start: Some(Stamp::from_ns(5)),
        kernel: false,
        comm: Comm::new(comm.as_bytes()),
        script: None,
        cgroup: CgroupId(cgroup),
        cpu_cgroup: CgroupId(cpu_cgroup),
    };
    let first = recorded.graph.thread(recorded.with_tid(Tid(8))[0]).cgroups[0];
    assert_eq!(thread(8, 19), worker("worker", first.1.0, first.2.0));
    assert_eq!(thread(8, 20), worker("worker", 100, 101));
    assert_eq!(thread(8, 59), worker("later", 100, 101));
    assert_eq!(thread(8, 60), worker("later", 200, 201));
    assert!(thread(9, 50).kernel);
    // Nothing introduced this thread.
    assert_eq!(thread(10, 95), ThreadInfo { tid: Tid(10), ..ThreadInfo::default() });
}

#[test]
fn a_process_that_went_on_as_another_thread_is_that_thread_behind_the_end_of_the_first() {
    let recorded = trace(
        "thread leader tid=10
         thread worker tid=11 tgid=10
         0 c0 idle started
         0 c0 idle switch leader
         0 c1 idle switch worker
         100 c0 leader exit
         160 c0 leader switch idle dead
         200 c1 leader exec other from=worker
         300 c1 leader stopped",
        &[],
    );
    let leader = recorded.with_tid(Tid(10))[0];
    let of = |at| recorded.thread_at(leader, Stamp::from_ns(at)).comm;
    assert_eq!([160, 161, 250].map(of), ["leader", "worker", "other"].map(|comm| Comm::new(comm.as_bytes())));
}

/// Two threads: the first waits for the second, and the second for a pipe.
const READS: &str = "thread own tid=7
    thread helper tid=8
    0 c0 idle started
    0 c1 helper file 5 pipe
    0 c1 own file 5 socket
    0 c1 idle switch helper
    0 c0 idle switch own
    20 c0 own switch idle blocked call=0:5
    30 c1 helper switch idle blocked call=0:5
    60 c1 idle/timer waking helper
    61 c1 idle switch helper
    80 c1 helper waking own
    81 c0 idle switch own
    100 c0 own switch idle
    101 c0 own stopped";

#[test]
fn a_waits_call_is_about_the_descriptor_of_its_own_thread() {
    use wakepath_critical_path::{Window, active};
    let recorded = trace(READS, &[]);
    let thread = recorded.with_tid(Tid(7))[0];
    let window = Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(100) };
    let path = active(&recorded.graph, window);
    let call = |object| CallName { number: 0, object: Some(object) };
    let waits: Vec<_> = path.waits.iter().filter_map(|wait| recorded.wait_call(wait)).collect();
    assert_eq!(waits, [call(crate::Object::Socket(None))]);
    let segments = path.segments.iter().filter_map(|segment| recorded.segment_call(segment));
    let segments: Vec<_> = segments.collect();
    assert_eq!(segments, [call(crate::Object::Pipe)]);
}

#[test]
fn all_parts_of_a_wait_are_about_the_descriptor_that_ended_it() {
    use wakepath_critical_path::{Window, active};
    // The hypervisor stopped the idle CPU before the timer was due; the descriptor is recorded at the end. Before, its number
    // had another meaning.
    const BEGIN: u64 = 1_000_000;
    let text = format!(
        "thread A tid=7
         0 c0 idle started
         0 c0 A file 5 pipe
         0 c0 idle switch A
         {BEGIN} c0 A switch idle blocked call=232:4
         9000000 c0 idle stolen 4000000
         9000001 c0 A file 5 [timerfd]
         9000002 c0 idle/timer descriptor A 5
         9000002 c0 idle/timer waking A
         9000005 c0 idle switch A
         9500000 c0 A stopped"
    );
    let recorded = trace(&text, &[]);
    let thread = recorded.with_tid(Tid(7))[0];
    let window = Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(9_500_000) };
    let path = active(&recorded.graph, window);
    let of_wait = path.segments.iter().filter(|segment| segment.call.is_some());
    let told: Vec<_> = of_wait
        .map(|segment| {
            let object = recorded.segment_call(segment).and_then(|call| call.object);
            (segment.kind.name(), segment.to.since(segment.from), object)
        })
        .collect();
    let timer = || Some(crate::Object::Anonymous("[timerfd]".into()));
    let expected = [("timer", 4_000_000, timer()), ("stolen", 4_000_000, timer()), ("timer", 2, timer())];
    assert_eq!(told, expected);
}

#[test]
fn a_process_without_a_name_has_none() {
    let recorded = read(&[event(1, 0, 7, EventKind::Current), event(1, 0, 0, thread(8, 8, 1, "app"))]);
    let name = |tid| recorded.process_comm(Tid(tid), Stamp::from_ns(5));
    assert_eq!([name(7), name(8), name(9)], [None, Some(Comm::new(b"app")), None]);
}

#[test]
fn between_an_execs_new_name_and_its_script_a_process_has_no_script() {
    let script =
        |at, name: &str| event(at, 0, 0, EventKind::Name(NameSpace::Script, 12, name.as_bytes().into()));
    let recorded = trace(
        "thread sh tid=12 parent=10
         0 c0 idle started
         0 c0 idle switch sh
         100 c0 sh rename sh sleep
         200 c0 sh rename sh awk
         300 c0 sh stopped",
        &[script(0, "mon.sh"), script(110, ""), script(210, "a.awk")],
    );
    let script = |at| {
        let thread = recorded.thread_at(recorded.with_tid(Tid(12))[0], Stamp::from_ns(at));
        thread.script.map(|script| String::from_utf8_lossy(script.bytes()).into_owned())
    };
    let found = [99, 105, 150, 205, 250].map(script);
    assert_eq!(found.each_ref().map(Option::as_deref), [Some("mon.sh"), None, None, None, Some("a.awk")]);
}

#[test]
fn a_thread_with_its_processs_name_has_the_script_of_that_process_and_of_its_life() {
    let script = |at, process: u32, name: &str| {
        event(at, 0, 0, EventKind::Name(NameSpace::Script, process.into(), name.as_bytes().into()))
    };
    let recorded = trace(
        "thread python3 tid=12 parent=10
         thread other tid=20
         0 c0 idle started
         0 c0 idle switch python3
         0 c1 idle switch other
         10 c0 python3 fork twin tid=13 tgid=12
         10 c0 python3 fork named tid=14 tgid=12
         100 c0 python3 exit
         110 c0 python3 switch idle dead
         200 c1 other fork new tid=12 parent=20
         300 c1 other stopped",
        &[
            script(0, 12, "h.py"),
            event(11, 0, 12, EventKind::Rename { tid: Tid(13), comm: Comm::new(b"python3") }),
            script(201, 12, "db.py"),
        ],
    );
    let script = |tid: u32, life: usize, at| {
        let thread = recorded.thread_at(recorded.with_tid(Tid(tid))[life], Stamp::from_ns(at));
        thread.script.map(|script| String::from_utf8_lossy(script.bytes()).into_owned())
    };
    for (tid, life, at, expected) in [
        (12, 0, 50, Some("h.py")),
        (12, 0, 300, Some("h.py")),
        (12, 1, 300, Some("db.py")),
        (13, 0, 50, Some("h.py")),
        (14, 0, 50, None),
        (20, 0, 300, None),
    ] {
        assert_eq!(script(tid, life, at).as_deref(), expected, "{tid} at {at}");
    }
}

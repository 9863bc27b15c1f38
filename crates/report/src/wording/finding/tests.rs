//! The words for rows, their parts and their causes.

use wakepath_critical_path::Cause;
use wakepath_event::{CgroupId, Comm, Context, FlowId, Tid};
use wakepath_findings::testing::{Story, checkout};
use wakepath_findings::{Code, EndKey, Sum, Waits};
use wakepath_loaded::{Host, UnitLimit};
use wakepath_wait_graph::ThreadIndex;

use super::*;

/// The threads in the story, by number.
const CHECKOUT: ThreadIndex = ThreadIndex(0);
const JOURNAL: ThreadIndex = ThreadIndex(1);
const POSTGRES: ThreadIndex = ThreadIndex(2);
const STRESS: ThreadIndex = ThreadIndex(3);

fn comm(name: &str) -> Comm {
    Comm::new(name.as_bytes())
}

#[test]
fn another_process_has_its_number_or_how_many_there_are_and_its_unit_unless_that_is_the_own_one() {
    let story = checkout();
    let words = |name: &str, processes: &[u32], threads: &[ThreadIndex]| {
        let mut of = Row::default();
        of.processes.extend(processes.iter().copied().map(Tid));
        of.threads.extend(threads);
        row(&story.evidence(), &RowKey::Process(comm(name), None), &of).1
    };
    for (name, processes, threads, expected) in [
        ("postgres", &[912][..], &[POSTGRES][..], "postgres (912) in postgresql.service"),
        ("cc1", &[1, 2], &[STRESS], "cc1 (2 processes)"),
        ("", &[912], &[STRESS], "process 912"),
        ("", &[1, 2, 3], &[STRESS], "3 processes without a name"),
        // Nothing says to which process a thread belongs.
        ("", &[], &[STRESS], "thread 555 of an unknown process"),
        ("", &[], &[STRESS, POSTGRES], "2 threads of unknown processes in postgresql.service"),
        ("stress", &[], &[STRESS], "stress (thread 555 of an unknown process)"),
        ("stress", &[], &[STRESS, CHECKOUT], "stress (2 threads of unknown processes)"),
        // The own unit says nothing new; a kernel thread is in none.
        ("checkout", &[4711], &[CHECKOUT], "checkout (4711)"),
        ("postgres", &[912], &[JOURNAL, POSTGRES], "postgres (912) in postgresql.service"),
    ] {
        assert_eq!(words(name, processes, threads), format!("waiting for {expected}"));
    }
}

#[test]
fn a_process_on_another_machine_is_said_to_be_there() {
    let mut story = checkout();
    story.recorded.others = vec![Host { name: "db1".into(), ..Host::default() }];
    let evidence = story.evidence();
    let other = Some(wakepath_event::HostIndex(1));
    let mut of = Row::default();
    of.processes.insert(Tid(912));
    of.threads.insert(STRESS);
    let process = row(&evidence, &RowKey::Process(comm("postgres"), other), &of).1;
    assert_eq!(process, "waiting for postgres (912) on db1");
    let named = |name: &str, kernel, host| {
        let name = ThreadName { comm: comm(name), kernel, host };
        thread_key(&evidence, &ThreadKey::Named(name))
    };
    assert_eq!(named("postgres", false, other), "postgres on db1");
    assert_eq!(named("postgres", false, None), "postgres");
    assert_eq!(named("kworker", true, other), "kernel thread kworker on db1");
    assert_eq!(named("", false, None), "a thread without a name");
    assert_eq!(thread_key(&evidence, &ThreadKey::One(STRESS)), "stress (555)");
    assert_eq!(node_thread(&evidence, Some(&ThreadKey::One(STRESS))), "stress (555)");
    assert_eq!(node_thread(&evidence, None), "a packet in flight");
}

#[test]
fn waits_that_timed_out_name_the_object_with_most_of_their_time_and_count_the_others() {
    let story = checkout();
    let words = |expected, objects: &[Option<Object>]| {
        let mut of = Row::default();
        for (object, ns) in objects.iter().zip([300, 200, 100]) {
            let call = CallName { number: 7, object: object.clone() };
            of.calls.insert(call, Waits { count: 1, ns });
        }
        row(&story.evidence(), &RowKey::TimedOut(expected), &of).1
    };
    let (orders, pipe) = (Some(Object::File("orders.db".into())), Some(Object::Pipe));
    let timer = Some(Object::Anonymous("[timerfd]".into()));
    for (expected, objects, sentence) in [
        (Expected::Input, &[pipe.clone()][..], "waiting for a pipe until a time-out: nothing came"),
        (
            Expected::Room,
            &[pipe.clone(), orders.clone()],
            "waiting for a pipe and 1 other until a time-out: no room to send",
        ),
        (
            Expected::Answer,
            &[orders.clone(), pipe.clone(), timer.clone()],
            "waiting for orders.db and 2 others until a time-out: no answer came",
        ),
        // The kernel's own objects have no name for a reader.
        (Expected::Input, &[timer, pipe.clone()], "waiting until a time-out: nothing came"),
        (Expected::Input, &[None, pipe.clone()], "waiting until a time-out: nothing came"),
        // Which event did not come is not known.
        (Expected::Event, &[pipe], "waiting until a time-out"),
    ] {
        assert_eq!(words(expected, objects), sentence);
    }
}

#[test]
fn the_responsible_cause_has_a_code_and_a_name_and_the_thread_itself_has_neither() {
    let story = checkout();
    let evidence = story.evidence();
    let disk = |device, queued| Responsible::Disk { device, queued };
    let signal = SignalCause {
        number: 14,
        effect: SignalEffect::GoesOn,
        sender: wakepath_critical_path::SignalSender::Timer,
    };
    // A kernel thread sends the signal for Ctrl-C at a terminal.
    let typed =
        SignalCause { number: 2, sender: wakepath_critical_path::SignalSender::Thread(JOURNAL), ..signal };
    for (cause, code, name) in [
        (Responsible::Itself, None, None),
        (Responsible::Competitor(STRESS), Some("competitor"), Some("stress (555)")),
        (Responsible::IdleCpu, Some("idle_cpu"), Some("idle CPU")),
        (Responsible::Timer, Some("timer"), Some("timer")),
        (disk(Some(8 << 20), false), Some("block_request"), Some("sda")),
        (disk(Some(8 << 20), true), Some("block_request"), Some("queue of sda")),
        (disk(None, false), Some("block_request"), Some("a disk")),
        (disk(None, true), Some("block_request"), Some("queue of a disk")),
        (
            Responsible::IoLimit { cgroup: CgroupId(7), device: 8 << 20, reads: false },
            Some("io_limit"),
            Some("a cgroup"),
        ),
        (Responsible::Flow(Some(FlowId(1))), Some("packet"), Some("tcp 10.0.0.2:40000")),
        (Responsible::Flow(Some(FlowId(2))), Some("packet"), None),
        (Responsible::Flow(None), Some("packet"), None),
        (
            Responsible::Interrupt { context: Context::Device, irq: Some(9) },
            Some("interrupt"),
            Some("interrupt 9"),
        ),
        (
            Responsible::Lock { address: 0x2000, kernel: true, owner: None },
            Some("lock"),
            Some("kernel lock 0x2000"),
        ),
        (Responsible::Signal(signal), Some("signal"), Some("SIGALRM from a timer")),
        (Responsible::Signal(typed), Some("signal"), Some("SIGINT from the kernel")),
        (Responsible::StillWaiting, Some("still_waiting"), Some("still waiting")),
    ] {
        assert_eq!(responsible(&evidence, cause), (code, name.map(String::from)), "{cause:?}");
    }
}

#[test]
fn the_cause_blamed_for_an_activity_has_a_code() {
    let story = checkout();
    let evidence = story.evidence();
    let name = ThreadName { comm: comm("stress"), kernel: false, host: None };
    let limit = UnitLimit { unit: wakepath_loaded::Unit::Cgroup("batch".into()), limit: None };
    let end = Endpoint { protocol: 6, address: "10.0.0.3:80".parse().expect("an address") };
    for (kind, blamed, code, words) in [
        (SegmentKind::Running, Blamed::Threads(name), "competitor", "running: stress"),
        (SegmentKind::Runnable, Blamed::Threads(name), "competitor", "waiting for a CPU that stress had"),
        (
            SegmentKind::Throttled,
            Blamed::CpuLimit(limit.clone()),
            "cpu_limit",
            "not allowed to run: CPU limit of batch",
        ),
        (SegmentKind::Lock, Blamed::CpuLimit(limit), "cpu_limit", "waiting for a lock: batch"),
        (
            SegmentKind::BlockDevice,
            Blamed::KernelThread(comm("kworker")),
            "kernel_thread",
            "waiting for kernel thread kworker",
        ),
        (SegmentKind::Network, Blamed::Sender(end), "packet", "waiting for the network: tcp 10.0.0.3:80"),
        (
            SegmentKind::Timer,
            Blamed::Cause(Responsible::IdleCpu),
            "idle_cpu",
            "waiting for a timer: idle CPU",
        ),
    ] {
        assert_eq!(blamed_code(&evidence, &blamed), Some(code));
        assert_eq!(activity(&evidence, &Activity { kind, blamed }), words);
    }
    assert_eq!(blamed_code(&evidence, &Activity::plain(SegmentKind::Running).blamed), None);
}

#[test]
fn a_part_of_a_row_says_what_the_row_does_not() {
    let story = checkout();
    let evidence = story.evidence();
    let of_cause = |kind, cause| PartKey::Activity(Activity { kind, blamed: Blamed::Cause(cause) });
    let disk = |queued| of_cause(SegmentKind::BlockDevice, Responsible::Disk { device: None, queued });
    let name = ThreadName { comm: comm("stress"), kernel: false, host: None };
    let competitor =
        PartKey::Activity(Activity { kind: SegmentKind::Runnable, blamed: Blamed::Threads(name) });
    let lock = Responsible::Lock { address: 0x2000, kernel: false, owner: None };
    let stopped = of_cause(SegmentKind::Stopped, Responsible::StillWaiting);
    let postgres = RowKey::Process(comm("postgres"), None);
    let sync = CallName { number: 75, object: Some(Object::File("pg_wal".into())) };
    for (of, key, words) in [
        (&RowKey::Disk(None, DiskUse::Transfer), disk(true), "in its queue"),
        (&RowKey::Disk(None, DiskUse::Transfer), disk(false), "in the device"),
        (
            &RowKey::Disk(None, DiskUse::Transfer),
            of_cause(SegmentKind::BlockDevice, Responsible::Itself),
            "waiting for a disk",
        ),
        (&postgres, disk(true), "waiting for a disk"),
        (&RowKey::Cpu, competitor.clone(), "stress"),
        (&RowKey::Cpu, of_cause(SegmentKind::Runnable, Responsible::IdleCpu), "idle"),
        (&RowKey::Cpu, of_cause(SegmentKind::Runnable, Responsible::Itself), "not known"),
        (&postgres, competitor, "waiting for a CPU"),
        (&RowKey::Lock, of_cause(SegmentKind::Lock, lock), "for futex 0x2000"),
        (&RowKey::Lock, of_cause(SegmentKind::Lock, Responsible::Itself), "for a lock"),
        (&postgres, of_cause(SegmentKind::Lock, lock), "waiting for a lock"),
        (&postgres, stopped, "stopped by a signal, still at the end of the window"),
        (&postgres, of_cause(SegmentKind::Running, Responsible::Itself), "running"),
        (&postgres, PartKey::KernelThreads, "in kernel threads"),
        (&postgres, PartKey::Call(sync), "in fdatasync of pg_wal"),
    ] {
        assert_eq!(part(&evidence, of, &key), words, "{of:?}");
    }
}

#[test]
fn a_wait_for_a_cpu_says_where_own_threads_or_processes_had_it() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"app", 7);
    let pool: Vec<_> = (8..12).map(|tid| story.thread_of(7, tid, 1, b"pool", 7)).collect();
    let children: Vec<_> = (20..22).map(|tid| story.thread(tid, 7, b"child", 7)).collect();
    let helper = story.thread_of(20, 23, 7, b"helper", 7);
    story.then(10, own, None, SegmentKind::Running, Cause::None);
    let story = story.finish();
    let words = |ns, threads: &[ThreadIndex]| {
        let behind = (ns, threads.iter().copied().collect());
        let of = Row { total_ns: 100, ..Row::default() };
        let of = match threads.iter().all(|thread| pool.contains(thread)) {
            true => Row { behind_own: behind, ..of },
            false => Row { behind_others: behind, ..of },
        };
        row(&story.evidence(), &RowKey::Cpu, &of)
    };
    let had = |who: &str| ("cpu", format!("waiting for a CPU that {who} had"));
    assert_eq!(words(50, &pool), ("cpu", String::from("waiting for a CPU")));
    assert_eq!(words(51, &pool[..1]), had("another thread of its own"));
    assert_eq!(words(51, &pool), had("4 threads of its own"));
    assert_eq!(words(51, &children[..1]), had("child (20)"));
    assert_eq!(words(51, &[children[0], helper]), had("child (20)"));
    assert_eq!(words(51, &children), had("2 processes of its own"));
}

#[test]
fn a_leaf_is_an_activity_and_the_call_in_which_it_was() {
    let story = checkout();
    let call = Some(CallName { number: 75, object: None });
    let words = |call| {
        let (activity, total, code) =
            (Activity::plain(SegmentKind::Running), Sum::default(), Code::default());
        leaf(&story.evidence(), &Leaf { activity, call, total, code })
    };
    assert_eq!([words(None), words(call)], ["running", "running, in fdatasync"]);
}

/// A part with the first thing to name.
fn a_part(blames: Blames) -> LargestPart {
    let certainty = Certainty::Measured;
    LargestPart { row: 0, also: None, ns: 5, by_others: false, is_most: true, certainty, blames }
}

#[test]
fn a_disk_is_blamed_with_the_calls_that_flush_unless_other_waits_for_it_count_too() {
    let story = checkout();
    let mut row = Row::default();
    for (number, name, ns) in [(74, "a", 3), (75, "b", 5), (74, "c", 4), (162, "d", 1)] {
        let name = CallName { number, object: Some(Object::File(name.into())) };
        row.calls.insert(name, wakepath_findings::Waits { count: 1, ns });
    }
    let words = |use_of, row: &Row, also| {
        let part = LargestPart { also, ..a_part(Blames::Key) };
        blamed(&story.evidence(), &RowKey::Disk(Some(8 << 20), use_of), row, &part)
    };
    let (flush, transfer) = (DiskUse::Flush, DiskUse::Transfer);
    assert_eq!(words(flush, &row, None), "waiting in fsync, fdatasync and 1 more for disk sda");
    assert_eq!(words(flush, &row, Some(1)), "waiting for disk sda");
    assert_eq!(words(transfer, &row, None), "waiting for disk sda");
    assert_eq!(words(flush, &Row::default(), None), "waiting for disk sda");
}

#[test]
fn many_threads_that_were_waited_for_are_named_by_the_first_two() {
    let story = checkout();
    let described = |names: &[&str], processes: &[u32], threads, main: Option<u32>, in_turn| {
        let of = Doers {
            names: names.iter().map(|name| comm(name)).collect(),
            processes: processes.iter().copied().map(Tid).collect(),
            threads,
            main: main.map(Tid),
            in_turn,
        };
        blamed(&story.evidence(), &RowKey::Caller, &Row::default(), &a_part(Blames::Doers(of)))
    };
    let words =
        |names: &[&str], processes: &[u32], threads| described(names, processes, threads, None, false);
    let [cc1, three] = [&["cc1"][..], &["checkout"]];
    for (names, main, in_turn, expected) in [
        (cc1, None, true, "cc1 (3 processes one after another), which were"),
        (cc1, Some(78), false, "cc1 (78) and 2 other processes, which were"),
        (three, Some(78), true, "3 other processes of its name, which were"),
    ] {
        assert_eq!(
            described(names, &[77, 78, 79], 3, main, in_turn),
            format!("waiting for {expected} running")
        );
    }
    assert_eq!(
        described(cc1, &[77, 78], 2, Some(77), false),
        "waiting for cc1 (77) and 1 other process, which were running"
    );
    for (names, processes, threads, expected) in [
        (&["indexer"][..], &[4711][..], 1, "indexer, which was"),
        (&["indexer"], &[77], 1, "indexer (77), which was"),
        (&["indexer"], &[4711], 2, "indexer (2 threads), which were"),
        (&["indexer"], &[77, 78], 2, "indexer (2 processes), which were"),
        (&["a", "b"], &[4711], 2, "a and b, which were"),
        (&["a", "b", "c", "d"], &[4711], 4, "a, b and 2 more, which were"),
        (&[], &[4711], 3, "other threads, which were"),
        (&["checkout"], &[4711], 1, "another of its threads, which was"),
        (&["checkout"], &[4711], 3, "3 of its other threads, which were"),
        (&["checkout"], &[77], 1, "another process of its name, which was"),
        (&["checkout"], &[77, 78], 2, "2 other processes of its name, which were"),
    ] {
        assert_eq!(words(names, processes, threads), format!("waiting for {expected} running"));
    }
}

#[test]
fn the_wait_in_which_a_window_ended_and_an_awaited_thread_are_named_in_place_of_the_row() {
    let story = checkout();
    let words = |blames| blamed(&story.evidence(), &RowKey::Timer, &Row::default(), &a_part(blames));
    assert_eq!(words(Blames::Key), "sleeping until a timer");
    assert_eq!(words(Blames::LastWait), "this wait");
    let awaited = |call| Blames::Awaited(Awaited { thread: STRESS, call, ns: 5 });
    assert_eq!(words(awaited(None)), "waiting for stress (555), which was sleeping until a timer");
    let futex = Some(CallName { number: Call::FUTEX, object: None });
    assert_eq!(words(awaited(futex)), "waiting in futex for stress (555), which was sleeping until a timer");
}

#[test]
fn a_causes_part_says_who_had_the_cpu_and_which_timer_a_call_slept_for() {
    let story = checkout();
    let words = |of: &RowKey, kind, blamed, number: Option<u32>| {
        let mut part = CallCausePart::default();
        part.end = EndKey { activity: Some(Activity { kind, blamed }), call: number, thread: None };
        end(&story.evidence(), of, &part)
    };
    let stress = || Blamed::Threads(ThreadName { comm: comm("stress"), kernel: false, host: None });
    let timer = || Blamed::Cause(Responsible::Timer);
    let other = RowKey::Process(comm("postgres"), None);
    let (runnable, kind) = (SegmentKind::Runnable, SegmentKind::Timer);
    let (nanosleep, poll) = (Some(35), Some(7));
    for (of, kind, blamed, call, expected) in [
        // The row says that a CPU was waited for.
        (&RowKey::Cpu, runnable, stress(), None, "that stress had"),
        (&RowKey::Cpu, runnable, Blamed::Cause(Responsible::IdleCpu), None, "while its CPU was idle"),
        (&other, runnable, stress(), None, "waiting for a CPU that stress had"),
        (&other, kind, timer(), nanosleep, "sleeping until a timer"),
        (&other, kind, timer(), Some(230), "sleeping until a timer"),
        // Another call waits for more than its time-out.
        (&other, kind, timer(), poll, "waiting for a timer"),
        (&other, kind, timer(), None, "waiting for a timer"),
    ] {
        assert_eq!(words(of, kind, blamed, call), expected, "{of:?} {call:?}");
    }
    // Behind it stand the call, and a thread that the row does not name.
    let mut part = CallCausePart::default();
    part.end.thread = Some(comm("stress"));
    part.call = Some(CallName { number: 75, object: None });
    assert_eq!(end(&story.evidence(), &other, &part), "in fdatasync (stress)");
}

#[test]
fn a_timer_of_the_kernels_own_expires_and_another_object_is_made_ready() {
    let story = checkout();
    let words = |name: &str| {
        let object = Some(Object::Anonymous(name.into()));
        row(&story.evidence(), &RowKey::TimerReady(object), &Row::default()).1
    };
    assert_eq!(words("[timerfd]"), "waiting until a timerfd expired");
    assert_eq!(words("[eventfd]"), "waiting for [eventfd], which a timer made ready");
}

//! The rows, and the causes of calls, for a story with nearly every kind of time.

use std::fmt::Write;

use expect_test::expect;
use wakepath_critical_path::{Cause, SegmentKind, Via};
use wakepath_event::{Context, FlowId, Softirq, WaitEnd};
use wakepath_symbols::Found;
use wakepath_wait_graph::{ThreadIndex, TimerPurpose};

use super::{Row, RowKey, rows, rows_of_call};
use crate::causes::{causes, first_cause};
use crate::testing::{FUTEX, FinishedStory, Story, call, disk};
use crate::{Code, PerGroup, merged_tree};

const POLL: u32 = 7;
const SENDTO: u32 = 44;
const READ: u32 = 0;
const FDATASYNC: u32 = 74;
const NANOSLEEP: u32 = 35;

/// Own threads, kernel threads, a database with two threads, and a competitor. Each time is a number of its own.
fn story() -> FinishedStory {
    use SegmentKind::{BlockDevice, Network, Runnable, Running, Throttled, Timer};
    let mut story = Story::default();
    let own = story.thread(7, 1, b"app", 7);
    let helper = story.thread(8, 7, b"app", 7);
    let db = story.thread(20, 1, b"db", 20);
    let db_worker = story.thread_of(20, 21, 1, b"db-worker", 20);
    let worker = story.thread(80, 2, b"kworker/0:1", 0);
    let journal = story.thread(81, 2, b"jbd2/sda1-8", 0);
    let stress = story.thread(30, 1, b"stress", 0);
    story.file(7, 5, 0o100_644, None, "orders.db");
    story.file(7, 6, 0o140_777, Some(1), "");
    story.flow(1, "10.0.0.2:40000", "10.0.0.3:5432");
    story.seen(own, "app", "compress", 11);
    story.seen(helper, "app", "help", 7);
    story.seen(db, "db", "scan", 5);
    story.seen(db_worker, "db-worker", "sort", 3);
    story.seen(worker, "kworker/0:1", "flush", 2);

    let timer = Cause::Timer { context: Context::Softirq(Softirq::Timer) };
    let by_timer = Cause::SentByTimer { flow: FlowId(1), purpose: TimerPurpose::Data };
    let packet = Cause::Network { flow: Some(FlowId(1)) };
    let closed = call(SENDTO, 6).with_end(WaitEnd::WindowClosed);
    let mut own_time = |ns, kind, cause: &Cause, call| {
        story.then(ns, own, None, kind, cause.clone()).call = call;
    };
    own_time(1000, Running, &Cause::None, None);
    own_time(2, Timer, &timer, Some(call(NANOSLEEP, 0)));
    own_time(3, Timer, &timer, Some(call(POLL, 6)));
    own_time(4, Timer, &by_timer, Some(call(READ, 6)));
    own_time(5, Timer, &timer, Some(closed));
    own_time(6, Network, &packet, Some(call(READ, 6)));
    own_time(7, Network, &packet, Some(closed));
    own_time(8, Network, &by_timer, None);
    own_time(9, Network, &Cause::None, None);
    own_time(10, BlockDevice, &disk(false), Some(call(FDATASYNC, 5)));
    own_time(11, BlockDevice, &disk(true), None);
    own_time(12, BlockDevice, &Cause::None, None);
    own_time(13, Runnable, &Cause::Competitor(stress), None);
    own_time(14, Runnable, &Cause::IdleCpu, None);
    own_time(15, Throttled, &Cause::None, None);
    story.then(16, helper, None, Running, Cause::None);

    let mut wait = |ns: u64,
                    by: ThreadIndex,
                    via: Via,
                    call_number: u32,
                    parts: &[(u64, ThreadIndex, SegmentKind, Cause)]| {
        let wait = story.wait(ns, own, None, call(call_number, 6), via, by);
        for (ns, thread, kind, cause) in parts {
            story.then(*ns, *thread, Some(wait), *kind, cause.clone());
        }
        story.then(1, own, None, Running, Cause::None);
    };
    let none = || Cause::None;
    wait(
        17 + 18 + 19,
        worker,
        Via::Wakeup,
        FUTEX,
        &[(17, worker, Running, none()), (18, worker, Timer, timer.clone()), (19, worker, Throttled, none())],
    );
    wait(
        20 + 300,
        journal,
        Via::Wakeup,
        FDATASYNC,
        &[(20, journal, Running, none()), (300, journal, BlockDevice, disk(false))],
    );
    wait(40, helper, Via::Lock, FUTEX, &[(40, helper, Running, none())]);
    let query = story.wait(500, own, None, call(READ, 6), Via::Packet, db);
    story.then(200, db, Some(query), Running, Cause::None).call = Some(call(READ, 9));
    story.then(21, db, Some(query), Runnable, Cause::Competitor(own));
    story.then(22, db, Some(query), BlockDevice, disk(true)).call = Some(call(FDATASYNC, 9));
    story.then(23, db, Some(query), Timer, timer).call = Some(call(NANOSLEEP, 0));
    let mut inner = |ns: u64, by: ThreadIndex, parts: &[(u64, ThreadIndex, SegmentKind, Cause)]| {
        let inner = story.wait(ns, db, Some(query), call(FUTEX, 9), Via::Wakeup, by);
        for (ns, thread, kind, cause) in parts {
            story.then(*ns, *thread, Some(inner), *kind, cause.clone());
        }
    };
    inner(24, db_worker, &[(24, db_worker, Running, none())]);
    inner(25, worker, &[(25, worker, Running, none())]);
    inner(26 + 27, journal, &[(26, journal, Running, none()), (27, journal, BlockDevice, disk(false))]);
    story.then(1, own, None, Running, Cause::None);
    story.finish()
}

/// A call in which the thread runs, and briefly waits for the database.
fn usual() -> FinishedStory {
    let mut usual = Story::default();
    let own = usual.thread(7, 1, b"app", 7);
    let db = usual.thread(20, 1, b"db", 20);
    usual.then(900, own, None, SegmentKind::Running, Cause::None);
    let wait = usual.wait(30, own, None, call(READ, 6), Via::Packet, db);
    usual.then(30, db, Some(wait), SegmentKind::Running, Cause::None);
    usual.finish()
}

fn told(rows: &[(RowKey, Row)]) -> String {
    let mut text = String::new();
    for (key, row) in rows {
        let Row { total_ns, own_ns, stretches, threads, processes, through, sites, in_unknown_calls, .. } =
            row;
        let users: Vec<_> = row.users_by_name().iter().map(|(name, ns)| format!("{name:?} {ns}")).collect();
        let threads: Vec<_> = threads.iter().map(|thread| thread.0).collect();
        let processes: Vec<_> = processes.iter().map(|process| process.0).collect();
        let unknown = (in_unknown_calls.count, in_unknown_calls.ns);
        writeln!(
            text,
            "{key:?}: {total_ns}, own {own_ns}, stretches {stretches}, users {users:?}, threads {threads:?}"
        )
        .unwrap();
        writeln!(
            text,
            "  processes {processes:?} through {through:?} sites {sites:?} unknown calls {unknown:?}"
        )
        .unwrap();
        row.parts.iter().for_each(|(part, ns)| writeln!(text, "  part {ns}: {part:?}").unwrap());
        row.calls.iter().for_each(|(call, waits)| {
            writeln!(text, "  call {call:?}: {} waits, {}", waits.count, waits.ns).unwrap()
        });
        for (key, end) in &row.ends {
            writeln!(text, "  end {} {:?} {:?}: {key:?}", end.ns, end.objects, end.sites).unwrap();
        }
    }
    text
}

#[test]
fn rows_of_a_path_have_the_time_of_each_kind() {
    let story = story();
    expect![[r#"
        Running("app"): 1060, own 1004, stretches 7, users ["\"app\" 1060"], threads [0, 1]
          processes [7, 8] through {} sites {} unknown calls (0, 0)
          part 1060: Activity(Activity { kind: Running, blamed: Cause(Itself) })
        Process("db", None): 368, own 0, stretches 8, users ["\"db\" 344", "\"db-worker\" 24"], threads [2, 3, 4, 5]
          processes [20] through {"jbd2/sda1-8", "kworker"} sites {None: 1} unknown calls (0, 0)
          part 224: Activity(Activity { kind: Running, blamed: Cause(Itself) })
          part 21: Activity(Activity { kind: Runnable, blamed: Cause(Itself) })
          part 27: Activity(Activity { kind: BlockDevice, blamed: Cause(Itself) })
          part 51: KernelThreads
          part 23: Call(CallName { number: 35, object: None })
          part 22: Call(CallName { number: 74, object: None })
          call CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 1 waits, 368
          end 24 {} {}: EndKey { activity: Some(Activity { kind: Running, blamed: Cause(Itself) }), call: None, thread: None }
          end 200 {} {None: 1}: EndKey { activity: Some(Activity { kind: Running, blamed: Cause(Itself) }), call: Some(0), thread: None }
          end 25 {} {}: EndKey { activity: Some(Activity { kind: Running, blamed: KernelThread("kworker") }), call: Some(202), thread: None }
          end 21 {} {}: EndKey { activity: Some(Activity { kind: Runnable, blamed: Cause(Itself) }), call: None, thread: None }
          end 23 {} {}: EndKey { activity: Some(Activity { kind: Timer, blamed: Cause(Timer) }), call: Some(35), thread: None }
          end 22 {} {None: 1}: EndKey { activity: Some(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) }), call: Some(74), thread: None }
          end 53 {} {None: 1}: EndKey { activity: Some(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) }), call: Some(202), thread: None }
        Disk(Some(8388608), Flush): 330, own 10, stretches 3, users ["\"app\" 330"], threads [0, 5]
          processes [7] through {"jbd2/sda1-8"} sites {None: 2} unknown calls (0, 0)
          part 310: Activity(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) })
          part 20: KernelThreads
          call CallName { number: 74, object: Some(File("orders.db")) }: 1 waits, 10
          call CallName { number: 74, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 1 waits, 320
          end 330 {File("orders.db"), Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {None: 2}: EndKey { activity: None, call: Some(74), thread: None }
        CpuLimit(None): 34, own 15, stretches 2, users ["\"app\" 34"], threads [0, 4]
          processes [7] through {"kworker"} sites {} unknown calls (0, 0)
          part 34: Activity(Activity { kind: Throttled, blamed: Cause(Itself) })
          call CallName { number: 202, object: None }: 0 waits, 19
          end 19 {} {}: EndKey { activity: None, call: Some(202), thread: None }
        Cpu: 27, own 27, stretches 2, users ["\"app\" 27"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 14: Activity(Activity { kind: Runnable, blamed: Cause(IdleCpu) })
          part 13: Activity(Activity { kind: Runnable, blamed: Threads(ThreadName { comm: "stress", kernel: false, host: None }) })
          end 14 {} {}: EndKey { activity: Some(Activity { kind: Runnable, blamed: Cause(IdleCpu) }), call: None, thread: None }
          end 13 {} {}: EndKey { activity: Some(Activity { kind: Runnable, blamed: Threads(ThreadName { comm: "stress", kernel: false, host: None }) }), call: None, thread: None }
        Timer: 20, own 2, stretches 2, users ["\"app\" 20"], threads [0, 4]
          processes [7] through {"kworker"} sites {None: 1} unknown calls (0, 0)
          part 20: Activity(Activity { kind: Timer, blamed: Cause(Itself) })
          call CallName { number: 35, object: None }: 1 waits, 2
          call CallName { number: 202, object: None }: 0 waits, 18
          end 2 {} {None: 1}: EndKey { activity: None, call: Some(35), thread: None }
          end 18 {} {}: EndKey { activity: None, call: Some(202), thread: None }
        KernelThread("kworker"): 17, own 0, stretches 1, users ["\"app\" 17"], threads [4]
          processes [] through {"kworker"} sites {None: 1} unknown calls (0, 0)
          part 17: Activity(Activity { kind: Running, blamed: Cause(Itself) })
          call CallName { number: 202, object: None }: 1 waits, 17
          end 17 {} {}: EndKey { activity: None, call: Some(202), thread: None }
        Disk(None, Transfer): 12, own 12, stretches 1, users ["\"app\" 12"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 12)
          part 12: Activity(Activity { kind: BlockDevice, blamed: Cause(Itself) })
        SentByTimer(Some(Endpoint { protocol: 6, address: 10.0.0.2:40000 }), Data): 12, own 12, stretches 2, users ["\"app\" 12"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 4: Activity(Activity { kind: Timer, blamed: Cause(Itself) })
          part 8: Activity(Activity { kind: Network, blamed: Cause(Itself) })
          call CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 0 waits, 4
          end 4 {Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {}: EndKey { activity: None, call: Some(0), thread: None }
        Disk(Some(8388608), Transfer): 11, own 11, stretches 1, users ["\"app\" 11"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 11)
          part 11: Activity(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: true }) })
        Network(None): 9, own 9, stretches 1, users ["\"app\" 9"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 9: Activity(Activity { kind: Network, blamed: Cause(Itself) })
        Window(Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))), false): 7, own 7, stretches 1, users ["\"app\" 7"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 7: Activity(Activity { kind: Network, blamed: Cause(Itself) })
          call CallName { number: 44, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 0 waits, 7
          end 7 {Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {}: EndKey { activity: None, call: Some(44), thread: None }
        Network(Some(Endpoint { protocol: 6, address: 10.0.0.2:40000 })): 6, own 6, stretches 1, users ["\"app\" 6"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 6: Activity(Activity { kind: Network, blamed: Cause(Itself) })
          call CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 0 waits, 6
          end 6 {Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {}: EndKey { activity: None, call: Some(0), thread: None }
        Window(Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))), true): 5, own 5, stretches 1, users ["\"app\" 5"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 5: Activity(Activity { kind: Timer, blamed: Cause(Itself) })
          call CallName { number: 44, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 0 waits, 5
          end 5 {Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {}: EndKey { activity: None, call: Some(44), thread: None }
        TimedOut(Input): 3, own 3, stretches 1, users ["\"app\" 3"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 3: Activity(Activity { kind: Timer, blamed: Cause(Itself) })
          call CallName { number: 7, object: None }: 0 waits, 3
          end 3 {} {}: EndKey { activity: None, call: Some(7), thread: None }
    "#]].assert_eq(&told(&rows(&story.evidence())));
}

#[test]
fn rows_of_a_call_name_those_that_ended_its_waits() {
    let story = story();
    expect![[r#"
        Running("app"): 1020, own 1004, stretches 6, users ["\"app\" 1020"], threads [0, 1]
          processes [7, 8] through {} sites {} unknown calls (0, 0)
          part 1020: Activity(Activity { kind: Running, blamed: Cause(Itself) })
        Process("db", None): 368, own 0, stretches 8, users ["\"db\" 344", "\"db-worker\" 24"], threads [2, 3, 4, 5]
          processes [20] through {"jbd2/sda1-8", "kworker"} sites {None: 1} unknown calls (0, 0)
          part 224: Activity(Activity { kind: Running, blamed: Cause(Itself) })
          part 21: Activity(Activity { kind: Runnable, blamed: Cause(Itself) })
          part 27: Activity(Activity { kind: BlockDevice, blamed: Cause(Itself) })
          part 51: KernelThreads
          part 23: Call(CallName { number: 35, object: None })
          part 22: Call(CallName { number: 74, object: None })
          call CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 1 waits, 368
          end 24 {} {}: EndKey { activity: Some(Activity { kind: Running, blamed: Cause(Itself) }), call: None, thread: None }
          end 200 {} {None: 1}: EndKey { activity: Some(Activity { kind: Running, blamed: Cause(Itself) }), call: Some(0), thread: None }
          end 25 {} {}: EndKey { activity: Some(Activity { kind: Running, blamed: KernelThread("kworker") }), call: Some(202), thread: None }
          end 21 {} {}: EndKey { activity: Some(Activity { kind: Runnable, blamed: Cause(Itself) }), call: None, thread: None }
          end 23 {} {}: EndKey { activity: Some(Activity { kind: Timer, blamed: Cause(Timer) }), call: Some(35), thread: None }
          end 22 {} {None: 1}: EndKey { activity: Some(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) }), call: Some(74), thread: None }
          end 53 {} {None: 1}: EndKey { activity: Some(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) }), call: Some(202), thread: None }
        Disk(Some(8388608), Flush): 330, own 10, stretches 3, users ["\"app\" 330"], threads [0, 5]
          processes [7] through {"jbd2/sda1-8"} sites {None: 2} unknown calls (0, 0)
          part 310: Activity(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) })
          part 20: KernelThreads
          call CallName { number: 74, object: Some(File("orders.db")) }: 1 waits, 10
          call CallName { number: 74, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 1 waits, 320
          end 330 {File("orders.db"), Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {None: 2}: EndKey { activity: None, call: Some(74), thread: None }
        Thread("app", Release): 40, own 0, stretches 1, users ["\"app\" 40"], threads [1]
          processes [8] through {} sites {None: 1} unknown calls (0, 0)
          part 40: Activity(Activity { kind: Running, blamed: Cause(Itself) })
          call CallName { number: 202, object: None }: 1 waits, 40
          end 40 {} {}: EndKey { activity: Some(Activity { kind: Running, blamed: Cause(Itself) }), call: None, thread: None }
        CpuLimit(None): 34, own 15, stretches 2, users ["\"app\" 34"], threads [0, 4]
          processes [7] through {"kworker"} sites {} unknown calls (0, 0)
          part 34: Activity(Activity { kind: Throttled, blamed: Cause(Itself) })
          call CallName { number: 202, object: None }: 0 waits, 19
          end 19 {} {}: EndKey { activity: None, call: Some(202), thread: None }
        Cpu: 27, own 27, stretches 2, users ["\"app\" 27"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 14: Activity(Activity { kind: Runnable, blamed: Cause(IdleCpu) })
          part 13: Activity(Activity { kind: Runnable, blamed: Threads(ThreadName { comm: "stress", kernel: false, host: None }) })
          end 14 {} {}: EndKey { activity: Some(Activity { kind: Runnable, blamed: Cause(IdleCpu) }), call: None, thread: None }
          end 13 {} {}: EndKey { activity: Some(Activity { kind: Runnable, blamed: Threads(ThreadName { comm: "stress", kernel: false, host: None }) }), call: None, thread: None }
        Timer: 20, own 2, stretches 2, users ["\"app\" 20"], threads [0, 4]
          processes [7] through {"kworker"} sites {None: 1} unknown calls (0, 0)
          part 20: Activity(Activity { kind: Timer, blamed: Cause(Itself) })
          call CallName { number: 35, object: None }: 1 waits, 2
          call CallName { number: 202, object: None }: 0 waits, 18
          end 2 {} {None: 1}: EndKey { activity: None, call: Some(35), thread: None }
          end 18 {} {}: EndKey { activity: None, call: Some(202), thread: None }
        KernelThread("kworker"): 17, own 0, stretches 1, users ["\"app\" 17"], threads [4]
          processes [] through {"kworker"} sites {None: 1} unknown calls (0, 0)
          part 17: Activity(Activity { kind: Running, blamed: Cause(Itself) })
          call CallName { number: 202, object: None }: 1 waits, 17
          end 17 {} {}: EndKey { activity: None, call: Some(202), thread: None }
        Disk(None, Transfer): 12, own 12, stretches 1, users ["\"app\" 12"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 12)
          part 12: Activity(Activity { kind: BlockDevice, blamed: Cause(Itself) })
        SentByTimer(Some(Endpoint { protocol: 6, address: 10.0.0.2:40000 }), Data): 12, own 12, stretches 2, users ["\"app\" 12"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 4: Activity(Activity { kind: Timer, blamed: Cause(Itself) })
          part 8: Activity(Activity { kind: Network, blamed: Cause(Itself) })
          call CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 0 waits, 4
          end 4 {Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {}: EndKey { activity: None, call: Some(0), thread: None }
        Disk(Some(8388608), Transfer): 11, own 11, stretches 1, users ["\"app\" 11"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 11)
          part 11: Activity(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: true }) })
        Network(None): 9, own 9, stretches 1, users ["\"app\" 9"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 9: Activity(Activity { kind: Network, blamed: Cause(Itself) })
        Window(Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))), false): 7, own 7, stretches 1, users ["\"app\" 7"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 7: Activity(Activity { kind: Network, blamed: Cause(Itself) })
          call CallName { number: 44, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 0 waits, 7
          end 7 {Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {}: EndKey { activity: None, call: Some(44), thread: None }
        Network(Some(Endpoint { protocol: 6, address: 10.0.0.2:40000 })): 6, own 6, stretches 1, users ["\"app\" 6"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 6: Activity(Activity { kind: Network, blamed: Cause(Itself) })
          call CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 0 waits, 6
          end 6 {Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {}: EndKey { activity: None, call: Some(0), thread: None }
        Window(Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))), true): 5, own 5, stretches 1, users ["\"app\" 5"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 5: Activity(Activity { kind: Timer, blamed: Cause(Itself) })
          call CallName { number: 44, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }: 0 waits, 5
          end 5 {Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))} {}: EndKey { activity: None, call: Some(44), thread: None }
        TimedOut(Input): 3, own 3, stretches 1, users ["\"app\" 3"], threads [0]
          processes [7] through {} sites {} unknown calls (0, 0)
          part 3: Activity(Activity { kind: Timer, blamed: Cause(Itself) })
          call CallName { number: 7, object: None }: 0 waits, 3
          end 3 {} {}: EndKey { activity: None, call: Some(7), thread: None }
    "#]].assert_eq(&told(&rows_of_call(&story.evidence())));
}

fn code(code: &Code) -> String {
    let of = |tally: &crate::Tally| {
        let name = |found: &Found| match found {
            Found::Function(function) => function.name.clone(),
            other => format!("{other:?}"),
        };
        let seen: Vec<_> = tally
            .seen()
            .iter()
            .map(|seen| format!("{} {}", name(&seen.function.found), seen.count))
            .collect();
        format!("{} {seen:?}", tally.total())
    };
    format!("ran {} waited {}", of(&code.ran), of(&code.waited))
}

#[test]
fn causes_are_those_of_the_calls_that_were_asked_about_beside_the_usual_ones() {
    let asked = [story(), story()];
    let usual = usual();
    let calls = PerGroup {
        asked: asked.iter().map(FinishedStory::evidence).collect(),
        usual: vec![usual.evidence()],
    };
    let mut text = String::new();
    let (first, row) = first_cause(&calls.asked[0]).expect("it has time");
    writeln!(text, "first {first:?} {}", row.total_ns).unwrap();
    for cause in causes(&calls) {
        let PerGroup { asked, usual } = cause.mean_ns;
        let example = &cause.example.1;
        writeln!(
            text,
            "{:?}: {asked} {usual}, first in {}, {}",
            cause.key,
            cause.first_in,
            code(&cause.code)
        )
        .unwrap();
        writeln!(
            text,
            "  example {} of {} threads, {} processes",
            example.total_ns,
            example.threads.len(),
            example.processes.len()
        )
        .unwrap();
        for part in cause.parts {
            let PerGroup { asked, usual } = part.mean_ns;
            writeln!(text, "  part {asked} {usual} {:?} {:?} {}", part.end, part.call, code(&part.code))
                .unwrap();
        }
    }
    expect![[r#"
        first Caller 1004
        Process("db", None): 368 30, first in 0, ran 0 [] waited 2 []
          example 368 of 5 threads, 1 processes
          part 200 0 EndKey { activity: Some(Activity { kind: Running, blamed: Cause(Itself) }), call: Some(0), thread: None } Some(CallName { number: 0, object: None }) ran 20 ["scan 10", "sort 6", "flush 4"] waited 2 []
          part 53 0 EndKey { activity: Some(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) }), call: Some(202), thread: None } Some(CallName { number: 202, object: None }) ran 0 [] waited 2 []
          part 25 0 EndKey { activity: Some(Activity { kind: Running, blamed: KernelThread("kworker") }), call: Some(202), thread: None } Some(CallName { number: 202, object: None }) ran 0 [] waited 0 []
          part 23 0 EndKey { activity: Some(Activity { kind: Timer, blamed: Cause(Timer) }), call: Some(35), thread: None } Some(CallName { number: 35, object: None }) ran 0 [] waited 0 []
          part 22 0 EndKey { activity: Some(Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) }), call: Some(74), thread: None } Some(CallName { number: 74, object: None }) ran 0 [] waited 2 []
          part 21 0 EndKey { activity: Some(Activity { kind: Runnable, blamed: Cause(Itself) }), call: None, thread: None } None ran 0 [] waited 0 []
          part 24 30 EndKey { activity: Some(Activity { kind: Running, blamed: Cause(Itself) }), call: None, thread: None } None ran 0 [] waited 0 []
        Disk(Some(8388608), Flush): 330 0, first in 0, ran 0 [] waited 0 []
          example 330 of 2 threads, 1 processes
          part 330 0 EndKey { activity: None, call: Some(74), thread: None } Some(CallName { number: 74, object: None }) ran 0 [] waited 4 []
        Caller: 1004 900, first in 2, ran 22 ["compress 22"] waited 0 []
          example 1004 of 2 threads, 2 processes
        Thread("app", Release): 40 0, first in 0, ran 0 [] waited 2 []
          example 40 of 1 threads, 1 processes
          part 40 0 EndKey { activity: Some(Activity { kind: Running, blamed: Cause(Itself) }), call: None, thread: None } None ran 14 ["help 14"] waited 0 []
        CpuLimit(None): 34 0, first in 0, ran 0 [] waited 0 []
          example 34 of 2 threads, 1 processes
          part 19 0 EndKey { activity: None, call: Some(202), thread: None } Some(CallName { number: 202, object: None }) ran 0 [] waited 0 []
        Cpu: 27 0, first in 0, ran 0 [] waited 0 []
          example 27 of 1 threads, 1 processes
          part 14 0 EndKey { activity: Some(Activity { kind: Runnable, blamed: Cause(IdleCpu) }), call: None, thread: None } None ran 0 [] waited 0 []
          part 13 0 EndKey { activity: Some(Activity { kind: Runnable, blamed: Threads(ThreadName { comm: "stress", kernel: false, host: None }) }), call: None, thread: None } None ran 0 [] waited 0 []
        Timer: 20 0, first in 0, ran 0 [] waited 0 []
          example 20 of 2 threads, 1 processes
          part 18 0 EndKey { activity: None, call: Some(202), thread: None } Some(CallName { number: 202, object: None }) ran 0 [] waited 0 []
          part 2 0 EndKey { activity: None, call: Some(35), thread: None } Some(CallName { number: 35, object: None }) ran 0 [] waited 2 []
        KernelThread("kworker"): 17 0, first in 0, ran 0 [] waited 0 []
          example 17 of 1 threads, 0 processes
          part 17 0 EndKey { activity: None, call: Some(202), thread: None } Some(CallName { number: 202, object: None }) ran 0 [] waited 0 []
        Running("app"): 16 0, first in 0, ran 14 ["help 14"] waited 0 []
          example 16 of 2 threads, 2 processes
        Disk(None, Transfer): 12 0, first in 0, ran 0 [] waited 0 []
          example 12 of 1 threads, 1 processes
        SentByTimer(Some(Endpoint { protocol: 6, address: 10.0.0.2:40000 }), Data): 12 0, first in 0, ran 0 [] waited 0 []
          example 12 of 1 threads, 1 processes
          part 4 0 EndKey { activity: None, call: Some(0), thread: None } Some(CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }) ran 0 [] waited 0 []
        Disk(Some(8388608), Transfer): 11 0, first in 0, ran 0 [] waited 0 []
          example 11 of 1 threads, 1 processes
        Network(None): 9 0, first in 0, ran 0 [] waited 0 []
          example 9 of 1 threads, 1 processes
        Window(Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))), false): 7 0, first in 0, ran 0 [] waited 0 []
          example 7 of 1 threads, 1 processes
          part 7 0 EndKey { activity: None, call: Some(44), thread: None } Some(CallName { number: 44, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }) ran 0 [] waited 0 []
        Network(Some(Endpoint { protocol: 6, address: 10.0.0.2:40000 })): 6 0, first in 0, ran 0 [] waited 0 []
          example 6 of 1 threads, 1 processes
          part 6 0 EndKey { activity: None, call: Some(0), thread: None } Some(CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }) ran 0 [] waited 0 []
        Window(Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))), true): 5 0, first in 0, ran 0 [] waited 0 []
          example 5 of 1 threads, 1 processes
          part 5 0 EndKey { activity: None, call: Some(44), thread: None } Some(CallName { number: 44, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }) ran 0 [] waited 0 []
        TimedOut(Input): 3 0, first in 0, ran 0 [] waited 0 []
          example 3 of 1 threads, 1 processes
          part 3 0 EndKey { activity: None, call: Some(7), thread: None } Some(CallName { number: 7, object: None }) ran 0 [] waited 0 []
    "#]].assert_eq(&text);
}

#[test]
fn a_merged_tree_names_competitors_and_threads() {
    let stories = [story(), usual()];
    let calls = PerGroup { asked: vec![stories[0].evidence()], usual: vec![stories[1].evidence()] };
    let tree = merged_tree(&calls);
    let mut text = String::new();
    for node in &tree.nodes {
        writeln!(
            text,
            "{:?} under {:?}: {} waits, {:?} in {:?}, children {:?}",
            node.thread, node.parent, node.waits, node.total.ns, node.total.calls, node.children
        )
        .unwrap();
        for leaf in &node.leaves {
            writeln!(
                text,
                "  {} {:?} {:?} {}",
                leaf.total.ns.asked,
                leaf.activity,
                leaf.call,
                code(&leaf.code)
            )
            .unwrap();
        }
    }
    expect![[r#"
        None under None: 1 waits, PerGroup { asked: 1921, usual: 930 } in PerGroup { asked: 1, usual: 1 }, children [1, 3, 2, 4, 8]
          1020 Activity { kind: Running, blamed: Cause(Itself) } None ran 18 ["compress 11", "help 7"] waited 0 []
          15 Activity { kind: Throttled, blamed: Cause(Itself) } None ran 0 [] waited 0 []
          14 Activity { kind: Runnable, blamed: Cause(IdleCpu) } None ran 0 [] waited 0 []
          13 Activity { kind: Runnable, blamed: Threads(ThreadName { comm: "stress", kernel: false, host: None }) } None ran 0 [] waited 0 []
          12 Activity { kind: BlockDevice, blamed: Cause(Itself) } None ran 0 [] waited 0 []
          11 Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: true }) } None ran 0 [] waited 0 []
          10 Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) } Some(CallName { number: 74, object: Some(File("orders.db")) }) ran 0 [] waited 0 []
          9 Activity { kind: Network, blamed: Cause(Itself) } None ran 0 [] waited 0 []
          8 Activity { kind: Network, blamed: Cause(SentByTimer { flow: FlowId(1), purpose: Data }) } None ran 0 [] waited 0 []
          7 Activity { kind: Network, blamed: Sender(Endpoint { protocol: 6, address: 10.0.0.2:40000 }) } Some(CallName { number: 44, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }) ran 0 [] waited 0 []
          6 Activity { kind: Network, blamed: Sender(Endpoint { protocol: 6, address: 10.0.0.2:40000 }) } Some(CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }) ran 0 [] waited 0 []
          5 Activity { kind: Timer, blamed: Cause(Timer) } Some(CallName { number: 44, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }) ran 0 [] waited 0 []
          4 Activity { kind: Timer, blamed: Cause(SentByTimer { flow: FlowId(1), purpose: Data }) } Some(CallName { number: 0, object: Some(Socket(Some(Endpoint { protocol: 6, address: 10.0.0.3:5432 }))) }) ran 0 [] waited 0 []
          3 Activity { kind: Timer, blamed: Cause(Timer) } Some(CallName { number: 7, object: None }) ran 0 [] waited 0 []
          2 Activity { kind: Timer, blamed: Cause(Timer) } Some(CallName { number: 35, object: None }) ran 0 [] waited 0 []
        Some(Named(ThreadName { comm: "db", kernel: false, host: None })) under Some(0): 1 waits, PerGroup { asked: 368, usual: 0 } in PerGroup { asked: 1, usual: 0 }, children [7, 6, 5]
          200 Activity { kind: Running, blamed: Cause(Itself) } Some(CallName { number: 0, object: None }) ran 5 ["scan 5"] waited 0 []
          23 Activity { kind: Timer, blamed: Cause(Timer) } Some(CallName { number: 35, object: None }) ran 0 [] waited 0 []
          22 Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: true }) } Some(CallName { number: 74, object: None }) ran 0 [] waited 0 []
          21 Activity { kind: Runnable, blamed: Threads(ThreadName { comm: "app", kernel: false, host: None }) } None ran 0 [] waited 0 []
        Some(Named(ThreadName { comm: "kworker", kernel: true, host: None })) under Some(0): 1 waits, PerGroup { asked: 54, usual: 0 } in PerGroup { asked: 1, usual: 0 }, children []
          19 Activity { kind: Throttled, blamed: Cause(Itself) } None ran 0 [] waited 0 []
          18 Activity { kind: Timer, blamed: Cause(Timer) } None ran 0 [] waited 0 []
          17 Activity { kind: Running, blamed: Cause(Itself) } None ran 2 ["flush 2"] waited 0 []
        Some(Named(ThreadName { comm: "jbd2/sda1-8", kernel: true, host: None })) under Some(0): 1 waits, PerGroup { asked: 320, usual: 0 } in PerGroup { asked: 1, usual: 0 }, children []
          300 Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) } None ran 0 [] waited 0 []
          20 Activity { kind: Running, blamed: Cause(Itself) } None ran 0 [] waited 0 []
        Some(Named(ThreadName { comm: "app", kernel: false, host: None })) under Some(0): 1 waits, PerGroup { asked: 40, usual: 0 } in PerGroup { asked: 1, usual: 0 }, children []
          40 Activity { kind: Running, blamed: Cause(Itself) } None ran 0 [] waited 0 []
        Some(Named(ThreadName { comm: "db-worker", kernel: false, host: None })) under Some(1): 1 waits, PerGroup { asked: 24, usual: 0 } in PerGroup { asked: 1, usual: 0 }, children []
          24 Activity { kind: Running, blamed: Cause(Itself) } None ran 3 ["sort 3"] waited 0 []
        Some(Named(ThreadName { comm: "kworker", kernel: true, host: None })) under Some(1): 1 waits, PerGroup { asked: 25, usual: 0 } in PerGroup { asked: 1, usual: 0 }, children []
          25 Activity { kind: Running, blamed: Cause(Itself) } None ran 0 [] waited 0 []
        Some(Named(ThreadName { comm: "jbd2/sda1-8", kernel: true, host: None })) under Some(1): 1 waits, PerGroup { asked: 53, usual: 0 } in PerGroup { asked: 1, usual: 0 }, children []
          27 Activity { kind: BlockDevice, blamed: Cause(Disk { device: Some(8388608), queued: false }) } None ran 0 [] waited 0 []
          26 Activity { kind: Running, blamed: Cause(Itself) } None ran 0 [] waited 0 []
        Some(Named(ThreadName { comm: "db", kernel: false, host: None })) under Some(0): 0 waits, PerGroup { asked: 0, usual: 30 } in PerGroup { asked: 0, usual: 1 }, children []
          0 Activity { kind: Running, blamed: Cause(Itself) } None ran 0 [] waited 0 []
    "#]].assert_eq(&text);
}

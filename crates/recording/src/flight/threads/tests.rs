//! Threads' memory and its limits, and processes' numbers.

use std::collections::BTreeSet;

use wakepath_clock::Stamp;
use wakepath_event::Comm;

use super::*;

const THREAD: Tid = Tid(7);

fn birth(start: u64) -> EventKind {
    let child = ThreadIdentity {
        tid: THREAD,
        tgid: THREAD,
        parent: Tid(1),
        ns_tid: THREAD,
        ns_tgid: THREAD,
        start: Stamp::from_ns(start),
        cgroup: CgroupId(1),
        cpu_cgroup: CgroupId(1),
        kernel: false,
        comm: Comm::new(b"worker"),
    };
    EventKind::Fork { child }
}

#[test]
fn the_memory_of_attributes_goes_with_them() {
    let event = |at, current, kind| Event {
        at: Stamp::from_ns(at),
        cpu: Cpu(0),
        context: Context::Task,
        current,
        kind,
    };
    let attribute = |length: usize| {
        let value = vec![b'x'; length].into();
        EventKind::ThreadAttribute(ThreadAttribute { key: 1, length: length as u8, value })
    };
    let context =
        |flags| EventKind::ThreadContext(ThreadContext::Span { trace: [1; 16], span: [2; 8], flags });
    let leaves = |out| EventKind::Switch { next: Tid::IDLE, out, interrupts_ns: 0, call: None };
    let blocked = leaves(SwitchOut::Blocked(BlockedState::Interruptible));
    let waking = EventKind::Waking { target: THREAD, irq: 0, newborn: true, socket: None };
    let exec = EventKind::Exec { old: THREAD, comm: Comm::new(b"next"), path: [].into() };
    for (what, ends) in [
        ("another context", vec![(THREAD, context(1))]),
        ("another program", vec![(THREAD, exec)]),
        ("the thread's end", vec![(THREAD, leaves(SwitchOut::Dead))]),
        ("another thread of this tid", vec![(Tid::IDLE, birth(50))]),
        ("the same without a birth", vec![(THREAD, blocked), (Tid::IDLE, waking)]),
    ] {
        let mut threads = Threads::default();
        let none = threads.bytes();
        let shows =
            EventKind::Switch { next: THREAD, out: SwitchOut::Runnable, interrupts_ns: 0, call: None };
        for (at, (current, kind)) in
            (1..).zip([(Tid::IDLE, birth(1)), (Tid::IDLE, shows), (THREAD, context(0))])
        {
            threads.take(&event(at, current, kind));
        }
        assert_eq!(threads.attribute_bytes, 0);
        threads.take(&event(10, THREAD, attribute(20)));
        threads.take(&event(10, THREAD, attribute(5)));
        let places = 2 * size_of::<ThreadAttribute>()..=8 * size_of::<ThreadAttribute>();
        assert!(places.contains(&(threads.attribute_bytes - 25)), "{what}");
        assert!(threads.bytes() >= none + threads.attribute_bytes, "{what}");
        (60..).zip(ends).for_each(|(at, (current, kind))| threads.take(&event(at, current, kind)));
        assert_eq!(threads.attribute_bytes, 0, "{what}");
    }
}

#[test]
fn no_more_attributes_of_a_context_are_kept_than_a_recorder_reads() {
    let mut threads = Threads::default();
    let mut take = |kind| {
        threads.take(&Event {
            at: Stamp::from_ns(5),
            cpu: Cpu(0),
            context: Context::Task,
            current: THREAD,
            kind,
        });
    };
    take(EventKind::Current);
    for _ in 0..100 {
        take(EventKind::ThreadAttribute(ThreadAttribute { key: 1, length: 1, value: [1].into() }));
    }
    assert_eq!(threads.rows[&THREAD].attributes.len(), MAX_ATTRIBUTES);
}
fn event(at: u64, current: Tid, kind: EventKind) -> Event {
    Event { at: Stamp::from_ns(at), cpu: Cpu(0), context: Context::Task, current, kind }
}

#[test]
fn a_limit_that_handed_out_time_is_remembered_among_others_and_no_more_than_the_most() {
    let mut threads = Threads::default();
    for (number, known) in [(1, 1), (2, 2), (2, 2), (3, 3)] {
        threads.take(&event(number, Tid::IDLE, EventKind::Refill(CgroupId(number))));
        assert_eq!(threads.refills.len(), known);
    }
    for number in 0..3 * MAX_REFILLS as u64 {
        threads.take(&event(number, Tid::IDLE, EventKind::Refill(CgroupId(number))));
        assert!(threads.refills.len() <= MAX_REFILLS);
        assert_eq!(threads.refills.get(&CgroupId(number)), Some(&number), "the last one");
    }
}

#[test]
fn where_too_many_threads_seem_to_live_those_without_a_known_state_go_first() {
    let sleeps = |tid| {
        let out = SwitchOut::Blocked(BlockedState::Interruptible);
        event(5, Tid(tid), EventKind::Switch { next: Tid::IDLE, out, interrupts_ns: 0, call: None })
    };
    let exits = |tid| event(5, Tid(tid), EventKind::Exit);
    let shows = |tid| event(5, Tid(tid), EventKind::Current);
    let most = MAX_THREADS as u32;
    let mut threads = Threads::default();
    (1..=4).for_each(|tid| threads.take(&sleeps(tid)));
    threads.take(&exits(4));
    threads.take(&sleeps(4));
    // Nothing is known of all others.
    threads.rows.extend((5..=most).map(|tid| (Tid(tid), Row::default())));
    threads.take(&shows(most));
    threads.take(&sleeps(2));
    assert_eq!(threads.rows.len(), MAX_THREADS, "threads that are known");
    threads.take(&sleeps(most + 1));
    let left = |threads: &Threads| threads.rows.keys().map(|tid| tid.0).collect::<BTreeSet<_>>();
    assert_eq!(left(&threads), BTreeSet::from([1, 2, 3, most + 1]));
    // All sleep: none of them is sure to live.
    let state = State::Blocked(BlockedState::Interruptible, None);
    let asleep = || Row { state, ..Row::default() };
    threads.rows.extend((4..=most - 1).map(|tid| (Tid(tid), asleep())));
    threads.take(&sleeps(most));
    assert_eq!(threads.rows.len(), 1);
}
#[test]
fn a_number_is_of_another_process_where_the_one_before_ended_or_began_at_another_time() {
    let child = |tid, tgid, start| match birth(start) {
        EventKind::Fork { child } => ThreadIdentity { tid: Tid(tid), tgid: Tid(tgid), ..child },
        _ => unreachable!("a birth"),
    };
    let mut threads = Threads::default();
    for (tid, tgid) in [(7, 7), (8, 7), (9, 9)] {
        threads.take(&event(1, Tid::IDLE, EventKind::Fork { child: child(tid, tgid, 1) }));
    }
    let dies = EventKind::Switch { next: Tid::IDLE, out: SwitchOut::Dead, interrupts_ns: 0, call: None };
    threads.take(&event(2, Tid(9), dies));
    for (tid, tgid, start, is_reused) in [
        (7, 7, 1, false),
        (7, 7, 5, true),
        (9, 9, 5, true),
        (10, 10, 5, false),
        // Threads that are no processes.
        (8, 7, 5, false),
        (9, 7, 5, false),
    ] {
        assert_eq!(threads.is_reused(&child(tid, tgid, start)), is_reused, "{tid} of {tgid}, {start}");
    }
}

#[test]
fn ended_processes_are_watched_until_a_sweep_unless_a_thread_of_theirs_lives() {
    let thread = |tid, tgid| match birth(1) {
        EventKind::Fork { child } => {
            EventKind::Fork { child: ThreadIdentity { tid: Tid(tid), tgid: Tid(tgid), ..child } }
        }
        other => other,
    };
    let mut threads = Threads::default();
    for (tid, tgid) in [(7, 7), (8, 7), (9, 9)] {
        threads.take(&event(1, Tid::IDLE, thread(tid, tgid)));
    }
    for tid in [7, 9] {
        let dies = EventKind::Switch { next: Tid::IDLE, out: SwitchOut::Dead, interrupts_ns: 0, call: None };
        threads.take(&event(2, Tid(tid), dies));
    }
    assert_eq!(threads.ended, HashSet::from([Tid(7), Tid(9)]));
    threads.forget_ended(&threads.processes());
    assert_eq!(threads.ended, HashSet::from([Tid(7)]));
}

//! Tracepoints become events: each test has a trace, and its events line by line.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use wakepath_clock::Stamp;
use wakepath_event::DamageKind;
use wakepath_event::{Comm, Context, Cpu, Event, EventKind, Softirq, Tid};
use wakepath_import::normalise::{Normaliser, RecordedEvents, WakeupBy};
use wakepath_import::tracepoint::{Interrupt, Level, PacketHeader, Record, Tracepoint};

const TIMER: Interrupt<'static> = Interrupt::Vector(Context::LocalTimer);
const NET_RX: Interrupt<'static> = Interrupt::Softirq(3);

fn switch(prev: u32, prev_state: i64, next: u32) -> Tracepoint<'static> {
    Tracepoint::Switch { prev: Tid(prev), prev_state, next: Tid(next), next_comm: None }
}

fn waking(target: u32) -> Tracepoint<'static> {
    Tracepoint::Waking { target: Tid(target) }
}

fn fork_of_8() -> Tracepoint<'static> {
    let (parent, child) = (Tid(7), Tid(8));
    Tracepoint::Fork { parent, child, child_tgid: None, child_ns_tid: None, comm: Comm::new(b"child") }
}

fn lost(from: u64, count: u64) -> Tracepoint<'static> {
    Tracepoint::Lost { from: Stamp::from_ns(from), count }
}

fn switch_to_named(prev: u32, next: u32, name: &str) -> Tracepoint<'static> {
    let next_comm = Some(Comm::new(name.as_bytes()));
    Tracepoint::Switch { prev: Tid(prev), prev_state: 1, next: Tid(next), next_comm }
}

/// The events from tracepoints on CPU 0, ten ns apart, a line each, without the starting mark.
fn event_lines(wakeup_by: WakeupBy, records: Vec<Tracepoint<'_>>) -> String {
    let mut normaliser = Normaliser::new("6.1.0", wakeup_by);
    let mut lines = String::new();
    for (index, what) in records.into_iter().enumerate() {
        let record =
            Record { at: Stamp::from_ns(index as u64 * 10), cpu: Cpu(0), current: None, level: None, what };
        normaliser.push(&record, &mut |event| line(event, &mut lines));
    }
    lines
}

fn line(event: &Event, lines: &mut String) {
    let whose = if event.cpu == Cpu::UNKNOWN { "?".to_owned() } else { event.current.to_string() };
    let what = match &event.kind {
        EventKind::Mark(_) => return,
        EventKind::Switch { next, out, interrupts_ns, call } => {
            let call = call.map_or(String::new(), |call| {
                let futex = call.lock.map_or(String::new(), |lock| format!(" futex {}", lock.operation));
                format!(" in {}({}){futex}", call.number, call.arg0 as i64)
            });
            format!("to {next} {out:?} {interrupts_ns}{call}")
        }
        EventKind::Waking { target, irq, newborn, .. } => {
            format!(
                "wakes {target}{}{}",
                if *irq > 0 { format!(" irq {irq}") } else { String::new() },
                if *newborn { " new" } else { "" }
            )
        }
        EventKind::Fork { child } => format!("forks {} of {} {:?}", child.tid, child.tgid, child.comm),
        EventKind::Exec { old, comm, .. } => format!("exec {old} {comm:?}"),
        EventKind::Rename { tid, comm } => format!("names {tid} {comm:?}"),
        EventKind::Packet(packet) => {
            format!("{:?} {} of flow {}", packet.direction, packet.len, packet.flow.0)
        }
        EventKind::Flow(id, flow) => format!("flow {} {} {}", id.0, flow.source, flow.target),
        EventKind::Name(space, key, name) => format!("{space:?} {key} {}", String::from_utf8_lossy(name)),
        EventKind::Loss { from, count, .. } => format!("lost {count} since {}", from.ns()),
        other => format!("{other:?}"),
    };
    let _ = writeln!(lines, "{} {whose} {:?}: {what}", event.at.ns(), event.context);
}

#[test]
fn a_wake_up_has_the_interrupt_that_it_happened_in() {
    use WakeupBy::Waking;
    for (records, lines) in [
        (
            vec![switch(0, 0, 7), waking(8), switch(7, 1, 0)],
            "0 0 Task: to 7 Runnable 0\n10 7 Task: wakes 8\n20 7 Task: to 0 Blocked(Interruptible) 0\n",
        ),
        (
            vec![
                switch(0, 0, 7),
                Tracepoint::Enter(TIMER),
                waking(8),
                Tracepoint::Leave(TIMER),
                switch(7, 0x100, 8),
            ],
            "0 0 Task: to 7 Runnable 0\n20 7 LocalTimer: wakes 8\n40 7 Task: to 8 Runnable 20\n",
        ),
        (
            vec![
                switch(0, 0, 7),
                Tracepoint::Enter(Interrupt::Device(28, Some(b"virtio0"))),
                waking(8),
                Tracepoint::Leave(Interrupt::Device(28, None)),
                Tracepoint::Enter(NET_RX),
                waking(9),
            ],
            "0 0 Task: to 7 Runnable 0\n10 ? Task: Interrupt 28 virtio0\n20 7 Device: wakes 8 irq 28\n\
             50 7 Softirq(NetRx): wakes 9\n",
        ),
        // Its exit was lost: no thread is switched in an interrupt.
        (
            vec![switch(0, 0, 7), Tracepoint::Enter(NET_RX), switch(7, 2, 8), waking(9)],
            "0 0 Task: to 7 Runnable 0\n20 7 Task: to 8 Blocked(Uninterruptible) 0\n30 8 Task: wakes 9\n",
        ),
        // Its entry was before the trace.
        (
            vec![switch(0, 0, 7), Tracepoint::Leave(NET_RX), waking(9)],
            "0 0 Task: to 7 Runnable 0\n20 7 Task: wakes 9\n",
        ),
        // The current thread is not known yet.
        (vec![waking(9), switch(7, 1, 0)], "0 ? Task: wakes 9\n10 7 Task: to 0 Blocked(Interruptible) 0\n"),
        // Behind a loss nothing is known either.
        (
            vec![switch(0, 0, 7), Tracepoint::Enter(NET_RX), lost(12, 3), waking(9), switch(8, 0x10, 0)],
            "0 0 Task: to 7 Runnable 0\n20 7 Task: lost 3 since 12\n30 ? Task: wakes 9\n40 8 Task: to 0 Dead 0\n",
        ),
        // The idle thread never waits, in any state.
        (vec![switch(0, 1, 7)], "0 0 Task: to 7 Runnable 0\n"),
    ] {
        assert_eq!(event_lines(Waking, records), lines);
    }
}

#[test]
fn a_thread_waits_in_the_system_call_whose_entry_was_seen_last() {
    let enter = |number, arg0| Tracepoint::Call { number, arg0, futex: None };
    // Each behind a switch to thread 7.
    for (records, lines) in [
        // On any CPU: a call is its thread's.
        (
            vec![enter(Some(0), Some(5)), switch(7, 0x100, 8), switch(8, 1, 7), switch(7, 1, 0)],
            "20 7 Task: to 8 Runnable 0\n\
             30 8 Task: to 7 Blocked(Interruptible) 0\n40 7 Task: to 0 Blocked(Interruptible) 0 in 0(5)\n",
        ),
        (
            vec![Tracepoint::Call { number: Some(202), arg0: Some(64), futex: Some(128) }, switch(7, 1, 0)],
            "20 7 Task: to 0 Blocked(Interruptible) 0 in 202(64) futex 128\n",
        ),
        // The call is over; it has no number; its end may be lost; its thread is dead.
        (
            vec![enter(Some(0), None), Tracepoint::CallEnd, switch(7, 2, 0)],
            "30 7 Task: to 0 Blocked(Uninterruptible) 0\n",
        ),
        (
            vec![enter(Some(0), None), enter(None, None), switch(7, 1, 0)],
            "30 7 Task: to 0 Blocked(Interruptible) 0\n",
        ),
        (
            vec![enter(Some(0), None), lost(12, 0), switch(7, 1, 0)],
            "20 7 Task: lost 0 since 12\n\
             30 7 Task: to 0 Blocked(Interruptible) 0\n",
        ),
        (
            vec![enter(Some(60), None), switch(7, 0x10, 0), switch(0, 0, 7), switch(7, 1, 0)],
            "20 7 Task: to 0 Dead 0\n30 0 Task: to 7 Runnable 0\n\
             40 7 Task: to 0 Blocked(Interruptible) 0\n",
        ),
        // The same while the thread had no CPU.
        (
            vec![enter(Some(0), None), switch(7, 1, 8), lost(25, 0), switch(8, 1, 7), switch(7, 1, 0)],
            "20 7 Task: to 8 Blocked(Interruptible) 0 in 0(-1)\n\
             30 8 Task: lost 0 since 25\n40 8 Task: to 7 Blocked(Interruptible) 0\n\
             50 7 Task: to 0 Blocked(Interruptible) 0\n",
        ),
        // A switch was lost: the call's thread is unknown.
        (
            vec![enter(Some(0), None), switch(8, 1, 7), switch(7, 1, 0)],
            "20 8 Task: to 7 Blocked(Interruptible) 0\n\
             30 7 Task: to 0 Blocked(Interruptible) 0\n",
        ),
        // An unrecorded argument.
        (
            vec![enter(Some(230), None), switch(7, 1, 0)],
            "20 7 Task: to 0 Blocked(Interruptible) 0 in 230(-1)\n",
        ),
    ] {
        let records = [switch(0, 0, 7)].into_iter().chain(records).collect();
        let lines = format!("0 0 Task: to 7 Runnable 0\n{lines}");
        assert_eq!(event_lines(WakeupBy::Waking, records), lines);
    }
}

#[test]
fn one_of_a_wake_ups_two_tracepoints_counts() {
    let both = || {
        vec![
            switch(0, 0, 7),
            waking(8),
            Tracepoint::Wakeup { target: Tid(8) },
            Tracepoint::WakeupNew { target: Tid(9) },
        ]
    };
    let of = |line: &str| format!("0 0 Task: to 7 Runnable 0\n{line}\n30 7 Task: wakes 9 new\n");
    assert_eq!(event_lines(WakeupBy::Waking, both()), of("10 7 Task: wakes 8"));
    assert_eq!(event_lines(WakeupBy::Wakeup, both()), of("20 7 Task: wakes 8"));
}

#[test]
fn threads_have_the_names_and_processes_that_births_and_switches_tell() {
    let fork = |child, tgid| Tracepoint::Fork {
        parent: Tid(7),
        child: Tid(child),
        child_tgid: tgid,
        child_ns_tid: None,
        comm: Comm::new(b"sh"),
    };
    let records = vec![
        switch(0, 0, 7),
        fork(8, Some(Tid(7))),
        fork(9, None),
        switch_to_named(7, 8, "sh"),
        Tracepoint::Exec { tid: Some(Tid(7)), old: Some(Tid(8)), path: b"/usr/bin/sleep" },
        switch_to_named(7, 9, "other"),
        switch_to_named(9, 7, "sleep"),
    ];
    assert_eq!(
        event_lines(WakeupBy::Waking, records),
        "0 0 Task: to 7 Runnable 0\n10 7 Task: forks 8 of 7 \"sh\"\n20 7 Task: forks 9 of 9 \"sh\"\n\
         30 7 Task: to 8 Blocked(Interruptible) 0\n40 7 Task: exec 8 \"sleep\"\n\
         50 7 Task: to 9 Blocked(Interruptible) 0\n50 9 Task: names 9 \"other\"\n\
         60 9 Task: to 7 Blocked(Interruptible) 0\n"
    );
}

#[test]
fn a_flow_and_an_interface_are_emitted_once() {
    let packet = |out, port| {
        Tracepoint::Packet(PacketHeader {
            out,
            interface: b"lo",
            source: IpAddr::V4(Ipv4Addr::LOCALHOST),
            target: IpAddr::V4(Ipv4Addr::LOCALHOST),
            protocol: 6,
            source_port: port,
            target_port: 80,
            seq: 1,
            ack: 2,
            len: 3,
            tcp_flags: 0x18,
        })
    };
    let records =
        vec![switch(0, 0, 7), packet(true, 9), Tracepoint::Enter(NET_RX), packet(false, 9), packet(false, 8)];
    assert_eq!(
        event_lines(WakeupBy::Waking, records),
        "0 0 Task: to 7 Runnable 0\n10 ? Task: flow 1 127.0.0.1:9 127.0.0.1:80\n10 ? Task: Interface 1 lo\n\
         10 7 Task: Out 3 of flow 1\n30 7 Softirq(NetRx): In 3 of flow 1\n\
         40 ? Task: flow 2 127.0.0.1:8 127.0.0.1:80\n40 7 Softirq(NetRx): In 3 of flow 2\n"
    );
}

#[test]
fn a_new_thread_can_run_from_its_fork_on_where_first_wake_ups_were_not_recorded() {
    let recorded = RecordedEvents { devices: true, softirqs: true, timers: true, first_wakeups: false };
    let mut normaliser = Normaliser::new("6.1.0", WakeupBy::Waking).with_events(recorded);
    let mut lines = String::new();
    for what in [switch(0, 0, 7), fork_of_8()] {
        let record = Record { at: Stamp::from_ns(10), cpu: Cpu(0), current: None, level: None, what };
        normaliser.push(&record, &mut |event| line(event, &mut lines));
    }
    assert!(lines.ends_with("7 Task: wakes 8 new\n"), "{lines}");
    assert_eq!(event_lines(WakeupBy::Waking, vec![switch(0, 0, 7), fork_of_8()]).matches("wakes").count(), 0);
}

/// A wake-up's context, by its tracepoint, the level in its head, and the surrounding interrupt in the trace; with a
/// request for all interrupts, all but timers, softirqs only, none, all but softirqs, all but devices.
#[test]
fn a_wake_up_in_an_interrupt_that_was_not_recorded_is_no_threads() {
    use Context::{
        Device, Softirq as Soft, Task, TaskOrUnrecorded as Either, Unrecorded, UnrecordedTimer as Timer,
    };
    let asked = |devices, softirqs, timers| RecordedEvents { devices, softirqs, timers, first_wakeups: true };
    let sets = [
        (true, true, true),
        (true, true, false),
        (false, true, false),
        (false, false, false),
        (true, false, true),
        (false, true, true),
    ];
    let device = Interrupt::Device(9, None);
    let net = Soft(Softirq::NetRx);
    let target = Tid(9);
    let (waking, wakeup) = (Tracepoint::Waking { target }, Tracepoint::Wakeup { target });
    for (what, level, around, expected) in [
        (&waking, None, None, [Task, Either, Either, Either, Either, Either]),
        (&waking, None, Some(NET_RX), [net; 6]),
        (&waking, None, Some(device), [Device; 6]),
        (&waking, Some(Level::Task), None, [Task; 6]),
        (&waking, Some(Level::Softirq), None, [Unrecorded; 6]),
        (&waking, Some(Level::Softirq), Some(NET_RX), [net; 6]),
        (
            &waking,
            Some(Level::Hard),
            None,
            [Unrecorded, Timer, Unrecorded, Unrecorded, Unrecorded, Unrecorded],
        ),
        (
            &waking,
            Some(Level::Hard),
            Some(NET_RX),
            [Unrecorded, Timer, Unrecorded, Unrecorded, Unrecorded, Unrecorded],
        ),
        (&waking, Some(Level::Hard), Some(device), [Device; 6]),
        // The tracepoint may be hit in the interrupt for another CPU's request.
        (&wakeup, Some(Level::Hard), None, [Unrecorded; 6]),
        (&wakeup, None, None, [Task, Either, Either, Either, Either, Either]),
    ] {
        let wakeup_by = if *what == waking { WakeupBy::Waking } else { WakeupBy::Wakeup };
        let found = sets.map(|(devices, softirqs, timers)| {
            let mut normaliser =
                Normaliser::new("6.1.0", wakeup_by).with_events(asked(devices, softirqs, timers));
            let mut found = None;
            let enters = around.map(Tracepoint::Enter);
            for what in [switch(0, 0, 7)].into_iter().chain(enters).chain([what.clone()]) {
                let record = Record { at: Stamp::from_ns(10), cpu: Cpu(0), current: None, level, what };
                normaliser.push(&record, &mut |event| found = Some(event.context));
            }
            found
        });
        assert_eq!(found, expected.map(Some), "{what:?}, {level:?} in {around:?}");
    }
}

#[test]
fn a_softirq_in_its_own_thread_interrupts_nothing() {
    let entered = |interrupt| [Tracepoint::Enter(interrupt), Tracepoint::Leave(interrupt)];
    for (name, taken) in [("ksoftirqd/0", 10), ("ksoftirqd", 20), ("sh", 20)] {
        let mut records = vec![switch_to_named(0, 7, name)];
        records.extend([NET_RX, TIMER].into_iter().flat_map(entered));
        records.push(switch(7, 1, 0));
        let lines = event_lines(WakeupBy::Waking, records);
        let last = format!("50 7 Task: to 0 Blocked(Interruptible) {taken}\n");
        assert!(lines.ends_with(&last), "{name}: {lines}");
    }
}

#[test]
fn a_thread_that_a_thread_of_the_kernel_makes_is_one_too() {
    let mut normaliser = Normaliser::new("6.1.0", WakeupBy::Waking);
    let mut made = Vec::new();
    for (parent, child) in [(2, 8), (8, 9), (7, 10), (10, 11)] {
        let (parent, child) = (Tid(parent), Tid(child));
        let what =
            Tracepoint::Fork { parent, child, child_tgid: None, child_ns_tid: None, comm: Comm::new(b"x") };
        let record = Record { at: Stamp::from_ns(10), cpu: Cpu(0), current: None, level: None, what };
        normaliser.push(&record, &mut |event| {
            if let EventKind::Fork { child } = &event.kind {
                made.push((child.tid.0, child.parent.0, child.kernel));
            }
        });
    }
    assert_eq!(made, [(8, 2, true), (9, 8, true), (10, 7, false), (11, 10, false)]);
}

#[test]
fn a_thread_with_another_name_stays_in_its_process_and_a_dead_one_takes_its_name_along() {
    let mut normaliser = Normaliser::new("6.1.0", WakeupBy::Waking);
    let fork = |parent, child, child_tgid| Tracepoint::Fork {
        parent: Tid(parent),
        child: Tid(child),
        child_tgid,
        child_ns_tid: None,
        comm: Comm::new(b"sh"),
    };
    let (mut parents, mut names) = (Vec::new(), Vec::new());
    for what in [
        fork(7, 8, Some(Tid(7))),
        switch_to_named(0, 8, "worker"),
        fork(8, 9, None),
        switch_to_named(8, 9, "sh"),
        Tracepoint::Exit { tid: Tid(9) },
        switch(9, 0x10, 0),
        switch_to_named(0, 9, "sh"),
    ] {
        let record = Record { at: Stamp::from_ns(10), cpu: Cpu(0), current: None, level: None, what };
        normaliser.push(&record, &mut |event| match &event.kind {
            EventKind::Fork { child } => parents.push((child.tid.0, child.parent.0)),
            EventKind::Rename { tid, comm } => names.push((tid.0, comm.lossy().into_owned())),
            _ => {}
        });
    }
    assert_eq!(parents, [(8, 7), (9, 7)]);
    assert_eq!(names, [(8, "worker".to_owned()), (9, "sh".to_owned())], "it is another one");
}

#[test]
fn an_interrupt_is_named_when_its_name_changes() {
    let names = [(5, "a"), (5, "a"), (5, "b"), (5, ""), (6, "b")];
    let named = |(irq, name): (u16, &'static str)| Tracepoint::InterruptName { irq, name: name.as_bytes() };
    assert_eq!(
        event_lines(WakeupBy::Waking, names.map(named).to_vec()),
        "0 ? Task: Interrupt 5 a\n20 ? Task: Interrupt 5 b\n40 ? Task: Interrupt 6 b\n"
    );
}

#[test]
fn a_later_record_may_name_the_thread_of_a_cpu() {
    let mut normaliser = Normaliser::new("6.1.0", WakeupBy::Waking);
    let mut lines = String::new();
    let mut push = |normaliser: &mut Normaliser, ns| {
        let record =
            Record { at: Stamp::from_ns(ns), cpu: Cpu(1), current: None, level: None, what: waking(9) };
        normaliser.push(&record, &mut |event| line(event, &mut lines));
    };
    assert!(normaliser.wants_current(Cpu(1)), "no record yet");
    push(&mut normaliser, 10);
    assert!(normaliser.wants_current(Cpu(1)));
    normaliser.set_current(Cpu(1), Tid(7));
    normaliser.set_current(Cpu::UNKNOWN, Tid(8));
    assert!(!normaliser.wants_current(Cpu(1)));
    assert!(normaliser.wants_current(Cpu(0)));
    push(&mut normaliser, 20);
    assert_eq!(lines, "10 ? Task: wakes 9\n20 7 Task: wakes 9\n");
}

/// A CPU may be in an interrupt of each kind when recording begins; more than eight on each are doubtful. So are
/// wake-ups recorded on the sleeper's CPU.
#[test]
fn a_trace_of_half_interrupts_or_of_late_wake_ups_is_doubtful() {
    let doubts = |wakeup_by, records: Vec<Tracepoint<'static>>| {
        let mut normaliser = Normaliser::new("6.1.0", wakeup_by);
        for (index, what) in records.into_iter().enumerate() {
            let cpu = Cpu(index as u16 % 2);
            let record = Record { at: Stamp::from_ns(10), cpu, current: None, level: None, what };
            normaliser.push(&record, &mut |_| ());
        }
        let doubts = normaliser.doubts(Path::new("/traces/one"), 2);
        doubts.map(|damage| (damage.file, damage.kind)).collect::<Vec<_>>()
    };
    let exits = |count| vec![Tracepoint::Leave(NET_RX); count];
    assert_eq!(doubts(WakeupBy::Waking, exits(16)), []);
    let kinds =
        |wakeup_by, records| doubts(wakeup_by, records).into_iter().map(|(_, kind)| kind).collect::<Vec<_>>();
    assert_eq!(kinds(WakeupBy::Waking, exits(17)), [DamageKind::UnmatchedInterrupts(17)]);
    // A tracer switches its tracepoints on one after the other: the softirqs' entries were not on yet.
    let [enter, leave] = [Tracepoint::Enter(NET_RX), Tracepoint::Leave(NET_RX)];
    let both = [enter.clone(), enter, leave.clone(), leave];
    let begun = |behind| [exits(40), both.to_vec(), exits(behind)].concat();
    assert_eq!(kinds(WakeupBy::Waking, begun(16)), []);
    assert_eq!(kinds(WakeupBy::Waking, begun(18)), [DamageKind::UnmatchedInterrupts(18)]);
    assert_eq!(kinds(WakeupBy::Wakeup, vec![]), [DamageKind::NoWakings]);
    let woken = |count| [exits(count), vec![Tracepoint::Wakeup { target: Tid(8) }]].concat();
    assert_eq!(kinds(WakeupBy::Wakeup, woken(16)), [DamageKind::LateWakings]);
    assert_eq!(
        kinds(WakeupBy::Wakeup, woken(17)),
        [DamageKind::LateWakings, DamageKind::UnmatchedInterrupts(17)]
    );
}

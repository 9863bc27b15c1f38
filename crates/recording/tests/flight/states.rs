//! Threads' and CPUs' states at a window's beginning, from traces as text: a row for each rule.

use std::collections::{BTreeMap, HashMap};

use wakepath_event::Call;
use wakepath_kernel_records::{Header, Kind};
use wakepath_recording::Writer;
use wakepath_scenario::text::parse;

use super::*;

/// The window's beginning and end, ns.
const FROM: u64 = 1000;
const TO: u64 = 2000;

/// The window's events in a trace, right before its beginning and later.
fn window(trace: &str) -> (Vec<Event>, Vec<Event>) {
    let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
    let encoder = Encoder::for_release(RELEASE);
    let mut numbers: HashMap<Cpu, u16> = HashMap::new();
    for event in parse(trace).expect("a trace").events {
        let mut record = Vec::new();
        let number = numbers.entry(event.cpu).or_default();
        encoder.encode(&event, *number, &mut record).expect("a record");
        let kind = Header::read(&record).and_then(|header| Kind::from_number(header.kind)).expect("a kind");
        match Buffer::ALL.into_iter().find(|buffer| buffer.holds(kind)).expect("a buffer") {
            Buffer::Sched => {
                *number += 1;
                flight.packet(Buffer::Sched, event.cpu, &record, 0);
            }
            Buffer::Net => flight.packet(Buffer::Net, event.cpu, &record, 0),
            Buffer::Life => flight.event(&event).expect("an event"),
        }
    }
    flight.cut(FROM);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("kept");
    let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
    flight.write(&mut writer, TO).expect("room");
    drop(writer);
    let mut events = Vec::new();
    let problems =
        Recording::open(&path).expect("a recording").read(|event| events.push(event.clone()), |_| {});
    assert!(problems.is_empty(), "{problems:?}");
    events.into_iter().partition(|event| event.at.ns() < FROM)
}

fn shown(call: Option<Call>) -> String {
    call.map_or(String::new(), |call| match call.arg0 {
        Call::NO_ARGUMENT => format!(" {}", call.number),
        argument => format!(" {}:{argument}", call.number),
    })
}

/// The states at the window's beginning, a line each: threads, then CPUs.
fn states(trace: &str) -> String {
    let (before, _) = window(trace);
    let mut names = BTreeMap::from([(Tid::IDLE, "idle".to_owned())]);
    for event in &before {
        if let EventKind::Thread { identity, .. } | EventKind::Fork { child: identity } = &event.kind {
            names.insert(identity.tid, identity.comm.lossy().into_owned());
        }
    }
    let name = |tid: Tid| names.get(&tid).cloned().unwrap_or_else(|| format!("#{}", tid.0));
    let mut lines = Vec::new();
    for event in &before {
        let current = name(event.current);
        let line = match &event.kind {
            EventKind::Thread { blocked: Some(how), call, .. } => {
                format!("{current} {how:?}{}", shown(*call))
            }
            EventKind::Thread { .. } if event.at.ns() == FROM - 2 => format!("{current} unknown"),
            EventKind::Thread { .. } => format!("{current} ready"),
            EventKind::Fork { child } => format!("{} born of {current}", name(child.tid)),
            EventKind::LockBegin(lock) => format!("{current} lock {:#x}", lock.address),
            EventKind::Blocked(call) => format!("{current} in{}", shown(Some(*call))),
            EventKind::Waking { target, irq, .. } => {
                format!("{} woken by {:?} {irq}", name(*target), event.context)
            }
            EventKind::Switch { next, out, call, .. } => {
                format!("c{}: {current} {out:?}{} to {}", event.cpu.0, shown(*call), name(*next))
            }
            EventKind::Current => format!("c{}: {current}", event.cpu.0),
            EventKind::Mark(Mark::Started) => continue,
            other => panic!("{other:?}"),
        };
        lines.push(line);
    }
    lines.join("; ")
}

/// Checks traces with a common beginning.
#[track_caller]
fn check(beginning: &str, rows: &[(&str, &str)]) {
    for (trace, expected) in rows {
        let got = states(&format!("{beginning}\n{trace}"));
        assert_eq!(got, *expected, "{trace}");
    }
}

/// Waiting threads, and CPUs whose thread is known.
const ASLEEP: &str = "
    thread A tid=10 blocked
    thread B tid=11 blocked
    thread C tid=12 blocked
    0 c0 idle started
    1 c0 idle sample
    1 c1 idle sample";

#[test]
fn a_thread_without_a_wait_in_a_snapshot_is_ready_only_once_all_sources_are_recorded() {
    check(
        "",
        &[
            ("thread A tid=10", "A unknown"),
            ("thread A tid=10 blocked", "A Interruptible"),
            ("thread A tid=10 blocked call=0:3", "A Interruptible 0; A in 0"),
            ("thread A tid=10 blocked=uninterruptible", "A Uninterruptible"),
            ("0 c0 idle started\n thread A tid=10", "A ready"),
            ("5 c0 idle started\n thread A tid=10 at=4", "A unknown"),
            ("5 c0 idle started\n thread A tid=10 at=5", "A ready"),
            ("5 c0 idle started\n thread A tid=10 at=6", "A ready"),
            ("5 c0 idle started\n thread A tid=10 at=6 blocked", "A Interruptible"),
        ],
    );
}

#[test]
fn a_second_snapshot_of_a_thread_adds_a_state_only_where_none_is_known() {
    check(
        "thread A tid=10 start=3",
        &[
            ("thread A tid=10 start=3 blocked", "A Interruptible"),
            ("5 c0 A sample\n thread A tid=10 start=3 blocked at=6", "A ready; c0: A"),
            // Another thread has the number.
            ("5 c0 A sample\n thread Z tid=10 start=4 blocked at=6", "Z Interruptible"),
            ("5 c0 #77 sample\n thread Z tid=77 start=4 blocked at=6", "A unknown; Z ready; c0: Z"),
        ],
    );
}

#[test]
fn a_thread_that_left_its_cpu_waits_as_its_switch_says() {
    check(
        ASLEEP,
        &[
            ("10 c0 idle switch A", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            (
                "10 c0 idle switch A\n 20 c0 A switch B",
                "A ready; B ready; C Interruptible; c0: A Runnable to B; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A switch B\n 30 c0 B switch C\n 40 c0 C switch idle",
                "A ready; B ready; C ready; c0: A Runnable to B; c0: B Runnable to C; c0: C Runnable to idle; c0: idle; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 10 c1 idle switch B\n 20 c0 A switch C\n 30 c1 B switch idle",
                "A ready; B ready; C ready; c0: A Runnable to C; c0: C; c1: B Runnable to idle; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A switch B throttled",
                "A ready; B ready; C Interruptible; c0: A Throttled to B; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A switch B throttled\n 21 c1 idle refill",
                "A ready; B ready; C Interruptible; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 19 c1 idle refill\n 20 c0 A switch B throttled",
                "A ready; B ready; C Interruptible; c0: A Throttled to B; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle refill\n 20 c0 A switch B throttled",
                "A ready; B ready; C Interruptible; c0: A Throttled to B; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A switch B blocked call=0:3",
                "A Interruptible 0; B ready; C Interruptible; A in 0:3; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A switch B blocked=uninterruptible",
                "A Uninterruptible; B ready; C Interruptible; c0: B; c1: idle",
            ),
            ("10 c0 idle switch A\n 20 c0 A switch B dead", "B ready; C Interruptible; c0: B; c1: idle"),
            (
                "10 c0 idle switch A\n 20 c0 A switch A blocked",
                "A ready; B Interruptible; C Interruptible; c0: A; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A switch idle\n 30 c1 idle switch A",
                "A ready; B Interruptible; C Interruptible; c0: idle; c1: A",
            ),
            ("10 c0 idle switch A\n 20 c1 idle switch A", "A ready; B Interruptible; C Interruptible; c1: A"),
        ],
    );
}

#[test]
fn a_wake_up_makes_a_waiting_thread_ready_and_a_running_one_skip_its_next_wait() {
    check(
        ASLEEP,
        &[
            ("10 c1 idle/timer waking A", "A ready; B Interruptible; C Interruptible; c0: idle; c1: idle"),
            // Before it waits.
            (
                "10 c0 idle switch A\n 20 c1 idle/timer waking A irq=5",
                "A ready; B Interruptible; C Interruptible; A woken by LocalTimer 5; c0: A; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle/timer waking A irq=5\n 30 c0 A switch B",
                "A ready; B ready; C Interruptible; A woken by LocalTimer 5; c0: A Runnable to B; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle/timer waking A irq=5\n 30 c0 A switch B blocked call=0:3",
                "A ready; B ready; C Interruptible; A woken by LocalTimer 5; c0: A Blocked(Interruptible) 0:3 to B; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle/timer waking A\n 30 c0 A switch B blocked\n 40 c0 idle loss from=35",
                "B unknown; A Interruptible; C Interruptible; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle/timer waking A\n 30 c0 A switch B blocked\n 40 c1 idle loss from=35",
                "A ready; B ready; C Interruptible; A woken by LocalTimer 0; c0: A Blocked(Interruptible) to B; c0: B",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle/timer waking A\n 30 c0 A switch B blocked\n 40 c1 idle waking A",
                "A ready; B ready; C Interruptible; A woken by LocalTimer 0; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle/timer waking A\n 30 c0 A switch B blocked\n 40 c0 B switch A",
                "A ready; B ready; C Interruptible; c0: B Runnable to A; c0: A; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle/timer waking A\n 30 c0 A switch B blocked\n 40 c0 B switch C blocked",
                "A ready; B Interruptible; C ready; A woken by LocalTimer 0; c0: A Blocked(Interruptible) to C; c0: C; c1: idle",
            ),
            // It waits for a CPU already.
            (
                "10 c1 idle waking A\n 20 c1 idle waking A",
                "A ready; B Interruptible; C Interruptible; A woken by Task 0; c0: idle; c1: idle",
            ),
            (
                "10 c1 idle waking A\n 20 c1 idle waking A\n 30 c0 idle switch A",
                "A ready; B Interruptible; C Interruptible; c0: A; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A switch B\n 30 c1 idle waking A",
                "A ready; B ready; C Interruptible; c0: A Runnable to B; c0: B; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A switch B throttled\n 30 c1 idle waking A",
                "A ready; B ready; C Interruptible; c0: A Throttled to B; c0: B; c1: idle",
            ),
            ("10 c0 A waking idle", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            (
                "10 c0 A waking #77\n 20 c0 A fork Z tid=77 start=5",
                "A ready; B Interruptible; C Interruptible; Z born of A; c0: A; c1: idle",
            ),
        ],
    );
}

#[test]
fn a_newborn_thread_is_ready_from_its_first_wake_up_on() {
    check(
        ASLEEP,
        &[
            (
                "10 c0 A fork Z tid=77",
                "A ready; B Interruptible; C Interruptible; Z born of A; c0: A; c1: idle",
            ),
            (
                "10 c0 A fork Z tid=77\n 20 c0 A waking Z newborn",
                "A ready; B Interruptible; C Interruptible; Z ready; c0: A; c1: idle",
            ),
            (
                "10 c0 A fork Z tid=77\n 20 c0 A waking Z",
                "A ready; B Interruptible; C Interruptible; Z ready; c0: A; c1: idle",
            ),
            (
                "10 c0 A fork Z tid=77\n 20 c1 idle switch Z",
                "A ready; B Interruptible; C Interruptible; Z ready; c0: A; c1: Z",
            ),
            // These threads had another thread's number, and their forks have no record.
            ("10 c0 A waking B newborn", "A ready; C Interruptible; c0: A; c1: idle"),
            (
                "10 c0 idle switch A\n 10 c1 idle switch B\n 20 c0 A waking B newborn",
                "A ready; C Interruptible; c0: A",
            ),
            (
                "10 c1 idle switch B\n 20 c1 B switch C\n 30 c0 A waking B newborn",
                "A ready; C ready; c0: A; c1: C",
            ),
            (
                "10 c1 idle switch B\n 20 c1 B switch C throttled\n 30 c0 A waking B newborn",
                "A ready; C ready; c0: A; c1: C",
            ),
            (
                "10 c0 A waking B\n 20 c0 A waking B newborn",
                "A ready; B ready; C Interruptible; c0: A; c1: idle",
            ),
            (
                "10 c0 A fork Z tid=11 start=9\n 20 c0 A waking Z newborn",
                "A ready; Z ready; C Interruptible; c0: A; c1: idle",
            ),
        ],
    );
}

#[test]
fn a_move_between_run_queues_holds_for_threads_in_one_alone() {
    let preempted = format!("{ASLEEP}\n 10 c0 idle switch A\n 20 c0 A switch B");
    check(
        &preempted,
        &[
            ("", "A ready; B ready; C Interruptible; c0: A Runnable to B; c0: B; c1: idle"),
            (
                "30 c1 idle migrate A c0 c1",
                "A ready; B ready; C Interruptible; c0: B; c1: A Runnable to idle; c1: idle",
            ),
            (
                "30 c1 idle migrate C c0 c1",
                "A ready; B ready; C Interruptible; c0: A Runnable to B; c0: B; c1: idle",
            ),
            (
                "30 c1 idle migrate B c0 c1",
                "A ready; B ready; C Interruptible; c0: A Runnable to B; c0: B; c1: idle",
            ),
            (
                "30 c1 idle migrate #77 c0 c1",
                "A ready; B ready; C Interruptible; c0: A Runnable to B; c0: B; c1: idle",
            ),
            (
                "30 c1 idle waking C\n 40 c1 idle migrate C c0 c1",
                "A ready; B ready; C ready; c0: A Runnable to B; c0: B; c1: C Runnable to idle; c1: idle",
            ),
            (
                "30 c0 B switch C throttled\n 40 c1 idle migrate B c0 c1",
                "A ready; B ready; C ready; c0: A Runnable to B; c0: B Throttled to C; c0: C; c1: idle",
            ),
            (
                "30 c0 B switch C throttled\n 35 c1 idle refill\n 40 c1 idle migrate B c0 c1",
                "A ready; B ready; C ready; c0: A Runnable to C; c0: C; c1: B Runnable to idle; c1: idle",
            ),
        ],
    );
}

#[test]
fn a_call_that_goes_on_after_a_signal_is_the_call_before_it() {
    let begins = format!(
        "{ASLEEP}\n 10 c0 idle switch A\n 20 c0 A switch idle blocked call=0:3\n 30 c0 idle switch A"
    );
    check(
        &begins,
        &[
            (
                "40 c0 A switch idle blocked call=219:3",
                "A Interruptible 0; B Interruptible; C Interruptible; A in 0:3; c0: idle; c1: idle",
            ),
            (
                "40 c0 A switch idle blocked call=219:4",
                "A Interruptible 219; B Interruptible; C Interruptible; A in 219:4; c0: idle; c1: idle",
            ),
            (
                "40 c0 A switch idle blocked call=219:18446744073709551615",
                "A Interruptible 0; B Interruptible; C Interruptible; A in 0:3; c0: idle; c1: idle",
            ),
            (
                "40 c0 A switch idle blocked call=1:3",
                "A Interruptible 1; B Interruptible; C Interruptible; A in 1:3; c0: idle; c1: idle",
            ),
            (
                "40 c0 A switch idle blocked",
                "A Interruptible; B Interruptible; C Interruptible; c0: idle; c1: idle",
            ),
            (
                "40 c0 A switch idle blocked\n 50 c0 idle switch A\n 60 c0 A switch idle blocked call=219:3",
                "A Interruptible 219; B Interruptible; C Interruptible; A in 219:3; c0: idle; c1: idle",
            ),
        ],
    );
    check(
        ASLEEP,
        &[
            (
                "10 c0 idle switch A\n 20 c0 A switch idle blocked call=0:18446744073709551615\n 30 c0 idle switch A\n 40 c0 A switch idle blocked call=219:3",
                "A Interruptible 0; B Interruptible; C Interruptible; A in 0; c0: idle; c1: idle",
            ),
            // The wait began before the snapshot.
            (
                "10 c0 A blocked call=0:3",
                "A Interruptible 0; B Interruptible; C Interruptible; A in 0:3; c0: idle; c1: idle",
            ),
            (
                "10 c0 A blocked call=0:3\n 20 c1 idle waking A\n 30 c0 idle switch A\n 40 c0 A switch idle blocked call=219:3",
                "A Interruptible 0; B Interruptible; C Interruptible; A in 0:3; c0: idle; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c0 A blocked call=0:3",
                "A ready; B Interruptible; C Interruptible; c0: A; c1: idle",
            ),
        ],
    );
}

#[test]
fn a_record_shows_the_thread_on_its_cpu_unless_it_may_come_after_the_thread_has_left() {
    check(
        ASLEEP,
        &[
            ("10 c0 A sample", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            ("10 c0 A exit", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            ("10 c0 A unlock 0x100", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            (
                "10 c0 A lock 0x100",
                "A ready; B Interruptible; C Interruptible; A lock 0x100; c0: A; c1: idle",
            ),
            ("10 c0 A complete 5", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            ("10 c0 A refill", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            ("10 c0 A signal 15", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            ("10 c0 A waking B", "A ready; B ready; C Interruptible; c0: A; c1: idle"),
            ("10 c0 A switch B", "A ready; B ready; C Interruptible; c0: A Runnable to B; c0: B; c1: idle"),
            ("10 c0 A migrate B c1 c0", "A ready; B Interruptible; C Interruptible; c0: A; c1: idle"),
            ("10 c0 A stolen 5", "A Interruptible; B Interruptible; C Interruptible; c0: idle; c1: idle"),
            (
                "10 c0 A called 1 from=5",
                "A Interruptible; B Interruptible; C Interruptible; c0: idle; c1: idle",
            ),
            (
                "10 c0 A blocked call=0:3",
                "A Interruptible 0; B Interruptible; C Interruptible; A in 0:3; c0: idle; c1: idle",
            ),
            ("10 c0 A rename B B", "A Interruptible; B Interruptible; C Interruptible; c0: idle; c1: idle"),
            ("10 c? A signal 15", "A Interruptible; B Interruptible; C Interruptible; c0: idle; c1: idle"),
            ("10 c? A exit", "A Interruptible; B Interruptible; C Interruptible; c0: idle; c1: idle"),
            ("10 c0 A sample\n 20 c0 B sample", "A unknown; B ready; C Interruptible; c0: B; c1: idle"),
            (
                "10 c0 A sample\n 15 c0 A lock 0x100\n 20 c0 idle sample",
                "A unknown; B Interruptible; C Interruptible; c0: idle; c1: idle",
            ),
            (
                "10 c0 idle switch A\n 20 c1 idle waking A\n 30 c0 B sample",
                "A unknown; B ready; C Interruptible; c0: B; c1: idle",
            ),
            ("10 c9 A sample", "A ready; B Interruptible; C Interruptible; c0: idle; c1: idle; c9: A"),
        ],
    );
}

#[test]
fn behind_a_loss_on_its_cpu_nothing_is_known_of_a_thread() {
    let runs = format!("{ASLEEP}\n 10 c0 idle switch A\n 15 c0 A lock 0x100\n 20 c1 idle waking A");
    check(
        &runs,
        &[
            (
                "",
                "A ready; B Interruptible; C Interruptible; A lock 0x100; A woken by Task 0; c0: A; c1: idle",
            ),
            ("30 c0 idle loss from=25", "A unknown; B Interruptible; C Interruptible; c1: idle"),
            (
                "30 c1 idle loss from=25",
                "A ready; B Interruptible; C Interruptible; A lock 0x100; A woken by Task 0; c0: A",
            ),
            (
                "30 c? idle loss from=25",
                "A ready; B Interruptible; C Interruptible; A lock 0x100; A woken by Task 0; c0: A; c1: idle",
            ),
            (
                "30 c9 idle loss from=25",
                "A ready; B Interruptible; C Interruptible; A lock 0x100; A woken by Task 0; c0: A; c1: idle",
            ),
            (
                "30 c0 idle loss from=25\n 40 c0 A sample",
                "A ready; B Interruptible; C Interruptible; c0: A; c1: idle",
            ),
            (
                "30 c0 idle loss from=25\n 40 c1 idle waking A",
                "A ready; B Interruptible; C Interruptible; c1: idle",
            ),
        ],
    );
}

#[test]
fn an_executing_thread_takes_the_tid_of_its_leader_also_where_the_record_of_that_is_missing() {
    let threads = "
        thread A tid=10 blocked
        thread P tid=11 tgid=10 ns=5/4 blocked
        thread Q tid=12 tgid=10 blocked
        thread Z tid=13 blocked
        0 c0 idle started
        1 c1 idle sample
        10 c0 idle switch P";
    check(
        threads,
        &[
            (
                "15 c1 A exit\n 16 c1 A switch idle dead\n 20 c0 A exec next from=P",
                "next ready; Q Interruptible; Z Interruptible; c0: next; c1: idle",
            ),
            (
                "15 c1 A exit\n 20 c0 A exec next from=P",
                "next ready; A ready; Q Interruptible; Z Interruptible; c0: next; c1: A",
            ),
            (
                "15 c1 A exit\n 20 c0 A sample",
                "P ready; A ready; Q Interruptible; Z Interruptible; c0: P; c1: A",
            ),
            (
                "15 c1 A exit\n 16 c1 A switch idle dead\n 20 c0 A sample",
                "P ready; Q Interruptible; Z Interruptible; c0: P; c1: idle",
            ),
            ("20 c0 A sample", "P unknown; A ready; Q Interruptible; Z Interruptible; c0: A; c1: idle"),
            (
                "15 c1 A exit\n 16 c0 P exit\n 20 c0 A sample",
                "P unknown; A ready; Q Interruptible; Z Interruptible; c0: A",
            ),
            (
                "15 c1 A exit\n 16 c0 P switch Z blocked\n 20 c0 A sample",
                "Z unknown; A ready; P Interruptible; Q Interruptible; c0: A",
            ),
            (
                "20 c0 P exec next",
                "A Interruptible; next ready; Q Interruptible; Z Interruptible; c0: next; c1: idle",
            ),
        ],
    );
}

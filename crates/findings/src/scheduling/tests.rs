//! Reasons for waits for a CPU, in traces drawn as text.

use wakepath_critical_path::{Timeouts, Window, active_by};
use wakepath_event::{CgroupId, Event, EventKind, NameSpace};
use wakepath_loaded::Recorded;
use wakepath_loaded::testing::{event, read};

use super::*;
use crate::{LastWaits, PathFindings};

/// From 10 to 90, `app` waits while `batch` has CPU 0; CPU 1 is idle until 40, then `other` has it.
const TRACE: &str = "thread app tid=7
    thread batch tid=8
    thread other tid=9
    0 c0 idle switch app
    0 c1 other switch idle blocked
    10 c0 app switch batch
    40 c1 idle switch other
    90 c0 batch switch app
    100 c0 app switch idle blocked
    100 c1 other switch idle blocked";

/// A look at a thread: its time, the thread, and what was found. Thread 0: all were looked at.
type Look<'a> = (u64, u64, &'a str);

fn recorded(looks: &[Look<'_>], more: Option<Event>) -> Recorded {
    let mut events = wakepath_scenario::text::parse(TRACE).expect("a trace").events;
    let look = |&(at, tid, text): &Look<'_>| {
        let text = text.replacen(" policy", " priority 0 policy", 1);
        event(at, 0, 1, EventKind::Name(NameSpace::Scheduling, tid, text.into_bytes().into()))
    };
    events.extend(looks.iter().map(look).chain(more));
    events.sort_by_key(|event| event.at);
    read(&events)
}

fn reasons_of(recorded: &Recorded) -> CpuReasons {
    let [from, to] = [0, 100].map(Stamp::from_ns);
    let path = active_by(recorded.graph(), Window { thread: ThreadIndex(0), from, to }, Timeouts::AsTheyAre);
    let (stacks, sampled) = Default::default();
    let evidence = Evidence { recorded, path: &path, stacks: &stacks, sampled: &sampled };
    let found = PathFindings::new(&evidence, LastWaits::default(), None);
    for finding in found.rows.iter().filter(|finding| finding.key != RowKey::Cpu) {
        assert_eq!(finding.cpu, CpuReasons::default());
    }
    let cpu = found.rows.iter().find(|finding| finding.key == RowKey::Cpu).expect("a wait for a CPU");
    cpu.cpu.clone()
}

/// The reasons where all threads were looked at before and behind the trace, and at some threads also for themselves.
fn reasons(looks: &[Look<'_>]) -> CpuReasons {
    let all = [(0, 0, ""), (100, 0, "")];
    reasons_of(&recorded(&[&all[..], looks].concat(), None))
}

/// The nice values of both sides, if others had precedence, with equal looks at both at the beginning and the end.
fn nice(app: &str, batch: &str) -> Option<(i8, i8)> {
    let behind = precedence(app, batch)?;
    Some((behind.own.nice, behind.others.nice))
}

fn precedence(app: &str, batch: &str) -> Option<Behind> {
    let looks = [(0, 7, app), (0, 8, batch), (100, 7, app), (100, 8, batch)];
    let looks: Vec<_> = looks.into_iter().filter(|(.., text)| !text.is_empty()).collect();
    reasons(&looks).behind
}

#[test]
fn a_higher_nice_value_is_a_reason_and_an_equal_or_lower_one_is_none() {
    let behind = precedence("nice 19 policy 0", "nice 0 policy 0").expect("a reason");
    assert_eq!((behind.ns, behind.own.nice, behind.others.nice), (80, 19, 0));
    assert_eq!(behind.waiters, BTreeSet::from([Comm::new(b"app")]));
    let had: Vec<_> = behind.had.iter().map(|(name, of)| (name.comm, of.clone())).collect();
    assert_eq!(had, [(Comm::new(b"batch"), BTreeSet::from([Tid(8)]))]);
    assert_eq!(nice("nice 19 policy 0", ""), Some((19, 0)), "an ordinary thread has no looks");
    assert_eq!(nice("", "nice -5 policy 0"), Some((0, -5)));
    for (app, batch) in [
        ("", ""),
        ("nice 19 policy 0", "nice 19 policy 0"),
        ("nice 0 policy 0", "nice 19 policy 0"),
        ("", "nice 19 policy 0"),
        ("nice -5 policy 0", ""),
        // Batch threads share the CPU as others do; idle ones whatever their nice value.
        ("nice 0 policy 3", "nice 0 policy 0"),
        ("nice 19 policy 5", "nice 0 policy 5"),
    ] {
        assert_eq!(nice(app, batch), None, "{app} {batch}");
    }
}

#[test]
fn a_class_goes_before_another_and_real_time_threads_go_by_priority() {
    use SchedulingClass::{Deadline, Fifo, Idle, Other, RoundRobin};
    let classes = |app, batch| precedence(app, batch).map(|behind| (behind.own.class, behind.others.class));
    assert_eq!(classes("nice 0 policy 5", "nice 19 policy 0"), Some((Idle, Other)));
    assert_eq!(classes("nice -20 policy 0", "nice 0 policy 1"), Some((Other, Fifo)));
    assert_eq!(classes("nice 0 policy 2", "nice 0 policy 6"), Some((RoundRobin, Deadline)));
    for (app, batch) in [
        ("nice 0 policy 1", "nice 0 policy 0"),
        ("nice 0 policy 0", "nice 0 policy 5"),
        // An unknown class, and equal priorities.
        ("nice 0 policy 0", "nice 0 policy 9"),
        ("nice 0 policy 9", "nice 0 policy 1"),
        ("nice 0 policy 1", "nice 0 policy 2"),
        ("nice 0 policy 6", "nice 0 policy 6"),
    ] {
        assert_eq!(classes(app, batch), None, "{app} {batch}");
    }
    let standing = |priority| Standing { class: Fifo, nice: 0, priority };
    assert_eq!(standing(1).is_behind(standing(2)), Some(true));
    assert_eq!(standing(2).is_behind(standing(1)), None);
}

#[test]
fn nice_values_count_only_between_threads_that_share_the_cpu() {
    let with = |nice: i8, session: u32| match session {
        0 => format!("nice {nice} policy 0"),
        session => format!("nice {nice} policy 0 autogroup {session}"),
    };
    let between = |app: u32, batch: u32| nice(&with(19, app), &with(0, batch));
    assert_eq!(between(3, 3), Some((19, 0)));
    assert_eq!([between(3, 4), between(0, 4), between(3, 0)], [None; 3]);
    // The session of a thread without looks is not known, and may be another, if there are sessions.
    assert_eq!(nice(&with(19, 3), ""), None);
    let elsewhere =
        [(0, 9, "nice 0 policy 0 autogroup 5"), (0, 7, "nice 19 policy 0"), (100, 7, "nice 19 policy 0")];
    assert_eq!(reasons(&elsewhere).behind, None);
    // A real-time thread goes before all.
    let absolute = precedence(&with(0, 3), "nice 0 policy 1 autogroup 4");
    assert_eq!(absolute.map(|behind| behind.ns), Some(80));
    let idle = precedence("nice 0 policy 5 autogroup 3", "nice 0 policy 0 autogroup 4");
    assert_eq!(idle, None, "an idle class counts among those that share");
}

#[test]
fn nice_values_do_not_count_between_cgroups_with_shares_of_the_cpu() {
    let looks = [(0, 0, ""), (0, 7, "nice 19 policy 0"), (100, 0, ""), (100, 7, "nice 19 policy 0")];
    let moved = |cpu_cgroup| {
        let moved = EventKind::Move {
            tid: Tid(8),
            tgid: Tid(8),
            cgroup: CgroupId(1),
            cpu_cgroup: CgroupId(cpu_cgroup),
            whole: true,
        };
        reasons_of(&recorded(&looks, Some(event(1, 0, 1, moved)))).behind.map(|behind| behind.ns)
    };
    let own = recorded(&looks, None).thread_at(ThreadIndex(0), Stamp::from_ns(50)).cpu_cgroup;
    assert_eq!((moved(own.0), moved(own.0 + 1)), (Some(80), None));
}

#[test]
fn the_recorders_precedence_is_no_reason() {
    let looks = [(0, 0, ""), (0, 8, "nice -5 policy 0"), (100, 0, ""), (100, 8, "nice -5 policy 0")];
    let observer = |tid| event(0, 0, 1, EventKind::Mark(wakepath_event::Mark::Observer(Tid(tid))));
    assert_eq!(reasons_of(&recorded(&looks, Some(observer(8)))).behind, None);
    assert!(reasons_of(&recorded(&looks, Some(observer(9)))).behind.is_some());
}

#[test]
fn what_changed_during_a_wait_is_a_reason_from_the_next_look_on() {
    let behind = |looks: &[Look<'_>]| reasons(looks).behind.map(|behind| (behind.ns, behind.others.class));
    let (own, fifo) = ("nice 0 policy 0 cpus 0 by affinity", "nice 0 policy 1 cpus 0 by affinity");
    let fifo_from = |at| behind(&[(0, 8, own), (at, 8, fifo), (100, 8, fifo)]);
    assert_eq!(fifo_from(30), Some((60, SchedulingClass::Fifo)));
    assert_eq!(fifo_from(50), None, "half is not most");
    // The waiting thread's own CPUs may have changed meanwhile.
    assert_eq!(
        behind(&[(0, 7, "nice 0 policy 0"), (0, 8, fifo), (100, 7, own), (100, 8, fifo)]),
        Some((80, SchedulingClass::Fifo))
    );
    let idle = "nice 0 policy 5";
    assert_eq!(behind(&[(0, 7, own), (30, 7, idle), (100, 7, idle)]), Some((60, SchedulingClass::Other)));
}

#[test]
fn what_changed_meanwhile_or_was_not_looked_at_twice_is_no_reason() {
    let nice = |looks: &[Look<'_>]| reasons(looks).behind.map(|behind| behind.ns);
    let (high, low) = ("nice 19 policy 0", "nice 0 policy 0");
    assert_eq!(nice(&[(0, 7, high), (100, 7, high)]), Some(80));
    assert_eq!(nice(&[(0, 7, high), (100, 7, low)]), None);
    assert_eq!(nice(&[(0, 7, low), (100, 7, high)]), None);
    assert_eq!(nice(&[(0, 7, high)]), None);
    assert_eq!(
        nice(&[(0, 7, high), (100, 7, high), (50, 8, "nice 5 policy 0")]),
        None,
        "what was it before?"
    );
    assert_eq!(
        reasons_of(&recorded(&[(0, 7, high), (100, 7, high)], None)).behind,
        None,
        "others were not looked at"
    );
    assert_eq!(reasons_of(&recorded(&[], None)), CpuReasons::default());
}

/// The allowed CPUs' time and the idle time of others, with these looks at the waiting thread.
fn confined(text: &str) -> Option<(u64, u64)> {
    let reasons = reasons(&[(0, 7, text), (100, 7, text)]);
    let confined = reasons.confined?;
    assert_eq!(confined.waiters, BTreeSet::from([Comm::new(b"app")]));
    Some((confined.ns, confined.idle_ns))
}

#[test]
fn a_thread_that_might_not_run_elsewhere_has_the_time_in_which_another_cpu_was_idle() {
    assert_eq!(confined("nice 0 policy 0 cpus 0 by affinity"), Some((80, 30)));
    assert_eq!(confined("nice 0 policy 0 cpus 0-1"), Some((80, 0)), "of both recorded CPUs");
    assert_eq!(confined("nice 0 policy 0"), None);
    // From the look on that finds it.
    let (all, one) = ("nice 1 policy 0", "nice 1 policy 0 cpus 0 by affinity");
    let changed = reasons(&[(0, 7, all), (30, 7, one), (100, 7, one)]).confined.expect("a reason");
    assert_eq!((changed.ns, changed.idle_ns), (60, 10));
    let other = "nice 0 policy 0 cpus 1 by affinity";
    assert_eq!(reasons(&[(0, 8, other), (100, 8, other)]).confined, None, "the other is confined");
}

#[test]
fn a_reason_for_half_of_the_wait_or_less_is_none() {
    let story = recorded(
        &[(0, 0, ""), (0, 7, "nice 19 policy 0 cpus 0"), (100, 0, ""), (100, 7, "nice 19 policy 0 cpus 0")],
        None,
    );
    let [from, to] = [0, 100].map(Stamp::from_ns);
    let path = active_by(story.graph(), Window { thread: ThreadIndex(0), from, to }, Timeouts::AsTheyAre);
    let (stacks, sampled) = Default::default();
    let evidence = Evidence { recorded: &story, path: &path, stacks: &stacks, sampled: &sampled };
    let of = |total_ns| {
        let reasons = cpu_reasons(&evidence, total_ns);
        (reasons.behind.is_some(), reasons.confined.is_some())
    };
    assert_eq!((of(159), of(160)), ((true, true), (false, false)));
}

#[test]
fn idle_time_of_several_cpus_counts_once() {
    let stamps = |intervals: &[(u64, u64)]| {
        union_ns(intervals.iter().map(|(from, to)| (Stamp::from_ns(*from), Stamp::from_ns(*to))).collect())
    };
    assert_eq!(stamps(&[(10, 20), (15, 30), (12, 13), (40, 50), (40, 45)]), 30);
    assert_eq!(stamps(&[]), 0);
}

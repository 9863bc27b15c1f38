//! Traces fit where their threads had a CPU, and their steps join those by probes.

use wakepath_goroutines::{Goroutines, ParkEnd, State};

use super::*;
use crate::{Host, Name};

/// Two processes, `a` with a second thread, from 0 to 1 ms.
const TRACE: &str = "
    thread a tid=10
    thread b tid=11 tgid=10
    thread c tid=12
    0 c0 idle started
    0 c0 idle switch a
    100000 c1 idle switch b
    200000 c1 b switch idle blocked
    500000 c0 a switch c runnable
    700000 c0 c switch a blocked
    900000 c0 idle stopped
    1000000 c0 a switch idle blocked
";

fn recorded() -> Recorded {
    let events = wakepath_scenario::text::parse(TRACE).expect("a trace").events;
    Recorded::from_events("a.rec".into(), Host::default(), &events)
}

fn trace(steps: &[(u64, u32, u64, StepKind)]) -> Trace {
    let step = |&(at_ns, thread, goroutine, kind)| Step { at_ns, thread, goroutine, began_in: 77, kind };
    let steps: Vec<_> = steps.iter().map(step).collect();
    Trace {
        version: 26,
        from_ns: steps.first().map_or(0, |step| step.at_ns),
        to_ns: steps.last().map_or(0, |step| step.at_ns),
        steps,
        reasons: vec!["sleep".into(), "IO wait".into()],
        latest_ns: 0,
        fault: None,
    }
}

fn fitted(steps: &[(u64, u32, u64, StepKind)]) -> Result<u32, Misfit> {
    fit(&recorded(), HostIndex::default(), &trace(steps), &Stamp::from_ns).map(Tid::number)
}

const RUNS: StepKind = StepKind::Runs(0);

#[test]
fn a_trace_fits_where_its_threads_had_a_cpu() {
    let fits = [(120_000, 11, 5, RUNS), (150_000, 10, 6, RUNS), (490_000, 10, 6, StepKind::Yields)];
    assert_eq!(fitted(&fits), Ok(10));
    // The thread was found in a system call; outside of the session no switch is recorded; of a thread that nothing showed, nothing is known.
    let unknown = [
        (50_000, 11, 5, StepKind::Found),
        (120_000, 11, 5, RUNS),
        (150_000, 99, 8, RUNS),
        (950_000, 11, 5, RUNS),
    ];
    assert_eq!(fitted(&unknown), Ok(10));
    // Stamps are a little off.
    for (at, expected) in [(89_000, false), (91_000, true), (209_000, true), (211_000, false)] {
        let apart = Err(Misfit::Apart { apart: 1, steps: 1 });
        assert_eq!(fitted(&[(at, 11, 5, RUNS)]), if expected { Ok(10) } else { apart }, "{at}");
    }
    // A step found in a system call, or outside of the session, proves nothing by itself.
    assert_eq!(
        fitted(&[(120_000, 11, 5, StepKind::Found), (950_000, 11, 5, RUNS)]),
        Err(Misfit::Unproved(2))
    );
    // Waiting for a CPU is not having it.
    assert_eq!(fitted(&[(600_000, 10, 5, RUNS)]), Err(Misfit::Apart { apart: 1, steps: 1 }));
}

/// Steps of which some are apart.
fn some_apart((at, other): (u64, u64), thread: u32, steps: usize, apart: usize) -> Result<u32, Misfit> {
    let mut all = vec![(at, thread, 5, RUNS); steps - apart];
    all.extend(vec![(other, thread, 5, RUNS); apart]);
    fitted(&all)
}

#[test]
fn one_step_in_twenty_may_be_apart() {
    assert_eq!(some_apart((120_000, 300_000), 11, 59, 2), Ok(10));
    assert_eq!(some_apart((120_000, 300_000), 11, 60, 3), Ok(10));
    assert_eq!(some_apart((120_000, 300_000), 11, 59, 3), Err(Misfit::Apart { apart: 3, steps: 59 }));
}

#[test]
fn a_fifth_of_those_by_chance_may_be_apart() {
    // `a` has a CPU for 700 of 900 us: by chance two steps in nine would be apart.
    assert_eq!(some_apart((150_000, 600_000), 10, 46, 2), Ok(10));
    assert_eq!(some_apart((150_000, 600_000), 10, 44, 2), Err(Misfit::Apart { apart: 2, steps: 44 }));
}

#[test]
fn a_step_where_a_switch_is_missing_counts_for_neither() {
    let loss = "450000 c1 idle loss from=300000 count=1\n    500000 c0 a";
    let events = wakepath_scenario::text::parse(&TRACE.replace("500000 c0 a", loss)).expect("a trace").events;
    let recorded = Recorded::from_events("a.rec".into(), Host::default(), &events);
    let fitted = |at| {
        fit(
            &recorded,
            HostIndex::default(),
            &trace(&[(120_000, 11, 5, RUNS), (at, 11, 5, RUNS)]),
            &Stamp::from_ns,
        )
    };
    assert_eq!(fitted(400_000), Ok(Tid(10)));
    assert_eq!(fitted(480_000), Err(Misfit::Apart { apart: 1, steps: 2 }));
}

#[test]
fn threads_of_no_or_of_two_recorded_processes_are_another_machines() {
    assert_eq!(fitted(&[(120_000, 99, 5, RUNS)]), Err(Misfit::NoThreads(99)));
    assert_eq!(fitted(&[]), Err(Misfit::NoThreads(0)));
    let two = [(120_000, 10, 5, RUNS), (600_000, 12, 6, RUNS)];
    assert_eq!(fitted(&two), Err(Misfit::Processes(10, 12)));
}

/// A beginning span, seen by a probe.
fn begins(at: u64, tid: u32, tgid: u32) -> (Stamp<Local>, Tid, GoroutineStep) {
    let step = GoStep::BeginsSpan([1; 16], [2; 8]);
    let step = GoroutineStep { tgid: Tid(tgid), program: 0, goroutine: 5, began_in: 0, step };
    (Stamp::from_ns(at), Tid(tid), step)
}

#[test]
fn steps_join_those_of_probes_by_time_and_spans_outside_of_a_trace_are_left_out() {
    let mut recorded = recorded();
    recorded.survey.goroutines = vec![
        begins(110_000, 11, 10),
        begins(130_000, 11, 10),
        begins(130_000, 12, 12),
        begins(800_000, 10, 10),
    ];
    let steps = [
        (120_000, 11, 5, RUNS),
        (140_000, 11, 5, StepKind::Parks(0)),
        (150_000, 11, 5, StepKind::Ready(0)),
        (160_000, 10, 5, StepKind::Runs(3)),
        (170_000, 10, 5, StepKind::Parks(1)),
    ];
    let joined = [Joined { process: Tid(10), program: FIRST_PROGRAM, trace: trace(&steps) }];
    add(&mut recorded, HostIndex::default(), &joined, &Stamp::from_ns);
    let times: Vec<_> = recorded
        .survey
        .goroutines
        .iter()
        .map(|(at, tid, step)| (at.ns() / 1000, tid.0, step.began_in))
        .collect();
    assert_eq!(times, [(120, 11, 0), (130, 11, 0), (140, 11, 77), (150, 11, 0), (160, 10, 0), (170, 10, 77)]);
    let reason = |reason| recorded.survey.names.go_wait(FIRST_PROGRAM, reason).map(Name::bytes);
    assert_eq!((reason(0), reason(1), reason(2)), (Some(&b"sleep"[..]), Some(&b"IO wait"[..]), None));
    let goroutines = wakepath_joining::goroutines(&recorded);
    let states = states(&goroutines);
    // Behind the trace nothing is known, and no park goes on.
    assert_eq!(
        states,
        ["120 running", "140 parked for 0, Scheduler", "150 queued", "160 running", "170 unknown"]
    );
}

fn states(goroutines: &Goroutines) -> Vec<String> {
    let (_, goroutine) = goroutines.iter().next().expect("one");
    let line = |interval: &wakepath_goroutines::Interval| {
        let state = match interval.state {
            State::Running(_) => "running".to_owned(),
            State::Queued => "queued".to_owned(),
            State::Parked(park) => {
                let end = match park.end {
                    ParkEnd::By(_) => "By",
                    ParkEnd::Scheduler(_) => "Scheduler",
                    ParkEnd::Taken(_) => "Taken",
                    ParkEnd::Unseen => "Unseen",
                };
                format!("parked for {}, {end}", park.reason)
            }
            State::Unknown => "unknown".to_owned(),
        };
        format!("{} {state}", interval.from.ns() / 1000)
    };
    goroutine.intervals.iter().map(line).collect()
}

#[test]
fn a_trace_that_cannot_be_used_leaves_no_goroutine_and_a_problem() {
    for (bytes, expected) in [
        (
            Ok(b"GIF89a".to_vec()),
            "go_trace_0 at byte 0: no goroutine is known from it: it is no execution trace of Go",
        ),
        (Ok(vec![]), "the program wrote nothing"),
        (Ok(b"go 1.21 trace\0\0\0".to_vec()), "it is by Go 1.21"),
        (Err(std::io::Error::other("bad sector")), "cannot be read: bad sector"),
    ] {
        let mut recorded = recorded();
        recorded.survey.goroutines = vec![begins(130_000, 11, 10)];
        let file = GoTraceFile { name: "go_trace_0".into(), bytes };
        join(&mut recorded, HostIndex::default(), vec![file], &Stamp::from_ns);
        assert!(recorded.survey.goroutines.is_empty(), "a span's beginning alone would run for ever");
        let [Problem { kind: ProblemKind::Recording(damage), .. }] = recorded.problems.as_slice() else {
            panic!("{:?}", recorded.problems)
        };
        let wakepath_event::DamageKind::Fault(fault) = &damage.kind else { panic!("{damage:?}") };
        let text = format!("{} at byte {}: {fault}", damage.file, damage.offset.expect("a place"));
        assert!(text.contains(expected), "{text}");
    }
    // Without traces nothing changes.
    let mut recorded = recorded();
    recorded.survey.goroutines = vec![begins(130_000, 11, 10)];
    join(&mut recorded, HostIndex::default(), vec![], &Stamp::from_ns);
    assert_eq!((recorded.survey.goroutines.len(), recorded.problems.len()), (1, 0));
}

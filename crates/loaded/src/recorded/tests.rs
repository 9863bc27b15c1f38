//! A recording's machines, clocks and ends, as the questions see them.

use wakepath_clock::{ErrorBound, Line, Piece};
use wakepath_event::{BlockRequest, ClockId, EventKind, HostIdentity, Mark};

use super::*;
use crate::testing::{event, read, thread, trace};

const FIRST: HostIndex = HostIndex(0);
const SECOND: HostIndex = HostIndex(1);
const THIRD: HostIndex = HostIndex(2);

fn host(name: &str) -> Host {
    Host { name: name.into(), ..Host::default() }
}

fn format() -> Format {
    let (writer, options) = (String::from("1.0"), String::from("-a"));
    Format { number: 3, writer, options, bytes: 4096, streams: 2, discarded: 0, span_bytes: Some(0) }
}

fn description(tracer: Option<&str>, format: Option<Format>) -> Description {
    Description {
        path: "b.rec".into(),
        host: HostIdentity::default(),
        tracer: tracer.map(String::from),
        clock: ClockId::Monotonic,
        realtime_offset_ns: None,
        extent: None,
        size: 0,
        cgroup: None,
        format,
    }
}

fn empty() -> Recorded {
    read(&[])
}

/// A clock `ahead` ns behind the first host's; the error is `before` up to its own first second, then `after`.
fn clock(ahead: i128, before: ErrorBound, after: ErrorBound) -> Transform<Local, Reference> {
    const SECOND_NS: u64 = 1_000_000_000;
    let line = Line::new(1 << 60, ahead << 60).expect("a line");
    let piece = |from, to, error| Piece { from, to, line, error };
    Transform::new(vec![piece(0, SECOND_NS, before), piece(SECOND_NS, u64::MAX, after)]).expect("two pieces")
}

fn within(ns: u64) -> ErrorBound {
    ErrorBound::Within(ns)
}

#[test]
fn each_machine_has_its_own_name_and_recording_and_one_that_is_not_recorded_those_of_the_first() {
    let sources = ["a.rec", "b.rec", "c.rec"].map(PathBuf::from).to_vec();
    let others = vec![host("db1"), host("db2")];
    let recorded = Recorded { host: host("web3"), others, sources, source: "a.rec".into(), ..empty() };
    let [web3, db1, db2] = ["web3", "db1", "db2"].map(host);
    let hosts: Vec<_> = recorded.hosts().map(|(index, host)| (index, host.clone())).collect();
    assert_eq!(hosts, [(FIRST, web3.clone()), (SECOND, db1.clone()), (THIRD, db2.clone())]);
    for (index, host, source) in [
        (FIRST, &web3, "a.rec"),
        (SECOND, &db1, "b.rec"),
        (THIRD, &db2, "c.rec"),
        (HostIndex(3), &web3, "a.rec"),
    ] {
        assert_eq!(recorded.host_at(index), host, "{index:?}");
        assert_eq!(recorded.source_of(index), &PathBuf::from(source), "{index:?}");
        assert_eq!(recorded.host_of(Tid(7).on(index)), host, "{index:?}");
    }
    let remote = |index| recorded.remote_host(Tid(7).on(index));
    assert_eq!([FIRST, SECOND, THIRD].map(remote), [None, Some(&db1), Some(&db2)]);
}

#[test]
fn a_source_without_other_machines_is_the_source_of_every_machine() {
    let recorded = Recorded { source: "a.rec".into(), ..empty() };
    assert_eq!(
        [FIRST, SECOND].map(|index| recorded.source_of(index).clone()),
        ["a.rec", "a.rec"].map(PathBuf::from)
    );
}

#[test]
fn threads_are_numbered_alike_in_one_recording_alone() {
    let of = |source: &str| Recorded { source: source.into(), ..empty() };
    assert!(of("a.rec").numbers_threads_like(&of("a.rec")));
    assert!(!of("a.rec").numbers_threads_like(&of("b.rec")));
}

#[test]
fn a_description_gives_the_clock_the_cgroup_the_tracer_and_problems_that_last_as_long_as_the_recording() {
    let events = [event(10, 0, 7, EventKind::Current), event(90, 0, 7, EventKind::Current)];
    let Recorded { graph, survey, .. } = read(&events);
    let source = Description {
        clock: ClockId::Perf,
        realtime_offset_ns: Some(5),
        cgroup: Some("/shop".into()),
        host: HostIdentity {
            name: "web3".into(),
            boot_id: "b-1".into(),
            kernel_release: "6.1".into(),
            machine: "x86_64".into(),
            cpus: 2,
        },
        ..description(Some("perf 6.1"), Some(format()))
    };
    let recorded = Recorded::from_source(&source, graph, survey, vec![ProblemKind::CutOff]);
    let problem = Problem::new(ProblemKind::CutOff, Stamp::from_ns(10), Stamp::from_ns(90));
    assert_eq!(recorded.problems, [problem]);
    assert_eq!((recorded.clock, recorded.realtime_offset_ns), (ClockId::Perf.name(), Some(5)));
    assert_eq!((recorded.cgroup, recorded.tracer), (Some("/shop".into()), Some("perf 6.1".into())));
    assert_eq!((recorded.source, recorded.format), ("b.rec".into(), Some(format())));
    let (name, kernel, machine) = ("web3".into(), "6.1".into(), "x86_64".into());
    assert_eq!(recorded.host, Host { boot_id: "b-1".into(), name, kernel, machine });
    let events = Recorded::from_events("a.rec".into(), host("web3"), &events);
    assert_eq!((events.clock, events.format, events.problems.len()), ("monotonic", None, 0));
}

#[test]
fn a_disk_of_another_machine_has_its_own_number_there() {
    let (mut numbering, sda) = (Numbering::default(), 8 << 20);
    let mut given = |index| {
        let request =
            BlockRequest { id: 1, device: sda, sector: 0, bytes: 0, operation: 0, start: None, issued: None };
        let mut issue = event(1, 0, 7, EventKind::BlockIssue(request));
        assert!(numbering.number(index, &mut issue, |at| at));
        let EventKind::BlockIssue(request) = issue.kind else { panic!("the same event") };
        request.device
    };
    let [first, second] = [FIRST, SECOND].map(&mut given);
    assert_ne!(first, second);
    let recorded = Recorded { numbering: Some(numbering), ..empty() };
    assert_eq!(recorded.device(first), (FIRST, sda));
    assert_eq!(recorded.device(second), (SECOND, sda));
    assert_eq!(empty().device(sda), (FIRST, sda), "a single machine");
}

#[test]
fn a_machine_is_of_another_tracer_by_its_own_recording() {
    let of = |tracer: Option<&str>, descriptions: Vec<Description>| {
        let recorded = Recorded { tracer: tracer.map(Name::from), descriptions, ..empty() };
        [FIRST, SECOND, THIRD].map(|index| recorded.is_of_other_tracer(index))
    };
    let (own, perf) = (description(None, Some(format())), description(Some("perf"), None));
    assert_eq!(of(None, vec![perf.clone(), own.clone()]), [false, true, false]);
    assert_eq!(of(Some("lttng"), vec![own, perf]), [true, false, true]);
    assert_eq!(of(Some("lttng"), vec![]), [true, true, true], "all are in one recording");
}

#[test]
fn a_stamp_becomes_one_of_its_own_machine_again() {
    let clocks = vec![Transform::identity(), clock(1_000, within(0), within(0))];
    let recorded = Recorded { clocks, ..empty() };
    let own = |index| recorded.own_stamp(index, Stamp::from_ns(5_000)).ns();
    assert_eq!([FIRST, SECOND, THIRD].map(own), [5_000, 4_000, 5_000]);
    // The first machine's stamps are the reference.
    let shifted = Recorded { clocks: vec![clock(1_000, within(0), within(0))], ..empty() };
    assert_eq!(shifted.own_stamp(FIRST, Stamp::from_ns(5_000)).ns(), 5_000);
}

#[test]
fn the_error_of_a_clock_is_the_largest_of_its_machine_between_the_two_times_and_without_a_thread_of_all() {
    let mut numbering = Numbering::default();
    let events = [FIRST, SECOND, THIRD].map(|index| {
        let mut event = event(1, 0, 0, thread(7, 7, 1, "app"));
        assert!(numbering.number(index, &mut event, |at| at));
        event
    });
    let clocks = vec![
        Transform::identity(),
        clock(1_000, within(10), within(70)),
        clock(-1_000, within(30), ErrorBound::Unbounded),
    ];
    let recorded = Recorded { clocks, ..read(&events) };
    let second = 1_000_000_000;
    let error = |index: Option<HostIndex>, from, to| {
        let thread = index.map(|index| recorded.with_tid(Tid(7).on(index))[0]);
        recorded.clock_error(thread, Stamp::from_ns(from), Stamp::from_ns(to))
    };
    for (index, before, across) in [
        (Some(FIRST), Some(0), Some(0)),
        (Some(SECOND), Some(10), Some(70)),
        (Some(THIRD), Some(30), None),
        (None, Some(30), None),
    ] {
        assert_eq!(error(index, 2_000, 3_000), before, "{index:?}");
        assert_eq!(error(index, 2_000, 2 * second), across, "{index:?}");
    }
    assert_eq!(error(Some(SECOND), 2 * second, 3 * second), Some(70));
    let single = read(&events[..1]);
    assert_eq!(single.clock_error(None, Stamp::MIN, Stamp::from_ns(9)), Some(0), "a single machine");
}

#[test]
fn realtime_is_that_of_the_readings_and_without_one_that_of_the_metadata() {
    let read = trace("100 c0 idle clocks 9000\n200 c0 idle stopped", &[]);
    let by_reading = Recorded { realtime_offset_ns: Some(7), ..read };
    assert_eq!(by_reading.realtime(Stamp::from_ns(150)), Some(9050));
    let by_metadata =
        |offset| Recorded { realtime_offset_ns: offset, ..empty() }.realtime(Stamp::from_ns(150));
    for (offset, expected) in [
        (Some(7), Some(157)),
        (Some(-150), Some(0)),
        (Some(-151), None),
        (Some(i128::MAX), None),
        (None, None),
    ] {
        assert_eq!(by_metadata(offset), expected, "{offset:?}");
    }
}

#[test]
fn a_recording_lasts_from_its_start_mark_to_its_stop_mark_and_without_them_from_the_first_event_to_the_last()
{
    let extent = |text: &str| {
        let recorded = trace(text, &[]);
        (recorded.from().ns(), recorded.to().ns())
    };
    let thread = "thread app tid=7 at=10";
    assert_eq!(extent(&format!("{thread}\n20 c0 idle started\n30 c0 idle stopped\n40 c0 #7 exit")), (20, 30));
    assert_eq!(extent(&format!("{thread}\n40 c0 #7 exit")), (10, 40));
}

#[test]
fn a_recording_of_wakepath_without_a_stop_mark_was_cut_off_if_it_began_or_was_on_disk() {
    const STARTED: &str = "1 c0 idle started";
    const STOPPED: &str = "9 c0 idle stopped";
    for (text, on_disk, tracer, cut_off) in [
        (format!("{STARTED}\n{STOPPED}"), true, None, false),
        (String::from(STARTED), true, None, true),
        (String::from(STARTED), false, None, true),
        (String::from(STOPPED), true, None, false),
        (String::new(), true, None, true),
        (String::new(), false, None, false),
        (String::from(STARTED), true, Some("perf"), false),
        (String::new(), true, Some("perf"), false),
    ] {
        let format = on_disk.then(format);
        let recorded = Recorded { format, tracer: tracer.map(Name::from), ..trace(&text, &[]) };
        assert_eq!(recorded.cut_off(), cut_off, "{text:?} {on_disk} {tracer:?}");
        assert_eq!(recorded.is_cut_off(FIRST), cut_off, "{text:?} {on_disk} {tracer:?}");
        assert!(!recorded.is_cut_off(SECOND), "a machine that was not recorded");
    }
}

#[test]
fn each_of_several_recordings_was_cut_off_by_itself() {
    let mut recorded = trace("1 c0 idle started\n9 c0 idle stopped", &[]);
    for (index, at, mark) in
        [(SECOND, 2, Mark::Started), (THIRD, 3, Mark::Started), (THIRD, 8, Mark::Stopped)]
    {
        recorded.survey.observe_on(index, &event(at, 0, 0, EventKind::Mark(mark)));
    }
    let (own, unwritten) = (description(None, Some(format())), description(None, None));
    let perf = description(Some("perf"), None);
    recorded.descriptions = vec![own.clone(), own.clone(), own, unwritten, perf];
    let cut_off = [0, 1, 2, 3, 4, 5].map(|index| recorded.is_cut_off(HostIndex(index)));
    assert_eq!(cut_off, [false, true, false, true, false, false]);
}

#[test]
fn a_name_is_printed_as_text_when_a_test_fails() {
    assert_eq!(format!("{:?}", Name::from("a\nb")), r#""a\nb""#);
    assert!(Name::default().is_empty() && !Name::from("a").is_empty());
}

//! A flight recorder's numbers: the time in memory, the spans' part, and the recordings that have room.

use wakepath_collect::FlightOptions;
use wakepath_recording::flight::Asked;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn request(before: f64, after: f64, memory: usize) -> FlightRequest {
    FlightRequest {
        before: Duration::from_secs_f64(before),
        after: Duration::from_secs_f64(after),
        rest: Duration::from_secs(60),
        memory,
        recordings: 20,
        longest_open: None,
        slow: SlowSpans::new(Vec::new(), false),
        taken: Box::new(|_| {}),
        kept: Box::new(|_| {}),
    }
}

#[test]
fn the_memory_holds_the_time_before_a_trigger_until_the_window_behind_it_has_ended() {
    // Seconds before and behind a trigger, the memory, whether spans come; the window in ms, and the bytes for records.
    for (before, after, memory, with_spans, window_ms, bytes) in [
        (30.0, 1.0, 800, false, 31_500, 800),
        (30.0, 6.0, 800, true, 36_500, 700),
        (0.25, 0.0, 1000, true, 750, 875),
        (10.0, 2.5, 7, true, 13_000, 7),
    ] {
        let request = request(before, after, memory);
        let expected = FlightLimits { window_ns: window_ms * 1_000_000, bytes };
        assert_eq!(request.limits(with_spans), expected, "{before} s and {after} s");
        assert_eq!(request.bytes_for_spans(), memory / 8);
    }
    let endless = FlightRequest { before: Duration::MAX, ..request(0.0, 1.0, 8) };
    assert_eq!(endless.limits(false).window_ns, u64::MAX);
}

#[test]
fn a_recorder_is_refused_where_a_kept_recording_may_have_no_room() {
    // The memory, the bytes for all kept recordings, a kept recording's bytes where too many, and the memory that fits
    // then.
    for (memory, most, refused) in [
        (256 << 20, 2 << 30, None),
        (256 << 20, 320 << 20, None),
        (256 << 20, (320 << 20) - 1, Some((320 << 20, 268_435_455))),
        (256 << 20, 100 << 20, Some((320 << 20, 80 << 20))),
        (80 << 20, 100 << 20, None),
        (268_435_455, (320 << 20) - 1, None),
        (usize::MAX, u64::MAX - 1, Some((u64::MAX, u64::MAX / 5 * 4 - 1))),
        (1, 1, Some((2, 0))),
    ] {
        let answer = request(30.0, 1.0, memory).check_room(most);
        let answer = answer.err().map(|error| {
            assert_eq!((error.memory, error.most), (memory as u64, most));
            (error.needs, error.largest_memory())
        });
        assert_eq!(answer, refused, "{memory} bytes of memory, {most} on the disk");
    }
}

fn opened(request: FlightRequest, with_spans: bool) -> (FlightOptions, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let host = HostIdentity {
        name: "web3".to_owned(),
        boot_id: "67e2237c-99e6-488f-b6e0-82e34227d61c".to_owned(),
        kernel_release: "6.18.0".to_owned(),
        machine: "x86_64".to_owned(),
        cpus: 1,
    };
    let flight = Flight::new(request, with_spans);
    let opened = flight.open(folder.path(), 1 << 20, Options::new("0", ""), host).expect("a place");
    (opened, folder)
}

#[test]
fn the_parts_of_a_recorder_get_what_was_asked_for() {
    let mut asked = request(30.0, 6.0, 800);
    (asked.recordings, asked.longest_open) = (0, Some(Duration::from_secs(2)));
    assert_eq!(asked.kept_limits(9), KeptLimits { recordings: 1, bytes: 9 }, "at least one is kept");
    assert_eq!(request(30.0, 6.0, 800).kept_limits(9).recordings, 20);
    let (mut options, _folder) = opened(asked, true);
    assert_eq!((options.limits.bytes, options.release.as_str()), (700, "6.18.0"));
    assert_eq!(options.open_spans.map(|open| open.longest), Some(Duration::from_secs(2)));
    assert!(options.spans.is_some());
    let cause = |asked| TriggerCause { text: String::new(), word: "span", since: None, asked, linked: false };
    let at = 1000 * SECOND;
    let triggers = &mut options.triggers;
    assert_eq!(triggers.ask(cause(false), at, at), Asked::Taken);
    assert_eq!(triggers.ask(cause(true), at - 30 * SECOND, at), Asked::Joined, "the time before it");
    assert_eq!(triggers.ask(cause(false), at - 30 * SECOND - 1, at), Asked::TooSoon);
    assert_eq!(triggers.due(at + 6 * SECOND - 1, false), None);
    assert!(triggers.due(at + 6 * SECOND, false).is_some_and(|(_, end)| end == at + 6 * SECOND));
    let rests = at + 66 * SECOND;
    assert_eq!(triggers.ask(cause(false), rests - 1, rests - 1), Asked::TooSoon);
    assert_eq!(triggers.ask(cause(false), rests, rests), Asked::Taken);
    let (options, _folder) = opened(request(30.0, 6.0, 800), false);
    assert_eq!(
        (options.limits.bytes, options.spans.is_some(), options.open_spans.is_some()),
        (800, false, false)
    );
}

#[test]
fn a_recorder_without_spans_has_no_end_for_them() {
    assert!(Flight::new(request(30.0, 1.0, 800), false).span_end().is_none());
    assert!(Flight::new(request(30.0, 1.0, 800), true).span_end().is_some());
}

#[test]
fn a_slow_span_triggers_for_the_time_since_its_begin_and_every_message_is_remembered() {
    let now = ClockReading { monotonic_ns: 500 * SECOND, realtime_ns: 1_764_000_000 * SECOND };
    // The span of 3 s begins this long ago, in s; then the start of the window.
    for (ago, since) in
        [(4, Some(496 * SECOND)), (3, Some(497 * SECOND)), (-5, Some(500 * SECOND)), (1000, Some(0))]
    {
        let mut asked = request(30.0, 1.0, 80_000);
        asked.slow = SlowSpans::new(vec!["shop/*>2s".parse().expect("a threshold")], false);
        let mut flight = Flight::new(asked, true);
        let mut end = flight.span_end().expect("spans come");
        let from = now.realtime_ns.saturating_add_signed(-ago * SECOND as i64);
        let quick = slow::tests::message(
            "shop",
            &[slow::tests::Made { length_ns: 2 * SECOND, from, ..Default::default() }],
        );
        let slow = slow::tests::message(
            "shop",
            &[slow::tests::Made { length_ns: 3 * SECOND, from, ..Default::default() }],
        );
        let bytes = |flight: &Flight| {
            let memory = flight.spans.as_ref().expect("a memory");
            memory.lock().unwrap_or_else(PoisonError::into_inner).bytes()
        };
        end.take(&quick, now);
        assert!(flight.causes.try_recv().is_err(), "no slow span");
        let before = bytes(&flight);
        assert!(before > quick.len());
        end.take(&slow, now);
        assert_eq!(bytes(&flight) - before, before + slow.len() - quick.len());
        let cause = flight.causes.try_recv().expect("a cause");
        assert_eq!((cause.since, cause.word, cause.asked, cause.linked), (since, "span", false, false));
        // While the recorder writes, causes wait, and the receiver of spans does not.
        (0..2 * MAX_WAITING_CAUSES).for_each(|_| end.take(&slow, now));
        assert_eq!(flight.causes.try_iter().count(), MAX_WAITING_CAUSES);
    }
}

#[test]
fn a_recorder_that_cannot_be_asked_is_named_with_the_reason() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let ask = |path: &Path| trigger(path, Moment { at: 0, linked: false });
    assert!(matches!(ask(&folder.path().join("none")), Err(TriggerError::Io { .. })));
    assert!(matches!(ask(folder.path()), Err(TriggerError::NoRecorder(path)) if path == folder.path()));
    let (options, folder) = opened(request(30.0, 1.0, 800), false);
    // No process has this number: 2^22 is the largest.
    std::fs::write(folder.path().join("recorder"), "2000000000\n").expect("a file");
    assert!(matches!(ask(folder.path()), Err(TriggerError::Signal { pid: 2_000_000_000, .. })));
    drop(options);
}

//! Spans stamped by a separate clock, on drawn recordings: its offset is bounded by the times at which the kernel saw threads work for these
//! spans.

use std::fmt::Write;
use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

/// The recording's clock in realtime, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The number of simulated requests.
const REQUESTS: u64 = 200;
/// The end of the recording, ns.
const END: u64 = REQUESTS * 50 * MS + 2 * SECOND;

/// A service with one thread, whose SDK has a separate clock.
struct Service {
    /// The SDK clock's lead over the host's at a time, ns.
    ahead: fn(u64) -> i64,
    /// Realtime's lead over [`REALTIME`] plus the recording's time, ns.
    steered: fn(u64) -> u64,
    /// One in this number of requests ends 2 ms before its thread runs again; 0: none.
    outlived: u64,
    /// The time from a span's beginning until its thread leaves the CPU, and from the thread's return until the span's
    /// end, ns.
    around: (u64, u64),
    /// The number of requests, one every 50 ms.
    requests: u64,
}

const EXACT: Service =
    Service { ahead: |_| 0, steered: |_| 0, outlived: 0, around: (80 * US, 30 * US), requests: REQUESTS };

impl Service {
    fn stamp(&self, at: u64) -> String {
        (REALTIME + at + (self.steered)(at)).saturating_add_signed((self.ahead)(at)).to_string()
    }

    /// Each request begins while its thread runs, and continues while the thread waits for 5 ms.
    fn made(&self) -> Made {
        let mut drawing = String::from("thread front tid=10\n0 c0 idle started\n");
        let mut spans = Vec::new();
        let mut readings = (1..=END / SECOND).map(|second| second * SECOND).peekable();
        for number in 0..self.requests {
            // Makes the requests differ.
            let jitter = (number * 7919) % 97 * US / 4;
            let woken = 10 * US + number * 50 * MS + jitter;
            let left = woken + 100 * US + jitter;
            let again = left + 5 * MS;
            let is_left_late = number.checked_rem(self.outlived) == Some(1);
            let (before, behind) = self.around;
            let (begun, ended) = (left - before, again + behind + jitter);
            let ended = if is_left_late { again - 2 * MS } else { ended };
            let gone = again + 60 * US + jitter;
            while let Some(at) = readings.next_if(|at| *at < woken) {
                writeln!(drawing, "{at} c0 idle clocks {}", REALTIME + at + (self.steered)(at))
                    .expect("text");
            }
            let [trace, span] = [1 + number / 15, 1 + number % 15].map(|digit| format!("{digit:x}"));
            for (at, what) in [
                (woken, "idle/timer waking front"),
                (woken, "idle switch front"),
                (left, &*format!("front context {trace}/{span}")),
                (left, "front switch idle blocked call=35:0"),
                (again, "idle/timer waking front"),
                (again, "idle switch front"),
                (gone, "front context none"),
                (gone, "front switch idle blocked call=35:0"),
            ] {
                writeln!(drawing, "{at} c0 {what}").expect("text");
            }
            spans.push(json!({
                "traceId": trace.repeat(32),
                "spanId": span.repeat(16),
                "name": "GET /cart",
                "kind": 2,
                "startTimeUnixNano": self.stamp(begun),
                "endTimeUnixNano": self.stamp(ended),
            }));
        }
        for at in readings {
            writeln!(drawing, "{at} c0 idle clocks {}", REALTIME + at + (self.steered)(at)).expect("text");
        }
        let made = made(&drawing, &[]);
        let service = json!([{"key": "service.name", "value": {"stringValue": "shop"}}]);
        let document = json!({
            "resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]
        });
        fs::write(made.folder().join("spans.json"), document.to_string()).expect("a file");
        made
    }

    /// The spans' clock in the document with these arguments.
    fn clock(&self, made: &Made, arguments: &[&str]) -> Value {
        let words = [&["requests", "wakepath.rec", "spans.json", "--json"], arguments].concat();
        let document = made.document(words);
        let [clock] = document["span_clocks"].as_array().expect("a list").as_slice() else {
            panic!("{}", document["span_clocks"])
        };
        assert_eq!((&clock["pid"], &clock["comm"]), (&json!(10), &json!("front")));
        assert_eq!((&clock["service"], &clock["spans"]), (&json!("shop"), &json!(self.requests)));
        clock.clone()
    }
}

/// Checks the bounds at three times: the true offset lies within each, and none is wider than `widest`.
#[track_caller]
fn holds(clock: &Value, ahead: fn(u64) -> i64, widest: i64) {
    let offsets = clock["offsets"].as_array().expect("a list");
    assert_eq!(offsets.len(), 3, "{clock}");
    for offset in offsets {
        let [at, least, most] =
            ["at_ns", "least_ns", "most_ns"].map(|key| offset[key].as_i64().expect("a number"));
        let truth = ahead(at.unsigned_abs());
        assert!(least <= truth && truth <= most, "{truth} at {at}: {clock}");
        assert!(most - least <= widest, "at {at}: {clock}");
    }
}

fn text(made: &Made, arguments: &[&str]) -> String {
    let (code, out, err) = made.run([&["requests", "wakepath.rec", "spans.json"], arguments].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The clock's offset as the warning states it.
fn warning(made: &Made, arguments: &[&str]) -> Option<String> {
    let out = text(made, arguments);
    let (_, said) = out.split_once("are stamped by a clock that is ")?;
    Some(said.split_once(", and shown").expect("a sentence").0.to_owned())
}

#[test]
fn a_clock_that_is_right_is_known_to_be_and_nobody_is_warned() {
    let made = EXACT.made();
    let clock = EXACT.clock(&made, &[]);
    holds(&clock, EXACT.ahead, 200_000);
    assert_eq!((&clock["early"], &clock["late"]), (&json!(0), &json!(0)));
    assert_eq!(warning(&made, &[]), None);
    // The true offset is near the lower bound, and near the upper.
    for around in [(US, 500 * US), (99 * US, US)] {
        let service = Service { around, ..EXACT };
        holds(&service.clock(&service.made(), &[]), service.ahead, 700_000);
    }
}

#[test]
fn a_clock_that_is_ahead_or_behind_is_bounded_and_said_with_each_answer() {
    for (service, direction, early, late) in [
        (Service { ahead: |_| 3_000_000, ..EXACT }, "ahead of its host's", REQUESTS, 0),
        (Service { ahead: |_| -3_000_000, ..EXACT }, "behind its host's", 0, REQUESTS),
    ] {
        let made = service.made();
        for arguments in [&[][..], &["--slowest", "1"], &["--operation", "GET /cart", "--peak", "1"]] {
            let clock = service.clock(&made, arguments);
            holds(&clock, service.ahead, 200_000);
            assert_eq!((&clock["early"], &clock["late"]), (&json!(early), &json!(late)));
            let said = warning(&made, arguments).unwrap_or_else(|| text(&made, arguments));
            assert!(said.ends_with(direction) && said.contains(" to 3"), "{arguments:?}: {said}");
        }
    }
    // Half a millisecond may be the stamps' unit: only the document shows it.
    let service = Service { ahead: |_| 500_000, ..EXACT };
    let made = service.made();
    holds(&service.clock(&made, &[]), service.ahead, 200_000);
    assert_eq!(warning(&made, &[]), None);
}

#[test]
fn a_clock_that_drifts_is_bounded_at_the_beginning_and_at_the_end() {
    // 400 ppm: 1 ms ahead, then 5 ms.
    let service = Service { ahead: |at| (1_000_000 + at * 4 / 10_000) as i64, ..EXACT };
    let made = service.made();
    holds(&service.clock(&made, &[]), service.ahead, 300_000);
    let said = warning(&made, &[]).expect("a warning");
    assert!(
        said.contains("ahead of its host's at first and") && said.ends_with("ahead of its host's at last"),
        "{said}"
    );
    // Realtime steps, which the host's clock reads too late and the SDK at once.
    let steered = Service { steered: |at| if at > 4 * SECOND + 500 * MS { 300_000 } else { 0 }, ..EXACT };
    let made = steered.made();
    let clock = steered.clock(&made, &[]);
    holds(&clock, steered.ahead, 300_000);
    assert_eq!((&clock["early"], &clock["late"]), (&json!(0), &json!(0)));
}

#[test]
fn threads_that_keep_the_context_of_spans_that_ended_leave_one_bound_and_no_wrong_one() {
    for (ahead, said) in
        [((|_| 0) as fn(u64) -> i64, None), (|_| 3_000_000, Some("at least 2.9")), (|_| -3_000_000, None)]
    {
        let service = Service { ahead, outlived: 40, ..EXACT };
        let made = service.made();
        let clock = service.clock(&made, &[]);
        let offsets = clock["offsets"].as_array().expect("a list");
        assert_eq!((offsets.len(), &offsets[0]["most_ns"]), (1, &Value::Null), "{clock}");
        let least = offsets[0]["least_ns"].as_i64().expect("a number");
        assert!((ahead(0) - 200_000..=ahead(0)).contains(&least), "{clock}");
        let warned = warning(&made, &[]);
        assert_eq!(warned.is_some(), said.is_some(), "{warned:?}");
        assert!(said.is_none_or(|said| warned.is_some_and(|warned| warned.starts_with(said))));
    }
}

#[test]
fn few_spans_that_ended_before_their_threads_left_them_show_no_clock_that_is_behind() {
    for (requests, is_said) in [(7, false), (8, true)] {
        let service = Service { ahead: |_| -3_000_000, requests, ..EXACT };
        let made = service.made();
        assert_eq!(warning(&made, &[]).is_some(), is_said, "{requests}");
        // Any number of requests shows a clock that is ahead.
        let service = Service { ahead: |_| 3_000_000, requests, ..EXACT };
        assert!(warning(&service.made(), &[]).is_some(), "{requests}");
    }
}

/// Two processes give their spans the same ids.
const TWINS: &str = "
thread cart tid=10
thread copy tid=20
0 c0 idle started
0 c0 idle switch cart
0 c1 idle switch copy
40 c1 copy context a/a
40 c1 copy switch idle blocked call=35:0
60 c0 cart context a/a
60 c0 cart switch idle blocked call=35:0
700 c0 idle switch cart
800 c0 cart switch idle blocked call=35:0
";

#[test]
fn each_process_has_its_own_clock_and_an_answer_those_of_its_spans() {
    let made = made(TWINS, &[]);
    let resource = |name: &str, pid: u32, ahead: u64| {
        let span = json!({
            "traceId": "a".repeat(32), "spanId": "a".repeat(16), "name": "GET /cart", "kind": 2,
            "startTimeUnixNano": (REALTIME + 50 + ahead).to_string(),
            "endTimeUnixNano": (REALTIME + 650 + ahead).to_string(),
        });
        let attributes = json!([
            {"key": "service.name", "value": {"stringValue": name}},
            {"key": "process.pid", "value": {"intValue": pid}},
        ]);
        json!({"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]})
    };
    let document = json!({"resourceSpans": [resource("shop", 10, 0), resource("bank", 20, 5 * MS)]});
    fs::write(made.folder().join("spans.json"), document.to_string()).expect("a file");
    let shop = ["--service", "shop", "--slowest", "1"];
    let peak = ["--service", "shop", "--peak", "1"];
    let own = vec![(10, "shop")];
    let all = vec![(10, "shop"), (20, "bank")];
    for (arguments, expected) in [(&[][..], all), (&shop, own.clone()), (&peak, own)] {
        let document =
            made.document([&["requests", "wakepath.rec", "spans.json", "--json"], arguments].concat());
        let clocks = document["span_clocks"].as_array().expect("a list").iter();
        let clocks: Vec<_> = clocks.map(|one| (one["pid"].clone(), one["service"].clone())).collect();
        let expected: Vec<_> = expected.into_iter().map(|(pid, name)| (json!(pid), json!(name))).collect();
        assert_eq!(clocks, expected, "{arguments:?}");
        assert_eq!(warning(&made, arguments).is_some(), arguments.is_empty(), "{arguments:?}");
    }
}

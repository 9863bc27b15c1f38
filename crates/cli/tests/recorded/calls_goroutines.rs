//! A Go function's calls on a drawn recording: their time is their goroutine's, also while it waits, and the goroutine that made it ready is
//! named.

use serde_json::{Value, json};
use wakepath_event::{EventKind, NameSpace};
use wakepath_harness::made::{Made, made};

/// Goroutine 5 makes a call in `one`, waits there for goroutine 7, and returns in `two`. Meanwhile `one` runs goroutine 6, which sleeps in the
/// kernel.
const MOVED: &str = "
thread one tid=10
thread two tid=11 tgid=10
0 c0 idle started
0 c0 idle switch one
0 c1 idle switch two
40 c0 one go 5 runs
50 c1 two go 7 runs process=one
200 c0 one go 5 parks 14
210 c0 one go 6 runs
220 c0 one switch idle blocked call=35:0
600 c1 two go 5 ready 7 process=one
610 c1 two go 7 parks 14 process=one
620 c1 two go 5 runs process=one
700 c1 two called 0 from=100 moved
800 c1 two go 5 parks 14 process=one
900 c1 two switch idle blocked call=35:0
";

/// This drawing's recording, with the names in it.
fn drawn(drawing: &str) -> Made {
    let name = |space, key, name: &str| EventKind::Name(space, key, name.as_bytes().into());
    let names = [name(NameSpace::Target, 0, "./app:main.serve"), name(NameSpace::GoWait, 14, "chan receive")];
    made(drawing, &names)
}

fn run(made: &Made, arguments: &[&str]) -> String {
    let (code, out, err) = made.run([&["path", "--call", "wakepath.rec"], arguments].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out
}

fn document(made: &Made) -> Value {
    serde_json::from_str(&run(made, &["--json"])).expect("JSON")
}

#[test]
fn a_call_that_returned_in_another_thread_has_the_path_of_its_goroutine_and_who_made_it_ready() {
    let made = drawn(MOVED);
    let document = document(&made);
    assert_eq!((&document["moved"], &document["of_goroutines"]), (&json!(0), &json!(true)), "{document}");
    assert_eq!(document["followed"], 1);
    let waits = json!([
        {
            "state": "parked", "reason": "chan receive", "total_ns": 400, "times": 1,
            "ended_by": {
                "goroutine": 7, "function": null, "tid": 11, "comm": "two", "total_ns": 400, "request": null,
            },
        },
        {"state": "queued", "reason": null, "total_ns": 20, "times": 1, "ended_by": null},
    ]);
    assert_eq!(document["goroutine_waits"], waits);
    // The awaited goroutine ran all the time. After its wait, goroutine 5 runs in the other thread.
    let causes = document["causes"].as_array().expect("a list").iter();
    let causes: Vec<_> =
        causes.map(|cause| (cause["what"].as_str().expect("a text"), cause["asked_ns"].as_f64())).collect();
    let expected = [
        ("waiting for two", Some(400.0)),
        ("running", Some(100.0)),
        ("running two", Some(80.0)),
        ("ready, in a queue of its runtime", Some(20.0)),
    ];
    assert_eq!(causes, expected, "{document}");
    let text = run(&made, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "400 ns waiting to receive from a channel, 1 time; ended by goroutine 7, in two (11)";
    assert!(text.contains(said), "{text}");
    assert!(!text.contains("times below are those of threads"), "{text}");
}

/// Two calls in goroutine 5, whose waits goroutine 7 ends for two different requests.
const SERVED: &str = "
thread one tid=10
thread two tid=11 tgid=10
0 c0 idle started
0 c0 idle switch one
0 c1 idle switch two
40 c0 one go 5 runs
50 c1 two go 7 runs process=one
60 c1 two go 7 begins a/a process=one
200 c0 one go 5 parks 14
300 c1 two go 5 ready 7 process=one
300 c0 one go 5 runs
320 c0 one called 0 from=100 stayed
330 c1 two go 7 begins b/b process=one
400 c0 one go 5 parks 14
600 c1 two go 5 ready 7 process=one
600 c0 one go 5 runs
620 c0 one called 0 from=390 stayed
700 c1 two go 7 parks 14 process=one
900 c0 one switch idle blocked call=35:0
900 c1 two switch idle blocked call=35:0
";

/// The recording's clock in realtime, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

/// A service's spans: the digit for the ids, the name, the time.
fn write_spans(made: &Made, spans: &[(char, &str, u64, u64)]) {
    let span = |(id, name, from, to): &(char, &str, u64, u64)| {
        json!({
            "traceId": id.to_string().repeat(32), "spanId": id.to_string().repeat(16), "name": name, "kind": 2,
            "startTimeUnixNano": (REALTIME + from).to_string(), "endTimeUnixNano": (REALTIME + to).to_string(),
        })
    };
    let service = json!([{"key": "service.name", "value": {"stringValue": "shop"}}]);
    let spans: Vec<_> = spans.iter().map(span).collect();
    let spans =
        json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]});
    std::fs::write(made.folder().join("spans.json"), spans.to_string()).expect("a file");
}

#[test]
fn the_goroutine_that_ended_a_wait_has_the_request_for_which_it_worked_most_of_that_time() {
    let made = drawn(SERVED);
    let ended_by = |arguments: &[&str]| {
        let document: Value =
            serde_json::from_str(&run(&made, &[arguments, &["--json"]].concat())).expect("JSON");
        document["goroutine_waits"][0]["ended_by"].clone()
    };
    let request = |id: &str, name: &str, ns: u64| {
        json!({
            "trace_id": id.repeat(32), "span_id": id.repeat(16), "service": "shop", "operation": name,
            "total_ns": ns,
        })
    };
    // The spans end with the waits.
    write_spans(&made, &[('a', "GET /a", 60, 300), ('b', "GET /b", 330, 600)]);
    let both = ended_by(&["spans.json"]);
    assert_eq!((&both["goroutine"], &both["total_ns"]), (&json!(7), &json!(300)), "{both}");
    assert_eq!(both["request"], request("b", "GET /b", 200), "{both}");
    let text = run(&made, &["spans.json"]).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "ended by goroutine 7, in two (11), which worked 100 ns of it for shop GET /b, request b";
    assert!(text.contains(said), "{text}");
    // Spans that had ended by then.
    write_spans(&made, &[('a', "GET /a", 60, 290), ('b', "GET /b", 330, 590)]);
    assert_eq!(ended_by(&["spans.json"])["request"], Value::Null);
    // Without spans there is no request.
    assert_eq!(ended_by(&[])["request"], Value::Null);
}

#[test]
fn a_call_whose_goroutine_is_not_known_has_the_path_of_its_thread_and_says_so() {
    let without: Vec<_> = MOVED.lines().filter(|line| !line.contains(" go ")).collect();
    let stayed = without.join("\n").replace("moved", "stayed");
    let made = drawn(&stayed);
    let document = document(&made);
    assert_eq!((&document["of_goroutines"], &document["followed"]), (&json!(true), &json!(0)));
    assert_eq!(document["goroutine_waits"], json!([]));
    let text = run(&made, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the times below are those of threads"), "{text}");
    // Without a goroutine, a call that changed its thread has no path.
    let (code, _, err) = drawn(&without.join("\n")).run(["path", "--call", "wakepath.rec"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("they returned in another thread than they began in"), "{err}");
}

//! Many requests in one operation at once, on recordings and spans written by the tests: a peak's requests beside the
//! usual ones, two recordings' requests, and spans as a latency target.

use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

/// The recording's clock in realtime, ns.
pub const REALTIME: u64 = 1_795_229_921_310_000_000;

/// A span in the service `shop`, whose ids are this number.
pub fn span(id: u64, name: &str, (from, to): (u64, u64), tid: u32) -> Value {
    json!({
        "traceId": format!("{id:032x}"),
        "spanId": format!("{id:016x}"),
        "name": name,
        "kind": 2,
        "startTimeUnixNano": (REALTIME + from).to_string(),
        "endTimeUnixNano": (REALTIME + to).to_string(),
        "attributes": [{"key": "wakepath.tid", "value": {"intValue": tid.to_string()}}],
    })
}

/// Writes spans by the service `shop` into `spans.json`.
pub fn write_spans(made: &Made, spans: &[Value]) {
    let service = json!([{"key": "service.name", "value": {"stringValue": "shop"}}]);
    let document =
        json!({"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]});
    fs::write(made.folder().join("spans.json"), document.to_string()).expect("a file");
}

fn run(made: &Made, arguments: &[&str]) -> (i32, String, String) {
    made.run([&["requests"], arguments].concat())
}

/// Forty requests that run for 100 ns, and twenty that wait for 5 µs while `pay` holds their lock; and one span for
/// each.
fn peaks() -> (Made, Vec<Value>) {
    let mut trace = String::from(
        "thread cart tid=10\nthread pay tid=12 tgid=10\n0 c0 idle started\n0 c0 idle switch cart\n0 c1 idle switch pay\n",
    );
    let (mut spans, mut at) = (Vec::new(), 1000);
    let mut id = 0x1000;
    let mut add = |name: &str, from: u64, to: u64, tid: u32, spans: &mut Vec<Value>| {
        id += 1;
        let one = span(id, name, (from, to), tid);
        spans.push(one);
    };
    for _ in 0..40 {
        add("GET /cart", at, at + 100, 10, &mut spans);
        at += 1000;
    }
    for _ in 0..20 {
        add("GET /cart", at, at + 5000, 10, &mut spans);
        add("POST /pay", at - 500, at + 4900, 12, &mut spans);
        trace += &format!(
            "{} c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=pay\n{} c1 pay waking cart\n{} c0 idle switch cart\n",
            at + 100,
            at + 4800,
            at + 4900,
        );
        at += 10_000;
    }
    trace +=
        &format!("{at} c0 cart switch idle blocked call=35:0\n{at} c1 pay switch idle blocked call=35:0\n");
    (made(&trace, &[]), spans)
}

#[test]
fn the_requests_of_a_peak_are_explained_beside_the_usual_ones_with_those_that_blocked_them() {
    let (made, spans) = peaks();
    write_spans(&made, &spans);
    let of_cart = ["wakepath.rec", "spans.json", "--operation", "GET /cart"];
    let ask = |more: &[&str]| run(&made, &[&of_cart[..], more].concat());
    let (code, out, err) = ask(&["--peak", "2"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.starts_with(
            "20 requests of peak 2 of shop GET /cart took 5.00 µs on average, requests of peak 1 take 100 ns:\nmostly waiting for a lock that pay held"
        ),
        "{out}"
    );
    assert!(out.contains("4.70 µs     0 ns  shop POST /pay (in 20 of 20 requests)\n"), "{out}");
    let next = "\nnext: wakepath requests wakepath.rec spans.json --request 00000000000010";
    assert!(out.contains(next), "{out}");
    let (code, out, _) = ask(&["--peak", "2", "--json"]);
    assert_eq!(code, 0);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(document["schema"], "wakepath.requests/1");
    let groups = ["asked", "usual"]
        .map(|key| [&document[key]["peak"], &document[key]["calls"], &document[key]["mean_ns"]]);
    assert_eq!(json!(groups), json!([[2, 20, 5000], [1, 40, 100]]));
    let blocked = &document["blocked_by"];
    assert_eq!(
        *blocked,
        json!([{"service": "shop", "operation": "POST /pay", "asked_ns": 4700.0, "usual_ns": 0.0, "asked_requests": 20, "usual_requests": 0}])
    );
    assert_eq!(document["requests"].as_array().map(Vec::len), Some(20));
    let sum = |key: &str| -> f64 {
        let causes = document["causes"].as_array().expect("a list").iter();
        causes.map(|cause| cause[key].as_f64().expect("a number")).sum()
    };
    assert_eq!([sum("asked_ns").round(), sum("usual_ns").round()], [5000.0, 100.0]);
    let (_, tree, _) = ask(&["--peak", "2", "--tree"]);
    assert!(
        tree.contains("   each    usual  count  who waited for whom, largest difference first\n"),
        "{tree}"
    );
    // The usual requests are of no use beside themselves.
    let (_, out, _) = ask(&["--peak", "1", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&document["usual"], &document["asked"]["calls"]), (&Value::Null, &json!(40)));
    for (more, expected) in [
        (&["--peak", "3"][..], "there is no peak 3: the histogram has 2"),
        (&["--peak", "0"], "there is no peak 0: the histogram has 2"),
        (&["--tree"], "--tree needs --peak or --compare"),
    ] {
        let (code, _, err) = ask(more);
        assert!(code == 2 && err.contains(expected), "{more:?}: {err}");
    }
    let (code, _, err) = run(&made, &["wakepath.rec", "spans.json", "--peak", "1"]);
    let several = "requests of several operations: `GET /cart` of `shop`, `POST /pay` of `shop`";
    assert!(code == 2 && err.contains(several), "{err}");
}

#[test]
fn spans_that_were_left_out_are_named_and_counted_in_every_answer() {
    let (made, mut spans) = peaks();
    let mut without_end = spans[0].clone();
    without_end["spanId"] = "f".repeat(16).into();
    without_end["endTimeUnixNano"] = "1".into();
    spans.push(without_end);
    // Three in a circle.
    for (id, parent) in [(0xa1, 0xa2), (0xa2, 0xa3), (0xa3, 0xa1)] {
        let mut one = span(id, "GET /circle", (50 + id, 800), 10);
        one["traceId"] = "c".repeat(32).into();
        one["parentSpanId"] = format!("{parent:016x}").into();
        one["kind"] = 1.into();
        spans.push(one);
    }
    write_spans(&made, &spans);
    let of_cart = ["wakepath.rec", "spans.json", "--operation", "GET /cart"];
    let (quick, _) = peaks();
    write_spans(&quick, &spans[..40]);
    let [other, others] = ["wakepath.rec", "spans.json"].map(|name| quick.folder().join(name));
    let [other, others] = [&other, &others].map(|path| path.to_str().expect("text"));
    for more in [
        &[][..],
        &["--slowest", "1"],
        &["--peak", "2"],
        &["--peak", "2", "--tree"],
        &["--compare", other, others],
    ] {
        let arguments = [&of_cart[..], more].concat();
        let (_, out, _) = run(&made, &arguments);
        assert!(
            out.contains("warning: 1 span without a beginning and an end was left out\n"),
            "{more:?}: {out}"
        );
        assert!(out.contains("warning: 3 spans were their own ancestors\n"), "{more:?}: {out}");
        if more.contains(&"--tree") {
            continue;
        }
        let (_, out, _) = run(&made, &[&arguments[..], &["--json"]].concat());
        let document: Value = serde_json::from_str(&out).expect("JSON");
        let keys = ["spans_left_out", "spans_cut_off", "spans_in_circles"].map(|key| &document[key]);
        assert_eq!(keys, [&json!(1), &json!([]), &json!(3)], "{more:?}");
    }
    // The other recording's warnings are counted.
    let of_other = [other, others, "--operation", "GET /cart", "--compare", "wakepath.rec", "spans.json"];
    let (_, out, _) = run(&made, &of_other);
    assert!(out.contains("warning: the answer about the other recording has 2 warnings of its own"), "{out}");
    let (_, out, _) = run(&made, &[&of_other[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&document["other_warnings"], &document["spans_left_out"]), (&json!(2), &json!(0)));
}

#[test]
fn requests_outside_of_the_recording_are_not_without_a_thread() {
    let (made, mut spans) = peaks();
    // Three thousand more as long as the second peak, ten seconds after the recording's end: more than are explained, and the first ten
    // have no thread.
    for one in 0..3000 {
        let at = 10_000_000_000 + 10_000 * one;
        spans.push(span(0x9000 + one, "GET /cart", (at, at + 5000), if one < 10 { 0 } else { 10 }));
    }
    write_spans(&made, &spans);
    let of_cart = ["wakepath.rec", "spans.json", "--operation", "GET /cart", "--peak", "2"];
    let (_, out, _) = run(&made, &of_cart);
    let expected =
        "warning: 3000 requests without a path, since not all of the time was recorded: not explained here\n";
    assert!(out.contains(expected), "{out}");
    let (_, out, _) = run(&made, &[&of_cart[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&document["asked"]["calls"], &document["asked"]["explained"]), (&json!(3020), &json!(20)));
    assert_eq!(document["asked_no_path"], json!({"outside": 3000}));
    // One more for each reason.
    spans[40]["attributes"] = json!([]);
    spans[42]["attributes"][0]["value"]["intValue"] = json!("999");
    write_spans(&made, &spans);
    let (_, out, _) = run(&made, &of_cart);
    let expected = "3002 requests without a path, since not all of the time was recorded (3000), the thread is not known (1), the \
                    thread was not recorded (1): not explained here";
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&out).contains(&words(expected)), "{out}");
    // None at all.
    write_spans(&made, &spans[100..]);
    let (code, _, err) =
        run(&made, &["wakepath.rec", "spans.json", "--operation", "GET /cart", "--peak", "1"]);
    let expected = "none of these 2980 requests has a path: not all of the time was recorded";
    assert!(code == 2 && err.contains(expected) && err.contains("wakepath info"), "{err}");
    write_spans(&made, &spans[3079..]);
    let (code, _, err) =
        run(&made, &["wakepath.rec", "spans.json", "--operation", "GET /cart", "--peak", "1"]);
    assert!(code == 2 && err.contains("this request has no path: not all of the time was recorded"), "{err}");
}

#[test]
fn a_request_before_the_boot_or_over_it_has_its_length_and_no_path() {
    // The recording begins with the machine, and one request covers all of it.
    let boot = |from: u64, to: u64| {
        let made = made(
            "thread cart tid=10\n0 c0 idle started\n0 c0 idle switch cart\n900000 c0 cart switch idle blocked call=35:0\n",
            &[],
        );
        let mut early = span(0x77, "GET /early", (0, 0), 10);
        early["startTimeUnixNano"] = (REALTIME - from).to_string().into();
        early["endTimeUnixNano"] = (REALTIME + 500 - to).to_string().into();
        let mut part = span(0x78, "SELECT", (0, 0), 10);
        part["traceId"] = early["traceId"].clone();
        part["parentSpanId"] = early["spanId"].clone();
        part["kind"] = 1.into();
        part["startTimeUnixNano"] = (REALTIME - from + 1000).to_string().into();
        part["endTimeUnixNano"] = (REALTIME - from + 4000).to_string().into();
        write_spans(&made, &[early, part]);
        made
    };
    for (from, to, length, percent, why) in [
        (1_000_000, 0, "1.00 ms", "0.3%", "not all of its time was recorded"),
        (20_000, 10_500, "10.0 µs", "30.0%", "no recording covers it, since its spans are from another time"),
    ] {
        let made = boot(from, to);
        let (_, out, _) = run(&made, &["wakepath.rec", "spans.json", "--json"]);
        let document: Value = serde_json::from_str(&out).expect("JSON");
        let times = |one: &Value| ["from_ns", "to_ns"].map(|key| one[key].as_i64().expect("a time"));
        let expected = [-(from as i64), 500 - to as i64];
        assert_eq!(times(&document["requests"][0]), expected);
        let (_, out, _) = run(&made, &["wakepath.rec", "spans.json", "--slowest", "1"]);
        assert!(
            out.starts_with(&format!("shop GET /early took {length}: mostly in shop GET /early (")),
            "{out}"
        );
        assert!(out.contains(&format!("{percent}  3.00 µs  shop SELECT, 1 span")), "{out}");
        assert!(out.contains(why), "{out}");
        let (_, list, _) = run(&made, &["wakepath.rec", "spans.json"]);
        let day = if from == 1_000_000 {
            "02:58:41.309000 to 02:58:41.310000"
        } else {
            "02:58:41.309980000 to 02:58:41.309990000"
        };
        assert!(list.contains(day) && out.contains(day), "{list}{out}");
        assert!(list.contains(length), "{list}");
        let (_, out, _) = run(&made, &["wakepath.rec", "spans.json", "--slowest", "1", "--json"]);
        let document: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(times(&document["request"]), expected);
        assert_eq!(document["no_path"], "outside");
        let spans = document["spans"].as_array().expect("a list");
        let [first, last] = [&spans[0], &spans[spans.len() - 1]];
        assert_eq!([times(first)[0], times(last)[1]], expected, "they tile its time");
        assert!(spans.windows(2).all(|pair| times(&pair[0])[1] == times(&pair[1])[0]), "{spans:?}");
        assert_eq!(times(&spans[1]), [expected[0] + 1000, expected[0] + 4000]);
        assert_eq!(document["states"][0]["total_ns"], expected[1] - expected[0]);
    }
}

#[test]
fn requests_without_a_path_are_counted_and_are_not_explained() {
    let (made, mut spans) = peaks();
    spans[40]["attributes"] = json!([]);
    spans[0]["attributes"] = json!([]);
    spans[1]["attributes"] = json!([]);
    write_spans(&made, &spans);
    let of_cart = ["wakepath.rec", "spans.json", "--operation", "GET /cart", "--peak", "2"];
    let (_, out, _) = run(&made, &of_cart);
    assert!(out.contains("warning: 1 request without a path, since the thread"), "{out}");
    assert!(out.contains("warning: 2 requests of those beside them without a path"), "{out}");
    let (_, out, _) = run(&made, &[&of_cart[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let counts = ["asked_without_path", "usual_without_path"].map(|key| &document[key]);
    assert_eq!(counts, [&json!(1), &json!(2)]);
    assert_eq!((&document["asked"]["calls"], &document["asked"]["explained"]), (&json!(20), &json!(19)));
    spans.iter_mut().for_each(|span| span["attributes"] = json!([]));
    write_spans(&made, &spans);
    let (code, _, err) = run(&made, &of_cart);
    assert!(code == 2 && err.contains("none of these 20 requests has a path"), "{err}");
}

#[test]
fn requests_of_two_recordings_are_compared() {
    let (made, spans) = peaks();
    write_spans(&made, &spans);
    // In the other recording, `cart` never waits.
    let quick = wakepath_harness::made::made(
        "thread cart tid=10\n0 c0 idle started\n0 c0 idle switch cart\n99000 c0 cart switch idle blocked call=35:0\n",
        &[],
    );
    write_spans(&quick, &spans[..40]);
    let other = quick.folder().join("wakepath.rec");
    let others = quick.folder().join("spans.json");
    let [other, others] = [&other, &others].map(|path| path.to_str().expect("text"));
    let arguments = ["wakepath.rec", "spans.json", "--operation", "GET /cart", "--compare", other, others];
    let (code, out, err) = run(&made, &arguments);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.starts_with(
            "60 requests of shop GET /cart took 1.73 µs on average, those of the other recording took 100 ns:\nmostly waiting for a lock that pay held"
        ),
        "{out}"
    );
    assert!(out.contains("1.57 µs     0 ns  shop POST /pay (in 20 of 60 requests)\n"), "{out}");
    let (_, out, _) = run(&made, &[&arguments[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&document["usual"]["calls"], &document["usual"]["peak"]), (&json!(40), &Value::Null));
    assert_eq!(document["other_warnings"], 0);
    // The other way round.
    let arguments = [other, others, "--operation", "GET /cart", "--compare", "wakepath.rec", "spans.json"];
    let (_, out, _) = run(&made, &arguments);
    assert!(
        out.starts_with("40 requests of shop GET /cart took 100 ns on average, those of the other"),
        "{out}"
    );
}

#[test]
fn a_process_of_one_recording_is_never_put_together_with_one_of_another() {
    // A process with this number ends the wait of `cart`.
    let waits = |pid: u32, long: u64| {
        let trace = format!(
            "thread cart tid=10\nthread more tid=30\nthread pay tid={pid}\n0 c0 idle started\n0 c0 idle switch cart\n\
             0 c1 idle switch pay\n100 c0 cart switch idle blocked call=0:3\n{} c1 pay waking cart\n{} c0 idle switch cart\n\
             9000 c0 cart switch idle blocked call=35:0\n9000 c1 pay switch idle blocked call=35:0\n",
            100 + long,
            110 + long,
        );
        let made = wakepath_harness::made::made(&trace, &[]);
        write_spans(&made, &[span(1, "GET /cart", (50, 8000), 10)]);
        made
    };
    // Whichever recording has more of it.
    for (long, short) in [(5000, 1000), (1000, 5000)] {
        let (one, other) = (waits(20, long), waits(21, short));
        let [recording, spans] = ["wakepath.rec", "spans.json"].map(|name| other.folder().join(name));
        let [recording, spans] = [&recording, &spans].map(|path| path.to_str().expect("text"));
        let (code, out, err) = run(&one, &["wakepath.rec", "spans.json", "--compare", recording, spans]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains("waiting for pay (20)") || out.contains("waiting for pay (21)"), "{out}");
    }
}

#[test]
fn spans_are_a_target_of_latencies() {
    let (made, spans) = peaks();
    write_spans(&made, &spans);
    let ask = |targets: &[&str]| {
        let arguments = [&["latency", "-i", "wakepath.rec", "-i", "spans.json"][..], targets].concat();
        made.run(arguments)
    };
    let (code, out, err) = ask(&["span:shop/GET /cart", "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let target = &document["targets"][0];
    assert_eq!(
        (&target["of"], &target["count"], &target["sum"]),
        (&json!("spans"), &json!(60), &json!("104000"))
    );
    assert_eq!(target["target"], "span:shop/GET /cart");
    let (_, out, _) = run(&made, &["wakepath.rec", "spans.json", "--operation", "GET /cart", "--json"]);
    let requests: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(target["peaks"], requests["operations"][0]["peaks"], "numbered alike");
    assert_eq!(target["buckets"], requests["operations"][0]["buckets"]);
    let (_, out, _) = ask(&["span:*", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let names: Vec<_> =
        document["targets"].as_array().expect("a list").iter().map(|one| &one["target"]).collect();
    assert_eq!(names, [&json!("span:shop/GET /cart"), &json!("span:shop/POST /pay")]);
    // Spans that ended within a part of the time.
    let (_, out, _) = ask(&["span:shop/GET /cart", "--to", "0.000011", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let target = &document["targets"][0];
    assert_eq!((&target["count"], &target["open"]), (&json!(10), &json!(1)));
    let (code, _, err) = ask(&["span:shop/nothing"]);
    assert!(
        code == 2
            && err.contains(
                "there is no `span:shop/nothing` in this recording; available: `span:shop/GET /cart`"
            ),
        "{err}"
    );
    let (code, _, err) = made.run(["latency", "-i", "wakepath.rec", "span:*"]);
    assert!(code == 2 && err.contains("there are no spans"), "{err}");
}

//! The slowest requests by cause, and the requests under way between two times.

use std::fs;

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

use super::peak::{span, write_spans};

/// `cart` serves 120 requests that run for 100 ns, and, in turn, eight waiting for 4 µs while `pay` holds their lock and
/// has its own request, and four sleeping for 6 µs. Two have no known thread; the last is from another time.
fn slow() -> Made {
    let mut trace = String::from(
        "thread cart tid=10\nthread pay tid=12 tgid=10\n0 c0 idle started\n0 c0 idle switch cart\n0 c1 idle switch pay\n",
    );
    let (mut spans, mut at, mut id) = (Vec::new(), 1000, 0x1000);
    let mut add = |name: &str, times: (u64, u64), tid: u32| {
        id += 1;
        spans.push(span(id, name, times, tid));
    };
    for _ in 0..120 {
        add("GET /cart", (at, at + 100), 10);
        at += 1000;
    }
    for place in 0..12 {
        if place % 3 == 2 {
            add("GET /report", (at, at + 6200), 10);
            let (slept, woken) = (at + 100, at + 6100);
            trace += &format!(
                "{slept} c0 cart switch idle blocked call=230:0\n{woken} c0 idle/timer waking cart\n{woken} c0 idle switch cart\n"
            );
        } else {
            add("GET /cart", (at, at + 4200), 10);
            add("POST /pay", (at - 500, at + 4100), 12);
            let (waits, woken, runs) = (at + 100, at + 4000, at + 4100);
            trace += &format!(
                "{waits} c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=pay\n{woken} c1 pay waking cart\n{runs} c0 idle switch cart\n"
            );
        }
        at += 10_000;
    }
    add("GET /lost", (2000, 5000), 0);
    add("GET /lost", (2000, 4000), 0);
    add("GET /boot", (900_000_000, 900_500_000), 10);
    trace +=
        &format!("{at} c0 cart switch idle blocked call=35:0\n{at} c1 pay switch idle blocked call=35:0\n");
    let made = made(&trace, &[]);
    write_spans(&made, &spans);
    made
}

fn ask(made: &Made, more: &[&str]) -> (i32, String, String) {
    made.run([&["requests", "wakepath.rec", "spans.json"], more].concat())
}

fn document(made: &Made, more: &[&str]) -> Value {
    let (code, out, err) = ask(made, &[more, &["--json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{more:?}");
    serde_json::from_str(&out).expect("a document")
}

/// Each group's code, count and time.
fn groups(document: &Value) -> Vec<String> {
    let groups = document["groups"].as_array().expect("a list").iter();
    groups
        .map(|one| format!("{} {} {}", one["code"].as_str().unwrap_or(""), one["count"], one["cause_ns"]))
        .collect()
}

#[test]
fn slow_requests_stand_on_a_screen_by_the_cause_of_their_time() {
    let made = slow();
    let (code, out, err) = ask(&made, &["--slowest", "24", "--by-cause"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let expected = "\
10 of the 24 slowest of 143 requests took 37.0 µs in all: mostly running (37.0 µs, 100%, measured)
";
    assert!(out.starts_with(expected), "{out}");
    for row in [
        "\n       8  31.2 µs  3.90 µs  blocked by shop POST /pay  inferred\n                            93% of 33.6 µs: shop GET /cart; the slowest 4.20 µs, request\n                            0000000000001079\n",
        "\n       4  24.0 µs  6.00 µs  sleeping until a timer\n                            97% of 24.8 µs: shop GET /report; the slowest 6.20 µs, request\n                            000000000000107d\n",
        "\n       2  5.00 µs  2.50 µs  in shop GET /lost, by spans alone  inferred\n",
        "\nwarning: 2 requests without a path, since the thread is not known: the cause is by spans alone\n",
        "\nlost 0 records\nnext: wakepath requests wakepath.rec spans.json --request 000000000000107",
    ] {
        assert!(out.contains(row), "{row}: {out}");
    }
}

#[test]
fn the_document_has_each_group_with_its_requests_and_the_command_that_goes_on() {
    let made = slow();
    let whole = document(&made, &["--slowest", "24", "--by-cause"]);
    assert_eq!(
        (&whole["schema"], &whole["count"], &whole["explained"]),
        (&json!("wakepath.requests/1"), &json!(143), &json!(24))
    );
    let expected = ["caller 10 37000", "blocked_by_request 8 31200", "timer 4 24000", "span 2 5000"];
    assert_eq!(groups(&whole), expected);
    assert_eq!((&whole["without_path"], &whole["no_path"]), (&json!(2), &json!({"no_thread": 2})));
    let blocked = &whole["groups"][1];
    assert_eq!(blocked["blocked_by"], json!({"service": "shop", "operation": "POST /pay", "sampled": true}));
    assert_eq!(
        (&blocked["total_ns"], &blocked["basis"], &blocked["by"]),
        (&json!(33_600), &json!("inferred"), &json!("path"))
    );
    assert_eq!(blocked["operations"], json!([{"service": "shop", "operation": "GET /cart", "count": 8}]));
    let ids = blocked["requests"].as_array().expect("a list").iter();
    let ids: Vec<_> = ids.map(|one| one["span_id"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(ids.len(), 8);
    let next = whole["next"].as_array().expect("words").iter().map(|word| word.as_str().expect("text"));
    let next: Vec<_> = next.collect();
    assert_eq!(next[..4], ["wakepath", "requests", "wakepath.rec", "spans.json"]);
    let (code, _, err) = made.run(next[1..].iter().copied());
    assert_eq!((code, err.as_str()), (0, ""), "the command works: {next:?}");
    // A hundred by default.
    let hundred = document(&made, &["--by-cause"]);
    assert_eq!((&hundred["explained"], &hundred["count"]), (&json!(100), &json!(143)));
    // Those from another time are last, by their arrival too.
    for more in
        [&["--slowest", "200", "--by-cause"][..], &["--slowest", "200", "--by-cause", "--from-arrival"]]
    {
        let (code, out, err) = ask(&made, &[more, &["--json"]].concat());
        assert_eq!(code, 0, "{more:?}");
        let note = "the arrival of 143 of 143 requests is not known";
        assert_eq!(err.contains(note), more.contains(&"--from-arrival"), "{more:?}: {err}");
        let all: Value = serde_json::from_str(&out).expect("a document");
        assert_eq!(all["explained"], 143);
        let last = all["groups"].as_array().and_then(|groups| groups.last()).expect("a group");
        assert_eq!((&last["outside"], &last["cause_ns"]), (&json!(true), &json!(500_000)), "{more:?}");
    }
    for (more, expected) in [
        (&["--service", "shop", "--operation", "GET /report"][..], "timer 4 24000"),
        (&["--operation", "GET /lost"], "span 2 5000"),
    ] {
        assert_eq!(groups(&document(&made, &[more, &["--by-cause"]].concat())), [expected]);
    }
}

#[test]
fn from_and_to_choose_the_requests_under_way_for_the_list_the_slowest_and_the_causes() {
    let made = slow();
    // The first two long requests: from 121 µs to 135.2 µs.
    let range = ["--from", "0.000121", "--to", "02:58:41.310135"];
    let list = document(&made, &range);
    let names = |list: &Value| -> Vec<String> {
        let all = list["requests"].as_array().expect("a list").iter();
        all.map(|one| one["operation"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names(&list), ["POST /pay", "POST /pay", "GET /cart", "GET /cart"]);
    assert_eq!(list["operations"].as_array().map(Vec::len), Some(2));
    let by_cause = document(&made, &[&range[..], &["--by-cause"]].concat());
    assert_eq!(groups(&by_cause), ["caller 2 9200", "blocked_by_request 2 7800"]);
    let (_, out, _) = ask(&made, &[&range[..], &["--slowest", "9", "--json"]].concat());
    assert_eq!(out.lines().count(), 4, "{out}");
    for (more, expected, hint) in [
        (&["--from", "2", "--to", "1"][..], "the time asked about is empty", "`wakepath info`"),
        (&["--to", "500ns"], "none of 143 requests was under way at this time", "without --from and --to"),
        (&["--from", "yesterday"], "`yesterday` is not a time", "02:58:41.310"),
        (&["--from", "1", "--request", "1001"], "cannot be used with", "--request"),
        (&["--to", "1", "--peak", "1"], "cannot be used with", "--peak"),
        (&["--to", "1", "--compare", "wakepath.rec"], "cannot be used with", "--compare"),
    ] {
        let (code, out, err) = ask(&made, more);
        assert_eq!((code, out.as_str()), (2, ""), "{more:?}");
        assert!(err.contains(expected) && err.contains(hint), "{more:?}: {err}");
    }
}

#[test]
fn many_answers_end_with_the_command_that_groups_the_same_requests() {
    let made = slow();
    let last = |more: &[&str]| {
        let (code, out, err) = ask(&made, more);
        assert_eq!(code, 0, "{more:?}: {err}");
        let (_, next) = out.rsplit_once("\nnext: ").unwrap_or_default();
        next.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let next = "wakepath requests wakepath.rec spans.json";
    assert_eq!(last(&["--slowest", "6"]), format!("{next} --slowest 6 --by-cause"));
    assert!(!last(&["--slowest", "5"]).contains("--by-cause"));
    assert!(!last(&["--slowest", "6", "--json"]).contains("--by-cause"));
    assert_eq!(
        last(&[
            "--slowest",
            "7",
            "--service",
            "shop",
            "--operation",
            "GET /cart",
            "--from",
            "-9s",
            "--to",
            "02:59"
        ]),
        format!(
            "{next} --service shop --operation 'GET /cart' --from -9 --to 02:59:00 --slowest 7 --by-cause"
        )
    );
    assert_eq!(
        last(&["--slowest", "7", "--from-arrival"]),
        format!("{next} --slowest 7 --from-arrival --by-cause")
    );
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let made = slow();
    for (more, expected) in [
        (&["--slowest", "0"][..], "expected a number from 1 on"),
        (&["--slowest", "0", "--by-cause"], "expected a number from 1 on"),
        (&["--from-arrival"], "--from-arrival needs --slowest or --by-cause"),
        (&["--by-cause", "--request", "1001"], "cannot be used with"),
        (&["--by-cause", "--peak", "1"], "cannot be used with"),
        (&["--by-cause", "--compare", "wakepath.rec"], "cannot be used with"),
        (&["--by-cause", "--export-otlp", "out.json"], "cannot be used with"),
        (&["--by-cause", "--export-perfetto", "out"], "cannot be used with"),
        (&["--by-cause", "--tree"], "--tree needs --peak or --compare"),
        (&["--by-cause", "--operation", "nothing"], "no request is of `nothing`"),
    ] {
        let (code, out, err) = ask(&made, more);
        assert_eq!((code, out.as_str()), (2, ""), "{more:?}");
        assert!(err.contains(expected), "{more:?}: {err}");
    }
}

#[test]
fn spans_alone_are_grouped_by_the_operation_with_the_most_own_time() {
    let made = slow();
    fs::rename(made.folder().join("wakepath.rec"), made.folder().join("other.rec")).expect("it is there");
    let ask = |more: &[&str]| made.run([&["requests", "spans.json"], more].concat());
    let (code, out, err) = ask(&["--slowest", "10", "--by-cause"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.starts_with("1 of the 10 slowest of 143 requests took 500 µs: mostly in shop GET /boot (500 µs, 100%, inferred)\n"),
        "{out}"
    );
    assert!(
        out.contains("\n       5  23.0 µs  4.60 µs  in shop POST /pay, by spans alone  inferred\n"),
        "{out}"
    );
    assert!(
        out.contains("no recording was read") && out.contains("\nto record: sudo wakepath record"),
        "{out}"
    );
    let (_, out, _) = ask(&["--slowest", "10", "--by-cause", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("a document");
    assert_eq!(document["schema"], "wakepath.requests_alone/1");
    assert_eq!(groups(&document), ["span 1 500000", "span 4 24800", "span 5 23000"]);
    let next = ["wakepath", "requests", "spans.json", "--request", "000000000000108f"];
    assert_eq!(document["next"], json!(next));
    for (option, value) in [("--from", "1"), ("--to", "1")] {
        let (code, out, err) = ask(&["--by-cause", option, value]);
        assert_eq!((code, out.as_str()), (2, ""), "{option}");
        assert!(err.contains(&format!("{option} needs a recording")) && err.contains("hint"), "{err}");
    }
    let (_, out, _) = ask(&["--slowest", "6"]);
    assert!(out.ends_with("\nnext: wakepath requests spans.json --slowest 6 --by-cause\n"), "{out}");
}

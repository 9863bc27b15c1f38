//! A request in an event loop, whose thread only its connection names: undecided, or decided by the loop's time-outs.

use serde_json::{Value, json};
use wakepath_harness::made::{Made, made};

use super::peak::{span, write_spans};

/// `loop` takes `a`'s data up at 20, and waits. `b`'s data come at 100, and `b` has the loop until 150; `a` is answered behind it. Times in units of
/// 100 µs.
const LOOP: &str = "
    flow ask_a 127.0.0.1:40001 > 127.0.0.1:8080
    flow say_a 127.0.0.1:8080 > 127.0.0.1:40001
    flow ask_b 127.0.0.1:40002 > 127.0.0.1:8080
    flow say_b 127.0.0.1:8080 > 127.0.0.1:40002
    thread loop tid=10
    0 c0 idle started
    0 c0 idle switch loop
    10 c0 loop switch idle blocked call=232:0x3
    20 c0 idle/net_rx in ask_a seq=1 len=9
    20 c0 idle/net_rx waking loop
    20 c0 idle switch loop
    40 c0 loop switch idle blocked call=232:0x3
    100 c0 idle/net_rx in ask_b seq=1 len=9
    100 c0 idle/net_rx waking loop
    100 c0 idle switch loop
    150 c0 loop out say_b seq=1 len=9
    155 c0 loop out say_a seq=1 len=9
    200 c0 loop switch idle blocked call=232:0x3
";

/// This trace, with the requests `GET /await` and `GET /report` and their times, ns.
fn recorded(trace: &str, [own, other]: [(u64, u64); 2]) -> Made {
    let scaled = |line: &str| match line.trim().split_once(' ') {
        Some((at, rest)) => {
            at.parse::<u64>().map_or(line.to_owned(), |at| format!("{} {rest}", at * 100_000))
        }
        None => line.to_owned(),
    };
    let trace = trace.lines().map(scaled).collect::<Vec<_>>().join("\n");
    let made = made(&trace, &[]);
    let spans: Vec<Value> = (1..)
        .zip([("GET /await", own), ("GET /report", other)])
        .map(|(id, (name, times))| {
            let mut span = span(id, name, times, 0);
            span["attributes"] = json!([]);
            span
        })
        .collect();
    write_spans(&made, &spans);
    made
}

/// The answer about `GET /await`.
fn answer(made: &Made, more: &[&str]) -> String {
    let id = format!("{:032x}", 1);
    let (code, out, err) =
        made.run([&["requests", "wakepath.rec", "spans.json", "--request", &id], more].concat());
    assert_eq!(code, 0, "{err}");
    out
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn who_may_have_blocked_it_is_named_with_the_longest_possible_time() {
    let made = recorded(LOOP, [(2_500_000, 15_600_000), (10_100_000, 15_000_000)]);
    let screen = words(&answer(&made, &[]));
    let perhaps = "perhaps blocked by shop GET /report, request 0000000000000002, for 4.90 ms at most: its event loop ran then, and nothing shows when this request was ready";
    assert!(screen.contains(perhaps), "{screen}");
    assert!(screen.contains("nothing shows for what it waited in its event loop"), "{screen}");
    let document: Value = serde_json::from_str(&answer(&made, &["--json"])).expect("JSON");
    let [one] = &document["perhaps_blocked_by"].as_array().expect("a list")[..] else {
        panic!("{}", document["perhaps_blocked_by"])
    };
    assert_eq!((&one["operation"], &one["at_most_ns"]), (&json!("GET /report"), &json!(4_900_000)));
    assert_eq!(document["blocked_by"], json!([]), "it is no blocker for sure");
}

#[test]
fn the_request_whose_data_alone_ended_an_idle_loops_wait_blocked_the_answered_one() {
    // No timer is due, and `b`'s turn is short.
    let idle = LOOP
        .replace("232:0x3", "232:0x3fffffff00000003")
        .replace("150 c0 loop out say_b", "101 c0 loop out say_b")
        .replace("155 c0 loop out say_a", "107 c0 loop out say_a");
    let times = [(2_500_000, 10_750_000), (10_050_000, 10_150_000)];
    let screen = words(&answer(&recorded(&idle, times), &[]));
    let blocked =
        "shop GET /await was blocked by shop GET /report, request 0000000000000002, for 6.00 ms of 8.25 ms";
    assert!(screen.contains(blocked), "{screen}");
    let document: Value = serde_json::from_str(&answer(&recorded(&idle, times), &["--json"])).expect("JSON");
    let rules: Vec<_> =
        document["waits"].as_array().expect("a list").iter().map(|wait| &wait["rule"]).collect();
    assert!(rules.contains(&&json!("ready_in_turn")), "{rules:?}");
    // A timer may be due since.
    let unknown = words(&answer(&recorded(&idle.replace("0x3fffffff00000003", "0x3"), times), &[]));
    assert!(unknown.contains("nothing shows for what it waited in its event loop"), "{unknown}");
}

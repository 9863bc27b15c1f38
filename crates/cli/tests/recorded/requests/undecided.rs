//! A request that is undecided in its event loop, whose thread only its connection names.

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

fn busy() -> Made {
    let scaled = |line: &str| match line.trim().split_once(' ') {
        Some((at, rest)) => {
            at.parse::<u64>().map_or(line.to_owned(), |at| format!("{} {rest}", at * 100_000))
        }
        None => line.to_owned(),
    };
    let trace = LOOP.lines().map(scaled).collect::<Vec<_>>().join("\n");
    let made = made(&trace, &[]);
    let spans = [("GET /await", (2_500_000, 15_600_000)), ("GET /report", (10_100_000, 15_000_000))];
    let spans: Vec<Value> = (1..)
        .zip(spans)
        .map(|(id, (name, times))| {
            let mut span = span(id, name, times, 0);
            span["attributes"] = json!([]);
            span
        })
        .collect();
    write_spans(&made, &spans);
    made
}

#[test]
fn who_may_have_blocked_it_is_named_with_the_longest_possible_time() {
    let made = busy();
    let ask = |more: &[&str]| {
        let id = format!("{:032x}", 1);
        let (code, out, err) =
            made.run([&["requests", "wakepath.rec", "spans.json", "--request", &id], more].concat());
        assert_eq!(code, 0, "{err}");
        out
    };
    let screen = ask(&[]).split_whitespace().collect::<Vec<_>>().join(" ");
    let perhaps = "perhaps blocked by shop GET /report, request 0000000000000002, for 4.90 ms at most: its event loop ran then, and nothing shows when this request was ready";
    assert!(screen.contains(perhaps), "{screen}");
    assert!(screen.contains("nothing shows for what it waited in its event loop"), "{screen}");
    let document: Value = serde_json::from_str(&ask(&["--json"])).expect("JSON");
    let [one] = &document["perhaps_blocked_by"].as_array().expect("a list")[..] else {
        panic!("{}", document["perhaps_blocked_by"])
    };
    assert_eq!((&one["operation"], &one["at_most_ns"]), (&json!("GET /report"), &json!(4_900_000)));
    assert_eq!(document["blocked_by"], json!([]), "it is no blocker for sure");
}

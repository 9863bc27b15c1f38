//! On a drawn recording, for requests without spans: the attributes that threads publish beside their spans, and the processes' descriptions of
//! themselves.

use serde_json::{Value, json};
use wakepath_event::{EventKind, NameSpace};
use wakepath_harness::made::{Made, made};

use super::{span, write_spans};

/// `cart` waits for a lock held by `stock`, which works for a request without spans.
const LOCK: &str = "
thread cart tid=10
thread stock tid=11 tgid=10
thread pay tid=12 tgid=10
0 c0 idle started
0 c0 idle switch cart
0 c1 idle switch stock
60 c0 cart context a/a
60 c0 cart switch idle runnable
70 c0 idle switch cart
100 c0 cart switch idle blocked call=202:0x1000 op=128 value=2 claim=stock
300 c1 stock context c/c unsampled
300 c1 stock attribute 2 /early
300 c1 stock attribute 0 PUT
300 c1 stock attribute 9 nameless
300 c1 stock attribute 2 /stock
300 c1 stock switch pay runnable
400 c1 pay switch stock blocked call=35:0
500 c1 stock waking cart
510 c0 idle switch cart
600 c1 stock switch idle blocked call=35:0
700 c0 cart context none
700 c0 cart switch idle blocked call=35:0
";

/// The recording with these names, and the span of `cart`.
fn recorded(names: &[EventKind]) -> Made {
    let made = made(LOCK, names);
    write_spans(&made, &[span('a', None, "GET /cart", (50, 650), None)]);
    made
}

fn run(made: &Made, arguments: &[&str]) -> String {
    let words = [&["requests", "wakepath.rec", "spans.json", "--request", "aaaa"], arguments].concat();
    let (code, out, err) = made.run(words);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out
}

/// The blocker, as JSON, and the whole answer as one line of text.
fn blocker(names: &[EventKind]) -> (Value, String) {
    let made = recorded(names);
    let document: Value = serde_json::from_str(&run(&made, &["--json"])).expect("JSON");
    let text = run(&made, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    (document["blocked_by"][0].clone(), text)
}

#[test]
fn a_blocker_whose_spans_are_missing_has_what_its_thread_and_its_process_say_of_it() {
    let name = |space, key: u64, name: &str| EventKind::Name(space, key, name.as_bytes().into());
    let (blocker, text) = blocker(&[
        name(NameSpace::Service, 10, "depot"),
        name(NameSpace::ServiceInstance, 10, "i-7"),
        name(NameSpace::ThreadAttribute, 10 << 8, "http.request.method"),
        name(NameSpace::ThreadAttribute, 10 << 8 | 2, "http.route"),
        // No thread here belongs to this process.
        name(NameSpace::ThreadAttribute, 11 << 8 | 9, "http.status_code"),
    ]);
    assert_eq!((&blocker["service"], &blocker["service_instance"]), (&json!("depot"), &json!("i-7")));
    let attribute = |name, value| json!({"name": name, "value": value, "cut": false});
    let expected = [attribute("http.request.method", "PUT"), attribute("http.route", "/stock")];
    assert_eq!(blocker["attributes"], json!(expected));
    let said = format!(
        "was blocked by depot (instance i-7), request {} with http.request.method PUT, http.route /stock, not \
         sampled,",
        "c".repeat(32)
    );
    assert!(text.contains(&said), "{said}: {text}");
}

#[test]
fn attributes_without_names_and_a_process_that_says_nothing_leave_the_trace_alone() {
    let (blocker, text) = blocker(&[]);
    assert_eq!(blocker["attributes"], json!([]));
    assert_eq!((&blocker["service"], &blocker["service_instance"]), (&Value::Null, &Value::Null));
    let said = format!("was blocked by request {}, not sampled,", "c".repeat(32));
    assert!(text.contains(&said), "{said}: {text}");
}

//! The calls of a Go function on a recording that the test draws: their time is that of the goroutine that made them, also while it waits, and the
//! goroutine that made it ready is named.

use serde_json::{Value, json};
use wakepath_event::{EventKind, NameSpace};
use wakepath_harness::made::{Made, made};

/// Goroutine 5 makes a call in `one`, waits there for goroutine 7, and returns in `two`. Meanwhile `one` runs goroutine 6, which sleeps in the kernel.
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

/// The recording of this drawing, with the names in it.
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
    assert_eq!((&document["moved"], &document["of_goroutines"]), (&json!(0), &json!(true)), "{document:#}");
    assert_eq!(document["followed"], 1);
    let waits = json!([
        {
            "state": "parked", "reason": "chan receive", "total_ns": 400, "times": 1,
            "ended_by": {"goroutine": 7, "tid": 11, "comm": "two", "total_ns": 400},
        },
        {"state": "queued", "reason": null, "total_ns": 20, "times": 1, "ended_by": null},
    ]);
    eprintln!("{}", run(&made, &[]));
    eprintln!("{:#}", document);
    assert_eq!(document["goroutine_waits"], waits);
    // The goroutine that it waited for ran all the time. Behind its wait it runs in the other thread.
    let causes = document["causes"].as_array().expect("a list").iter();
    let causes: Vec<_> =
        causes.map(|cause| (cause["what"].as_str().expect("a text"), cause["asked_ns"].as_f64())).collect();
    let expected = [
        ("waiting for two", Some(400.0)),
        ("running", Some(100.0)),
        ("running two", Some(80.0)),
        ("ready, in a queue of its runtime", Some(20.0)),
    ];
    assert_eq!(causes, expected, "{document:#}");
    let text = run(&made, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "400 ns waiting to receive from a channel, 1 time; ended by goroutine 7, in two (11)";
    assert!(text.contains(said), "{text}");
    assert!(!text.contains("times below are those of threads"), "{text}");
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
    // Without a goroutine, one that changed its thread has no path.
    let (code, _, err) = drawn(&without.join("\n")).run(["path", "--call", "wakepath.rec"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("they returned in another thread than they began in"), "{err}");
}

//! The service of a process that sends no spans: by what it publishes in its memory, OpenTelemetry's process context.

use std::path::Path;

use serde_json::Value;
use wakepath_harness::live::{list, not_possible, number, place, program, record, run};

/// The requests of `shop` that one had the lock for, as documents: the kernel does not show all switches.
fn blocked(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let program = folder.join("two");
    let words = [&["--", program.to_str().expect("UTF-8"), "spans.json"], arguments].concat();
    record(folder, &words, 0);
    let question = ["requests", "wakepath.rec", "spans.json", "--slowest", "5", "--json"];
    let (documents, _) = run(folder, &question, 0);
    let documents = documents.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let is_blocked = |document: &Value| {
        let first = list(&document["blocked_by"]).first();
        first.is_some_and(|first| number(&first["total_ns"]) > 10_000_000)
    };
    documents.filter(is_blocked).collect()
}

#[test]
fn a_request_of_a_process_without_spans_has_the_service_that_the_process_says_it_is() {
    let shows = "a blocker without spans has the name of its service";
    let Some(folder) = place(shows) else { return };
    if std::process::Command::new("cc").arg("--version").output().is_err() {
        not_possible("no C compiler is here", shows);
        return;
    }
    program(&folder, "two", include_str!("two.c"), &["-O1", "-std=gnu11", "-pthread", "-rdynamic"]);
    for (arguments, service) in [(&[][..], Some("bank")), (&["silent"], None)] {
        let documents = blocked(&folder, arguments);
        assert!(!documents.is_empty(), "one had the lock");
        for document in documents {
            assert_eq!(document["request"]["service"], "shop");
            let first = &list(&document["blocked_by"])[0];
            assert_eq!((first["service"].as_str(), &first["operation"]), (service, &Value::Null), "{first}");
            let [trace, own] =
                [&first["trace_id"], &document["request"]["trace_id"]].map(|id| id.as_str().expect("an id"));
            assert!(trace.ends_with(&"cc".repeat(15)), "{trace}");
            let (text, _) = run(&folder, &["requests", "wakepath.rec", "spans.json", "--request", own], 0);
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let name = service.map_or(String::new(), |service| format!("{service}, "));
            let said =
                format!("shop GET /cart was blocked by {name}request {trace}, whose spans did not come");
            assert!(text.contains(&said), "{said}: {text}");
        }
    }
}

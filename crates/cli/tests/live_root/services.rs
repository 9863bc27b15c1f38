//! The service of a process without spans: by the process's published memory, OpenTelemetry's process context.

use serde_json::Value;
use wakepath_harness::live::{blocked, list, not_possible, place, program, run};

#[test]
fn a_request_of_a_process_without_spans_has_the_service_that_the_process_says_it_is() {
    let shows = "a blocker without spans has the name of its service";
    let Some(folder) = place(shows) else { return };
    if std::process::Command::new("cc").arg("--version").output().is_err() {
        not_possible("no C compiler is here", shows);
        return;
    }
    program(&folder, "two", include_str!("services/two.c"), &["-O1", "-std=gnu11", "-pthread", "-rdynamic"]);
    for (arguments, service) in [(&[][..], Some("bank")), (&["silent"], None)] {
        let documents = blocked(&folder, &[], "two", arguments);
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

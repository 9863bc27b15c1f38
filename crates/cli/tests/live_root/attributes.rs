//! Attributes in threads' memory beside their spans: listed attributes are recorded under the names published by the process, and no part of any
//! other gets onto the disk.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wakepath_harness::live::{blocked, list, not_possible, place, run};

/// Whether a file in or below a folder contains these bytes.
fn is_on_disk(folder: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(folder).expect("a folder").flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return is_on_disk(&path, bytes);
        }
        fs::read(path).expect("a file").windows(bytes.len()).any(|part| part == bytes)
    })
}

fn said(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value, "cut": false})
}

#[test]
fn a_blocker_without_spans_has_the_attributes_of_the_list_by_their_names_and_no_others_are_recorded() {
    let shows = "attributes in the memory of threads are recorded by the list";
    let Some(folder) = place(shows) else { return };
    if Command::new("cc").arg("--version").output().is_err() {
        not_possible("no C compiler is here", shows);
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic", "-o", "busy"]);
    compile.arg("-I").arg(tests.join("../../plugins/c")).arg(tests.join("tests/live_root/attributes/busy.c"));
    assert!(compile.current_dir(&folder).status().expect("a C compiler").success());

    let listed = [said("http.request.method", "PUT"), said("http.route", "/stock/{id}")];
    let cut = json!({"name": "db.system", "value": "x".repeat(104), "cut": true});
    let secret = said("user.name", "alice");
    let asked = ["--otlp", "0", "--otlp-attribute", "user.*"];
    for (options, arguments, kept) in
        [(&[][..], &[][..], false), (&[], &["late"], false), (&asked, &[], true)]
    {
        let documents = blocked(&folder, options, "busy", arguments);
        assert!(!documents.is_empty(), "one had the lock");
        for document in documents {
            let first = &list(&document["blocked_by"])[0];
            assert_eq!((&first["service"], &first["sampled"]), (&json!("shop"), &json!(false)), "{first}");
            assert_eq!(first["service_instance"], "shop-7", "{first}");
            let trace = first["trace_id"].as_str().expect("an id");
            let is_fifth = trace.starts_with("05");
            let mut expected: Vec<_> = is_fifth.then(|| cut.clone()).into_iter().collect();
            expected.extend(listed.iter().cloned());
            expected.extend(kept.then(|| secret.clone()));
            assert_eq!(first["attributes"], json!(expected), "{arguments:?}");
            let own = document["request"]["trace_id"].as_str().expect("an id");
            let (text, _) = run(&folder, &["requests", "wakepath.rec", "spans.json", "--request", own], 0);
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if !is_fifth && !kept {
                let said = format!(
                    "shop GET /cart was blocked by shop (instance shop-7), request {trace} with \
                     http.request.method PUT, http.route /stock/{{id}}, not sampled"
                );
                assert!(text.contains(&said), "{said}: {text}");
            }
        }
        let recording = folder.join("wakepath.rec");
        assert!(is_on_disk(&recording, b"/stock/{id}"));
        assert_eq!(is_on_disk(&recording, b"alice"), kept);
        assert!(!is_on_disk(&recording, b"nameless"), "a key without a name");
    }
}

//! A program's phases, marked by two of its functions.

use super::{Drilled, alone, document, number, only_path, program, run};

#[test]
fn only_calls_that_begin_within_a_phase_are_measured() {
    let Some(folder) = alone("calls are measured in phases of a program alone") else { return };
    let built = program(&folder, "phases", include_str!("phases.c"), &["-O1", "-g"]);
    let process = Drilled::start_program(&built, &[]);
    let [target, begins, ends, never] =
        ["serve", "phase_begins", "phase_ends", "never"].map(|function| format!("{built}:{function}"));
    let asked = ["drill", &target, "-p", &process.1, "--start-ops", "100", "--no-waits"];
    let ask = |options: &[&str]| document(&folder, &[&asked, options].concat());
    // Exchanged marks select the time between phases.
    for (first, second, culprit) in [(&begins, &ends, "load"), (&ends, &begins, "store")] {
        for stubs in [&[][..], &["--stubs"]] {
            let marks = ["--phase-begins", first, "--phase-ends", second];
            let answer = ask(&[&marks, stubs].concat());
            let (path, cause) = only_path(&answer);
            assert_eq!((path, &cause["cause"]), (vec!["serve", culprit], &"itself".into()), "{answer}");
            // 30 calls each, and one call in three is slow.
            let phases = &answer["phases"];
            assert_eq!(
                (phases["begins"].as_str(), phases["ends"].as_str()),
                (Some(&**first), Some(&**second))
            );
            let (calls, began) = (number(&answer["calls"]), number(&phases["began"]));
            assert!(calls <= 30 * began && calls + 60 > 30 * began, "{answer}");
        }
    }
    // Without phases both are found, with their shares. Up to ten votes more for one of them, from a phase in part: with few votes it would be the
    // only one.
    let answer = ask(&["--decision-calls", "400"]);
    let causes: Vec<_> =
        answer["root_causes"].as_array().expect("paths").iter().map(|path| &path[1]).collect();
    assert!(causes == ["load", "store"] || causes == ["store", "load"], "{answer}");
    assert!(answer["phases"].is_null());
    // A phase without a first mark begins at once, and ends for good.
    let until = ask(&["--phase-ends", &never]);
    assert_eq!(
        (&until["phases"]["begins"], number(&until["phases"]["began"])),
        (&serde_json::Value::Null, 1)
    );
    let words = [&asked[..], &["-d", "1s", "--phase-begins", &never]].concat();
    let (_, said) = run(&folder, &words, 2);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("no phase of the program began in 1.0 s: `") && said.contains("never` was not called"),
        "{said}"
    );
    // The time before a phase does not count as time without calls: a search gives up after 10 s without calls.
    let late = Drilled::start_program(&built, &["late"]);
    let marks = ["--phase-begins", &begins, "--phase-ends", &ends];
    let words = [&["drill", &target, "-p", &late.1, "--start-ops", "100"], &marks[..]].concat();
    let answer = document(&folder, &words);
    assert_eq!(only_path(&answer).0, ["serve", "load"]);
    // Samples know no phases; a function has the code inlined into it.
    let sampled = answer["explained_by"]["functions"]["path"][0]["function"].as_str();
    assert!(matches!(sampled, Some("load (phases)" | "store (phases)")), "{answer}");
    let (text, _) =
        run(&folder, &[&asked[..], &["--phase-begins", &begins, "--phase-ends", &ends]].concat(), 0);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(" phases, from ") && text.contains(":phase_begins to "), "{text}");
}

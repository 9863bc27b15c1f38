//! Each peak of a function is explained, in turn.

use serde_json::Value;

use super::{Drilled, alone, list, number, only_path, program, run};

/// The documents, one for each peak's search.
fn documents(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a document a line")).collect()
}

#[test]
fn each_peak_has_its_own_reason_and_the_slowest_comes_first() {
    let Some(folder) = alone("each peak of a function is explained alone") else { return };
    let built = program(&folder, "peaks", include_str!("peaks.c"), &["-O1", "-g"]);
    let process = Drilled::start_program(&built, &[]);
    let target = format!("{built}:serve");
    let asked = ["drill", &target, "-p", &process.1, "--start-ops", "500", "--peak", "all"];
    let (text, _) = run(&folder, &[&asked[..], &["--json"]].concat(), 0);
    let found = documents(&text);
    let peaks: Vec<u64> = found.iter().map(|answer| number(&answer["peak"]["number"])).collect();
    assert_eq!(peaks, [3, 2, 1], "{text}");
    let [store, load, look] = found.as_slice() else { return };
    // A recording's calls are divided at the peaks too.
    for (answer, culprit, mean_ns) in
        [(store, "store", 5_000_000..16_000_000), (load, "load", 300_000..1_500_000)]
    {
        let (path, cause) = only_path(answer);
        assert_eq!(path[..2], ["serve", culprit], "{answer}");
        assert!(number(&cause["blocked_ns"]) * 10 > number(&cause["of_ns"]) * 6, "{answer}");
        assert!(mean_ns.contains(&number(&answer["explained_by"]["asked"]["mean_ns"])), "{answer}");
    }
    assert!(load["notes"].to_string().contains("--stubs measures them without probes"), "{load}");
    let (path, cause) = only_path(look);
    assert_eq!((path, &cause["cause"]), (vec!["serve", "look"], &"itself".into()), "{look}");
    assert!(cause["sampled"]["samples"].as_u64() > Some(0), "{look}");
    assert!(number(&look["explained_by"]["functions"]["samples"]) > 0, "{look}");
    // The tree leaves out calls below another culprit.
    let below = list(&look["tree"]["children"]).iter().map(|node| list(&node["children"]).len());
    assert_eq!(below.sum::<usize>(), 0, "{look}");
    // Only a peak's calls have a vote there.
    for answer in &found {
        let (of, to) = (number(&only_path(answer).1["of_ns"]), number(&answer["peak"]["to_ns"]));
        assert!(of * 4 < to * 5, "{answer}");
    }
    // The calls were counted once; each search has its own time and calls.
    assert!(found.iter().all(|answer| answer["count"] == store["count"]), "{text}");
    assert!(number(&load["calls"]) < number(&store["calls"]), "{text}");

    let (text, _) = run(&folder, &asked, 0);
    let places: Vec<_> = [" calls above ", " calls between ", "peak 3 of 3", "peak 2 of 3", "peak 1 of 3"]
        .into_iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("no `{part}` in {text}")))
        .collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn a_peak_whose_calls_are_rare_leaves_time_for_the_others() {
    let Some(folder) = alone("a rare peak leaves time for the others") else { return };
    let built = program(&folder, "peaks", include_str!("peaks.c"), &["-O1", "-g"]);
    let process = Drilled::start_program(&built, &["rare"]);
    let target = format!("{built}:serve");
    let words = ["drill", &target, "-p", &process.1, "--peak", "all", "-d", "9s", "--no-waits", "--json"];
    let (text, _) = run(&folder, &words, 0);
    let found = documents(&text);
    assert_eq!(found.len(), 3, "{text}");
    assert_eq!(found[0]["status"], "stopped: the time is over", "{text}");
    assert!(number(&found[0]["elapsed_ns"]) < 6_000_000_000, "{text}");
    assert_eq!(only_path(&found[1]).0[..2], ["serve", "load"], "{text}");
    assert_eq!(only_path(&found[2]).0, ["serve", "look"], "{text}");
}

#[test]
fn peaks_that_were_not_searched_are_named() {
    let Some(folder) = alone("peaks that were not searched are named") else { return };
    let built = program(&folder, "peaks", include_str!("peaks.c"), &["-O1", "-g"]);
    let target = format!("{built}:serve");
    let words =
        ["drill", &target, "--start-ops", "500", "--peak", "all", "--json", "--save", "it", "-p", "1"];
    let (_, said) = run(&folder, &words, 2);
    assert!(said.contains("a saved search is that of one peak"), "{said}");
    let (_, said) = run(&folder, &["drill", &target, "-p", "1", "--peak", "every"], 2);
    assert!(said.contains("a number, or `all`"), "{said}");
    // The program's standard input ends during the search for the first peak.
    let process = Drilled::start_program(&built, &["rare"]);
    let pid = process.1.clone();
    let end = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(3));
        drop(process);
    });
    let words = ["drill", &target, "-p", &pid, "--peak", "all", "--no-waits", "--json"];
    let (text, _) = run(&folder, &words, 0);
    end.join().expect("the program ended");
    let found = documents(&text);
    assert_eq!((found.len(), &found[0]["status"]), (1, &"stopped: the process ended".into()), "{text}");
    let notes = found[0]["notes"].to_string();
    assert!(notes.contains("peaks 2, 1 were not searched: the search had ended before"), "{notes}");
}

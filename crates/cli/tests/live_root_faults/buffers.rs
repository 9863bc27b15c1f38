//! Buffers that are too small: lost records are counted, by CPU and range of time, and every answer that the loss
//! affects warns of it.

use serde_json::Value;

use wakepath_harness::live::{
    adds_up, contributed_ns, document, length, list, number, path, place, run, workload,
};

use crate::record;

#[test]
fn lost_records_are_counted_by_cpu_and_time_and_the_answer_warns_of_them() {
    let Some(folder) = place("losses are counted and said") else { return };
    // Two threads that hand each other a semaphore at the highest rate that the scheduler can do.
    let program = workload(&folder, "schedfreq");
    let (_, said) = record(&folder, &["--buffer", "16K", "--", &program, "--rounds", "100000"], 0);
    assert!(said.contains("warning: ") && said.contains("lost ") && !said.contains("lost 0 "), "{said}");
    // Each warning is printed once.
    let mut warnings: Vec<_> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
    let all = warnings.len();
    warnings.sort_unstable();
    warnings.dedup();
    assert_eq!(warnings.len(), all, "{said}");

    let info = document(&folder, &["info"]);
    let (from, to) = (info["from_ns"].as_i64().expect("ns"), info["to_ns"].as_i64().expect("ns"));
    // Losses without a CPU are those that no buffer counted: programs that the kernel skipped since they ran already.
    let reported: Vec<&Value> = list(&info["losses"])
        .iter()
        .filter(|loss| loss["reported"] == true && loss["cpu"].is_u64())
        .collect();
    let lost: u64 = reported.iter().map(|loss| loss["count"].as_u64().unwrap_or(0)).sum();
    // The program alone makes four records a round trip, and the recorder drains every few ms at best.
    assert!(lost > 10_000, "only {lost} lost");
    let discarded = number(&info["recording"]["discarded"]);
    assert_eq!(lost, discarded, "the gaps add up to what the buffers counted");
    for loss in &reported {
        let range = (loss["from_ns"].as_i64().expect("ns"), loss["to_ns"].as_i64().expect("ns"));
        // Programs are there a moment before all are, and the kernel lets go of them a moment after the end.
        let within = from - 1_000_000_000..=to + 1_000_000_000;
        assert!(range.0 <= range.1 && within.contains(&range.0) && within.contains(&range.1), "{loss}");
    }

    let document = path(&folder);
    let window = adds_up(&document);
    assert!(!list(&document["losses"]).is_empty(), "the answer knows what it lacks");
    let doubted = list(&document["problems"]).iter().any(|problem| problem["severity"] != "note");
    assert!(doubted, "{}", document["problems"]);
    // For most of the time, records are missing. Time that is explained there must be charged to the two threads
    // only, and the rest is unknown or marked.
    let foreign: i64 = list(&document["contributors"])
        .iter()
        .filter(|one| ["running", "lock"].iter().any(|kind| one["kind"] == *kind))
        .filter(|one| !one["comm"].as_str().unwrap_or("").starts_with("schedfreq"))
        .map(|one| number(&one["total_ns"]) as i64)
        .sum();
    assert!(foreign * 20 < window, "{foreign} of {window} ns: {}", document["contributors"]);
    let marked: i64 = list(&document["segments"])
        .iter()
        .filter(|one| one["kind"] == "unknown" || one["basis"] != "measured")
        .map(length)
        .sum();
    assert!(
        contributed_ns(&document, "unknown") > 0 && marked * 4 > window,
        "{marked} of {window} ns are marked"
    );

    // Answered, with a warning; and answered, not cleanly.
    run(&folder, &["path"], 0);
    run(&folder, &["path", "--strict"], 1);
    println!("  lost {lost} of {} records", lost + info["events"].as_object().map_or(0, total));
    println!("  of {window} ns are unknown {}, marked in all {marked}", contributed_ns(&document, "unknown"));
}

fn total(events: &serde_json::Map<String, Value>) -> u64 {
    events.values().filter_map(Value::as_u64).sum()
}

#[test]
fn default_buffers_lose_nothing_and_a_size_that_is_rounded_up_is_reported() {
    let Some(folder) = place("sizes of buffers are powers of two") else { return };
    for (size, note) in
        [("3M", Some("note: each CPU's buffer is rounded up to 4096 KiB, a power of two")), ("4M", None)]
    {
        let (_, said) = record(&folder, &["--buffer", size, "--", "true"], 0);
        assert_eq!(said.lines().find(|line| line.starts_with("note: ")), note, "{said}");
        assert_eq!(document(&folder, &["info"])["recording"]["discarded"], 0);
    }
    for wrong in ["0", "8K", "2G", "many"] {
        record(&folder, &["--buffer", wrong, "-a"], 2);
    }
}

//! The time stolen by a hypervisor from a peak's calls.

use serde_json::Value;
use wakepath_harness::live::{document, list, number};

use crate::drill::{Drilled, alone, built, only_path};

/// The time stolen from all CPUs since boot, ns: in hundredths of a second, as /proc/stat counts.
fn stolen_ever() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
    let total = stat.lines().next().expect("all CPUs").split_whitespace().nth(8);
    total.and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0) * 10_000_000
}

/// The stolen time by an answer, in all calls with a vote, ns.
fn stolen(answer: &Value) -> u64 {
    let of = |decision: &Value| {
        let calls = number(&decision["calls"]);
        let stolen = list(&decision["contributors"]).iter().filter(|one| one["of"] == "stolen");
        stolen.map(|one| number(&one["mean_ns"]) * calls).sum::<u64>()
    };
    list(&answer["decisions"]).iter().map(of).sum()
}

#[test]
fn no_more_is_stolen_from_a_program_that_computes_than_from_the_machine() {
    let Some(folder) = alone("stolen time is that of the function it was stolen from") else { return };
    let drilled = Drilled::start(&folder, &["itself"]);
    let target = format!("{}:serve", built(&folder));
    let before = stolen_ever();
    let asked = ["drill", &target, "-p", &drilled.1, "--start-ops", "400", "--decision-calls", "200"];
    let answer = document(&folder, &asked);
    let [of_machine, of_calls] = [stolen_ever() - before, stolen(&answer)];
    let (path, cause) = only_path(&answer);
    assert_eq!((path, &cause["cause"]), (vec!["serve", "look_up", "fetch"], &"itself".into()), "{answer}");
    // One tick on each of two CPUs may be uncounted at either end.
    assert!(of_calls <= of_machine + 20_000_000, "{of_calls} of {of_machine} ns: {answer}");
    println!("stolen from the machine: {of_machine} ns; from the calls that had a vote: {of_calls} ns");
}

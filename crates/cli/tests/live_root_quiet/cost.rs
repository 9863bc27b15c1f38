//! The cost of recording on the test machine: both figures are present and add up, and an unmeasured figure is reported
//! as such. `wakepath-truth cost` compares the figures with loads run alone and recorded.

use std::fs;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{
    Beside, command, document, list, not_possible, number, place, place_alone, record, texts, workload,
};

/// Some ten thousand switches and wake-ups: single bytes through a pipe, on one CPU.
const PIPE: &str = "taskset -c 0 sh -c 'dd if=/dev/zero bs=1 count=30000 2>/dev/null | cat >/dev/null'";

/// The first screen's words without line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn part<'v>(cost: &'v Value, kind: &str) -> &'v Value {
    let mut parts = list(&cost["by_kind"]).iter();
    parts.find(|part| part["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {cost}"))
}

#[test]
fn both_costs_are_said_and_the_parts_of_the_second_add_up() {
    let Some(folder) = place("recording says what it took itself and what it took from threads") else {
        return;
    };
    let (_, screen) = record(&folder, &["--", "sh", "-c", PIPE], 0);
    let screen = words(&screen);
    assert!(screen.contains("of a CPU itself; threads ran "), "{screen}");
    assert!(screen.contains("% longer for it ("), "{screen}");
    let info = document(&folder, &["info"]);
    let cost = &info["cost"];
    assert!(number(&cost["observer_ns"]) > 0 && number(&cost["over_ns"]) > 0, "{cost}");
    let ends = |value: &Value| (number(&value["kernel_ns_from"]), number(&value["kernel_ns_to"]));
    let (from, to) = ends(cost);
    assert!(0 < from && from < to, "{cost}");
    assert!(to < number(&cost["running_ns"]), "{cost}");
    let mut sum = (0, 0);
    for part in list(&cost["by_kind"]) {
        let count = number(&part["count"]);
        let (each_from, each_to) = (number(&part["each_ns_from"]), number(&part["each_ns_to"]));
        assert!(0 < each_from && each_from < each_to, "{part}");
        assert_eq!(ends(part), (count * each_from, count * each_to), "{part}");
        sum = (sum.0 + ends(part).0, sum.1 + ends(part).1);
    }
    assert_eq!(sum, (from, to), "{cost}");
    for (kind, event) in [("switch", "switch"), ("waking", "waking"), ("sample", "sample")] {
        assert_eq!(part(cost, kind)["count"], info["events"][event], "{kind}");
    }
    // The BPF programs load, call and store in some hundred instructions; emulated machines take 50 times as long.
    let switch = part(cost, "switch");
    assert!(number(&switch["each_ns_from"]) >= 20 && number(&switch["each_ns_to"]) <= 50_000, "{switch}");
    // There is a tick every few milliseconds, and the load's own interrupts: detaching the programs adds none.
    let interrupts = number(&part(cost, "interrupt")["count"]);
    assert!(interrupts > 0 && interrupts < number(&info["events"]["switch"]), "{interrupts}");
}

#[test]
fn stacks_make_a_switch_cost_more() {
    let Some(folder) = place_alone("the cost is that of the options") else { return };
    let switch = |options: &[&str]| {
        record(&folder, &[options, &["--", "sh", "-c", PIPE]].concat(), 0);
        let cost = document(&folder, &["info"])["cost"].clone();
        // Twice the middle of the range: its lower end lacks the dispatch if noise hides that.
        ["each_ns_from", "each_ns_to"].map(|end| number(&part(&cost, "switch")[end])).iter().sum::<u64>()
    };
    let (plain, with_stacks) = (switch(&[]), switch(&["--stacks"]));
    // A remembered stack takes a third as long as the rest; a newly read stack, many times as long.
    assert!(with_stacks > plain, "{plain} and {with_stacks}");
}

#[test]
fn a_cost_that_cannot_be_measured_is_said_to_be_unknown() {
    let Some(folder) = place("an unknown cost is no number") else { return };
    // Too small for the calibration's records.
    let (_, screen) = record(&folder, &["--buffer", "16K", "--", "true"], 0);
    let screen = words(&screen);
    assert!(
        screen.contains("of a CPU itself; how much longer threads ran for it was not measured"),
        "{screen}"
    );
    let cost = document(&folder, &["info"])["cost"].clone();
    assert!(number(&cost["observer_ns"]) > 0, "{cost}");
    assert!(
        cost["kernel_ns_from"].is_null() && cost["kernel_ns_to"].is_null() && cost["by_kind"].is_null(),
        "{cost}"
    );
}

#[test]
fn with_probes_the_cost_is_a_least_one() {
    let Some(folder) = place("the cost of probes is not part of the range") else { return };
    workload(&folder, "calls");
    let load = ["--call", "./calls:counted", "--", "./calls", "functions=1000"];
    let (_, screen) = record(&folder, &load, 0);
    let screen = words(&screen);
    assert!(screen.contains("; threads ran at least "), "{screen}");
    let cost = document(&folder, &["info"])["cost"].clone();
    assert!(number(&cost["kernel_ns_from"]) > 0 && cost["kernel_ns_to"].is_null(), "{cost}");
    assert_eq!(part(&cost, "call")["count"], 1000);
}

#[test]
fn without_the_right_to_the_kernels_statistics_the_cost_is_not_measured() {
    let Some(folder) = place("a recording without a right lacks one figure") else { return };
    let own = command(&folder, &[]);
    let mut recorder = std::process::Command::new("setpriv");
    recorder.args(["--bounding-set", "-sys_admin", "--inh-caps", "-all"]).arg(own.get_program());
    let output = recorder.args(["record", "--", "true"]).current_dir(&*folder).output().expect("setpriv");
    let (_, screen) = texts(&output);
    assert!(output.status.success(), "{screen}");
    assert!(
        words(&screen).contains("itself; how much longer threads ran for it was not measured"),
        "{screen}"
    );
    assert!(document(&folder, &["info"])["cost"]["by_kind"].is_null());
}

/// A loop on CPU 0 that prints how long it took, ns.
const COMPUTES: &str =
    "a=$(date +%s%N); i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; b=$(date +%s%N); echo $((b-a))";

#[test]
fn a_recorder_takes_no_share_from_a_target_beside_another_session() {
    const WOULD_SHOW: &str = "the recorder's weight does not slow its target";
    let Some(folder) = place(WOULD_SHOW) else { return };
    let enabled = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    if !enabled.is_ok_and(|text| text.trim() == "1") {
        return not_possible("sessions share no CPU here (autogroup)", WOULD_SHOW);
    }
    let mut competes = Command::new("setsid");
    competes.args(["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]);
    let _competitor = Beside(competes.spawn().expect("a competitor"));
    let words = ["taskset", "-c", "0", "sh", "-c", COMPUTES];
    let took = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
    // At nice -20 the ratio was 3.5 to 4.5, at -5 it is 1.1.
    let mut ratios: Vec<f64> = (0..3)
        .map(|_| {
            let alone = Command::new(words[0]).args(&words[1..]).output().expect("the loop");
            let alone = took(&String::from_utf8_lossy(&alone.stdout));
            let (recorded, _) = record(&folder, &[&["--"], &words[..]].concat(), 0);
            took(&recorded) as f64 / alone as f64
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("recorded to alone: {ratios:.2?}");
    assert!(ratios[1] < 2.0, "{ratios:?}");
}

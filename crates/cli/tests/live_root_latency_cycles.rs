//! Latencies in cycles of the time-stamp counter, compared with the readings of a program.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{WAKEPATH, place, wakepath, workload};

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value} is a number"))
}

#[test]
fn cycles_are_the_processors_also_of_a_call_that_ends_on_another_cpu() {
    let Some(folder) = place("latencies are counted in cycles") else { return };
    let folder = folder.path();
    if !std::path::Path::new("/sys/bus/event_source/devices/msr/events/tsc").exists() {
        let refused = wakepath(folder, &["latency", "syscall:read", "--cycles", "-a", "-d", "1"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            said.contains("cannot count the processor's cycles here") && said.contains("without --cycles"),
            "{said}"
        );
        return;
    }
    let calls = workload(folder, "calls");
    let run = |more: &[&str]| {
        let output = Command::new(*WAKEPATH)
            .args(["latency", "./calls:moves", "./calls:counted", "syscall:getcpu", "--json"])
            .args(more)
            .args(["--", &calls, "threads=2", "functions=2000", "syscalls=3000", "moved=200"])
            .current_dir(folder)
            .output()
            .expect("wakepath");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let printed = run(&["--cycles", "--by", "process"]);
    let (document, own): (Vec<&str>, Vec<&str>) = printed.lines().partition(|line| line.starts_with('{'));
    let own: HashMap<_, u64> = own
        .iter()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, number)| (name, number.parse().expect("a number")))
        .collect();
    let counted: Value = serde_json::from_str(document[0]).expect("JSON");
    let targets = counted["targets"].as_array().expect("a list");
    let counts: Vec<_> = targets.iter().map(|target| number(&target["count"])).collect();
    assert_eq!(counts, [200, 4000, 6000], "{counted:#}");
    assert!(targets.iter().all(|target| target["unit"] == "cycles" && target["crowded"] == 0), "{counted:#}");
    // The program reads the counter within each call and around it.
    let sum = number(&targets[0]["sum"]);
    assert!((own["within_cycles"]..=own["around_cycles"]).contains(&sum), "{sum} of {own:?}");
    let probe = &targets[1]["probe"];
    assert!(number(&probe["shift_cycles"]) > 0 && probe["shift_ns"].is_null(), "{probe}");

    std::fs::write(folder.join("cycles.json"), document[0]).expect("a file");
    let printed = run(&[]);
    let document = printed.lines().find(|line| line.starts_with('{')).expect("a document");
    std::fs::write(folder.join("ns.json"), document).expect("a file");
    let refused = wakepath(folder, &["latency", "--compare", "ns.json", "cycles.json"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("one histogram counts ns, the other cycles"), "{said}");
    let alike = wakepath(folder, &["latency", "--compare", "cycles.json", "cycles.json"]);
    let said = String::from_utf8_lossy(&alike.stdout);
    assert!(alike.status.success() && said.contains("cycles on average"), "{said}");
}

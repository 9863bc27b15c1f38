//! Latencies in cycles of the time-stamp counter, compared with a program's own readings.

use wakepath_harness::live::{counts, document_among, number, place, run, texts, wakepath, workload};

#[test]
fn cycles_are_the_processors_also_of_a_call_that_ends_on_another_cpu() {
    let Some(folder) = place("latencies are counted in cycles") else { return };
    if !std::path::Path::new("/sys/bus/event_source/devices/msr/events/tsc").exists() {
        let refused = wakepath(&folder, &["latency", "syscall:read", "--cycles", "-a", "-d", "1"]);
        let (_, said) = texts(&refused);
        assert!(
            said.contains("cannot count the processor's cycles here") && said.contains("without --cycles"),
            "{said}"
        );
        return;
    }
    let calls = workload(&folder, "calls");
    let counted = |more: &[&str]| {
        let asked = ["latency", "./calls:moves", "./calls:counted", "syscall:getcpu", "--json"];
        let load = ["--", &calls, "threads=2", "functions=2000", "syscalls=3000", "moved=200"];
        run(&folder, &[&asked, more, &load].concat(), 0).0
    };
    let in_cycles = counted(&["--cycles", "--by", "process"]);
    let (targets, own) = counts(&in_cycles);
    let found: Vec<_> = targets.iter().map(|target| number(&target["count"])).collect();
    assert_eq!(found, [200, 4000, 6000], "{targets:#?}");
    assert!(
        targets.iter().all(|target| target["unit"] == "cycles" && target["crowded"] == 0),
        "{targets:#?}"
    );
    // The program reads the counter within each call and around it.
    let sum = number(&targets[0]["sum"]);
    assert!((own["within_cycles"]..=own["around_cycles"]).contains(&sum), "{sum} of {own:?}");
    let probe = &targets[1]["probe"];
    assert!(number(&probe["shift_cycles"]) > 0 && probe["shift_ns"].is_null(), "{probe}");

    for (file, printed) in [("cycles.json", in_cycles), ("ns.json", counted(&[]))] {
        std::fs::write(folder.join(file), document_among(&printed).0.to_string()).expect("a file");
    }
    let (_, said) = run(&folder, &["latency", "--compare", "ns.json", "cycles.json"], 3);
    assert!(said.contains("one histogram counts ns, the other cycles"), "{said}");
    let (said, _) = run(&folder, &["latency", "--compare", "cycles.json", "cycles.json"], 0);
    assert!(said.contains("cycles on average"), "{said}");
}

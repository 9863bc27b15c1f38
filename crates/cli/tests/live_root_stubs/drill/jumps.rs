//! Paths through functions that leave by a jump: their returns are seen behind the calls of them.

use super::{Drilled, alone, document, list, number, number_of, only_path, program_cxx, run};

fn built(folder: &super::Place) -> String {
    program_cxx(folder, "jumps", include_str!("jumps.cc"))
}

#[test]
fn a_path_goes_on_behind_functions_that_leave_by_a_jump() {
    let Some(folder) = alone("the culprit is found behind functions that leave by a jump") else { return };
    let built = built(&folder);
    let target = format!("{built}:work");
    for (culprit, planted) in [
        ("virtual", &["work", "dispatch", "Slow::handle(unsigned long)", "crunch"][..]),
        ("chain", &["work", "relay", "middle", "last", "crunch"]),
        ("itself", &["work", "relay", "middle", "last"]),
    ] {
        let process = Drilled::start_program(&built, &[culprit]);
        let answer = document(&folder, &["drill", &target, "-p", &process.1, "--start-ops", "400"]);
        let (path, cause) = only_path(&answer);
        assert_eq!(path, planted, "{culprit}: {answer}");
        assert_eq!(cause["cause"], "itself", "{culprit}: {answer}");
        assert_eq!(answer["status"], "root cause found", "{culprit}: {answer}");
        let unmeasured = list(&cause["unmeasured"]).iter().map(|one| &one["function"]);
        assert_eq!(unmeasured.collect::<Vec<_>>(), ["unfit"], "{culprit}: {answer}");
        assert!(number(&cause["ns"]) * 10 > number(&cause["of_ns"]) * 8, "{culprit}: {answer}");
    }
    // Without a culprit, there is no such path.
    let process = Drilled::start_program(&built, &["quick"]);
    let answer = document(
        &folder,
        &["drill", &target, "-p", &process.1, "--start-ops", "400", "-d", "5s", "--slow-probes"],
    );
    assert!(!answer.to_string().contains("crunch"), "{answer}");
}

#[test]
fn a_call_without_room_for_a_probe_behind_it_is_named() {
    let Some(folder) = alone("a call whose return no probe sees is named") else { return };
    let built = built(&folder);
    let process = Drilled::start_program(&built, &["unfit"]);
    let answer =
        document(&folder, &["drill", &format!("{built}:work"), "-p", &process.1, "--start-ops", "400"]);
    let (path, cause) = only_path(&answer);
    assert_eq!(path, ["work"], "{answer}");
    let unmeasured = list(&cause["unmeasured"]);
    assert!(unmeasured.len() == 1 && unmeasured[0]["function"] == "unfit", "{answer}");
    assert_eq!(
        (&unmeasured[0]["why"], &unmeasured[0]["reason"]),
        (&"unsafe".into(), &"jump".into()),
        "{answer}"
    );
    assert_eq!(unmeasured[0]["at_most_ns"], cause["ns"], "{answer}");
    assert!(list(&cause["doubts"]).contains(&"call sites not measured".into()), "{answer}");
    let target = format!("{built}:work");
    let asked = ["drill", &target, "-p", &process.1, "--start-ops", "400", "--no-samples"];
    let text = run(&folder, &asked, 0).0.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = "1 call in the code of work was not measured: unfit (leaves by a jump, and no probe sees when it returns); at most ";
    assert!(text.contains(named), "{text}");
}

#[test]
fn code_without_a_file_that_is_called_by_a_pointer_is_named() {
    let Some(folder) = alone("a callee in no file is named") else { return };
    let built = built(&folder);
    let process = Drilled::start_program(&built, &["made"]);
    let answer =
        document(&folder, &["drill", &format!("{built}:work"), "-p", &process.1, "--start-ops", "400"]);
    let (path, cause) = only_path(&answer);
    assert_eq!(path, ["work"], "{answer}");
    let made = list(&cause["unmeasured"]).iter().find(|one| one["reason"] == "outside_files").expect("it");
    assert!(made["function"].as_str().is_some_and(|name| name.starts_with("0x7")), "{answer}");
    assert_eq!(made["at_most_ns"], cause["ns"], "{answer}");
    assert!(list(&cause["doubts"]).contains(&"call sites not measured".into()), "{answer}");
}

#[test]
fn a_place_behind_a_call_to_which_others_return_loses_its_probe() {
    let Some(folder) = alone("a place behind a shared call keeps no probe") else { return };
    let built = built(&folder);
    let process = Drilled::start_program(&built, &["shared"]);
    let target = format!("{built}:work");
    let asked = ["drill", &target, "-p", &process.1, "--start-ops", "400", "-d", "8s", "--slow-probes"];
    // So that the budget does not remove it before.
    let answer = document(&folder, &[&asked[..], &["--budget", "100%"]].concat());
    let notes = answer["notes"].to_string();
    assert!(notes.contains("dispatch also leaves by a jump, and no probe sees when it returns"), "{answer}");
}

#[test]
fn the_probes_behind_calls_belong_to_the_budget() {
    let Some(folder) = alone("probes behind calls cost at most the budget") else { return };
    let built = built(&folder);
    let process = Drilled::start_program(&built, &["often"]);
    let target = format!("{built}:work");
    let asked = ["drill", &target, "-p", &process.1, "--start-ops", "400", "-d", "4s", "--slow-probes"];
    // So that the search goes on until its time is over.
    let more = ["--budget", "5%", "--decision-calls", "20000", "--no-samples"];
    let answer = document(&folder, &[&asked[..], &more].concat());
    let notes = answer["notes"].to_string();
    let removed = notes.split_once("dispatch (").filter(|_| notes.contains("were removed (--budget)"));
    let (calls, rest) = removed.and_then(|(_, rest)| rest.split_once(" calls a second, ")).expect(&notes);
    let (percent, _) = rest.split_once("% of the machine").expect(&notes);
    let [calls, percent] = [calls, percent].map(|text| text.parse::<f64>().expect(&notes));
    let cpus = std::thread::available_parallelism().expect("CPUs").get() as f64;
    // That of a whole call: not of its entry alone, which takes half of it at most.
    let per_call_ns = percent / 100.0 * 1e9 * cpus / calls;
    assert!(per_call_ns > 0.75 * number_of(&answer["probe_ns"]), "{per_call_ns}: {answer}");
}

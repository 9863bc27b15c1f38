//! The cost of probes on functions, and the processes that bear it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{
    Beside, command, document_among, first_byte, list, number, place_alone, program, run, texts, wakepath,
    workload,
};

/// Whether a probe soon stands at the beginning of a running program's function.
fn is_probed(pid: u32, program: &str, function: &str) -> bool {
    const BREAKPOINT: u8 = 0xcc;
    let began = Instant::now();
    while first_byte(pid, program, function) != BREAKPOINT {
        if began.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// A process running `lab/workloads/calls.c` that sleeps for a while.
fn sleeping(calls: &str) -> Beside {
    Beside(Command::new(calls).arg("long=2000").stdout(Stdio::null()).spawn().expect("calls"))
}

/// The least time for a call of `counted`, ns, as reported by uncounted processes. The number of calls is small, so some
/// run is undisturbed.
fn own_ns_a_call(calls: &str) -> f64 {
    let a_run = |_| {
        let output = Command::new(calls).arg("functions=1000").output().expect("calls");
        let said = String::from_utf8(output.stdout).expect("text");
        let ns = said.lines().find_map(|line| line.strip_prefix("functions_ns ")?.parse::<f64>().ok());
        ns.expect("how long its calls took") / 1000.0
    };
    (0..20).map(a_run).fold(f64::INFINITY, f64::min)
}

#[test]
fn who_else_pays_for_probes_is_said_with_what() {
    let Some(folder) = place_alone("processes that have a probed file mapped are counted") else { return };
    let calls = workload(&folder, "calls");
    let processes = [sleeping(&calls), sleeping(&calls), sleeping(&calls)];
    let asked = processes[0].0.id().to_string();
    let begin = |arguments: &[&str]| -> Child {
        let mut wakepath = command(&folder, arguments);
        wakepath.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath")
    };
    let end = |mut wakepath: Child| -> Output {
        // It answers when interrupted.
        let killed = Command::new("kill").args(["-INT", &wakepath.id().to_string()]).status();
        assert!(killed.expect("kill").success() && wakepath.wait().is_ok());
        wakepath.wait_with_output().expect("its answer")
    };
    let bare = own_ns_a_call(&calls);
    let counting = begin(&["latency", "./calls:counted", "./calls:left", "--json", "-p", &asked]);
    let probed = is_probed(processes[1].0.id(), &calls, "counted");
    let dearer = own_ns_a_call(&calls) - bare;
    let counted = end(counting);
    let recording = begin(&["record", "--call", "./calls:counted", "-p", &asked]);
    let recorded = is_probed(processes[1].0.id(), &calls, "counted").then(|| end(recording));
    let all = wakepath(&folder, &["latency", "./calls:counted", "--json", "-a", "-d", "0.1"]);
    let shown = wakepath(&folder, &["latency", "./calls:counted", "./calls:left", "-p", &asked, "-d", "0.1"]);
    drop(processes);
    assert!(probed, "a probe stands in a process that was not asked about");
    let counted: Value = serde_json::from_slice(&counted.stdout).expect("JSON");
    for target in list(&counted["targets"]) {
        let beside = &target["elsewhere"];
        assert_eq!(beside["processes"], 2, "{counted}");
        let file = beside["file"].as_str().map(Path::new).expect("a path");
        assert_eq!(file.canonicalize().ok(), Path::new(&calls).canonicalize().ok());
        assert_eq!(target["count"], 0, "{counted}");
    }
    let said = counted["targets"][0]["elsewhere"]["per_call_ns"].as_f64().expect("measured");
    println!("a call elsewhere: {said} ns said, {dearer:.0} ns measured");
    // A neighbour may have slowed either measurement, by a third if it shares the core; the rest of the tolerance is
    // for other differences.
    assert!((said / dearer).ln().abs() < 1.5_f64.ln(), "{said} ns said, {dearer:.0} ns measured");
    let line = "the probes in calls are also in 2 other processes: each call there takes";
    let told = |output: &[u8]| {
        let text = String::from_utf8_lossy(output).split_whitespace().collect::<Vec<_>>().join(" ");
        text.matches(line).count()
    };
    let recorded = recorded.expect("a probe of a recording stands there too");
    assert_eq!(told(&recorded.stderr), 1, "{:?}", texts(&recorded));
    assert_eq!(told(&shown.stdout), 1, "once for a file: {:?}", texts(&shown));
    let all: Value = serde_json::from_slice(&all.stdout).expect("JSON");
    assert_eq!(all["targets"][0]["elsewhere"], Value::Null, "who is asked about is not elsewhere: {all}");
}

#[test]
fn an_empty_function_takes_the_stated_cost_of_each_kind_of_probe() {
    let Some(folder) = place_alone("what probes of each kind cost is measured") else { return };
    // The call that the compiler does not see uses the stack.
    let empty = program(&folder, "empty", include_str!("probes/empty.c"), &["-O1", "-mno-red-zone"]);
    let names: Vec<String> = ["return", "leave", "go"]
        .iter()
        .flat_map(|exit| ["nop", "push", "lea"].map(|entry| format!("./empty:{exit}_{entry}")))
        .collect();
    // The first call at a no-operation makes the kernel put a call there, which takes some tenths of a millisecond:
    // with this number of calls, some hundredths of their time. Slow calls are few, so that some are not interrupted.
    const QUICK: u64 = 10_000;
    const SLOW: u64 = 300;
    const MAX_RUNS: u32 = 40;
    // Other programs only slow calls, in either measurement: the best of several runs is undisturbed. The test compares
    // a probed call's cost, printed and measured by the program, and its latency, printed and counted. If a neighbour
    // shares the core for seconds, a few runs are not enough: runs are repeated, since no number of runs makes a wrong
    // result right.
    let mut best = vec![[f64::INFINITY; 4]; names.len()];
    for round in 0.. {
        if round >= 8 && best.iter().all(is_as_said) || round == MAX_RUNS {
            break;
        }
        let load = ["--slow-probes", "--json", "--", &empty, &QUICK.to_string(), &SLOW.to_string()];
        let targets: Vec<&str> = names.iter().map(String::as_str).collect();
        let (printed, _) = run(&folder, &[&["latency"], &targets[..], &load].concat(), 0);
        let (document, own) = document_among(&printed);
        for (index, target) in list(&document["targets"]).iter().enumerate() {
            let calls = if names[index].ends_with("lea") { SLOW } else { QUICK };
            assert_eq!((&target["count"], &target["left"]), (&calls.into(), &0.into()), "{target}");
            let name = names[index].trim_start_matches("./empty:");
            let own = own.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
            let sum = number(&target["sum"]) as f64;
            let said = |key: &str| target["probe"][key].as_f64().expect("measured");
            let found = [said("per_call_ns"), own.expect("a call"), said("shift_ns"), sum / calls as f64];
            for (best, found) in best[index].iter_mut().zip(found) {
                *best = best.min(found);
            }
        }
    }
    for (name, [call, own, shift, counted]) in names.iter().zip(&best) {
        println!(
            "{name}: {call} ns a call said, {own} measured; {shift} of it said to be counted, {counted:.0} counted"
        );
    }
    for (name, best) in names.iter().zip(&best) {
        assert!(
            is_as_said(best),
            "{name}, after {MAX_RUNS} runs: call said and measured, shift said and counted: {best:?}"
        );
    }
}

/// Whether the printed costs of calls and latencies match the measured ones. One in 32 measured calls comes after
/// system calls, and may take half as long again: two hundredths. The first counted call may add five hundredths, and
/// the best run has some interrupts. The program's own call takes some ns more: its loop, and the call without a probe.
fn is_as_said(&[call, own, shift, counted]: &[f64; 4]) -> bool {
    (call / own).ln().abs() < 1.15_f64.ln() && (shift / counted).ln().abs() < 1.10_f64.ln()
}

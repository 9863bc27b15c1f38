//! Targets as people write them, on a program that knows how often each of its functions is called.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use wakepath_harness::live::{Beside, Place, document_among, list, number, place, program, record, run};

fn built(folder: &Path) -> String {
    program(folder, "named", include_str!("targets/named.c"), &["-O1"])
}

/// The running program, and its number; it is killed when dropped.
fn staying(program: &str) -> (Beside, String) {
    let child = Command::new(program).args(["100", "stay"]).stdout(Stdio::null()).spawn().expect("it runs");
    let pid = child.id().to_string();
    (Beside(child), pid)
}

/// The address of a function in the program.
fn address(program: &str, function: &str) -> u64 {
    let symbols = Command::new("nm").arg(program).output().expect("nm").stdout;
    let symbols = String::from_utf8(symbols).expect("text");
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {function}"))).expect("the function");
    u64::from_str_radix(&line[..16], 16).expect("an address")
}

fn strip(program: &str) {
    assert!(Command::new("strip").arg(program).status().expect("strip").success());
}

/// The targets' names and numbers of calls.
type Counted = Vec<(String, u64)>;
/// The refused targets' names and reasons.
type Refused = Vec<(String, String)>;

/// The names and the numbers of calls of each counted target, and the refused targets.
fn counted(folder: &Place, targets: &[&str], command: &[&str]) -> (Counted, Refused) {
    let (out, _) = run(folder, &[&["latency", "--json"], targets, &["--"], command].concat(), 0);
    let (document, _) = document_among(&out);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let found = list(&document["targets"]).iter().map(|it| (text(&it["target"]), number(&it["count"])));
    let refused = list(&document["refused"]).iter().map(|it| (text(&it["target"]), text(&it["why"])));
    (found.collect(), refused.collect())
}

#[test]
fn what_can_be_probed_of_several_targets_is_counted_and_the_rest_is_named_with_its_reason() {
    let Some(folder) = place("a refused function does not spoil the others") else { return };
    let named = built(&folder);
    let of = |function: &str| format!("{named}:{function}");
    let (get, put, step, looping) =
        (of("handle_get"), of("handle_put"), of("handle_step"), of("handle_loop"));
    let command = [named.as_str(), "100"];
    for targets in [&[of("handle_*")][..], &[get.clone(), looping.clone(), put.clone(), step.clone()]] {
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let (mut found, refused) = counted(&folder, &targets, &command);
        found.sort();
        assert_eq!(found, [(get.clone(), 100), (put.clone(), 100), (step.clone(), 100)], "{targets:?}");
        let [(first, why_loop)] = refused.as_slice() else { panic!("{refused:?}") };
        assert_eq!(first, &looping);
        assert!(why_loop.starts_with("a loop jumps back to its entry"), "{why_loop}");
        let (text, _) = run(&folder, &[&["latency"], &targets[..], &["--"], &command].concat(), 0);
        assert!(text.contains("handle_loop 100"), "the command's own text: {text}");
    }
    // The program's own system calls, too.
    let (found, refused) = counted(&folder, &[&looping, "syscall:clock_nanosleep"], &command);
    assert_eq!(found, [(String::from("syscall:clock_nanosleep"), 100)]);
    assert_eq!(refused.len(), 1);

    let (_running, pid) = staying(&named);
    let (text, _) = run(&folder, &["latency", &of("handle_*"), "-p", &pid, "-d", "0.3"], 0);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let part = format!("left out {looping}: a loop jumps");
    assert!(text.contains(&part), "{part} is missing in {text}");
    // Nothing is left, or a text means nothing.
    for (targets, part) in [
        (&[looping.as_str()][..], "cannot probe `handle_loop`"),
        (&[&of("handle_[lx]*"), &get], "no function `handle_[lx]*`"),
        (&[&get, &of("nosuch")], "no function `nosuch`"),
        (&[&get, "nothing"], "`nothing` is not a target"),
    ] {
        let (out, err) = run(&folder, &[&["latency"], targets, &["-p", &pid, "-d", "0.3"]].concat(), 2);
        assert!(out.is_empty() && err.contains(part), "{targets:?}: {err}");
    }

    let watched = run(&folder, &["watch", "--json", &get, &looping, "-p", &pid, "-d", "0.5"], 0).0;
    let documents: Vec<Value> =
        watched.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let first = &documents[0];
    assert_eq!((&first["event"], &first["target"]), (&"refused".into(), &Value::from(looping.clone())));
    assert!(first["failure"].as_str().is_some_and(|why| why.starts_with("a loop jumps back")), "{first}");
    let end = documents.last().expect("the end");
    assert_eq!(list(&end["summary"]["targets"]).len(), 1);

    let (_, said) = record(&folder, &["--call", &of("handle_*"), "-p", &pid, "-d", "0.5"], 0);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&format!("left out {looping}: a loop jumps")), "{said}");
    let (calls, _) = run(&folder, &["latency", "-i", "wakepath.rec", &get, "--json"], 0);
    let calls: Value = serde_json::from_str(&calls).expect("JSON");
    assert!(number(&calls["targets"][0]["count"]) > 50, "{calls}");
}

#[test]
fn a_function_is_counted_by_its_address_and_named_by_its_symbol() {
    let Some(folder) = place("addresses are targets") else { return };
    let named = built(&folder);
    let command = [named.as_str(), "70"];
    let (get, serve, looping) =
        (address(&named, "handle_get"), address(&named, "serve.isra.0"), address(&named, "handle_loop"));
    let count = |target: &str| counted(&folder, &[target], &command).0;
    for target in
        [format!("{named}+{get:#x}"), format!("{named}:{get:#x}"), format!("{named}:named+{get:#x}")]
    {
        assert_eq!(count(&target), [(format!("{named}:handle_get"), 70)], "{target}");
    }
    let by_name = format!("{named}:serve");
    for target in [&by_name, &format!("{named}+{serve:#x}"), &format!("{named}:serve.isra.0")] {
        assert_eq!(count(target), [(format!("{named}:serve.isra.0"), 70)], "{target}");
    }
    let refused = |target: &str| run(&folder, &["latency", target, "-a", "-d", "0.1"], 2).1;
    assert!(refused(&format!("{named}:serve.isra.0.cold")).contains("the cold part of `serve.isra.0`"));
    let inside = refused(&format!("{named}+{:#x}", get + 1));
    assert!(inside.contains(&format!("is in `handle_get`, which begins at {get:#x}")), "{inside}");
    strip(&named);
    let stripped = format!("{named}+{get:#x}");
    assert_eq!(count(&stripped), [(stripped.clone(), 70)]);
    assert!(
        refused(&format!("{named}+{looping:#x}"))
            .contains("nothing in the file shows a function's beginning there")
    );
    assert!(refused(&by_name).contains("is stripped"));
}

#[test]
fn the_program_of_a_process_is_a_target_after_its_file_is_gone() {
    let Some(folder) = place("/proc/PID/exe is a target") else { return };
    let named = built(&folder);
    let (_running, pid) = staying(&named);
    let target = format!("/proc/{pid}/exe:handle_get");
    std::fs::remove_file(&named).expect("its file");
    let calls = |asked: &[&str]| {
        let (out, _) = run(&folder, &[&["latency", "--json", &target, "-d", "0.5"], asked].concat(), 0);
        number(&document_among(&out).0["targets"][0]["count"])
    };
    for replaced in [false, true] {
        if replaced {
            program(&folder, "named", "int main(void) { return 0; }", &[]);
        }
        assert!((50..1000).contains(&calls(&["-p", &pid])), "replaced: {replaced}");
        assert!((50..1000).contains(&calls(&["-a"])), "replaced: {replaced}");
    }
    assert_eq!(calls(&["--", "/bin/sleep", "0.3"]), 0, "another process has another program");
}

#[test]
fn functions_of_other_languages_have_a_sentence_of_their_own() {
    let Some(folder) = place("functions of Python are drilled alone") else { return };
    for verb in [
        &["latency", "-a", "-d", "0.1"][..],
        &["watch", "-a", "-d", "0.1"],
        &["record", "-a", "-d", "0.1", "--call"],
    ] {
        let (_, err) = run(&folder, &[verb, &["python:handle"]].concat(), 2);
        assert!(err.contains("only wakepath drill follows these"), "{verb:?}: {err}");
        assert!(err.contains("wakepath drill python:handle -p PID"), "{verb:?}: {err}");
    }
    let source = "void *napi_create_function(void) { return 0; } int main(void) { return napi_create_function() != 0; }";
    let node = program(&folder, "node", source, &["-rdynamic"]);
    let (_, err) = run(&folder, &["latency", &format!("{node}:handle"), "-a", "-d", "0.1"], 2);
    assert!(
        err.contains("functions of JavaScript are not supported") && err.contains("wakepath requests"),
        "{err}"
    );
}

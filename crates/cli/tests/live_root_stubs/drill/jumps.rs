//! Paths through functions that leave by a jump: their returns are seen behind the calls of them.

use super::{Drilled, alone, document, list, number, only_path};

/// The program, by the C++ compiler.
fn built(folder: &super::Place) -> String {
    let (source, built) = (folder.join("jumps.cc"), folder.join("jumps"));
    std::fs::write(&source, include_str!("jumps.cc")).expect("a file");
    let compiled =
        std::process::Command::new("c++").args(["-O2", "-g", "-o"]).arg(&built).arg(&source).output();
    let compiled = compiled.expect("c++");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    built.to_str().expect("a path").to_owned()
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
        assert!(list(&cause["unmeasured"]).is_empty(), "{culprit}: {answer}");
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

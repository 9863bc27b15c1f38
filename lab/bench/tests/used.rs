//! The memory of a program run by the bench is the program's own.

use std::process::Command;

/// A program's peak memory, MiB, as measured by a bench that itself has `hold` MiB.
fn memory(hold: &str, words: &[&str]) -> u64 {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_wakepath-bench"));
    let output = bench.args(["used", "--hold", hold, "--"]).args(words).output().expect("the bench");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = printed.split_whitespace().skip_while(|word| *word != "memory_bytes");
    let bytes: Option<u64> = words.nth(1).and_then(|word| word.parse().ok());
    bytes.unwrap_or_else(|| panic!("{printed}{}", String::from_utf8_lossy(&output.stderr))) >> 20
}

#[test]
fn a_program_of_a_bench_with_much_memory_has_only_its_own() {
    let mib = memory("200", &["true"]);
    assert!(mib < 20, "{mib} MiB");
}

#[test]
fn a_program_with_much_memory_is_seen_to_have_it() {
    let mib = memory("0", &["dd", "if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"]);
    assert!((64..84).contains(&mib), "{mib} MiB");
}

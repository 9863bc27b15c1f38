//! The header: a reader that stops the thread behind any instruction sees a whole and correct span.

use std::path::Path;
use std::process::Command;

use wakepath_harness::live::not_possible;

use crate::{has, plugin, succeeds};

/// Compilers and their options.
const PROGRAMS: [&[&str]; 6] = [
    &["cc", "-O0", "-std=c11"],
    &["cc", "-O2", "-std=c11"],
    &["clang", "-O2", "-std=c11"],
    &["clang", "-O3", "-std=c17"],
    &["g++", "-O2", "-std=c++11", "-fno-exceptions"],
    &["clang++", "-O3", "-std=c++17", "-fno-exceptions"],
];
/// The same for libraries, by both dialects in which a library finds its thread's variable.
const LIBRARIES: [&[&str]; 3] = [
    &["cc", "-O2", "-std=c11"],
    &["cc", "-O2", "-std=c11", "-mtls-dialect=gnu2"],
    &["clang", "-O2", "-std=c11"],
];
pub const EXPORTED: &str = "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1";

/// Compiles `spans.c`; `None`, with a printed reason, if the compiler is missing.
fn spans(folder: &Path, compiler: &[&str], options: &[&str], file: &str) -> Option<()> {
    if !has(compiler[0]) {
        not_possible(&format!("no {} here", compiler[0]), "the header works with it");
        return None;
    }
    let is_cxx = compiler[0].ends_with("++");
    let mut compile = Command::new(compiler[0]);
    compile.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]).args(options);
    compile.args(["-o", file, "-x", if is_cxx { "c++" } else { "c" }]).arg(plugin("c/tests/spans.c"));
    succeeds(compile.current_dir(folder));
    Some(())
}

/// Runs the program that stops the other program behind each instruction.
#[track_caller]
pub fn is_right_at_every_stop(folder: &Path, what: &[&str], arguments: &[&str]) {
    let said = succeeds(Command::new("./step").args(arguments).current_dir(folder));
    let line = said.lines().last().expect("a line");
    println!("{}: {line}", what.join(" "));
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [stops, with_span, wrong] = numbers[..] else { panic!("{said}") };
    assert!(stops > 1000 && with_span > stops / 3 && wrong == 0, "{what:?}: {said}");
}

#[test]
fn at_every_instruction_of_a_program_the_record_is_whole_and_of_the_right_span() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for compiler in PROGRAMS {
        if spans(folder, compiler, &["-c"], "spans.o").is_none() {
            continue;
        }
        let mut link = Command::new("cc");
        link.arg(plugin("c/tests/step.c")).args(["spans.o", "-o", "step", EXPORTED, "-ldl"]);
        succeeds(link.current_dir(folder));
        is_right_at_every_stop(folder, compiler, &[]);
    }
}

#[test]
fn at_every_instruction_of_a_library_that_is_loaded_late_the_record_is_whole_and_of_the_right_span() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut link = Command::new("cc");
    link.arg(plugin("c/tests/step.c")).args(["-o", "step", "-ldl"]);
    succeeds(link.current_dir(folder));
    for compiler in LIBRARIES {
        let options = ["-fPIC", "-shared", "-fvisibility=hidden"];
        if spans(folder, compiler, &options, "spans.so").is_some() {
            is_right_at_every_stop(folder, compiler, &["./spans.so"]);
        }
    }
}

#[test]
fn each_written_turn_has_its_word_and_the_longest_words_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    for compiler in PROGRAMS {
        if !has(compiler[0]) {
            not_possible(&format!("no {} here", compiler[0]), "the turns are written by it");
            continue;
        }
        let mut compile = Command::new(compiler[0]);
        compile.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        let language = if compiler[0].ends_with("++") { "c++" } else { "c" };
        compile.args(["-o", "turns", "-x", language]).arg(plugin("c/tests/turns.c"));
        succeeds(compile.current_dir(folder.path()));
        assert_eq!(succeeds(Command::new("./turns").current_dir(folder.path())), "right\n");
    }
}

//! The Java agent's extension: threads, pools, future stages, and virtual threads if the Java has them.

use std::path::{Path, PathBuf};
use std::process::Command;

use opentelemetry_proto::tonic::trace::v1::Span;
use wakepath_harness::live::not_possible;

use crate::truth::{all_carry_their_thread, number, said, text, traced};
use crate::{has, packages, plugin, succeeds};

/// The Java on the path, and the others in Debian's folder.
fn javas() -> Vec<PathBuf> {
    let others = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let mut javas = vec![PathBuf::from("java")];
    javas.extend(others.map(|entry| entry.path().join("bin/java")));
    let version = |java: &PathBuf| Command::new(java).arg("-version").output().ok().map(|it| it.stderr);
    let mut known = Vec::new();
    // One for each version.
    javas.retain(|java| {
        let version = version(java);
        let is_new = version.is_some() && !known.contains(&version);
        known.push(version);
        is_new
    });
    javas
}

fn run(java: &Path, agent: &Path, folder: &Path) -> (usize, bool) {
    let jars = ["api", "context", "common"]
        .map(|name| agent.join(format!("opentelemetry-{name}.jar")).to_str().expect("a path").to_owned());
    let mut command = Command::new(java);
    command.arg(format!("-javaagent:{}", agent.join("opentelemetry-javaagent.jar").display()));
    command.args(["-cp", &format!(".:{}", jars.join(":")), "Truth"]).current_dir(folder);
    command.env("OTEL_JAVAAGENT_EXTENSIONS", folder.join("wakepath-extension.jar"));
    command.env("OTEL_TRACES_EXPORTER", "otlp").env("OTEL_JAVAAGENT_LOGGING", "none");
    let (out, spans) = traced(&mut command);
    println!("{}: {out}", java.display());
    all_carry_their_thread(&spans, said(&out, "spans"), 17);
    all_have_their_turns(&spans);
    (spans.len(), !out.contains("no virtual threads"))
}

/// A span current only in its own thread has turns only there, a request has turns in the pool's threads, and a span in a virtual thread has
/// none.
#[track_caller]
fn all_have_their_turns(spans: &[Span]) {
    for span in spans {
        let tid = number(span, "truth.tid").expect("each span says its thread");
        let turns = text(span, "wakepath.turns");
        if number(span, "truth.virtual") == Some(1) {
            assert_eq!(turns, None, "{}", span.name);
            continue;
        }
        let words: Vec<&str> = turns.expect("turns").trim_end_matches('.').split(' ').collect();
        let since: u64 = words[0].parse().expect("a time");
        let threads: Vec<_> = words.iter().filter_map(|word| word.strip_prefix('@')).collect();
        let lengths =
            words[1..].split(|word| word.starts_with('@')).flat_map(|of_thread| of_thread.chunks(2));
        let sum: u64 = lengths.map(|turn| turn[1].parse::<u64>().expect("a length")).sum();
        let length = span.end_time_unix_nano - span.start_time_unix_nano;
        assert_eq!(since, span.start_time_unix_nano, "{turns:?}");
        assert!(sum > 0 && sum <= length + 1_000_000, "{turns:?} of {length}");
        if span.name == "request" {
            assert!(!threads.contains(&tid.to_string().as_str()) && threads.len() == 1, "{turns:?} of {tid}");
        } else {
            assert_eq!(threads, [tid.to_string()], "{}", span.name);
        }
    }
}

#[test]
fn turns_become_a_text_with_those_in_each_thread() {
    let would_show = "turns in Java become a text";
    if !has("javac") {
        return not_possible("no javac here", would_show);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut javac = Command::new("javac");
    javac.args(["--release", "11", "-d"]).arg(folder.path());
    succeeds(javac.arg(plugin("java/src/wakepath/Turns.java")).arg(plugin("java/tests/Texts.java")));
    let texts = succeeds(Command::new("java").arg("-cp").arg(folder.path()).arg("wakepath.Texts"));
    let expected = [
        // It never was current.
        "null",
        "110 @7 0 20 20 1 @8 30 10 10 30.",
        "0 @7 0 10020.",
        "0 @7 0 10 @8 10010 10.",
        "0 @7 0 10 10001 9.",
        "0 @7 0 10 10000 10.",
        "0 @7 10 20 @8 20 20.",
        // It has ended.
        "0 @7 10 20 @8 20 20.",
        "null",
        "null",
        "120 @7 90 10 90 10 9 130",
    ];
    assert_eq!(texts.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn with_java_each_span_has_its_thread_and_in_virtual_threads_the_one_that_carries_them() {
    let would_show = "spans of Java carry their thread";
    let Some(agent) = packages("java", would_show) else { return };
    if !has("javac") {
        return not_possible("no javac here", would_show);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut make = Command::new("make");
    make.arg("--silent").arg("-C").arg(plugin("java"));
    succeeds(make.arg(format!("SDK={}", agent.display())).arg(format!("OUT={}", folder.display())));
    let mut javac = Command::new("javac");
    javac.args(["--release", "11", "-cp"]).arg(agent.join("*")).arg("-d").arg(folder);
    succeeds(javac.arg(plugin("java/tests/Truth.java")));
    let mut has_virtual = false;
    for java in javas() {
        let (spans, is_virtual) = run(&java, &agent, folder);
        assert!(spans > 1000);
        has_virtual |= is_virtual;
    }
    if !has_virtual {
        not_possible("no Java 21 or later here", "virtual threads have the thread that carries them");
    }
}

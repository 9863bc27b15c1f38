//! The extension of the Java agent: threads, pools, stages of futures, and virtual threads where a Java has them.

use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_harness::live::not_possible;

use crate::truth::{all_carry_their_thread, said, traced};
use crate::{has, packages, plugin, succeeds};

/// The Java on the path, and the others that Debian's folder has.
fn javas() -> Vec<PathBuf> {
    let others = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let mut javas = vec![PathBuf::from("java")];
    javas.extend(others.map(|entry| entry.path().join("bin/java")));
    let version = |java: &PathBuf| Command::new(java).arg("-version").output().ok().map(|it| it.stderr);
    let mut known = Vec::new();
    // One of each version.
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
    (spans.len(), !out.contains("no virtual threads"))
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

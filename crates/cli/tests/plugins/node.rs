//! The preload for Node: callbacks, promises, worker threads and a child process.

use std::process::Command;

use opentelemetry_proto::tonic::trace::v1::Span;

use crate::truth::{all_carry_their_thread, said, traced};
use crate::{packages, plugin, succeeds};

/// The text printed by the truth program, and its spans; by CommonJS, or by a module that loads it.
fn run(would_show: &str, is_module: bool) -> Option<(String, Vec<Span>)> {
    let node = packages("node", would_show)?;
    // Node looks for packages beside the program.
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink(node.join("node_modules"), at("node_modules")).expect("a link");
    std::fs::copy(plugin("node/tests/truth.js"), at("truth.js")).expect("the program");
    let module = "import { trace } from '@opentelemetry/api';\ntrace.getTracer('early');\nawait import('./truth.js');\n";
    std::fs::write(at("module.mjs"), module).expect("a file");
    let preload = plugin("node/wakepath-context.js").canonicalize().expect("the plug-in");
    let mut command = Command::new("node");
    command.arg(if is_module { "module.mjs" } else { "truth.js" }).current_dir(folder.path());
    command.env("OTEL_TRACES_EXPORTER", "otlp");
    command.env("NODE_OPTIONS", format!("--require={}", preload.display()));
    Some(traced(&mut command))
}

#[test]
fn with_node_each_span_has_its_thread_in_workers_and_children_too() {
    for is_module in [false, true] {
        let Some((out, spans)) = run("spans of Node carry their thread", is_module) else { return };
        let own: Vec<usize> = out.lines().map(|line| said(line, "spans")).collect();
        assert_eq!(own.len(), 5, "the main thread, three workers and a child: {out}");
        all_carry_their_thread(&spans, own.iter().sum(), 5);
    }
}

#[test]
fn with_node_a_span_that_has_ended_leaves_the_rest_of_its_function_to_the_one_around_it() {
    let Some(node) = packages("node", "turns of Node go on behind the end of a span") else { return };
    let preload = plugin("node/wakepath-context.js").canonicalize().expect("the plug-in");
    let mut command = Command::new("node");
    command.arg("--require").arg(preload).arg(plugin("node/tests/ended.js"));
    let out = succeeds(command.env("NODE_PATH", node.join("node_modules")));
    assert_eq!(out, "outer 2 true\ninner 1 true\n");
}

/// Runs a program with each level of reasons. It prints nothing but its count, or else what is wrong.
#[track_caller]
fn counts(program: &str, unit: &str, would_show: &str) {
    let Some(node) = packages("node", would_show) else { return };
    let preload = plugin("node/wakepath-context.js").canonicalize().expect("the plug-in");
    for level in ["", "all"] {
        let mut command = Command::new("node");
        command.arg("--require").arg(&preload).arg(plugin(program)).env("WAKEPATH_READY", level);
        let out = succeeds(command.env("NODE_PATH", node.join("node_modules")));
        assert!(out.lines().count() == 1 && out.ends_with(unit), "{level}: {out}");
    }
}

#[test]
fn with_node_each_turn_has_the_reason_why_it_became_ready() {
    counts("node/tests/ready.js", " cases\n", "turns of Node have their reasons");
}

#[test]
fn with_node_callbacks_are_known_by_their_kind() {
    counts("node/tests/kinds.js", " kinds\n", "callbacks of Node have their kinds");
}

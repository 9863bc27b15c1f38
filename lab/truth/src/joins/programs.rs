//! The programs whose log has each thread's request, a program for each runtime, and the ways to find the request.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::runner::{TIMEOUT, succeed};

/// The folders that the programs need.
#[derive(Debug)]
pub struct Given {
    /// The built workloads.
    pub programs: PathBuf,
    /// The packages fetched by `packaging/plugins`.
    pub packages: PathBuf,
}

impl Given {
    /// The root of the source tree.
    pub(crate) fn sources(&self) -> PathBuf {
        self.programs.join("../../..")
    }
}

/// A program. It writes its log and its spans into the given folder.
pub(super) struct Program {
    /// Its runtime's name.
    pub(super) name: &'static str,
    pub(super) parts: &'static [RequestKind],
    /// The ways, the best first.
    pub(super) ways: &'static [Way],
    /// The command for a run into a folder, with its threads' contexts hidden or not.
    pub(super) start: fn(&Given, &Path, bool) -> Result<Start>,
}

/// A kind of request, named by its operation.
pub(super) struct RequestKind {
    pub(super) name: &'static str,
    /// The largest unknown share of its time by the best way.
    pub(super) max_unknown: f64,
}

/// A way to find a thread's request.
pub(super) struct Way {
    pub(super) name: &'static str,
    /// Whether the threads' contexts are where no reader finds them.
    pub(super) is_hidden: bool,
    /// The attributes missing from the spans.
    pub(super) without: &'static [&'static str],
}

/// A program's command.
pub(super) enum Start {
    /// Run this command.
    Run(Command),
    /// Run this command, with these recorder options.
    RunWith(Command, &'static [&'static str]),
    /// The program cannot be run here.
    Missing(String),
}

fn not_fetched() -> Start {
    Start::Missing("packaging/plugins did not fetch its packages".to_owned())
}

const fn part(name: &'static str) -> RequestKind {
    RequestKind { name, max_unknown: MAX_UNKNOWN }
}

/// The largest unknown share of the time by the best way.
const MAX_UNKNOWN: f64 = 0.01;

/// The limit where goroutines hand over: from the time at which the first goroutine makes the second ready until a span begins in the second, nothing
/// shows for which request the second works: 10 to 50 µs in a request of 1 ms.
const MAX_UNKNOWN_OF_GO_POOL: f64 = 0.05;

const TID: &str = "wakepath.tid";
const QUEUED: &str = "wakepath.queued_ns";
const TURNS: &str = "wakepath.turns";

/// All programs.
pub(super) const PROGRAMS: &[Program] = &[C, PYTHON, NODE, RUST, GO, JAVA];

/// The programs whose spans do not name threads, and whose threads do not name spans: their ways are approximate.
pub(super) const APPROXIMATE: &[Program] = &[TCP];

const C: Program = Program {
    name: "C",
    parts: &[part("pool"), part("task"), part("turn"), part("busy")],
    ways: &[
        Way { name: "context; thread, queue and turns of spans", is_hidden: false, without: &[] },
        Way { name: "context, thread and queue of spans", is_hidden: false, without: &[TURNS] },
        Way { name: "context and thread of spans", is_hidden: false, without: &[QUEUED, TURNS] },
        Way { name: "context alone", is_hidden: false, without: &[TID, QUEUED, TURNS] },
        Way { name: "thread of spans alone (`wakepath.tid`)", is_hidden: true, without: &[QUEUED, TURNS] },
        Way { name: "times of spans alone", is_hidden: true, without: &[TID, QUEUED, TURNS] },
    ],
    start: c,
};

fn c(given: &Given, place: &Path, is_hidden: bool) -> Result<Start> {
    let name = if is_hidden { "joins-hidden" } else { "joins" };
    let mut program = Command::new(given.programs.join(name));
    program.arg(place);
    Ok(Start::Run(program))
}

const PYTHON: Program = Program {
    name: "Python",
    parts: &[part("thread"), part("pool"), part("task"), part("turn")],
    ways: C.ways,
    start: python,
};

fn python(given: &Given, place: &Path, is_hidden: bool) -> Result<Start> {
    let Some(mut program) = python_with_plugin(given, place, is_hidden)? else { return Ok(not_fetched()) };
    program.arg(given.sources().join("lab/workloads/joins.py")).arg(place);
    Ok(Start::Run(program))
}

/// Python with our plug-in, installed into a folder, and without its compiled part if it is hidden. `None` without the packages.
pub(crate) fn python_with_plugin(given: &Given, place: &Path, is_hidden: bool) -> Result<Option<Command>> {
    let python = given.packages.join("python/bin/python");
    if !python.exists() {
        return Ok(None);
    }
    // Without a compiler the plug-in writes no context.
    let source = place.join("source");
    let log = place.join("install.log");
    let plugin = given.sources().join("plugins/python");
    succeed(Command::new("cp").arg("-rL").arg(plugin).arg(&source), &log, TIMEOUT)?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--target",
    ]);
    pip.arg(place.join("site")).arg(&source);
    if is_hidden {
        pip.env("CC", "/bin/false");
    }
    succeed(&mut pip, &log, TIMEOUT)?;
    let mut program = Command::new(python);
    program.env("PYTHONPATH", place.join("site"));
    Ok(Some(program))
}

const NODE: Program = Program {
    name: "Node",
    parts: &[part("task"), part("turn"), part("worker")],
    ways: &[
        Way { name: "thread and turns of spans", is_hidden: false, without: &[] },
        Way { name: "thread of spans alone (`wakepath.tid`)", is_hidden: false, without: &[TURNS] },
        Way { name: "times of spans alone", is_hidden: false, without: &[TID, TURNS] },
    ],
    start: node,
};

fn node(given: &Given, place: &Path, _: bool) -> Result<Start> {
    let Some(mut program) = node_with_plugin(given)? else { return Ok(not_fetched()) };
    program.arg(given.sources().join("lab/workloads/joins.js")).arg(place);
    Ok(Start::Run(program))
}

/// Node with our plug-in. `None` without the packages.
pub(crate) fn node_with_plugin(given: &Given) -> Result<Option<Command>> {
    let modules = given.packages.join("node/node_modules");
    if !modules.exists() {
        return Ok(None);
    }
    let mut program = Command::new("node");
    // A relative path would be taken for a package name.
    program.arg("--require").arg(given.sources().join("plugins/node/wakepath-context.js").canonicalize()?);
    // The programs are not beside their packages.
    program.env("NODE_PATH", modules.canonicalize()?);
    Ok(Some(program))
}

const RUST: Program = Program { name: "Rust", parts: C.parts, ways: C.ways, start: rust };

fn rust(given: &Given, place: &Path, is_hidden: bool) -> Result<Start> {
    let name = if is_hidden { "joins-rust-hidden" } else { "joins-rust" };
    let mut program = Command::new(given.programs.join(name));
    program.arg(place);
    Ok(Start::Run(program))
}

const JAVA: Program = Program {
    name: "Java",
    parts: &[part("thread"), part("pool"), part("busy")],
    ways: &[
        Way { name: "thread, queue and turns of spans", is_hidden: false, without: &[] },
        Way { name: "thread and queue of spans", is_hidden: false, without: &[TURNS] },
        Way { name: "thread of spans (`wakepath.tid`)", is_hidden: false, without: &[QUEUED, TURNS] },
        Way { name: "times of spans alone", is_hidden: false, without: &[TID, QUEUED, TURNS] },
    ],
    start: java,
};

fn java(given: &Given, place: &Path, _: bool) -> Result<Start> {
    let packages = given.packages.join("java");
    if !packages.exists() {
        return Ok(not_fetched());
    }
    let log = place.join("build.log");
    let jar = |name: &str| packages.join(format!("opentelemetry-{name}.jar")).display().to_string();
    let classes = [place.display().to_string(), jar("api"), jar("context"), jar("common")].join(":");
    let mut javac = Command::new("javac");
    javac.args(["--release", "11", "-cp", &classes, "-d"]).arg(place);
    succeed(javac.arg(given.sources().join("lab/workloads/Joins.java")), &log, TIMEOUT)?;
    let mut make = Command::new("make");
    make.args(["--silent", "-C"]).arg(given.sources().join("plugins/java"));
    make.arg(format!("SDK={}", packages.canonicalize()?.display()));
    succeed(make.arg(format!("OUT={}", place.canonicalize()?.display())), &log, TIMEOUT)?;
    // The agent writes the spans to the standard output, a JSON line for each export.
    let mut program = Command::new("sh");
    program.args(["-c", "place=$1; shift; exec java \"$@\" Joins \"$place\" >\"$place/spans.json\"", "sh"]);
    program.arg(place).arg(format!("-javaagent:{}", jar("javaagent"))).args(["-cp", &classes]);
    program.env("OTEL_JAVAAGENT_EXTENSIONS", place.join("wakepath-extension.jar"));
    program.env("OTEL_TRACES_EXPORTER", "experimental-otlp/stdout").env("OTEL_SERVICE_NAME", "joins");
    // All spans are exported behind the last request.
    program.envs(
        ["OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY"]
            .map(|name| (name, "100000")),
    );
    program.envs(
        ["OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_JAVAAGENT_LOGGING"].map(|name| (name, "none")),
    );
    Ok(Start::Run(program))
}

const TCP: Program = Program {
    name: "TCP",
    parts: &[part("own"), part("pool"), part("loop")],
    ways: &[Way { name: "connection and time", is_hidden: true, without: &[] }],
    start: tcp,
};

fn tcp(given: &Given, place: &Path, _: bool) -> Result<Start> {
    let mut program = Command::new(given.programs.join("joins_tcp"));
    program.arg(place);
    Ok(Start::Run(program))
}

const GO: Program = Program {
    name: "Go",
    parts: &[
        part("goroutine"),
        RequestKind { name: "pool", max_unknown: MAX_UNKNOWN_OF_GO_POOL },
        part("mutex"),
        part("busy"),
    ],
    ways: &[
        Way { name: "goroutine and queue of spans", is_hidden: false, without: &[] },
        Way { name: "goroutine", is_hidden: false, without: &[QUEUED] },
        Way { name: "times of spans alone", is_hidden: true, without: &[QUEUED] },
    ],
    start: go,
};

fn go(given: &Given, place: &Path, is_hidden: bool) -> Result<Start> {
    let packages = given.packages.join("go");
    if !packages.exists() {
        return Ok(not_fetched());
    }
    let packages = packages.canonicalize()?;
    let program = place.canonicalize()?.join("joins-go");
    let mut go = Command::new("go");
    go.args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(given.sources().join("lab/workloads/joins-go"));
    go.env("GOMODCACHE", packages.join("modules")).env("GOCACHE", packages.join("cache"));
    go.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "-mod=readonly")]);
    succeed(&mut go, &place.join("build.log"), TIMEOUT)?;
    let mut program = Command::new(program);
    program.arg(place);
    let probes = if is_hidden { &["--goroutines=none"] } else { &["--goroutines"] };
    Ok(Start::RunWith(program, probes))
}

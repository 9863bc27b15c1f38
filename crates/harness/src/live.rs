//! The program run live, on the test machine.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
use wakepath_event::{BlockedState, SwitchOut};
use wakepath_process::Process;

/// The program under test: in the folder above cargo's test folder.
pub static WAKEPATH: LazyLock<&str> = LazyLock::new(|| {
    let test = std::env::current_exe().expect("a path of the test");
    let program: PathBuf = test.ancestors().nth(2).expect("the folder of the build").join("wakepath");
    assert!(program.exists(), "{} is built by `cargo test` of wakepath-cli", program.display());
    program.into_os_string().into_string().expect("UTF-8").leak()
});

/// A folder in which a test may record, removed on drop.
#[derive(Debug)]
pub struct Place(tempfile::TempDir, #[expect(dead_code, reason = "held")] Among);

/// Whether the program's other tests with places may run meanwhile.
#[derive(Debug)]
enum Among {
    #[expect(dead_code, reason = "held")]
    Others(RwLockReadGuard<'static, ()>),
    #[expect(dead_code, reason = "held")]
    None(RwLockWriteGuard<'static, ()>),
}

static TESTS: RwLock<()> = RwLock::new(());

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl AsRef<Path> for Place {
    fn as_ref(&self) -> &Path {
        self
    }
}

/// Whether this machine and the user's rights allow recording, by `wakepath doctor`: run once per test program.
static CAN_RECORD: LazyLock<bool> =
    LazyLock::new(|| Command::new(*WAKEPATH).arg("doctor").output().expect("wakepath").status.success());

/// A folder in which a test may record; `None`, with a printed reason, if it may not.
pub fn place(would_show: &str) -> Option<Place> {
    if !*CAN_RECORD {
        skip("this machine or these rights allow no recording", would_show);
        return None;
    }
    let others = Among::Others(TESTS.read().unwrap_or_else(PoisonError::into_inner));
    Some(Place(tempfile::tempdir().expect("a folder"), others))
}

/// A place without other tests beside it: for limits on small times.
pub fn place_alone(would_show: &str) -> Option<Place> {
    drop(place(would_show)?);
    let none = Among::None(TESTS.write().unwrap_or_else(PoisonError::into_inner));
    Some(Place(tempfile::tempdir().expect("a folder"), none))
}

/// A process that is killed on drop.
#[derive(Debug)]
pub struct Beside(pub Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Prints why a test is skipped, and the missing result. Panics where all tests have to run.
#[track_caller]
pub fn skip(why: &str, would_show: &str) {
    assert!(std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_none(), "all tests must run here: {why}");
    eprintln!("skipped: {why}; would show that {would_show}");
}

/// Prints why a test is not possible on this machine, even with all rights and after `make setup`, and the missing result: it needs another
/// kernel, real traces, or a missing program. Never a failure.
pub fn not_possible(why: &str, would_show: &str) {
    eprintln!("skipped: not possible here: {why}; would show that {would_show}");
}

/// The `go` command, on the path or where Go's own archive installs it; `None`, with a printed reason, if it is missing.
pub fn go(would_show: &str) -> Option<PathBuf> {
    let is_there = |go: &PathBuf| match Command::new(go).arg("version").output() {
        Ok(output) => {
            assert!(output.status.success(), "{}: {}", go.display(), texts(&output).1);
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{}: {error}", go.display());
            false
        }
    };
    let found = ["go", "/usr/local/go/bin/go"].map(PathBuf::from).into_iter().find(is_there);
    if found.is_none() {
        not_possible("no Go here", would_show);
    }
    found
}

/// A thread's state as it leaves its CPU, in a word, for comparison with other tracers.
pub fn left_as(out: &SwitchOut) -> &'static str {
    match out {
        SwitchOut::Runnable => "runnable",
        SwitchOut::Dead => "dead",
        SwitchOut::Blocked(BlockedState::Interruptible) => "interruptible",
        SwitchOut::Blocked(BlockedState::Uninterruptible) => "uninterruptible",
        SwitchOut::Blocked(BlockedState::Idle) => "idle",
        SwitchOut::Blocked(BlockedState::Parked) => "parked",
        SwitchOut::Blocked(BlockedState::Stopped) => "stopped",
        SwitchOut::Blocked(_) | SwitchOut::Throttled => "another",
    }
}

/// A program from `lab/workloads/`, compiled into a folder; or copied from the folder in `WAKEPATH_WORKLOADS`, which has all built
/// programs for machines without a compiler.
pub fn workload(folder: &Path, name: &str) -> String {
    if let Some(built) = std::env::var_os("WAKEPATH_WORKLOADS") {
        let program = folder.join(name);
        let _ = std::fs::remove_file(&program); // It may still run.
        std::fs::copy(Path::new(&built).join(name), &program).expect("a program that is built");
        return program.to_str().expect("a path").to_owned();
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/workloads");
    let program = folder.join(name);
    let files = [name, "rate", "account", "disk", "flags", "lane", "limit", "meet", "wait"];
    let compiled = Command::new("cc")
        .args(["-O1", "-std=gnu11", "-pthread", "-o"])
        .arg(&program)
        .args(files.map(|name| format!("{name}.c")))
        .current_dir(sources)
        .status();
    assert!(compiled.expect("a C compiler").success(), "lab/workloads/{name}.c does not build");
    program.to_str().expect("a path").to_owned()
}

/// A program with this C source, compiled into a folder.
pub fn program(folder: &Path, name: &str, source: &str, options: &[&str]) -> String {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).expect("a file");
    let compiled = Command::new("cc").args(options).arg("-o").arg(&program).arg(&file).status();
    assert!(compiled.expect("a C compiler").success(), "{name}.c does not build");
    program.to_str().expect("a path").to_owned()
}

/// `wakepath` with these arguments in a folder, not yet started.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(*WAKEPATH);
    command.args(arguments).current_dir(folder);
    command
}

/// Runs `wakepath` with these arguments in a folder.
pub fn wakepath(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("wakepath")
}

/// A program's stdout and stderr.
pub fn texts(output: &Output) -> (String, String) {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (out, err)
}

/// Runs `wakepath` with these arguments in a folder, with this expected exit code. Returns stdout and stderr.
#[track_caller]
pub fn run(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    let output = wakepath(folder, arguments);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}");
    (out, err)
}

/// Runs `wakepath record` like [`run`].
#[track_caller]
pub fn record(folder: &Path, arguments: &[&str], code: i32) -> (String, String) {
    run(folder, &[&["record"], arguments].concat(), code)
}

/// A verb's `--json` document about the recording in a folder.
#[track_caller]
pub fn document(folder: &Path, arguments: &[&str]) -> Value {
    let (out, _) = run(folder, &[arguments, &["--json"]].concat(), 0);
    serde_json::from_str(&out).expect("JSON")
}

/// The targets that `wakepath latency` counts with these arguments while a command runs, and the numbers that the command prints (`NAME
/// NUMBER`), summed by name.
#[track_caller]
pub fn latency(folder: &Path, arguments: &[&str], command: &[&str]) -> (Vec<Value>, HashMap<String, u64>) {
    counts(&run(folder, &[&["latency", "--json"], arguments, &["--"], command].concat(), 0).0)
}

/// The same from the output of `wakepath latency --json` and its command.
#[track_caller]
pub fn counts(printed: &str) -> (Vec<Value>, HashMap<String, u64>) {
    let (document, own) = document_among(printed);
    let mut numbers = HashMap::new();
    for (name, number) in own.iter().filter_map(|line| line.split_once(' ')) {
        if let Ok(number) = number.parse::<u64>() {
            *numbers.entry(name.to_owned()).or_default() += number;
        }
    }
    (list(&document["targets"]).to_vec(), numbers)
}

/// The document from `wakepath latency --json` among its command's lines (null without a document), and these lines.
pub fn document_among(printed: &str) -> (Value, Vec<&str>) {
    let (documents, own): (Vec<_>, _) = printed.lines().partition(|line| line.starts_with('{'));
    (documents.first().map_or(Value::Null, |line| serde_json::from_str(line).expect("JSON")), own)
}

/// A list in a document.
#[track_caller]
pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// A number in a document, which may be written as text.
#[track_caller]
pub fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value} is no number"))
}

/// Records the program with this name in the folder, which writes its spans into `spans.json`. Returns the documents of those among its
/// five slowest requests that another request held back for more than 10 ms: the kernel does not show all switches.
pub fn blocked(folder: &Path, options: &[&str], program: &str, arguments: &[&str]) -> Vec<Value> {
    let program = folder.join(program);
    let words = [options, &["--", program.to_str().expect("UTF-8"), "spans.json"], arguments].concat();
    record(folder, &words, 0);
    let question = ["requests", "wakepath.rec", "spans.json", "--slowest", "5", "--json"];
    let (documents, _) = run(folder, &question, 0);
    let documents = documents.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let is_blocked = |document: &Value| {
        let first = list(&document["blocked_by"]).first();
        first.is_some_and(|first| number(&first["total_ns"]) > 10_000_000)
    };
    documents.filter(is_blocked).collect()
}

/// The length of a segment, call or window, ns.
#[track_caller]
pub fn length(of: &Value) -> i64 {
    let [from, to] =
        ["from_ns", "to_ns"].map(|end| of[end].as_i64().unwrap_or_else(|| panic!("no {end}: {of}")));
    to - from
}

/// `wakepath path --json` on the recording in a folder.
pub fn path(folder: &Path) -> Value {
    document(folder, &["path"])
}

/// Asserts that the segments tile the window, and that the contributors add up to it. Returns the window's length, ns.
pub fn adds_up(document: &Value) -> i64 {
    let number = |value: &Value| value.as_i64().expect("a number");
    let (from, to) = (number(&document["window"]["from_ns"]), number(&document["window"]["to_ns"]));
    let mut at = from;
    for segment in list(&document["segments"]) {
        assert_eq!(number(&segment["from_ns"]), at, "no gap, no overlap");
        at = number(&segment["to_ns"]);
    }
    assert_eq!(at, to, "the segments reach the window's end");
    let contributors = list(&document["contributors"]).iter();
    assert_eq!(contributors.map(|one| number(&one["total_ns"])).sum::<i64>(), to - from);
    to - from
}

/// The time of all contributors with this kind, ns.
pub fn contributed_ns(document: &Value, kind: &str) -> i64 {
    let of_kind = list(&document["contributors"]).iter().filter(|one| one["kind"] == kind);
    of_kind.map(|one| one["total_ns"].as_i64().expect("a number")).sum()
}

/// The first byte of a function in a running program, or in a library mapped by it.
pub fn first_byte(pid: u32, program: &str, function: &str) -> u8 {
    let symbols = Command::new("nm").arg(program).output().expect("nm").stdout;
    let symbols = String::from_utf8(symbols).expect("text");
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {function}"))).expect("the function");
    let offset = u64::from_str_radix(&line[..16], 16).expect("an address");
    let process = Process::open(pid).expect("it runs");
    let mappings = process.mappings().expect("mappings");
    let mapping =
        mappings.iter().find(|it| it.name.ends_with(program.as_bytes())).expect("the file is mapped");
    let mut byte = [0];
    process.memory().and_then(|it| it.read(mapping.addresses.start + offset, &mut byte)).expect("a byte");
    byte[0]
}

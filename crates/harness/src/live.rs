//! The program run live, on the machine that runs the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;
use wakepath_event::{BlockedState, SwitchOut};

/// The program under test: in the folder above the one where cargo puts tests.
pub static WAKEPATH: LazyLock<&str> = LazyLock::new(|| {
    let test = std::env::current_exe().expect("a path of the test");
    let program: PathBuf = test.ancestors().nth(2).expect("the folder of the build").join("wakepath");
    assert!(program.exists(), "{} is built by `cargo test`", program.display());
    program.into_os_string().into_string().expect("UTF-8").leak()
});

/// A folder of its own where a test may record; `None`, with a line that says so, where it may not.
pub fn place(would_show: &str) -> Option<tempfile::TempDir> {
    let can = Command::new(*WAKEPATH).arg("doctor").output().expect("wakepath").status.success();
    if !can {
        skip("this machine or these rights allow no recording", would_show);
        return None;
    }
    Some(tempfile::tempdir().expect("a folder"))
}

/// Says what is not tried here, and what it would have shown. A failure where all has to be tried.
#[track_caller]
pub fn skip(why: &str, would_show: &str) {
    assert!(std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_none(), "live tests are required here: {why}");
    eprintln!("skipped: {why}; would show that {would_show}");
}

/// In which state a thread is when it leaves its CPU, in a word, to be compared with what others print.
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

/// A program of `workloads/`, compiled into a folder; or copied, where there is no compiler but a folder with
/// all of them that `WAKEPATH_WORKLOADS` names.
pub fn workload(folder: &Path, name: &str) -> String {
    if let Some(built) = std::env::var_os("WAKEPATH_WORKLOADS") {
        let program = folder.join(name);
        std::fs::copy(Path::new(&built).join(name), &program).expect("a program that is built");
        return program.to_str().expect("a path").to_owned();
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let program = folder.join(name);
    let files = [name, "rate", "account", "disk", "flags", "lane", "limit", "meet", "wait"];
    let compiled = Command::new("cc")
        .args(["-O1", "-std=gnu11", "-pthread", "-o"])
        .arg(&program)
        .args(files.map(|name| format!("{name}.c")))
        .current_dir(sources)
        .status();
    assert!(compiled.expect("a C compiler").success(), "workloads/{name}.c does not build");
    program.to_str().expect("a path").to_owned()
}

/// `wakepath` with these arguments in a folder.
pub fn wakepath(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(*WAKEPATH).args(arguments).current_dir(folder).output().expect("wakepath")
}

/// `wakepath record` with these arguments in a folder.
pub fn record(folder: &Path, arguments: &[&str]) -> Output {
    wakepath(folder, &[&["record"], arguments].concat())
}

/// The document that a verb prints with `--json`, of the recording in a folder.
pub fn document(folder: &Path, arguments: &[&str]) -> Value {
    let output = wakepath(folder, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// `wakepath path --json` of the recording in a folder.
pub fn path(folder: &Path) -> Value {
    document(folder, &["path"])
}

/// The segments tile the window; the sum of the contributors is the window. Returns it, ns.
pub fn adds_up(document: &Value) -> i64 {
    let number = |value: &Value| value.as_i64().expect("a number");
    let (from, to) = (number(&document["window"]["from_ns"]), number(&document["window"]["to_ns"]));
    let mut at = from;
    for segment in document["segments"].as_array().expect("segments") {
        assert_eq!(number(&segment["from_ns"]), at, "no gap, no overlap");
        at = number(&segment["to_ns"]);
    }
    assert_eq!(at, to, "the segments reach the window's end");
    let contributors = document["contributors"].as_array().expect("contributors");
    assert_eq!(contributors.iter().map(|one| number(&one["total_ns"])).sum::<i64>(), to - from);
    to - from
}

/// ns of all contributors of a kind.
pub fn of_kind(document: &Value, kind: &str) -> i64 {
    let contributors = document["contributors"].as_array().expect("contributors");
    let of_kind = contributors.iter().filter(|one| one["kind"] == kind);
    of_kind.map(|one| one["total_ns"].as_i64().expect("a number")).sum()
}

/// The first byte of a function of a running program.
pub fn first_byte(pid: u32, program: &str, function: &str) -> u8 {
    let symbols = Command::new("nm").arg(program).output().expect("nm").stdout;
    let symbols = String::from_utf8(symbols).expect("text");
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {function}"))).expect("the function");
    let offset = u64::from_str_radix(&line[..16], 16).expect("an address");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("mappings");
    let start =
        maps.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok()).expect("a start");
    let mut byte = [0];
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).expect("its memory");
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut byte, start + offset).expect("a byte");
    byte[0]
}

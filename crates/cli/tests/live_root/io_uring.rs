//! Waits for requests to an io_uring in a live recording: a worker's request is named with its file, and the disk behind it;
//! an answer that comes late has its sender.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wakepath_harness::live::{document, list, not_possible, number, place, record};

const WOULD_SHOW: &str = "the request of an io_uring worker is named with its file";

/// The program, in a folder; `None` without a compiler or an io_uring.
fn requests(folder: &Path) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live_root/io_uring/requests.c");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", "requests"]).arg(source);
    if !compile.current_dir(folder).status().is_ok_and(|status| status.success()) {
        not_possible("no C compiler is here", WOULD_SHOW);
        return None;
    }
    let program = folder.join("requests");
    if Command::new(&program).arg("read").status().expect("the program").code() == Some(2) {
        not_possible("this kernel refuses io_uring", WOULD_SHOW);
        return None;
    }
    Some(program.to_str().expect("UTF-8").to_owned())
}

fn answer(folder: &Path, words: &[&str]) -> Value {
    record(folder, &[&["--"], words].concat(), 0);
    document(folder, &["path"])
}

#[test]
fn a_workers_request_is_named_with_its_file_and_the_disk_only_where_one_is() {
    let Some(folder) = place(WOULD_SHOW) else { return };
    let Some(program) = requests(&folder) else { return };
    let synced = answer(&folder, &[&program, "fsync", "wal"]);
    let waits: Vec<&Value> =
        list(&synced["waits"]).iter().filter(|wait| wait["call"] == "io_uring fsync").collect();
    assert!(waits.len() >= 20, "{}", waits.len());
    let workers = list(&synced["segments"]).iter().filter(|it| it["call"] == "io_uring fsync");
    let workers: Vec<&Value> = workers.collect();
    println!("{} waits, {} segments of workers", waits.len(), workers.len());
    assert!(
        workers.iter().any(|it| it["kind"] == "block_device" && it["object"]["name"] == "wal"),
        "{workers:?}"
    );
    let is_worker = |it: &&&Value| it["comm"].as_str().is_some_and(|name| name.starts_with("iou-wrk-"));
    assert!(
        workers.iter().filter(is_worker).all(|it| it["pid"] == synced["window"]["pid"]),
        "its own worker"
    );
    let rows = list(&synced["rows"]);
    let disk = rows.iter().find(|row| row["code"] == "disk").expect("a disk");
    let calls = list(&disk["calls"]);
    assert!(
        calls.iter().any(|call| call["call"] == "io_uring fsync" && call["object"]["name"] == "wal"),
        "{disk}"
    );
    // Except the recorder, which reads the list of the program's mappings: a call of `mmap` waits for that.
    let is_the_recorder = |row: &Value| list(&row["users"]).iter().all(|user| user["comm"] == "wakepath");
    let foreign = rows.iter().filter(|row| row["code"] == "process" && !is_the_recorder(row));
    let foreign: Vec<_> = foreign.collect();
    assert!(foreign.is_empty(), "no foreign process: {foreign:?}");

    // In memory, the same program waits for no disk.
    let memory = Path::new("/dev/shm").join(format!("wakepath-wal-{}", std::process::id()));
    let fast = answer(&folder, &[&program, "fsync", memory.to_str().expect("UTF-8")]);
    let _ = std::fs::remove_file(&memory);
    assert!(
        !list(&fast["rows"]).iter().any(|row| row["code"] == "disk"
            && list(&row["calls"]).iter().any(|call| call["call"] == "io_uring fsync")),
        "{}",
        fast["rows"]
    );
}

/// The thread's own waits.
fn own_waits(document: &Value) -> impl Iterator<Item = &Value> {
    let tid = &document["window"]["tid"];
    let lists = [list(&document["waits"]), list(&document["segments"])];
    lists.into_iter().flatten().filter(move |it| &it["tid"] == tid)
}

/// The call of a wait for an io_uring, with its object.
fn call_of(wait: &Value) -> Option<(String, String)> {
    let call = wait["call"].as_str().filter(|call| call.starts_with("io_uring"))?;
    Some((call.to_owned(), wait["object"]["name"].as_str().unwrap_or_default().to_owned()))
}

/// Every wait of the thread's own is for this object, by this call; the others are shown.
fn only_waits_for(document: &Value, expected: &(String, String), case: &[&str]) {
    let other = |it: &&Value| call_of(it).is_some_and(|call| call != *expected);
    let others: Vec<&Value> = own_waits(document).filter(other).collect();
    let calls: BTreeSet<_> = own_waits(document).filter_map(call_of).collect();
    assert!(calls.contains(expected) && others.is_empty(), "{case:?}: {calls:?}\n{others:#?}");
}

#[test]
fn a_wait_for_requests_for_a_single_file_has_its_name_and_others_have_none() {
    let Some(folder) = place(WOULD_SHOW) else { return };
    let Some(program) = requests(&folder) else { return };
    let pair = |call: &str, object: &str| (call.to_owned(), object.to_owned());
    let cases: [(&[&str], (String, String)); 6] = [
        (&["direct", "index"], pair("io_uring read", "index")),
        (&["fsync", "wal"], pair("io_uring fsync", "wal")),
        (&["twice", "wal"], pair("io_uring fsync", "wal")),
        (&["two", "wal", "index"], pair("io_uring_enter", "[io_uring]")),
        (&["polled", "wal"], pair("io_uring_enter", "[io_uring]")),
        // The number for the ring is no descriptor.
        (&["registered", "wal"], pair("io_uring_enter", "")),
    ];
    for (words, expected) in cases {
        let answered = answer(&folder, &[&[&*program], words].concat());
        only_waits_for(&answered, &expected, words);
    }

    // An earlier request may be the awaited request.
    let mut early =
        Command::new(&program).args(["early", "wal"]).current_dir(&folder).spawn().expect("the program");
    std::thread::sleep(Duration::from_millis(300));
    let pid = early.id().to_string();
    record(&folder, &["-p", &pid, "-d", "4"], 0);
    assert!(early.wait().expect("its end").success());
    let answered = document(&folder, &["path", "--tid", &pid]);
    only_waits_for(&answered, &pair("io_uring_enter", "[io_uring]"), &["early"]);
}

#[test]
fn a_late_answer_to_a_request_has_its_sender_and_no_disk() {
    let Some(folder) = place(WOULD_SHOW) else { return };
    let Some(program) = requests(&folder) else { return };
    let late = answer(&folder, &[&program, "read"]);
    assert_eq!(late["headline"]["who"]["comm"], "answers", "{}", late["headline"]);
    assert!(number(&late["headline"]["total_ns"]) > 60_000_000, "{}", late["headline"]);
    assert!(!late["headline"]["text"].as_str().expect("text").contains("disk"), "{}", late["headline"]);
}

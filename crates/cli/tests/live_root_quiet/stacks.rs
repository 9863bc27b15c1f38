//! `wakepath record --stacks`: the answer names the functions that waited and woke, in a program with known functions.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use wakepath_harness::live::{
    adds_up, contributed_ns, document, list, number, path, place, place_alone, program, record, run,
};

/// Builds the shop in `folder`.
fn shop(folder: &Path, frame_pointers: &str) {
    program(folder, "shop", include_str!("stacks/shop.c"), &["-g", "-O1", "-pthread", frame_pointers]);
}

/// Joins wrapped lines, and removes a tree's rails.
fn unbroken(text: &str) -> String {
    text.replace(['│', '├', '└', '─'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A stack's functions: `save_order` from `save_order (shop) shop.c:25`.
fn functions(stack: &Value) -> Vec<&str> {
    let frames = stack.as_array().map_or(&[][..], Vec::as_slice);
    frames.iter().filter_map(|frame| frame.as_str()?.split(' ').next()).collect()
}

/// The number of waits and waiting segments in `call`, by the shop's innermost function.
fn by_function(document: &Value, call: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    // Time stolen by the hypervisor before a late wake-up divides a sleep: its segments follow each other.
    let mut until = BTreeMap::new();
    let items = list(&document["waits"]).iter().chain(list(&document["segments"]));
    for item in items.filter(|item| item["call"] == call) {
        let began = item["from_ns"].as_i64();
        if until.insert(number(&item["tid"]), item["to_ns"].as_i64()) == Some(began) {
            continue;
        }
        // Each wait has a stack.
        let own =
            list(&item["stack"]).iter().filter_map(Value::as_str).find(|frame| frame.contains("(shop)"));
        let own = own.and_then(|frame| frame.split(' ').next()).unwrap_or("none");
        *counts.entry(own.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn the_functions_that_wait_and_wake_are_named_with_their_counts() {
    let Some(folder) = place_alone("the functions that wait are named") else { return };
    shop(&folder, "-fno-omit-frame-pointer");
    // On the disk with the build: a file system in memory waits for nothing.
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = disk.path().join("orders.db");
    // If the kernel left a switch unrecorded, a wait may be in two parts, or missing: such a run shows nothing.
    let (mut said, mut document) = (String::new(), Value::Null);
    for _ in 0..10 {
        said = unbroken(&record(&folder, &["--stacks", "--", "./shop", file.to_str().expect("a path")], 0).1);
        document = path(&folder);
        adds_up(&document);
        if contributed_ns(&document, "unknown") == 0 {
            break;
        }
    }

    let syncs = by_function(&document, "fdatasync");
    assert!(syncs["save_order"] >= 14 && syncs.len() == 1, "{syncs:?}");
    let told = said.split("waits in ").find(|part| part.starts_with("save_order (shop), from shop shop.c:7"));
    assert!(told.is_some(), "{said}");

    // The lock: the function that waited for it, and the functions in which its holder was and woke.
    let waits = list(&document["waits"]);
    let for_lock: Vec<_> = waits
        .iter()
        .filter(|wait| wait["via"] == "lock" && functions(&wait["stack"]).contains(&"take_lock"))
        .collect();
    assert_eq!(for_lock.len(), 5, "{waits:?}");
    for wait in for_lock {
        let (waited, woke) = (functions(&wait["stack"]), functions(&wait["waker_stack"]));
        let chain = ["take_lock", "shop", "main", "__libc_start_call_main"];
        assert!(waited.windows(chain.len()).any(|frames| frames == chain), "{waited:?}");
        assert!(woke.contains(&"hold_lock") && woke.contains(&"holder"), "{woke:?}");
        assert!(woke.contains(&"futex_wake") || woke.contains(&"the"), "the kernel's are before: {woke:?}");
    }
    assert_eq!(
        by_function(&document, "clock_nanosleep"),
        BTreeMap::from([("hold_lock".to_owned(), 5), ("main".to_owned(), 1)])
    );
    assert!(said.contains("5 of 6 waits in hold_lock (shop), from holder shop.c:"), "{said}");
    let tree = unbroken(&run(&folder, &["path", "--tree"], 0).0);
    assert!(tree.contains("in hold_lock (shop), from holder shop.c:"), "{tree}");
    let explained = unbroken(&run(&folder, &["path", "--explain"], 0).0);
    assert!(
        explained.contains("< take_lock (shop) shop.c:") && explained.contains("it was woken in"),
        "{explained}"
    );
}

#[test]
fn without_frame_pointers_callers_are_named_all_the_same() {
    let Some(folder) = place("callers without frame pointers are named") else { return };
    shop(&folder, "-fomit-frame-pointer");
    let said = unbroken(&record(&folder, &["--stacks", "--", "./shop"], 0).1);
    // Each twin has half of the waits.
    let named = |twin| said.contains(&format!("waits in {twin} (shop), from twins shop.c:"));
    assert!(named("one") || named("two"), "{said}");
}

#[test]
fn functions_that_wait_alike_are_distinguished_though_most_stacks_are_repeated() {
    let Some(folder) = place_alone("repeated stacks are those of the same place") else { return };
    let ways = [
        ("-fno-omit-frame-pointer", "--stacks"),
        ("-fno-omit-frame-pointer", "--stacks=each"),
        ("-fomit-frame-pointer", "--stacks"),
    ];
    for (frame_pointers, how) in ways {
        shop(&folder, frame_pointers);
        record(&folder, &[how, "--", "./shop"], 0);
        let waits = by_function(&path(&folder), "clock_nanosleep");
        let info = document(&folder, &["info"]);
        let count = |key: &str| number(&info["stacks"][key]);
        // A wait whose end the kernel left unrecorded is unknown, and there can be many.
        let [one, two] = ["one", "two"].map(|name| waits.get(name).copied().unwrap_or(0));
        let untraced = list(&info["losses"]).iter().filter(|loss| loss["reported"] == false).count() as u64;
        let least = 295_u64.saturating_sub(untraced);
        assert!(
            (least..=300).contains(&one) && (least..=300).contains(&two),
            "{how} {frame_pointers}: {waits:?} {info}"
        );
        assert_eq!(how == "--stacks", count("repeated") > 400, "{how}: {info}");
        assert!(count("checked") > 0 && count("disagreed") <= count("checked"), "{info}");
    }
}

#[test]
fn no_stack_is_taken_that_was_not_asked_for() {
    let Some(folder) = place("stacks are taken where asked alone") else { return };
    record(&folder, &["--", "sleep", "0.01"], 0);
    let info = document(&folder, &["info"]);
    assert!(info["stacks"].is_null() && info["events"].get("stack_of").is_none(), "{info}");
    record(&folder, &["--stacks", "--path-only", "--", "true"], 2);
}

/// Two threads wait in the same function, one of them for the next job: the function has the name of libuv's.
const POOL: &str = r#"
    #define _GNU_SOURCE
    #include <linux/futex.h>
    #include <pthread.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    static int never;
    __attribute__((noinline)) void uv_cond_wait(void)
    {
        syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    }
    __attribute__((noinline)) void *worker(void *unused)
    {
        pthread_setname_np(pthread_self(), "pool");
        for (;;)
            uv_cond_wait();
        return unused;
    }
    __attribute__((noinline)) void *job(void *unused)
    {
        pthread_setname_np(pthread_self(), "job");
        for (;;)
            uv_cond_wait();
        return unused;
    }
    int main(void)
    {
        pthread_t thread;
        pthread_create(&thread, 0, worker, 0);
        pthread_create(&thread, 0, job, 0);
        /* A wait that began before the recording has no stack. */
        for (;;) {
            usleep(10000);
            syscall(SYS_futex, &never, FUTEX_WAKE_PRIVATE, 2, 0, 0, 0);
        }
    }
"#;

#[test]
fn a_pools_thread_is_idle_where_its_stack_shows_that_it_has_no_job() {
    let Some(folder) = place("a pool's thread without a job is idle, by its stack") else { return };
    let node = program(&folder, "node", POOL, &["-O1", "-pthread", "-fno-omit-frame-pointer"]);
    let mut pool = std::process::Command::new(node).spawn().expect("it starts");
    record(&folder, &["--stacks", "-p", &pool.id().to_string(), "-d", "1"], 0);
    pool.kill().and_then(|()| pool.wait()).expect("an end");
    let document = document(&folder, &["path"]);
    for (comm, key) in [("pool", "idle_ns"), ("job", "undecided_ns")] {
        let thread = list(&document["threads"]).iter().find(|thread| thread["comm"] == comm);
        let ns = |key: &str| number(&thread.expect(comm)[key]);
        let blocked: u64 = ["waiting_ns", "sleeping_ns", "undecided_ns", "idle_ns"].map(ns).iter().sum();
        assert!(ns(key) > blocked / 10 * 8 && blocked > 200_000_000, "{comm}: {thread:?}");
        assert!(key == "idle_ns" || ns("idle_ns") == 0, "{comm}: {thread:?}");
        assert_eq!(ns("idle_inferred_ns"), ns("idle_ns"), "{comm}");
    }
}

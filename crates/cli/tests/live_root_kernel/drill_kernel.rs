//! `wakepath drill` into kernel functions, on kernels that allow probes there: programs whose slow system call is slow for a known
//! reason below it. `vm/tests` runs these tests in guests with such kernels.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use wakepath_harness::live::{
    Place, document, list, not_possible, number, place, run, texts, wakepath, workload,
};

/// A place for a test, if this kernel allows probes in its code; else prints a line about it.
fn kernel_place(would_show: &str) -> Option<Place> {
    let folder = place(would_show)?;
    // A single process: a child that outlives it would keep the program busy, which is copied again.
    let below = Below::start(&folder, &["fsync", "file"]);
    let tried =
        ["drill", "kernel:vfs_fsync_range", "-p", &below.1, "--start-ops", "1", "--no-waits", "-d", "1"];
    let (_, said) = texts(&wakepath(&folder, &tried));
    if said.contains("cannot put a probe on the kernel's") || said.contains("cannot read `/proc/kcore`") {
        not_possible("this kernel allows no probes in its code", would_show);
        return None;
    }
    Some(folder)
}

/// A running `below`; it ends when dropped.
struct Below(Child, String);

impl Below {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let program = workload(folder, "below");
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("below");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("its number");
        Self(child, line.trim().to_owned())
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The answer about slow calls in `below`.
fn answer(folder: &Path, function: &str, arguments: &[&str]) -> Value {
    let below = Below::start(folder, arguments);
    document(folder, &["drill", function, "-p", &below.1, "--start-ops", "300", "--no-waits", "-d", "120"])
}

/// The answer in words, including the waits of the path's last function.
fn in_words(folder: &Path, function: &str, arguments: &[&str]) -> String {
    let below = Below::start(folder, arguments);
    let asked = ["drill", function, "-p", &below.1, "--start-ops", "300", "-d", "120"];
    texts(&wakepath(folder, &asked)).0
}

/// The answer's paths, each with the cause at its end.
fn paths(answer: &Value) -> Vec<(Vec<&str>, &Value)> {
    let names = |path| list(path).iter().filter_map(Value::as_str).collect();
    list(&answer["root_causes"]).iter().map(names).zip(list(&answer["causes"])).collect()
}

/// Whether a path has these functions, in this order and perhaps with others between.
fn is_in_order(path: &[&str], wanted: &[&str]) -> bool {
    let mut rest = path.iter();
    wanted.iter().all(|name| rest.any(|function| function == name))
}

/// Whether a path has these functions, and its last function waited for most of the time.
fn has_wait(answer: &Value, wanted: &[&str]) -> bool {
    paths(answer).iter().any(|(path, cause)| {
        is_in_order(path, wanted) && number(&cause["blocked_ns"]) * 2 > number(&cause["ns"])
    })
}

/// The process has few threads, whose calls all return; the answer would report missed calls.
fn misses_nothing(answer: &Value) {
    let notes = answer["notes"].to_string();
    assert!(!notes.contains("unseen"), "{answer}");
}

#[test]
fn a_read_of_a_pipe_that_comes_late_waits_in_the_pipe() {
    let Some(folder) = kernel_place("the path of a late read is found in the kernel") else { return };
    let found = answer(&folder, "kernel:vfs_read", &["pipe"]);
    // fs/read_write.c calls it through the file's operations, `call_read_iter`; fs/pipe.c waits there itself.
    assert!(has_wait(&found, &["vfs_read", "schedule"]), "{found}");
    let (path, _) = &paths(&found)[0];
    assert!(["pipe_read", "anon_pipe_read"].contains(&path[1]), "{found}");
    misses_nothing(&found);
    // The system call gets there by a jump.
    let found = answer(&folder, "kernel:__x64_sys_read", &["pipe"]);
    assert!(has_wait(&found, &["__x64_sys_read", "ksys_read", "vfs_read", "schedule"]), "{found}");
    misses_nothing(&found);
}

#[test]
fn a_write_that_waits_for_the_lock_of_the_inode_is_found_from_its_peak() {
    let Some(folder) = kernel_place("an intermittent lock of the kernel is found from its peak") else {
        return;
    };
    let found = answer(&folder, "kernel:vfs_write", &["append", "file"]);
    // `ext4_buffered_write_iter` in fs/ext4/file.c takes it; this file system is not always ext4.
    assert!(has_wait(&found, &["vfs_write", "down_write"]), "{found}");
    misses_nothing(&found);
}

#[test]
fn an_fsync_is_followed_into_a_module() {
    let Some(folder) = kernel_place("a function of a module is followed") else { return };
    let on_ext4 = Command::new("stat").args(["-f", "-c", "%T"]).arg(&*folder).output().expect("stat");
    if !texts(&on_ext4).0.starts_with("ext2/ext3") {
        return not_possible("no ext4 here", "a function of a module is followed");
    }
    let found = answer(&folder, "kernel:__x64_sys_fsync", &["fsync", "file"]);
    // fs/sync.c, and the file's operation; `do_fsync` is between where the compiler did not inline it.
    let is_there = |(path, _): &(Vec<&str>, &Value)| {
        is_in_order(path, &["__x64_sys_fsync", "vfs_fsync_range", "ext4_sync_file"])
    };
    assert!(paths(&found).iter().any(is_there), "{found}");
    misses_nothing(&found);
    // The same, beginning in the module.
    let found = answer(&folder, "kernel:ext4_sync_file", &["fsync", "file"]);
    assert_eq!(paths(&found)[0].0[0], "ext4_sync_file", "{found}");
}

#[test]
fn a_path_of_a_program_goes_on_below_its_system_call() {
    let Some(folder) = kernel_place("a path goes on from the program into the kernel") else { return };
    let function = format!("{}:serve", workload(&folder, "below"));
    let found = answer(&folder, &function, &["pipe"]);
    let path = ["serve", "call_kernel", "__x64_sys_read", "ksys_read", "vfs_read", "schedule"];
    assert!(has_wait(&found, &path), "{found}");
    misses_nothing(&found);
}

#[test]
fn below_a_path_of_the_kernel_stands_whom_it_waited_for() {
    let Some(folder) = kernel_place("the answer names whom a function of the kernel waited for") else {
        return;
    };
    // The pipe's writer sleeps before it writes.
    let said = in_words(&folder, "kernel:vfs_read", &["pipe"]);
    let (path, waits) = said.split_once("calls above").unwrap_or_else(|| panic!("no second half: {said}"));
    assert!(path.contains("schedule") && waits.contains("below"), "{said}");
    assert!(waits.contains("nanosleep"), "{said}");
    // The process with the inode's lock writes meanwhile.
    let said = in_words(&folder, "kernel:vfs_write", &["append", "file"]);
    let (path, waits) = said.split_once("calls above").unwrap_or_else(|| panic!("no second half: {said}"));
    assert!(path.contains("down_write") && waits.contains("below"), "{said}");
}

#[test]
fn a_function_with_returns_that_are_not_all_known_has_a_return_probe() {
    let Some(folder) = kernel_place("the returns of a function are seen that leaves by a pointer") else {
        return;
    };
    // This function ends with `return file->f_op->fsync(...)`, a jump by a pointer (fs/sync.c).
    let found = answer(&folder, "kernel:vfs_fsync_range", &["fsync", "file"]);
    let notes = found["notes"].to_string();
    assert!(notes.contains("the returns of vfs_fsync_range are seen by a return probe"), "{found}");
    assert_eq!(paths(&found)[0].0[0], "vfs_fsync_range", "{found}");
    misses_nothing(&found);
    // More threads are in the function than the kernel has return probes for it.
    let below = Below::start(&folder, &["crowd", "file"]);
    let asked =
        ["drill", "kernel:vfs_fsync_range", "-p", &below.1, "--start-ops", "100", "--no-waits", "-d", "15"];
    let found = document(&folder, &asked);
    assert!(found["notes"].to_string().contains("calls of the function returned unseen"), "{found}");
}

#[test]
fn cold_reads_of_a_directory_end_in_the_disk_and_warm_ones_do_not() {
    let Some(folder) = kernel_place("the peaks of directory reads are explained one by one") else { return };
    let source = Command::new("stat").args(["-f", "-c", "%T"]).arg(&*folder).output().expect("stat");
    if !texts(&source).0.starts_with("ext2/ext3") {
        return not_possible("no ext4 here", "cold reads of a directory end in the disk");
    }
    // Names with 190 letters: the entries fill one block, which one disk read fetches.
    let many = folder.join("many");
    std::fs::create_dir(&many).expect("room");
    for number in 0..15 {
        std::fs::write(many.join(format!("{number:0190}")), "").expect("room");
    }
    // Blocks just written cannot be dropped.
    Command::new("sync").status().expect("sync");
    let below = Below::start(&folder, &["list", "many"]);
    let ask = |more: &[&str]| {
        let asked = ["drill", "kernel:iterate_dir", "-p", &below.1, "--start-ops", "400", "-d", "120"];
        texts(&wakepath(&folder, &[&asked[..], more].concat())).0
    };
    let cold = ask(&["--max-depth", "20"]);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    if cold.contains("peak 2 of 2") && release.starts_with("6.1.") {
        // There the cold reads have no separate peak.
        return not_possible("the blocks stay in memory here", "cold reads of a directory end in the disk");
    }
    assert!(cold.contains("ext4_readdir") && cold.contains("ext4_read_bh"), "{cold}");
    let (path, waits) = cold.split_once("calls above").unwrap_or_else(|| panic!("no second half: {cold}"));
    assert!(path.contains("schedule") && waits.contains("waiting for disk vda"), "{cold}");
    let warm = ask(&["--no-waits", "--peak", "2"]);
    assert!(warm.contains("ext4_readdir") && !warm.contains("schedule"), "{warm}");
}

#[test]
fn functions_that_have_to_be_left_alone_are_refused_with_the_reason() {
    let Some(folder) = kernel_place("what may not be probed is refused") else { return };
    let below = Below::start(&folder, &["pipe"]);
    for (function, why) in [
        ("kernel:vfs_raed", "there is no `kernel:vfs_raed`; similar: kernel:vfs_read"),
        ("kernel:irqentry_enter", "it is code by which the kernel is entered"),
        ("kernel:bpf_get_current_pid_tgid", "programs at probes call it themselves"),
        ("kernel:do_exit", "never returns"),
        ("kernel:vfs_*", "there is no `kernel:vfs_*`"),
    ] {
        let said = run(&folder, &["drill", function, "-p", &below.1], 2).1;
        assert!(said.contains(why), "{function}: {said}");
    }
}

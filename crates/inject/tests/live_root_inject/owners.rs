//! A process that another party changes, or has changed: a debugger, another wakepath, its own loader.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use wakepath_functions::ProcessCode;
use wakepath_inject::{Injection, Node, Site};

use super::{Program, code_bytes, compiled, hex, is_as_before, is_root, later, memory, sites};

#[test]
fn a_process_that_is_traced_is_refused() {
    if !is_root("that a process under a debugger is left alone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "waits.c", &["-O2"]);
    let program = Program::start(&path, &["read"]);
    let pid = program.pid() as i32;
    // SAFETY: system calls with numbers, on a child of this process.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) };
    assert_eq!(seized, 0);
    let maps = || std::fs::read(format!("/proc/{pid}/maps")).expect("maps");
    let before = maps();
    let refused = Injection::begin(program.pid(), memory().as_fd(), &[]).map(drop).expect_err("traced");
    assert!(refused.to_string().contains("is traced by process"), "{refused}");
    assert_eq!(before, maps(), "nothing was touched");
}

#[test]
fn what_a_dead_owner_left_is_taken_out() {
    if !is_root("that stubs of a wakepath that was killed are taken out by the next one") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "called.c", &["-O2"]);
    let mut program = Program::start(&path, &["500"]);
    let line = program.line();
    let (thread, slot) = (hex(&line[1]), hex(&line[2]));
    let before = code_bytes(program.pid());
    let mut code = ProcessCode::of(program.pid(), false).expect("code");
    let mut all = sites(&mut code, program.functions["once"]);
    for (.., site) in &mut all {
        site.nodes.push(Node { parent: 0, node: 1 });
    }
    let all: Vec<Site> = all.into_iter().map(|(.., site)| site).collect();
    // A child process puts stubs in and ends without removing them.
    // SAFETY: the child makes system calls and ends; no other thread of ours holds a lock that it needs.
    match unsafe { libc::fork() } {
        0 => {
            let mut injection = Injection::begin(program.pid(), memory().as_fd(), &[]).expect("it is taken");
            for answer in injection.redirect(&all).expect("there") {
                answer.expect("a call");
            }
            injection.measure_until(later()).expect("there");
            let _ = injection.begin_call(thread, slot);
            // SAFETY: ends this process, with its break points and descriptors, and runs nothing else.
            unsafe { libc::_exit(0) };
        }
        child => {
            let mut status = 1;
            // SAFETY: waits for the child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    assert_ne!(code_bytes(program.pid()), before, "stubs are left");
    let injection = Injection::begin(program.pid(), memory().as_fd(), &[]).expect("it is taken over");
    let after = code_bytes(program.pid());
    assert!(is_as_before(&before, &after), "the code is as it was");
    let second = Injection::begin(program.pid(), memory().as_fd(), &[]).map(drop);
    drop(second);
    drop(injection);
    program.say("g");
    assert_eq!(program.line(), ["done", "0"]);
}

#[test]
fn code_that_took_the_place_of_ours_is_left_alone() {
    if !is_root("that a library which came in the place of one with stubs is left alone") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "loads.c", &["-O1", "-rdynamic"]);
    let library = |name: &str, options: &[&str]| {
        let all = [&["-O1", "-shared", "-fPIC"], options].concat();
        let built = compiled(folder.path(), "loaded.c", &all);
        let to = folder.path().join(name);
        std::fs::rename(built, &to).expect("it was built");
        to.display().to_string()
    };
    let (first, other) = (library("first.so", &[]), library("other.so", &["-DOTHER"]));
    let mut program = Program::start(&path, &[]);
    program.say(&format!("l {first}\n"));
    let work = hex(&program.line()[1]);
    let mut code = ProcessCode::of(program.pid(), false).expect("code");
    let mut all: Vec<Site> = sites(&mut code, work).into_iter().map(|(.., site)| site).collect();
    assert_eq!(all.len(), 1, "work calls part");
    all[0].nodes.push(Node { parent: 0, node: 1 });
    let mut injection = Injection::begin(program.pid(), memory().as_fd(), &[]).expect("it is taken");
    injection.redirect(&all).expect("there").remove(0).expect("a call");
    program.say("c\n");
    assert_eq!(program.line(), ["gives", "42"]);
    program.say("u\n");
    assert_eq!(program.line(), ["closed", "0"]);
    program.say(&format!("l {other}\n"));
    assert_ne!(hex(&program.line()[1]), 0);
    let before = code_bytes(program.pid());
    let is_there = before.iter().any(|(at, bytes)| (*at..at + bytes.len() as u64).contains(&all[0].address));
    assert!(is_there, "the other library is in the first one's place");
    let left = injection.end().expect("there");
    assert_eq!((left.gone, left.open), (1, 0));
    assert_eq!(before, code_bytes(program.pid()));
    program.say("c\n");
    assert_eq!(program.line(), ["gives", "69"]);
}

#[test]
fn a_process_has_one_owner_at_a_time() {
    if !is_root("that two wakepaths do not put stubs into one process") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "waits.c", &["-O2"]);
    let program = Program::start(&path, &["read"]);
    let (mut ready, mut over) = ([0; 2], [0; 2]);
    // SAFETY: makes descriptors for the two arrays.
    assert_eq!(unsafe { libc::pipe(ready.as_mut_ptr()) | libc::pipe(over.as_mut_ptr()) }, 0);
    // SAFETY: the child makes system calls and ends; no other thread of ours holds a lock that it needs.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let injection = Injection::begin(program.pid(), memory().as_fd(), &[]);
        let byte = [u8::from(injection.is_ok())];
        // SAFETY: system calls on open descriptors; the last call ends this process, and runs nothing else.
        unsafe {
            libc::write(ready[1], byte.as_ptr().cast(), 1);
            libc::read(over[0], [0_u8; 1].as_mut_ptr().cast(), 1);
            libc::_exit(0);
        }
    }
    let mut byte = [0_u8; 1];
    // SAFETY: reads a byte into the array.
    assert_eq!(unsafe { libc::read(ready[0], byte.as_mut_ptr().cast(), 1) }, 1);
    assert_eq!(byte, [1], "the child owns the process");
    let refused = Injection::begin(program.pid(), memory().as_fd(), &[]).map(drop);
    // SAFETY: lets the child go on, and waits for it.
    unsafe {
        libc::write(over[1], byte.as_ptr().cast(), 1);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    let said = refused.expect_err("it has an owner").to_string();
    assert!(said.contains("measures process"), "{said}");
    Injection::begin(program.pid(), memory().as_fd(), &[]).expect("the owner is gone");
}

#[test]
fn a_stub_belongs_to_its_site_also_when_it_was_taken_out() {
    if !is_root("that a thread which lost its CPU amid a stub still calls what that site calls") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "called.c", &["-O2"]);
    let program = Program::start(&path, &["1"]);
    let mut code = ProcessCode::of(program.pid(), false).expect("code");
    let mut all: Vec<Site> =
        sites(&mut code, program.functions["once"]).into_iter().map(|(.., site)| site).take(2).collect();
    all.iter_mut().for_each(|site| site.nodes.push(Node { parent: 0, node: 1 }));
    let mut injection = Injection::begin(program.pid(), memory().as_fd(), &[]).expect("it is taken");
    let mut with = |sites: &[Site]| {
        injection.redirect(sites).expect("there").into_iter().for_each(|answer| answer.expect("a call"));
        let changed = code_bytes(program.pid());
        injection.restore().expect("there");
        changed
    };
    let (first, second) = (with(&all[..1]), with(&all[1..]));
    assert_ne!(first, second);
    assert_eq!(with(&all[..1]), first, "it has the same stub again");
    // In another order, too, each has its own stub.
    all.reverse();
    let both = with(&all);
    let at = |site: &Site, code: &std::collections::BTreeMap<u64, Vec<u8>>| {
        let (from, bytes) = code.range(..=site.address).next_back().expect("it is mapped");
        let at = (site.address - from) as usize;
        bytes[at..at + 5].to_vec()
    };
    assert_eq!((at(&all[1], &both), at(&all[0], &both)), (at(&all[1], &first), at(&all[0], &second)));
}

#[test]
fn a_thread_that_works_for_a_wakepath_that_is_killed_goes_on_as_if_nothing_had_been() {
    if !is_root("that a thread which stands still for us keeps its registers if we are killed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = compiled(folder.path(), "waits.c", &["-O2"]);
    for how in ["spin", "read"] {
        let mut program = Program::start(&path, &[how]);
        let pid = program.pid();
        for _ in 0..100 {
            // SAFETY: the child makes system calls until it is killed; no other thread of ours holds a lock that it needs.
            let child = match unsafe { libc::fork() } {
                0 => {
                    // SAFETY: a system call with numbers.
                    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                    loop {
                        let _ = Injection::begin(pid, memory().as_fd(), &[]).map(drop);
                    }
                }
                child => child,
            };
            let began = Instant::now();
            while tracer(pid) == 0 {
                assert!(began.elapsed() < MAX_TIME, "{how}: it stops no thread");
            }
            let mut status = 0;
            // SAFETY: a child of ours, which this process waits for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
            }
            while tracer(pid) != 0 {
                assert!(began.elapsed() < MAX_TIME, "{how}: it goes on");
            }
        }
        program.say("x");
        assert_eq!(program.line().join(" "), "got 1", "{how}");
        assert!(program.child.wait().expect("ends").success(), "{how}");
    }
}

/// The most time for an attempt.
const MAX_TIME: Duration = Duration::from_secs(10);

/// The tracer of a process's first thread; 0 without a tracer.
fn tracer(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).expect("a line");
    line.trim().parse().expect("a number")
}

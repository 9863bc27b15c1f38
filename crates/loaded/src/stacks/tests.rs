//! Waits' stacks, and the functions by which they are named.

use super::*;
use crate::testing::{event, mapping, trace};
use wakepath_critical_path::{Window, active};
use wakepath_event::{EventKind, Tid};
use wakepath_symbols::Function;

const LIBC: u64 = 0x1000;
const PROGRAM: u64 = 0x5000;
const OTHER: u64 = 0x7000;

fn file(name: &str) -> Found {
    Found::Unreadable(name.as_bytes().to_vec())
}

/// The site of a thread's wait with this stack; its record comes after the wait, as from other CPUs.
fn site(user: &[u64], scanned: u16, proved: u16) -> Option<(Site, Vec<Found>)> {
    let stack =
        RecordedStack { tgid: Tid(7), kernel: [0xffff_8000].into(), user: user.into(), scanned, proved };
    let text = "thread own tid=7
        0 c0 idle switch own
        10 c0 own switch idle blocked
        50 c0 idle switch own
        100 c0 own switch idle";
    let more = [
        event(10, 0, 7, EventKind::StackOf(stack.id())),
        event(40, 0, 0, EventKind::Stack(stack)),
        mapping(LIBC, "/nonexistent/libc.so.6"),
        mapping(PROGRAM, "/nonexistent/program"),
        mapping(OTHER, "/nonexistent/other"),
    ];
    let recorded = trace(text, &more);
    let window = Window { thread: ThreadIndex(0), from: Stamp::from_ns(0), to: Stamp::from_ns(100) };
    let path = active(&recorded.graph, window);
    let stacks = Stacks::of(&path, &mut CodeNames::new(&recorded, false));
    let waited = (0..path.segments.len()).filter_map(|segment| stacks.segment_stack(segment));
    let waited: Vec<_> = waited.collect();
    assert_eq!(waited.len(), 1, "one of three segments waits");
    let frames = waited[0].frames.iter().map(|frame| frame.found.clone()).collect();
    Some((stacks.site(waited[0].site.expect("it is known")).clone(), frames))
}

#[test]
fn the_function_that_waited_is_the_first_outside_of_the_c_library() {
    let (libc, program, other) = (file("libc.so.6"), file("program"), file("other"));
    let guess = |found: &Found| Caller::Guess(found.clone());
    let calls = |found: &Found| Caller::Function(found.clone());
    let away = [LIBC + 8, PROGRAM + 9, 0xdead_0000, OTHER + 1];
    for (user, scanned, proved, function, in_proof, caller, frames) in [
        // The chain skips the library's caller; the address found on the stack shows it.
        (&[LIBC + 8, PROGRAM + 9, PROGRAM + 99, OTHER + 1][..], 1, 1, &program, false, guess(&program), 4),
        // Among the found addresses, the first outside is used, and none behind it.
        (&[LIBC + 8, LIBC + 9, PROGRAM + 9, OTHER + 5, OTHER + 9], 3, 1, &program, false, guess(&other), 4),
        // A function with a frame: other words in the frame say nothing.
        (&[PROGRAM + 8, OTHER + 9, LIBC + 1], 1, 1, &program, true, Caller::Nobody, 2),
        // Neither frame pointers nor found addresses: the leaf, without a known caller.
        (&[LIBC + 8], 0, 1, &libc, true, Caller::Unknown, 1),
        (&[LIBC + 8, PROGRAM + 9], 1, 1, &program, false, Caller::Unknown, 2),
        // A false frame pointer ends the chain.
        (&away, 1, 1, &program, false, Caller::Unknown, 2),
        // The library's start code is no caller.
        (&[LIBC + 8, PROGRAM + 9, LIBC + 99], 1, 0, &program, false, Caller::Nobody, 3),
        // Frames found by tables are all kept.
        (&[LIBC + 8, LIBC + 9, PROGRAM + 9, OTHER + 5], 0, 4, &program, true, calls(&other), 4),
        // A proved frame in code without a known file is a gap; the frame behind it is not the caller.
        (&away, 0, 4, &program, true, calls(&Found::Unnamed(Vec::new())), 4),
        // Proved up to the waiting function, and up to the library.
        (&[LIBC + 8, PROGRAM + 9, OTHER + 5], 0, 2, &program, true, guess(&other), 3),
        (&[LIBC + 8, PROGRAM + 9, OTHER + 5], 0, 1, &program, false, guess(&other), 3),
        // Older recordings mark no frame as proved; the leaf is.
        (&[PROGRAM + 8, OTHER + 5], 0, 0, &program, true, guess(&other), 2),
    ] {
        let (site, found) = site(user, scanned, proved).expect("a stack");
        let function = Frame { found: function.clone(), in_kernel: false, proved: in_proof };
        assert_eq!(site, Site { function, caller }, "{user:x?}");
        assert_eq!(found.len(), frames + 1, "{user:x?} {found:?}");
    }
}

/// A thread whose first wait another thread ends, and whose second wait an interrupt ends.
fn waits(more: &[wakepath_event::Event]) -> crate::Recorded {
    let text = "thread own tid=7
        thread helper tid=7008 tgid=7
        0 c0 idle started
        0 c1 idle switch helper
        0 c0 idle switch own
        10 c0 own switch idle blocked
        60 c1 helper waking own
        61 c0 idle switch own
        70 c0 own switch idle blocked
        80 c1 helper/net_rx waking own
        81 c0 idle switch own
        99 c0 own switch idle
        100 c0 idle stopped";
    trace(text, more)
}

fn taken(user: &[u64]) -> RecordedStack {
    RecordedStack { tgid: Tid(7), kernel: [].into(), user: user.into(), scanned: 0, proved: 9 }
}

#[test]
fn a_wait_has_the_stack_of_its_beginning_and_that_of_the_thread_that_ended_it() {
    let (began, ended) = (taken(&[PROGRAM + 8]), taken(&[OTHER + 8]));
    let (second, interrupted) = (taken(&[PROGRAM + 80]), taken(&[LIBC + 8]));
    let recorded = waits(&[
        event(10, 0, 7, EventKind::StackOf(began.id())),
        event(60, 1, 7008, EventKind::StackOf(ended.id())),
        event(70, 0, 7, EventKind::StackOf(second.id())),
        event(80, 1, 7008, EventKind::StackOf(interrupted.id())),
        event(90, 0, 7, EventKind::Stack(began)),
        event(90, 0, 7, EventKind::Stack(ended)),
        event(90, 0, 7, EventKind::Stack(interrupted)),
        mapping(LIBC, "/nonexistent/libc.so.6"),
        mapping(PROGRAM, "/nonexistent/program"),
        mapping(OTHER, "/nonexistent/other"),
    ]);
    let thread = recorded.with_tid(Tid(7))[0];
    let window = Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(99) };
    let path = active(&recorded.graph, window);
    let mut names = CodeNames::new(&recorded, false);
    let stacks = Stacks::of(&path, &mut names);
    assert!(!stacks.is_empty());
    let found =
        |stack: Option<&Stack>| stack.map(|stack| stack.frames.iter().map(|f| f.found.clone()).collect());
    let frames = |name: &str| Some(vec![file(name)]);
    let by_wait: Vec<_> = (0..path.waits.len() as u32)
        .map(|wait| [stacks.wait_stack(WaitId(wait)), stacks.waker_stack(WaitId(wait))].map(found))
        .collect();
    assert_eq!(by_wait[0], [frames("program"), frames("other")]);
    let by_segment: Vec<Option<Vec<Found>>> =
        (0..path.segments.len()).map(|segment| found(stacks.segment_stack(segment))).collect();
    let in_interrupt =
        path.segments.iter().position(|segment| segment.from.ns() == 70).expect("the second wait");
    // The second wait's frames are lost.
    assert_eq!(by_segment[in_interrupt], Some(vec![]));
    assert_eq!(stacks.segment_stack(in_interrupt).expect("it was taken").site, None);
    // An interrupt woke: the interrupted thread's stack explains nothing.
    for (wait, [_, waker]) in path.waits.iter().zip(&by_wait).skip(1) {
        assert_eq!(*waker, None, "{wait:?}");
    }
    assert_eq!(found(stacks.wait_stack(WaitId(99))), None::<Vec<Found>>);
    assert_eq!(found(stacks.segment_stack(99)), None::<Vec<Found>>);
    // The frames with which a thread left its CPU, at exactly this time.
    let left = |names: &mut CodeNames<'_>, at| {
        let frames = names.stack_at(thread, Stamp::from_ns(at));
        frames.map(|frames| frames.into_iter().map(|frame| frame.found).collect::<Vec<_>>())
    };
    assert_eq!(left(&mut names, 10), frames("program"));
    assert_eq!([left(&mut names, 11), left(&mut names, 70)], [None, None]);
}

#[test]
fn a_path_whose_stacks_are_all_lost_has_none() {
    let lost = taken(&[PROGRAM + 8]);
    let recorded = waits(&[event(10, 0, 7, EventKind::StackOf(lost.id()))]);
    let thread = recorded.with_tid(Tid(7))[0];
    let window = Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(99) };
    let path = active(&recorded.graph, window);
    let stacks = Stacks::of(&path, &mut CodeNames::new(&recorded, false));
    assert!(stacks.is_empty() && stacks.wait_stack(WaitId(0)).is_some());
    let none = waits(&[]);
    assert!(Stacks::of(&path, &mut CodeNames::new(&none, false)).wait_stack(WaitId(0)).is_none());
}

/// A kernel function.
fn kernel(name: &str) -> Frame {
    let found = Found::Function(Function { name: name.into(), module: None, line: None });
    Frame { found, in_kernel: true, proved: true }
}

/// A program's function.
fn program(name: &str, module: &str) -> Frame {
    let module = Some(module.as_bytes().to_vec());
    let found = Found::Function(Function { name: name.into(), module, line: None });
    Frame { found, in_kernel: false, proved: true }
}

#[test]
fn a_kernel_thread_waits_in_the_first_function_that_does_more_than_hand_over_the_cpu() {
    for (frames, expected) in [
        (
            &["__schedule", "schedule", "io_schedule", "jbd2_log_wait_commit", "kthread"][..],
            "jbd2_log_wait_commit",
        ),
        (&["try_to_wake_up", "__wake_up_common", "blk_done"], "blk_done"),
        // Nothing else is known.
        (&["__schedule", "schedule"], "__schedule"),
        (&["kthread", "schedule"], "kthread"),
    ] {
        let frames: Vec<_> = frames.iter().map(|name| kernel(name)).collect();
        let site = site_of(&frames);
        assert_eq!(site, Site::new(kernel(expected).found, true, None), "{expected}");
    }
    assert_eq!(site_of(&[]), Site::new(Found::Kernel, true, None));
    // Addresses without names are no scheduling.
    let unnamed = Frame { found: Found::AnotherKernel, in_kernel: true, proved: true };
    assert_eq!(site_of(&[kernel("schedule"), unnamed.clone()]).function, unnamed);
}

#[test]
fn main_has_no_caller_and_the_librarys_start_code_is_none() {
    let start = program("__libc_start_call_main", "libc.so.6");
    let caller = |frames: &[Frame]| site_of(frames).caller;
    let (main, save) = (program("main", "checkout"), program("save_order", "checkout"));
    let wait = [kernel("schedule"), program("fdatasync", "libc.so.6")];
    let stack = |more: &[&Frame]| wait.iter().chain(more.iter().copied()).cloned().collect::<Vec<_>>();
    assert_eq!(caller(&stack(&[&save, &main])), Caller::Function(main.found.clone()));
    assert_eq!(caller(&stack(&[&main, &program("_start", "checkout")])), Caller::Nobody);
    assert_eq!(caller(&stack(&[&save, &start])), Caller::Nobody);
    assert_eq!(caller(&stack(&[&save])), Caller::Unknown);
    // The whole stack is in the library: its own caller counts.
    assert_eq!(site_of(&stack(&[&start])).function, wait[1]);
    assert_eq!(caller(&stack(&[&start])), Caller::Function(start.found.clone()));
}

#[test]
fn the_c_library_is_known_by_its_usual_file_names_and_tracing_by_its_functions() {
    for (name, is_library) in [
        ("libc.so.6", true),
        ("libc-2.31.so", true),
        ("libpthread-2.31.so", true),
        ("ld-linux-x86-64.so.2", true),
        ("ld-musl-x86_64.so.1", true),
        ("[vdso]", true),
        ("libcrypto.so.3", false),
        ("app", false),
    ] {
        assert_eq!(is_c_library(&file(name)), is_library, "{name}");
    }
    assert!(!is_c_library(&Found::Kernel));
    for (name, tracing) in [
        ("bpf_prog_1234_sched_switch", true),
        ("__bpf_prog_enter", true),
        ("__traceiter_sched_switch", true),
        ("schedule", false),
        ("ebpf_free", false),
    ] {
        assert_eq!(is_tracing(&kernel(name).found), tracing, "{name}");
    }
    assert!(!is_tracing(&Found::Kernel) && !is_scheduling(&Found::Kernel));
}

#[test]
fn equal_sites_of_several_stacks_are_one() {
    let mut stacks = Stacks::default();
    let (one, other) = (program("save", "checkout"), program("load", "checkout"));
    let ids: Vec<_> = [Some(one.clone()), Some(other.clone()), Some(one), None]
        .map(|frame| stacks.add(frame.map(|frame| vec![frame])))
        .into_iter()
        .collect();
    assert_eq!(ids, [0, 1, 2, 3]);
    let site = |stack| stacks.stack(Some(stack)).expect("a stack").site;
    assert_eq!(site(0), site(2));
    assert_ne!(site(0), site(1));
    assert_eq!(site(3), None);
    assert_eq!(stacks.site(site(1).expect("it is known")).function, other);
    assert_eq!(stacks.stack(None), None);
}

#[test]
fn the_waker_has_a_stack_only_where_it_ended_the_wait_itself() {
    let ended = taken(&[OTHER + 8]);
    let recorded = waits(&[
        event(60, 1, 7008, EventKind::StackOf(ended.id())),
        event(80, 1, 7008, EventKind::StackOf(ended.id())),
        event(90, 0, 7, EventKind::Stack(ended)),
    ]);
    let [own, helper] = [7, 7008].map(|tid| recorded.with_tid(Tid(tid))[0]);
    let mut names = CodeNames::new(&recorded, false);
    let mut reader = Reader { names: &mut names, known: HashMap::new(), stacks: Stacks::default() };
    let mut has_stack = |at, by| reader.ended(own, Stamp::from_ns(at), by).is_some();
    assert!(has_stack(10, Some(helper)));
    // By the path, another thread ended the wait, or none did.
    assert!(!has_stack(10, Some(own)) && !has_stack(10, None));
    // An interrupt woke while the helper had the CPU.
    assert!(!has_stack(70, Some(helper)) && !has_stack(70, None));
}

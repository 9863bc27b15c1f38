//! Functions at addresses, by the process, the time and the host.

use super::*;
use crate::testing::{mapping, trace};
use wakepath_event::{Event, EventKind};
use wakepath_symbols::Function;

#[test]
fn a_program_is_named_after_the_link_under_which_it_runs() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let folder = folder.path().canonicalize().expect("a path without links");
    std::fs::write(folder.join("redis-check-rdb"), "no program").expect("a file");
    std::fs::write(folder.join("other"), "another program").expect("a file");
    for (link, target) in [("redis-server", "redis-check-rdb"), ("another", "other")] {
        std::os::unix::fs::symlink(target, folder.join(link)).expect("a link");
    }
    std::fs::write(folder.join("app"), "a third program").expect("a file");
    let module = |file: &str, comm: &str, same_boot| {
        let more = [mapping(0x1000, folder.join(file).to_str().expect("UTF-8"))];
        let recorded = trace(&format!("thread {comm} tid=7\n0 c0 idle started\n99 c0 idle stopped"), &more);
        let mut names = CodeNames::new(&recorded, same_boot);
        let found = names.user(Tid(7), Stamp::from_ns(70), 0x1010).expect("it is mapped");
        module(&found).map(|name| String::from_utf8_lossy(name).into_owned())
    };
    let program = "redis-check-rdb";
    for (file, comm, same_boot, expected) in [
        (program, "redis-server", true, "redis-server"),
        (program, "redis-check-rdb", true, program),
        // A thread that named itself; a link to another file; a link that cannot be followed here.
        (program, "bio_close_file", true, program),
        (program, "another", true, program),
        (program, "redis-server", false, program),
        // A thread that named itself like a path to its file.
        ("app", "./app", true, "app"),
        ("app", "app", true, "app"),
    ] {
        assert_eq!(module(file, comm, same_boot).as_deref(), Some(expected), "{file} {comm} {same_boot}");
    }
}

#[test]
fn a_childs_code_is_in_its_parents_files_until_it_has_its_own() {
    let own = |at, from| {
        let EventKind::Mapping(own) = mapping(from, "/gone/own").kind else { panic!("a mapping") };
        crate::testing::event(at, 0, 8, EventKind::Mapping(Mapping { tgid: Tid(8), ..own }))
    };
    let child = crate::testing::event(50, 0, 7, crate::testing::thread(8, 8, 7, "child"));
    let more = [child, mapping(0x1000, "/gone/lib"), own(70, 0x8000), own(90, 0x9000)];
    for (tracer, at, expected) in [
        // Other tracers record the child's mappings once it makes them.
        (Some("perf 6.1"), 69, Some("lib")),
        (Some("perf 6.1"), 70, None),
        (Some("perf 6.1"), 80, None),
        // Our own recorder reads all mappings of a process, at any time.
        (None, 69, None),
        (None, 80, None),
    ] {
        let text = "thread app tid=7\n0 c0 idle started\n99 c0 idle stopped";
        let recorded = Recorded { tracer: tracer.map(crate::Name::from), ..trace(text, &more) };
        let mut names = CodeNames::new(&recorded, false);
        let found = names.user(Tid(8), Stamp::from_ns(at), 0x1010);
        assert_eq!(found, expected.map(gone), "{tracer:?} {at}");
    }
}

#[test]
fn the_kernel_and_the_files_of_this_machine_are_those_of_the_first_host_alone() {
    let program = std::env::current_exe().expect("this program");
    let recorded = trace("thread app tid=7\n0 c0 idle started\n99 c0 idle stopped", &[]);
    let mut names = CodeNames::new(&recorded, true);
    let other = HostIndex(1);
    assert_ne!(names.in_kernel(HostIndex::default(), 1), Found::AnotherKernel);
    assert_eq!(names.in_kernel(other, 1), Found::AnotherKernel);
    // Without a build id, a file is the recorded file only on the recorded machine.
    let mut found = |host| {
        let code = Code { path: program.as_os_str().as_bytes(), offset: 0x40, build_id: b"" };
        names.symbols(host).in_file(code)
    };
    let is_unproved = |found: &Found| matches!(found, Found::Unproved(_));
    assert!(is_unproved(&found(other)), "{:?}", found(other));
    assert_eq!(names.boot_of(other), Boot::Another);
}

#[test]
fn code_of_a_process_without_recorded_files_is_not_said_to_lie_outside_of_them() {
    let recorded = trace("thread app tid=7\n0 c0 idle started\n99 c0 idle stopped", &[mapping(0x1000, "/x")]);
    let names = CodeNames::new(&recorded, false);
    assert_eq!(names.outside_of_files(Tid(7)), Found::Unnamed(Vec::new()));
    assert_eq!(names.outside_of_files(Tid(8)), Found::Unmapped);
}

/// Process 7's recording, with files at these addresses, each from its time on.
fn mapped(files: &[(u64, u64, &str)]) -> Recorded {
    let mapped =
        files.iter().map(|&(at, from, path)| Event { at: Stamp::from_ns(at), ..mapping(from, path) });
    trace("thread app tid=7\n0 c0 idle started\n99 c0 idle stopped", &mapped.collect::<Vec<_>>())
}

fn gone(file: &str) -> Found {
    Found::Unreadable(file.as_bytes().to_vec())
}

#[test]
fn code_is_in_the_file_that_was_mapped_last_before_it_ran_or_in_the_first_that_was_seen_later() {
    let files = [(60, 0x1000, "/gone/old"), (80, 0x1000, "/gone/new"), (60, 0x4000, "/gone/lib")];
    let recorded = mapped(&files);
    let process = recorded.with_tid(Tid(7))[0];
    let mut names = CodeNames::new(&recorded, false);
    for (at, address, expected) in [
        (10, 0x1000, Some("old")),
        (60, 0x1fff, Some("old")),
        (79, 0x1000, Some("old")),
        (80, 0x1000, Some("new")),
        (95, 0x4010, Some("lib")),
        (95, 0xfff, None),
        (95, 0x2000, None),
    ] {
        let found = names.code_at(process, Stamp::from_ns(at), address);
        assert_eq!(found, expected.map(gone), "{at} {address:x}");
    }
}

#[test]
fn the_place_in_a_file_is_behind_the_offset_of_its_mapping() {
    let EventKind::Mapping(own) = mapping(0x1000, "/gone/lib").kind else { panic!("a mapping") };
    let recorded = trace(
        "thread app tid=7\n0 c0 idle started\n99 c0 idle stopped",
        &[crate::testing::event(60, 0, 7, EventKind::Mapping(Mapping { offset: 0x3000, ..own }))],
    );
    let mut names = CodeNames::new(&recorded, false);
    assert_eq!(names.user(Tid(7), Stamp::from_ns(70), 0x1010), Some(gone("lib")));
    let places: Vec<_> = names.user.keys().map(|(_, path, _, offset)| (*path, *offset)).collect();
    assert_eq!(places, [(b"/gone/lib".as_slice(), 0x3010)]);
}

#[test]
fn the_caller_in_a_sample_is_the_nearest_function_in_another_file_or_else_the_nearest() {
    const APP: u64 = 0x1000;
    const LIB: u64 = 0x4000;
    const TOP: u64 = 0x8000;
    let files = [(60, APP, "/gone/app"), (60, LIB, "/gone/lib"), (60, TOP, "/gone/top")];
    let recorded = mapped(&files);
    let mut names = CodeNames::new(&recorded, false);
    let (app, lib) = (gone("app"), gone("lib"));
    let nobodys = Found::Unnamed(Vec::new());
    for (user, proved, leaf, caller) in [
        (&[LIB + 1, LIB + 9, APP + 9, TOP + 9][..], 9, &lib, Caller::Function(app.clone())),
        (&[LIB + 1, LIB + 9, APP + 9, TOP + 9], 3, &lib, Caller::Function(app.clone())),
        (&[LIB + 1, LIB + 9, APP + 9, TOP + 9], 2, &lib, Caller::Guess(app.clone())),
        (&[LIB + 1, LIB + 9], 9, &lib, Caller::Function(lib.clone())),
        (&[LIB + 1, LIB + 9], 1, &lib, Caller::Guess(lib.clone())),
        (&[LIB + 1], 9, &lib, Caller::Nobody),
        // Code outside all files is passed over.
        (&[LIB + 1, 0xdead, APP + 9], 9, &lib, Caller::Function(app.clone())),
        (&[0xdead, LIB + 9], 9, &nobodys, Caller::Function(lib.clone())),
        // The call is before the address to which it returns, and the first address is the place itself.
        (&[LIB + 1, APP], 9, &lib, Caller::Nobody),
        (&[LIB + 1, APP + 0x1000], 9, &lib, Caller::Function(app.clone())),
        (&[APP, LIB + 1], 9, &app, Caller::Function(lib.clone())),
        (&[], 9, &nobodys, Caller::Nobody),
    ] {
        let sample = Sample { at: Stamp::from_ns(70), tgid: Tid(7), kernel: &[], user, proved };
        let site = names.site(sample);
        assert_eq!(site, Site { caller, ..Site::new(leaf.clone(), false, None) }, "{user:x?} {proved}");
    }
    let kernel = |user: &[u64], names: &mut CodeNames<'_>| {
        names.site(Sample { at: Stamp::from_ns(70), tgid: Tid(7), kernel: &[1, 2], user, proved: 9 })
    };
    let in_kernel = |caller| Site::new(Found::AnotherKernel, true, caller);
    assert_eq!(kernel(&[APP, LIB + 9], &mut names), in_kernel(Some(app)));
    assert_eq!(kernel(&[], &mut names), in_kernel(None));
    assert_eq!(kernel(&[0xdead], &mut names), in_kernel(None));
}

#[test]
fn frames_of_the_tracing_itself_are_left_out_of_a_stack() {
    let stack = wakepath_event::Stack {
        tgid: Tid(7),
        kernel: [1, 2, 3, 1].into(),
        user: [].into(),
        scanned: 0,
        proved: 0,
    };
    let recorded = trace(
        "thread app tid=7
         0 c0 idle switch app
         10 c0 app switch idle blocked
         99 c0 idle stopped",
        &[
            crate::testing::event(10, 0, 7, EventKind::StackOf(stack.id())),
            crate::testing::event(20, 0, 7, EventKind::Stack(stack)),
        ],
    );
    let thread = recorded.with_tid(Tid(7))[0];
    let mut names = CodeNames::new(&recorded, false);
    let function = |name: &str| Found::Function(Function { name: name.into(), module: None, line: None });
    for (address, name) in [(1, "bpf_trace_run4"), (2, "__traceiter_sched_switch"), (3, "schedule")] {
        names.kernel.insert((HostIndex::default(), address), function(name));
    }
    let frames = names.stack_at(thread, Stamp::from_ns(10)).expect("a stack");
    let found: Vec<_> = frames.into_iter().map(|frame| frame.found).collect();
    // Only the innermost are left out: further out, another tracer's program may wait itself.
    assert_eq!(found, [function("schedule"), function("bpf_trace_run4")]);
}

#[test]
fn only_the_files_of_this_boot_can_be_those_that_ran() {
    let began = |text: &str, more: &[Event]| CodeNames::new(&trace(text, more), true).boot;
    let none = began("1 c0 idle started\n9 c0 idle stopped", &[]);
    assert_eq!(none, Boot::This { began_ns: None }, "no clock was read");
    let read = began("1 c0 idle started\n2 c0 idle clocks 5001\n9 c0 idle stopped", &[]);
    assert_eq!(read, Boot::This { began_ns: Some(5000) });
}

#[test]
fn code_has_the_name_of_its_file_where_this_is_known() {
    for found in [Found::Unnamed, Found::Replaced, Found::Another, Found::Unproved, Found::Unreadable] {
        assert_eq!(module(&found(b"lib".to_vec())), Some(&b"lib"[..]));
    }
    let function = Function { name: "f".into(), module: Some(b"lib".to_vec()), line: None };
    assert_eq!(module(&Found::Function(function)), Some(&b"lib"[..]));
    for found in [Found::Unmapped, Found::Kernel, Found::AnotherKernel] {
        assert_eq!(module(&found), None);
    }
}

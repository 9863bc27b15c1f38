//! Directories without a kernel trace.

use wakepath_ctf::stream::FaultKind;
use wakepath_event::{Call, Context, EventKind, EventSource, RecordingFormat, Softirq};
use wakepath_event::{Damage, DamageKind};
use wakepath_import::{Fault, Lttng};

/// A trace with this metadata and these stream files, with its folder. Adds a switch to the metadata: without, no trace is read.
fn trace(metadata: &str, streams: &[(&str, &[u8])]) -> (tempfile::TempDir, Lttng) {
    let folder = tempfile::tempdir().expect("a directory");
    let switch =
        "event { name = sched_switch; id = 200; fields := struct { integer { size = 8; } _prev_tid; }; };";
    let metadata = [metadata, if metadata.contains("sched_switch") { "" } else { switch }].concat();
    for &(name, bytes) in [("metadata", metadata.as_bytes())].iter().chain(streams) {
        std::fs::write(folder.path().join(name), bytes).expect("a file");
    }
    let trace = Lttng::open(folder.path()).expect("a trace");
    (folder, trace)
}

#[test]
fn other_directories_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a directory");
    let says = || Lttng::open(folder.path()).expect_err("no trace").to_string();
    assert!(
        says().ends_with("holds no trace: neither it nor any folder up to 6 below has a file `metadata`")
    );
    let kernel = folder.path().join("session/kernel");
    std::fs::create_dir_all(&kernel).expect("a directory");
    for (text, why) in [
        (&b"\x1e[]"[..], "fragment 1: it is not an object"),
        (
            b"\x1e{\"type\": \"preamble\", \"version\": 2}\n\x1e{\"type\": \"trace-class\", \"extensions\": {\"x\": 1}}",
            "fragment 2: it needs the extension `x`, which is not read",
        ),
        (b"trace { major = 1;\n  nonsense", "line 2, column 11: expected `=`, found the end of the text"),
        (
            b"stream { }; event { name = e; fields := struct { string s[n]; }; };",
            "event `e`: field `s` refers to `n`, which is no number in front of it",
        ),
        (b"\x7fELF\0\0", "metadata is neither TSDL text nor packets of it"),
    ] {
        std::fs::write(kernel.join("metadata"), text).expect("a file");
        assert!(says().contains("session/kernel/metadata: ") && says().ends_with(why), "{}", says());
    }
    assert!(
        Lttng::open(&folder.path().join("nowhere"))
            .expect_err("nothing")
            .to_string()
            .starts_with("cannot read")
    );
}

#[test]
fn a_session_without_the_kernel_or_without_switches_is_refused_with_what_to_record() {
    let folder = tempfile::tempdir().expect("a directory");
    let add = |name: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join(name)).expect("a directory");
        std::fs::write(folder.path().join(name).join("metadata"), text).expect("a file");
    };
    let opened = || Lttng::open(folder.path());
    let says = || opened().expect_err("no switches").to_string();
    add("ust", "env { domain = \"ust\"; hostname = \"h\"; };");
    assert!(says().contains("holds traces of programs only") && says().contains("--kernel sched_switch"));
    let kernel = "env { domain = \"kernel\"; hostname = \"k\"; }; stream { };
        event { name = sched_waking; id = 1; };";
    add("kernel", kernel);
    assert!(says().contains("holds no switches of threads (it holds sched_waking)"), "{}", says());
    add("kernel", &format!("{kernel} event {{ name = sched_switch; id = 2; }};"));
    let files_missing = "holds a trace's metadata without any stream: the files with its events are missing";
    assert!(says().contains(files_missing), "{}", says());
    std::fs::write(folder.path().join("kernel/channel0_0"), b"").expect("a file");
    let trace = opened().expect("a session");
    assert_eq!(
        (trace.description().host.name.as_str(), trace.programs()),
        ("k", &[folder.path().join("ust")][..])
    );
}

#[test]
fn a_clock_names_a_date_only_by_an_offset_or_by_a_word() {
    for (clock, date) in [
        ("", None),
        ("absolute = FALSE; offset_s = 0; offset = 0;", None),
        ("absolute = FALSE; offset_s = 7;", None),
        ("absolute = TRUE;", Some(0)),
        ("offset = 7;", Some(7)),
        ("offset_s = 7;", Some(7_000_000_000)),
    ] {
        let text = format!("env {{ domain = kernel; }}; stream {{ }}; clock {{ name = c; {clock} }};");
        assert_eq!(trace(&text, &[("stream", b"")]).1.description().realtime_offset_ns, date, "{clock}");
    }
}

/// A stream of perf's has the events of all CPUs, in a clock without a date.
#[test]
fn a_trace_that_perf_converted_is_read_by_the_cpu_in_each_event() {
    let text = "typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32;
        env { domain = \"kernel\"; tracer_name = \"perf\"; host = \"arm\"; release = \"3.10.92\"; version = \"4.1.1\"; };
        trace { major = 1; packet.header := struct { u32 magic; }; };
        stream { event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } t; }; };
        clock { name = c; absolute = FALSE; };
        event { name = \"sched:sched_switch\"; id = 1; fields := struct { u32 perf_cpu; u8 common_pid; u8 prev_pid;
            u8 prev_state; string next_comm; u8 next_pid; }; };
        event { name = \"sched:sched_wakeup\"; id = 2; fields := struct { u32 perf_cpu; u8 common_flags; u8 common_pid;
            u8 pid; }; };";
    let events: [&[u8]; 4] = [
        b"\x01\x0a\x03\0\0\0\x05\x05\x01idle\0\0",
        b"\x01\x14\x01\0\0\0\0\0\0one\0\x07",
        b"\x02\x1e\x01\0\0\0\x11\x07\x05",
        b"\x01\x28\x03\0\0\0\0\0\0five\0\x05",
    ];
    let stream = [b"\xc1\x1f\xfc\xc1", events.concat().as_slice()].concat();
    let (_folder, trace) = trace(text, &[("perf_stream_0", &stream)]);
    let description = trace.description();
    assert_eq!(
        (description.host.name.as_str(), description.host.kernel_release.as_str()),
        ("arm", "3.10.92")
    );
    assert_eq!((description.tracer.as_deref(), description.realtime_offset_ns), (Some("perf 4.1.1"), None));
    let mut seen = Vec::new();
    trace.for_each(|event| match event.kind {
        EventKind::Switch { next, .. } => seen.push((event.at.ns(), event.cpu.0, event.current.0, next.0)),
        EventKind::Waking { target, .. } => {
            assert_eq!(event.context, Context::Unrecorded);
            seen.push((event.at.ns(), event.cpu.0, event.current.0, target.0));
        }
        _ => {}
    });
    assert_eq!(seen, [(10, 3, 5, 0), (20, 1, 0, 7), (30, 1, 7, 5), (40, 3, 0, 5)]);
}

#[test]
fn unreadable_bytes_are_a_loss_up_to_the_next_event() {
    let text = "env { domain = kernel; };
        trace { major = 1; packet.header := struct { integer { size = 32; } magic; }; };
        stream { packet.context := struct { integer { size = 8; } packet_size; };
            event.header := struct { integer { size = 8; } id; integer { size = 8; map = clock.c.value; } t; }; };
        clock { name = c; };
        event { name = sched_waking; id = 1; fields := struct { integer { size = 8; } n;
            enum : integer { size = 8; } { A = 0 } t; variant <t> { integer { size = 8; } A; } v; }; };";
    let packet = |events: &[u8]| [&[0xc1, 0x1f, 0xfc, 0xc1, (5 + events.len() as u8) * 8], events].concat();
    // The first packet's second event has a meaningless tag.
    let bytes = [packet(&[1, 10, 0, 0, 0, 1, 20, 0, 9, 0]), packet(&[1, 40, 0, 0, 0])].concat();
    let (_folder, trace) = trace(text, &[("k_0", &bytes)]);
    let mut losses = Vec::new();
    let damages = trace.for_each(|event| {
        if let EventKind::Loss { from, count, .. } = event.kind {
            losses.push((from.ns(), event.at.ns(), count));
        }
    });
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(losses, [(20, 40, 0)], "{damages:?}");
}

#[test]
fn a_broken_stream_is_damage_and_a_loss_and_no_more() {
    let text = "env { domain = kernel; hostname = h; kernel_release = \"6.1.0\"; };
        trace { major = 1; packet.header := struct { integer { size = 32; } magic; }; };
        stream { packet.context := struct { integer { size = 32; } cpu_id; };
            event.header := struct { integer { size = 8; } id; integer { size = 8; map = clock.c.value; } t; }; };
        clock { name = c; freq = 100; offset_s = 3; };
        event { name = sched_waking; id = 1; fields := struct { integer { size = 8; } _tid; }; };";
    let good = b"\xc1\x1f\xfc\xc1\x02\0\0\0\x01\x05\x09\x01\x07\x08\x77\x07";
    let (_folder, trace) = trace(text, &[("k_0", good), ("k_1", b"no packet at all")]);
    assert_eq!(trace.description().realtime_offset_ns, Some(3_000_000_000));
    let mut events = Vec::new();
    let damages = trace.for_each(|event| events.push(event.clone()));
    let damage = |file: &str, offset, fault| Damage {
        file: file.to_owned(),
        packet: Some(0),
        offset: Some(offset),
        kind: DamageKind::Fault(Fault::Stream(fault).to_string()),
    };
    let unknown = damage("k_0", 14, FaultKind::UnknownEvent(119));
    assert_eq!(damages, [unknown, damage("k_1", 0, FaultKind::NoPacket(16))]);
    let stamps: Vec<_> = events.iter().map(|event| event.at.ns()).collect();
    // In clock ticks of 10 ms: the starting mark and the second stream's loss, two wake-ups, a loss.
    assert_eq!(stamps, [0, 0, 50_000_000, 70_000_000, 70_000_000], "{events:?}");
}

#[test]
fn the_call_that_a_thread_waits_in_is_known_with_its_first_argument() {
    // LTTng writes each field with an underscore in front.
    let text = "typealias integer { size = 8; } := u8; typealias integer { size = 16; } := u16;
        env { domain = kernel; };
        trace { major = 1; packet.header := struct { integer { size = 32; } magic; }; };
        stream { packet.context := struct { u8 cpu_id; };
            event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } t; }; };
        clock { name = c; };
        event { name = sched_switch; id = 1; fields := struct { u8 _prev_tid; u8 _prev_state; u8 _next_tid; }; };
        event { name = syscall_entry_read; id = 2; fields := struct { u16 _fd; u8 _count; }; };
        event { name = syscall_entry_nanosleep; id = 3; fields := struct { u8 _rqtp; }; };";
    let events: [&[u8]; 6] = [
        &[1, 10, 0, 0, 7],
        &[2, 20, 5, 1, 99],
        &[1, 30, 7, 1, 8],
        // Its argument is the address of a time, not an object of its wait.
        &[3, 40, 6],
        &[1, 50, 8, 1, 0],
        &[1, 60, 0, 0, 7],
    ];
    let stream = [b"\xc1\x1f\xfc\xc1\x00", events.concat().as_slice()].concat();
    let (_folder, trace) = trace(text, &[("k_0", &stream)]);
    let mut waits = Vec::new();
    trace.for_each(|event| {
        if let EventKind::Switch { call: Some(call), .. } = event.kind {
            waits.push((event.current.0, call.number, call.arg0));
        }
    });
    assert_eq!(waits, [(7, 0, 0x105), (8, 35, Call::NO_ARGUMENT)]);
}

/// With LTTng's own headers, only the last of several calls in a row is read.
#[test]
fn a_thread_waits_in_the_last_of_its_calls_in_a_row() {
    let text = "typealias integer { size = 8; } := u8; typealias integer { size = 32; } := u32;
        typealias integer { size = 27; align = 1; map = clock.c.value; } := stamp27;
        typealias integer { size = 64; map = clock.c.value; } := stamp64;
        env { domain = kernel; };
        trace { major = 1; packet.header := struct { u32 magic; }; };
        stream { packet.context := struct { u8 cpu_id; };
            event.header := struct { enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
                variant <id> { struct { stamp27 timestamp; } compact; struct { u32 id; stamp64 timestamp; } extended; } v;
            } align(8); };
        clock { name = c; };
        event { name = sched_switch; id = 1; fields := struct { u8 _prev_tid; u8 _prev_state; u8 _next_tid; }; };
        event { name = syscall_entry_read; id = 2; fields := struct { u8 _fd; }; };
        event { name = syscall_exit_read; id = 3; fields := struct { u8 _ret; }; };
        event { name = irq_softirq_entry; id = 4; fields := struct { u8 _vec; }; };
        event { name = irq_softirq_exit; id = 6; fields := struct { u8 _vec; }; };
        event { name = sched_waking; id = 5; fields := struct { u8 _tid; }; };";
    let events: [(u32, u32, &[u8]); 15] = [
        (2, 10, &[5]),
        (3, 20, &[0]),
        (2, 30, &[6]),
        (1, 40, &[7, 1, 8]),
        (2, 50, &[9]),
        (3, 60, &[0]),
        (1, 70, &[8, 1, 9]),
        (2, 80, &[3]),
        (3, 90, &[0]),
        // Interrupt entries replace nothing, neither calls nor each other.
        (4, 100, &[3]),
        (4, 102, &[1]),
        (6, 104, &[1]),
        (5, 110, &[7]),
        (2, 120, &[4]),
        (1, 130, &[9, 1, 7]),
    ];
    let mut stream = b"\xc1\x1f\xfc\xc1\x00".to_vec();
    for (id, stamp, fields) in events {
        stream.extend((id | stamp << 5).to_le_bytes());
        stream.extend(fields);
    }
    let (_folder, trace) = trace(text, &[("k_0", &stream)]);
    let (mut waits, mut begun, mut wakings) = (Vec::new(), None, Vec::new());
    let damages = trace.for_each(|event| match &event.kind {
        EventKind::Switch { call, .. } => {
            waits.push((event.current.0, call.map(|call| (call.number, call.arg0))))
        }
        EventKind::Mark(_) => begun = Some(event.at.ns()),
        EventKind::Waking { target, .. } => wakings.push((target.0, event.context)),
        _ => {}
    });
    assert_eq!(damages, []);
    assert_eq!(waits, [(7, Some((0, 6))), (8, None), (9, Some((0, 4)))]);
    assert_eq!(begun, Some(10), "the first call of a trace is when it begins");
    assert_eq!(wakings, [(7, Context::Softirq(Softirq::NetRx))]);
}

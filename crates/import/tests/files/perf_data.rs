//! `perf record` files, as events.

use std::path::Path;

use wakepath_event::{
    BlockedState, ClockId, Context, Event, EventKind, EventSource, Mapping, RecordingFormat, SwitchOut, Tid,
};
use wakepath_event::{Damage, DamageKind};
use wakepath_import::perf::synthetic::{EventType, File};
use wakepath_import::{Fault, OpenError, PerfData};

use crate::lines::{self, changed, events, lines, lines_with};

const ANY: i64 = 1;

fn opened(bytes: &[u8]) -> Result<PerfData<&[u8]>, OpenError> {
    PerfData::from_source(bytes, Path::new("a.data"))
}

/// A file's events, and its damages.
fn read(file: &File) -> (Vec<Event>, Vec<Damage>) {
    events(&opened(&file.bytes()).expect("a file"))
}

/// Thread 7 wakes 8 on the other CPU, whose buffer perf emptied first.
fn two_cpus(round: impl Fn(File) -> File) -> File {
    let file = File::default()
        .switch((110, 1, 0, 0), 0, 8, "there")
        .switch((150, 1, 8, 8), ANY, 0, "swapper/1")
        .switch((100, 0, 0, 0), 0, 7, "here")
        .waking((105, 0, 7, 7), 8);
    round(round(file).switch((200, 0, 7, 7), 2, 0, "swapper/0"))
}

#[test]
fn a_thread_waits_in_the_call_that_it_entered() {
    let enter = |file: File, number: u64| {
        let arguments = [64_u64, 128, 0, 0, 0, 0].map(u64::to_le_bytes).concat();
        let fields: [(usize, &[u8]); 2] = [(8, &number.to_le_bytes()), (16, &arguments)];
        file.tracepoint(EventType::CallEntry, (140, 0, 7, 7), &fields)
    };
    for (number, futex) in [(202, Some(128)), (0, None)] {
        let file = File::default().switch((100, 0, 0, 0), 0, 7, "here");
        let (events, _) = read(&enter(file, number).switch((150, 0, 7, 7), ANY, 0, "swapper/0"));
        let call = events.iter().find_map(|event| match &event.kind {
            EventKind::Switch { call, .. } if event.at.ns() == 150 => *call,
            _ => None,
        });
        let call = call.expect("a call");
        assert_eq!((call.number.into(), call.arg0), (number, 64));
        assert_eq!(call.lock.map(|lock| lock.operation), futex, "of a futex, what it does there");
    }
}

#[test]
fn events_are_by_time_with_marks_of_rounds_and_without() {
    let expected = [
        "100 cpu0 0 to 7 Runnable",
        "100 cpu0 7 names 7 \"here\"",
        "105 cpu0 7 wakes 8",
        "110 cpu1 0 to 8 Runnable",
        "110 cpu1 8 names 8 \"there\"",
        "150 cpu1 8 to 0 Blocked(Interruptible)",
        "200 cpu0 7 to 0 Blocked(Uninterruptible)",
    ];
    for file in [two_cpus(File::round), two_cpus(|file| file)] {
        let (events, damages) = read(&file);
        assert_eq!(lines(&events), expected);
        assert_eq!(damages, []);
    }
}

#[test]
fn a_cpu_without_samples_is_unknown_once_a_thread_is_woken_to_it() {
    let record =
        |file: File| file.plain(3, 0, &[&[5, 0, 0, 0, 5, 0, 0, 0][..], b"five\0"].concat(), (108, 1, 5, 5));
    let sample = |file: File| file.waking_to((107, 1, 5, 5), 7, 0);
    let none = |file: File| file;
    let list = |cpus: &[u32]| File::default().cpus(cpus);
    for (file, on_cpu_1, missing) in [
        (list(&[0, 1]), sample as fn(File) -> File, &[][..]),
        // Its samples are missing, or perf did not record it; perf's own records come from another event.
        (list(&[0, 1]), none, &[1]),
        (list(&[0, 1]), record, &[1]),
        (list(&[0]), none, &[1]),
        // Nothing says that all CPUs were recorded.
        (File::default(), none, &[]),
    ] {
        let file = file.switch((100, 0, 0, 0), 0, 7, "here");
        let file = on_cpu_1(file.waking_to((105, 0, 7, 7), 8, 1)).waking_to((110, 0, 7, 7), 9, 0);
        let file = file.waking_to((120, 0, 7, 7), 6, 1);
        let (events, damages) = read(&file.switch((200, 0, 7, 7), 2, 0, "swapper/0"));
        let unrecorded = events.iter().filter(|event| event.kind == EventKind::Unrecorded);
        assert_eq!(
            unrecorded.map(|event| (event.cpu.0, event.at.ns())).collect::<Vec<_>>(),
            missing.iter().map(|&cpu| (cpu, 105)).collect::<Vec<_>>()
        );
        let losses: Vec<_> = events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Loss { from, .. } => Some((event.cpu.0, from.ns(), event.at.ns())),
                _ => None,
            })
            .collect();
        assert_eq!(losses, missing.iter().map(|&cpu| (cpu, 100, 200)).collect::<Vec<_>>());
        let kinds: Vec<_> = damages.into_iter().map(|damage| damage.kind).collect();
        let cpus = || missing.iter().map(|&cpu| cpu.into()).collect();
        let expected = missing.first().map(|_| DamageKind::CpusUnrecorded { cpus: cpus(), wakings: 2 });
        assert_eq!(kinds, expected.into_iter().collect::<Vec<_>>());
    }
    // A single thread's events are recorded on each CPU on which it runs.
    let threads = list(&[0]).record(69, 0, &[1_u64, 1, 0, 0, 7].map(u64::to_le_bytes).concat());
    let file = threads.switch((100, 0, 0, 0), 0, 7, "here").waking_to((105, 0, 7, 7), 8, 1);
    let kinds: Vec<_> = read(&file).1.into_iter().map(|damage| damage.kind).collect();
    assert_eq!(kinds, [DamageKind::SomeThreads]);
}

#[test]
fn the_recording_begins_with_its_first_event_and_not_with_perfs_earlier_facts() {
    let named =
        |file: File| file.plain(3, 0, &[&[7, 0, 0, 0, 7, 0, 0, 0][..], b"early\0"].concat(), (20, 0, 7, 7));
    let file =
        named(File::default()).switch((100, 0, 0, 0), 0, 7, "here").switch((200, 0, 7, 7), 2, 0, "swapper/0");
    let (events, _) = read(&file);
    assert_eq!(events.iter().map(|event| event.at.ns()).min(), Some(100), "{events:?}");
    let extent = opened(&file.bytes()).expect("a file").description().extent.expect("known");
    assert_eq!((extent.0.ns(), extent.1.ns()), (100, 200));
    let names = events.iter().any(|event| matches!(event.kind, EventKind::Rename { tid: Tid(7), .. }));
    assert!(names, "the earlier fact is kept: {events:?}");
}

#[test]
fn a_state_means_what_the_file_says() {
    let out = |state| {
        let (events, _) = read(&File::default().switch((100, 0, 7, 7), state, 0, "x"));
        events.iter().find_map(|event| match event.kind {
            EventKind::Switch { out, .. } => Some(out),
            _ => None,
        })
    };
    // Its kernel calls 512 parked and 2048 preempted; others do not.
    for (state, meaning) in [
        (0, SwitchOut::Runnable),
        (2048, SwitchOut::Runnable),
        (512, SwitchOut::Blocked(BlockedState::Parked)),
        (1024 | 2, SwitchOut::Blocked(BlockedState::Idle)),
        (16, SwitchOut::Dead),
        (64, SwitchOut::Dead),
    ] {
        assert_eq!(out(state), Some(meaning), "{state}");
    }
}

/// A process with its parent, in the form that perf makes up for earlier processes.
fn was_there(file: File, pid: u32, tid: u32, parent: u32, comm: &[u8]) -> File {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let fork = [words(&[pid, parent, tid, parent]), vec![0; 8]].concat();
    file.plain(3, 0, &[&words(&[pid, tid])[..], comm, &[0]].concat(), (0, 0, 0, 0)).plain(
        7,
        0,
        &fork,
        (0, 0, 0, 0),
    )
}

#[test]
fn an_earlier_thread_is_introduced_when_it_does_something() {
    let file = was_there(File::default(), 7, 8, 1, b"worker");
    let file = was_there(was_there(file, 9, 9, 2, b"kworker"), 10, 10, 1, b"sleeps on");
    let (events, _) = read(&file.waking((100, 0, 8, 8), 9).switch((110, 0, 8, 8), ANY, 9, "kworker"));
    assert_eq!(
        lines(&events),
        [
            "100 cpu0 8 wakes 9",
            "100 cpu0 8 is \"worker\" 8 of 7, child of 1",
            "100 cpu0 8 is \"kworker\" 9 of 9, child of 2",
            "110 cpu0 8 to 9 Blocked(Interruptible)",
        ]
    );
    let kernel = events.iter().filter_map(|event| match &event.kind {
        EventKind::Thread { identity, blocked, .. } => Some((identity.kernel, *blocked)),
        _ => None,
    });
    // The kind of their waits is not recorded.
    assert_eq!(kernel.collect::<Vec<_>>(), [(false, None), (true, None)]);
}

#[test]
fn births_programs_names_and_deaths_are_perfs_own_records() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let process = |pid, ppid, tid, ptid| [words(&[pid, ppid, tid, ptid]), vec![0; 8]].concat();
    const EXEC: u16 = 1 << 13;
    let file = was_there(File::default(), 7, 7, 1, b"shell")
        .plain(7, 0, &process(20, 7, 20, 7), (100, 0, 7, 7))
        .tracepoint(EventType::WakeupNew, (101, 0, 7, 7), &[(20, &20_u32.to_le_bytes())])
        .plain(3, EXEC, &[&words(&[20, 20])[..], b"date\0"].concat(), (110, 1, 20, 20))
        .plain(3, 0, &[&words(&[20, 20])[..], b"clock\0"].concat(), (120, 1, 20, 20))
        .plain(4, 0, &process(20, 20, 20, 20), (130, 1, 20, 20))
        .switch((140, 1, 20, 20), 16, 0, "swapper/1");
    let expected = |exec: &'static str| {
        [
            // The record is from 100, before the first event, with which the recording begins.
            "101 cpu0 7 is \"shell\" 7 of 7, child of 1",
            "101 cpu0 7 bears \"shell\" 20 of 20",
            "101 cpu0 7 wakes 20, born",
            exec,
            "120 cpu1 20 names 20 \"clock\"",
            "130 cpu1 20 exits",
            "140 cpu1 20 to 0 Dead",
        ]
    };
    assert_eq!(lines(&read(&file).0), expected("110 cpu1 20 executes \"date\" date"));
    // With the tracepoint, which knows more, the record only names.
    let tracepoint =
        [(8, &(16_u32 | 9 << 16).to_le_bytes()[..]), (12, &20_u32.to_le_bytes()), (16, b"/bin/date")];
    let with = file.tracepoint(EventType::Exec, (111, 1, 20, 20), &tracepoint);
    let lines = lines(&read(&with).0);
    assert!(lines.contains(&"110 cpu1 20 names 20 \"date\"".to_owned()), "{lines:?}");
    assert!(lines.contains(&"111 cpu1 20 executes \"date\" /bin/date".to_owned()), "{lines:?}");
}

#[test]
fn a_waking_in_an_interrupt_is_the_interrupts() {
    let irq = 11_u32.to_le_bytes();
    let name = (16_u32 | 4 << 16).to_le_bytes();
    let file = two_cpus(|file| file)
        .tracepoint(EventType::IrqEntry, (210, 0, 0, 0), &[(8, &name), (12, &irq), (16, b"disk")])
        .waking((211, 0, 0, 0), 7)
        .tracepoint(EventType::IrqExit, (212, 0, 0, 0), &[(12, &irq)])
        .waking((213, 0, 0, 0), 8);
    let (events, _) = read(&file);
    let wakings: Vec<_> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Waking { target, irq, .. } => Some((target.0, event.context, irq)),
            _ => None,
        })
        .collect();
    assert_eq!(wakings[1..], [(7, Context::Device, 11), (8, Context::Task, 0)]);
    assert!(
        events.iter().any(|event| matches!(&event.kind, EventKind::Name(_, 11, name) if **name == *b"disk"))
    );
}

#[test]
fn packets_of_the_loopback_are_known_by_their_buffers_and_others_peers_by_the_socket() {
    let packet = |file: File, of, at, interface: &[u8], buffer: u64| {
        let name = (24 | (interface.len() as u32 + 1) << 16).to_le_bytes();
        file.tracepoint(of, (at, 0, 7, 7), &[(8, &name), (16, &buffer.to_le_bytes()), (24, interface)])
    };
    let received = |file: File, at, buffer: u64, [own, peer]: [[u8; 8]; 2]| {
        let fields = [(8, &buffer.to_le_bytes()[..]), (16, &own), (44, &peer), (71, &[0])];
        file.tracepoint(EventType::Received, (at, 0, 7, 7), &fields)
    };
    let [lo, other] =
        [[[2, 0, 0, 80, 127, 0, 0, 1]; 2], [[2, 0, 0, 80, 10, 0, 0, 1], [2, 0, 1, 1, 10, 0, 0, 2]]];
    const BUFFER: u64 = 0xffff_8880_0000_1000;
    let mut file = packet(two_cpus(|file| file), EventType::PacketOut, 201, b"lo\0", BUFFER);
    file = received(packet(file, EventType::PacketIn, 202, b"lo\0", BUFFER), 203, BUFFER, lo);
    // Later uses of this buffer are unknown.
    file = packet(
        packet(file, EventType::PacketOut, 204, b"eth0\0", BUFFER),
        EventType::PacketIn,
        205,
        b"eth0\0",
        BUFFER,
    );
    file = received(received(file, 206, BUFFER, other), 207, BUFFER, lo);
    let (events, damages) = read(&file);
    let told = events.iter().filter_map(|event| match &event.kind {
        EventKind::Packet(packet) => {
            Some(format!("{} {:?} {:x}", event.at.ns(), packet.direction, packet.flow.0))
        }
        EventKind::SocketReady(flow) => Some(format!("{} ready {:x}", event.at.ns(), flow.0)),
        EventKind::Flow(id, flow) => Some(format!("{} is {} to {}", id.0, flow.source, flow.target)),
        _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "201 Out ffff888000001000",
            "202 In ffff888000001000",
            "203 ready ffff888000001000",
            "1 is 10.0.0.2:257 to 10.0.0.1:80",
            "206 ready 1",
            "2 is 127.0.0.1:80 to 127.0.0.1:80",
            "207 ready 2",
        ]
    );
    assert_eq!(damages, []);
}

#[test]
fn samples_and_call_chains_are_stacks_and_mapped_files_mappings() {
    let chain = |words: &[i64]| {
        let chain: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        [&(words.len() as u64).to_le_bytes()[..], &chain].concat()
    };
    let chain = chain(&[-128, 0x9000, -512, 0x4010, 0x4020]);
    // pid, tid, addr, len, pgoff, a build id of 4 bytes, PROT_EXEC, flags, path; and a mapping without code.
    let map = |protection: u32| {
        let mut map = [7_u32, 7].map(u32::to_le_bytes).concat();
        map.extend([0x4000_u64, 0x1000, 0x2000].map(u64::to_le_bytes).concat());
        map.extend(b"\x04\0\0\0abcd");
        map.resize(56, 0);
        map.extend([protection, 2].map(u32::to_le_bytes).concat());
        map.extend(b"/bin/here\0");
        map
    };
    const BUILD_ID: u16 = 1 << 14;
    let file = two_cpus(|file| file)
        .build_ids()
        .plain(10, BUILD_ID, &map(5), (102, 0, 7, 7))
        .plain(10, BUILD_ID, &map(1), (102, 0, 7, 7))
        .sample(EventType::CpuClock, 1, (103, 0, 7, 7), 0x9000, &chain)
        .sample(EventType::CpuClock, 2, (104, 0, 7, 7), 0x4010, &0_u64.to_le_bytes())
        .sample(EventType::CpuClock, 1, (104, 1, 0, 0), 0x9000, &chain);
    let (events, _) = read(&file);
    let samples = lines_with(&events, " at ");
    assert_eq!(samples, ["103 cpu0 7 at [9000] from [4010, 4020] of 7", "104 cpu0 7 at [] from [4010] of 7"]);
    let mappings: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Mapping(mapping) => Some(mapping.clone()),
            _ => None,
        })
        .collect();
    let Mapping { tgid, from, to, offset, build_id, path } = &mappings[0];
    assert_eq!((mappings.len(), tgid.0, *from, *to, *offset), (1, 7, 0x4000, 0x5000, 0x2000));
    assert_eq!((&**build_id, &**path), (&b"abcd"[..], &b"/bin/here"[..]));
}

#[test]
fn a_mapping_marked_by_the_kernel_for_another_perf_has_no_build_id() {
    const BUILD_ID: u16 = 1 << 14;
    // A device's numbers, an inode and its generation; or an id's length, and the id.
    let map = |word: u32, rest: [u64; 2]| {
        let mut map = [7_u32, 7].map(u32::to_le_bytes).concat();
        map.extend([0x4000_u64, 0x1000, 0].map(u64::to_le_bytes).concat());
        map.extend([word, 1].map(u32::to_le_bytes).concat());
        map.extend(rest.map(u64::to_le_bytes).concat());
        map.extend([5_u32, 2].map(u32::to_le_bytes).concat());
        map.extend(b"/bin/here\0");
        map
    };
    let ids = |file: File, word: u32| -> (Vec<Vec<u8>>, usize) {
        let file = file.plain(10, BUILD_ID, &map(word, [77, 9]), (102, 0, 7, 7));
        // A task's switch by perf has the same bit for another fact.
        let (events, damages) = read(&file.plain(14, BUILD_ID, &[], (103, 0, 7, 7)));
        let ids = events.iter().filter_map(|event| match &event.kind {
            EventKind::Mapping(mapping) => Some(mapping.build_id.to_vec()),
            _ => None,
        });
        (ids.collect(), damages.len())
    };
    let id = [&1_u32.to_le_bytes()[..], &77_u64.to_le_bytes(), &9_u64.to_le_bytes()].concat();
    for (word, plain, asking) in [
        (254, (vec![vec![]], 0), (vec![], 1)),
        (8, (vec![vec![]], 0), (vec![id[..8].to_vec()], 0)),
        (20, (vec![id.clone()], 0), (vec![id.clone()], 0)),
        (16, (vec![id[..16].to_vec()], 0), (vec![id[..16].to_vec()], 0)),
    ] {
        assert_eq!(ids(two_cpus(|file| file), word), plain, "{word}: no event asks for build ids");
        assert_eq!(ids(two_cpus(|file| file).build_ids(), word), asking, "{word}: an event asks for them");
    }
}

#[test]
fn a_loss_has_its_cpu_and_its_time() {
    let lost = |count: u64| [7_u64, count].map(u64::to_le_bytes).concat();
    let file = two_cpus(|file| file)
        .plain(2, 0, &lost(5), (180, 1, 0, 0))
        .plain(2, 0, &lost(2), (190, 1, 0, 0))
        .switch((195, 1, 0, 0), 0, 8, "there");
    let losses = |file: &File| lines_with(&read(file).0, "lost");
    // Behind the first loss, the CPU's thread is unknown.
    let unknown = Tid(u32::MAX);
    let second = format!("190 cpu1 {unknown} lost 2 since 180");
    assert_eq!(losses(&file), ["180 cpu1 0 lost 5 since 150", second.as_str()]);
    // perf's final total is no other loss, except for its unnoted part: this lies behind the CPU's last record.
    let index = |file: File| {
        let numbers =
            [1_u64, EventType::Switch as u64 * 16 + 2, 0, 1, u64::MAX].map(u64::to_le_bytes).concat();
        file.record(69, 0, &numbers)
    };
    // The id of the switches on CPU 1.
    let in_all = |file: File, count: u64| {
        let mut body = count.to_le_bytes().to_vec();
        body.extend([0_u32, 0].map(u32::to_le_bytes).concat());
        body.extend(0_u64.to_le_bytes());
        body.extend([0_u32, 0].map(u32::to_le_bytes).concat());
        body.extend((EventType::Switch as u64 * 16 + 2).to_le_bytes());
        file.record(13, 0, &body)
    };
    assert_eq!(losses(&in_all(index(file.clone()), 7)).len(), 2);
    let more = losses(&in_all(index(file.clone()), 10));
    assert!(more.len() == 3 && more[2].ends_with("lost 3 since 195"), "{more:?}");
}

#[test]
fn the_clock_is_the_files() {
    for (asked, clock, offset) in [
        (Some(1), ClockId::Monotonic, Some(4_999_999_000)),
        (Some(4), ClockId::Numbered(4), Some(4_999_999_000)),
        (None, ClockId::Perf, None),
    ] {
        let bytes = two_cpus(|file| file).clock(asked).bytes();
        let file = opened(&bytes).expect("a file");
        let source = file.description();
        assert_eq!((source.clock, source.realtime_offset_ns), (clock, offset));
        assert_eq!((source.host.name.as_str(), source.host.kernel_release.as_str()), ("web3", "6.1.0"));
        assert_eq!(source.extent.map(|(from, to)| (from.ns(), to.ns())), Some((100, 200)));
    }
}

#[test]
fn older_recordings_wake_by_sched_wakeup() {
    let wakeup =
        |file: File| file.tracepoint(EventType::Wakeup, (106, 0, 7, 7), &[(12, &8_u32.to_le_bytes())]);
    let count = |file: &File| lines_with(&read(file).0, "wakes 8").len();
    assert_eq!(count(&wakeup(two_cpus(|file| file))), 1, "both tell the same");
    let alone = wakeup(File::default().switch((100, 0, 0, 0), 0, 7, "here"));
    assert_eq!(count(&alone), 1);
    let none = File::default().switch((100, 0, 0, 0), 0, 7, "here");
    let has = |file: &File, kind| read(file).1.iter().any(|damage| damage.kind == kind);
    for (file, old, none) in
        [(&two_cpus(|file| file), false, false), (&alone, true, false), (&none, false, true)]
    {
        assert_eq!(has(file, DamageKind::LateWakings), old);
        assert_eq!(has(file, DamageKind::NoWakings), none);
    }
}

#[test]
fn an_error_names_the_reason_and_the_way_out() {
    let good = two_cpus(|file| file);
    let bytes = good.bytes();
    let changed = |at, with: &[u8]| changed(&bytes, at, with);
    let words = [7_u32, 7].map(u32::to_le_bytes).concat();
    let records = File::default().plain(14, 0, &[], (100, 0, 7, 7)).plain(15, 0, &words, (110, 0, 7, 7));
    let (records, idle) = (records.only(&[EventType::CpuClock]), File::default().waking((5, 0, 7, 7), 8));
    let single = idle.clone().record(69, 0, &[1_u64, 1, 0, 0, 7].map(u64::to_le_bytes).concat());
    let clock = File::default().sample(EventType::CpuClock, 2, (104, 0, 7, 7), 0x4010, &0_u64.to_le_bytes());
    for (bytes, says) in [
        (b"PERFILE2\x10\0\0\0\0\0\0\0P\0\0\0".to_vec(), "a.data at byte 16: no attributes of events follow"),
        (changed(0, b"2ELIFREP"), "big-endian"),
        (changed(0, b"PERFFILE"), "a.data is a perf.data of perf's first format (PERFFILE)"),
        (b"PERF".to_vec(), "a.data is no perf.data"),
        (changed(48, &[0; 8]), "because perf did not finish it"),
        (changed(16, &[0; 8]), "a.data at byte 16: attributes cannot be of 0 bytes each"),
        (changed(40, &[0xff; 8]), "a.data at byte 40: the records should take"),
        (bytes[..60].to_vec(), "a.data at byte 60: the file ends within its header"),
        (
            clock.clone().only(&[EventType::CpuClock]).bytes(),
            "holds no switches of threads (it holds cpu-clock)",
        ),
        (clock.only(&[EventType::CpuClock]).bytes(), "switches with perf record -a -k CLOCK_MONOTONIC"),
        (records.bytes(), "holds switch records (perf record --switch-events), which are not read"),
        (idle.bytes(), "and did not occur, so that no run and no wait of any thread is visible"),
        (single.bytes(), "and did not occur, so that no run and no wait of the recorded threads is visible"),
    ] {
        let error = opened(&bytes).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// A file with all kinds of records.
pub fn file_with_all_kinds() -> File {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let chain = [3_u64, (-128_i64) as u64, 0x9000, 0x9001].map(u64::to_le_bytes).concat();
    let map = [&[7_u8; 8][..], &[0; 32], &[20, 0, 0, 0], &[1; 20], &[5, 0, 0, 0, 2, 0, 0, 0], b"/bin/here\0"]
        .concat();
    was_there(two_cpus(File::round), 7, 7, 1, b"here")
        .plain(10, 1 << 14, &map, (210, 0, 7, 7))
        .sample(EventType::CpuClock, 1, (211, 0, 7, 7), 0x9000, &chain)
        .plain(7, 0, &[words(&[20, 7, 20, 7]), vec![0; 8]].concat(), (220, 0, 7, 7))
        .plain(2, 0, &[1_u64, 5].map(u64::to_le_bytes).concat(), (230, 1, 0, 0))
        .record(69, 0, &[1_u64, 1, 0, 0, u64::MAX].map(u64::to_le_bytes).concat())
        .record(13, 0, &[9_u64, 0, 0, 0, 1].map(u64::to_le_bytes).concat())
        .tracepoint(EventType::CallEntry, (240, 0, 7, 7), &[(8, &[0]), (16, &[0; 48])])
        .switch((250, 0, 7, 7), ANY, 0, "swapper/0")
        .round()
}

fn survives(bytes: &[u8]) -> Result<(usize, Vec<Damage>), String> {
    lines::survives(opened(bytes))
}

#[test]
fn a_file_cut_short_anywhere_is_said_to_be() {
    let bytes = file_with_all_kinds().bytes();
    let (whole, damages) = survives(&bytes).expect("whole");
    assert!(whole > 12 && damages.is_empty(), "{whole} {damages:?}");
    let mut read = 0;
    for len in 0..bytes.len() {
        match survives(&bytes[..len]) {
            // The descriptions of the tracepoints lie behind the records, in front of other sections.
            Ok((events, damages)) => {
                assert!(events <= whole + 2, "{len}: {events}");
                assert!(damages.iter().any(|one| one.offset == Some(len as u64)), "{len}: {damages:?}");
                read += 1;
            }
            Err(error) => {
                assert!(error.contains("a.data"), "{len}: {error}");
                assert!(
                    len < 16 || error.contains(" at byte ") || error.contains("cut short"),
                    "{len}: {error}"
                );
            }
        }
    }
    assert!(read > 100, "{read}");
}

#[test]
fn a_flipped_bit_anywhere_is_a_local_matter_or_an_error() {
    let bytes = file_with_all_kinds().bytes();
    // A few bits in each byte; some bytes in the long text behind the records.
    let end = records(&bytes) + 1200;
    for bit in (0..end * 8).step_by(3).chain((end * 8..bytes.len() * 8).step_by(31)) {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Err(error) = survives(&bytes) {
            assert!(error.contains("a.data"), "bit {bit}: {error}");
        }
    }
}

/// The start of a file's records.
pub fn records(bytes: &[u8]) -> usize {
    u64::from_le_bytes(*bytes[40..].first_chunk().expect("a header")) as usize
}

#[test]
fn records_behind_a_damaged_one_are_read_and_the_missing_ones_are_a_loss() {
    let mut file = File::default().switch((90, 1, 0, 0), 0, 6, "x").switch((100, 0, 0, 0), 0, 7, "y");
    for n in 0..20 {
        file = file.waking((110 + n, 0, 7, 7), 8);
    }
    file = file.waking((112, 1, 6, 6), 8);
    let good = file.bytes();
    // Behind the two switches.
    let fourth = (0..5)
        .fold(records(&good), |at, _| at + usize::from(u16::from_le_bytes([good[at + 6], good[at + 7]])));
    for with in [[0_u8, 0], [3, 0], [0xff, 0xff]] {
        let bytes = changed(&good, fourth + 6, &with);
        let (events, damages) = events(&opened(&bytes).expect("a file"));
        let lines = lines(&events);
        assert_eq!(lines_with(&events, "wakes 8").len(), 20, "{with:?}: {lines:#?}");
        let lost: Vec<_> = lines.iter().filter_map(|line| line.split_once("lost ")).collect();
        assert_eq!(
            lost.iter().map(|(head, tail)| (head.split(' ').next().unwrap_or(""), *tail)).collect::<Vec<_>>(),
            [("112", "0 since 90"), ("114", "0 since 112")],
            "{with:?}"
        );
        let [Damage { file, offset, kind: DamageKind::Fault(fault), .. }] = &*damages else {
            panic!("{damages:?}")
        };
        assert!(fault.starts_with("no record: "), "{fault}");
        assert_eq!((&**file, *offset), ("a.data", Some(fourth as u64)));
    }
}

#[test]
fn no_size_is_believed() {
    let good = file_with_all_kinds().bytes();
    // A word with all bits set, and a word that leads just past the file, everywhere.
    for value in [u64::MAX, good.len() as u64, 1 << 62, 1 << 32] {
        for at in (0..records(&good) + 1200).step_by(4) {
            if let Err(error) = survives(&changed(&good, at, &value.to_le_bytes())) {
                assert!(error.contains("a.data"), "{value:#x} at {at}: {error}");
            }
        }
    }
    // A hardware trace record claims the number of bytes behind it.
    let with = |size: u64| two_cpus(|file| file).record(71, 0, &size.to_le_bytes()).round();
    for size in [u64::MAX, 1 << 40] {
        let (_, damages) = survives(&with(size).bytes()).expect("the rest is read");
        assert_eq!(damages[0].kind, DamageKind::Fault(Fault::RecordsEnd(size).to_string()));
    }
    assert_eq!(survives(&with(8).bytes()).expect("8 bytes that are no record").1, []);
}

#[test]
fn a_folder_by_several_threads_of_perf_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().expect("room");
    std::fs::write(folder.path().join("data"), two_cpus(|file| file).bytes()).expect("room");
    std::fs::write(folder.path().join("data.0"), b"records").expect("room");
    assert!(PerfData::recognises(folder.path()));
    let error = PerfData::open(folder.path()).expect_err("a folder").to_string();
    assert!(error.ends_with("which is not read: record without --threads"), "{error}");
}

//! The memory itself: its counts, its drops and their times, and the losses in a kept recording.

use wakepath_ctf::packet::{HEADER_BYTES, PacketHeader};
use wakepath_event::{
    CallEnd, CostKind, Direction, Flow, FlowId, FunctionCall, GoStep, KernelCost, Packet, SetMember, StackId,
};
use wakepath_recording::Writer;

use super::ends::thread;
use super::restated::{
    FROM, TO, WORKER, context, file, goroutine, kept, lock, machine, mapping, name, request, stack,
};
use super::*;

/// A packet of the thread's records, with sequence numbers from `seq` on.
fn packet(kind: &EventKind, at: &[u64], seq: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, seq) in at.iter().zip(seq..) {
        let event = Machine::event(*at, WORKER, kind.clone());
        Encoder::for_release(RELEASE).encode(&event, seq, &mut bytes).expect("a record");
    }
    bytes
}

/// The events in a recording with the whole memory.
fn read(flight: &Flight) -> Vec<Event> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("kept");
    let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
    flight.write(&mut writer, BEGIN + 1_000_000 * SECOND).expect("room");
    drop(writer);
    let mut events = Vec::new();
    Recording::open(&path).expect("a recording").read(|event| events.push(event.clone()), |_| {});
    events
}

/// The lost records in a recording of the window up to `TO`, and in its last packet's counter, for other readers.
fn losses(flight: &Flight) -> (u64, u64) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("kept");
    let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
    flight.write(&mut writer, TO).expect("room");
    drop(writer);
    let mut lost = 0;
    Recording::open(&path).expect("a recording").read(
        |event| {
            if let EventKind::Loss { count, .. } = event.kind {
                lost += count;
            }
        },
        |_| {},
    );
    let stream = std::fs::read(path.join("kernel/sched_0")).expect("a stream");
    let (mut at, mut discarded) = (0, 0);
    while let Some(header) = stream[at..].first_chunk() {
        let (header, _) = PacketHeader::from_bytes(header);
        discarded = header.discarded;
        at += HEADER_BYTES + header.content as usize;
    }
    (lost, discarded)
}

#[test]
fn a_recording_says_the_losses_of_its_window_and_not_those_before() {
    let limits = FlightLimits { window_ns: u64::MAX, bytes: usize::MAX };
    // The window's beginning, and its losses, by three and then two records. Four were lost before the first record.
    for (begin, lost) in
        [(None, (9, 9)), (Some(BEGIN + 15), (5, 5)), (Some(BEGIN + 30), (2, 2)), (Some(BEGIN + 50), (0, 0))]
    {
        let mut flight = Flight::new(limits, RELEASE);
        for (at, seq, lost) in [(10, 0, 4), (20, 5, 7), (30, 7, 7), (40, 11, 9), (50, 13, 9)] {
            let at = BEGIN + at;
            flight.packet(Buffer::Sched, Cpu(0), &packet(&EventKind::Current, &[at, at + 1], seq), lost);
        }
        if let Some(begin) = begin {
            flight.cut(begin);
        }
        assert_eq!(losses(&flight), lost, "from {begin:?}");
    }
}

#[test]
fn a_gap_right_before_the_window_is_a_loss_of_it() {
    for (begin, lost) in [(BEGIN + 15, 3), (BEGIN + 30, 0)] {
        let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
        // No counter has these records: they were malformed.
        for (at, seq) in [(10, 0), (20, 5), (40, 7)] {
            let at = BEGIN + at;
            flight.packet(Buffer::Sched, Cpu(0), &packet(&EventKind::Current, &[at, at + 1], seq), 0);
        }
        flight.cut(begin);
        assert_eq!(losses(&flight).0, lost, "from {begin}");
    }
}

#[test]
fn a_loss_among_switches_takes_what_was_known_of_the_cpus_thread_and_a_loss_among_packets_does_not() {
    for (buffer, kind, seq, keeps_lock) in [
        (Buffer::Sched, EventKind::Current, 9, false),
        (Buffer::Sched, EventKind::Current, 2, true),
        (Buffer::Net, EventKind::SocketReady(FlowId(9)), 9, true),
    ] {
        let mut machine = machine();
        machine.rare(BEGIN + 100, WORKER, EventKind::LockBegin(lock(0x100)));
        machine.flight.packet(Buffer::Sched, Cpu(0), &std::mem::take(&mut machine.ring), 0);
        // This buffer's first record here, and a later record.
        machine.flight.packet(buffer, Cpu(1), &packet(&kind, &[BEGIN + 150, BEGIN + 160], 0), 0);
        machine.flight.packet(buffer, Cpu(1), &packet(&kind, &[BEGIN + 200], seq), 0);
        let keeps = kept(machine)
            .iter()
            .any(|event| event.at.ns() < FROM && matches!(event.kind, EventKind::LockBegin(_)));
        assert_eq!(keeps, keeps_lock, "{buffer:?}, number {seq}");
    }
}

#[test]
fn a_record_that_comes_too_late_still_states_its_fact_at_the_beginning() {
    let mut machine = machine();
    machine.flight.packet(Buffer::Sched, Cpu(0), &std::mem::take(&mut machine.ring), 0);
    machine.flight.cut(FROM);
    for at in [BEGIN + 500, FROM - 1, FROM] {
        let late = file(WORKER, (at - BEGIN) as u32, "data.db");
        machine.flight.event(&Machine::event(at, WORKER, late)).expect("an event");
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("kept");
    let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
    machine.flight.write(&mut writer, TO).expect("room");
    drop(writer);
    let mut files = Vec::new();
    Recording::open(&path).expect("a recording").read(
        |event| {
            if let EventKind::File(file) = &event.kind {
                files.push((event.at.ns(), file.fd));
            }
        },
        |_| {},
    );
    assert_eq!(files, [(FROM - 1, 500), (FROM - 1, 999), (FROM, 1000)]);
}

#[test]
fn the_beginning_of_the_window_never_goes_back() {
    let mut machine = machine();
    machine.flight.cut(FROM);
    machine.flight.cut(FROM - 100);
    assert_eq!(machine.flight.begin(), Some(FROM));
}

#[test]
fn the_memory_of_records_is_free_when_they_are_gone() {
    let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
    let empty = flight.bytes();
    // Records that leave no last state.
    let call =
        FunctionCall { target: 1, thread: WORKER, from: Stamp::from_ns(BEGIN), end: CallEnd::Returned };
    for step in 0..100 {
        let at = BEGIN + step;
        flight.event(&Machine::event(at, WORKER, EventKind::Function(call))).expect("an event");
        let bytes = packet(&EventKind::Stolen(5), &[at, at], 2 * step as u16);
        flight.packet(Buffer::Sched, Cpu(0), &bytes, 0);
    }
    let full = flight.bytes();
    assert!(full > empty + 300 * 16, "{full}");
    flight.cut(BEGIN + 50);
    assert_eq!(flight.bytes() - empty, (full - empty) / 2);
    flight.cut(BEGIN + 1000);
    assert_eq!(flight.bytes(), empty);
}

#[test]
fn records_before_a_malformed_one_are_kept() {
    let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
    let mut bytes = packet(&EventKind::Current, &[BEGIN + 10], 0);
    bytes.extend([0xff; 16]);
    flight.packet(Buffer::Sched, Cpu(0), &bytes, 0);
    assert_eq!(flight.begin(), Some(BEGIN + 10));
    let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
    flight.packet(Buffer::Sched, Cpu(0), &[0xff; 16], 0);
    assert_eq!(
        (flight.begin(), flight.bytes()),
        (None, Flight::new(FlightLimits { window_ns: 1, bytes: 1 }, RELEASE).bytes())
    );
}

#[test]
fn what_may_still_have_an_earlier_record_stays_however_little_memory_there_is() {
    let limits = FlightLimits { window_ns: 10 * SECOND, bytes: 1 };
    for (settled, begin) in [(BEGIN + 5, BEGIN + 10), (BEGIN + 11, BEGIN + 10), (BEGIN + 12, BEGIN + 12)] {
        let mut flight = Flight::new(limits, RELEASE);
        let bytes = packet(&EventKind::Current, &[BEGIN + 10, BEGIN + 11], 0);
        flight.packet(Buffer::Sched, Cpu(0), &bytes, 0);
        flight.settle(settled);
        assert_eq!(flight.begin(), Some(begin), "of a CPU, up to {settled}");
        let mut flight = Flight::new(limits, RELEASE);
        let context = EventKind::Rename { tid: WORKER, comm: Comm::new(b"next") };
        flight.event(&Machine::event(BEGIN + 11, WORKER, context)).expect("an event");
        flight.settle(settled);
        let begin = if settled > BEGIN + 11 { settled } else { BEGIN + 11 };
        assert_eq!(flight.begin(), Some(begin), "of all CPUs, up to {settled}");
    }
}

#[test]
fn the_window_moves_in_steps_and_not_past_the_time_that_is_remembered() {
    const STEP: u64 = SECOND / 10;
    for (now, begin) in [
        (10 * SECOND, BEGIN),
        (10 * SECOND + STEP - 1, BEGIN),
        (10 * SECOND + STEP, BEGIN + STEP),
        (25 * SECOND, BEGIN + 15 * SECOND),
    ] {
        let limits = FlightLimits { window_ns: 10 * SECOND, bytes: usize::MAX };
        let mut flight = Flight::new(limits, RELEASE);
        let bytes = packet(&EventKind::ThreadContext(context(3)), &[BEGIN, BEGIN + 5 * SECOND], 0);
        flight.packet(Buffer::Sched, Cpu(0), &bytes, 0);
        flight.settle(BEGIN + now);
        assert_eq!(flight.begin(), Some(begin), "{now} ns behind the first record");
    }
}

#[test]
fn a_window_that_ends_before_its_memory_begins_is_empty() {
    for to in [FROM - 100, FROM - 1, FROM, TO] {
        let mut machine = machine();
        machine.flight.cut(FROM);
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("kept");
        let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
        let window = machine.flight.write(&mut writer, to).expect("room");
        assert_eq!((window.from, window.to), (to.min(FROM - 1), to));
    }
}

/// Makes a numbered fact.
type MakeFact<'a> = &'a dyn Fn(u64) -> EventKind;

#[test]
fn a_flow_and_a_stack_that_are_used_stay_where_others_go() {
    let flow = |id: u64| {
        let address = |port| wakepath_event::Address::from(([10, 0, 0, 1], port));
        let (source, target) = (address(80), address(4000));
        EventKind::Flow(FlowId(id), Flow { source, target, protocol: 6 })
    };
    let packet_of = |id| {
        EventKind::Packet(Packet {
            flow: FlowId(id),
            direction: Direction::In,
            seq: 1,
            ack: 2,
            len: 3,
            tcp_flags: 4,
            netns: 5,
            interface: 6,
        })
    };
    let stack = |id| EventKind::StackLater(StackId(id), stack());
    let of_file = |id| {
        let name = b"socket".as_slice().into();
        let (mode, inode, flow) = (0o140_000, 5, Some(FlowId(id)));
        EventKind::File(FileName { tgid: WORKER, fd: 3, mode, inode, flow, name })
    };
    // The facts, more than are kept; the record that uses a fact, and its buffer.
    let tried: [(u64, MakeFact<'_>, EventKind, Buffer); 4] = [
        (1 << 15, &flow, packet_of(7), Buffer::Net),
        (1 << 15, &flow, EventKind::SocketReady(FlowId(7)), Buffer::Net),
        (1 << 15, &flow, of_file(7), Buffer::Life),
        (1 << 13, &stack, EventKind::StackOf(StackId(7)), Buffer::Sched),
    ];
    for (most, fact, uses, buffer) in tried {
        let mut machine = machine();
        machine.flight.packet(Buffer::Sched, Cpu(0), &std::mem::take(&mut machine.ring), 0);
        for id in 0..=most {
            if id == most {
                let at = BEGIN + 100 + most;
                match buffer {
                    Buffer::Life => machine.rare(at, WORKER, uses.clone()),
                    _ => machine.flight.packet(buffer, Cpu(0), &packet(&uses, &[at], 2), 0),
                }
            }
            machine.rare(BEGIN + 101 + id, WORKER, fact(id));
        }
        machine.flight.cut(BEGIN + SECOND);
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("kept");
        let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
        machine.flight.write(&mut writer, BEGIN + SECOND).expect("room");
        drop(writer);
        let [mut used, mut before, mut behind] = [false; 3];
        Recording::open(&path).expect("a recording").read(
            |event| {
                used |= event.kind == fact(7);
                before |= event.kind == fact(6) || event.kind == fact(8);
                behind |= event.kind == fact(most);
            },
            |_| {},
        );
        assert_eq!((used, before, behind), (true, false, true), "{uses:?}");
    }
}

#[test]
fn each_kind_of_state_counts_in_the_memory() {
    const MANY: u64 = 1000;
    let flow = |id| {
        let address = |port| wakepath_event::Address::from(([10, 0, 0, 1], port));
        let (source, target) = (address(80), address(4000));
        EventKind::Flow(FlowId(id), Flow { source, target, protocol: 6 })
    };
    let birth = |id: u32| EventKind::Fork { child: thread(Tid(id), WORKER, BEGIN) };
    let text = "x".repeat(100);
    let leaves = EventKind::Switch { next: Tid::IDLE, out: SwitchOut::Dead, interrupts_ns: 0, call: None };
    let event = size_of::<Event>();
    // A kind's states, and the fewest bytes for each.
    let kinds: [(&str, MakeFact<'_>, usize); 14] = [
        ("flows", &|id| flow(id), event),
        ("files", &|id| file(WORKER, id as u32, &text), event + 100),
        (
            "members of sets",
            &|id| EventKind::SetMember(SetMember { set: 5, tgid: WORKER, fd: id as u32, total: 2 }),
            event,
        ),
        ("names", &|id| name(NameSpace::Cgroup, id, &text), event + 100),
        ("mappings", &|id| EventKind::Mapping(mapping(WORKER, id << 12, &text)), event + 100),
        ("stacks", &|id| EventKind::StackLater(StackId(id), stack()), event + 24),
        ("requests", &|id| EventKind::BlockIssue(request(id)), event),
        ("goroutines", &|id| goroutine(id, GoStep::Parks(2)), event),
        ("spans", &|id| goroutine(id, GoStep::BeginsSpan([4; 16], [5; 8])), event),
        ("marks", &|id| EventKind::Mark(Mark::Observer(Tid(id as u32))), event),
        ("threads", &|id| birth(100 + id as u32), 2 * size_of::<ThreadIdentity>()),
        ("limits", &|id| EventKind::Refill(CgroupId(id)), 16),
        ("CPUs", &|_| EventKind::Current, 8),
        ("ended processes", &|_| leaves.clone(), 4),
    ];
    for (what, state, least) in kinds {
        let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
        // The memory grows with the states, and a table has less than twice the places it needs.
        for (from, to) in [(0, MANY), (MANY, 3 * MANY)] {
            for id in from..to {
                let current = if what == "ended processes" { Tid(100 + id as u32) } else { WORKER };
                let event = Machine::event(BEGIN + id, current, state(id));
                match what {
                    "CPUs" | "ended processes" => {
                        let mut bytes = Vec::new();
                        Encoder::for_release(RELEASE)
                            .encode(&event, id as u16, &mut bytes)
                            .expect("a record");
                        let cpu = if what == "CPUs" { id as u16 } else { 0 };
                        flight.packet(Buffer::Sched, Cpu(cpu), &bytes, 0);
                    }
                    _ => flight.event(&event).expect("an event"),
                }
            }
            flight.cut(BEGIN + SECOND);
            let each = flight.bytes() / to as usize;
            assert!((least..4 * least + 200).contains(&each), "{what}: {each} bytes each, of {to}");
        }
    }
}

#[test]
fn memory_that_is_just_enough_keeps_all_and_a_byte_less_does_not() {
    for is_rare in [false, true] {
        let filled = |bytes| {
            let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes }, RELEASE);
            for at in [BEGIN + 10, BEGIN + 20] {
                let kind = EventKind::Rename { tid: WORKER, comm: Comm::new(b"next") };
                match is_rare {
                    true => flight.event(&Machine::event(at, WORKER, kind)).expect("an event"),
                    false => flight.packet(Buffer::Sched, Cpu(0), &packet(&EventKind::Current, &[at], 0), 0),
                }
            }
            flight.settle(BEGIN + SECOND);
            (flight.begin(), flight.bytes())
        };
        let (begin, needs) = filled(usize::MAX);
        assert_eq!(begin, Some(BEGIN + 10));
        assert_eq!(filled(needs), (begin, needs));
        assert!(filled(needs - 1).0 > begin, "rare: {is_rare}");
    }
}

#[test]
fn the_records_of_all_buffers_leave_in_order_of_time_and_at_one_time_those_of_all_cpus_leave_first() {
    // The thread's CPUs by record, `None` for a record in the buffer for all CPUs, which shows CPU 2; their times;
    // and the CPU at the window's beginning.
    for (shown, expected) in [
        (&[(Some(0), 1), (Some(1), 2)][..], 1),
        (&[(Some(0), 2), (Some(1), 1)], 0),
        (&[(Some(0), 1), (Some(1), 2), (Some(0), 3)], 0),
        (&[(Some(0), 1), (Some(1), 2), (Some(0), 3), (Some(1), 4)], 1),
        (&[(Some(0), 5), (Some(1), 5)], 1),
        (&[(Some(1), 5), (Some(0), 5)], 1),
        (&[(Some(0), 5), (None, 5)], 0),
        (&[(Some(0), 5), (None, 6)], 2),
        (&[(None, 6), (Some(0), 5), (Some(1), 7)], 1),
        (&[(None, 4), (None, 6), (Some(0), 5)], 2),
        // From the window's beginning on, records stay.
        (&[(Some(0), 5), (Some(1), 1000)], 0),
        (&[(Some(0), 999), (Some(1), 1000)], 0),
        (&[(Some(0), 1000), (Some(1), 999)], 1),
        (&[(Some(0), 5), (None, 1000)], 0),
        (&[(Some(0), 5), (None, 999)], 2),
    ] {
        let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
        let mut seq = [0, 0];
        for &(cpu, at) in shown {
            let (cpu, kind) = match cpu {
                Some(cpu) => (cpu, EventKind::Current),
                None => (2, EventKind::LockEnd(lock(0x100))),
            };
            let event = Event { cpu: Cpu(cpu), ..Machine::event(BEGIN + at, WORKER, kind) };
            match seq.get_mut(usize::from(cpu)) {
                Some(seq) => {
                    let mut bytes = Vec::new();
                    Encoder::for_release(RELEASE).encode(&event, *seq, &mut bytes).expect("a record");
                    flight.packet(Buffer::Sched, Cpu(cpu), &bytes, 0);
                    *seq += 1;
                }
                None => flight.event(&event).expect("an event"),
            }
        }
        // The second time, nothing is left before it.
        flight.cut(FROM);
        flight.cut(FROM);
        let before = read(&flight).into_iter().filter(|event| event.at.ns() < FROM);
        let on_cpus: Vec<_> = before.filter(|event| event.kind == EventKind::Current).collect();
        let on_cpus: Vec<_> = on_cpus.iter().map(|event| (event.cpu, event.current)).collect();
        assert_eq!(on_cpus, [(Cpu(expected), WORKER)], "{shown:?}");
        let later = shown.iter().filter(|(_, at)| *at >= 1000).count();
        let is_later = |event: &&Event| event.at.ns() >= FROM && event.current == WORKER;
        assert_eq!(read(&flight).iter().filter(is_later).count(), later, "{shown:?}");
    }
}

#[test]
fn ended_processes_are_forgotten_at_most_once_in_a_minute() {
    let is_there =
        |flight: &Flight| read(flight).iter().any(|event| matches!(event.kind, EventKind::File(_)));
    // The times of settling, s, behind a first one, by whose end the process has ended.
    for (settled, stays) in [(&[59][..], true), (&[60], false), (&[30, 59], true), (&[30, 60], false)] {
        let limits = FlightLimits { window_ns: SECOND, bytes: usize::MAX };
        let mut flight = Flight::new(limits, RELEASE);
        let clock = |at| Machine::event(at, Tid::IDLE, EventKind::Refill(CgroupId(1)));
        flight.event(&clock(BEGIN)).expect("an event");
        flight.settle(BEGIN + 2 * SECOND);
        assert_eq!(flight.begin(), Some(BEGIN + SECOND));
        // No record shows the file's process alive.
        let at = BEGIN + 2 * SECOND;
        flight.event(&Machine::event(at, WORKER, file(WORKER, 3, "data.db"))).expect("an event");
        for after in settled {
            flight.event(&clock(BEGIN + (after - 1) * SECOND)).expect("an event");
            flight.settle(BEGIN + (after + 2) * SECOND);
            assert_eq!(flight.begin(), Some(BEGIN + (after + 1) * SECOND));
        }
        assert_eq!(is_there(&flight), stays, "{settled:?}");
    }
}

#[test]
fn a_memory_that_has_dropped_nothing_is_written_as_it_came() {
    let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
    let cost = |count| {
        let kind = CostKind::Switch;
        EventKind::KernelCost(KernelCost { kind, count: Some(count), from_ns: 50, to_ns: Some(90) })
    };
    let packet_of = Packet {
        flow: FlowId(9),
        direction: Direction::In,
        seq: 1,
        ack: 2,
        len: 3,
        tcp_flags: 4,
        netns: 5,
        interface: 6,
    };
    let of_all = [EventKind::Mark(Mark::Started), cost(100), cost(140), file(WORKER, 3, "data.db")];
    let came: Vec<_> = of_all
        .into_iter()
        .map(|kind| (Buffer::Life, kind))
        .chain([(Buffer::Sched, EventKind::Current), (Buffer::Net, EventKind::Packet(packet_of))])
        .zip(BEGIN..)
        .collect();
    for ((buffer, kind), at) in &came {
        match buffer {
            Buffer::Life => flight.event(&Machine::event(*at, WORKER, kind.clone())).expect("an event"),
            _ => flight.packet(*buffer, Cpu(0), &packet(kind, &[*at], 0), 0),
        }
    }
    let written: Vec<_> = read(&flight).into_iter().map(|event| (event.at.ns(), event.kind)).collect();
    let end = written.last().map(|(at, _)| *at).expect("an end");
    let came = came.into_iter().map(|((_, kind), at)| (at, kind));
    assert_eq!(written, came.chain([(end, EventKind::Mark(Mark::Stopped))]).collect::<Vec<_>>());
}

#[test]
fn the_marks_of_a_session_are_kept_up_to_a_limit() {
    const MOST: u32 = 1 << 12;
    let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
    for number in 0..MOST + 2 {
        let mark = EventKind::Mark(Mark::Observer(Tid(number)));
        flight.event(&Machine::event(BEGIN + u64::from(number), WORKER, mark)).expect("an event");
    }
    flight.cut(BEGIN + SECOND);
    let events = read(&flight);
    let marks = events.iter().filter_map(|event| match event.kind {
        EventKind::Mark(Mark::Observer(tid)) => Some(tid.0),
        _ => None,
    });
    let mut marks: Vec<_> = marks.collect();
    marks.sort_unstable();
    assert_eq!(marks, (0..MOST).collect::<Vec<_>>(), "the first ones");
}

#[test]
fn each_kind_of_cost_counts_from_its_own_last_total_on() {
    let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
    let cost = |kind, count| {
        EventKind::KernelCost(KernelCost { kind, count: Some(count), from_ns: 50, to_ns: Some(90) })
    };
    use CostKind::{Softirq, Switch, Waking};
    for (at, kind, count) in [
        (1, Switch, 100),
        (2, Waking, 7),
        (3, Switch, 120),
        (4, Waking, 9),
        (1001, Switch, 150),
        (1002, Waking, 10),
        (1003, Softirq, 5),
    ] {
        flight.event(&Machine::event(BEGIN + at, WORKER, cost(kind, count))).expect("an event");
    }
    flight.cut(FROM);
    let costs = read(&flight).into_iter().filter(|event| matches!(event.kind, EventKind::KernelCost(_)));
    let costs: Vec<_> = costs.map(|event| (event.at.ns(), event.kind)).collect();
    let expected = [
        (FROM - 1, cost(Switch, 0)),
        (FROM - 1, cost(Waking, 0)),
        (BEGIN + 1001, cost(Switch, 30)),
        (BEGIN + 1002, cost(Waking, 1)),
        (BEGIN + 1003, cost(Softirq, 5)),
    ];
    assert_eq!(costs, expected);
}

//! Damaged files: cut, with flipped bits, with missing or foreign pieces. Every readable record is read, in time
//! order, and every fault is reported.

use proptest::prelude::*;
use wakepath_clock::Stamp;
use wakepath_ctf::FaultKind;
use wakepath_event::{
    BlockedState, Call, Comm, Cpu, Direction, Event, EventKind, EventSource, FlowId, Packet, RecordingFormat,
    Stack, SwitchOut, Tid,
};
use wakepath_kernel_records::Buffer;
use wakepath_recording::{ReadFault, ReadProblem, Recording, read_stream};
use wakepath_scenario::arbitrary::{cases, flip};

use crate::made;

const STREAMS: [&str; 3] = ["sched_0", "net_0", "life"];
const PER_PACKET: usize = 8;

/// A small recording: three packets for each buffer, for a single CPU, with realistic stamps.
fn events() -> Vec<(Buffer, Event)> {
    let mut events = Vec::new();
    for i in 0..24u64 {
        let event =
            |what| wakepath_scenario::event(3_000_000_000_000 + i * 1_000, 0, 1000 + i as u32 % 3, what);
        let call = [None, Some(Call { number: 202, arg0: 0x7ffc_1234_5678, lock: None })][i as usize % 2];
        let out = SwitchOut::Blocked(BlockedState::Interruptible);
        let next = Tid(1000 + (i as u32 + 1) % 3);
        events.push((
            Buffer::Sched,
            event(match i % 3 {
                0 => EventKind::Waking { target: next, irq: 0, newborn: false, socket: None },
                _ => EventKind::Switch { next, out, interrupts_ns: 70, call },
            }),
        ));
        events.push((Buffer::Net, event(EventKind::SocketReady(FlowId(i)))));
        events.push((
            Buffer::Life,
            event(match i % 3 {
                0 => EventKind::Rename { tid: next, comm: Comm::new(b"worker") },
                1 => EventKind::Exit,
                _ => EventKind::Sample(Stack {
                    tgid: Tid(1000),
                    kernel: [1, 2].into(),
                    user: [3].into(),
                    scanned: 0,
                    proved: 0,
                }),
            }),
        ));
    }
    events
}

/// A loss: its CPU, its first and last stamp, and its number of records.
type Lost = (u16, u64, u64, u64);

/// The losses from a recording's reader, and its faults.
fn losses(path: &std::path::Path) -> (Vec<Lost>, Vec<(String, ReadFault)>) {
    let mut losses = Vec::new();
    let problems = Recording::open(path).expect("a recording").for_each(|event| {
        if let EventKind::Loss { from, count, .. } = event.kind {
            losses.push((event.cpu.0, from.ns(), event.at.ns(), count));
        }
    });
    (losses, problems.into_iter().map(|problem| (problem.file, problem.fault)).collect())
}

/// A recorder marks the end of each CPU's stream. Where a single stream lacks the mark, all behind its last record is
/// lost; where all lack it, nothing is known.
#[test]
fn a_stream_without_its_end_lost_all_behind_its_last_record() {
    let sample = |at, cpu| (Buffer::Sched, wakepath_scenario::event(at, cpu, 1000, EventKind::Current));
    let events: Vec<_> = (0..8).map(|i| sample(100 + i * 100, i as u16 % 2)).collect();
    for (ends, cut, lost, faults) in [
        (true, 0, vec![], 0),
        // Only the mark is missing: CPU 1's last record is the recording's last, CPU 0's is not.
        (true, 80, vec![(0, 700, 800, 0)], 1),
        // The last packet is missing, too.
        (true, 81, vec![(0, 500, 800, 0)], 1),
        (false, 0, vec![], 0),
        (false, 1, vec![], 0),
    ] {
        let (_folder, path) = made::place();
        made::record_with_ends(&path, &events, 1, ends);
        let name = path.join("kernel/sched_0");
        let bytes = std::fs::read(&name).expect("a stream");
        let packet = (bytes.len() - if ends { 80 } else { 0 }) / 4;
        let left = match cut {
            0 => bytes.len(),
            80 => bytes.len() - 80,
            _ => packet * 3,
        };
        std::fs::write(&name, &bytes[..left]).expect("room");
        let (found, problems) = losses(&path);
        assert_eq!(found, lost, "{ends} {cut}");
        assert_eq!(problems.len(), faults, "{ends} {cut}: {problems:?}");
        for (file, fault) in problems {
            let early_ns = lost[0].2 - lost[0].1;
            assert_eq!((file.as_str(), fault), ("kernel/sched_0", ReadFault::EndMissing { early_ns }));
        }
    }
}

/// The shared buffer has no such mark. If a stream's last record is the recording's last, nothing is missing behind
/// it.
#[test]
fn only_a_stream_of_a_cpu_that_ends_before_the_others_lacks_its_end() {
    let sample = |at, cpu| (Buffer::Sched, wakepath_scenario::event(at, cpu, 1000, EventKind::Current));
    let exit = (Buffer::Life, wakepath_scenario::event(150, 0, 1000, EventKind::Exit));
    let mut events: Vec<_> = (0..8).map(|i| sample(100 + i * 100, i as u16 % 2)).collect();
    events.push(exit);
    let (_folder, path) = made::place();
    made::record_with_ends(&path, &events, 1, true);
    assert_eq!(losses(&path), (vec![], vec![]), "the shared buffer ends at 150");
    let name = path.join("kernel/sched_1");
    let bytes = std::fs::read(&name).expect("a stream");
    std::fs::write(&name, &bytes[..bytes.len() - 80]).expect("room");
    assert_eq!(losses(&path), (vec![], vec![]), "the last record is at 800, as the recording's");
}

#[test]
fn the_mark_at_the_end_of_a_stream_is_no_record_of_it() {
    let (_folder, path) = made::place();
    made::record_with_ends(&path, &events(), PER_PACKET, true);
    let recording = Recording::open(&path).expect("a recording");
    let (_other, unmarked) = made::place();
    made::record(&unmarked, &events(), PER_PACKET);
    let plain = Recording::open(&unmarked).expect("a recording");
    assert_eq!(recording.description().extent, plain.description().extent);
    let of = |recording: &Recording| {
        let mut read = Vec::new();
        assert_eq!(recording.for_each(|event| read.push(event.clone())), []);
        read
    };
    assert_eq!(of(&recording), of(&plain));
    assert!(recording.streams().iter().all(|stream| stream.closed == stream.buffer.counts()));
    assert!(plain.streams().iter().all(|stream| !stream.closed));
    let packets = |recording: &Recording| recording.streams().iter().map(|s| s.packets).collect::<Vec<_>>();
    assert_eq!((packets(&plain), packets(&recording)), (vec![3; 3], vec![3; 3]));
    // A last packet with a record count of 0 is no mark.
    let name = unmarked.join("kernel/sched_0");
    let mut bytes = std::fs::read(&name).expect("a stream");
    let (ends, _) = boundaries(&bytes);
    bytes[ends[2] + 72..ends[2] + 76].fill(0);
    std::fs::write(&name, &bytes).expect("room");
    let damaged = Recording::open(&unmarked).expect("a recording");
    let sched = damaged.streams().iter().find(|stream| stream.name == "sched_0").expect("a stream");
    assert_eq!((sched.closed, sched.packets), (false, 3));
}

/// The small recording's files and their contents, by stream.
pub fn written() -> Vec<(&'static str, Vec<u8>, Vec<Event>)> {
    let (_folder, path) = made::place();
    let events = events();
    made::record(&path, &events, PER_PACKET);
    let buffers = [Buffer::Sched, Buffer::Net, Buffer::Life];
    let stream = |(name, buffer): (&&'static str, Buffer)| {
        let bytes = std::fs::read(path.join("kernel").join(name)).expect("a stream");
        let events = events.iter().filter(|(of, _)| *of == buffer).map(|(_, event)| event.clone());
        (*name, bytes, events.collect())
    };
    // Rarer records are in a single packet.
    STREAMS.iter().zip(buffers).map(stream).collect()
}

/// A stream's losses, its other events, and its problems.
pub fn read(name: &str, bytes: &[u8]) -> (Vec<Event>, Vec<Event>, Vec<ReadProblem>) {
    let mut events: Vec<Event> = Vec::new();
    let problems = read_stream(name, bytes, made::UUID, made::RELEASE, |event| {
        assert!(events.last().is_none_or(|last| last.at <= event.at), "out of order: {event:?}");
        events.push(event.clone());
    });
    let (losses, others) = events.into_iter().partition(is_loss);
    (losses, others, problems)
}

fn is_loss(event: &Event) -> bool {
    matches!(event.kind, EventKind::Loss { .. })
}

/// The starts of packets and the ends of records, in an undamaged stream.
pub fn boundaries(bytes: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let (mut packets, mut records, mut at) = (Vec::new(), Vec::new(), 0);
    while at < bytes.len() {
        packets.push(at);
        let size = u64::from_le_bytes(*bytes[at + 48..].first_chunk().expect("a size")) as usize / 8;
        let mut record = at + 80;
        while record < at + size {
            record += wakepath_kernel_records::record_length(&bytes[record..]).expect("a record");
            records.push(record);
        }
        at += size;
    }
    packets.push(at);
    (packets, records)
}

#[test]
fn a_stream_cut_anywhere_gives_every_whole_record_before_the_cut() {
    for (name, bytes, events) in written() {
        let (packets, records) = boundaries(&bytes);
        for cut in 0..=bytes.len() {
            let whole = records.iter().filter(|&&end| end <= cut).count();
            let (losses, found, problems) = read(name, &bytes[..cut]);
            assert_eq!(found, events[..whole], "{name} cut at {cut}");
            if packets.contains(&cut) {
                assert_eq!((losses, problems), (vec![], vec![]), "{name} cut at {cut}");
                continue;
            }
            assert_eq!(problems.len(), 1, "{name} cut at {cut}: {problems:?}");
            assert_eq!(problems[0].file, format!("kernel/{name}"));
            let begun = packets.iter().rfind(|&&packet| packet < cut).expect("a packet");
            assert_eq!(problems[0].offset, *begun as u64, "{name} cut at {cut}");
            // The packet's claimed and missing number; unknown if even the claim is missing.
            let in_packet =
                records.iter().filter(|&&end| end > *begun && end <= begun + size(&bytes, *begun));
            let lost = in_packet.filter(|&&end| end > cut).count() as u64;
            let lost = if cut - begun < 80 { 0 } else { lost };
            assert!(
                matches!(losses[..], [Event { kind: EventKind::Loss { count, .. }, .. }] if count == lost),
                "{losses:?}"
            );
        }
    }
}

fn size(bytes: &[u8], packet: usize) -> usize {
    u64::from_le_bytes(*bytes[packet + 48..].first_chunk().expect("a size")) as usize / 8
}

#[test]
fn a_recording_whose_files_are_all_cut_is_still_read() {
    let (_folder, path) = made::place();
    made::record(&path, &events(), PER_PACKET);
    for share in [0, 1, 10, 50, 90, 99] {
        for name in STREAMS {
            let file = path.join("kernel").join(name);
            let bytes = std::fs::read(&file).expect("a stream");
            let original = written().into_iter().find(|(of, ..)| *of == name).expect("a stream").1;
            assert!(bytes.len() <= original.len());
            std::fs::write(&file, &original[..original.len() * share / 100]).expect("a writable file");
        }
        let mut at = Stamp::MIN;
        Recording::open(&path).expect("a recording").for_each(|event| {
            assert!(event.at >= at);
            at = event.at;
        });
    }
}

/// A record with good marks but a meaningless content is left out; the record behind it may be earlier than the bad
/// stamp, and still takes its place among the other streams' events.
#[test]
fn a_late_record_that_means_nothing_does_not_hold_up_what_stands_behind_it() {
    let at = |ns, what| wakepath_scenario::event(ns, 0, 7, what);
    let stack = || {
        EventKind::Sample(Stack { tgid: Tid(7), kernel: [].into(), user: [].into(), scanned: 0, proved: 0 })
    };
    let (_folder, path) = made::place();
    let mut writer =
        wakepath_recording::Writer::create(&path, &made::host(), &made::options()).expect("a new recording");
    // A frame neither in the kernel nor in the user part.
    let mut nonsense = made::encode(&at(11, stack()), 0);
    nonsense[28..32].copy_from_slice(&1_u32.to_le_bytes());
    nonsense.extend([0; 8]);
    for packet in [vec![made::encode(&at(10, stack()), 0), nonsense], vec![made::encode(&at(20, stack()), 0)]]
    {
        made::append(&mut writer, Buffer::Life, Cpu(0), &packet, 0);
    }
    let waking = EventKind::Waking { target: Tid(8), irq: 0, newborn: false, socket: None };
    let wakings = [15, 50, 95].map(|ns| at(ns, waking.clone()));
    let records: Vec<_> = wakings.iter().zip(0..).map(|(waking, seq)| made::encode(waking, seq)).collect();
    made::append(&mut writer, Buffer::Sched, Cpu(0), &records, 0);
    drop(writer);
    // The meaningless record has stamp 90, and so has its packet's end.
    let file = path.join("kernel/life");
    let mut bytes = std::fs::read(&file).expect("a stream");
    for at in [32, 80 + 32] {
        bytes[at..at + 8].copy_from_slice(&90_u64.to_le_bytes());
    }
    std::fs::write(&file, bytes).expect("a writable file");
    let mut stamps = Vec::new();
    let problems = Recording::open(&path).expect("a recording").for_each(|event| {
        if !is_loss(event) {
            stamps.push(event.at.ns());
        }
    });
    assert_eq!(stamps, [10, 15, 20, 50, 95]);
    assert!(
        problems.iter().any(|problem| problem.fault.to_string().contains("frames_len 1")),
        "{problems:?}"
    );
}

/// Not timed: a search through the whole block for each record would take an hour.
#[test]
fn a_long_stream_in_which_no_number_fits_is_read_no_slower_than_another() {
    const RECORDS: usize = 300_000;
    let number = |mut record: Vec<u8>, seq: u16| {
        record[10..12].copy_from_slice(&seq.to_le_bytes());
        record
    };
    let event = |what| wakepath_scenario::event(1000, 0, 7, what);
    let waking = EventKind::Waking { target: Tid(8), irq: 0, newborn: false, socket: None };
    let waking = made::encode(&event(waking), 0);
    let ready = made::encode(&event(EventKind::SocketReady(wakepath_event::FlowId(1))), 0);
    let flow = wakepath_event::Flow {
        source: "10.0.0.2:40000".parse().expect("an address"),
        target: "10.0.0.3:80".parse().expect("an address"),
        protocol: 6,
    };
    let mut nonsense = made::encode(&event(EventKind::Flow(wakepath_event::FlowId(1), flow)), 0);
    nonsense[60] = 9;
    for (name, first, others, told) in [
        // The number stands still: each record is behind a loss of nearly a round.
        ("sched_0", number(waking.clone(), 5), number(waking, 5), 2 * RECORDS + 1),
        // Behind the first record, all are meaningless: a single loss.
        ("net_0", number(ready, 5), number(nonsense, 5005), 2),
    ] {
        let records = [first, others.repeat(RECORDS)].concat();
        let header = wakepath_ctf::packet::PacketHeader {
            uuid: made::UUID,
            stream_id: u32::from(name == "net_0"),
            cpu: 0,
            begin: 1000,
            end: 1000,
            content: records.len() as u64,
            discarded: 0,
            number: 0,
            events: RECORDS as u32 + 1,
        };
        let bytes = [&header.to_bytes()[..], &records].concat();
        let (losses, found, problems) = read(name, &bytes);
        assert_eq!(losses.len() + found.len(), told, "{name}: {problems:?}");
    }
}

/// A reader that maps its files would die here.
#[test]
fn a_file_that_shrinks_while_it_is_read_ends_where_it_ends() {
    let (_folder, path) = made::place();
    let machine =
        wakepath_recording::synthetic::Machine { cpus: 1, threads_per_cpu: 8, events: 50_000, seed: 3 };
    wakepath_recording::synthetic::write(&path, &machine).expect("room");
    let recording = Recording::open(&path).expect("a recording");
    let mut events = 0;
    let problems = recording.for_each(|_| {
        if events == 0 {
            let file =
                std::fs::File::options().write(true).open(path.join("kernel/sched_0")).expect("a stream");
            assert!(file.metadata().expect("a size").len() > 1_000_000);
            file.set_len(500_000).expect("one's own");
        }
        events += 1;
    });
    assert!((10_000..30_000).contains(&events), "{events}");
    assert!(
        problems.iter().any(|problem| matches!(
            problem.fault,
            ReadFault::Packets(FaultKind::HeaderCut { .. } | FaultKind::PacketCut { .. })
        )),
        "{problems:?}"
    );
}

/// Flips bits, removes, repeats and swaps pieces, and inserts foreign pieces.
fn damage(bytes: &mut Vec<u8>, what: u8, at: usize, len: usize) {
    if bytes.is_empty() {
        return;
    }
    let at = at % bytes.len();
    let to = (at + len).min(bytes.len());
    match what % 6 {
        0 => flip(bytes, at * 8 + len % 8),
        1 => drop(bytes.drain(at..to)),
        2 => bytes.extend_from_within(at..to),
        3 => bytes[at..to].fill(0),
        4 => bytes[at..to].reverse(),
        _ => drop(bytes.splice(at..at, (0..len).map(|i| (i * 7) as u8))),
    }
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn whatever_happened_to_a_file_it_is_read_to_its_end_in_time_order(
        which in 0..3usize,
        damages in proptest::collection::vec((any::<u8>(), any::<usize>(), 0..200usize), 1..6),
    ) {
        thread_local!(static WRITTEN: Vec<(&'static str, Vec<u8>, Vec<Event>)> = written());
        let (name, original, events) = WRITTEN.with(|written| written[which].clone());
        let mut bytes = original.clone();
        for (what, at, len) in damages {
            damage(&mut bytes, what, at, len);
        }
        // `read` asserts the order.
        let (losses, found, problems) = read(name, &bytes);
        prop_assert!(problems.len() <= 101);
        if found.len() < events.len() && missing(&events, &found) > 0 && !bytes.is_empty() {
            let (packets, _) = boundaries(&original);
            // A recorder that stopped early leaves a file that ends with a packet.
            prop_assert!(!problems.is_empty() || packets.contains(&bytes.len()), "{losses:?}");
        }
    }

    #[test]
    fn bytes_of_any_kind_are_read_to_their_end(
        which in 0..3usize,
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        is_packet in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if is_packet && bytes.len() >= 20 {
            bytes[..4].copy_from_slice(&0xc1fc_1fc1u32.to_le_bytes());
            bytes[4..20].copy_from_slice(&made::UUID);
        }
        read(STREAMS[which], &bytes);
    }
}

/// The packet's end is one witness among others: the records behind it fit together.
#[test]
fn records_behind_the_end_that_their_packet_names_are_read_and_the_end_is_called_wrong() {
    let (name, mut bytes, events) = written().swap_remove(0);
    let third = events[2].at.ns();
    bytes[32..40].copy_from_slice(&third.to_le_bytes());
    let (losses, found, problems) = read(name, &bytes);
    assert_eq!((losses, found), (vec![], events));
    assert!(problems.iter().any(|problem| matches!(problem.fault, ReadFault::PacketEnd(_))), "{problems:?}");
}

/// Length and stamp are good, so only the content is odd.
#[test]
fn a_record_that_means_nothing_costs_itself_and_nothing_behind_it() {
    let (flow, direction) = (FlowId(1), Direction::In);
    let packet = Packet { flow, direction, seq: 1, ack: 2, len: 3, tcp_flags: 0, netns: 4, interface: 5 };
    let mut events: Vec<_> = events().into_iter().filter(|(buffer, _)| *buffer == Buffer::Net).collect();
    events[3].1.kind = EventKind::Packet(packet);
    let (_folder, path) = made::place();
    made::record(&path, &events, PER_PACKET);
    let mut bytes = std::fs::read(path.join("kernel/net_0")).expect("a stream");
    let (_, records) = boundaries(&bytes);
    // The direction.
    bytes[records[2] + 42] = 9;
    let (losses, found, problems) = read("net_0", &bytes);
    events.remove(3);
    assert_eq!(found, events.into_iter().map(|(_, event)| event).collect::<Vec<_>>());
    assert_eq!((losses.len(), problems[0].offset), (1, records[2] as u64), "{problems:?}");
}

/// The number of events from `original` missing in `found`, both in time order.
fn missing(original: &[Event], found: &[Event]) -> usize {
    original.iter().filter(|event| !found.contains(event)).count()
}

/// Two results of a flipped bit are ambiguous, since damage to a header explains them as well: a last record past its
/// packet's end, with nothing behind it; and two swapped stamps that both fit their neighbours. Then the records
/// concerned are left out.
#[test]
fn a_bit_turned_over_costs_the_record_it_is_in_and_no_other_that_is_beyond_doubt() {
    let mut doubtful = 0;
    for (name, bytes, events) in written() {
        let (packets, _) = boundaries(&bytes);
        let last_end = packets[packets.len() - 2] + 32;
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            flip(&mut damaged, bit);
            let (losses, found, problems) = read(name, &damaged);
            let in_header = packets.iter().any(|&packet| (packet..packet + 80).contains(&(bit / 8)));
            let lost = missing(&events, &found);
            let at = format!("{name} bit {} of byte {}: lost {lost}, {problems:?}", bit % 8, bit / 8);
            if problems.iter().any(|problem| matches!(problem.fault, ReadFault::StampsSwapped { .. }))
                && lost == 2
            {
                doubtful += 1;
            } else if (last_end..last_end + 8).contains(&(bit / 8)) {
                assert!(lost <= 1, "{at}");
            } else {
                assert!(lost <= usize::from(!in_header), "{at}");
            }
            // At most one changed record stands in the place of the missing records.
            assert!(found.len() + lost - events.len() <= 1, "{at}");
            // A missing record is reported, with its place.
            if found.len() < events.len() {
                assert!(!problems.is_empty() && !losses.is_empty(), "{at}");
            }
            for problem in &problems {
                let here =
                    problem.offset as usize <= bit / 8 || (last_end..last_end + 8).contains(&(bit / 8));
                assert!(here, "{at}");
            }
        }
    }
    // Records are 1000 ns apart: only the bits for 1024 and 2048 ns move a stamp just past its neighbour.
    assert!(doubtful <= 2 * 72, "{doubtful} of all bits");
}

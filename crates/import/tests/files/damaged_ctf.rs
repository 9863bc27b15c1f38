//! Damaged LTTng streams, with metadata in CTF 1.8 and in CTF 2.

use std::fs;
use std::path::Path;

use wakepath_ctf::trace::Trace;
use wakepath_event::{DamageKind, EventKind, EventSource, RecordingFormat};
use wakepath_import::{Fault, Lttng};

use crate::ctf_2::convert::as_ctf_2;
use crate::damage::Reading;
use crate::damaged::{End, What, check, moments, name};
use crate::lines::changed;

const METADATA: &str = "typealias integer { size = 8; } := u8;
    typealias integer { size = 32; } := u32;
    typealias integer { size = 32; signed = true; } := i32;
    typealias integer { size = 64; } := u64;
    typealias integer { size = 64; map = clock.monotonic.value; } := stamp;
    typealias integer { size = 8; encoding = UTF8; } := letter;
    trace { major = 1; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; byte_order = le;
        packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; }; };
    env { hostname = \"h\"; domain = \"kernel\"; kernel_release = \"6.1.0\"; tracer_name = \"lttng-modules\";
        tracer_major = 2; tracer_minor = 13; };
    clock { name = monotonic; freq = 1000000000; offset = 1700; };
    stream { id = 0; event.header := struct { u8 id; stamp timestamp; };
        packet.context := struct { stamp timestamp_begin; stamp timestamp_end; u64 content_size; u64 packet_size;
            u64 packet_seq_num; u64 events_discarded; u32 cpu_id; }; };
    event { name = sched_switch; id = 1; stream_id = 0; fields := struct { letter _prev_comm[16]; i32 _prev_tid;
        integer { size = 64; signed = true; } _prev_state; letter _next_comm[16]; i32 _next_tid; }; };
    event { name = sched_waking; id = 2; stream_id = 0; fields := struct { i32 _tid; i32 _target_cpu; }; };";

/// A CPU's stream, with ten events in each packet.
fn stream(cpu: u32) -> Vec<u8> {
    let (mut stream, moments) = (Vec::new(), moments());
    let own: Vec<_> = moments.iter().filter(|moment| moment.cpu == cpu).collect();
    for (number, part) in own.chunks(10).enumerate() {
        let mut events = Vec::new();
        for moment in part {
            let comm = |thread: u32| name(thread).bytes().chain([0; 16]).take(16).collect::<Vec<u8>>();
            match moment.what {
                What::Switch(state, next) => {
                    events.push(1);
                    events.extend(moment.at.to_le_bytes());
                    events.extend(comm(moment.thread));
                    events.extend(moment.thread.to_le_bytes());
                    events.extend(u64::from(state).to_le_bytes());
                    events.extend(comm(next));
                    events.extend(next.to_le_bytes());
                }
                What::Wakes(target, cpu) => {
                    events.push(2);
                    events.extend(moment.at.to_le_bytes());
                    events.extend([target, cpu].map(u32::to_le_bytes).concat());
                }
            }
        }
        let mut packet = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
        packet.extend(0x2a64_22d0_6cee_11e0_8c08_cb07_d7b3_a564_u128.to_be_bytes());
        packet.extend(0_u32.to_le_bytes());
        let bits = (packet.len() + 6 * 8 + 4 + events.len()) as u64 * 8;
        let (begin, end) = (part[0].at, part[part.len() - 1].at);
        packet.extend([begin, end, bits, bits, number as u64, 0].map(u64::to_le_bytes).concat());
        packet.extend(cpu.to_le_bytes());
        packet.extend(events);
        stream.extend(packet);
    }
    stream
}

#[test]
fn damaged_streams_in_both_versions_of_ctf() {
    let folder = tempfile::tempdir().expect("a folder");
    for version in ["CTF 1.8", "CTF 2"] {
        let path = folder.path().join("a.file");
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("metadata"), METADATA).expect("room");
        fs::write(path.join("k_1"), stream(1)).expect("room");
        if version == "CTF 2" {
            let metadata = Trace::open(&path).expect("a trace").metadata;
            fs::write(path.join("metadata"), as_ctf_2(&metadata)).expect("room");
        }
        check(version, &stream(0), End::Open, |bytes: &[u8], _: &Path| {
            fs::write(path.join("k_0"), bytes).expect("room");
            Lttng::open(&path).map(|trace| Reading::new(&trace)).map_err(|error| error.to_string())
        });
    }
}

#[test]
fn an_event_with_a_senseless_stamp_is_left_out_and_the_events_behind_it_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("metadata"), METADATA).expect("room");
    fs::write(folder.path().join("k_1"), stream(1)).expect("room");
    let read = |bytes: &[u8]| {
        fs::write(folder.path().join("k_0"), bytes).expect("room");
        let (mut switches, mut losses) = (0, Vec::new());
        let trace = Lttng::open(folder.path()).expect("a trace");
        let damages = trace.for_each(|event| match event.kind {
            EventKind::Switch { .. } => switches += 1,
            EventKind::Loss { from, .. } => losses.push((event.cpu.0, from.ns(), event.at.ns())),
            _ => {}
        });
        let faults = damages.into_iter().filter_map(|damage| match damage.kind {
            DamageKind::Fault(fault) => Some(fault),
            _ => None,
        });
        (switches, losses, faults.collect::<Vec<_>>())
    };
    let good = stream(0);
    let (all, losses, faults) = read(&good);
    assert_eq!((losses.len(), faults.len()), (0, 0));
    // The fourth event, a switch: much too late, and too early.
    let own: Vec<_> =
        moments().into_iter().filter(|moment| moment.cpu == 0).map(|moment| moment.at).collect();
    let stamp = own[3].to_le_bytes();
    let place = good.windows(8).position(|bytes| bytes == stamp).expect("a stamp");
    for (wrong, fault) in [(own[3] + 10_000_000_000, "StampFarAhead"), (own[2] - 1, "StampBack")] {
        let (switches, losses, faults) = read(&changed(&good, place, &wrong.to_le_bytes()));
        assert_eq!((switches, losses), (all - 1, vec![(0, own[2], own[4])]), "{fault}");
        let says = if fault == "StampBack" { Fault::StampBack } else { Fault::StampFarAhead };
        assert_eq!(faults, [says.to_string()]);
    }
}

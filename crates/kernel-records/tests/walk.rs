//! Walking a ring's records without decoding them.

use proptest::prelude::*;
use wakepath_clock::Stamp;
use wakepath_event::Event;
use wakepath_kernel_records::{Buffer, Encoder, Header, Kind, walk};
use wakepath_scenario::arbitrary::{event, kinds_by_buffer};

/// The records' kernel.
const RELEASE: &str = "6.18.0";

/// The events' records, in stamp order.
fn records(mut events: Vec<Event>) -> Vec<Vec<u8>> {
    events.sort_by_key(|event| event.at);
    let encoder = Encoder::for_release(RELEASE);
    let encode = |event| {
        let mut bytes = Vec::new();
        encoder.encode(event, 0, &mut bytes).expect("an event that fits");
        bytes
    };
    events.iter().map(encode).collect()
}

proptest! {
    #[test]
    fn a_stretch_is_the_same_wherever_its_ring_wraps(
        buffer in prop_oneof![Just(Buffer::Sched), Just(Buffer::Net), Just(Buffer::Life)]
            .prop_flat_map(|buffer| (Just(buffer), proptest::collection::vec(event(kinds_by_buffer()[buffer as usize].clone()), 1..20))),
        wrap in any::<prop::sample::Index>(),
    ) {
        let (buffer, events) = buffer;
        let records = records(events);
        let bytes = records.concat();
        let whole = walk(buffer, &[&bytes]).expect("records");
        prop_assert_eq!(whole.records, records.len() as u64);
        prop_assert_eq!(whole.bytes, bytes.len());
        let stamp = |record: &Vec<u8>| Header::read(record).map(|header| header.stamp);
        prop_assert_eq!(Some(whole.first_stamp), records.first().and_then(stamp));
        prop_assert_eq!(Some(whole.last_stamp), records.last().and_then(stamp));
        for kind in Kind::ALL {
            let of_kind = records.iter().filter(|record| record[8] == kind.number()).count();
            prop_assert_eq!(whole.count(kind) as usize, of_kind);
        }
        let at = wrap.index(bytes.len() / 8 + 1) * 8;
        prop_assert_eq!(walk(buffer, &[&bytes[..at], &bytes[at..]]), Ok(whole));
    }
}

#[test]
fn the_records_before_a_fault_are_kept() {
    let waking = |stamp| {
        let what = wakepath_event::EventKind::Waking {
            target: wakepath_event::Tid(1),
            irq: 0,
            newborn: false,
            socket: None,
        };
        let mut bytes = Vec::new();
        let event = Event {
            at: Stamp::from_ns(stamp),
            cpu: wakepath_event::Cpu(0),
            context: wakepath_event::Context::Task,
            current: wakepath_event::Tid(0),
            kind: what,
        };
        Encoder::for_release(RELEASE).encode(&event, 0, &mut bytes).expect("a waking");
        bytes
    };
    let good = [waking(5), waking(7)].concat();
    let of_kind = |kind: u8| {
        let mut bytes = waking(9);
        bytes[8] = kind;
        bytes
    };
    for (next, fault) in [
        (waking(6), "stamp 6 comes after stamp 7"),
        (waking(9)[..20].to_vec(), "waking record needs 24 bytes, found 20"),
        (of_kind(99), "no record has kind 99"),
        (of_kind(Kind::Exit.number()), "exit records do not belong here"),
    ] {
        let error = walk(Buffer::Sched, &[&good, &next]).expect_err("a fault");
        assert_eq!((error.before.records, error.before.bytes, error.before.last_stamp), (2, 48, 7));
        assert_eq!(error.to_string(), format!("{fault} at byte 48 of what a buffer held"));
    }
}

#[test]
fn nothing_is_nothing() {
    let summary = walk(Buffer::Sched, &[&[], &[]]).expect("nothing wrong");
    assert_eq!((summary.records, summary.bytes), (0, 0));
}

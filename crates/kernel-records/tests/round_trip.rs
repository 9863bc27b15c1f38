//! Events become records and events again; other bytes are refused.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use wakepath_event::{
    BlockedState, Call, CostKind, Cpu, Event, EventKind, KernelCost, LockWord, SwitchOut, Tid, Timeout,
};
use wakepath_kernel_records::layout::{self, LAYOUTS, MAX_RECORD_BYTES};
use wakepath_kernel_records::{
    Buffer, DecodeError, Decoder, Encoder, Header, Kind, fields, record_length, walk,
};
use wakepath_scenario::arbitrary::{self, any_event, cases, flip};
use wakepath_scenario::event;

/// The records' kernel.
const RELEASE: &str = "6.18.0";

fn encoded(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::for_release(RELEASE).encode(event, event.cpu.0, &mut bytes).expect("an event that fits");
    bytes
}

/// A record can hold all these events.
#[test]
fn arbitrary_events_are_as_large_as_a_record() {
    assert_eq!((arbitrary::MAX_FRAMES, arbitrary::CALL_NONE), (layout::MAX_FRAMES, layout::CALL_NONE));
}

#[test]
fn arbitrary_events_are_of_every_kind_of_record_and_with_every_named_value() {
    let (mut runner, mut forms) = (TestRunner::deterministic(), BTreeSet::new());
    let events = any_event(Buffer::ALL);
    for _ in 0..20_000 {
        let (_, event) = events.new_tree(&mut runner).expect("an event").current();
        forms.extend(layout::forms_of(&encoded(&event)).expect("a record"));
    }
    let missing: Vec<_> = layout::every_form().difference(&forms).copied().collect();
    assert!(missing.is_empty(), "no property is tried with such records: {missing:?}");
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn an_event_comes_back_from_its_record((buffer, event) in any_event(Buffer::ALL)) {
        let bytes = encoded(&event);
        prop_assert_eq!(bytes.len() % 8, 0);
        prop_assert_eq!(record_length(&bytes), Ok(bytes.len()));
        let header = Header::read(&bytes).expect("a header");
        prop_assert!(buffer.holds(Kind::from_number(header.kind).expect("a kind")));
        let decoder = Decoder::for_release(RELEASE);
        prop_assert_eq!(decoder.decode(&bytes, Cpu(header.seq)), Ok((event, bytes.len())));
    }

    #[test]
    fn a_cut_record_says_what_it_needs((_, event) in any_event(Buffer::ALL), cut in any::<prop::sample::Index>()) {
        let bytes = encoded(&event);
        let cut = cut.index(bytes.len());
        match Decoder::for_release(RELEASE).decode(&bytes[..cut], Cpu(0)) {
            Err(DecodeError::Short { needs, found, .. }) => {
                prop_assert_eq!(found, cut);
                prop_assert!(needs > found && needs <= bytes.len());
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn any_bytes_decode_or_say_why(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..64u8) {
        let mut bytes = bytes;
        if let Some(byte) = bytes.get_mut(8) {
            *byte = kind;
        }
        total(&bytes)?;
    }

    #[test]
    fn a_damaged_record_decodes_or_says_why((_, event) in any_event(Buffer::ALL), bits in any::<[prop::sample::Index; 3]>()) {
        let mut bytes = encoded(&event);
        for bit in bits {
            let bit = bit.index(bytes.len() * 8);
            flip(&mut bytes, bit);
        }
        total(&bytes)?;
    }
}

/// No record reader panics on these bytes, and all readers agree about the length.
fn total(bytes: &[u8]) -> Result<(), TestCaseError> {
    let length = record_length(bytes);
    if let Ok(length) = length {
        prop_assert!(length <= bytes.len() && length <= MAX_RECORD_BYTES && length.is_multiple_of(8));
    }
    if let Ok((_, decoded)) = Decoder::for_release(RELEASE).decode(bytes, Cpu(0)) {
        prop_assert_eq!(length.clone(), Ok(decoded));
    }
    prop_assert_eq!(fields(bytes).is_ok(), length.is_ok());
    for buffer in Buffer::ALL {
        let _ = walk(buffer, &[bytes]);
    }
    Ok(())
}

#[test]
fn a_short_record_names_itself_and_its_needs() {
    let mut waking = vec![0; 23];
    waking[8] = Kind::Waking.number();
    let error = Decoder::for_release(RELEASE).decode(&waking, Cpu(0)).expect_err("too short");
    assert_eq!(error.to_string(), "waking record needs 24 bytes, found 23");
    let error = record_length(&waking[..7]).expect_err("too short");
    assert_eq!(error.to_string(), "any record needs 16 bytes, found 7");
}

#[test]
fn nobody_believes_how_long_a_record_says_it_is() {
    for (kind, field, claim) in [
        (Kind::Sample, "frames_len", 128),
        (Kind::Sample, "frames_len", u32::MAX),
        (Kind::Name, "name_padded", 65_536),
        (Kind::Name, "name_padded", 12),
        (Kind::Mapping, "path_padded", !7),
        (Kind::Mark, "words_padded", 0x8000_0000),
    ] {
        let layout = LAYOUTS.iter().find(|layout| layout.kind == kind).expect("a layout");
        let offset = layout.field(field).expect("a count").offset;
        let mut bytes = vec![0; 70_000];
        bytes[8] = kind.number();
        bytes[offset..offset + 4].copy_from_slice(&claim.to_le_bytes());
        let error = record_length(&bytes).expect_err("a length that nothing has");
        assert_eq!(error, DecodeError::BadField { record: layout.name, field, value: claim.into() });
    }
}

#[test]
fn a_cost_of_no_kind_or_with_its_ends_the_wrong_way_round_is_refused() {
    let cost = |number: u32, from_ns: u64, to_ns: u64| {
        let mut bytes = vec![0; 48];
        bytes[8] = Kind::KernelCost.number();
        bytes[16..20].copy_from_slice(&number.to_le_bytes());
        bytes[32..40].copy_from_slice(&from_ns.to_le_bytes());
        bytes[40..48].copy_from_slice(&to_ns.to_le_bytes());
        Decoder::for_release(RELEASE).decode(&bytes, Cpu(0)).map(|(event, _)| event.kind)
    };
    let bad = |field, value| Err(DecodeError::BadField { record: "kernel_cost", field, value });
    for (number, from_ns, to_ns, found) in [
        (0, 1, 2, bad("cost_kind", 0)),
        (9, 1, 2, bad("cost_kind", 9)),
        (u32::MAX, 1, 2, bad("cost_kind", u32::MAX.into())),
        (1, 3, 2, bad("to_ns", 2)),
    ] {
        assert_eq!(cost(number, from_ns, to_ns), found, "{number}, {from_ns} to {to_ns}");
    }
    let read =
        |kind, from_ns, to_ns| Ok(EventKind::KernelCost(KernelCost { kind, count: Some(0), from_ns, to_ns }));
    assert_eq!(cost(1, 2, 2), read(CostKind::Switch, 2, Some(2)));
    assert_eq!(cost(8, u64::MAX, u64::MAX), read(CostKind::Other, u64::MAX, None), "not known");
}

#[test]
fn the_kinds_of_cost_are_numbered_as_the_metadata_names_them() {
    let names = layout::COST_KINDS.iter().map(|(name, number)| (name.to_lowercase(), *number as usize));
    let kinds =
        CostKind::ALL.iter().zip(1..).map(|(kind, number)| (format!("{kind:?}").to_lowercase(), number));
    assert!(names.eq(kinds));
}

#[test]
fn a_mapping_whose_two_sequences_are_each_small_enough_can_still_be_too_long() {
    let mut bytes = vec![0; 200_000];
    bytes[8] = Kind::Mapping.number();
    for offset in [48, 56] {
        bytes[offset..offset + 4].copy_from_slice(&60_000u32.to_le_bytes());
    }
    assert!(matches!(record_length(&bytes), Err(DecodeError::TooLong { claims: 120_064, .. })));
}

#[test]
fn preemption_and_throttling_outrank_the_state() {
    use wakepath_event::{BlockedState, SwitchOut};
    let mut switch = vec![0; 32];
    switch[8] = Kind::Switch.number();
    for (state, flags, out) in [
        (1, 0, SwitchOut::Blocked(BlockedState::Interruptible)),
        (1, 1, SwitchOut::Runnable),
        (0x80, 1, SwitchOut::Runnable),
        (0, 0, SwitchOut::Runnable),
        (0, 3, SwitchOut::Throttled),
        (0, 2, SwitchOut::Throttled),
    ] {
        switch[20] = state;
        switch[28] = flags;
        let (event, _) = Decoder::for_release(RELEASE).decode(&switch, Cpu(0)).expect("a switch");
        assert!(
            matches!(event.kind, EventKind::Switch { out: is, .. } if is == out),
            "{state:#x} {flags}: {event:?}"
        );
    }
}

#[test]
fn a_time_out_stands_beside_the_call_and_an_older_record_has_none() {
    let switch = |call| {
        let out = SwitchOut::Blocked(BlockedState::Interruptible);
        event(5, 0, 7, EventKind::Switch { next: Tid(1), out, interrupts_ns: 0, call: Some(call) })
    };
    let decode = |bytes: &[u8]| Decoder::for_release(RELEASE).decode(bytes, Cpu(0)).expect("a record").0;
    let plain = Call { number: 232, arg0: 3, lock: None };
    for (timeout, number) in [(Timeout::Ms(300), 300), (Timeout::Never, u32::MAX)] {
        let event = switch(plain.with_timeout(Some(timeout)));
        let bytes = encoded(&event);
        assert_eq!(
            (&bytes[36..40], &bytes[40..48]),
            (&u32::to_le_bytes(number)[..], &u64::to_le_bytes(3)[..])
        );
        assert_eq!(decode(&bytes), event);
        // The register's upper half is no time-out.
        let mut older = encoded(&switch(plain));
        older[44] = 9;
        assert_eq!(decode(&older), switch(plain));
    }
    // A futex's word there means something else.
    let futex = switch(Call { number: Call::FUTEX, arg0: 64, lock: Some(LockWord::private_futex()) });
    assert_eq!(decode(&encoded(&futex)), futex);
}

//! Good records that look damaged, and damaged records that look good: the deciding signs.

use wakepath_ctf::packet::PacketHeader;
use wakepath_event::{BlockedState, Call, Event, EventKind, Stack, SwitchOut, Tid};
use wakepath_kernel_records::{Buffer, Kind};
use wakepath_recording::ReadFault;
use wakepath_scenario::event;

use crate::damage::read;
use crate::made;

/// A stream with a single packet.
fn packet(buffer: Buffer, (begin, end): (u64, u64), records: &[Vec<u8>]) -> Vec<u8> {
    let content = records.concat();
    let header = PacketHeader {
        uuid: made::UUID,
        stream_id: if buffer == Buffer::Life { 2 } else { 0 },
        cpu: 0,
        begin,
        end,
        content: content.len() as u64,
        discarded: 0,
        number: 0,
        events: records.len() as u32,
    };
    [&header.to_bytes()[..], &content].concat()
}

fn waking(at: u64, number: u16) -> Vec<u8> {
    let kind = EventKind::Waking { target: Tid(8), irq: 0, newborn: false, socket: None };
    made::encode(&event(at, 0, 7, kind), number)
}

fn stamps(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.at.ns()).collect()
}

/// A system call's argument can be any number, even a number that looks like a lost record.
#[test]
fn a_call_whose_argument_looks_like_a_lost_record_is_a_call() {
    let arg0 = u64::from(Kind::Current.number()) | 2 << 16 | 7 << 32;
    let call = Some(Call { number: 1005, arg0, lock: None });
    let out = SwitchOut::Blocked(BlockedState::Interruptible);
    let switch = event(1000, 0, 7, EventKind::Switch { next: Tid(8), out, interrupts_ns: 0, call });
    let bytes =
        packet(Buffer::Sched, (1000, 1020), &[made::encode(&switch, 0), waking(1010, 3), waking(1020, 4)]);
    let (losses, found, problems) = read("sched_0", &bytes);
    assert_eq!(problems, []);
    assert_eq!((&found[0], stamps(&found)), (&switch, vec![1000, 1010, 1020]));
    assert!(matches!(losses[..], [Event { kind: EventKind::Loss { count: 2, .. }, .. }]), "{losses:?}");
}

/// Behind meaningless bytes, the next record's number is near the last record's: damage that looks like a record has
/// an arbitrary number.
#[test]
fn behind_damage_the_next_record_has_a_number_that_is_near() {
    for (number, expected) in [(4096, &[1000, 1010, 1020][..]), (4097, &[1000])] {
        let records = [waking(1000, 0), vec![0; 24], waking(1010, number), waking(1020, number + 1)];
        let (losses, found, problems) = read("sched_0", &packet(Buffer::Sched, (1000, 1020), &records));
        assert_eq!(stamps(&found), expected, "{number}: {problems:?}");
        assert_eq!(losses.len(), 1, "{number}: {losses:?}");
    }
}

/// A stack with an understated frame count decodes well. The bytes left behind it are too few for a record, so its
/// length is wrong, whatever the packet's record count.
#[test]
fn a_last_record_that_leaves_too_few_bytes_for_another_one_is_damaged() {
    let stack = |at| {
        let (kernel, user) = ([1, 2].into(), [3].into());
        let stack = Stack { tgid: Tid(1000), kernel, user, scanned: 0, proved: 0 };
        made::encode(&event(at, 0, 7, EventKind::Sample(stack)), 0)
    };
    let (mut first, mut last) = (stack(1000), stack(1020));
    first[8] = 255;
    // Its frame counts: the user's, and all.
    last[22] = 0;
    last[28] = 2;
    let bytes = packet(Buffer::Life, (1000, 1020), &[first, stack(1010), last]);
    let (losses, found, problems) = read("life", &bytes);
    assert_eq!((stamps(&found), losses.len()), (vec![1010], 2), "{problems:?}");
    assert!(problems.iter().any(|problem| matches!(problem.fault, ReadFault::RecordEnd(_))), "{problems:?}");
}

//! Damaged streams: events, losses and problems, after each field in packets and records is changed a little, far, or
//! to a value that no writer writes: `damages.txt` has a line for each damage.
//!
//! `WAKEPATH_BLESS=1 cargo test -p wakepath-recording --test written damages` writes the lines anew; read the
//! difference before you keep it.

use std::fmt::Write as _;

use wakepath_event::{Event, EventKind};

use crate::damage::{boundaries, read, written};

/// A packet header's fields: name, place and size, bytes.
const OF_PACKET: [(&str, usize, usize); 10] = [
    ("magic", 0, 4),
    ("stream", 20, 4),
    ("begin", 24, 8),
    ("end", 32, 8),
    ("content", 40, 8),
    ("size", 48, 8),
    ("discarded", 56, 8),
    ("number", 64, 8),
    ("events", 72, 4),
    ("cpu", 76, 4),
];

/// A record header's fields.
const OF_RECORD: [(&str, usize, usize); 3] = [("stamp", 0, 8), ("kind", 8, 1), ("seq", 10, 2)];

/// Differences, and values.
const CHANGES: [(&str, i64); 6] =
    [("+1", 1), ("-1", -1), ("-1000", -1000), ("+1500", 1500), ("= 0", i64::MIN), ("= max", i64::MAX)];

/// The first record's stamp, ns.
const FIRST: u64 = 3_000_000_000_000;

fn changed(bytes: &[u8], (at, size): (usize, usize), change: i64) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    let mut number = [0; 8];
    number[..size].copy_from_slice(&bytes[at..at + size]);
    let number = match change {
        i64::MIN => 0,
        i64::MAX => u64::MAX,
        change => u64::from_le_bytes(number).wrapping_add_signed(change),
    };
    changed[at..at + size].copy_from_slice(&number.to_le_bytes()[..size]);
    changed
}

/// Writes a damaged stream's line.
fn line(name: &str, damage: &str, bytes: &[u8], events: &[Event], out: &mut String) {
    let (losses, found, problems) = read(name, bytes);
    let known = found.iter().filter(|event| events.contains(event)).count();
    let _ = write!(out, "{name} {damage}: {known} of {}", events.len());
    if found.len() > known {
        let _ = write!(out, ", {} others", found.len() - known);
    }
    for loss in losses {
        let EventKind::Loss { from, count, .. } = loss.kind else { continue };
        let [from, at] = [from, loss.at].map(|stamp| stamp.ns().cast_signed() - FIRST.cast_signed());
        let _ = write!(out, ", {count} lost from {from} to {at}");
    }
    for problem in problems {
        let _ = write!(out, "; {} at {}", problem.fault, problem.offset);
    }
    out.push('\n');
}

fn lines() -> String {
    let mut out = String::new();
    for (name, bytes, events) in written() {
        let (packets, ends) = boundaries(&bytes);
        let mut one = |damage: String, bytes: &[u8]| line(name, &damage, bytes, &events, &mut out);
        one("whole".to_owned(), &bytes);
        for (number, &packet) in packets[..packets.len() - 1].iter().enumerate() {
            for (field, at, size) in OF_PACKET {
                for (how, change) in CHANGES {
                    one(
                        format!("packet {number} {field} {how}"),
                        &changed(&bytes, (packet + at, size), change),
                    );
                }
            }
            let end = packets[number + 1];
            one(format!("packet {number} missing"), &[&bytes[..packet], &bytes[end..]].concat());
            one(format!("packet {number} twice"), &[&bytes[..end], &bytes[packet..]].concat());
            for more in [1, 3, 6, 9, 12, 15, 20, 30] {
                let damage = format!("packet {number} events +{more}, cut at 130");
                one(damage, &changed(&bytes[..packet + 130], (packet + 72, 4), more));
            }
            for cut in [10, 80, 90, 130] {
                one(format!("packet {number} cut at {cut}"), &bytes[..packet + cut]);
            }
        }
        let begins: Vec<_> = ends
            .iter()
            .scan(0, |before, &end| {
                let begin =
                    *before.max(&mut packets.iter().rev().find(|&&p| p + 80 < end).map_or(0, |p| p + 80));
                *before = end;
                Some(begin)
            })
            .collect();
        for number in [0, 1, 2, 6, 7, 8, 15, 16, 22, 23] {
            let (begin, end) = (begins[number], ends[number]);
            for (field, at, size) in OF_RECORD {
                for (how, change) in CHANGES {
                    one(
                        format!("record {number} {field} {how}"),
                        &changed(&bytes, (begin + at, size), change),
                    );
                }
            }
            // Two swapped stamps, and a packet that ends at either, or elsewhere.
            let packet = packets.iter().copied().filter(|&packet| packet < begin).max().unwrap_or(0);
            for more in [-1500, 1500] {
                for end in [-1500, -500, 200, 500, 1000, 1500] {
                    let swapped = changed(&changed(&bytes, (begin, 8), more), (packet + 32, 8), end);
                    one(format!("record {number} stamp {more:+}, packet end {end:+}"), &swapped);
                }
            }
            let (before, behind) = (&bytes[..begin], &bytes[end..]);
            one(format!("record {number} missing"), &[before, behind].concat());
            one(format!("record {number} zero"), &[before, &vec![0; end - begin], behind].concat());
        }
        // All bytes behind a record's header.
        for at in begins[2] + 16..ends[2] {
            one(format!("record 2 byte {} +1", at - begins[2]), &changed(&bytes, (at, 1), 1));
        }
    }
    out
}

#[test]
fn each_damage_costs_what_it_is_known_to_cost() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/written/damages.txt");
    let found = lines();
    if std::env::var_os("WAKEPATH_BLESS").is_some() {
        std::fs::write(&file, &found).expect("a writable file");
    }
    let expected = std::fs::read_to_string(&file).expect("the lines");
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

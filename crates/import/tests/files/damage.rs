//! A file's damaged variants, and their readings beside the whole file's.

use std::collections::BTreeMap;

use wakepath_event::{Damage, Event, EventKind, EventSource};
use wakepath_wait_graph::Builder;

use crate::lines::lines;

/// A file's contents, as far as an answer shows them.
pub struct Reading {
    /// Each event about threads, with its stamp, its CPU and its thread.
    numbers: BTreeMap<String, u32>,
    /// The reasons to doubt the numbers: damages, losses, CPUs without records, missing switches.
    marks: String,
}

impl Reading {
    pub fn new(file: &impl EventSource<Damage = Damage>) -> Self {
        let (mut builder, mut events) = (Builder::default(), Vec::<Event>::new());
        let damages = file.for_each(|event| {
            let last = events.last();
            assert!(last.is_none_or(|last| last.at <= event.at), "by time: {last:?}, then {event:?}");
            builder.push(event);
            events.push(event.clone());
        });
        let graph = builder.finish();
        let is_doubt = |kind: &EventKind| matches!(kind, EventKind::Loss { .. } | EventKind::Unrecorded);
        let doubts = events.iter().filter(|event| is_doubt(&event.kind));
        let doubts: Vec<_> = doubts.map(|event| format!("{} {:?}", event.cpu.0, event.kind)).collect();
        let counts = graph.counts();
        let marks = format!(
            "{damages:?} {doubts:?} {} switches missing, {} stamps back",
            counts.missing_switches, counts.inversions
        );
        events.retain(|event| !is_doubt(&event.kind));
        let mut numbers = BTreeMap::new();
        // Names are no numbers.
        for line in
            lines(&events).into_iter().filter(|line| line.contains(" to ") || line.contains(" wakes "))
        {
            *numbers.entry(line).or_default() += 1;
        }
        Self { numbers, marks }
    }

    /// A number beyond the other reading's.
    fn beyond<'a>(&'a self, other: &Self) -> Option<&'a str> {
        let mut beyond =
            self.numbers.iter().filter(|(line, count)| other.numbers.get(*line).unwrap_or(&0) < count);
        beyond.next().map(|(line, _)| &**line)
    }
}

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// The end is missing.
    Cut,
    /// Bytes in the middle are missing.
    Removed,
    /// A block holds the same byte everywhere, as on a bad disk: 0 or 255.
    Filled,
    /// A block holds other bytes from the same file, as after a write to a wrong place.
    Moved,
    /// Some bytes have other values.
    Flipped,
}

pub const HARMS: [Harm; 5] = [Harm::Cut, Harm::Removed, Harm::Filled, Harm::Moved, Harm::Flipped];

/// Random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// The file, damaged somewhere from byte `from` on.
pub fn harmed(file: &[u8], from: usize, harm: Harm, random: &mut Random) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let at = from + random.below(file.len() - from);
    let block = at..file.len().min(at + 64 + random.below(448));
    match harm {
        Harm::Cut => bytes.truncate(at),
        Harm::Removed => drop(bytes.drain(block)),
        Harm::Filled => bytes[block].fill([0, 0xff][random.below(2)]),
        Harm::Moved => {
            let other = random.below(file.len() - block.len());
            bytes.copy_within(other..other + block.len(), block.start);
        }
        Harm::Flipped => {
            for _ in 0..1 + random.below(3) {
                let at = from + random.below(bytes.len() - from);
                bytes[at] = random.below(256) as u8;
            }
        }
    }
    bytes
}

/// The variants with a kind of damage, by their readings.
#[derive(Debug, Default)]
pub struct Tally {
    pub refused: u32,
    pub same: u32,
    pub marked: u32,
    /// A number is not the whole file's, and nothing says so: variant and number.
    pub invented: Vec<String>,
    /// Some numbers are missing, and nothing says so.
    pub missed: Vec<String>,
}

/// Reads 2,000 variants; `read` gives an error for a refusal.
pub fn tally(
    file: &[u8],
    from: usize,
    read: impl Fn(&[u8]) -> Result<Reading, String>,
) -> Vec<(Harm, Tally)> {
    let whole = read(file).expect("a whole file");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let each = |harm| {
        let mut tally = Tally::default();
        for number in 0..400 {
            let bytes = harmed(file, from, harm, &mut random);
            match read(&bytes) {
                Err(_) => tally.refused += 1,
                Ok(part) => match (part.beyond(&whole), whole.beyond(&part)) {
                    (None, None) => tally.same += 1,
                    _ if part.marks != whole.marks => tally.marked += 1,
                    (Some(line), _) => tally.invented.push(format!("{number}: {line}")),
                    (None, Some(line)) => tally.missed.push(format!(
                        "{number}: {line}, {} of {} lines",
                        part.numbers.len(),
                        whole.numbers.len()
                    )),
                },
            }
        }
        (harm, tally)
    };
    HARMS.map(each).into()
}

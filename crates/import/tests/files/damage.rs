//! Damaged variants of a file, and their readings beside that of the whole file.

use std::collections::HashMap;

use wakepath_event::{Damage, EventKind, EventSource};
use wakepath_wait_graph::Builder;

use crate::lines::lines;

/// A file's contents, as far as an answer shows them.
pub struct Reading {
    /// Each event about threads, with its stamp, its CPU and its thread.
    numbers: HashMap<String, u32>,
    /// All that makes an answer doubt its numbers: damages, losses, CPUs without records, missing switches.
    marks: String,
}

impl Reading {
    pub fn new(file: &impl EventSource<Damage = Damage>) -> Self {
        let (mut builder, mut events, mut last) = (Builder::default(), Vec::new(), 0);
        let damages = file.for_each(|event| {
            assert!(event.at.ns() >= last, "by time");
            last = event.at.ns();
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
        let mut numbers = HashMap::new();
        for line in lines(&events) {
            *numbers.entry(line).or_default() += 1;
        }
        Self { numbers, marks }
    }

    /// A number that only one of both has.
    fn differs<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let only = |one: &'a Self, other: &Self| {
            one.numbers.iter().find(|(line, count)| other.numbers.get(*line) != Some(count)).map(|(line, _)| &**line)
        };
        only(self, other).or_else(|| only(other, self))
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
    /// Other bytes of the same file stand in a block, as after a write to a wrong place.
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

/// The file with this kind of damage somewhere from byte `from` on.
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

/// What became of the variants with a kind of damage.
#[derive(Debug, Default)]
pub struct Tally {
    pub refused: u32,
    pub same: u32,
    pub marked: u32,
    /// A number differs, and nothing says so: the seeds of these variants with the number.
    pub unmarked: Vec<String>,
}

/// Reads 2,000 variants of a file; `read` gives an error for a refusal.
pub fn tally(file: &[u8], from: usize, read: impl Fn(&[u8]) -> Result<Reading, String>) -> Vec<(Harm, Tally)> {
    let whole = read(file).expect("a whole file");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let each = |harm| {
        let mut tally = Tally::default();
        for number in 0..400 {
            let bytes = harmed(file, from, harm, &mut random);
            match read(&bytes) {
                Err(_) => tally.refused += 1,
                Ok(part) => match part.differs(&whole) {
                    None => tally.same += 1,
                    Some(_) if part.marks != whole.marks => tally.marked += 1,
                    Some(number_) => tally.unmarked.push(format!("{number}: {number_}")),
                },
            }
        }
        (harm, tally)
    };
    HARMS.map(each).into()
}

//! Loses records, like a recorder that cannot keep up.

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Cpu, Event, EventKind, LostRecords};

/// A recorder's knowledge about a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossReport {
    /// The CPU and the number of records: each CPU has a counting buffer.
    Counted,
    /// The CPU alone: the number is not known.
    Uncounted,
    /// The number alone: all CPUs share a buffer.
    WithoutCpu,
}

impl LossReport {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Counted, Self::Uncounted, Self::WithoutCpu];
}

/// A recorder's buffer.
#[derive(Debug, Clone, Copy)]
struct Buffer {
    cpu: Cpu,
    /// Its last record's stamp.
    last: Stamp<Local>,
    /// The number of records missing since then.
    missing: u64,
}

/// The events without the records that `lost` picks by index, and with the losses that a recorder reports: a loss
/// reaches from the record before a buffer's gap to the record behind it. The buffers' counts at the start and the end
/// are known too, so the first and the last record may be missing. Records outside the buffers are not lost.
pub fn lose(events: &[Event], report: LossReport, lost: impl Fn(usize) -> bool) -> Vec<Event> {
    let buffers = events.iter().map(|event| match report {
        _ if event.cpu == Cpu::UNKNOWN => None,
        LossReport::Counted | LossReport::Uncounted => Some((usize::from(event.cpu.0), event.cpu)),
        LossReport::WithoutCpu => Some((0, Cpu::UNKNOWN)),
    });
    lose_from(events, buffers, report, lost)
}

/// The same with a given buffer for each event: its number and CPU; `None` for an event outside all buffers.
pub fn lose_from(
    events: &[Event],
    buffers: impl Iterator<Item = Option<(usize, Cpu)>>,
    report: LossReport,
    lost: impl Fn(usize) -> bool,
) -> Vec<Event> {
    let mut kept = Vec::with_capacity(events.len());
    let mut all: Vec<Option<Buffer>> = Vec::new();
    let loss = |buffer: &Buffer, event: &Event| {
        let count = if report == LossReport::Uncounted { 0 } else { buffer.missing };
        Event {
            cpu: buffer.cpu,
            kind: EventKind::Loss { from: buffer.last, count, records: LostRecords::Any },
            ..event.clone()
        }
    };
    for (number, (event, buffer)) in events.iter().zip(buffers).enumerate() {
        let Some((buffer, cpu)) = buffer else {
            kept.push(event.clone());
            continue;
        };
        if buffer >= all.len() {
            all.resize(buffer + 1, None);
        }
        let buffer = all[buffer].get_or_insert(Buffer { cpu, last: Stamp::MIN, missing: 0 });
        if lost(number) {
            buffer.missing += 1;
            continue;
        }
        if buffer.missing > 0 {
            kept.push(loss(buffer, event));
        }
        (buffer.last, buffer.missing) = (event.at, 0);
        kept.push(event.clone());
    }
    if let Some(end) = kept.pop() {
        let open = all.iter().flatten().filter(|buffer| buffer.missing > 0);
        kept.extend(open.map(|buffer| loss(buffer, &end)));
        kept.push(end);
    }
    kept
}

//! Losses: a recorder that drops some events.

use wakepath_clock::Stamp;
use wakepath_event::{Cpu, Event, EventKind};

/// The events without those that `lost` picks by number, and with the losses that a recorder reports which
/// counts the records of each CPU's buffer: a loss goes from the record before a gap to the one after it.
/// Counts at the start and the end are known too, so that the first and the last may be missing. Records
/// beside the buffers are not lost.
pub fn lose(events: &[Event], lost: impl Fn(usize) -> bool) -> Vec<Event> {
    let mut kept = Vec::with_capacity(events.len());
    // By CPU: the stamp of its last record, how many are missing since.
    let mut cpus: Vec<(Stamp<_>, u64)> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        if event.cpu == Cpu::UNKNOWN {
            kept.push(event.clone());
            continue;
        }
        let cpu = usize::from(event.cpu.0);
        if cpu >= cpus.len() {
            cpus.resize(cpu + 1, (Stamp::MIN, 0));
        }
        let (last, missing) = &mut cpus[cpu];
        if lost(number) {
            *missing += 1;
            continue;
        }
        if *missing > 0 {
            let what = EventKind::Loss { from: *last, count: *missing };
            kept.push(Event { kind: what, ..event.clone() });
        }
        (*last, *missing) = (event.at, 0);
        kept.push(event.clone());
    }
    if let Some(end) = kept.pop() {
        for (cpu, (last, missing)) in cpus.into_iter().enumerate() {
            if missing > 0 {
                let what = EventKind::Loss { from: last, count: missing };
                kept.push(Event { cpu: Cpu(cpu as u16), kind: what, ..end.clone() });
            }
        }
        kept.push(end);
    }
    kept
}

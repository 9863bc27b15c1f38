//! Events as lines, and files with other bytes.

use wakepath_event::{Context, Cpu, Damage, Event, EventKind, EventSource};
use wakepath_import::OpenError;

/// A file's events, and its damages.
pub fn events(file: &impl EventSource<Damage = Damage>) -> (Vec<Event>, Vec<Damage>) {
    let mut events = Vec::new();
    let damages = file.for_each(|event| events.push(event.clone()));
    assert!(events.is_sorted_by_key(|event| event.at), "by time");
    (events, damages)
}

/// Reads an arbitrary file; returns the number of events, and the damages.
pub fn survives(
    file: Result<impl EventSource<Damage = Damage>, OpenError>,
) -> Result<(usize, Vec<Damage>), String> {
    let file = file.map_err(|error| error.to_string())?;
    let (mut events, mut last) = (0, 0);
    let damages = file.for_each(|event| {
        assert!(event.at.ns() >= last, "by time");
        (events, last) = (events + 1, event.at.ns());
    });
    Ok((events, damages))
}

/// A line for each event about threads: stamp, CPU, thread, kind.
pub fn lines(events: &[Event]) -> Vec<String> {
    let told = events.iter().filter_map(|event| {
        let what = match &event.kind {
            EventKind::Switch { next, out, .. } => format!("to {} {out:?}", next.0),
            EventKind::Waking { target, newborn, .. } => {
                format!("wakes {}{}", target.0, if *newborn { ", born" } else { "" })
            }
            EventKind::Thread { identity: it, .. } => {
                format!("is {:?} {} of {}, child of {}", it.comm, it.tid, it.tgid, it.parent)
            }
            EventKind::Fork { child: it } => format!("bears {:?} {} of {}", it.comm, it.tid, it.tgid),
            EventKind::Exec { comm, path, .. } => {
                format!("executes {comm:?} {}", String::from_utf8_lossy(path))
            }
            EventKind::Loss { from, count, .. } => format!("lost {count} since {}", from.ns()),
            EventKind::Rename { tid, comm } => format!("names {tid} {comm:?}"),
            EventKind::Exit => "exits".to_owned(),
            EventKind::Sample(stack) => {
                format!("at {:x?} from {:x?} of {}", stack.kernel, stack.user, stack.tgid)
            }
            EventKind::StackOf(_) => "from there".to_owned(),
            _ => return None,
        };
        let context = if event.context == Context::Task { "" } else { " interrupted" };
        let place = match event.cpu {
            Cpu::UNKNOWN => "somewhere".to_owned(),
            cpu => format!("cpu{} {}{context}", cpu.0, event.current),
        };
        Some(format!("{} {place} {what}", event.at.ns()))
    });
    told.collect()
}

/// The lines with a word.
pub fn lines_with(events: &[Event], word: &str) -> Vec<String> {
    lines(events).into_iter().filter(|line| line.contains(word)).collect()
}

/// The same bytes, except at this place.
pub fn changed(bytes: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    [&bytes[..at], with, &bytes[at + with.len()..]].concat()
}

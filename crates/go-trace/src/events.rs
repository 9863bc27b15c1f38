//! A generation's events, by thread.

use std::collections::HashMap;

use crate::cursor::Cursor;
use crate::generation::{Batch, Fault, Generation};

/// By event kind from [`FIRST_EVENT`] on, the number of arguments, the stamp's distance included.
const ARGUMENTS: [u8; 40] = [
    3, 3, 1, 4, 3, // processors: their number; start, stop, steal, status
    4, 2, 3, 1, 1, 3, 3, 4, 3, 1, 1, 4, // goroutines, from creation to status
    3, 1, // the world stops and goes on
    2, 3, 2, 2, 2, 3, 2, 2, 1, 2, 2, // memory
    2, 5, 3, 4, 4, 5, // labels, tasks, regions, logs
    3, 3, 4, 5, // switches between coroutines, goroutines that begin blocked, status with a stack
];
const FIRST_EVENT: u8 = 9;
/// The most arguments in an event.
const MAX_ARGUMENTS: usize = 5;

/// An event with its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) stamp: u64,
    pub(crate) kind: EventKind,
}

/// The events that change a goroutine's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The running goroutine starts another, whose first function is in the stack `began_in`.
    Create {
        goroutine: u64,
        began_in: u64,
    },
    /// Another language's thread begins to run a goroutine.
    Enter(u64),
    Start {
        goroutine: u64,
        count: u64,
    },
    /// The running goroutine ends.
    Destroy,
    /// The running goroutine goes back into a queue; after a system call its processor was gone.
    Stop,
    Block {
        reason: u64,
        stack: u64,
    },
    Unblock {
        goroutine: u64,
        count: u64,
        stack: u64,
    },
    /// The running goroutine hands its thread to another coroutine, and ends if `ends`.
    Switch {
        goroutine: u64,
        count: u64,
        ends: bool,
    },
    /// The thread runs the goroutine, or the goroutine's system call, since the generation's beginning.
    Running {
        goroutine: u64,
        thread: u64,
    },
    /// An event without an effect.
    Nothing,
}

impl EventKind {
    /// The event's goroutine, and the number of such events about it in this generation, with this event.
    pub(crate) const fn count(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Start { goroutine, count }
            | Self::Unblock { goroutine, count, .. }
            | Self::Switch { goroutine, count, .. } => Some((goroutine, count)),
            _ => None,
        }
    }
}

/// A thread's events.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) thread: u64,
    pub(crate) events: Vec<Event>,
}

/// A status in a status event.
const RUNNING: u64 = 2;
const IN_SYSTEM_CALL: u64 = 3;

/// All threads' events, in the order in which the threads appear.
///
/// # Errors
/// At an unknown event.
pub(crate) fn streams(generation: &Generation<'_>) -> Result<Vec<Stream>, Fault> {
    let (mut streams, mut places): (Vec<Stream>, HashMap<u64, usize>) = (Vec::new(), HashMap::new());
    for batch in &generation.batches {
        let place = *places.entry(batch.thread).or_insert(streams.len());
        if place == streams.len() {
            streams.push(Stream { thread: batch.thread, events: Vec::new() });
        }
        read(batch, &mut streams[place].events)?;
    }
    Ok(streams)
}

/// Adds a batch's events.
fn read(batch: &Batch<'_>, events: &mut Vec<Event>) -> Result<(), Fault> {
    let mut cursor = Cursor::new(batch.bytes, 0);
    let mut stamp = batch.stamp;
    while !cursor.is_at_end() {
        let at = batch.at + cursor.offset();
        let (after, kind) = event(&mut cursor).ok_or(Fault::Record { at })?;
        stamp = stamp.saturating_add(after);
        match (kind, events.last_mut()) {
            // Only the last of them counts, for its stamp.
            (EventKind::Nothing, Some(last)) if last.kind == EventKind::Nothing => last.stamp = stamp,
            _ => events.push(Event { stamp, kind }),
        }
    }
    Ok(())
}

/// The distance from the event before, and the event.
fn event(cursor: &mut Cursor<'_>) -> Option<(u64, EventKind)> {
    let number = cursor.byte()?;
    let count = *ARGUMENTS.get(usize::from(number.checked_sub(FIRST_EVENT)?))?;
    let mut arguments = [0; MAX_ARGUMENTS];
    for argument in arguments.iter_mut().take(usize::from(count)) {
        *argument = cursor.number()?;
    }
    let [after, a, b, c, _] = arguments;
    let kind = match number {
        // A goroutine that begins blocked is made ready by a switch.
        14 | 47 => EventKind::Create { goroutine: a, began_in: b },
        15 => EventKind::Enter(a),
        16 => EventKind::Start { goroutine: a, count: b },
        17 | 18 => EventKind::Destroy,
        19 | 24 => EventKind::Stop,
        20 => EventKind::Block { reason: a, stack: b },
        21 => EventKind::Unblock { goroutine: a, count: b, stack: c },
        25 | 48 if matches!(c, RUNNING | IN_SYSTEM_CALL) => EventKind::Running { goroutine: a, thread: b },
        45 | 46 => EventKind::Switch { goroutine: a, count: b, ends: number == 46 },
        _ => EventKind::Nothing,
    };
    Some((after, kind))
}

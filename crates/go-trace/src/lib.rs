//! Go's execution trace: goroutines' steps, from the bytes that a Go program wrote about itself.
//!
//! Since Go 1.22 the runtime writes this format (its documentation is the reader in Go's own tree, `internal/trace`). A trace has a generation about
//! once a second, complete in itself: events in batches, each by a single thread, and tables with strings and stacks.
//!
//! * The stamps are `CLOCK_MONOTONIC` divided by 64, everywhere on Linux. A generation says the stamps' frequency, and since Go 1.25 also a stamp
//!   beside the clock's time. A trace by another clock is refused.
//! * A thread's events are in order. Several threads' events are merged by time; where the trace's own counters for a goroutine contradict the
//!   times, the counters decide, and the delayed step gets the time at which it is due ([`Trace::latest_ns`]).
//! * No size is believed: memory grows with the bytes that are there. A damaged generation is left out, and so is the rest behind it.

mod cursor;
mod events;
mod generation;
mod merge;
mod reasons;
mod steps;
#[cfg(test)]
mod synthetic;

pub use generation::Fault;

use generation::Generations;
use reasons::Reasons;
use steps::Machine;

/// Every trace's first bytes.
const MAGIC: &[u8] = b"go 1.";
/// The header's length, bytes.
pub const HEADER_BYTES: usize = 16;
/// The versions of the format: Go 1.22 began it, and later versions of Go keep the number until they change it.
const VERSIONS: std::ops::RangeInclusive<u32> = 22..=26;
/// The ns in a unit of the stamps.
const UNIT_NS: u64 = 64;

/// A trace's steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The format's version: 26 for Go 1.26.
    pub version: u32,
    /// The first event's time, ns.
    pub from_ns: u64,
    /// The last event's time, ns.
    pub to_ns: u64,
    /// The steps, by time.
    pub steps: Vec<Step>,
    /// The reasons for which goroutines park, by their number in [`StepKind::Parks`], as Go's runtime names them elsewhere.
    pub reasons: Vec<String>,
    /// A step's longest delay, ns: it was due after another thread's step with a later stamp.
    pub latest_ns: u64,
    /// The fault that ended the reading; the generations before it are whole.
    pub fault: Option<Fault>,
}

/// A goroutine's step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The time by `CLOCK_MONOTONIC`, ns.
    pub at_ns: u64,
    /// The thread that took the step, by the number that its own PID namespace gives it.
    pub thread: u32,
    /// The goroutine's number in its process.
    pub goroutine: u64,
    /// The address at which the goroutine's first function begins, or 0 if its start is not in the trace.
    pub began_in: u64,
    /// The step.
    pub kind: StepKind,
}

/// Goroutines' steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// The thread was running the goroutine when the trace began. The thread may have been in a system call, without a CPU.
    Found,
    /// The thread runs the goroutine from here on. At the first run, the goroutine that started it; otherwise 0.
    Runs(u64),
    /// The goroutine waits from here on, for this reason.
    Parks(u8),
    /// The goroutine may run again. This goroutine made it ready, or 0 if the scheduler did.
    Ready(u64),
    /// The thread ran the goroutine, which goes back into a queue.
    Yields,
    /// The thread ran the goroutine, which ended.
    Ends,
}

/// Why a trace cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("it is no execution trace of Go")]
    NoTrace,
    #[error("it is by Go 1.{0}; execution traces by Go 1.22 to 1.26 can be read")]
    Version(u32),
    #[error("nothing in it is whole: {0}")]
    Damaged(Fault),
    #[error("it has no events")]
    Empty,
}

/// Whether these bytes begin like an execution trace of Go.
pub fn is_trace(bytes: &[u8]) -> bool {
    version(bytes).is_some()
}

/// Reads a trace.
///
/// # Errors
/// When it is no trace, of an unknown version, by another clock than `CLOCK_MONOTONIC`, or damaged in its first generation.
pub fn read(bytes: &[u8]) -> Result<Trace, Error> {
    let version = version(bytes).ok_or(Error::NoTrace)?;
    if !VERSIONS.contains(&version) {
        return Err(Error::Version(version));
    }
    let mut generations = Generations::new(bytes, HEADER_BYTES, version);
    let (mut machine, mut reasons) = (Machine::default(), Reasons::default());
    let mut fault = None;
    loop {
        let decoded = generations.next().and_then(|generation| {
            let Some(generation) = generation else { return Ok(None) };
            let streams = events::streams(&generation)?;
            Ok(Some((generation, streams)))
        });
        match decoded {
            Ok(Some((generation, streams))) => machine.take(&generation, streams, &mut reasons),
            Ok(None) => break,
            Err(found) => {
                fault = Some(found);
                break;
            }
        }
    }
    let Some((from, to)) = machine.extent else {
        return Err(fault.map_or(Error::Empty, Error::Damaged));
    };
    let ns = |stamp: u64| stamp.saturating_mul(UNIT_NS);
    Ok(Trace {
        version,
        from_ns: ns(from),
        to_ns: ns(to),
        steps: machine.steps,
        reasons: reasons.names,
        latest_ns: ns(machine.latest),
        fault,
    })
}

/// The version in a header: `go 1.26 trace` and three zero bytes.
fn version(bytes: &[u8]) -> Option<u32> {
    let rest = bytes.get(..HEADER_BYTES)?.strip_prefix(MAGIC)?;
    let (number, rest) = rest.split_at_checked(2)?;
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    (rest == b" trace\0\0\0").then_some(number)
}

#[cfg(test)]
mod tests;

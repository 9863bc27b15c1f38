//! The calls of a function that were recorded: how long they took, and what those of a peak waited for.

use std::collections::HashSet;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Algorithm, Window};
use wakepath_distribution::{Histogram, Peak, Unit, bucket_of, peaks};
use wakepath_event::CallEnd;

use crate::path::explain;
use crate::{Name, PathAnswer, Question, Recorded};

/// Which calls are asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct CallsQuery {
    /// Of which function, as it was recorded; `None`: of the only one.
    pub target: Option<String>,
    /// Which of its calls.
    pub which: Which,
    /// How paths are made.
    pub algorithm: Algorithm,
}

/// Which calls of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those of a peak, from 1 on as the histogram numbers them.
    Peak(usize),
    /// Those that took longer than so many ns.
    Above(u64),
    /// So many that took longest.
    Slowest(usize),
}

/// Some calls, explained.
#[derive(Debug)]
pub struct Group<'r> {
    /// How many calls were asked about.
    pub calls: u64,
    /// Their paths: of all of them, or of [`MOST`] evenly chosen ones.
    pub paths: Vec<PathAnswer<'r>>,
}

/// Most calls of a group whose paths are made.
pub const MOST: usize = 2000;

/// What the calls of a function came to.
#[derive(Debug)]
pub struct CallsAnswer<'r> {
    /// The function, as it was asked for.
    pub target: Name,
    /// How long its calls took, of those that returned.
    pub histogram: Histogram,
    /// The peaks of that.
    pub peaks: Vec<Peak>,
    /// Calls that were left without returning.
    pub left: u64,
    /// Calls that had not ended.
    pub open: u64,
    /// The calls that were asked about.
    pub asked: Group<'r>,
    /// Which ones.
    pub which: Which,
    /// Those of the peak with the most calls, but for those that were asked about; and that peak, from 1 on.
    pub usual: Option<(usize, Group<'r>)>,
}

/// Why calls cannot be explained.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CallsError {
    #[error("no calls were recorded")]
    NothingAsked,
    #[error("no calls of `{asked}` were recorded, but of {there}")]
    NoTarget { asked: String, there: String },
    #[error("calls of several functions were recorded: {there}")]
    Several { there: String },
    #[error("`{target}` was called, but no call returned")]
    NoneReturned { target: String },
    #[error("there is no peak {asked}: the histogram has {there}")]
    NoPeak { asked: usize, there: usize },
    #[error("no call took that long; the longest took {longest_ns} ns")]
    NoneAbove { longest_ns: u64 },
}

/// A call that returned.
#[derive(Debug, Clone, Copy)]
struct Call {
    window: Window,
    ns: u64,
}

/// What the calls that are asked about waited for, beside the usual ones.
///
/// # Errors
/// When no such calls were recorded.
pub fn calls<'r>(recorded: &'r Recorded, query: &CallsQuery) -> Result<CallsAnswer<'r>, CallsError> {
    let (number, target) = target(recorded, query.target.as_deref())?;
    let (mut left, mut open) = (0, 0);
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    let mut all = Vec::new();
    for (to, call) in recorded.survey.calls.iter().filter(|(_, call)| call.target == number) {
        match call.end {
            CallEnd::Returned => {
                let ns = to.ns().saturating_sub(call.from.ns());
                histogram.add(ns);
                let (from, to) = (reference(call.from), reference(*to));
                // A number may have been several threads': the one that lived then.
                let lived = |index: &&_| {
                    let thread = recorded.graph.thread(**index);
                    thread.first <= to && from <= thread.last
                };
                let threads = recorded.with_tid(call.thread);
                if let Some(&thread) = threads.iter().rfind(lived).or(threads.last()) {
                    all.push(Call { window: Window { thread, from, to }, ns });
                }
            }
            CallEnd::Left => left += 1,
            CallEnd::Open => open += 1,
        }
    }
    if all.is_empty() {
        return Err(CallsError::NoneReturned { target: shown(&target) });
    }
    let peaks = peaks(&histogram);
    let asked = asked(&all, &peaks, query.which)?;
    let main = (0..peaks.len()).max_by_key(|&peak| peaks[peak].count);
    let usual = main.and_then(|main| {
        let key = |call: &Call| (call.window.thread, call.window.from, call.window.to);
        let asked: HashSet<_> = asked.iter().map(key).collect();
        let of_main = all.iter().filter(|call| within(call, &peaks[main]));
        let usual: Vec<Call> = of_main.filter(|call| !asked.contains(&key(call))).copied().collect();
        (!usual.is_empty()).then(|| (main + 1, group(recorded, &usual, query.algorithm)))
    });
    let asked = group(recorded, &asked, query.algorithm);
    Ok(CallsAnswer { target, histogram, peaks, left, open, asked, which: query.which, usual })
}

fn reference(at: Stamp<Local>) -> Stamp<Reference> {
    at.on_reference_host()
}

/// A name in an error: it comes from a recording.
fn shown(name: &Name) -> String {
    name.bytes().escape_ascii().to_string()
}

fn target(recorded: &Recorded, asked: Option<&str>) -> Result<(u32, Name), CallsError> {
    let targets: Vec<_> = recorded.survey.names.targets().collect();
    let there = || {
        let names: Vec<_> = targets.iter().map(|(_, name)| format!("`{}`", shown(name))).collect();
        names.join(", ")
    };
    match (targets.as_slice(), asked) {
        ([], _) => Err(CallsError::NothingAsked),
        (all, Some(asked)) => {
            let fits = |name: &Name| {
                let name = shown(name);
                name == asked || name.rsplit_once(':').is_some_and(|(_, function)| function == asked)
            };
            let found = all.iter().find(|(_, name)| fits(name));
            let found = found.ok_or_else(|| CallsError::NoTarget { asked: asked.to_owned(), there: there() });
            found.map(|&(number, name)| (number, name.clone()))
        }
        (&[(number, name)], None) => Ok((number, name.clone())),
        (_, None) => Err(CallsError::Several { there: there() }),
    }
}

fn within(call: &Call, peak: &Peak) -> bool {
    (peak.from_bucket..=peak.to_bucket).contains(&bucket_of(call.ns))
}

fn asked(all: &[Call], peaks: &[Peak], which: Which) -> Result<Vec<Call>, CallsError> {
    match which {
        Which::Peak(number) => {
            let peak = number.checked_sub(1).and_then(|index| peaks.get(index));
            let peak = peak.ok_or(CallsError::NoPeak { asked: number, there: peaks.len() })?;
            Ok(all.iter().filter(|call| within(call, peak)).copied().collect())
        }
        Which::Above(ns) => {
            let found: Vec<Call> = all.iter().filter(|call| call.ns > ns).copied().collect();
            let longest_ns = all.iter().map(|call| call.ns).max().unwrap_or(0);
            if found.is_empty() { Err(CallsError::NoneAbove { longest_ns }) } else { Ok(found) }
        }
        Which::Slowest(most) => {
            let mut sorted = all.to_vec();
            sorted.sort_by_key(|call| std::cmp::Reverse(call.ns));
            sorted.truncate(most.max(1));
            Ok(sorted)
        }
    }
}

fn group<'r>(recorded: &'r Recorded, calls: &[Call], algorithm: Algorithm) -> Group<'r> {
    let step = calls.len().div_ceil(MOST).max(1);
    let paths = calls.iter().step_by(step);
    let paths = paths.map(|call| explain(recorded, algorithm, call.window, Question::Thread));
    Group { calls: calls.len() as u64, paths: paths.collect() }
}

#[cfg(test)]
mod tests {
    use wakepath_event::{FunctionCall, Mark, NameSpace, SwitchOut, Tid, What};

    use super::*;
    use crate::testing::{event, read, thread};

    /// A thread that runs all the time, and calls of two functions: `f` 20 times for 100 ns and twice for
    /// 10 and 20 µs, left once; `g`, which never returned.
    fn recorded() -> Recorded {
        let run = What::Switch { next: Tid(10), out: SwitchOut::Runnable, interrupts_ns: 0, call: None };
        let mut events = vec![
            event(0, 0, 0, thread(10, 10, 1, "worker")),
            event(0, 0, 0, What::Name(NameSpace::Target, 0, b"./app:f".as_slice().into())),
            event(0, 0, 0, What::Name(NameSpace::Target, 1, b"./app:g".as_slice().into())),
            event(1, 0, 0, What::Mark(Mark::Started)),
            event(2, 0, 0, run),
        ];
        let mut call = |target, from: u64, to, end| {
            let call = FunctionCall { target, thread: Tid(10), from: Stamp::from_ns(from), end };
            events.push(event(to, 0, 10, What::Function(call)));
        };
        for i in 0..20 {
            call(0, 1000 * i + 500, 1000 * i + 600, CallEnd::Returned);
        }
        call(0, 30_000, 40_000, CallEnd::Returned);
        call(0, 50_000, 70_000, CallEnd::Returned);
        call(0, 80_000, 80_500, CallEnd::Left);
        call(1, 90_000, 99_000, CallEnd::Open);
        events.push(event(100_000, 0, 10, What::Mark(Mark::Stopped)));
        read(&events)
    }

    fn ask(target: Option<&str>, which: Which) -> CallsQuery {
        CallsQuery { target: target.map(str::to_owned), which, algorithm: Algorithm::Active }
    }

    #[test]
    fn calls_are_asked_for_by_peak_by_length_or_by_rank() {
        let recorded = recorded();
        for (which, lengths) in [
            (Which::Slowest(1), &[20_000][..]),
            (Which::Slowest(2), &[20_000, 10_000]),
            (Which::Above(10_000), &[20_000]),
            (Which::Above(9_999), &[10_000, 20_000]),
            (Which::Peak(1), &[100; 20]),
        ] {
            let answer = calls(&recorded, &ask(Some("f"), which)).expect("calls");
            let found: Vec<u64> = answer.asked.paths.iter().map(PathAnswer::window_ns).collect();
            assert_eq!(found, lengths, "{which:?}");
            assert_eq!((answer.left, answer.open, answer.histogram.calls()), (1, 0, 22), "{which:?}");
            // Beside the peak itself there are no usual calls of it.
            let usual = answer.usual.as_ref().map(|(peak, group)| (*peak, group.calls));
            assert_eq!(usual, (which != Which::Peak(1)).then_some((1, 20)), "{which:?}");
        }
    }

    #[test]
    fn what_was_not_recorded_is_said_with_what_was() {
        let recorded = recorded();
        for (target, which, expected) in [
            (None, Which::Slowest(1), "calls of several functions were recorded: `./app:f`, `./app:g`"),
            (Some("h"), Which::Slowest(1), "no calls of `h` were recorded, but of `./app:f`, `./app:g`"),
            (Some("./app:g"), Which::Slowest(1), "`./app:g` was called, but no call returned"),
            (Some("f"), Which::Peak(9), "there is no peak 9: the histogram has 1"),
            (Some("f"), Which::Peak(0), "there is no peak 0: the histogram has 1"),
            (Some("f"), Which::Above(20_000), "no call took that long; the longest took 20000 ns"),
        ] {
            let error = calls(&recorded, &ask(target, which)).expect_err(expected);
            assert_eq!(error.to_string(), expected);
        }
    }
}

//! A function's recorded calls: their latencies, and the waits in a peak's calls.

mod functions;
mod goroutines;
mod stacks;

use std::collections::HashSet;
use std::sync::OnceLock;

use wakepath_critical_path::{Algorithm, NoHandOvers, Window};
use wakepath_distribution::{Histogram, Peak, Unit, bucket_of, peaks};
use wakepath_event::CallEnd;
use wakepath_findings::{CallCause, CallPlace, CallsFindings, CauseTree, Evidence, PerGroup, merged_tree};
use wakepath_goroutines::{GoWindow, NoCalls};

use crate::code_names::code_names;
use crate::path::{answer, path_with};
use crate::paths_head::PathsHead;
use crate::requests::goroutine::path_of_windows;
use crate::requests::{Parked, Traced};
use crate::{CodeNames, Head, Name, PathAnswer, Question, Recorded};
use goroutines::CallGoroutines;
pub use goroutines::{Ender, EndersRequest};
pub use stacks::{FunctionStacks, function_stacks};

/// A question about calls.
#[derive(Debug, Clone, PartialEq)]
pub struct CallsQuery {
    /// The function, by its recorded name; `None`: the only function with recorded calls.
    pub target: Option<String>,
    /// The selection of its calls.
    pub which: Which,
    /// The algorithm for paths.
    pub algorithm: Algorithm,
}

/// A selection of a function's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The calls in a peak, from 1 on as the histogram numbers them.
    Peak(usize),
    /// The calls longer than this, ns.
    Above(u64),
    /// The calls longer than the first time, and at most as long as the second, ns.
    Between(u64, u64),
    /// This many calls, the longest first.
    Slowest(usize),
    /// All calls.
    All,
}

/// The kind of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallsOf {
    /// A function's calls.
    Function,
    /// An operation's requests.
    Operation,
    /// The waits in a function whose calls are not known.
    Waits,
}

/// Some calls, explained.
#[derive(Debug)]
pub struct Group<'r> {
    /// The selected calls; more than the paths if there are more than [`MAX_CALLS`].
    pub calls: u64,
    /// Their paths, for at most [`MAX_CALLS`] calls from the whole range.
    pub paths: Vec<PathAnswer<'r>>,
}

/// The most paths in a group.
pub const MAX_CALLS: usize = 2000;

/// The answer about a function's calls.
#[derive(Debug)]
pub struct CallsAnswer<'r> {
    /// The explained calls' losses and problems.
    pub head: Head,
    /// Whether these are calls or requests.
    pub of: CallsOf,
    /// The recorded function, or the operation.
    pub target: Name,
    /// Its returned calls' latencies.
    pub histogram: Histogram,
    /// Calls without a return: an exception, `longjmp` or their thread's end unwound them.
    pub unwound: u64,
    /// Calls without an end in the recording.
    pub open: u64,
    /// Calls by unknown goroutines that returned in another thread: they are in the histogram, and have no path.
    pub moved: u64,
    /// Later calls are not recorded: the function's probes were removed this long after the recording's beginning, ns.
    pub unprobed_after: Option<u64>,
    /// Whether goroutines made them.
    pub of_goroutines: bool,
    /// The explained calls, usual calls included, with their goroutine's path. Other goroutines' calls have their thread's path: while a
    /// goroutine waits, its thread runs others, so a wait there may not belong to the call.
    pub followed: u64,
    /// The time in which the selected and explained calls' goroutines did not run, the most first.
    pub parked: Vec<Parked<Ender>>,
    /// The selected calls.
    pub asked: Group<'r>,
    /// The selection.
    pub which: Which,
    /// The other calls in the peak with the most calls, and this peak's number, from 1 on. `None` in its place: the calls come
    /// from another recording.
    pub usual: Option<(Option<usize>, Group<'r>)>,
    /// Made on first use.
    pub(crate) findings: OnceLock<CallsFindings>,
}

impl<'r> CallsAnswer<'r> {
    /// The call at a place.
    pub fn call(&self, CallPlace { is_asked, place }: CallPlace) -> Option<&PathAnswer<'r>> {
        let group = if is_asked { Some(&self.asked) } else { self.usual.as_ref().map(|(_, usual)| usual) };
        group?.paths.get(place)
    }
}

impl CallsAnswer<'_> {
    /// Findings about the calls.
    pub fn findings(&self) -> &CallsFindings {
        self.findings.get_or_init(|| CallsFindings::new(&self.evidence()))
    }

    /// The findings' causes, each with its example's evidence, which gives names.
    pub fn causes(&self) -> impl Iterator<Item = (&CallCause, Evidence<'_>)> {
        let causes = self.findings().causes.iter();
        causes.filter_map(|cause| Some((cause, self.call(cause.example.0)?.evidence())))
    }

    /// These calls' cause tree, beside the usual calls.
    pub fn tree(&self) -> CauseTree {
        merged_tree(&self.evidence())
    }

    /// The evidence for findings about the calls.
    pub fn evidence(&self) -> PerGroup<Vec<Evidence<'_>>> {
        let usual = self.usual.iter().flat_map(|(_, group)| &group.paths);
        PerGroup {
            asked: self.asked.paths.iter().map(PathAnswer::evidence).collect(),
            usual: usual.map(PathAnswer::evidence).collect(),
        }
    }
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
    #[error(
        "no path is that of these calls of `{target}`: they returned in another thread than they began in \
         (goroutines), as {moved} calls of it did"
    )]
    Moved { target: String, moved: u64 },
    #[error("`{target}` was called, but no call returned: {unwound} were unwound, {open} had not ended")]
    NoneReturned { target: String, unwound: u64, open: u64 },
    #[error("there is no peak {asked}: the histogram has {there}")]
    NoPeak { asked: usize, there: usize },
    #[error("no call took that long; the longest took {longest_ns} ns")]
    NoneAbove { longest_ns: u64 },
    #[error("no call took between {above_ns} and {to_ns} ns")]
    NoneBetween { above_ns: u64, to_ns: u64 },
}

/// Explains the selected calls, and compares them with the usual calls. `traced` maps requests to their goroutines.
///
/// # Errors
/// When no such calls were recorded.
pub fn calls<'r>(
    recorded: &'r Recorded,
    traced: Option<&Traced>,
    query: &CallsQuery,
) -> Result<CallsAnswer<'r>, CallsError> {
    let (number, target) = target(recorded, query.target.as_deref())?;
    let (mut unwound, mut open, mut moved, mut longest_moved) = (0, 0, 0, 0);
    let goroutines = CallGoroutines::new(recorded, traced);
    let mut of_goroutines = false;
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    let mut all = Vec::new();
    for (to, call) in recorded.survey.calls.iter().filter(|(_, call)| call.target == number) {
        let (from, to) = (call.from.on_reference_host(), to.on_reference_host());
        match call.end {
            CallEnd::Returned | CallEnd::Stayed => {
                of_goroutines |= call.end == CallEnd::Stayed;
                histogram.add(to.since(from));
                let thread = recorded.thread_between(call.thread, from, to);
                all.extend(thread.map(|thread| Window { thread, from, to }));
            }
            CallEnd::Moved => {
                histogram.add(to.since(from));
                of_goroutines = true;
                // The window lies in the returning thread.
                let window = recorded.thread_between(call.thread, to, to);
                let window = window.map(|thread| Window { thread, from, to });
                match window.filter(|window| goroutines.of(window).is_some()) {
                    Some(window) => all.push(window),
                    None => {
                        moved += 1;
                        longest_moved = longest_moved.max(to.since(from));
                    }
                }
            }
            CallEnd::Unwound => unwound += 1,
            CallEnd::Open => open += 1,
        }
    }
    let only_moved = || CallsError::Moved { target: shown(&target), moved };
    if all.is_empty() {
        let none_returned = CallsError::NoneReturned { target: shown(&target), unwound, open };
        return Err(if moved > 0 { only_moved() } else { none_returned });
    }
    let peaks = peaks(&histogram);
    let asked = match (asked(&all, &peaks, query.which), query.which) {
        (Ok(asked), _) if asked.is_empty() => return Err(only_moved()),
        (Err(CallsError::NoneAbove { .. }), Which::Above(ns)) if longest_moved > ns => {
            return Err(only_moved());
        }
        (Err(CallsError::NoneBetween { .. }), Which::Between(ns, _)) if longest_moved > ns => {
            return Err(only_moved());
        }
        (asked, _) => asked?,
    };
    let mut names = code_names(recorded);
    let goroutines = if of_goroutines { goroutines } else { CallGoroutines::default() };
    let main = (0..peaks.len()).max_by_key(|&peak| peaks[peak].count);
    let usual = main.and_then(|main| {
        let asked: HashSet<_> = asked.iter().collect();
        let of_main = all.iter().filter(|call| within(call, &peaks[main]));
        let usual: Vec<Window> = of_main.filter(|call| !asked.contains(call)).copied().collect();
        (!usual.is_empty()).then(|| {
            let (usual, followed) = group(recorded, &usual, &goroutines, query.algorithm, &mut names);
            ((Some(main + 1), usual), followed.len())
        })
    });
    let (usual, usual_followed) = usual.unzip();
    let (asked, followed) = group(recorded, &asked, &goroutines, query.algorithm, &mut names);
    let parked = goroutines.parked(recorded, &followed, &mut names);
    let head = head_of(recorded, &asked, usual.as_ref().map(|(_, usual)| usual));
    let of = CallsOf::Function;
    Ok(CallsAnswer {
        head,
        of,
        target,
        histogram,
        unwound,
        open,
        moved,
        unprobed_after: recorded.unprobed_after(number),
        of_goroutines,
        followed: (followed.len() + usual_followed.unwrap_or(0)) as u64,
        parked,
        asked,
        which: query.which,
        usual,
        findings: OnceLock::new(),
    })
}

/// These calls' losses and problems, each once.
pub(crate) fn head_of(recorded: &Recorded, asked: &Group<'_>, usual: Option<&Group<'_>>) -> Head {
    let mut head = PathsHead::default();
    let usual = usual.into_iter().flat_map(|usual| &usual.paths);
    asked.paths.iter().chain(usual).for_each(|path| head.add(path));
    head.finish(recorded)
}

/// A recorded name, escaped for an error.
fn shown(name: &Name) -> String {
    name.bytes().escape_ascii().to_string()
}

/// Whether calls were recorded to a function with this name.
pub fn has_calls_of(recorded: &Recorded, name: &str) -> bool {
    target(recorded, Some(name)).is_ok()
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

fn within(call: &Window, peak: &Peak) -> bool {
    (peak.from_bucket..=peak.to_bucket).contains(&bucket_of(call.length()))
}

fn asked(all: &[Window], peaks: &[Peak], which: Which) -> Result<Vec<Window>, CallsError> {
    match which {
        Which::Peak(number) => {
            let peak = number.checked_sub(1).and_then(|index| peaks.get(index));
            let peak = peak.ok_or(CallsError::NoPeak { asked: number, there: peaks.len() })?;
            Ok(all.iter().filter(|call| within(call, peak)).copied().collect())
        }
        Which::Above(ns) => {
            let found: Vec<_> = all.iter().filter(|call| call.length() > ns).copied().collect();
            let longest_ns = all.iter().map(Window::length).max().unwrap_or(0);
            if found.is_empty() { Err(CallsError::NoneAbove { longest_ns }) } else { Ok(found) }
        }
        Which::Between(above_ns, to_ns) => {
            let is_between = |call: &&Window| call.length() > above_ns && call.length() <= to_ns;
            let found: Vec<_> = all.iter().filter(is_between).copied().collect();
            if found.is_empty() { Err(CallsError::NoneBetween { above_ns, to_ns }) } else { Ok(found) }
        }
        Which::Slowest(most) => {
            let mut sorted = all.to_vec();
            sorted.sort_by_key(|call| std::cmp::Reverse(call.length()));
            sorted.truncate(most.max(1));
            Ok(sorted)
        }
        Which::All => Ok(all.to_vec()),
    }
}

fn group<'r>(
    recorded: &'r Recorded,
    calls: &[Window],
    goroutines: &CallGoroutines,
    algorithm: Algorithm,
    names: &mut CodeNames<'r>,
) -> (Group<'r>, Vec<GoWindow>) {
    let mut followed = Vec::new();
    let paths = spread(calls.len()).map(|index| calls[index]);
    let paths = paths.map(|window| {
        let of_goroutine = goroutines.of(&window);
        let path = of_goroutine
            .and_then(|window| path_of_windows(recorded, &goroutines.all, &[window], algorithm, &NoCalls));
        match path {
            Some(found) => {
                followed.extend(of_goroutine);
                answer(recorded, found.path, Question::Thread, names)
            }
            None => {
                let path = path_with(&recorded.graph, window, algorithm, &NoHandOvers);
                answer(recorded, path, Question::Thread, names)
            }
        }
    });
    let paths = paths.collect();
    (Group { calls: calls.len() as u64, paths }, followed)
}

/// At most [`MAX_CALLS`] out of this many calls: a call from each equally long stretch. Its place differs from stretch
/// to stretch, since calls often come in periods, such as a transaction's statements.
pub(crate) fn spread(calls: usize) -> impl Iterator<Item = usize> {
    let step = calls.div_ceil(MAX_CALLS).max(1);
    (0..calls).step_by(step).map(move |from| {
        // The finaliser of a 64-bit hash (Steele, Lea and Flood 2014): the same calls each time.
        let mut mixed = (from as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let length = step.min(calls - from) as u64;
        from + ((mixed ^ mixed >> 31) % length) as usize
    })
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_event::{Event, EventKind, FunctionCall, Mark, NameSpace, SwitchOut, Tid};

    use super::*;
    use wakepath_loaded::testing::{event, read, thread};

    /// A thread that runs all the time, and its calls of these functions: `others`, and 20 calls of the first function
    /// for 100 ns.
    fn recorded(functions: &[&str], others: &[(u32, u64, u64, CallEnd)]) -> Recorded {
        read(&events_of(functions, others))
    }

    fn events_of(functions: &[&str], others: &[(u32, u64, u64, CallEnd)]) -> Vec<Event> {
        let run = EventKind::Switch { next: Tid(10), out: SwitchOut::Runnable, interrupts_ns: 0, call: None };
        let mut events = vec![
            event(0, 0, 0, thread(10, 10, 1, "worker")),
            event(1, 0, 0, EventKind::Mark(Mark::Started)),
            event(2, 0, 0, run),
        ];
        let name =
            |(number, name): (u64, &&str)| EventKind::Name(NameSpace::Target, number, name.as_bytes().into());
        events.splice(1..1, (0..).zip(functions).map(|function| event(0, 0, 0, name(function))));
        let usual = (0..20).map(|i| (0, 1000 * i + 500, 1000 * i + 600, CallEnd::Returned));
        events.extend(usual.chain(others.iter().copied()).map(|(target, from, to, end)| {
            let call = FunctionCall { target, thread: Tid(10), from: Stamp::from_ns(from), end };
            event(to, 0, 10, EventKind::Function(call))
        }));
        events.push(event(100_000, 0, 10, EventKind::Mark(Mark::Stopped)));
        events
    }

    const FUNCTIONS: [&str; 2] = ["./app:f", "./app:g"];

    /// `f` also takes 10 and 20 µs, and is unwound once; `g` never returns.
    const OTHERS: [(u32, u64, u64, CallEnd); 4] = [
        (0, 30_000, 40_000, CallEnd::Returned),
        (0, 50_000, 70_000, CallEnd::Returned),
        (0, 80_000, 80_500, CallEnd::Unwound),
        (1, 90_000, 99_000, CallEnd::Open),
    ];

    #[test]
    fn calls_are_recorded_until_their_functions_probes_are_removed() {
        let unprobed = |target| event(0, 0, 0, EventKind::Mark(Mark::Unprobed(target)));
        let after = |marks: &[(u64, u32)]| {
            let mut events = events_of(&FUNCTIONS, &OTHERS);
            let marks = marks.iter().map(|&(at, target)| event(at, 0, 0, unprobed(target).kind));
            events.extend(marks);
            events.sort_by_key(|event| event.at);
            let recorded = read(&events);
            calls(&recorded, None, &ask(Some("f"), Which::All)).expect("calls").unprobed_after
        };
        // The recording begins at 1.
        assert_eq!(after(&[]), None);
        assert_eq!(after(&[(5_000, 1)]), None);
        assert_eq!(after(&[(5_000, 1), (8_000, 0)]), Some(7_999));
        // Before all was attached.
        assert_eq!(after(&[(0, 0)]), Some(0));
    }

    fn ask(target: Option<&str>, which: Which) -> CallsQuery {
        CallsQuery { target: target.map(str::to_owned), which, algorithm: Algorithm::Active }
    }

    #[test]
    fn calls_are_asked_for_by_peak_by_length_or_by_rank() {
        let recorded = recorded(&FUNCTIONS, &OTHERS);
        for (which, lengths) in [
            (Which::Slowest(1), &[20_000][..]),
            (Which::Slowest(2), &[20_000, 10_000]),
            (Which::Above(10_000), &[20_000]),
            (Which::Above(9_999), &[10_000, 20_000]),
            (Which::Between(9_999, 10_000), &[10_000]),
            (Which::Between(9_999, 19_999), &[10_000]),
            (Which::Between(10_000, 20_000), &[20_000]),
            (Which::Peak(1), &[100; 20]),
            (Which::All, &[[100; 20].as_slice(), &[10_000, 20_000]].concat()),
        ] {
            let answer = calls(&recorded, None, &ask(Some("f"), which)).expect("calls");
            let found: Vec<u64> = answer.asked.paths.iter().map(PathAnswer::window_ns).collect();
            assert_eq!(found, lengths, "{which:?}");
            assert_eq!((answer.unwound, answer.open, answer.histogram.calls()), (1, 0, 22), "{which:?}");
            // The selected peak has no other calls.
            let usual = answer.usual.as_ref().map(|(peak, group)| (*peak, group.calls));
            assert_eq!(
                usual,
                (!matches!(which, Which::Peak(1) | Which::All)).then_some((Some(1), 20)),
                "{which:?}"
            );
        }
    }

    #[test]
    fn a_peak_has_its_first_bucket_and_its_last_one() {
        let longer: Vec<_> =
            (0..12).map(|i| (0, 30_000 + 1000 * i, 30_150 + 1000 * i, CallEnd::Returned)).collect();
        let recorded = recorded(&["./app:f"], &longer);
        let answer = calls(&recorded, None, &ask(None, Which::Peak(1))).expect("calls");
        let found: Vec<u64> = answer.asked.paths.iter().map(PathAnswer::window_ns).collect();
        assert_eq!(found, [[100; 20].as_slice(), &[150; 12]].concat());
        let error = calls(&recorded, None, &ask(None, Which::Peak(2))).expect_err("there is one").to_string();
        assert_eq!(error, "there is no peak 2: the histogram has 1");
    }

    #[test]
    fn calls_that_ended_in_another_thread_are_counted_and_have_no_path() {
        let moved: Vec<_> = (0..20).map(|i| (0, 30_000, 50_000 + i, CallEnd::Moved)).collect();
        let recorded = recorded(&["./app:main.f"], &moved);
        let answer = calls(&recorded, None, &ask(None, Which::Slowest(30))).expect("calls");
        assert_eq!((answer.histogram.calls(), answer.moved, answer.asked.calls), (40, 20, 20));
        for which in [Which::Peak(2), Which::Above(10_000)] {
            let error = calls(&recorded, None, &ask(None, which)).expect_err("they have no path").to_string();
            assert!(error.contains("in another thread than they began in"), "{which:?}: {error}");
        }
        for above in [20_019, 25_000] {
            let error =
                calls(&recorded, None, &ask(None, Which::Above(above))).expect_err("none is").to_string();
            assert!(error.contains("no call took that long"), "{error}");
        }
    }

    #[test]
    fn the_calls_of_a_goroutine_say_so_wherever_they_ended() {
        for (end, of_goroutines, with_path) in [
            (CallEnd::Moved, true, 20),
            (CallEnd::Stayed, true, 21),
            (CallEnd::Returned, false, 21),
            (CallEnd::Unwound, false, 20),
            (CallEnd::Open, false, 20),
        ] {
            // A goroutine's call to another function does not count here.
            let of_other = (1, 30_000, 50_000, CallEnd::Stayed);
            let recorded = recorded(&FUNCTIONS, &[(0, 30_000, 50_000, end), of_other]);
            let answer = calls(&recorded, None, &ask(Some("f"), Which::All)).expect("calls");
            assert_eq!((answer.of_goroutines, answer.asked.calls), (of_goroutines, with_path), "{end:?}");
        }
    }

    #[test]
    fn a_function_of_which_every_call_moved_has_no_path() {
        let recorded = recorded(&FUNCTIONS, &[(1, 30_000, 50_000, CallEnd::Moved)]);
        let error =
            calls(&recorded, None, &ask(Some("g"), Which::Slowest(1))).expect_err("none is").to_string();
        assert!(error.ends_with("(goroutines), as 1 calls of it did"), "{error}");
        assert!(has_calls_of(&recorded, "g") && has_calls_of(&recorded, "./app:f"));
        assert!(!has_calls_of(&recorded, "h"));
    }

    #[test]
    fn a_sample_of_many_calls_has_each_kind_however_regularly_they_come() {
        for calls in [0, 1, 1999, 2000, 2001, 14_000, 99_999] {
            let taken: Vec<usize> = spread(calls).collect();
            assert!(
                taken.len() <= MAX_CALLS && taken.len() >= calls.min(MAX_CALLS / 2),
                "{} of {calls}",
                taken.len()
            );
            assert!(taken.is_sorted_by(|a, b| a < b) && taken.iter().all(|&index| index < calls), "{calls}");
        }
        let first: Vec<usize> = spread(14_000).take(12).collect();
        assert_eq!(first, [2, 9, 19, 23, 32, 41, 47, 49, 57, 65, 76, 82], "the same ones each time");
        // Seven statements a transaction, a seventh of all calls taken: about as many for each statement.
        let mut of_kind = [0; 7];
        spread(14_000).for_each(|index| of_kind[index % 7] += 1);
        // 286 each; four standard deviations of a fair draw are 63.
        assert!(of_kind.iter().all(|&count: &i32| (count - 286).abs() <= 63), "{of_kind:?}");
    }

    #[test]
    fn what_was_not_recorded_is_said_with_what_was() {
        let recorded = recorded(&FUNCTIONS, &OTHERS);
        for (target, which, expected) in [
            (None, Which::Slowest(1), "calls of several functions were recorded: `./app:f`, `./app:g`"),
            (Some("h"), Which::Slowest(1), "no calls of `h` were recorded, but of `./app:f`, `./app:g`"),
            (
                Some("./app:g"),
                Which::Slowest(1),
                "`./app:g` was called, but no call returned: 0 were unwound, 1 had not ended",
            ),
            (Some("f"), Which::Peak(9), "there is no peak 9: the histogram has 1"),
            (Some("f"), Which::Peak(0), "there is no peak 0: the histogram has 1"),
            (Some("f"), Which::Above(20_000), "no call took that long; the longest took 20000 ns"),
        ] {
            let error = calls(&recorded, None, &ask(target, which)).expect_err(expected);
            assert_eq!(error.to_string(), expected);
        }
    }
}

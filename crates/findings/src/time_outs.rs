//! Waits ended early, by time-outs or alike: the thread for which joined waits waited, and the readings with more or fewer joins.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_critical_path::{Algorithm, JoinedSum, Path, Timeouts};
use wakepath_loaded::{CallName, Recorded};
use wakepath_wait_graph::ThreadIndex;

use crate::headline::{LargestPart, largest_part};
use crate::{Blames, Evidence, Row, RowKey, rows};

/// The thread for which a window's own thread waited, through time-outs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The thread that ended the waits.
    pub thread: ThreadIndex,
    /// The system call of the first timed-out wait.
    pub call: Option<CallName>,
    /// The total time of waits for this thread, ns.
    pub ns: u64,
}

/// The thread with the most joined time; `None` if no wait was joined.
pub(crate) fn awaited(evidence: &Evidence<'_>) -> Option<Awaited> {
    let own = || evidence.waits().map(|(_, wait)| wait).filter(|wait| wait.depth == 0);
    let mut times: BTreeMap<ThreadIndex, u64> = BTreeMap::new();
    for wait in own().filter(|wait| wait.timed_out) {
        *times.entry(wait.ended_by?).or_default() += wait.to.since(wait.from);
    }
    let (thread, _) = times.into_iter().max_by_key(|&(thread, ns)| (ns, Reverse(thread)))?;
    let all = || own().filter(|wait| wait.ended_by == Some(thread));
    let ns = all().map(|wait| wait.to.since(wait.from)).sum();
    let call = all().find(|wait| wait.timed_out).and_then(|wait| evidence.recorded.wait_call(wait));
    Some(Awaited { thread, call, ns })
}

/// A window's readings: waits ended early are several waits, or went on.
#[derive(Debug)]
pub struct Readings {
    /// The first screen's reading.
    pub path: Path,
    /// The reading with proved joins only, if the first screen's has more.
    pub if_not_joined: Option<(Path, JoinedSum)>,
    /// A path with further joins.
    pub if_joined: Option<(Path, JoinedSum)>,
}

/// The readings of a window whose path has only proved joins; `by` makes its path by another choice.
pub fn readings(recorded: &Recorded, path: Path, by: impl Fn(Timeouts) -> Path) -> Readings {
    let (path, if_not_joined) = match joined_in_slices(recorded, &path, &by) {
        Some((joined, sum)) => (joined, Some((path, sum))),
        None => (path, None),
    };
    let if_joined = joined_if_alike(&path, by);
    Readings { path, if_not_joined, if_joined }
}

/// The path with slices joined too, and their sum, where the first screen should give this reading: above
/// [`MIN_SHARE`], and the headline differs.
fn joined_in_slices(
    recorded: &Recorded,
    path: &Path,
    by: impl Fn(Timeouts) -> Path,
) -> Option<(Path, JoinedSum)> {
    let window = path.window.length();
    if path.algorithm != Algorithm::Joined || !is_large(path.unjoined.in_slices.ns, window) {
        return None;
    }
    let joined = by(Timeouts::JoinedInSlices);
    let sum = path.unjoined.in_slices;
    // The places in the code decide no row.
    let (stacks, sampled) = Default::default();
    let evidence = |path| Evidence { recorded, path, stacks: &stacks, sampled: &sampled };
    let (first, other) = (evidence(path), evidence(&joined));
    let first_rows = rows(&first);
    let differs = || {
        other_reading(largest_part(&first, &first_rows).as_ref(), &first_rows, &other, sum, false).is_some()
    };
    differs().then_some((joined, sum))
}

/// A path with all waits joined after which the thread may have gone on, and the sum over these; `None` below 1% of the window, or if another choice was asked for.
fn joined_if_alike(path: &Path, by: impl Fn(Timeouts) -> Path) -> Option<(Path, JoinedSum)> {
    let is_asked = matches!(path.algorithm, Algorithm::Joined | Algorithm::JoinedInSlices);
    let is_worth = |ns: u64| ns > 0 && ns >= path.window.length() / 100;
    if !is_asked || !is_worth(path.unjoined.alike.ns) {
        return None;
    }
    let joined = by(Timeouts::JoinedIfAlike);
    let more = path.unjoined.alike;
    Some((joined, more))
}

/// A headline's second reading: waits ended early went on in the next wait, or none did.
#[derive(Debug, Clone)]
pub struct OtherReading {
    /// The waits joined in only a single reading.
    pub timed_out: JoinedSum,
    /// This reading joins them, and the headline's does not.
    pub joins: bool,
    /// Its path's rows.
    pub rows: Vec<(RowKey, Row)>,
    /// The blamed part.
    pub largest: LargestPart,
}

/// With a larger share of the window, waits after which the thread may have gone on give a headline a second reading.
const MIN_SHARE: f64 = 0.1;

fn is_large(ns: u64, window_ns: u64) -> bool {
    ns as f64 > window_ns as f64 * MIN_SHARE
}

/// The second reading of a headline that blames `first`, a part of `first_rows`; `None` if little timed out, or if
/// it blames the same for the same time within 1% of the window.
pub(crate) fn other_reading(
    first: Option<&LargestPart>,
    first_rows: &[(RowKey, Row)],
    other: &Evidence<'_>,
    timed_out: JoinedSum,
    joins: bool,
) -> Option<OtherReading> {
    let window = other.window_ns();
    if !is_large(timed_out.ns, window) {
        return None;
    }
    let rows = rows(other);
    let largest = largest_part(other, &rows)?;
    let is_same = |first: &LargestPart| {
        first.ns.abs_diff(largest.ns) <= window / 100
            && blame_the_same(
                (first_rows.get(first.row), &first.blames),
                (rows.get(largest.row), &largest.blames),
            )
    };
    if first.is_some_and(is_same) {
        return None;
    }
    Some(OtherReading { timed_out, joins, rows, largest })
}

/// A row, and the first thing to name in a sentence about it.
type BlamedRow<'a> = (Option<&'a (RowKey, Row)>, &'a Blames);

/// Whether two readings blame the same thing.
fn blame_the_same((first, first_blames): BlamedRow<'_>, (second, second_blames): BlamedRow<'_>) -> bool {
    let (Some((key, row)), Some((other_key, other_row))) = (first, second) else { return false };
    let is_one = match (first_blames, second_blames) {
        // The row of the window's last wait says the same.
        (Blames::Key | Blames::LastWait, Blames::Key | Blames::LastWait) => true,
        (Blames::Awaited(one), Blames::Awaited(other)) => {
            (one.thread, &one.call) == (other.thread, &other.call)
        }
        (Blames::Doers(one), Blames::Doers(other)) => one == other,
        _ => false,
    };
    let is_one_process = !matches!(key, RowKey::Process(..)) || row.processes == other_row.processes;
    let is_one_object =
        !matches!(key, RowKey::TimedOut(_)) || row.timed_out_object() == other_row.timed_out_object();
    key == other_key && is_one && is_one_process && is_one_object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Certainty;
    use crate::testing::{FUTEX, Story, call, disk};
    use wakepath_critical_path::{Cause, SegmentKind, Via, WaitId, active_by};

    #[test]
    fn the_awaited_thread_is_the_one_for_which_most_timed_out() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let [short, long] = [8, 9].map(|tid| story.thread(tid, 7, b"holder", 7));
        let mut wait = |by, ns, number, timed_out| {
            let wait = story.wait(ns, own, None, call(number, 3), Via::Lock, by);
            story.waits[wait.0 as usize].timed_out = timed_out;
            story.then(ns, by, Some(wait), SegmentKind::Running, Cause::None);
        };
        wait(short, 40, FUTEX, true);
        wait(long, 500, 7, false);
        wait(long, 30, FUTEX, true);
        wait(long, 20, FUTEX, true);
        wait(short, 9, 7, true);
        let story = story.finish();
        let found = awaited(&story.evidence()).expect("waits that timed out");
        assert_eq!((found.thread, found.ns, found.call.map(|call| call.number)), (long, 550, Some(FUTEX)));
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        story.then(5, own, None, SegmentKind::BlockDevice, disk(false));
        assert_eq!(awaited(&story.finish().evidence()), None);
    }

    #[test]
    fn only_waits_of_the_windows_own_thread_are_for_an_awaited_thread() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let [holder, third, fourth] = [8, 9, 10].map(|tid| story.thread(tid, 7, b"holder", 7));
        let timed_out = |story: &mut Story, wait: WaitId| story.waits[wait.0 as usize].timed_out = true;
        // The holder polls meanwhile.
        for _ in 0..2 {
            let wait = story.wait(60, own, None, call(FUTEX, 3), Via::Lock, holder);
            timed_out(&mut story, wait);
            let inner = story.wait(50, holder, Some(wait), call(7, 3), Via::Wakeup, third);
            timed_out(&mut story, inner);
            story.then(50, third, Some(inner), SegmentKind::Running, Cause::None);
            story.then(10, holder, Some(wait), SegmentKind::Running, Cause::None);
        }
        // The third thread polls longer for another thread, and waits for the holder without a time-out.
        let wait = story.wait(500, own, None, call(0, 3), Via::Wakeup, third);
        for (ns, by, number) in [(400, fourth, 7), (100, holder, FUTEX)] {
            let inner = story.wait(ns, third, Some(wait), call(number, 3), Via::Wakeup, by);
            if number == 7 {
                timed_out(&mut story, inner);
            }
            story.then(ns, by, Some(inner), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let found = awaited(&story.evidence()).expect("waits that timed out");
        assert_eq!((found.thread, found.ns, found.call.map(|call| call.number)), (holder, 120, Some(FUTEX)));
    }

    #[test]
    fn the_first_thread_is_the_awaited_one_of_two_alike() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let [first, second] = [8, 9].map(|tid| story.thread(tid, 7, b"holder", 7));
        for by in [second, first] {
            let wait = story.wait(30, own, None, call(FUTEX, 3), Via::Lock, by);
            story.waits[wait.0 as usize].timed_out = true;
            story.then(30, by, Some(wait), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        assert_eq!(awaited(&story.evidence()).map(|found| found.thread), Some(first));
    }

    #[test]
    fn time_outs_are_joined_where_they_take_a_hundredth_of_the_window() {
        let trace = wakepath_scenario::text::parse(
            "thread own tid=7
             thread other tid=8
             0 c0 idle switch own
             10 c0 own switch idle blocked call=7:0x1000
             20 c0 idle/timer waking own
             20 c0 idle switch own
             21 c0 own switch idle blocked call=7:0x1000
             30 c0 idle switch other
             31 c0 other waking own
             31 c0 other switch own
             2000 c0 own switch idle",
        );
        let recorded = wakepath_loaded::testing::read(&trace.expect("a trace").events);
        let by = |from: u64, to: u64, timeouts| {
            let [from, to] = [from, to].map(wakepath_clock::Stamp::from_ns);
            let window = wakepath_critical_path::Window { thread: ThreadIndex(0), from, to };
            let path = active_by(&recorded.graph, window, timeouts);
            joined_if_alike(&path, |timeouts| active_by(&recorded.graph, window, timeouts))
                .map(|(path, sum)| (path.algorithm, sum.waits, sum.ns))
        };
        let found = [31, 1099, 1100].map(|to| by(0, to, Timeouts::Joined));
        assert_eq!(found[0], Some((Algorithm::JoinedIfAlike, 1, 10)));
        assert_eq!((found[1], found[2]), (found[0], None));
        assert_eq!(by(0, 31, Timeouts::AsTheyAre), None, "that was not asked for");
        assert_eq!(by(31, 60, Timeouts::Joined), None, "no time-out");
    }

    #[test]
    fn readings_are_the_same_where_they_blame_one_thing_however_it_is_worded() {
        use crate::{Doers, Expected};
        use wakepath_event::{Comm, Tid};
        use wakepath_loaded::Object;

        let app = Comm::new(b"app");
        let row = |object: &str, process| {
            let object = Some(Object::File(object.into()));
            let mut row = Row::default();
            row.calls.insert(CallName { number: 7, object }, crate::Waits { count: 1, ns: 5 });
            row.processes.insert(Tid(process));
            row
        };
        let doers = |name: &[u8]| {
            Blames::Doers(Doers {
                names: vec![Comm::new(name)],
                processes: [Tid(7)].into(),
                threads: 1,
                main: None,
                in_turn: false,
            })
        };
        let awaited = |thread, number| {
            Blames::Awaited(Awaited {
                thread: ThreadIndex(thread),
                call: Some(CallName { number, object: None }),
                ns: u64::from(thread),
            })
        };
        let (ran, timed_out) = (RowKey::Running(app), RowKey::TimedOut(Expected::Input));
        let db = RowKey::Process(Comm::new(b"db"), None);
        let same = |one: (&RowKey, Row, Blames), other: (&RowKey, Row, Blames)| {
            let pair = |(key, row, _): &(&RowKey, Row, Blames)| ((*key).clone(), row.clone());
            let rows = [pair(&one), pair(&other)];
            blame_the_same((Some(&rows[0]), &one.2), (Some(&rows[1]), &other.2))
        };
        let a = || row("a", 7);
        assert!(same((&ran, a(), Blames::Key), (&ran, row("b", 8), Blames::Key)), "its calls say no more");
        // Both are worded `running`.
        let other = RowKey::Running(Comm::new(b"other"));
        assert!(!same((&ran, a(), Blames::Key), (&other, a(), Blames::Key)));
        // The first is worded `this wait`, the second by its row.
        let still = RowKey::StillWaiting;
        assert!(same((&still, a(), Blames::LastWait), (&still, a(), Blames::Key)));
        assert!(!same((&ran, a(), Blames::Key), (&ran, a(), doers(b"app"))));
        assert!(same((&ran, a(), doers(b"app")), (&ran, a(), doers(b"app"))));
        assert!(!same((&ran, a(), doers(b"app")), (&ran, a(), doers(b"gzip"))));
        assert!(same((&ran, a(), awaited(3, FUTEX)), (&ran, a(), awaited(3, FUTEX))));
        assert!(!same((&ran, a(), awaited(3, FUTEX)), (&ran, a(), awaited(4, FUTEX))));
        assert!(!same((&ran, a(), awaited(3, FUTEX)), (&ran, a(), awaited(3, 7))));
        assert!(!same((&ran, a(), awaited(3, FUTEX)), (&ran, a(), doers(b"app"))));
        assert!(!same((&db, row("a", 20), Blames::Key), (&db, row("a", 21), Blames::Key)));
        assert!(same((&db, row("a", 20), Blames::Key), (&db, row("b", 20), Blames::Key)));
        assert!(!same((&timed_out, a(), Blames::Key), (&timed_out, row("b", 7), Blames::Key)));
        assert!(same((&timed_out, a(), Blames::Key), (&timed_out, row("a", 8), Blames::Key)));
    }

    #[test]
    fn the_other_reading_is_given_from_a_tenth_of_the_window_on_and_where_it_differs() {
        // A tries to get something that B gives it after 1000 ns; each try waits 300 ns at most.
        let trace = |end: u64| {
            format!(
                "thread A tid=10
                 thread B tid=11 tgid=10
                 0 c0 idle started
                 0 c0 idle switch A
                 0 c1 idle switch B
                 5 c1 B switch idle blocked call=230:0
                 10 c0 A switch idle blocked call=7:0x10
                 310 c0 idle/timer waking A
                 310 c0 idle switch A
                 320 c0 A switch idle blocked call=7:0x10
                 620 c0 idle/timer waking A
                 620 c0 idle switch A
                 630 c0 A switch idle blocked call=7:0x10
                 990 c1 idle/timer waking B
                 990 c1 idle switch B
                 1000 c1 B waking A
                 1000 c0 idle switch A
                 {end} c0 A stopped"
            )
        };
        // The two time-outs take 600 ns.
        for (end, is_given) in [(5_900, true), (6_000, false), (6_100, false)] {
            let events = wakepath_scenario::text::parse(&trace(end)).expect("a trace").events;
            let recorded = wakepath_loaded::testing::read(&events);
            let [from, to] = [0, end].map(wakepath_clock::Stamp::from_ns);
            let window = wakepath_critical_path::Window { thread: ThreadIndex(0), from, to };
            let path = active_by(&recorded.graph, window, Timeouts::Joined);
            let (path, sum) = joined_if_alike(&path, |timeouts| active_by(&recorded.graph, window, timeouts))
                .expect("time-outs");
            let (stacks, sampled) = Default::default();
            let evidence = Evidence { recorded: &recorded, path: &path, stacks: &stacks, sampled: &sampled };
            let of_path = rows(&evidence);
            let place = |wanted: &RowKey| of_path.iter().position(|(key, _)| key == wanted).expect("a row");
            let blame = |row, ns| LargestPart {
                row,
                also: None,
                ns,
                by_others: false,
                is_most: true,
                certainty: Certainty::Measured,
                blames: Blames::Key,
            };
            let given = |first: Option<LargestPart>| {
                other_reading(first.as_ref(), &of_path, &evidence, sum, true).is_some()
            };
            let running = place(&RowKey::Running(wakepath_event::Comm::new(b"A")));
            let ran = end - 970;
            assert_eq!(of_path[running].1.total_ns, ran);
            assert!(!given(Some(blame(running, ran))), "both readings say that");
            let hundredth = end / 100;
            assert!(!given(Some(blame(running, ran - hundredth))), "to a hundredth");
            assert_eq!(given(Some(blame(running, ran - hundredth - 1))), is_given, "of another size");
            assert_eq!(given(Some(blame(running, ran + hundredth + 1))), is_given, "of another size");
            assert_eq!(given(Some(blame(place(&RowKey::Timer), ran))), is_given, "something else");
            assert_eq!(given(None), is_given);
        }
    }
}

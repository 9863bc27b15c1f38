//! The first sentence about a path: the end of the window, and the blame for its largest part.

use std::cmp::Reverse;

use wakepath_critical_path::Hang;
use wakepath_wait_graph::ThreadIndex;

use crate::chain::chain;
use crate::full_queue::full_queue;
use crate::time_outs::awaited;
use crate::who::doers;
use crate::{Awaited, Certainty, Chain, Doers, Evidence, Row, RowKey, Who};

/// The first sentence about a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// The end of the window. If it is a wait, the sentence begins with it.
    pub end: WindowEnd,
    /// The blamed part of the time; `None` for an empty window.
    pub largest: Option<LargestPart>,
    /// The threads responsible for the wait in which the window ended, else for the largest part. `None`: the
    /// window's own thread, or no thread.
    pub who: Option<Who>,
    /// The threads between the window's own thread and the last in the largest part.
    pub through: Option<Chain>,
    /// The thread that made room in a unix socket's full accept queue, if the window waited mostly for room.
    pub full_queue: Option<ThreadIndex>,
}

/// The end of a window for its own thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowEnd {
    /// No wait, or a finished wait.
    Over,
    /// In a wait that nothing ended.
    StillWaiting,
    /// A signal killed the waiting thread.
    Killed,
    /// A signal killed a waiting descendant of the thread's process.
    DescendantKilled,
}

/// Waits in which a window may have ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastWaits<'a> {
    /// The open wait of the window's own thread.
    pub still_waiting: Option<&'a Hang>,
    /// The wait in which a signal killed the window's own thread, or a descendant of its process.
    pub killed: Option<&'a Hang>,
}

impl<'a> LastWaits<'a> {
    /// The end of the window, and the wait in which it ended. An open wait comes before a killed wait.
    fn end(self, evidence: &Evidence<'_>) -> (WindowEnd, Option<&'a Hang>) {
        match (self.still_waiting, self.killed) {
            (Some(hang), _) => (WindowEnd::StillWaiting, Some(hang)),
            (None, Some(hang)) if evidence.is_asked(hang.thread) => (WindowEnd::Killed, Some(hang)),
            (None, Some(hang)) => (WindowEnd::DescendantKilled, Some(hang)),
            (None, None) => (WindowEnd::Over, None),
        }
    }
}

/// The row that answers first, or the part spent by the window's own thread or by other threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargestPart {
    /// The row's index.
    pub row: usize,
    /// The row with the same disk's other waits, whose time is in `ns` too.
    pub also: Option<usize>,
    /// The blamed time, ns.
    pub ns: u64,
    /// Own threads spent it while the window's own thread waited for them.
    pub by_others: bool,
    /// It took more than half the window.
    pub is_most: bool,
    /// The certainty of its cause.
    pub certainty: Certainty,
    /// The first thing to name in a sentence.
    pub blames: Blames,
}

/// The first thing to name in a sentence about a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blames {
    /// The cause in the row's key.
    Key,
    /// The wait in which the window ended: the sentence has it already.
    LastWait,
    /// The thread for which joined waits waited; the row has its activity meanwhile.
    Awaited(Awaited),
    /// Own threads with the row's activity, while the window's own thread waited for them.
    Doers(Doers),
}

/// The headline for a path with these rows.
pub(crate) fn headline(evidence: &Evidence<'_>, rows: &[(RowKey, Row)], waits: LastWaits<'_>) -> Headline {
    let (end, hang) = waits.end(evidence);
    let mut largest = largest_part(evidence, rows);
    if let Some(part) = &mut largest
        && matches!(
            (&rows[part.row].0, end),
            (RowKey::StillWaiting, WindowEnd::StillWaiting) | (RowKey::Signal(_), WindowEnd::Killed)
        )
    {
        part.blames = Blames::LastWait;
    }
    let who = match hang {
        Some(hang) => match hang.killed {
            Some(killed) => Who::sender(evidence, &killed.by),
            None => hang.lock.and_then(|lock| lock.owner).map(|owner| Who::thread(evidence, owner)),
        },
        None => largest.as_ref().and_then(|part| responsible(evidence, rows, part)),
    };
    // A collection's row has its threads.
    let is_collection = |part: &&LargestPart| rows[part.row].0 == RowKey::Collection;
    let through = largest.as_ref().filter(|part| !is_collection(part));
    let through = through.and_then(|part| chain(evidence, rows, part));
    Headline { end, largest, who, through, full_queue: full_queue(evidence) }
}

/// The threads responsible for the largest part.
fn responsible(evidence: &Evidence<'_>, rows: &[(RowKey, Row)], part: &LargestPart) -> Option<Who> {
    match &part.blames {
        Blames::LastWait => None,
        Blames::Awaited(awaited) => Some(Who::thread(evidence, awaited.thread)),
        Blames::Doers(doers) => Some(Who::doers(evidence, doers)),
        Blames::Key => rows.get(part.row).and_then(|(key, row)| Who::row(evidence, key, row)),
    }
}

/// The largest part of a path's time; `None` for an empty window. The own thread's running time, and the time in
/// which it was blocked while another ran, are separate parts.
pub(crate) fn largest_part(evidence: &Evidence<'_>, rows: &[(RowKey, Row)]) -> Option<LargestPart> {
    let part = largest_of(rows, evidence.window_ns())?;
    let (key, row) = &rows[part.row];
    Some(LargestPart { blames: blames(evidence, key, row, part.by_others), ..part })
}

fn largest_of(rows: &[(RowKey, Row)], window_ns: u64) -> Option<LargestPart> {
    let parts = rows.iter().enumerate().flat_map(|(place, (key, row))| {
        let of_others = if key.is_of_doers() { row.total_ns.saturating_sub(row.own_ns) } else { 0 };
        let also = rows.iter().position(|(other, _)| key.is_disk_of(other));
        let also_ns = also.map_or(0, |also| rows[also].1.total_ns);
        let certainty =
            also.map_or_else(|| row.cause_certainty(), |also| row.basis.with(rows[also].1.basis).certainty());
        let part = move |ns, also, by_others| LargestPart {
            row: place,
            also,
            ns,
            by_others,
            is_most: ns > window_ns / 2,
            certainty,
            blames: Blames::Key,
        };
        [part(row.total_ns - of_others + also_ns, also, false), part(of_others, None, true)]
    });
    // Among equal parts, the first.
    parts.filter(|part| part.ns > 0).min_by_key(|part| Reverse(part.ns))
}

/// The first thing to name in a sentence about a row: the thread for which joined waits waited, if these took more
/// than half the row's time; else the own threads that spent it, if the window's own thread waited for them; else
/// the row's key.
fn blames(evidence: &Evidence<'_>, key: &RowKey, row: &Row, by_others: bool) -> Blames {
    // A process's row has its name already.
    let is_awaited = |awaited: &Awaited| {
        !matches!(key, RowKey::Process(..))
            && awaited.ns > row.total_ns / 2
            && row.threads.contains(&awaited.thread)
    };
    match awaited(evidence).filter(is_awaited) {
        Some(awaited) => Blames::Awaited(awaited),
        // A script tries, and sleeps in another process: it is to be named.
        None if by_others && row.tried_for().is_some_and(|by| by.iter().all(|by| evidence.is_asked(*by))) => {
            Blames::Key
        }
        None if by_others => Blames::Doers(doers(evidence, row)),
        None => Blames::Key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FUTEX, Story, call};
    use crate::{DiskUse, rows};
    use wakepath_clock::Stamp;
    use wakepath_critical_path::{
        Basis, Cause, Killed, LockCause, SegmentKind, SignalCause, SignalSender, Via,
    };
    use wakepath_event::{Comm, SignalEffect};

    fn row(total_ns: u64, own_ns: u64) -> Row {
        Row { total_ns, own_ns, ..Row::default() }
    }

    #[test]
    fn the_headline_is_the_largest_part_and_the_time_of_others_is_a_part_of_its_own() {
        let name = Comm::new(b"app");
        let told = |rows: &[(RowKey, Row)], window_ns: u64| {
            largest_of(rows, window_ns)
                .map(|part| (rows[part.row].0.clone(), part.ns, part.by_others, part.is_most))
        };
        let (ran, disk) = (RowKey::Running(name), RowKey::Disk(None, DiskUse::Flush));
        // The thread itself ran for 25 of 60 ns; a disk's time is not split by thread.
        let rows = [(ran.clone(), row(60, 25)), (disk.clone(), row(40, 10))];
        assert_eq!(told(&rows, 100), Some((disk.clone(), 40, false, false)));
        let rows = [(ran.clone(), row(70, 20)), (disk.clone(), row(30, 0))];
        assert_eq!(told(&rows, 100), Some((ran.clone(), 50, true, false)), "half is not most");
        assert_eq!(told(&rows, 99), Some((ran.clone(), 50, true, true)));
        // Among equal rows, the first.
        let rows = [(ran.clone(), row(50, 50)), (disk.clone(), row(50, 50))];
        assert_eq!(told(&rows, 100), Some((ran, 50, false, false)));
        assert_eq!(told(&[(disk, row(0, 0))], 0), None);
        assert_eq!(told(&[], 0), None);
    }

    #[test]
    fn both_uses_of_a_disk_are_a_single_part() {
        let sda = |use_of| RowKey::Disk(Some(8 << 20), use_of);
        let told = |rows: &[(RowKey, Row)]| {
            let part = largest_of(rows, 100).expect("a part");
            (part.row, part.also, part.ns, part.is_most, part.certainty)
        };
        let by = |basis: Basis, ns| {
            let mut row = row(ns, 0);
            row.basis.add(basis, ns);
            row
        };
        let ran = (RowKey::Running(Comm::new(b"app")), by(Basis::Measured, 40));
        let flushed = || (sda(DiskUse::Flush), by(Basis::Measured, 35));
        let read = (sda(DiskUse::Transfer), by(Basis::Ambiguous, 25));
        let both = [ran.clone(), flushed(), read.clone()];
        assert_eq!(told(&both), (1, Some(2), 60, true, Certainty::PartlyAmbiguous));
        let of_another = [ran.clone(), flushed(), (RowKey::Disk(Some(7), DiskUse::Transfer), read.1.clone())];
        assert_eq!(told(&of_another), (0, None, 40, false, Certainty::Measured));
        let alone = [flushed(), ran];
        assert_eq!(told(&alone[..1]), (0, None, 35, false, Certainty::Measured));
        let first_read = [read, (sda(DiskUse::Flush), by(Basis::Measured, 5))];
        assert_eq!(told(&first_read), (0, Some(1), 30, false, Certainty::Ambiguous));
    }

    /// The path of a thread that waited 100 ns for a lock, through time-outs if `timed_out`. The lock's holder
    /// slept for `slept`, and ran for the rest.
    fn awaited_story(slept: u64, timed_out: bool) -> crate::testing::FinishedStory {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let holder = story.thread_of(7, 8, 1, b"holder", 7);
        let wait = story.wait(100, own, None, call(FUTEX, 3), Via::Lock, holder);
        story.waits[wait.0 as usize].timed_out = timed_out;
        story.then(slept, holder, Some(wait), SegmentKind::Timer, Cause::None).call = Some(call(35, 0));
        story.then(100 - slept, holder, Some(wait), SegmentKind::Running, Cause::None);
        story.finish()
    }

    #[test]
    fn a_thread_that_joined_waits_were_for_is_blamed_where_they_took_more_than_half_of_the_row() {
        for (timed_out, is_awaited) in [(true, true), (false, false)] {
            let story = awaited_story(70, timed_out);
            let evidence = story.evidence();
            let rows = rows(&evidence);
            let largest = largest_part(&evidence, &rows).expect("a part");
            assert_eq!((rows[largest.row].0.clone(), largest.ns), (RowKey::Timer, 70));
            let named = match &largest.blames {
                Blames::Awaited(Awaited { thread, ns: 100, .. }) => Some(*thread),
                Blames::Doers(Doers { names, .. }) if names == &[Comm::new(b"holder")] => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(named, is_awaited.then_some(ThreadIndex(1)));
            let headline = headline(&evidence, &rows, LastWaits::default());
            let who = headline.who.expect("the holder");
            assert_eq!((who.thread.is_some(), who.threads), (is_awaited, 1));
        }
        // The joined waits took 100 ns: not more than half of 200 ns. Another row does not have that thread.
        let story = awaited_story(70, true);
        let evidence = story.evidence();
        let holder = ThreadIndex(1);
        let is_awaited = |key, total_ns, threads: &[ThreadIndex]| {
            let row = Row { total_ns, threads: threads.iter().copied().collect(), ..Row::default() };
            matches!(blames(&evidence, &key, &row, true), Blames::Awaited(_))
        };
        assert!(is_awaited(RowKey::Timer, 199, &[holder]));
        assert!(!is_awaited(RowKey::Timer, 200, &[holder]));
        assert!(!is_awaited(RowKey::Timer, 199, &[ThreadIndex(0)]));
        assert!(!is_awaited(RowKey::Process(Comm::new(b"holder"), None), 199, &[holder]), "it has its name");
        let row = Row { total_ns: 200, ..Row::default() };
        assert_eq!(blames(&evidence, &RowKey::Timer, &row, false), Blames::Key);
    }

    #[test]
    fn a_wait_that_did_not_end_comes_before_a_killed_one_and_that_before_the_rows() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let owner = story.thread_of(7, 8, 1, b"owner", 7);
        let child = story.thread(9, 7, b"child", 7);
        let killer = story.thread(20, 1, b"killer", 20);
        let by = SignalCause { number: 9, effect: SignalEffect::Kills, sender: SignalSender::Thread(killer) };
        story.then(10, own, None, SegmentKind::Running, Cause::None);
        story.then(60, own, None, SegmentKind::Unknown, Cause::StillWaiting);
        story.then(30, own, None, SegmentKind::Unknown, Cause::Signal(by));
        let story = story.finish();
        let evidence = story.evidence();
        let lock = LockCause { address: 0x1000, kernel: false, owner: Some(owner) };
        let hang = |thread, killed| Hang {
            thread,
            since: Stamp::from_ns(5),
            began_before: false,
            state: None,
            call: None,
            lock: Some(lock),
            proved: true,
            killed,
        };
        let killed = Some(Killed { at: Stamp::from_ns(9), by });
        let (open, own_killed, child_killed) = (hang(own, None), hang(own, killed), hang(child, killed));
        let all = rows(&evidence);
        let (still, signal) = (&all[..1], &all[1..2]);
        assert_eq!((&still[0].0, &signal[0].0), (&RowKey::StillWaiting, &RowKey::Signal(by)));
        for (still_waiting, killed, rows, end, blames, who) in [
            (None, None, still, WindowEnd::Over, Blames::Key, None),
            (Some(&open), None, still, WindowEnd::StillWaiting, Blames::LastWait, Some(owner)),
            (Some(&open), None, signal, WindowEnd::StillWaiting, Blames::Key, Some(owner)),
            (Some(&open), Some(&child_killed), still, WindowEnd::StillWaiting, Blames::LastWait, Some(owner)),
            (None, Some(&own_killed), signal, WindowEnd::Killed, Blames::LastWait, Some(killer)),
            (None, Some(&own_killed), still, WindowEnd::Killed, Blames::Key, Some(killer)),
            (None, Some(&child_killed), signal, WindowEnd::DescendantKilled, Blames::Key, Some(killer)),
            (None, None, signal, WindowEnd::Over, Blames::Key, Some(killer)),
        ] {
            let found = headline(&evidence, rows, LastWaits { still_waiting, killed });
            assert_eq!((found.end, found.largest.expect("a part").blames), (end, blames));
            assert_eq!(found.who.and_then(|who| who.thread), who, "{end:?}");
        }
        let empty = headline(&evidence, &[], LastWaits::default());
        assert_eq!(
            empty,
            Headline { end: WindowEnd::Over, largest: None, who: None, through: None, full_queue: None }
        );
    }
}

//! Memory limits over a path: the time in which its threads had to free memory for a cgroup's limit, and waited for a disk
//! to read dropped data again.

mod read_again;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Cause, Path, Segment};
use wakepath_event::{MemoryLimit, Tid};
use wakepath_loaded::{Refaults, Unit};

use self::read_again::{Reads, Sectors};
use crate::Recorded;

/// The reclaims over a path for the same limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaims {
    /// The limit; `None` if none was found to be reached.
    pub limit: Option<MemoryLimit>,
    /// The unit or container with the limit, if it has a name.
    pub unit: Option<Unit>,
    /// The path's time in these reclaims, ns: its rows have it too.
    pub total_ns: u64,
    /// Their number.
    pub count: u64,
    /// The reclaimed pages.
    pub pages: u64,
    /// Dropped pages read again by the cgroup's threads, between the kernel's counts read around the window; `None` if the
    /// count was not read twice.
    pub read_again: Option<u64>,
    /// The path's time in these threads' waits for a disk to read data again, by the recording, ns; at most the share counted
    /// by the kernel. A lower bound, since data may have been read before the recording. `None` if the count was not read twice.
    pub read_again_ns: Option<u64>,
}

impl Reclaims {
    /// The path's time for the limit: freeing memory, and reading it again, ns.
    pub fn limited_ns(&self) -> u64 {
        self.total_ns + self.read_again_ns.unwrap_or(0)
    }
}

/// A thread's reclaim.
struct Turn {
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    limit: Option<MemoryLimit>,
    pages: u32,
}

/// The sums over the reclaims for a limit.
#[derive(Default)]
struct Sum {
    ns: u64,
    pages: u64,
    /// The time in waits for reading data again.
    read_before_ns: u64,
    /// The reclaims, each by its thread and place there: a reclaim may lie in several segments.
    turns: BTreeSet<(Tid, usize)>,
}

/// All reclaims over a path by limit, most time first.
pub(crate) fn reclaims(recorded: &Recorded, path: &Path) -> Vec<Reclaims> {
    let mut turns: HashMap<Tid, Vec<Turn>> = HashMap::new();
    for (to, thread, reclaim) in &recorded.survey.intervals.reclaims {
        let [from, to] = [reclaim.from, *to].map(Stamp::on_reference_host);
        let turn = Turn { from, to, limit: reclaim.limit, pages: reclaim.pages };
        turns.entry(*thread).or_default().push(turn);
    }
    if turns.is_empty() {
        return Vec::new();
    }
    let mut sums: BTreeMap<Option<MemoryLimit>, Sum> = BTreeMap::new();
    let mut reads = Reads::new(recorded);
    for segment in &path.segments {
        let Some(thread) = segment.thread else { continue };
        let tid = recorded.thread_at(thread, segment.to).tid;
        let Some(turns) = turns.get(&tid) else { continue };
        // The thread's own reclaims before the read name the limit.
        let before = turns.partition_point(|turn| turn.to <= segment.from).checked_sub(1);
        if let Some(place) = before {
            let ns = read_before_ns(&mut reads, segment);
            sums.entry(turns[place].limit).or_default().read_before_ns += ns;
        }
        let first = turns.partition_point(|turn| turn.to <= segment.from);
        let within = turns.iter().enumerate().skip(first).take_while(|(_, turn)| turn.from < segment.to);
        for (place, turn) in within {
            let sum = sums.entry(turn.limit).or_default();
            sum.ns += turn.to.min(segment.to).since(turn.from.max(segment.from));
            if sum.turns.insert((tid, place)) {
                sum.pages += u64::from(turn.pages);
            }
        }
    }
    let names = recorded.names();
    let [from, to] = [path.window.from, path.window.to].map(|at| Stamp::<Local>::from_ns(at.ns()));
    let reclaims = sums.into_iter().filter(|(_, sum)| !sum.turns.is_empty()).map(|(limit, sum)| {
        let refaults = limit.and_then(|limit| names.refaults(limit.cgroup, from, to));
        Reclaims {
            limit,
            unit: limit.and_then(|limit| names.memory_unit(limit.cgroup)),
            total_ns: sum.ns,
            count: sum.turns.len() as u64,
            pages: sum.pages,
            read_again: refaults.map(|refaults| refaults.pages),
            read_again_ns: refaults.map(|refaults| again_ns(sum.read_before_ns, &reads, refaults)),
        }
    });
    let mut reclaims: Vec<_> = reclaims.collect();
    reclaims.sort_by_key(|reclaims| Reverse(reclaims.limited_ns()));
    reclaims
}

/// A segment's time in a wait for a read, in proportion to its data read before, ns.
fn read_before_ns(reads: &mut Reads, segment: &Segment) -> u64 {
    let Cause::Block { request: Some(request), .. } = &segment.cause else { return 0 };
    let sectors = Sectors::new(request.device, request.sector, request.bytes);
    let Some(sectors) = sectors.filter(|_| request.is_read()) else { return 0 };
    let before = reads.read_before(sectors, Stamp::from_ns(segment.from.ns()));
    proportion(segment.to.since(segment.from), before, sectors.count())
}

/// The time, less in proportion where the kernel counts fewer pages: a program without data in memory (`O_DIRECT`) reads it
/// again for no limit.
fn again_ns(read_before_ns: u64, reads: &Reads, refaults: Refaults) -> u64 {
    let again = reads.pages_again(refaults.from, refaults.to);
    proportion(read_before_ns, refaults.pages.min(again), again)
}

/// `ns * part / whole`; 0 without a whole.
fn proportion(ns: u64, part: u64, whole: u64) -> u64 {
    let ns = u128::from(ns) * u128::from(part);
    ns.checked_div(whole.into()).map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use wakepath_event::{CgroupId, Event, EventKind, NameSpace, Reclaim};
    use wakepath_loaded::testing::{event, read};

    use super::*;
    use crate::{Answer, PathQuery, Subject, TimeSpec};

    /// A thread that runs until 400, sleeps, and runs from 600 to 1000; another runs beside it.
    const TRACE: &str = "
thread A tid=10
thread B tid=11
0 c0 idle started
0 c0 idle switch A
0 c1 idle switch B
400 c0 A switch idle blocked=interruptible call=35:0
590 c0 idle/timer waking A
600 c0 idle switch A
1000 c0 A stopped
";

    const READ: u8 = 0;
    const WRITE: u8 = 1;

    const LIMIT: MemoryLimit = MemoryLimit { cgroup: CgroupId(5), bytes: 20_000_000, is_high: false };
    const OUTER: MemoryLimit = MemoryLimit { cgroup: CgroupId(4), ..LIMIT };

    fn reclaim(tid: u32, from: u64, to: u64, limit: Option<MemoryLimit>) -> Event {
        let reclaim = Reclaim { from: Stamp::from_ns(from), limit, pages: 32 };
        event(to, 0, tid, EventKind::Reclaim(reclaim))
    }

    fn refaults(at: u64, cgroup: u64, count: &str) -> Event {
        event(at, 9, 0, EventKind::Name(NameSpace::Refaults, cgroup, count.as_bytes().into()))
    }

    /// The reclaims over thread A's path.
    fn found(more: Vec<Event>) -> Vec<Reclaims> {
        found_from(0, more)
    }

    /// The same from a time on.
    fn found_from(from: u64, more: Vec<Event>) -> Vec<Reclaims> {
        let mut events = wakepath_scenario::text::parse(TRACE).expect("a trace").events;
        events.extend(more);
        events.sort_by_key(|event| event.at);
        let from = Some(TimeSpec::AfterStart(from));
        let query = PathQuery { subject: Subject::Tid(Tid(10)), from, ..PathQuery::default() };
        match crate::path(&read(&events), &query) {
            Ok(Answer::Paths(paths)) => paths.into_iter().next().expect("a path").reclaims,
            other => panic!("a path, not {other:?}"),
        }
    }

    #[test]
    fn the_reclaims_of_the_paths_threads_are_added_up_by_limit() {
        let sums: Vec<_> = found(vec![
            reclaim(10, 100, 150, Some(LIMIT)),
            reclaim(10, 200, 230, Some(LIMIT)),
            // Over the sleep: the path has the thread itself there.
            reclaim(10, 390, 610, Some(OUTER)),
            reclaim(10, 700, 707, None),
            // Another thread, beside the path.
            reclaim(11, 300, 350, Some(LIMIT)),
        ])
        .into_iter()
        .map(|one| (one.limit, one.total_ns, one.count, one.pages, one.read_again))
        .collect();
        let expected =
            [(Some(OUTER), 220, 1, 32, None), (Some(LIMIT), 80, 2, 64, None), (None, 7, 1, 32, None)];
        assert_eq!(sums, expected);
        assert_eq!(found(Vec::new()), []);
    }

    #[test]
    fn a_reclaim_counts_with_its_part_within_the_window_and_not_if_it_only_touches_it() {
        let turns = || vec![reclaim(10, 20, 100, None), reclaim(10, 150, 210, None)];
        let sums = |from| -> Vec<_> {
            found_from(from, turns()).iter().map(|one| (one.total_ns, one.count, one.pages)).collect()
        };
        assert_eq!(sums(99), [(61, 2, 64)]);
        assert_eq!(sums(100), [(60, 1, 32)]);
        assert_eq!(sums(209), [(1, 1, 32)]);
        assert_eq!(sums(210), []);
    }

    #[test]
    fn pages_read_again_are_the_difference_of_the_readings_around_the_window() {
        let with = |counts: Vec<Event>| {
            let reclaims = found([vec![reclaim(10, 100, 150, Some(LIMIT))], counts].concat());
            reclaims[0].read_again
        };
        assert_eq!(
            with(vec![refaults(160, 5, "7"), refaults(500, 5, "9"), refaults(999, 5, "19")]),
            Some(12)
        );
        assert_eq!(with(vec![refaults(160, 5, "7")]), None, "a single reading");
        assert_eq!(with(vec![refaults(160, 6, "7"), refaults(500, 6, "9")]), None, "another cgroup");
        assert_eq!(with(vec![refaults(160, 5, "7"), refaults(500, 5, "x")]), None);
        assert_eq!(
            with(vec![refaults(160, 5, "7"), refaults(500, 5, "6")]),
            None,
            "a new cgroup of the same number"
        );
        assert_eq!(with(Vec::new()), None);
    }

    /// The time for reading again, where thread A waits 100 ns each for requests for eight sectors, from these on, 10 ns
    /// apart; the last may be a write. The kernel's count is read at these times, and A's reclaim begins then.
    fn read_again_ns(
        first_sectors: &[u64],
        last: u8,
        counts: &[(u64, u64)],
        limited_from: u64,
    ) -> Option<u64> {
        let reclaims = reclaims_and_reads(first_sectors, last, counts, limited_from);
        reclaims.iter().find(|found| found.limit == Some(LIMIT)).expect("the limit").read_again_ns
    }

    /// All reclaims there; A's first is for an outer limit.
    fn reclaims_and_reads(
        first_sectors: &[u64],
        last_operation: u8,
        counts: &[(u64, u64)],
        limited_from: u64,
    ) -> Vec<Reclaims> {
        let mut trace = String::from("thread A tid=10\n0 c0 idle started\n0 c0 idle switch A\n");
        let mut at = 100;
        for sector in first_sectors {
            let next = at + 100;
            trace += &format!(
                "{at} c0 A issue 5 sector={sector} bytes=4096 start={at} issued={at}
                 {at} c0 A switch idle blocked=uninterruptible call=0:3
                 {next} c0 idle/block complete 5 sector={sector} bytes=4096 start={at} issued={at}
                 {next} c0 idle/block waking A
                 {next} c0 idle switch A\n"
            );
            at = next + 10;
        }
        trace += &format!("{at} c0 A stopped\n");
        let mut events = wakepath_scenario::text::parse(&trace).expect("a trace").events;
        let requests = events.iter_mut().filter_map(|event| match &mut event.kind {
            EventKind::BlockIssue(request) | EventKind::BlockComplete(request) => Some(request),
            _ => None,
        });
        for (place, request) in requests.enumerate() {
            request.operation = if place / 2 + 1 == first_sectors.len() { last_operation } else { READ };
        }
        events.push(reclaim(10, 20, 70, Some(OUTER)));
        events.push(reclaim(10, limited_from, limited_from + 3, Some(LIMIT)));
        events.extend(counts.iter().map(|&(at, count)| refaults(at, 5, &count.to_string())));
        events.sort_by_key(|event| event.at);
        let query = PathQuery { subject: Subject::Tid(Tid(10)), ..PathQuery::default() };
        match crate::path(&read(&events), &query) {
            Ok(Answer::Paths(paths)) => paths.into_iter().next().expect("a path").reclaims,
            other => panic!("a path, not {other:?}"),
        }
    }

    #[test]
    fn waits_for_reads_of_data_that_was_read_before_are_the_limit_s_as_far_as_the_kernel_counts_them() {
        let ns = |sectors: &[u64], counts: &[(u64, u64)]| read_again_ns(sectors, READ, counts, 80);
        // The reads end at 200, 310, 420, 530.
        let twice = &[8, 16, 8, 16];
        assert_eq!(ns(twice, &[(50, 0), (600, 2)]), Some(200));
        assert_eq!(ns(&[8, 16, 24, 32], &[(50, 0), (600, 2)]), Some(0), "read before the recording");
        assert_eq!(ns(&[8, 8, 12], &[(50, 0), (600, 1)]), Some(150), "half the last request");
        // The program reads again for another reason.
        assert_eq!(ns(twice, &[(50, 0), (600, 1)]), Some(100));
        assert_eq!(ns(twice, &[(50, 0), (600, 0)]), Some(0));
        assert_eq!(ns(twice, &[(50, 0), (600, 3)]), Some(200));
        // Each count has its own time.
        assert_eq!(ns(twice, &[(420, 7), (600, 8)]), Some(200), "a late first reading");
        assert_eq!(ns(twice, &[(50, 7), (529, 8)]), Some(200), "an early last reading");
        assert_eq!(ns(twice, &[(50, 0)]), None, "a single reading");
        let with_write = |sectors, pages| read_again_ns(sectors, WRITE, &[(50, 0), (600, pages)], 80);
        assert_eq!(with_write(twice, 1), Some(100), "a write reads nothing again");
        assert_eq!(with_write(&[8], 1), Some(0));
    }

    #[test]
    fn the_limit_with_most_time_comes_first_with_its_reading_again() {
        let order = |pages| -> Vec<_> {
            let reclaims = reclaims_and_reads(&[8, 8], READ, &[(50, 0), (600, pages)], 80);
            reclaims.iter().map(|found| (found.limit, found.limited_ns())).collect()
        };
        assert_eq!(order(1), [(Some(LIMIT), 103), (Some(OUTER), 50)]);
        assert_eq!(order(0), [(Some(OUTER), 50), (Some(LIMIT), 3)]);
    }

    #[test]
    fn what_was_written_was_not_read_before() {
        let sectors = [16, 8, 8];
        let ns = |last| read_again_ns(&sectors[..last], WRITE, &[(50, 0), (600, 1)], 80);
        assert_eq!([1, 2, 3].map(ns), [Some(0); 3]);
    }

    #[test]
    fn a_read_is_a_limit_s_only_after_the_thread_freed_memory_for_it() {
        let ns = |from| read_again_ns(&[8, 8, 8], READ, &[(50, 0), (600, 2)], from);
        // The waits begin at 100, 210, 320.
        assert_eq!([206, 316, 426].map(ns), [Some(200), Some(100), Some(0)]);
    }

    #[test]
    fn the_limit_is_named_by_its_cgroup() {
        let path =
            EventKind::Name(NameSpace::MemoryCgroup, 5, b"/system.slice/shop.service".as_slice().into());
        let reclaims = found(vec![reclaim(10, 100, 150, Some(LIMIT)), event(160, 9, 0, path)]);
        assert_eq!(reclaims[0].unit, Some(Unit::Systemd("shop.service".into())));
    }
}

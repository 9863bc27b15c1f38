//! Watches latency distributions for changes while they are counted (T08 section 12.1). The rule is in
//! `wakepath_distribution::watch`; its slices are here: the kernel's counts, read once an interval.

mod kept;

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use wakepath_collect::{Counted, Counts, Reading};
use wakepath_distribution::watch::ChangeDetector;
use wakepath_distribution::watch::{Alarm, Change, Notice, Stretch};
use wakepath_distribution::{Histogram, Unit, peak_to_explain};
use wakepath_engine::Host;
use wakepath_engine::drill::PhaseMarks;
use wakepath_engine::latency::{Distribution, LatencySource, RefusedTarget, RemovedProbes, TimeSlice};
use wakepath_engine::watch::{
    MAX_SUMMARY_CHANGES, TargetSummary, WatchEvent, WatchNews, Watched, WatchedTarget,
};
use wakepath_recording::this_host;

use crate::command::CommandEnd;
use crate::drill::{BUDGET, DrillError, DrillQuery, Next, Parameters, Searched, drill};
use crate::latency::{
    AllowedProbes, LiveLatencyError, LiveQuery, LiveTarget, Options, Resolved, Signals, end_reason,
    other_processes, removed_probes, targets, with_costs,
};

pub use kept::{Kept, KeptChanges};

/// Drill-downs take at most a twentieth of the watch: their probes make calls slower.
pub const MIN_DRILL_PAUSES: u32 = 20;

/// The minimum time for a drill-down to find anything.
const MIN_DRILL_TIME: Duration = Duration::from_secs(1);

/// A request to watch latencies.
#[derive(Debug, Clone, Default)]
pub struct WatchQuery {
    /// The targets and the processes.
    pub live: LiveQuery,
    /// The slice length.
    pub every: Duration,
    /// A drill-down's maximum time after a change; `None`: no drill-down.
    pub drill_for: Option<Duration>,
}

/// Watches until the processes end, the time is over or `stop` was asked. `news` gets each event worth showing at once;
/// counting goes on meanwhile.
///
/// # Errors
/// When a target cannot be counted, or counting could not begin.
pub fn watch(
    query: &WatchQuery,
    stop: &Signals,
    news: &mut dyn FnMut(&WatchNews<'_>),
) -> Result<(Watched, CommandEnd), LiveLatencyError> {
    let Resolved { targets, refused } = targets(&query.live)?;
    let counted = targets.iter().map(|target| target.counted.clone()).collect();
    let options =
        Options { targets: counted, by: None, every: Some(query.every), ..query.live.options.clone() };
    let others = other_processes(&targets, &options.processes, &options.command);
    let unit = if options.in_cycles { Unit::Cycles } else { Unit::Nanoseconds };
    let process = match (options.processes.as_slice(), options.command.is_empty()) {
        (&[process], true) => Some(process),
        _ => None,
    };
    let host = Host::from(&this_host());
    for RefusedTarget { target, why } in &refused {
        let target = WatchedTarget { name: target.clone(), source: LatencySource::Calls, process: None };
        let what = WatchEvent::Refused(why);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok();
        let origin_realtime_ns = now.and_then(|now| u64::try_from(now.as_nanos()).ok());
        news(&WatchNews { host: &host, target: &target, origin_realtime_ns, at: Duration::ZERO, what });
    }
    let mut watching = Watching {
        host: &host,
        states: targets.iter().map(|target| TargetState::new(target, process, unit)).collect(),
        unit,
        until: Duration::ZERO,
        origin_realtime_ns: None,
        slices: 0,
        left_out: 0,
        drill: query.drill_for.map(|time| DrillBudget { time, last: None }),
        leave_out_next: false,
        allowed: query.live.allowed,
        stop,
        drill_into: &|query| {
            let found = drill(query, stop, &mut |_| {}, &mut |_| Next::Search)?;
            found.searched.into_iter().next().ok_or_else(|| DrillError::NotAFunction(query.target.clone()))
        },
        news,
    };
    let outcome = wakepath_collect::count(&options, stop, &mut |reading| watching.take(&reading))?;
    let Watching { states, until, origin_realtime_ns, slices, left_out, .. } = watching;
    let notes = targets.into_iter().map(|target| target.notes);
    let summaries = states.into_iter().zip(notes).enumerate().map(|(index, (state, notes))| {
        let calibration = outcome.calibrations.get(index).copied().flatten();
        let mut summary = state.summary(unit, until);
        summary.distribution.notes = notes;
        with_costs(&mut summary.distribution, calibration, others.get(index).cloned().flatten());
        summary
    });
    let targets = summaries.collect();
    let watched = Watched {
        origin_realtime_ns,
        elapsed: until,
        slices,
        left_out,
        reason: end_reason(outcome.reason),
        targets,
        host,
    };
    Ok((watched, CommandEnd { running: outcome.running, status: outcome.status }))
}

/// The wall clock's time at the origin, by a reading's two clocks. They are read together: a reading that is taken late
/// on a busy machine moves no event to another second.
fn realtime_of_origin(reading: &Reading) -> Option<u64> {
    let realtime = reading.realtime.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(realtime.checked_sub(reading.at)?.as_nanos()).ok()
}

/// The difference from which on the wall clock was set or has drifted: below it, the origin keeps its time.
const MIN_CLOCK_CHANGE: Duration = Duration::from_millis(500);

/// The later wall clock reading for the same origin, if the clock was set since the earlier.
fn if_set(earlier: Option<u64>, later: Option<u64>) -> Option<u64> {
    let is_near =
        |(earlier, later): (u64, u64)| Duration::from_nanos(later.abs_diff(earlier)) < MIN_CLOCK_CHANGE;
    if earlier.zip(later).is_some_and(is_near) { earlier } else { later }
}

/// A target during a watch.
struct TargetState {
    target: WatchedTarget,
    detector: ChangeDetector,
    /// The last changes.
    changes: VecDeque<Change>,
    /// All calls at the last reading.
    whole: Histogram,
    last: Option<Counts>,
    /// Its probes were removed.
    removed: Option<RemovedProbes>,
}

impl TargetState {
    fn new(target: &LiveTarget, process: Option<u32>, unit: Unit) -> Self {
        let is_function = matches!(target.counted, Counted::Function(_));
        let target = WatchedTarget {
            name: target.name.clone(),
            source: target.source,
            process: process.filter(|_| is_function),
        };
        Self {
            target,
            detector: ChangeDetector::default(),
            changes: VecDeque::new(),
            whole: Histogram::new(unit),
            last: None,
            removed: None,
        }
    }

    fn summary(self, unit: Unit, elapsed: Duration) -> TargetSummary {
        let now = self.detector.now();
        let histogram = now.map_or_else(|| Histogram::new(unit), |now| now.histogram.clone());
        let mut distribution = Distribution::new(self.target.name, self.target.source, histogram);
        let history = self.detector.history().iter();
        let slices =
            history.map(|part| TimeSlice { from: part.from, to: part.to, histogram: part.histogram.clone() });
        distribution.slices = slices.collect();
        distribution.removed = self.removed;
        if let Some(last) = &self.last {
            (distribution.unwound, distribution.overflowed) = (last.unwound, last.overflowed);
            (distribution.open, distribution.unseen) = (last.open, last.unseen);
        }
        TargetSummary {
            distribution,
            since: now.map_or(Duration::ZERO, |now| now.from),
            counted: now.map_or(elapsed, |now| now.counted),
            counts: self.detector.counts(),
            changes: self.changes.into(),
            differs_since: self.detector.differs_since(),
            stopped_since: self.detector.stopped_since(),
        }
    }
}

/// The time limits for drill-downs.
struct DrillBudget {
    time: Duration,
    /// The last drill-down's start.
    last: Option<Duration>,
}

impl DrillBudget {
    fn allows(&self, now: Duration) -> bool {
        let pause = self.time.saturating_mul(MIN_DRILL_PAUSES);
        self.last.is_none_or(|last| now.saturating_sub(last) >= pause)
    }
}

/// A running watch.
struct Watching<'a, 'n> {
    host: &'a Host,
    states: Vec<TargetState>,
    unit: Unit,
    /// The last reading's time.
    until: Duration,
    /// The wall clock's time when counting began.
    origin_realtime_ns: Option<u64>,
    slices: u64,
    left_out: u64,
    drill: Option<DrillBudget>,
    /// Whether a drill-down runs in the next slice.
    leave_out_next: bool,
    allowed: AllowedProbes,
    stop: &'a Signals,
    /// Finds the functions behind a peak; a test replaces it.
    drill_into: DrillInto<'a>,
    news: &'a mut (dyn FnMut(&WatchNews<'_>) + 'n),
}

type DrillInto<'a> = &'a dyn Fn(&DrillQuery) -> Result<Searched, DrillError>;

impl Watching<'_, '_> {
    /// Compares the calls since the last reading with earlier calls.
    fn take(&mut self, reading: &Reading) {
        let (from, to) = (std::mem::replace(&mut self.until, reading.at), reading.at);
        let left_out = std::mem::take(&mut self.leave_out_next);
        let origin_realtime_ns = if_set(self.origin_realtime_ns, realtime_of_origin(reading));
        self.origin_realtime_ns = origin_realtime_ns;
        let mut to_explain = None;
        for (index, (state, counts)) in self.states.iter_mut().zip(&reading.counts).enumerate() {
            let whole = Histogram::from_counters(self.unit, counts.buckets, counts.sum.into());
            // The kernel's counters never decrease.
            let Ok(calls) = whole.minus(&state.whole) else { continue };
            (state.whole, state.last) = (whole, Some(counts.clone()));
            let removed = reading.removed.iter().find(|(target, _)| *target as usize == index);
            if let Some(removed) = removed.map(|(_, removed)| removed_probes(*removed)) {
                state.removed = Some(removed);
                let what = WatchEvent::Removed(&removed);
                let target = &state.target;
                (self.news)(&WatchNews { host: self.host, target, origin_realtime_ns, at: to, what });
            }
            // Its last slice has calls of a part of the slice alone.
            if left_out || state.removed.is_some() {
                continue;
            }
            // A target's slices all have the same unit.
            let found = state.detector.observe(&Stretch::new(from, to, calls), counts.open);
            for notice in found.unwrap_or_default() {
                if let Notice::Changed(change) = &notice {
                    let rings = change.alarm != Alarm::Quiet;
                    let peak = peak_to_explain(&change.before.histogram, &change.after.histogram);
                    let drill = state.target.process.zip(peak).filter(|_| rings);
                    to_explain = to_explain.or(drill.map(|(process, peak)| (index, process, peak)));
                    if state.changes.len() == MAX_SUMMARY_CHANGES {
                        state.changes.pop_front();
                    }
                    state.changes.push_back(Change::clone(change));
                }
                let what = WatchEvent::Notice(&notice);
                let target = &state.target;
                (self.news)(&WatchNews { host: self.host, target, origin_realtime_ns, at: to, what });
            }
        }
        self.slices += 1;
        self.left_out += u64::from(left_out);
        if let Some((index, process, peak)) = to_explain {
            self.explain(index, process, peak);
        }
    }

    /// Drills into a peak, if asked for and the last drill-down is long enough ago.
    fn explain(&mut self, index: usize, process: u32, peak: usize) {
        let now = self.until;
        let Some(budget) = self.drill.as_mut().filter(|budget| budget.allows(now)) else { return };
        let Some(state) = self.states.get(index).filter(|_| self.stop.asked() == 0) else { return };
        budget.last = Some(now);
        self.leave_out_next = true;
        let query = DrillQuery {
            target: state.target.name.clone(),
            pid: process,
            command: None,
            peak: Some(peak),
            parameters: Parameters::default(),
            duration: budget.time,
            allowed: self.allowed,
            phases: PhaseMarks::default(),
            hand_over: None,
            budget: BUDGET,
            resume: None,
        };
        let began = Instant::now();
        let mut found = (self.drill_into)(&query);
        // The calls may have changed again since the peak was numbered.
        let rest = query.duration.saturating_sub(began.elapsed());
        if matches!(found, Err(DrillError::NoSuchPeak { .. })) && rest >= MIN_DRILL_TIME {
            let query = DrillQuery { peak: None, duration: rest, ..query };
            found = (self.drill_into)(&query);
        }
        (self.news)(&WatchNews {
            host: self.host,
            target: &state.target,
            origin_realtime_ns: self.origin_realtime_ns,
            at: now,
            what: WatchEvent::Drilled(match &found {
                Ok(found) => Ok(&found.drilled),
                Err(error) => Err(error),
            }),
        });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use wakepath_distribution::watch::Stop;

    use super::*;

    /// The wall clock's time when counting began, ns.
    const ORIGIN: u64 = 1_000_000_000_000;

    /// A reading with a single target.
    fn reading_at(at: u64, counts: Counts) -> Reading {
        let at = Duration::from_secs(at);
        let realtime = SystemTime::UNIX_EPOCH + Duration::from_nanos(ORIGIN) + at;
        Reading { at, realtime, counts: vec![counts], parts: None, removed: Vec::new() }
    }

    /// A reading with a single target and these calls in bucket 10, 1024 ns each.
    fn reading(at: u64, calls: u64, open: u64) -> Reading {
        let buckets = std::array::from_fn(|bucket| if bucket == 10 { calls } else { 0 });
        let counts = Counts { buckets, sum: 1024 * calls, unwound: 1, overflowed: 2, open, unseen: 3 };
        reading_at(at, counts)
    }

    /// A watch with a single target, before it begins.
    fn watching<'a, 'n>(
        host: &'a Host,
        stop: &'a Signals,
        process: Option<u32>,
        news: &'a mut (dyn FnMut(&WatchNews<'_>) + 'n),
    ) -> Watching<'a, 'n> {
        let unit = Unit::Nanoseconds;
        let target = WatchedTarget { name: String::from("f"), source: LatencySource::Calls, process };
        Watching {
            host,
            states: vec![TargetState {
                target,
                detector: ChangeDetector::default(),
                changes: VecDeque::new(),
                whole: Histogram::new(unit),
                last: None,
                removed: None,
            }],
            unit,
            until: Duration::ZERO,
            origin_realtime_ns: None,
            slices: 0,
            left_out: 0,
            drill: None,
            leave_out_next: false,
            allowed: AllowedProbes::default(),
            stop,
            drill_into: &|_| panic!("no drill-down"),
            news,
        }
    }

    /// 6000 more calls, in this bucket and a 10 s slice.
    fn slice_of(buckets: &mut [u64; 64], sum: &mut u64, bucket: usize, at: u64) -> Reading {
        buckets[bucket] += 6000;
        *sum += 6000 << bucket;
        let counts = Counts { buckets: *buckets, sum: *sum, unwound: 0, overflowed: 0, open: 0, unseen: 0 };
        reading_at(at, counts)
    }

    #[test]
    fn the_slice_in_which_a_drill_down_ran_is_left_out_and_its_calls_are_none_of_the_next() {
        let host = Host::default();
        let stop = Signals::watch(true).expect("signals");
        let asked = RefCell::new(Vec::new());
        let drill_into = |query: &DrillQuery| {
            asked.borrow_mut().push((query.target.clone(), query.pid, query.peak, query.duration));
            Err(DrillError::NotAFunction(String::from("f")))
        };
        let mut said = Vec::new();
        let mut news = |news: &WatchNews<'_>| {
            said.push((
                news.at.as_secs(),
                match news.what {
                    WatchEvent::Notice(Notice::Usual(_)) => "usual",
                    WatchEvent::Notice(Notice::Changed(_)) => "changed",
                    WatchEvent::Notice(_) => "another notice",
                    WatchEvent::Refused(_) => "refused",
                    WatchEvent::Removed(_) => "removed",
                    WatchEvent::Drilled(_) => "drilled",
                },
            ));
        };
        let time = Duration::from_secs(3);
        let mut watching = Watching {
            drill: Some(DrillBudget { time, last: None }),
            drill_into: &drill_into,
            ..watching(&host, &stop, Some(7), &mut news)
        };
        let (mut buckets, mut sum) = ([0; 64], 0);
        // Calls are slower from 30 s on. Between 50 and 60 s a drill-down's probes make them slower still, between 60 and 70 s nothing
        // does; from 80 s on they are slower again, too early for another drill-down, and at 130 s it is not.
        let slices = [10, 10, 10, 20, 20, 28, 20, 20, 30, 30, 30, 30, 30, 12, 12, 29, 12];
        for (number, bucket) in (1..).zip(slices) {
            watching.take(&slice_of(&mut buckets, &mut sum, bucket, 10 * number));
        }
        assert_eq!((watching.slices, watching.left_out), (17, 2));
        let TargetState { detector, whole, .. } = watching.states.remove(0);
        assert_eq!(whole.calls(), 17 * 6000);
        let now = detector.now().expect("calls");
        assert_eq!((now.from.as_secs(), now.counted.as_secs(), now.histogram.calls()), (130, 30, 18_000));
        assert_eq!(
            said,
            [
                (10, "usual"),
                (50, "changed"),
                (50, "drilled"),
                (100, "changed"),
                (150, "changed"),
                (150, "drilled")
            ]
        );
        let drill = |peak| (String::from("f"), 7, Some(peak), time);
        assert_eq!(*asked.borrow(), [drill(1), drill(1)]);
    }

    #[test]
    fn slices_are_the_differences_of_readings_and_those_of_a_drill_down_are_left_out() {
        let host = Host::default();
        let stop = Signals::watch(true).expect("signals");
        let mut said = Vec::new();
        let unit = Unit::Nanoseconds;
        let mut news = |news: &WatchNews<'_>| {
            let WatchEvent::Notice(notice) = news.what else { panic!("no drill-down") };
            said.push((news.at.as_secs(), notice.clone()));
        };
        let mut watching = watching(&host, &stop, Some(1), &mut news);
        watching.take(&reading(10, 6000, 0));
        watching.leave_out_next = true;
        watching.take(&reading(40, 7000, 0));
        watching.take(&reading(50, 13_000, 0));
        watching.take(&reading(60, 13_000, 4));
        assert_eq!((watching.slices, watching.left_out), (4, 1));
        let summary = watching.states.remove(0).summary(unit, Duration::ZERO);
        let seconds = Duration::from_secs;
        let piece = |from, to, calls| {
            let mut histogram = Histogram::new(unit);
            (0..calls).for_each(|_| histogram.add(1024));
            Stretch::new(seconds(from), seconds(to), histogram)
        };
        // 6000 calls in each of two 10 s slices: 600 a second.
        let stop = Stop { since: seconds(50), expected: 6000.0, open: 4 };
        assert_eq!(said, [(10, Notice::Usual(piece(0, 10, 6000))), (60, Notice::Stopped(stop))]);
        assert_eq!((summary.since, summary.counted), (seconds(0), seconds(30)));
        assert_eq!(summary.stopped_since, Some(seconds(50)));
        let Distribution { histogram, slices, unwound, overflowed, open, unseen, .. } = summary.distribution;
        assert_eq!((histogram.calls(), slices.len()), (12_000, 3));
        assert_eq!([unwound, overflowed, open, unseen], [1, 2, 4, 3]);
    }

    #[test]
    fn a_target_without_probes_is_not_watched_any_more() {
        let (host, stop) = (Host::default(), Signals::watch(true).expect("signals"));
        let removed = wakepath_collect::RemovedProbes {
            after: Duration::from_secs(25),
            hits: 14_000,
            per_call_ns: 20_000,
            share: 0.25,
            budget: 0.05,
        };
        let mut said = Vec::new();
        let mut news = |news: &WatchNews<'_>| match news.what {
            WatchEvent::Notice(Notice::Usual(_)) => said.push((news.at.as_secs(), None)),
            WatchEvent::Removed(removed) => said.push((news.at.as_secs(), Some(*removed))),
            _ => panic!("no other news"),
        };
        let mut watching = watching(&host, &stop, Some(1), &mut news);
        watching.take(&reading(10, 6000, 0));
        watching.take(&reading(20, 12_000, 0));
        watching.take(&Reading { removed: vec![(1, removed)], ..reading(30, 18_000, 0) });
        watching.take(&Reading { removed: vec![(0, removed)], ..reading(40, 20_000, 0) });
        // No calls come any more, which is no news.
        watching.take(&reading(50, 20_000, 0));
        watching.take(&reading(60, 20_000, 0));
        let summary = watching.states.remove(0).summary(Unit::Nanoseconds, Duration::ZERO);
        let found = RemovedProbes {
            after: Duration::from_secs(25),
            calls: 14_000,
            per_call_ns: 20_000,
            share: 0.25,
            budget: 0.05,
        };
        assert_eq!(said, [(10, None), (40, Some(found))]);
        assert_eq!((summary.distribution.histogram.calls(), summary.counted.as_secs()), (18_000, 30));
        assert_eq!((summary.distribution.removed, summary.stopped_since), (Some(found), None));
    }

    #[test]
    fn a_peak_that_is_gone_is_searched_for_anew_while_there_is_time() {
        let (host, stop) = (Host::default(), Signals::watch(true).expect("signals"));
        for (seconds, expected) in [(1, &[Some(2)][..]), (60, &[Some(2), None])] {
            let asked = RefCell::new(Vec::new());
            let drill_into = |query: &DrillQuery| {
                asked.borrow_mut().push((query.peak, query.duration));
                let target = query.target.clone();
                Err(DrillError::NoSuchPeak { target, asked: 2, peaks: Vec::new() })
            };
            let mut said = 0;
            let mut news =
                |news: &WatchNews<'_>| said += u32::from(matches!(news.what, WatchEvent::Drilled(_)));
            let time = Duration::from_secs(seconds);
            let mut watching = Watching {
                drill: Some(DrillBudget { time, last: None }),
                drill_into: &drill_into,
                ..watching(&host, &stop, Some(7), &mut news)
            };
            watching.explain(0, 7, 2);
            let asked = asked.into_inner();
            assert_eq!(asked.iter().map(|(peak, _)| *peak).collect::<Vec<_>>(), expected, "{seconds} s");
            assert!(asked.iter().skip(1).all(|(_, rest)| *rest < time), "the rest of the time");
            assert_eq!(said, 1, "one answer");
        }
    }

    #[test]
    fn the_summary_has_the_last_changes_only() {
        let (host, stop) = (Host::default(), Signals::watch(true).expect("signals"));
        let unit = Unit::Nanoseconds;
        let mut news = |news: &WatchNews<'_>| {
            // However late a reading is taken, its event keeps its moment.
            assert_eq!(news.origin_realtime_ns, Some(ORIGIN));
        };
        let mut watching = watching(&host, &stop, None, &mut news);
        let mut buckets = [0; 64];
        // Another bucket for each two slices.
        for at in 0..60 {
            buckets[4 + 2 * (at / 2 % 20) as usize] += 1000;
            let counts = Counts { buckets, sum: 0, unwound: 0, overflowed: 0, open: 0, unseen: 0 };
            watching.take(&reading_at(at + 1, counts));
        }
        let summary = watching.states.remove(0).summary(unit, Duration::ZERO);
        assert_eq!(summary.counts.changed, 29);
        let since: Vec<_> = summary.changes.iter().map(|change| change.since.as_secs()).collect();
        assert_eq!(since, (20..60).step_by(2).collect::<Vec<_>>());
    }

    #[test]
    fn one_moment_keeps_its_time_until_the_clock_is_set() {
        const MS: u64 = 1_000_000;
        let origin = Some(1_000_000 * MS);
        assert_eq!(if_set(origin, Some(1_000_499 * MS)), origin);
        assert_eq!(if_set(origin, Some(999_501 * MS)), origin);
        for later in [Some(1_000_500 * MS), Some(0), None] {
            assert_eq!(if_set(origin, later), later);
        }
        assert_eq!(if_set(None, origin), origin);
    }

    #[test]
    fn drill_downs_take_at_most_a_twentieth_of_the_time() {
        let mut budget = DrillBudget { time: Duration::from_secs(20), last: None };
        let mut taken = Duration::ZERO;
        for now in (0..100_000).map(Duration::from_secs) {
            if budget.allows(now) {
                budget.last = Some(now);
                taken += budget.time;
            }
        }
        assert_eq!(taken, Duration::from_secs(5000));
    }
}

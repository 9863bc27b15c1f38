//! Event loops' periodic ticks: time-outs in `epoll_wait` that explain nothing.
//!
//! An event loop sleeps until its next timer. In some loops a timer comes back at a fixed period and finds nothing to do: redis-benchmark's every
//! 250 ms, redis-server's and uvicorn's every 100 ms. Such a tick ends a wait, the thread does nothing for others, and goes back to the
//! same set. The program's own timer (`asyncio.sleep(0.3)` before a read) ends a wait in the same way, and the thread did wait for it. Three
//! facts together show a tick:
//!
//! - The ends keep a phase: each comes a period after the thread had set the timer again, behind the last tick.
//! - The tick ends any wait at its time: no wait for the set lasts past a point in this grid.
//! - The lengths differ, since other events ended waits in between. An own timer begins with its wait, so its waits have equal lengths.
//!
//! ```text
//! waits for a set   |-----e|---e|--T|--------e|-------T|--e|-------------T|     e: an event ends it, T: a time-out
//! the grid                         ^                  ^                  ^
//! ```
//!
//! An idle loop, in which each wait lasts a period, has no tick by this rule. Own timers may make a small grid by chance, so most time-outs in the set
//! must be on grids.

use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Call;
use wakepath_wait_graph::{Graph, StateIntervals, ThreadIndex, ThreadState, Wait};

use crate::Window;
use crate::early_end::{may_go_on, timed_out};

/// The state intervals before the window, and as many behind it, in which ticks are looked for too.
const MAX_STATES_AROUND: usize = 2048;

/// The time-outs behind a grid's first among which its second is looked for.
const MAX_NEIGHBOURS: usize = 4;

/// The chance that time-outs without a tick make a grid, at most.
const MAX_CHANCE: f64 = 1.0 / 16.0;

/// The time-outs on a grid without a tick from which on all are passed over, so that the cost stays linear.
const MIN_LONG_GRID: usize = 8;

/// An end this close to its point is on it, ns. `epoll_wait` counts whole milliseconds, and loops round up: 1 ms. The
/// kernel adds up to 0.1% (0.5% for a nice thread), and the thread may wait for a CPU: 2%.
const fn tolerance(period: u64) -> u64 {
    period / 50 + 1_000_000
}

/// A thread's ticks, in and around a window.
#[derive(Debug, Default)]
pub(crate) struct PeriodicTicks {
    /// In time order.
    ticks: Vec<PeriodicTick>,
}

/// A wait that a tick ended. Waits are numbered by state intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeriodicTick {
    wait: usize,
    /// The first wait behind it that no tick ended.
    pub(crate) next: usize,
    /// A missing record may hide another wait before `next`.
    pub(crate) lost: bool,
}

impl PeriodicTicks {
    /// No tick.
    pub(crate) const NONE: &Self = &Self { ticks: Vec::new() };

    /// A thread's ticks, by a single pass over its intervals in and around the window.
    pub(crate) fn of(graph: &Graph, thread: ThreadIndex, window: &Window) -> Self {
        let intervals = graph.state_intervals(thread);
        let mut ticks = Vec::new();
        for (set, time_outs) in time_outs(graph, intervals, window) {
            Loop { graph, intervals, set, time_outs: &time_outs }.add_ticks(&mut ticks);
        }
        ticks.sort_unstable_by_key(|tick: &PeriodicTick| tick.wait);
        for at in (0..ticks.len()).rev() {
            let (earlier, later) = ticks.split_at_mut(at + 1);
            let tick = &mut earlier[at];
            // The next tick, if it ended the next wait, is the first behind this.
            if let Some(then) = later.first().filter(|then| then.wait == tick.next) {
                tick.next = then.next;
                tick.lost |= then.lost;
            }
        }
        Self { ticks }
    }

    /// The tick that ended a wait.
    pub(crate) fn at(&self, wait: usize) -> Option<PeriodicTick> {
        let place = self.ticks.binary_search_by_key(&wait, |tick| tick.wait).ok()?;
        self.ticks.get(place).copied()
    }
}

/// A call and its descriptor, which stands for a set.
type Set = (u32, u64);

fn set_of(wait: &Wait) -> Option<Set> {
    let call = wait.call.filter(|call| Call::EPOLLS.contains(&call.number))?;
    Some((call.number, call.argument()))
}

/// An event loop's time-out with nothing ready.
#[derive(Debug, Clone, Copy)]
struct TimeOut {
    /// The wait that it ended.
    wait: usize,
    /// The wait's length, ns; `None` if it began before the recording.
    waited: Option<u64>,
    at: Stamp<Reference>,
    /// The thread's next wait.
    next: usize,
    /// When the next wait began: until then the thread may have set the timer again.
    set_again: Stamp<Reference>,
    /// The thread went back to the set, and did nothing for others before.
    quiet: bool,
    lost: bool,
}

/// The time-outs in a thread's event loops, by set and in time order.
fn time_outs(graph: &Graph, intervals: StateIntervals<'_>, window: &Window) -> BTreeMap<Set, Vec<TimeOut>> {
    let first = intervals.find(window.from).saturating_sub(MAX_STATES_AROUND);
    let last = intervals.find(window.to).saturating_add(MAX_STATES_AROUND);
    let mut found: BTreeMap<Set, Vec<TimeOut>> = BTreeMap::new();
    let mut open: Option<(Set, TimeOut)> = None;
    for index in first..=last {
        let Some(interval) = intervals.get(index) else { break };
        if let (ThreadState::Unknown(_), Some((_, time_out))) = (interval.state, &mut open) {
            time_out.lost = true;
        }
        let Some(wait) = graph.wait(&interval) else { continue };
        let set = set_of(&wait);
        if let Some((before, time_out)) = open.take() {
            let quiet = set == Some(before) && !wait.acted;
            let time_out = TimeOut { next: index, set_again: interval.from, quiet, ..time_out };
            found.entry(before).or_default().push(time_out);
        }
        if let Some(set) = set.filter(|_| timed_out(&wait) && may_go_on(wait.call)) {
            let at = interval.to;
            let waited = (!wait.began_before).then(|| at.since(interval.from));
            let time_out =
                TimeOut { wait: index, waited, at, next: index, set_again: at, quiet: false, lost: false };
            open = Some((set, time_out));
        }
    }
    found
}

/// A thread's waits for a set.
struct Loop<'a> {
    graph: &'a Graph,
    intervals: StateIntervals<'a>,
    set: Set,
    time_outs: &'a [TimeOut],
}

/// Time-outs with a common phase.
#[derive(Debug)]
struct Grid {
    period: u64,
    /// Places among the time-outs.
    places: Vec<usize>,
    /// Other time-outs lie between, or a point has none: another event ended the wait then, or the thread did something else. Or the grid is a guess.
    mixed: bool,
}

impl Loop<'_> {
    /// Adds this loop's quiet ticks.
    fn add_ticks(&self, ticks: &mut Vec<PeriodicTick>) {
        let (mut on_grids, mut quiet) = (0, Vec::new());
        let mut first = 0;
        while first < self.time_outs.len() {
            let grids = (1..=MAX_NEIGHBOURS).flat_map(|next| [(next, 1), (next, 2)]);
            let mut behind = first + 1;
            for grid in grids.filter_map(|(next, points)| self.grid(first, next, points)) {
                let is_of_ticks = self.is_of_ticks(&grid);
                let last = grid.places.last().copied().unwrap_or(first);
                if is_of_ticks {
                    behind = last + 1;
                    on_grids += grid.places.len();
                    let ends = grid.places.iter().map(|&place| &self.time_outs[place]);
                    let ends = ends.filter(|end| end.quiet);
                    quiet.extend(ends.map(|end| PeriodicTick {
                        wait: end.wait,
                        next: end.next,
                        lost: end.lost,
                    }));
                    break;
                }
                if grid.places.len() >= MIN_LONG_GRID {
                    behind = behind.max(last + 1);
                }
            }
            first = behind;
        }
        if on_grids * 2 > self.time_outs.len() {
            ticks.extend(quiet);
        }
    }

    /// The grid from the time-out at the place `first` on, in which the time-out `next` places behind it is `points` points away. It ends before the first point
    /// that it does not explain.
    fn grid(&self, first: usize, next: usize, points: u64) -> Option<Grid> {
        let begin = self.time_outs[first];
        let second = self.time_outs.get(first + next)?;
        let period = second.at.ns().checked_sub(begin.set_again.ns())? / points;
        let tolerance = tolerance(period);
        // A grid with less than four times the room for chance is none.
        if tolerance > period / 8 {
            return None;
        }
        let mut grid = Grid { period, places: vec![first], mixed: points != 1 };
        // When the last tick came and its timer was set again.
        let (mut from, mut to) = (begin.at.ns(), begin.set_again.ns());
        let (mut before, mut place) = (first, first + 1);
        let mut has_missed = false;
        while to - from <= period / 4 {
            (from, to) = (from + period, to + period);
            let due = (from - tolerance, to + tolerance);
            while self.time_outs.get(place).is_some_and(|end| end.at.ns() < due.0) {
                place += 1;
            }
            if let Some(end) = self.time_outs.get(place).filter(|end| end.at.ns() <= due.1) {
                grid.places.push(place);
                grid.mixed |= has_missed || place - before > 1;
                before = place;
                (from, to) = (end.at.ns(), end.set_again.ns());
                place += 1;
                has_missed = false;
            } else if has_missed || self.slept_through(due) {
                break;
            } else {
                has_missed = true;
            }
        }
        Some(grid)
    }

    /// Whether the thread waited for the set all this time and longer.
    fn slept_through(&self, (from, to): (u64, u64)) -> bool {
        let from = Stamp::from_ns(from);
        let interval = self.intervals.get(self.intervals.find(from));
        interval.is_some_and(|interval| {
            let wait = self.graph.wait(&interval);
            interval.to.ns() > to && wait.is_some_and(|wait| set_of(&wait) == Some(self.set))
        })
    }

    /// Whether the time-outs on a grid are a tick's.
    fn is_of_ticks(&self, grid: &Grid) -> bool {
        let ends = || grid.places.iter().map(|&place| &self.time_outs[place]);
        let lengths = || ends().filter_map(|end| end.waited);
        let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        let tolerance = tolerance(grid.period);
        Self::chance(grid) <= MAX_CHANCE
            && longest - shortest > tolerance
            // A program that mostly acts behind these ends polls.
            && ends().filter(|end| end.quiet).count() * 2 > grid.places.len()
    }

    /// The chance that time-outs without a tick make this grid: two set the period, and each other meets its point. In a mixed grid each has two points
    /// to meet, and several grids are tried.
    fn chance(grid: &Grid) -> f64 {
        let (points, grids) = if grid.mixed { (2.0, 2.0 * MAX_NEIGHBOURS as f64) } else { (1.0, 1.0) };
        let room = points * 2.0 * tolerance(grid.period) as f64 / grid.period as f64;
        grid.places.iter().skip(2).fold(grids, |chance, _| chance * room)
    }
}

#[cfg(test)]
mod tests;

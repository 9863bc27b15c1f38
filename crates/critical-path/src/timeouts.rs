//! Waits that end early, by a time-out or alike, and the choice to count several as a single wait.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockedState, Call, Context, Tid};
use wakepath_wait_graph::{
    EvidenceIndex, Graph, Occupant, StateInterval, ThreadIndex, ThreadState, UnknownReason, Wait, WakeUp,
    Waker,
};

use crate::early_end::{EarlyEnd, may_go_on, timed_out};
use crate::holders::{ender_of, handed_over_behind, held_meanwhile, is_held_through, last_slice};
use crate::periodic_ticks::PeriodicTicks;
use crate::tiles::Trust;
use crate::{Algorithm, Rule};

/// The treatment of time-outs.
///
/// A wait that is repeated after short time-outs hides its cause (G15 §5.4.3, §8.1). Waits are joined if the thread goes back to the same wait, in
/// the same system call with the same first argument, and has not run for longer than it had waited. The last wait's end then explains all of them.
/// A tick ([`EarlyEnd::Ticker`]) is joined like a time-out, but never by proof, and not if the thread acted before it went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeouts {
    /// Each counts as a wait for a timer.
    AsTheyAre,
    /// They are joined if records prove a return to the same wait: either all waits are for a single lock whose memory names the same
    /// owner each time, and the owner ended the last wait; or all poll the same set of descriptors, and in between the thread sent no packet and woke
    /// no thread of a program. The segments have the rule [`Rule::JoinedTimeouts`](crate::Rule::JoinedTimeouts).
    ///
    /// A wait cut short by a timer's signal goes on, in any call, if the handler let the thread go back to the same call with the same first
    /// argument. The same holds for a futex wait cut short by a signal of the thread's own process:
    /// [`Rule::ResumedAfterSignal`](crate::Rule::ResumedAfterSignal).
    ///
    /// A wait ended by an event loop's tick goes on in the next wait ([`Rule::PeriodicTick`](crate::Rule::PeriodicTick)).
    ///
    /// Nothing else proves it. The futex of a condition variable or semaphore is at the same address for each event, and a descriptor is the same for
    /// each packet. If a missing record may hide a return to the same wait, the time-out is ambiguous.
    #[default]
    Joined,
    /// They are also joined if they look like slices: at least two in a row (for a thread which another awaits, at least one), between which the thread sent no packet and woke no program's
    /// thread. Without proof, the segments are ambiguous.
    JoinedInSlices,
    /// They are joined if they may have been the same wait; without proof, the segments are ambiguous. Sleeps are never joined. Time-outs in
    /// `epoll_wait` may be an event loop's own timers, and are joined only in slices.
    JoinedIfAlike,
}

impl Timeouts {
    /// The algorithm of the active path with this choice.
    pub const fn algorithm(self) -> Algorithm {
        match self {
            Self::AsTheyAre => Algorithm::Active,
            Self::Joined => Algorithm::Joined,
            Self::JoinedInSlices => Algorithm::JoinedInSlices,
            Self::JoinedIfAlike => Algorithm::JoinedIfAlike,
        }
    }

    /// The choice of an algorithm; the exact path's waits are as they are.
    pub const fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Active | Algorithm::Exact => Self::AsTheyAre,
            Algorithm::Joined => Self::Joined,
            Algorithm::JoinedInSlices => Self::JoinedInSlices,
            Algorithm::JoinedIfAlike => Self::JoinedIfAlike,
        }
    }

    /// Whether a wait is joined with this later wait.
    pub(crate) fn join(self, ending: &EndingWait) -> bool {
        match self {
            Self::AsTheyAre => false,
            Self::Joined => ending.trust != Trust::Doubtful,
            Self::JoinedInSlices => ending.trust != Trust::Doubtful || ending.in_slices,
            Self::JoinedIfAlike => true,
        }
    }
}

/// Several waits of a thread that count as a single wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JoinedWaits {
    /// The last wait's state interval, as an index.
    last: usize,
    /// The index of the first wait since which the thread, for all that is known, did nothing else.
    proved: usize,
    /// The index of the first wait since which signals cut all waits short, except the last.
    resumed: usize,
    /// The index of the first wait after the last missing switch that may hide the end of the earlier waits.
    hidden: usize,
    /// The index of the first wait since which the thread has not acted.
    quiet: usize,
    /// The number of waits since then, without the last.
    slices: usize,
    /// The certainty of the join, if the last wait ended in something other than a time-out.
    ended: Option<Trust>,
    /// The last wait timed out, and the thread did not go back to it.
    given_up: bool,
    series: Series,
}

/// Waits ending early, up to the first other end or until the thread does something else.
#[derive(Debug, Clone, Copy)]
struct Series {
    /// The last wait's state interval, as an index.
    last: usize,
    /// The thread that ended it. If this thread ended others as a ticker, these were ends too: joined, they would have the same explanation.
    ender: Option<ThreadIndex>,
}

/// A thread's wait that ended early.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EarlyWait {
    pub(crate) thread: ThreadIndex,
    /// Its state interval.
    pub(crate) index: usize,
    pub(crate) end: EarlyEnd,
    /// The thread is followed up to here.
    pub(crate) to: Stamp<Reference>,
    /// The thread is awaited itself.
    pub(crate) nested: bool,
}

impl EarlyWait {
    /// The wait whose end also explains this wait, if any. A wait ended by a tick counts with the next wait that no tick ended. `joint`
    /// has the joined waits around.
    pub(crate) fn ending(
        self,
        graph: &Graph,
        ticks: &PeriodicTicks,
        joint: &mut Option<JoinedWaits>,
    ) -> Option<EndingWait> {
        let Some(tick) = ticks.at(self.index) else { return self.joined(graph, ticks, joint) };
        let interval = graph.state_intervals(self.thread).get(tick.next)?;
        let wait = graph.wait(&interval)?;
        let by_tick = if tick.lost { Trust::Doubtful } else { Trust::By(Rule::PeriodicTick) };
        let ending = match EarlyEnd::of(graph, self.thread, &wait) {
            Some(end) => Self { index: tick.next, end, ..self }.joined(graph, ticks, joint)?,
            None if is_awaited_end(&wait) => {
                EndingWait { interval, wait, trust: Trust::Sure, in_slices: false }
            }
            None => return None,
        };
        Some(EndingWait { trust: by_tick.and(ending.trust), ..ending })
    }

    fn joined(
        self,
        graph: &Graph,
        ticks: &PeriodicTicks,
        joint: &mut Option<JoinedWaits>,
    ) -> Option<EndingWait> {
        let Self { thread, index, end, to, nested } = self;
        *joint = JoinedWaits::at(graph, thread, index, to, ticks, *joint);
        (*joint)?.ending_wait(graph, thread, index, end, nested)
    }
}

/// Whether something ended a wait that may have been awaited: no signal, which cuts a wait short.
const fn is_awaited_end(wait: &Wait) -> bool {
    matches!((wait.end, wait.cut), (Waker::Woken(_), None))
}

/// Whether a wait is for any event in a set kept by the kernel.
pub(crate) fn is_event_loop(wait: &Wait) -> bool {
    Awaited::of(wait).is_some_and(|awaited| awaited.is_event_loop())
}

/// The wait whose end explains an earlier wait too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndingWait {
    pub(crate) interval: StateInterval,
    pub(crate) wait: Wait,
    /// The certainty that both are a single wait.
    pub(crate) trust: Trust,
    /// The earlier wait is among several slices, and the thread has not acted since.
    pub(crate) in_slices: bool,
}

impl JoinedWaits {
    /// The waits joined with the wait at `index`, if that wait ended early. `known`
    /// is returned if it still covers the wait, so that every interval is read once. Intervals that end after
    /// `to` do not count.
    fn at(
        graph: &Graph,
        thread: ThreadIndex,
        index: usize,
        to: Stamp<Reference>,
        ticks: &PeriodicTicks,
        known: Option<Self>,
    ) -> Option<Self> {
        if let Some(known) = known.filter(|known| index <= known.last) {
            return Some(known);
        }
        let series = match known.map(|known| known.series).filter(|series| index <= series.last) {
            Some(series) => series,
            None => {
                let whole = Self::find(graph, thread, index, to, ticks, None)?;
                if whole.series.ender.is_none() {
                    return Some(whole);
                }
                whole.series
            }
        };
        let found = Self::find(graph, thread, index, to, ticks, series.ender);
        Some(Self { series, ..found.unwrap_or(Self::alone(index)) })
    }

    /// A single wait.
    const fn alone(index: usize) -> Self {
        Self {
            last: index,
            proved: index,
            resumed: index,
            hidden: index,
            quiet: index,
            slices: 0,
            ended: None,
            given_up: false,
            series: Series { last: index, ender: None },
        }
    }

    /// The waits joined with the wait at `index`; wake-ups by `ender` are no ticker's. `None` if that wait did not end early.
    fn find(
        graph: &Graph,
        thread: ThreadIndex,
        index: usize,
        to: Stamp<Reference>,
        ticks: &PeriodicTicks,
        ender: Option<ThreadIndex>,
    ) -> Option<Self> {
        let early_end = |wait: &Wait| {
            EarlyEnd::of(graph, thread, wait)
                .filter(|end| ender.is_none_or(|ender| *end != EarlyEnd::Ticker(ender)))
        };
        let intervals = graph.state_intervals(thread);
        let interval = intervals.get(index)?;
        let first = graph.wait(&interval)?;
        let end_at = |index, wait: &Wait| match ticks.at(index) {
            Some(_) => Some(EarlyEnd::PeriodicTick),
            None => early_end(wait),
        };
        let mut end = Some(early_end(&first)?);
        let awaited = Awaited::of(&first).filter(|_| !timed_out(&first) || may_go_on(first.call))?;
        let mut found = Self::alone(index);
        found.resumed = index + usize::from(end != Some(EarlyEnd::Signal));
        let (mut last_wait, mut is_open) = (first, false);
        // The time since the last of these waits is not known.
        let mut lost = false;
        // The end of the last of these waits is not known.
        let mut unseen = false;
        let provable = awaited.is_set || awaited.lock.is_some();
        let (mut waited, mut ran) = (interval.to.since(interval.from), 0);
        let mut waited_in_all = waited;
        for next in index + 1..intervals.len() {
            let Some(interval) = intervals.get(next).filter(|interval| interval.from < to) else { break };
            let beyond = interval.to > to;
            match interval.state {
                _ if beyond && !matches!(interval.state, ThreadState::Blocked(_)) => break,
                ThreadState::Running { .. } => ran += interval.to.since(interval.from),
                ThreadState::Runnable { .. } | ThreadState::Throttled { .. } => {}
                ThreadState::Unknown(UnknownReason::NotSeenYet) => break,
                // Most likely, a missing switch hides another piece of the wait: the thread's actions for others have records.
                ThreadState::Unknown(UnknownReason::Lost) => lost = provable,
                ThreadState::Blocked(_) => {
                    let Some(wait) = graph.wait(&interval) else { break };
                    if wait.state == Some(BlockedState::Stopped) {
                        continue;
                    }
                    let ticked = matches!(end, Some(EarlyEnd::Ticker(_)));
                    if wait.is_begin_hidden() {
                        if beyond {
                            break;
                        }
                        // A switch-out is missing. Most likely, the thread had returned to the same wait, and ended it early again.
                        if matches!(early_end(&wait), Some(EarlyEnd::TimeOut | EarlyEnd::Signal)) {
                            continue;
                        }
                        // Another event may have ended another wait, unless it came from the lock's owner.
                        let ended = awaited.lock.and_then(|_| awaited.trust(graph, thread, &wait));
                        if ended != Some(Trust::By(Rule::JoinedTimeouts)) {
                            break;
                        }
                        return Some(Self { last: next, ended, ..found });
                    }
                    let timed = end == Some(EarlyEnd::TimeOut);
                    // Behind an event, an action is an answer; behind its own timer, an event loop's work.
                    let done = wait.acted && (ticked || unseen || (timed && awaited.is_event_loop()));
                    let same = Awaited::of(&wait).filter(|next| awaited.is_alike(next));
                    // A tick may come right behind another end.
                    let enough = match end {
                        Some(EarlyEnd::PeriodicTick) => u64::MAX,
                        _ if ticked => waited_in_all,
                        _ => waited,
                    };
                    let Some(same) = same.filter(|_| ran <= enough && !done) else { break };
                    let over = timed_out(&wait) && !may_go_on(wait.call);
                    if over || (beyond && !ticked) {
                        break;
                    }
                    found.go_back(next, &wait, end);
                    // After sending a packet or a wake-up, the thread may wait for another answer.
                    if awaited.lock.is_none() && wait.acted {
                        found.proved = next;
                        found.hidden = if lost { next } else { found.hidden };
                    }
                    if ticked {
                        found.proved = next;
                    }
                    if ticked || same.arg0 != awaited.arg0 {
                        found.resumed = found.resumed.max(next);
                    }
                    is_open = beyond;
                    (last_wait, end) = (wait, end_at(next, &wait));
                    if is_open {
                        break;
                    }
                    // Most likely, a wait among others that ended early did so too.
                    unseen = wait.end == Waker::Unseen;
                    lost = provable && unseen;
                    if !unseen && end.is_none() {
                        found.ended = awaited.trust(graph, thread, &wait);
                        found.series.ender = ender_of(&wait);
                        return Some(found);
                    }
                    if !matches!(end, Some(EarlyEnd::Signal | EarlyEnd::PeriodicTick)) {
                        found.resumed = next + 1;
                    }
                    (waited, ran) = (interval.to.since(interval.from), 0);
                    waited_in_all += waited;
                }
            }
        }
        if is_open {
            return Some(found);
        }
        match end {
            // The thread does something else: this was the event.
            Some(EarlyEnd::Ticker(_)) if found.last == index => return None,
            Some(EarlyEnd::Ticker(ticker)) => {
                found.ended = awaited.trust(graph, thread, &last_wait);
                found.series.ender = Some(ticker);
            }
            Some(EarlyEnd::TimeOut) => found.given_up = true,
            Some(EarlyEnd::Signal | EarlyEnd::PeriodicTick) | None => {}
        }
        found.hidden = if lost { found.last + 1 } else { found.hidden };
        Some(found)
    }

    /// Adds a wait to which the thread goes back after this `end`. Behind a periodic tick it is the same slice.
    const fn go_back(&mut self, next: usize, wait: &Wait, end: Option<EarlyEnd>) {
        (self.last, self.series.last) = (next, next);
        (self.quiet, self.slices) = match end {
            Some(EarlyEnd::PeriodicTick) => (self.quiet, self.slices),
            _ if wait.acted => (next, 0),
            _ => (self.quiet, self.slices + 1),
        };
    }

    /// Whether the timed-out wait at `index` may continue in a later wait that a missing switch hides.
    pub(crate) const fn is_end_hidden(self, index: usize) -> bool {
        index < self.hidden
    }

    /// Whether the thread went back to its wait after the wait at `index`.
    pub(crate) const fn go_on_after(self, index: usize) -> bool {
        index < self.last
    }

    /// The last wait, if its end also explains the wait at `index`, which had this `end`; `None` if all timed out.
    /// A `nested` thread is awaited itself, all along: a single time-out without an action behind it was not what the waiter waited for.
    fn ending_wait(
        self,
        graph: &Graph,
        thread: ThreadIndex,
        index: usize,
        end: EarlyEnd,
        nested: bool,
    ) -> Option<EndingWait> {
        let ticked = matches!(end, EarlyEnd::Ticker(_));
        let trust = match self.ended {
            Some(Trust::Doubtful) if index >= self.resumed => Trust::By(Rule::ResumedAfterSignal),
            Some(trust) => trust,
            None if self.given_up && ticked => Trust::Doubtful,
            None if end == EarlyEnd::TimeOut => return self.handed_over(graph, thread, index),
            None => return None,
        };
        let trust = trust.doubtful_if(index < self.proved);
        let intervals = graph.state_intervals(thread);
        let is_quiet = |slices| index >= self.quiet && self.slices >= slices;
        let in_slices = is_quiet(if nested { 1 } else { 2 });
        let interval = intervals.get(self.last).filter(|_| index < self.last)?;
        let wait = graph.wait(&interval)?;
        let may_be = trust == Trust::Doubtful && end == EarlyEnd::TimeOut;
        let slice = intervals.get(index).filter(|_| may_be);
        let is_holder = slice.is_some_and(|slice| held_meanwhile(graph, thread, &slice, (&interval, &wait)));
        if may_be
            && !is_holder
            && let Some(ending) = self.handed_over(graph, thread, index)
        {
            return Some(ending);
        }
        let trust = if is_holder { Trust::By(Rule::RanMeanwhile) } else { trust };
        // An event loop's single time-out is its own timer.
        let own_timer = end == EarlyEnd::TimeOut && !is_quiet(2) && is_event_loop(&wait);
        (!own_timer).then_some(EndingWait { interval, wait, trust, in_slices })
    }

    /// The last slice before the thread ran, as if the thread that handed over right behind it had ended it.
    fn handed_over(self, graph: &Graph, thread: ThreadIndex, index: usize) -> Option<EndingWait> {
        let intervals = graph.state_intervals(thread);
        let (slice, interval) = (intervals.get(index)?, last_slice(graph, thread, index)?);
        let last = graph.wait(&interval).filter(|wait| wait.lock.is_none())?;
        let at = last.call?.futex()?;
        let by = handed_over_behind(graph, thread, at, &interval)?;
        let end = WakeUp {
            at: interval.to,
            current: Occupant::Thread(by),
            context: Context::Task,
            irq: 0,
            evidence: EvidenceIndex::NONE,
            late: None,
        };
        let wait = Wait { end: Waker::Woken(end), ..last };
        is_held_through(graph, at, &slice, (by, interval.to)).then_some(EndingWait {
            interval,
            wait,
            trust: Trust::By(Rule::RanMeanwhile),
            in_slices: index >= self.quiet && self.slices >= 2,
        })
    }
}

/// The target of a thread's wait, as far as it is known.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    call: u32,
    arg0: u64,
    lock: Option<AwaitedLock>,
    /// The first argument is the id of a set of descriptors.
    is_set: bool,
}

/// A futex in the shape of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AwaitedLock {
    operation: u32,
    /// The owner named in the futex's memory.
    owner: Tid,
}

impl Awaited {
    fn of(wait: &Wait) -> Option<Self> {
        let call = wait.call.filter(|call| !call.is_sleep())?;
        let Call { number, lock, .. } = call;
        let lock = lock.filter(|_| number == Call::FUTEX);
        let lock = lock
            .and_then(|word| Some(AwaitedLock { operation: word.operation, owner: word.shaped_owner()? }));
        Some(Self { call: number, arg0: call.argument(), lock, is_set: call.set().is_some() })
    }

    /// Whether a wait for `next` may be for the same target. A glibc condition variable waits by turns on both words in a pair.
    fn is_alike(&self, next: &Self) -> bool {
        let is_same = match (self.call, self.lock) {
            (Call::FUTEX, None) => Call::is_same_condition(self.arg0, next.arg0),
            _ => self.arg0 == next.arg0,
        };
        is_same && (self.call, self.lock) == (next.call, next.lock)
    }

    /// Whether the wait is for any event in a set kept by the kernel.
    fn is_event_loop(&self) -> bool {
        Call::EPOLLS.contains(&self.call)
    }

    /// The certainty that waits of `thread` for this target, up to `last`, are a single wait; `None` if no event ended `last`.
    fn trust(self, graph: &Graph, thread: ThreadIndex, last: &Wait) -> Option<Trust> {
        // A signal cuts a wait short; it is not the awaited event.
        let (Waker::Woken(WakeUp { current, context, .. }), None) = (last.end, last.cut) else { return None };
        let by_owner = match (current, self.lock) {
            (Occupant::Thread(waker), Some(lock)) if context == Context::Task => {
                is_named(graph, thread, waker, lock.owner)
            }
            _ => false,
        };
        Some(if by_owner || self.is_set { Trust::By(Rule::JoinedTimeouts) } else { Trust::Doubtful })
    }
}

/// Whether `owner`, as spelled in the memory of the waiter's process, is the waker, a thread of the same
/// process.
fn is_named(graph: &Graph, waiter: ThreadIndex, waker: ThreadIndex, owner: Tid) -> bool {
    let (waiter, waker) = (graph.thread(waiter), graph.thread(waker));
    if waiter.tgid().is_none() || waiter.tgid() != waker.tgid() {
        return false;
    }
    // The memory has the tid in the process's pid namespace.
    waker.identity.as_ref().is_some_and(|who| who.ns_tid.number() == owner.number())
}

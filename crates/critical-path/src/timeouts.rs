//! Waits that end in a time-out, and the choice to count several as a single wait.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockedState, Call, Context, SignalEffect, Softirq, Tid, WaitEnd};
use wakepath_wait_graph::{
    Graph, Occupant, StateInterval, StateIntervals, ThreadIndex, ThreadState, UnknownReason, Wait, WakeUp,
    Waker,
};

use crate::Rule;
use crate::tiles::Trust;

/// The treatment of time-outs.
///
/// A wait that is repeated after short time-outs hides its cause (G15 §5.4.3, §8.1). Waits are joined if the thread goes back to the same wait, in
/// the same system call with the same first argument, and has not run for longer than it had waited. The last wait's end then explains all of them.
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
    /// Nothing else proves it. The futex of a condition variable or semaphore is at the same address for each event, and a descriptor is the same for
    /// each packet. If a missing record may hide a return to the same wait, the time-out is ambiguous.
    #[default]
    Joined,
    /// They are joined if they may have been the same wait; without proof, the segments are ambiguous. Sleeps are never joined, nor waits for any
    /// event of a set.
    JoinedIfAlike,
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
    /// The certainty of the join, if the last wait ended in something other than a time-out.
    ended: Option<Trust>,
}

impl JoinedWaits {
    /// The waits joined with the wait at `index`, if that wait ended in a time-out. `known`
    /// is returned if it still covers the wait, so that every interval is read once. Intervals that end after
    /// `to` do not count.
    pub(crate) fn at(
        graph: &Graph,
        thread: ThreadIndex,
        index: usize,
        to: Stamp<Reference>,
        known: Option<Self>,
    ) -> Option<Self> {
        let intervals = graph.state_intervals(thread);
        let interval = intervals.get(index)?;
        let first = graph.wait(&interval).filter(|wait| ended_early(graph, thread, wait))?;
        if let Some(known) = known.filter(|known| index <= known.last) {
            return Some(known);
        }
        let awaited = Awaited::of(&first).filter(|awaited| !timed_out(&first) || may_go_on(awaited.call))?;
        let (mut last, mut proved, mut hidden) = (index, index, index);
        let mut resumed = index + usize::from(timed_out(&first));
        // The time since the last of these waits is not known.
        let mut lost = false;
        let provable = awaited.is_set || awaited.lock.is_some();
        let (mut waited, mut ran) = (interval.to.since(interval.from), 0);
        for next in index + 1..intervals.len() {
            let Some(interval) = intervals.get(next).filter(|interval| interval.to <= to) else { break };
            match interval.state {
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
                    if wait.is_begin_hidden() {
                        // A switch-out is missing. Most likely, the thread had returned to the same wait, and ended it early again.
                        if ended_early(graph, thread, &wait) {
                            continue;
                        }
                        // Another event may have ended another wait, unless it came from the lock's owner.
                        let ended = awaited.lock.and_then(|_| awaited.trust(graph, thread, &wait));
                        if ended != Some(Trust::By(Rule::JoinedTimeouts)) {
                            break;
                        }
                        return Some(Self { last: next, proved, resumed, hidden, ended });
                    }
                    let over = timed_out(&wait) && !may_go_on(awaited.call);
                    if Awaited::of(&wait) != Some(awaited) || ran > waited || over {
                        break;
                    }
                    last = next;
                    // After sending a packet or a wake-up, the thread may wait for another answer.
                    if awaited.lock.is_none() && wait.acted {
                        proved = next;
                        hidden = if lost { next } else { hidden };
                    }
                    // The end of this wait is not known.
                    lost = provable && wait.end == Waker::Unseen;
                    if !lost && !ended_early(graph, thread, &wait) {
                        let ended = awaited.trust(graph, thread, &wait);
                        return Some(Self { last, proved, resumed, hidden, ended });
                    }
                    resumed = if timed_out(&wait) { next + 1 } else { resumed };
                    (waited, ran) = (interval.to.since(interval.from), 0);
                }
            }
        }
        hidden = if lost { last + 1 } else { hidden };
        Some(Self { last, proved, resumed, hidden, ended: None })
    }

    /// Whether the timed-out wait at `index` may continue in a later wait that a missing switch hides.
    pub(crate) const fn is_end_hidden(self, index: usize) -> bool {
        index < self.hidden
    }

    /// The last of the waits, which did not end in a time-out, and the certainty that the wait at `index` is joined with it; `None` if all of them
    /// timed out, or if the certainty is lower than `timeouts` asks for.
    pub(crate) fn ending_wait(
        self,
        graph: &Graph,
        intervals: StateIntervals<'_>,
        index: usize,
        timeouts: Timeouts,
    ) -> Option<(StateInterval, Wait, Trust)> {
        let resumed = Trust::By(Rule::ResumedAfterSignal);
        let trust = self.ended.map(|trust| match trust {
            Trust::Doubtful if index >= self.resumed => resumed,
            _ => trust,
        });
        let trust = trust.map(|trust| trust.doubtful_if(index < self.proved));
        let trust = trust.filter(|trust| match timeouts {
            Timeouts::AsTheyAre => false,
            Timeouts::Joined => *trust != Trust::Doubtful,
            Timeouts::JoinedIfAlike => true,
        })?;
        let interval = intervals.get(self.last)?;
        Some((interval, graph.wait(&interval)?, trust))
    }
}

/// The target of a thread's wait, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Whether a wait of `thread` ended before its event came: by a time-out, or by a signal whose handler let the thread go back to its call.
pub(crate) fn ended_early(graph: &Graph, thread: ThreadIndex, wait: &Wait) -> bool {
    let goes_on = wait.cut.is_some_and(|cut| cut.signal != 0 && cut.effect == SignalEffect::GoesOn);
    timed_out(wait) || (goes_on && !is_for_signals(wait) && is_no_event(graph, thread, wait))
}

/// Whether the signal that cut a wait short is not the awaited event: a timer sent it, or, for a futex wait, a thread of the same process, as
/// profilers and runtimes do. A futex wait has no other event than the futex's wake-up.
fn is_no_event(graph: &Graph, thread: ThreadIndex, wait: &Wait) -> bool {
    let Waker::Woken(WakeUp { context, current, .. }) = wait.end else { return false };
    let tgid = |thread| graph.thread(thread).tgid();
    let is_futex = wait.call.is_some_and(|call| call.number == Call::FUTEX);
    match current {
        _ if is_timer(context) => true,
        Occupant::Thread(sender) => {
            is_futex && context == Context::Task && tgid(sender).is_some() && tgid(sender) == tgid(thread)
        }
        _ => false,
    }
}

/// Whether the wait's own timer ended it.
pub fn timed_out(wait: &Wait) -> bool {
    // A timer that sends a signal is not the wait's own.
    let (Waker::Woken(WakeUp { context, .. }), None) = (wait.end, wait.cut) else { return false };
    // Nor is a timer that a descriptor stands for, or may stand for.
    let other = wait.call.map(|call| call.ended_by());
    is_timer(context) && !matches!(other, Some(WaitEnd::Ready(_) | WaitEnd::TimerMember))
}

const fn is_timer(context: Context) -> bool {
    matches!(
        context,
        Context::LocalTimer | Context::UnrecordedTimer | Context::Softirq(Softirq::Timer | Softirq::Hrtimer)
    )
}

/// Whether a wait in this call may go on after its own time-out. A sleep waits only for its timer; a wait for any event of a set, such as
/// `epoll_wait`, does not wait for a particular event; and `pause` has no time-out.
pub const fn may_go_on(call: u32) -> bool {
    const PAUSE: u32 = 34;
    const NANOSLEEP: u32 = 35;
    const RT_SIGSUSPEND: u32 = 130;
    const IO_GETEVENTS: u32 = 208;
    const CLOCK_NANOSLEEP: u32 = 230;
    const EPOLL_WAIT: u32 = 232;
    const EPOLL_PWAIT: u32 = 281;
    const IO_PGETEVENTS: u32 = 333;
    const IO_URING_ENTER: u32 = 426;
    const EPOLL_PWAIT2: u32 = 441;
    !matches!(
        call,
        PAUSE
            | NANOSLEEP
            | RT_SIGSUSPEND
            | IO_GETEVENTS
            | CLOCK_NANOSLEEP
            | EPOLL_WAIT
            | EPOLL_PWAIT
            | IO_PGETEVENTS
            | IO_URING_ENTER
            | EPOLL_PWAIT2
    )
}

/// Whether a wait in this call waits for a signal, whose sender then answers it: `pause`, `rt_sigsuspend`. A signal that kills answers nothing.
pub(crate) fn is_for_signals(wait: &Wait) -> bool {
    let goes_on = wait.cut.is_some_and(|cut| cut.effect == SignalEffect::GoesOn);
    goes_on && wait.call.is_some_and(|call| matches!(call.number, 34 | 130))
}

/// Whether a system call may end by a time-out: calls that wait for several things, locks, completions, or signals (perhaps a timer's).
pub(crate) const fn has_timeout(call: u32) -> bool {
    matches!(
        call,
        // poll, select, pause, nanosleep, rt_sigtimedwait, rt_sigsuspend, futex, io_getevents, semtimedop
        7 | 23 | 34 | 35 | 128 | 130 | 202 | 208 | 220
        // clock_nanosleep, epoll_wait
        | 230 | 232
        // mq_timedsend, mq_timedreceive, pselect6, ppoll, epoll_pwait, recvmmsg, io_pgetevents
        | 242 | 243 | 270 | 271 | 281 | 299 | 333
        // io_uring_enter, epoll_pwait2, futex_waitv, futex_wait
        | 426 | 441 | 449 | 455
    )
}

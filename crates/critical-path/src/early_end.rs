//! Waits ending before the awaited event: by a time-out, a signal, or a thread woken by its timer.

use wakepath_event::{Call, Context, SignalEffect, Softirq, WaitEnd};
use wakepath_wait_graph::{Graph, Occupant, ThreadIndex, ThreadState, Wait, WakeUp, Waker};

/// A wait's end, after which the thread may go back to the same wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlyEnd {
    /// The wait's own timer.
    TimeOut,
    /// A periodic tick in the thread's event loop, behind which it did nothing. It is only known from all time-outs together.
    PeriodicTick,
    /// A signal whose handler let the thread go back to its call.
    Signal,
    /// A thread just woken by its own timer: a ticker. Only the waiter's next wait shows whether this was the awaited event.
    Ticker(ThreadIndex),
}

impl EarlyEnd {
    /// The early end of a wait in `thread`, if it may be one; `None` for all other ends.
    pub(crate) fn of(graph: &Graph, thread: ThreadIndex, wait: &Wait) -> Option<Self> {
        if timed_out(wait) {
            return Some(Self::TimeOut);
        }
        let goes_on = wait.cut.is_some_and(|cut| cut.signal != 0 && cut.effect == SignalEffect::GoesOn);
        if goes_on && !is_for_signals(wait) && is_no_event(graph, thread, wait) {
            return Some(Self::Signal);
        }
        ticker(graph, thread, wait).map(Self::Ticker)
    }
}

/// A ticker's most state intervals since its timer woke it: more preemptions mean work.
const MAX_STAYS: usize = 32;

/// The thread in the same process by which this wait for an event ended, if its own timer had just woken it: since then it has not waited, and has run
/// for less time than it had slept.
fn ticker(graph: &Graph, waiter: ThreadIndex, wait: &Wait) -> Option<ThreadIndex> {
    let (Waker::Woken(WakeUp { at, current, context: Context::Task, .. }), None) = (wait.end, wait.cut)
    else {
        return None;
    };
    let Occupant::Thread(waker) = current else { return None };
    // A lock's holder may sleep with it, and its release is the awaited event.
    let for_event = wait.lock.is_none() && wait.call.is_some_and(is_for_events);
    let process = graph.thread(waiter).tgid();
    if !for_event || process.is_none() || graph.thread(waker).tgid() != process {
        return None;
    }
    let intervals = graph.state_intervals(waker);
    let last = intervals.find_before(at)?;
    let mut ran = 0;
    for index in (0..=last).rev().take(MAX_STAYS) {
        let interval = intervals.get(index)?;
        match interval.state {
            ThreadState::Running { .. } => ran += interval.to.min(at).since(interval.from),
            ThreadState::Runnable { .. } | ThreadState::Throttled { .. } => {}
            ThreadState::Blocked(_) => {
                let woke = graph.wait(&interval).is_some_and(|slept| {
                    // A missing switch hides the sleep's end, which was its timer.
                    timed_out(&slept)
                        || (slept.end == Waker::Unseen && slept.call.is_some_and(|call| call.is_sleep()))
                });
                return (woke && ran < interval.to.since(interval.from)).then_some(waker);
            }
            ThreadState::Unknown(_) => return None,
        }
    }
    None
}

/// Whether a call waits for an event without a name: on a condition variable or alike, or for any descriptor in a set. For `epoll_wait` the kernel
/// names the ready descriptor: an event.
fn is_for_events(call: Call) -> bool {
    match call.number {
        Call::FUTEX => call.lock.is_none_or(|word| word.shaped_owner().is_none()),
        number => Call::POLLS.contains(&number) && !call.is_sleep(),
    }
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

/// Whether a wait may go on after its own time-out. A sleep waits only for its timer; `epoll_wait` may have waited for a timer of the set, unless the
/// kernel had nothing ready; `io_uring_enter` does not wait for a particular event; and `pause` has no time-out.
pub(crate) fn may_go_on(call: Option<Call>) -> bool {
    const PAUSE: u32 = 34;
    const NANOSLEEP: u32 = 35;
    const RT_SIGSUSPEND: u32 = 130;
    const IO_GETEVENTS: u32 = 208;
    const CLOCK_NANOSLEEP: u32 = 230;
    const IO_PGETEVENTS: u32 = 333;
    let Some(call) = call else { return false };
    if Call::EPOLLS.contains(&call.number) {
        return call.ended_by() == WaitEnd::NothingReady;
    }
    !matches!(
        call.number,
        PAUSE
            | NANOSLEEP
            | RT_SIGSUSPEND
            | IO_GETEVENTS
            | CLOCK_NANOSLEEP
            | IO_PGETEVENTS
            | Call::IO_URING_ENTER
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

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    #[test]
    fn a_thread_that_was_preempted_often_since_its_timer_is_no_ticker() {
        let ticker_after = |preemptions: u64| {
            let mut trace = String::from(
                "thread A tid=10
                 thread T tid=11 tgid=10
                 thread X tid=20
                 0 c0 idle started
                 0 c0 idle switch A
                 0 c1 idle switch T
                 5 c1 T switch idle blocked call=230:0
                 10 c0 A switch idle blocked call=202:0x1028
                 900 c1 idle/timer waking T
                 900 c1 idle switch T\n",
            );
            for at in (910..).step_by(10).take(preemptions as usize) {
                let _ = writeln!(trace, "{at} c1 T switch X runnable\n{} c1 X switch T runnable", at + 5);
            }
            let end = 910 + 10 * preemptions;
            let _ = writeln!(trace, "{end} c1 T waking A\n{end} c0 idle switch A\n1200 c0 A stopped");
            let script = wakepath_scenario::text::parse(&trace).expect("a trace");
            let graph: Graph = script.events.iter().collect();
            let waits = graph.state_intervals(ThreadIndex(0)).overlapping(graph.from(), graph.to());
            let wait = waits.filter_map(|interval| graph.wait(&interval)).next().expect("a wait");
            EarlyEnd::of(&graph, ThreadIndex(0), &wait)
        };
        // Between the sleep and the wake-up: a stay, and for each preemption a wait for the CPU and a stay.
        assert_eq!(ticker_after(15), Some(EarlyEnd::Ticker(ThreadIndex(1))));
        assert_eq!(ticker_after(16), None);
    }
}

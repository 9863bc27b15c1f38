//! The time that each thread ran, could run and was blocked, from the scheduler's events alone.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::events::{Event, Kind, Left};

/// A thread id's time, in ns, over all threads that had the id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proved {
    /// The time from each switch to the thread to the next switch away from it on that CPU.
    pub running: u64,
    /// The time in which the thread could run: from a wake-up, or a switch away while it could still run, to its next
    /// switch-in.
    pub runnable: u64,
    /// The time from each switch away in a blocked state to the next wake-up; for a new thread, from its fork to its
    /// first wake-up.
    pub blocked: u64,
    /// The time before the thread's first event, and before each event that cannot follow the previous event.
    pub unproved: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// On this CPU.
    Running(u32),
    Runnable,
    Blocked(Waking),
    /// It left in a final state, and nothing shows yet whether it had exited before the trace begins.
    MaybeEnded,
    Unproved,
    Ended,
}

/// Whether a blocked thread was woken before it left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waking {
    None,
    /// It was woken before it had left its CPU: the next wake-up shows that this earlier wake-up ended the wait.
    Before,
}

/// A thread id's state, with the time at which it began.
struct Life {
    state: State,
    since: u64,
    /// It was woken while it ran.
    woken: bool,
    exits: bool,
    proved: Proved,
}

impl Life {
    fn go(&mut self, state: State, stamp: u64) {
        let time = stamp.saturating_sub(self.since);
        match self.state {
            State::Running(_) => self.proved.running += time,
            State::Runnable => self.proved.runnable += time,
            State::Blocked(_) | State::MaybeEnded => self.proved.blocked += time,
            State::Unproved => self.proved.unproved += time,
            State::Ended => {}
        }
        (self.state, self.since) = (state, stamp);
    }

    fn leave(&mut self, cpu: u32, left: Left, stamp: u64) {
        // A thread leaving a CPU without a switch to it has been there for an unknown time.
        if self.state != State::Running(cpu) {
            self.state = State::Unproved;
        }
        let next = match left {
            Left::Runnable => State::Runnable,
            Left::EndedOrParked | Left::EndedOrBlocked if self.exits => State::Ended,
            Left::EndedOrParked => State::MaybeEnded,
            Left::Blocked | Left::EndedOrBlocked if self.woken => State::Blocked(Waking::Before),
            Left::Blocked | Left::EndedOrBlocked => State::Blocked(Waking::None),
        };
        self.woken = false;
        self.go(next, stamp);
    }

    fn enter(&mut self, cpu: u32, stamp: u64) {
        match self.state {
            // The wake-up before it left its CPU was the only wake-up.
            State::Blocked(Waking::Before) => self.state = State::Runnable,
            State::Runnable | State::Unproved => {}
            State::Running(_) | State::Blocked(Waking::None) | State::MaybeEnded | State::Ended => {
                self.state = State::Unproved;
            }
        }
        self.go(State::Running(cpu), stamp);
    }

    fn wake(&mut self, is_waking: bool, stamp: u64) {
        match self.state {
            State::Running(_) => self.woken |= is_waking,
            State::Blocked(Waking::Before) if !is_waking => {
                self.state = State::Runnable;
                self.go(State::Runnable, stamp);
            }
            State::Blocked(_) | State::MaybeEnded | State::Unproved => self.go(State::Runnable, stamp),
            State::Runnable | State::Ended => {}
        }
    }
}

/// Each thread id's times within a time range, in ns. `events` are in order of their stamps.
pub fn replay(events: &[Event], window: Range<u64>) -> BTreeMap<u32, Proved> {
    let first_wakeups = events.iter().any(|event| matches!(event.kind, Kind::FirstWakeup { .. }));
    let newborn = if first_wakeups { State::Blocked(Waking::None) } else { State::Runnable };
    let mut lives: HashMap<u32, Life> = HashMap::new();
    for event in events.iter().filter(|event| event.stamp <= window.end) {
        let mut life = |tid: u32, change: &dyn Fn(&mut Life)| {
            let new = || Life {
                state: State::Unproved,
                since: window.start,
                woken: false,
                exits: false,
                proved: Proved::default(),
            };
            // Thread 0 is the idle thread of each CPU.
            if tid != 0 {
                change(lives.entry(tid).or_insert_with(new));
            }
        };
        let stamp = event.stamp;
        match event.kind {
            Kind::Switch { from, to, left } => {
                life(from, &|life| life.leave(event.cpu, left, stamp));
                life(to, &|life| life.enter(event.cpu, stamp));
            }
            Kind::Waking { tid } => life(tid, &|life| life.wake(true, stamp)),
            Kind::Wakeup { tid } | Kind::FirstWakeup { tid } => life(tid, &|life| life.wake(false, stamp)),
            Kind::Birth { tid } => life(tid, &|life| {
                // Before the fork there was no thread with this id, or another thread.
                (life.state, life.woken, life.exits) = (State::Ended, false, false);
                life.go(newborn, stamp);
            }),
            Kind::Exit { tid } => life(tid, &|life| life.exits = true),
            Kind::Free { tid } => life(tid, &|life| {
                if life.state == State::MaybeEnded {
                    life.state = State::Ended;
                }
            }),
            Kind::Other => {}
        }
    }
    let times = lives.into_iter().map(|(tid, mut life)| {
        life.go(State::Ended, window.end);
        (tid, life.proved)
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stamp: u64, kind: Kind) -> Event {
        Event { stamp, cpu: 0, kind }
    }

    fn switch(stamp: u64, cpu: u32, from: u32, to: u32, blocked: bool) -> Event {
        let left = if blocked { Left::Blocked } else { Left::Runnable };
        Event { stamp, cpu, kind: Kind::Switch { from, to, left } }
    }

    fn ends(stamp: u64, from: u32) -> Event {
        at(stamp, Kind::Switch { from, to: 0, left: Left::EndedOrParked })
    }

    /// Thread 7's running, runnable, blocked and unproved time in the first 100 ns.
    fn times(events: &[Event]) -> [u64; 4] {
        let proved = replay(events, 0..100)[&7];
        [proved.running, proved.runnable, proved.blocked, proved.unproved]
    }

    #[test]
    fn a_thread_runs_waits_and_is_queued() {
        let begin = [switch(0, 0, 0, 1, false), switch(10, 0, 1, 7, false), switch(30, 0, 7, 0, true)];
        let end = [switch(53, 1, 0, 7, false), switch(60, 1, 7, 9, false), switch(70, 1, 9, 7, true)];
        let waking = [at(50, Kind::Waking { tid: 7 }), at(51, Kind::Wakeup { tid: 7 })];
        let events = [&begin[..], &waking, &end].concat();
        assert_eq!(times(&events), [20 + 7 + 30, 3 + 10, 20, 10]);
    }

    #[test]
    fn a_switch_that_cannot_follow_proves_nothing_before_it() {
        // No event says which thread woke thread 7, and when it came to CPU 1.
        let events = [
            switch(0, 0, 0, 7, false),
            switch(10, 0, 7, 0, true),
            switch(30, 0, 0, 7, false),
            switch(40, 1, 7, 0, true),
        ];
        assert_eq!(times(&events), [10, 0, 60, 30]);
    }

    #[test]
    fn a_waking_before_the_switch_away_ends_the_wait_where_no_other_one_follows() {
        let before = [switch(0, 0, 0, 7, false), at(8, Kind::Waking { tid: 7 }), switch(10, 0, 7, 0, true)];
        let spurious = [at(40, Kind::Waking { tid: 7 }), at(41, Kind::Wakeup { tid: 7 })];
        let back = [switch(50, 0, 0, 7, false)];
        assert_eq!(times(&[&before[..], &[at(12, Kind::Wakeup { tid: 7 })], &back].concat()), [60, 40, 0, 0]);
        assert_eq!(times(&[&before[..], &back].concat()), [60, 40, 0, 0]);
        assert_eq!(times(&[&before[..], &spurious, &back].concat()), [60, 10, 30, 0]);
    }

    #[test]
    fn a_new_thread_is_blocked_up_to_its_first_wake_up_where_these_were_recorded() {
        let fork = [at(10, Kind::Birth { tid: 7 })];
        let run = [switch(30, 0, 0, 7, false)];
        assert_eq!(times(&[&fork[..], &run].concat()), [70, 20, 0, 0]);
        let first = [at(14, Kind::FirstWakeup { tid: 7 })];
        assert_eq!(times(&[&fork[..], &first, &run].concat()), [70, 16, 4, 0]);
    }

    #[test]
    fn a_state_of_dead_or_idle_threads_ends_only_a_thread_that_exited() {
        let last = at(10, Kind::Switch { from: 7, to: 0, left: Left::EndedOrBlocked });
        let begin = switch(0, 0, 0, 7, false);
        assert_eq!(times(&[begin, at(5, Kind::Exit { tid: 7 }), last]), [10, 0, 0, 0]);
        assert_eq!(times(&[begin, last]), [10, 0, 90, 0]);
        assert_eq!(times(&[begin, last, at(30, Kind::Waking { tid: 7 })]), [10, 70, 20, 0]);
    }

    #[test]
    fn a_thread_ends_with_its_last_switch_and_its_number_may_be_used_again() {
        let life = [switch(0, 0, 0, 7, false), at(5, Kind::Exit { tid: 7 }), ends(10, 7)];
        assert_eq!(times(&life), [10, 0, 0, 0]);
        let again = [at(40, Kind::Birth { tid: 7 }), switch(60, 0, 0, 7, false), switch(80, 0, 7, 0, true)];
        assert_eq!(times(&[&life[..], &again].concat()), [10 + 20, 20, 20, 0]);
        // It exited before the trace begins; or it is parked.
        let unseen = [switch(0, 0, 0, 7, false), ends(10, 7)];
        assert_eq!(times(&[&unseen[..], &[at(20, Kind::Free { tid: 7 })]].concat()), [10, 0, 0, 0]);
        assert_eq!(times(&unseen), [10, 0, 90, 0]);
    }
}

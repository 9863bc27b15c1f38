//! A simulated run's truth, and the active path by its definition.

/// A run's truth.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Each thread's state intervals, in order and without gaps, from its fork to its death or the end.
    pub threads: Vec<Vec<StateInterval>>,
    /// The end of each thread's program, ns.
    pub completed: Vec<Option<u64>>,
    /// Each action's beginning and end, ns; `None` for an action that never ended.
    pub actions: Vec<Vec<Option<(u64, u64)>>>,
    /// Each thread's forker, if any.
    pub forkers: Vec<Option<usize>>,
}

/// A stretch of time in which a thread stays in the same state, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateInterval {
    /// The first nanosecond.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// The thread's state.
    pub state: ThreadState,
}

/// A thread's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// Running.
    Running,
    /// Waiting for a CPU.
    Runnable,
    /// Waiting, with the cause of the wait's end.
    Blocked(WaitEnd),
}

/// The cause of a wait's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// Another thread.
    Thread(usize),
    /// A timer.
    Timer,
    /// A disk.
    Disk,
    /// A packet, received in its sender's own context or not.
    Packet {
        /// The sender.
        sender: usize,
        /// The send time, ns.
        sent: u64,
        /// Whether it was received in the sender's context.
        at_sender: bool,
    },
    /// Nothing: the wait never ended.
    Open,
}

/// The explanation of a thread at a single time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Explanation {
    /// A thread ran.
    Running(usize),
    /// A thread waited for a CPU.
    Runnable(usize),
    /// A thread waited for a timer.
    Timer(usize),
    /// A thread waited for a disk.
    Disk(usize),
    /// A packet was on its way.
    InFlight,
    /// A thread waited and was never woken.
    Open(usize),
    /// A thread was not alive, and no thread forked it later.
    NotAlive(usize),
}

impl Truth {
    /// The explanation of a thread at a single time, by the definition of the active path: a wait is its
    /// waker's activity at this time. This function knows single times and no intervals.
    pub fn active(&self, thread: usize, ns: u64) -> Explanation {
        let mut who = thread;
        loop {
            let intervals = &self.threads[who];
            let Some(interval) = intervals.iter().find(|s| s.from <= ns && ns < s.to) else {
                let unborn = intervals.first().is_none_or(|first| ns < first.from);
                match self.forkers[who].filter(|_| unborn && who != thread) {
                    Some(forker) => {
                        who = forker;
                        continue;
                    }
                    None => return Explanation::NotAlive(who),
                }
            };
            match interval.state {
                ThreadState::Running => return Explanation::Running(who),
                ThreadState::Runnable => return Explanation::Runnable(who),
                ThreadState::Blocked(WaitEnd::Timer) => return Explanation::Timer(who),
                ThreadState::Blocked(WaitEnd::Disk) => return Explanation::Disk(who),
                ThreadState::Blocked(WaitEnd::Open) => return Explanation::Open(who),
                ThreadState::Blocked(WaitEnd::Packet { sent, at_sender, .. }) if !at_sender && ns >= sent => {
                    return Explanation::InFlight;
                }
                ThreadState::Blocked(WaitEnd::Packet { sender: next, .. } | WaitEnd::Thread(next)) => {
                    who = next
                }
            }
        }
    }

    /// All times at which anything changed.
    pub fn change_times(&self) -> Vec<u64> {
        let mut moments: Vec<u64> = self.threads.iter().flatten().flat_map(|s| [s.from, s.to]).collect();
        for interval in self.threads.iter().flatten() {
            if let ThreadState::Blocked(WaitEnd::Packet { sent, .. }) = interval.state {
                moments.push(sent);
            }
        }
        moments.sort_unstable();
        moments.dedup();
        moments
    }
}

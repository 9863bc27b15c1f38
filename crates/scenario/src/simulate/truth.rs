//! The truth of a simulated run, and the active path by its definition.

/// The truth of a run.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// The stretches of each thread, in order and without gap, from its birth to its death or the end.
    pub threads: Vec<Vec<Stretch>>,
    /// When each thread's program was at its end.
    pub completed: Vec<Option<u64>>,
    /// When each action of each thread began and ended; `None` for those that never did.
    pub actions: Vec<Vec<Option<(u64, u64)>>>,
    /// The parent of each thread, where it has one.
    pub forkers: Vec<Option<usize>>,
}

/// A thread did one thing from here to there, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its first nanosecond.
    pub from: u64,
    /// One past its last.
    pub to: u64,
    /// The state of the thread.
    pub was: Was,
}

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Was {
    /// It ran.
    Running,
    /// It waited for a CPU.
    Runnable,
    /// It waited for something, which this ended.
    Blocked(End),
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Another thread.
    Thread(usize),
    /// A timer.
    Timer,
    /// A disk.
    Disk,
    /// A packet that was sent then, and received in its sender's own context or elsewhere.
    Packet {
        /// The sender.
        sender: usize,
        /// When, ns.
        sent: u64,
        /// Received in the sender's context.
        at_sender: bool,
    },
    /// Nothing.
    Open,
}

/// The explanation of one moment of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum At {
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
    /// A thread waited for what never came.
    Open(usize),
    /// A thread was not alive, and nobody gave birth to it later.
    NotAlive(usize),
}

impl Truth {
    /// The explanation of one moment of a thread, by the definition of the active path: a
    /// wait is the activity of its waker at that moment. This function knows single moments
    /// and no intervals.
    pub fn active(&self, thread: usize, ns: u64) -> At {
        let mut who = thread;
        loop {
            let stretches = &self.threads[who];
            let Some(stretch) = stretches.iter().find(|s| s.from <= ns && ns < s.to) else {
                let unborn = stretches.first().is_none_or(|first| ns < first.from);
                match self.forkers[who].filter(|_| unborn && who != thread) {
                    Some(forker) => {
                        who = forker;
                        continue;
                    }
                    None => return At::NotAlive(who),
                }
            };
            match stretch.was {
                Was::Running => return At::Running(who),
                Was::Runnable => return At::Runnable(who),
                Was::Blocked(End::Timer) => return At::Timer(who),
                Was::Blocked(End::Disk) => return At::Disk(who),
                Was::Blocked(End::Open) => return At::Open(who),
                Was::Blocked(End::Packet { sent, at_sender, .. }) if !at_sender && ns >= sent => {
                    return At::InFlight;
                }
                Was::Blocked(End::Packet { sender: next, .. } | End::Thread(next)) => who = next,
            }
        }
    }

    /// All moments at which something changed.
    pub fn moments(&self) -> Vec<u64> {
        let mut moments: Vec<u64> = self.threads.iter().flatten().flat_map(|s| [s.from, s.to]).collect();
        for stretch in self.threads.iter().flatten() {
            if let Was::Blocked(End::Packet { sent, .. }) = stretch.was {
                moments.push(sent);
            }
        }
        moments.sort_unstable();
        moments.dedup();
        moments
    }
}

//! Which triggers keep a recording: how often, and when its window is over.

/// The cause of a kept recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The cause in words, as it is printed.
    pub text: String,
    /// One word for it, for the name of the recording.
    pub word: &'static str,
    /// When that began which the window should hold, ns on the monotonic clock: of a slow span its begin.
    pub since: Option<u64>,
    /// A person or a linked recorder asked for it: it does not count as one of too many.
    pub asked: bool,
    /// A linked recorder asked for it, which asks the others too.
    pub linked: bool,
}

/// The answer to a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A recording will be kept.
    Taken,
    /// A recording that will be kept for an earlier trigger holds this moment too.
    Joined,
    /// Too soon after the last one.
    TooSoon,
}

/// The triggers of a flight recorder. Times are stamps of the monotonic clock, ns.
#[derive(Debug)]
pub struct Triggers {
    /// The time that is recorded behind a trigger.
    after_ns: u64,
    /// The least time from one kept recording to the next trigger that counts.
    rest_ns: u64,
    pending: Option<(Cause, u64)>,
    kept_at: Option<u64>,
    ignored: u64,
}

impl Triggers {
    /// Triggers of which at most one in `rest_ns` counts.
    pub const fn new(after_ns: u64, rest_ns: u64) -> Self {
        Self { after_ns, rest_ns, pending: None, kept_at: None, ignored: 0 }
    }

    /// Takes a trigger that comes `now`, for the moment `at`, which is no later.
    pub fn ask(&mut self, cause: Cause, at: u64, now: u64) -> Asked {
        if let Some((pending, _)) = &mut self.pending {
            pending.since = match (pending.since, cause.since) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            return Asked::Joined;
        }
        let rests = self.kept_at.is_some_and(|at| now < at.saturating_add(self.rest_ns));
        if rests && !cause.asked {
            self.ignored += 1;
            return Asked::TooSoon;
        }
        self.pending = Some((cause, at.min(now)));
        Asked::Taken
    }

    /// The cause of the recording that is due, where all records up to `settled` are there, and the end of its window;
    /// `at_once`: the recorder ends, and nothing more comes.
    pub fn due(&mut self, settled: u64, at_once: bool) -> Option<(Cause, u64)> {
        let (_, asked) = self.pending.as_ref()?;
        let end = asked + self.after_ns;
        if settled < end && !at_once {
            return None;
        }
        let (cause, _) = self.pending.take()?;
        self.kept_at = Some(settled);
        Some((cause, end.min(settled)))
    }

    /// The number of triggers that came too soon since it was last asked.
    pub fn take_ignored(&mut self) -> u64 {
        std::mem::take(&mut self.ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(asked: bool, since: Option<u64>) -> Cause {
        Cause { text: "slow".to_owned(), word: "span", since, asked, linked: false }
    }

    #[test]
    fn a_window_ends_some_time_behind_its_trigger_when_all_records_are_there() {
        let mut triggers = Triggers::new(10, 100);
        assert_eq!(triggers.due(1000, true), None);
        assert_eq!(triggers.ask(cause(false, Some(900)), 1000, 1000), Asked::Taken);
        assert_eq!(triggers.ask(cause(false, Some(800)), 1005, 1005), Asked::Joined, "the same window");
        assert_eq!(triggers.due(1009, false), None);
        assert_eq!(triggers.due(1030, false), Some((cause(false, Some(800)), 1010)));
        assert_eq!(triggers.due(1030, true), None, "once");
        triggers.ask(cause(true, None), 2000, 2000);
        assert_eq!(triggers.due(2003, true), Some((cause(true, None), 2003)), "the recorder ends");
    }

    #[test]
    fn triggers_rest_behind_a_kept_recording_unless_a_person_asks() {
        let mut triggers = Triggers::new(10, 100);
        triggers.ask(cause(false, None), 0, 0);
        triggers.due(10, false);
        assert_eq!(triggers.ask(cause(false, None), 109, 109), Asked::TooSoon);
        assert_eq!(triggers.ask(cause(false, None), 109, 109), Asked::TooSoon);
        assert_eq!((triggers.take_ignored(), triggers.take_ignored()), (2, 0));
        assert_eq!(triggers.ask(cause(true, None), 109, 109), Asked::Taken);
        triggers.due(119, false);
        assert_eq!(triggers.ask(cause(false, None), 219, 219), Asked::Taken);
    }

    #[test]
    fn the_window_of_a_moment_that_is_past_ends_behind_it() {
        let mut triggers = Triggers::new(10, 100);
        assert_eq!(triggers.ask(cause(true, None), 960, 1000), Asked::Taken);
        assert_eq!(triggers.due(969, false), None, "not all of its records are there");
        assert_eq!(triggers.due(1000, false), Some((cause(true, None), 970)));
        // It rests behind the trigger, not behind the moment.
        assert_eq!(triggers.ask(cause(false, None), 1099, 1099), Asked::TooSoon);
        assert_eq!(triggers.ask(cause(false, None), 1200, 1100), Asked::Taken, "no moment to come");
        assert_eq!(triggers.due(1110, false), Some((cause(false, None), 1110)));
    }
}

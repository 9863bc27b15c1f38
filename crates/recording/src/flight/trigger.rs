//! The triggers that keep a recording: how often, and the end of each window.

/// A kept recording's cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerCause {
    /// The cause in words, as printed.
    pub text: String,
    /// The cause in one word, for the recording's name.
    pub word: &'static str,
    /// The start of the time that the window should hold, monotonic ns: for a slow span, its beginning.
    pub since: Option<u64>,
    /// A person or a linked recorder asked: the limit on frequency does not apply.
    pub asked: bool,
    /// A linked recorder asked, and it asks the others too.
    pub linked: bool,
}

/// A trigger's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A recording will be kept.
    Taken,
    /// The recording for an earlier trigger also holds this stamp.
    Joined,
    /// Too soon after the last recording.
    TooSoon,
}

/// A flight recorder's triggers. Times are monotonic stamps, ns.
#[derive(Debug)]
pub struct Triggers {
    /// The recorded time before a trigger.
    before_ns: u64,
    /// The recorded time behind a trigger.
    after_ns: u64,
    /// The least time from a kept recording to the next effective trigger.
    rest_ns: u64,
    /// The recordings to keep: cause and stamp. No window holds another's stamp.
    pending: Vec<(TriggerCause, u64)>,
    kept_at: Option<u64>,
    ignored: u64,
}

impl Triggers {
    /// At most one trigger in `rest_ns` takes effect. A window holds all the time before its trigger.
    pub const fn new(after_ns: u64, rest_ns: u64) -> Self {
        Self { before_ns: u64::MAX, after_ns, rest_ns, pending: Vec::new(), kept_at: None, ignored: 0 }
    }

    /// The same, with windows that hold `before_ns` before their trigger.
    #[must_use]
    pub fn with_before(self, before_ns: u64) -> Self {
        Self { before_ns, ..self }
    }

    /// Takes a trigger that arrives at `now` for the stamp `at`, which is no later.
    pub fn ask(&mut self, cause: TriggerCause, at: u64, now: u64) -> Asked {
        let at = at.min(now);
        let Self { before_ns, after_ns, .. } = *self;
        // Records settle some time behind `now`: an unwritten recording's window may have ended before `at`.
        let holds =
            |moment: u64| at <= moment.saturating_add(after_ns) && moment <= at.saturating_add(before_ns);
        if let Some((pending, _)) = self.pending.iter_mut().find(|(_, moment)| holds(*moment)) {
            pending.since = match (pending.since, cause.since) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            return Asked::Joined;
        }
        let ends = self.pending.iter().map(|(_, moment)| moment.saturating_add(after_ns));
        let last = ends.chain(self.kept_at).max();
        let rests = last.is_some_and(|at| now < at.saturating_add(self.rest_ns));
        if rests && !cause.asked {
            self.ignored += 1;
            return Asked::TooSoon;
        }
        self.pending.push((cause, at));
        Asked::Taken
    }

    /// The due recording's cause and window end, once all records up to `settled` are there; `at_once`: the recorder
    /// ends, and nothing more comes. Several may be due: ask until `None`.
    pub fn due(&mut self, settled: u64, at_once: bool) -> Option<(TriggerCause, u64)> {
        let (place, &(_, moment)) = self.pending.iter().enumerate().min_by_key(|(_, (_, moment))| *moment)?;
        let end = moment.saturating_add(self.after_ns);
        if settled < end && !at_once {
            return None;
        }
        let (cause, _) = self.pending.remove(place);
        self.kept_at = Some(settled);
        Some((cause, end.min(settled)))
    }

    /// The number of triggers that came too soon since the last call.
    pub fn take_ignored(&mut self) -> u64 {
        std::mem::take(&mut self.ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(asked: bool, since: Option<u64>) -> TriggerCause {
        TriggerCause { text: "slow".to_owned(), word: "span", since, asked, linked: false }
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
        // The rest counts from the trigger, not from its stamp.
        assert_eq!(triggers.ask(cause(false, None), 1099, 1099), Asked::TooSoon);
        assert_eq!(triggers.ask(cause(false, None), 1200, 1100), Asked::Taken, "no moment to come");
        assert_eq!(triggers.due(1110, false), Some((cause(false, None), 1110)));
    }

    #[test]
    fn a_trigger_joins_the_window_that_has_its_moment_and_a_person_gets_another_one_for_other_moments() {
        use Asked::{Joined, Taken, TooSoon};
        // The first window, 970 to 1010, is not written yet. The rest time, whether a person asks, the second
        // trigger's stamp, and the answer.
        for (rest_ns, asked, at, answer) in [
            (100, true, 1000, Joined),
            (100, false, 1010, Joined),
            (100, true, 1010, Joined),
            (100, false, 1011, TooSoon),
            (100, true, 1011, Taken),
            (2, false, 1011, TooSoon),
            (1, false, 1011, Taken),
            (0, false, 1011, Taken),
            (100, false, 970, Joined),
            (100, true, 970, Joined),
            (100, false, 969, TooSoon),
            (100, true, 969, Taken),
        ] {
            let mut triggers = Triggers::new(10, rest_ns).with_before(30);
            assert_eq!(triggers.ask(cause(false, Some(5)), 1000, 1000), Taken);
            let now = at.max(1000);
            assert_eq!(triggers.ask(cause(asked, Some(4)), at, now), answer, "{at}, rest {rest_ns}");
            let since = Some(if answer == Joined { 4 } else { 5 });
            let mut windows = vec![(cause(false, since), 1010)];
            if answer == Taken {
                windows.push((cause(asked, Some(4)), at + 10));
            }
            windows.sort_by_key(|(_, end)| *end);
            let due: Vec<_> = std::iter::from_fn(|| triggers.due(2000, false)).collect();
            assert_eq!(due, windows, "{at}: the window that ends first is first");
            assert_eq!(triggers.take_ignored(), u64::from(answer == TooSoon));
        }
    }

    #[test]
    fn each_window_waits_for_its_own_end_unless_the_recorder_ends() {
        let asked = || cause(true, None);
        let mut triggers = Triggers::new(10, 100).with_before(30);
        assert_eq!([1000, 1011, 1022].map(|at| triggers.ask(asked(), at, at)), [Asked::Taken; 3]);
        assert_eq!(triggers.ask(asked(), 1020, 1023), Asked::Joined);
        assert_eq!([1010, 1010, 1020].map(|at| triggers.due(at, false)), [Some((asked(), 1010)), None, None]);
        assert_eq!(
            [(); 3].map(|()| triggers.due(1025, true)),
            [Some((asked(), 1021)), Some((asked(), 1025)), None]
        );
        assert_eq!(
            triggers.ask(cause(false, None), 1124, 1124),
            Asked::TooSoon,
            "it rests behind the last one"
        );
        assert_eq!(triggers.ask(cause(false, None), 1125, 1125), Asked::Taken);
    }

    #[test]
    fn a_time_behind_a_trigger_of_any_length_ends_with_what_is_there() {
        let mut triggers = Triggers::new(u64::MAX, u64::MAX);
        assert_eq!(triggers.ask(cause(true, None), 5, 7), Asked::Taken);
        assert_eq!(triggers.due(u64::MAX - 1, false), None);
        assert_eq!(triggers.due(9, true), Some((cause(true, None), 9)));
        assert_eq!(triggers.ask(cause(false, None), u64::MAX - 1, u64::MAX - 1), Asked::TooSoon);
    }
}

//! The records that may be missing because the kernel skipped a program: it does so where an interrupt comes while the program
//! runs on that CPU, and meets the same tracepoint. The kernel does not say which CPU it was.
//!
//! Such a loss makes all of its time doubtful, so that skips which cannot have cost a record must not count:
//!
//! - Locks: an interrupt only spins, and waits of threads that spin are not recorded.
//! - Timers: only those of CPU limits are recorded, and only while a limit throttles threads. The program is met twice where an
//!   interrupt comes while it looks at a timer of a softirq, seen some times a minute under many packets.

/// How often the kernel skipped programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Skipped {
    /// The program that looks for timers of CPU limits.
    timers: u64,
    /// All others whose records may be missing.
    others: u64,
}

impl Skipped {
    /// Adds the count of a program.
    pub(crate) fn add(&mut self, program: &str, skipped: u64) {
        match program {
            "contention_begin" | "contention_end" => {}
            "hrtimer_expire_entry" => self.timers += skipped,
            _ => self.others += skipped,
        }
    }
}

/// The counts at the last checks.
#[derive(Debug, Default)]
pub(crate) struct Skips {
    skipped: Skipped,
    /// The number of events of CPU limits at the last check and at the one before it.
    limits: [Option<u64>; 2],
}

impl Skips {
    /// The number of records that may be missing since the last check. `limits` is the number of events of CPU limits so far.
    ///
    /// A limit that throttles has such an event in each of its periods, of 1 s at most, as checks are. Where none was seen since
    /// the check before the last one, no limit had time to hand out.
    pub(crate) fn missing(&mut self, skipped: Skipped, limits: u64) -> u64 {
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let timers = since(skipped.timers, self.skipped.timers);
        let others = since(skipped.others, self.skipped.others);
        let is_limited = self.limits[1] != Some(limits);
        self.limits = [Some(limits), self.limits[0]];
        self.skipped = skipped;
        others + if is_limited { timers } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(timers: u64, others: u64) -> Skipped {
        let mut skipped = Skipped::default();
        skipped.add("hrtimer_expire_entry", timers);
        skipped.add("sched_waking", others);
        skipped
    }

    #[test]
    fn no_record_is_missing_for_a_lock_that_an_interrupt_waits_for() {
        let mut skipped = Skipped::default();
        skipped.add("contention_begin", 3);
        skipped.add("contention_end", 3);
        assert_eq!(Skips::default().missing(skipped, 0), 0);
    }

    #[test]
    fn each_other_skipped_run_counts_once() {
        let mut skips = Skips::default();
        assert_eq!(skips.missing(skipped(0, 3), 0), 3);
        assert_eq!(skips.missing(skipped(0, 3), 0), 0);
        assert_eq!(skips.missing(skipped(0, 5), 0), 2);
    }

    #[test]
    fn a_timer_counts_only_beside_limits_that_throttle() {
        let mut skips = Skips::default();
        // A thread may have been throttled before the recording.
        assert_eq!(skips.missing(skipped(1, 0), 0), 1);
        assert_eq!(skips.missing(skipped(3, 0), 0), 2);
        assert_eq!(skips.missing(skipped(4, 0), 0), 0);
        // A thread is throttled, and its limit may hand out time in this second or in the next one.
        assert_eq!(skips.missing(skipped(5, 1), 1), 2);
        assert_eq!(skips.missing(skipped(6, 1), 1), 1);
        assert_eq!(skips.missing(skipped(7, 1), 1), 0);
    }
}

//! Timer descriptors, and the polled sets with a timer: their expiry and a time-out look alike.

use std::collections::HashSet;

use wakepath_event::{Call, FileName, SetMember, Tid};

/// The timers among the recorded descriptors.
#[derive(Debug, Default)]
pub(crate) struct TimerFiles {
    descriptors: HashSet<(Tid, u32)>,
    sets: HashSet<(Tid, u64)>,
}

impl TimerFiles {
    /// Notes a descriptor's meaning.
    pub(crate) fn observe(&mut self, file: &FileName) {
        if &*file.name == b"[timerfd]" {
            self.descriptors.insert((file.tgid, file.fd));
        } else if !self.descriptors.is_empty() {
            self.descriptors.remove(&(file.tgid, file.fd));
        }
    }

    /// Notes a set's member, whose meaning has been noted.
    pub(crate) fn observe_member(&mut self, member: &SetMember) {
        if self.descriptors.contains(&(member.tgid, member.fd)) {
            self.sets.insert((member.tgid, member.set));
        }
    }

    /// Whether a call in this process polls a timer.
    pub(crate) fn has_timer(&self, tgid: Tid, call: &Call) -> bool {
        !self.sets.is_empty() && call.set().is_some_and(|set| self.sets.contains(&(tgid, set)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_a_timer_if_a_member_was_one_then() {
        let file = |fd, name: &str| FileName {
            tgid: Tid(7),
            fd,
            mode: 0,
            inode: 1,
            flow: None,
            name: name.as_bytes().into(),
        };
        let set = Call::EMPTY_SET | 5;
        let member = |set, fd| SetMember { set, tgid: Tid(7), fd, total: 2 };
        let mut files = TimerFiles::default();
        files.observe(&file(3, "[timerfd]"));
        files.observe(&file(4, "[eventfd]"));
        files.observe_member(&member(set, 4));
        let poll = |set| Call { number: 7, arg0: set, lock: None };
        assert!(!files.has_timer(Tid(7), &poll(set)));
        files.observe_member(&member(set, 3));
        assert!(files.has_timer(Tid(7), &poll(set)));
        assert!(!files.has_timer(Tid(8), &poll(set)), "another process");
        assert!(!files.has_timer(Tid(7), &Call { number: 0, ..poll(set) }), "a read");
        // The descriptor is closed, and its number given to another file.
        files.observe(&file(3, "[eventfd]"));
        files.observe_member(&member(set + 4, 3));
        assert!(!files.has_timer(Tid(7), &poll(set + 4)));
    }
}

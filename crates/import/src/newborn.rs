//! A new thread's process: `task_newtask` says whether it is its maker's, just before `sched_process_fork` names both.

use wakepath_event::Tid;

/// The last new thread, and whether it belongs to its maker's process.
#[derive(Debug, Default)]
pub(crate) struct Newborn(Option<(Tid, bool)>);

impl Newborn {
    /// Takes a `task_newtask`; `None` if it cannot be read.
    pub fn note(&mut self, noted: Option<(Tid, bool)>) {
        self.0 = noted;
    }

    /// The process of `child`, if it is the thread noted last.
    pub fn process(&mut self, child: Tid, makers: impl FnOnce() -> Tid) -> Option<Tid> {
        let (_, in_process) = self.0.take().filter(|(thread, _)| *thread == child)?;
        Some(if in_process { makers() } else { child })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_noted_last_has_a_known_process_and_once() {
        let mut newborn = Newborn::default();
        assert_eq!(newborn.process(Tid(8), || Tid(7)), None);
        for (in_process, process) in [(true, 7), (false, 8)] {
            newborn.note(Some((Tid(8), in_process)));
            assert_eq!(newborn.process(Tid(8), || Tid(7)), Some(Tid(process)));
            assert_eq!(newborn.process(Tid(8), || Tid(7)), None);
        }
        newborn.note(Some((Tid(9), true)));
        assert_eq!(newborn.process(Tid(8), || Tid(7)), None);
    }
}

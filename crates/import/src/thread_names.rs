//! The names of threads, as a trace's events have shown them so far.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use wakepath_event::{Comm, Tid};

/// By thread, its last name.
#[derive(Debug, Default)]
pub(crate) struct ThreadNames(HashMap<Tid, Comm, FixedState>);

impl ThreadNames {
    /// Takes a thread's name, and says whether it is new. The switch to the thread, which names it too, may be missing: some kernels report none
    /// from the idle thread, on some CPUs.
    pub fn learn(&mut self, tid: Tid, comm: Comm) -> bool {
        tid != Tid::IDLE && self.0.insert(tid, comm) != Some(comm)
    }

    pub fn get(&self, tid: Tid) -> Option<Comm> {
        self.0.get(&tid).copied()
    }

    /// Drops a name: the number is another thread's.
    pub fn forget(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_new_if_the_thread_had_another_or_none_and_the_idle_thread_has_none() {
        let (mut names, [bash, sleep]) =
            (ThreadNames::default(), [b"bash", b"slee"].map(|name| Comm::new(name)));
        assert!(names.learn(Tid(7), bash) && !names.learn(Tid(7), bash));
        assert!(names.learn(Tid(7), sleep) && !names.learn(Tid(7), sleep));
        assert_eq!((names.get(Tid(7)), names.get(Tid(8))), (Some(sleep), None));
        names.forget(Tid(7));
        assert!(names.get(Tid(7)).is_none() && names.learn(Tid(7), sleep));
        assert!(!names.learn(Tid::IDLE, bash) && names.get(Tid::IDLE).is_none());
    }
}

//! The system calls that threads are in.

use foldhash::HashMap;
use wakepath_event::{Call, LockWord, Tid};

/// The system calls of threads without a CPU, where their entries were seen. The call of the current thread is
/// kept with its CPU, so that a call which does not wait costs next to nothing.
#[derive(Debug, Default)]
pub(super) struct Calls {
    // Bounded: a thread's id is below `Tid::LIMIT`.
    by_thread: HashMap<Tid, Call>,
}

impl Calls {
    /// Notes the call of the thread that leaves its CPU, and returns the call of the thread that takes it.
    pub fn switch(&mut self, prev: Tid, call: Option<Call>, next: Tid) -> Option<Call> {
        if let Some(call) = call {
            self.by_thread.insert(prev, call);
        }
        if self.by_thread.is_empty() { None } else { self.by_thread.remove(&next) }
    }

    /// Forgets all calls: records were lost.
    pub fn forget(&mut self) {
        self.by_thread.clear();
    }
}

/// A call as events have it. A trace records the place of a futex's word, never its value.
pub(super) fn call(number: u32, arg0: Option<u64>, futex: Option<u32>) -> Call {
    let lock = futex.map(|operation| LockWord { operation, value: None, claimed_owner: None });
    Call { number, arg0: arg0.unwrap_or(Call::NO_ARGUMENT), lock }
}

//! The threads' current system calls.

use foldhash::HashMap;
use wakepath_event::{Call, LockWord, Tid};

/// The recorded system calls of threads without a CPU. The current thread's call stays with its CPU, so that a call
/// without a wait costs next to nothing.
#[derive(Debug, Default)]
pub(super) struct Calls {
    // Bounded: a thread's id is below `Tid::LIMIT`.
    by_thread: HashMap<Tid, Call>,
}

impl Calls {
    /// Notes the call of the thread that leaves its CPU, and returns the next thread's call.
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

/// A call as an event holds it. A trace records a futex word's place, never its value.
pub(super) fn call(number: u32, arg0: Option<u64>, futex: Option<u32>) -> Call {
    let lock = futex.map(|operation| LockWord { operation, value: None, claimed_owner: None });
    Call { number, arg0: arg0.unwrap_or(Call::NO_ARGUMENT), lock }
}

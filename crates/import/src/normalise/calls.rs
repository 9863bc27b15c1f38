use foldhash::HashMap;
use wakepath_event::{Call, LockWord, Tid};

/// The system calls that threads without a CPU are in, where their entries were seen. That of the current
/// thread stands with its CPU, so that a call which does not wait costs next to nothing.
#[derive(Debug, Default)]
pub(super) struct Calls {
    // A thread's id is below `Tid::LIMIT`: no more than so many there can be.
    of: HashMap<Tid, Call>,
}

impl Calls {
    /// A thread leaves its CPU in a call or in none, and another one takes it, which is in the returned one.
    pub fn switch(&mut self, prev: Tid, call: Option<Call>, next: Tid) -> Option<Call> {
        if let Some(call) = call {
            self.of.insert(prev, call);
        }
        if self.of.is_empty() { None } else { self.of.remove(&next) }
    }

    /// Nobody knows any more.
    pub fn forget(&mut self) {
        self.of.clear();
    }
}

/// A call as events tell it. Of a futex's word a trace tells where it is, never what it says.
pub(super) fn call(number: u32, arg0: Option<u64>, futex: Option<u32>) -> Call {
    let lock = futex.map(|operation| LockWord { operation, value: None, claimed_owner: None });
    Call { number, arg0: arg0.unwrap_or(Call::NO_ARGUMENT), lock }
}

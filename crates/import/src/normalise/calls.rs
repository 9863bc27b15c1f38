use foldhash::HashMap;
use wakepath_event::{Call, LockWord, Tid};

/// The system call that each thread is in, where its entry was seen.
#[derive(Debug, Default)]
pub(super) struct Calls {
    of: HashMap<Tid, Call>,
}

impl Calls {
    pub fn get(&self, tid: Tid) -> Option<Call> {
        self.of.get(&tid).copied()
    }

    /// A thread enters a call, or leaves it.
    pub fn set(&mut self, tid: Tid, call: Option<Call>) {
        match call {
            // A thread's id is below `Tid::LIMIT`: so many there can be.
            Some(call) => self.of.insert(tid, call),
            None => self.of.remove(&tid),
        };
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

//! The waits of a graph, in compact form.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockedState, Call, Context, Softirq};

use crate::chunks::Chunks;
use crate::{ContendedLock, EvidenceIndex, Occupant, ThreadIndex, Wait, Waker};

/// The index of a wait of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitIndex(pub u32);

/// All waits, 24 bytes each. Fields that few waits have stand in lists of their own, in the order of the waits.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    packed: Chunks<Packed>,
    /// The wake-up times of waits that a wake-up before their last nanosecond ended.
    early: Vec<(u32, u64)>,
    locks: Vec<(u32, ContendedLock)>,
    words: Vec<(u32, wakepath_event::LockWord)>,
    states: Vec<(u32, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Packed {
    arg0: u64,
    call: u32,
    current: u32,
    evidence: u32,
    irq: u16,
    context: u8,
    /// The low four bits are the state; the constants name the others.
    state: u8,
}

const _: () = assert!(size_of::<Packed>() == 24);

const NO_CALL: u32 = u32::MAX;
const IDLE: u32 = u32::MAX;
const UNKNOWN_OCCUPANT: u32 = u32::MAX - 1;

const STATE: u8 = 0x0f;
const HAS_LOCK: u8 = 0x10;
const EARLY: u8 = 0x20;
const NEWBORN: u8 = 0x40;
const BEGAN_BEFORE: u8 = 0x80;

const OTHER: u8 = 14;
const NO_STATE: u8 = 15;
const STATES: [BlockedState; 8] = [
    BlockedState::Interruptible,
    BlockedState::Uninterruptible,
    BlockedState::Idle,
    BlockedState::Stopped,
    BlockedState::Traced,
    BlockedState::Parked,
    BlockedState::Frozen,
    BlockedState::RtLockWait,
];

/// The contexts by code. Two further codes stand for waits without a recorded wake-up.
const CONTEXTS: [Context; 7] = [
    Context::Task,
    Context::LocalTimer,
    Context::Reschedule,
    Context::CallFunction,
    Context::IrqWork,
    Context::Device,
    Context::UnknownInterrupt,
];
const SOFTIRQS: u8 = 16;
const UNSEEN_END: u8 = 254;
const OPEN_END: u8 = 255;

pub(crate) const fn pack_occupant(occupant: Occupant) -> u32 {
    match occupant {
        Occupant::Thread(thread) => thread.0,
        Occupant::Idle => IDLE,
        Occupant::Unknown => UNKNOWN_OCCUPANT,
    }
}

pub(crate) const fn unpack_occupant(packed: u32) -> Occupant {
    match packed {
        IDLE => Occupant::Idle,
        UNKNOWN_OCCUPANT => Occupant::Unknown,
        thread => Occupant::Thread(ThreadIndex(thread)),
    }
}

impl Waits {
    pub(crate) fn push(&mut self, wait: &Wait, to: Stamp<Reference>) -> WaitIndex {
        let index = self.packed.len() as u32;
        let mut state = match wait.state {
            None => NO_STATE,
            Some(BlockedState::Other(bits)) => {
                self.states.push((index, bits));
                OTHER
            }
            Some(state) => STATES.iter().position(|&s| s == state).map_or(NO_STATE, |code| code as u8),
        };
        state |= if wait.newborn { NEWBORN } else { 0 };
        state |= if wait.began_before { BEGAN_BEFORE } else { 0 };
        if let Some(lock) = wait.lock {
            state |= HAS_LOCK;
            self.locks.push((index, lock));
            // The word at the address is of use only if it is a lock's.
            if let Some(word) = wait.call.and_then(|call| call.lock) {
                self.words.push((index, word));
            }
        }
        let (context, current, irq, evidence) = match wait.end {
            Waker::Woken { at, current, context, irq, evidence } => {
                if at != to {
                    state |= EARLY;
                    self.early.push((index, at.ns()));
                }
                let code = match context {
                    Context::Softirq(vector) => SOFTIRQS + vector as u8,
                    _ => CONTEXTS.iter().position(|&c| c == context).unwrap_or(CONTEXTS.len() - 1) as u8,
                };
                (code, pack_occupant(current), irq, evidence)
            }
            Waker::Unseen => (UNSEEN_END, UNKNOWN_OCCUPANT, 0, EvidenceIndex::NONE),
            Waker::Open => (OPEN_END, UNKNOWN_OCCUPANT, 0, EvidenceIndex::NONE),
        };
        let (call, arg0) = wait.call.map_or((NO_CALL, 0), |call| (call.number, call.arg0));
        self.packed.push(Packed { arg0, call, current, evidence: evidence.0, irq, context, state });
        WaitIndex(index)
    }

    /// The wait at `index`; `to` is the end of its interval.
    pub(crate) fn get(&self, index: WaitIndex, to: Stamp<Reference>) -> Option<Wait> {
        let packed = *self.packed.get(index.0 as usize)?;
        let has_lock = packed.state & HAS_LOCK != 0;
        let call = (packed.call != NO_CALL).then(|| Call {
            number: packed.call,
            arg0: packed.arg0,
            lock: if has_lock { find(&self.words, index) } else { None },
        });
        let state = match packed.state & STATE {
            NO_STATE => None,
            OTHER => Some(BlockedState::Other(find(&self.states, index).unwrap_or(0))),
            code => STATES.get(usize::from(code)).copied(),
        };
        let end = match packed.context {
            UNSEEN_END => Waker::Unseen,
            OPEN_END => Waker::Open,
            code => Waker::Woken {
                at: if packed.state & EARLY != 0 {
                    find(&self.early, index).map_or(to, Stamp::from_ns)
                } else {
                    to
                },
                current: unpack_occupant(packed.current),
                context: match code.checked_sub(SOFTIRQS) {
                    Some(vector) => Softirq::ALL
                        .get(usize::from(vector))
                        .map_or(Context::UnknownInterrupt, |&vector| Context::Softirq(vector)),
                    None => CONTEXTS.get(usize::from(code)).copied().unwrap_or(Context::UnknownInterrupt),
                },
                irq: packed.irq,
                evidence: EvidenceIndex(packed.evidence),
            },
        };
        Some(Wait {
            state,
            call,
            lock: if has_lock { find(&self.locks, index) } else { None },
            end,
            newborn: packed.state & NEWBORN != 0,
            began_before: packed.state & BEGAN_BEFORE != 0,
        })
    }

    pub(crate) fn shrink(&mut self) {
        self.packed.shrink();
        self.early.shrink_to_fit();
        self.locks.shrink_to_fit();
        self.words.shrink_to_fit();
        self.states.shrink_to_fit();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.packed.bytes()
            + size_of_val(&*self.early)
            + size_of_val(&*self.locks)
            + size_of_val(&*self.words)
            + size_of_val(&*self.states)
    }
}

fn find<T: Copy>(aside: &[(u32, T)], index: WaitIndex) -> Option<T> {
    let at = aside.binary_search_by_key(&index.0, |&(wait, _)| wait).ok()?;
    Some(aside[at].1)
}

#[cfg(test)]
mod tests {
    use wakepath_event::{LockWord, Tid};

    use super::*;

    #[test]
    fn a_wait_comes_back_as_it_went_in() {
        let woken = |at, context| Waker::Woken {
            at: Stamp::from_ns(at),
            current: Occupant::Thread(ThreadIndex(3)),
            context,
            irq: 24,
            evidence: EvidenceIndex(5),
        };
        let plain = Wait {
            state: Some(BlockedState::Interruptible),
            call: Some(Call { number: 0, arg0: u64::MAX, lock: None }),
            lock: None,
            end: woken(100, Context::Task),
            newborn: false,
            began_before: false,
        };
        let word = LockWord { operation: 128, value: Some(2), claimed_owner: Some(Tid(9)) };
        let lock = ContendedLock { address: 64, kernel: false, owner: Some(ThreadIndex(1)), proved: true };
        let mut all = vec![
            plain,
            Wait { state: None, call: None, end: Waker::Unseen, newborn: true, ..plain },
            Wait { state: Some(BlockedState::Other(0x4000)), end: Waker::Open, began_before: true, ..plain },
            Wait { end: woken(90, Context::Device), ..plain },
            Wait { lock: Some(lock), call: Some(Call { number: 202, arg0: 64, lock: Some(word) }), ..plain },
        ];
        all.extend(STATES.map(|state| Wait { state: Some(state), ..plain }));
        all.extend(CONTEXTS.map(|context| Wait { end: woken(100, context), ..plain }));
        all.extend(Softirq::ALL.map(|v| Wait { end: woken(100, Context::Softirq(v)), ..plain }));
        let mut waits = Waits::default();
        let to = Stamp::from_ns(100);
        for (n, wait) in all.iter().enumerate() {
            assert_eq!(waits.push(wait, to), WaitIndex(n as u32));
        }
        for (n, wait) in all.iter().enumerate() {
            assert_eq!(waits.get(WaitIndex(n as u32), to).as_ref(), Some(wait));
        }
        assert_eq!(waits.get(WaitIndex(all.len() as u32), to), None);
    }
}

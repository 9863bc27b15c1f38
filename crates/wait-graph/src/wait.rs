//! A graph's waits, in compact form.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockedState, Call, Context, LockWord, Softirq, Timeout};

use crate::chunks::Chunks;
use crate::{ContendedLock, Cut, EvidenceIndex, Late, Occupant, ThreadIndex, Wait, WakeUp, Waker};

/// The index of a wait in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitIndex(pub u32);

/// All waits, 24 bytes each. Rarely used fields stand in separate lists, in the order of the waits.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    packed: Chunks<Packed>,
    /// The wake-up times of waits ended by a wake-up before their last nanosecond.
    early: Vec<(u32, u64)>,
    locks: Vec<(u32, ContendedLock)>,
    words: Vec<(u32, LockWord)>,
    states: Vec<(u32, u32)>,
    /// Time-outs, for waits in epoll_wait.
    timeouts: Vec<(u32, Timeout)>,
    /// The waits with a second wake-up, before their switch-out, that may have ended them.
    woken_before: Vec<(u32, ())>,
    /// The stolen times before the interrupts that ended waits.
    lates: Vec<(u32, Late)>,
    /// The waits cut short by signals.
    cuts: Vec<(u32, Cut)>,
}

#[derive(Debug, Clone, Copy)]
struct Packed {
    arg0: u64,
    call: u32,
    current: u32,
    evidence: u32,
    irq: u16,
    /// A context code, `ACTED` and `HAS_WORD`.
    context: u8,
    /// The low four bits are the state; the constants name the others.
    state: u8,
}

const _: () = assert!(size_of::<Packed>() == 24);

const NO_CALL: u32 = u32::MAX;
/// Stands for the number of `futex`: only threads in the same process end the wait, and its word is not kept.
const PRIVATE_FUTEX: u32 = 0x2000_0000 | Call::FUTEX;
const IDLE: u32 = u32::MAX;
const UNKNOWN_OCCUPANT: u32 = u32::MAX - 1;

const STATE: u8 = 0x0f;
const HAS_LOCK: u8 = 0x10;
const EARLY: u8 = 0x20;
const NEWBORN: u8 = 0x40;
const BEGAN_BEFORE: u8 = 0x80;

const OTHER: u8 = 14;
const NO_STATE: u8 = 15;

/// The code for a context without its own code.
const NO_CONTEXT: u8 = 15;
/// The code of the first softirq; lower codes stand for the other contexts. Two further codes stand for waits
/// without a recorded wake-up.
const SOFTIRQS: u8 = 16;
const UNSEEN_END: u8 = 62;
const OPEN_END: u8 = 63;
/// The thread acted since its previous wait.
const ACTED: u8 = 0x40;
/// A lock word stands in the list of words; the other bits are the code.
const HAS_WORD: u8 = 0x80;

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
            Some(state) => {
                BlockedState::KNOWN.iter().position(|&s| s == state).map_or(NO_STATE, |code| code as u8)
            }
        };
        state |= if wait.newborn { NEWBORN } else { 0 };
        state |= if wait.began_before { BEGAN_BEFORE } else { 0 };
        if let Some(lock) = wait.lock {
            state |= HAS_LOCK;
            self.locks.push((index, lock));
        }
        // The word at the address is useful only if it may be a lock word.
        let word = wait.call.and_then(|call| call.lock);
        let word = word.filter(|word| wait.lock.is_some() || word.looks_like_a_lock());
        if let Some(word) = word {
            self.words.push((index, word));
        }
        let (mut context, current, irq, evidence) = match wait.end {
            Waker::Woken(WakeUp { at, current, context, irq, evidence, late }) => {
                self.lates.extend(late.map(|late| (index, late)));
                if at != to {
                    state |= EARLY;
                    self.early.push((index, at.ns()));
                }
                let code = match context {
                    Context::Softirq(vector) => SOFTIRQS + vector as u8,
                    _ => {
                        let code = Context::OTHERS.iter().position(|&other| other == context);
                        code.map_or(NO_CONTEXT, |code| code as u8)
                    }
                };
                (code, pack_occupant(current), irq, evidence)
            }
            Waker::Unseen => (UNSEEN_END, UNKNOWN_OCCUPANT, 0, EvidenceIndex::NONE),
            Waker::Open => (OPEN_END, UNKNOWN_OCCUPANT, 0, EvidenceIndex::NONE),
        };
        context |= if word.is_some() { HAS_WORD } else { 0 };
        context |= if wait.acted { ACTED } else { 0 };
        if wait.woken_before {
            self.woken_before.push((index, ()));
        }
        self.timeouts.extend(wait.timeout.map(|timeout| (index, timeout)));
        let is_private = |call: &Call| call.lock == Some(LockWord::private_futex());
        let (call, arg0) = wait.call.map_or((NO_CALL, 0), |call| match call.number {
            Call::FUTEX if is_private(&call) => (PRIVATE_FUTEX, call.arg0),
            number => (number, call.arg0),
        });
        self.packed.push(Packed { arg0, call, current, evidence: evidence.0, irq, context, state });
        WaitIndex(index)
    }

    /// The wait at `index`; `to` is its interval's end.
    pub(crate) fn get(&self, index: WaitIndex, to: Stamp<Reference>) -> Option<Wait> {
        let packed = *self.packed.get(index.0 as usize)?;
        let has_lock = packed.state & HAS_LOCK != 0;
        let call = (packed.call != NO_CALL).then(|| Call {
            number: if packed.call == PRIVATE_FUTEX { Call::FUTEX } else { packed.call },
            arg0: packed.arg0,
            lock: match packed.call {
                PRIVATE_FUTEX => Some(LockWord::private_futex()),
                _ if packed.context & HAS_WORD != 0 => find(&self.words, index),
                _ => None,
            },
        });
        let state = match packed.state & STATE {
            NO_STATE => None,
            OTHER => Some(BlockedState::Other(find(&self.states, index).unwrap_or(0))),
            code => BlockedState::KNOWN.get(usize::from(code)).copied(),
        };
        let end = match packed.context & !(HAS_WORD | ACTED) {
            UNSEEN_END => Waker::Unseen,
            OPEN_END => Waker::Open,
            code => Waker::Woken(WakeUp {
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
                    None => {
                        Context::OTHERS.get(usize::from(code)).copied().unwrap_or(Context::UnknownInterrupt)
                    }
                },
                irq: packed.irq,
                evidence: EvidenceIndex(packed.evidence),
                late: find(&self.lates, index),
            }),
        };
        Some(Wait {
            state,
            call,
            timeout: find(&self.timeouts, index),
            lock: if has_lock { find(&self.locks, index) } else { None },
            end,
            newborn: packed.state & NEWBORN != 0,
            began_before: packed.state & BEGAN_BEFORE != 0,
            acted: packed.context & ACTED != 0,
            woken_before: find(&self.woken_before, index).is_some(),
            cut: find(&self.cuts, index),
        })
    }

    /// Notes that a signal cut a wait short. This counts from [`Waits::finish`] on.
    pub(crate) fn cut_short(&mut self, index: WaitIndex, cut: Cut) {
        self.cuts.push((index.0, cut));
    }

    /// Ends the building: nothing more is added.
    pub(crate) fn finish(&mut self) {
        // The order of signals differs from the order in which waits end; if several signals hit a wait, the
        // first cut it short.
        self.cuts.sort_by_key(|&(index, _)| index);
        self.cuts.dedup_by_key(|&mut (index, _)| index);
        self.packed.shrink();
        self.early.shrink_to_fit();
        self.locks.shrink_to_fit();
        self.words.shrink_to_fit();
        self.states.shrink_to_fit();
        self.timeouts.shrink_to_fit();
        self.woken_before.shrink_to_fit();
        self.lates.shrink_to_fit();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.packed.bytes()
            + size_of_val(&*self.early)
            + size_of_val(&*self.locks)
            + size_of_val(&*self.words)
            + size_of_val(&*self.states)
            + size_of_val(&*self.timeouts)
            + size_of_val(&*self.woken_before)
            + size_of_val(&*self.lates)
            + size_of_val(&*self.cuts)
    }
}

fn find<T: Copy>(aside: &[(u32, T)], index: WaitIndex) -> Option<T> {
    let at = aside.binary_search_by_key(&index.0, |&(wait, _)| wait).ok()?;
    Some(aside[at].1)
}

#[cfg(test)]
mod tests {
    use wakepath_event::Tid;

    use super::*;

    #[test]
    fn a_wait_comes_back_as_it_went_in() {
        let woken = |ns, context| {
            let (at, current) = (Stamp::from_ns(ns), Occupant::Thread(ThreadIndex(3)));
            let late = (ns == 90).then(|| Late { from: Stamp::from_ns(70), to: at, idle: true });
            Waker::Woken(WakeUp { at, current, context, irq: 24, evidence: EvidenceIndex(5), late })
        };
        let plain = Wait {
            state: Some(BlockedState::Interruptible),
            call: Some(Call { number: 0, arg0: u64::MAX, lock: None }),
            end: woken(100, Context::Task),
            ..Wait::default()
        };
        let word = LockWord { operation: 128, value: Some(2), claimed_owner: Some(Tid(9)) };
        let lock = ContendedLock { address: 64, kernel: false, owner: Some(ThreadIndex(1)), proved: true };
        let mut all = vec![
            plain,
            Wait { state: None, call: None, end: Waker::Unseen, newborn: true, ..plain },
            Wait { timeout: Some(Timeout::Ms(300)), ..plain },
            Wait { timeout: Some(Timeout::Never), ..plain },
            Wait {
                state: Some(BlockedState::Other(0x4000)),
                end: Waker::Open,
                began_before: true,
                acted: true,
                ..plain
            },
            Wait { end: woken(90, Context::Device), acted: true, ..plain },
            Wait { woken_before: true, ..plain },
            Wait { lock: Some(lock), call: Some(Call { number: 202, arg0: 64, lock: Some(word) }), ..plain },
            Wait { call: Some(Call { number: 202, arg0: 64, lock: Some(word) }), end: Waker::Open, ..plain },
            Wait {
                call: Some(Call { number: 202, arg0: 64, lock: Some(LockWord::private_futex()) }),
                ..plain
            },
        ];
        all.extend(BlockedState::KNOWN.map(|state| Wait { state: Some(state), ..plain }));
        all.extend(Context::OTHERS.map(|context| Wait { end: woken(100, context), ..plain }));
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

    #[test]
    fn the_first_signal_cut_a_wait_short_in_whatever_order_waits_ended() {
        let mut waits = Waits::default();
        let to = Stamp::from_ns(100);
        for _ in 0..4 {
            waits.push(&Wait::default(), to);
        }
        let cut = |signal| Cut { signal, effect: wakepath_event::SignalEffect::GoesOn };
        for (index, signal) in [(3, 10), (1, 11), (3, 12), (0, 13)] {
            waits.cut_short(WaitIndex(index), cut(signal));
        }
        waits.finish();
        let found = [0, 1, 2, 3].map(|index| waits.get(WaitIndex(index), to).expect("a wait").cut);
        assert_eq!(found, [Some(cut(13)), Some(cut(11)), None, Some(cut(10))]);
    }
}

//! The reasons for which goroutines park, in the words by Go's scheduler.
//!
//! A trace's reasons are coarser: *sync* is a lock, a semaphore or a group. The functions in the stack decide.

use std::collections::HashMap;

use crate::generation::Generation;

/// The last reason's number, which further reasons share.
const MAX_REASON: usize = u8::MAX as usize;
/// The most bytes in a reason: they come from the traced program.
const MAX_REASON_BYTES: usize = 100;

/// A goroutine waits for a descriptor.
pub(crate) const DESCRIPTOR: &str = "IO wait";
/// A coroutine handed its thread over.
const COROUTINE: &str = "coroutine";

/// All reasons so far, by number.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    pub(crate) names: Vec<String>,
    numbers: HashMap<String, u8>,
}

impl Reasons {
    /// The number for a park with this reason and this stack.
    pub(crate) fn park(&mut self, generation: &Generation<'_>, reason: u64, stack: u64) -> u8 {
        let text = generation.strings.get(&reason).copied().unwrap_or_default();
        let text = String::from_utf8_lossy(&text[..text.len().min(MAX_REASON_BYTES)]);
        let name = match text.as_ref() {
            "network" => DESCRIPTOR,
            "sync.(*Cond).Wait" => "sync.Cond.Wait",
            "sync" => {
                let mut functions = generation.stack(stack).map(|frame| frame.function);
                functions.find_map(awaited).unwrap_or("semacquire")
            }
            other => other,
        };
        self.number(name)
    }

    /// The number for a coroutine's park.
    pub(crate) fn coroutine(&mut self) -> u8 {
        self.number(COROUTINE)
    }

    fn number(&mut self, name: &str) -> u8 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.names.len() > MAX_REASON {
            return u8::MAX;
        }
        let number = self.names.len() as u8;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// The reason that Go's scheduler gives a park in this function of its library.
fn awaited(function: &[u8]) -> Option<&'static str> {
    match function {
        b"sync.(*Mutex).Lock" | b"sync.(*Mutex).lockSlow" | b"internal/sync.(*Mutex).lockSlow" => {
            Some("sync.Mutex.Lock")
        }
        b"sync.(*RWMutex).RLock" => Some("sync.RWMutex.RLock"),
        b"sync.(*RWMutex).Lock" => Some("sync.RWMutex.Lock"),
        b"sync.(*WaitGroup).Wait" => Some("sync.WaitGroup.Wait"),
        _ => None,
    }
}

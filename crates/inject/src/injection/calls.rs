//! Calls of f0 that user space begins and ends itself, without a BPF program.

use super::Injection;
use crate::data::{self, MAX_NODES, NodeTimes, ThreadTimes};
use crate::error::Error;

impl Injection {
    /// Begins a call of f0 in a thread, as the probe at f0's entry does, from the thread pointer and the place of
    /// f0's return address. Returns the call's number; `None` where no state is free for the thread.
    ///
    /// # Errors
    /// When the process ended.
    pub fn begin_call(&mut self, thread_pointer: u64, slot: u64) -> Result<Option<u64>, Error> {
        let Some(state) = self.state(thread_pointer)? else { return Ok(None) };
        self.call += 1;
        let own = state + data::STATE_FRAMES;
        self.memory.set_word(state + data::STATE_OF, 0)?;
        self.memory.set_word(own + data::CALL_SLOT, slot)?;
        self.memory.set_word(own + data::CALL_AROUND, 0)?;
        self.memory.set_word(own + data::CALL_NODE, 0)?;
        self.memory.set_word(state + data::STATE_LEFT, 0)?;
        self.memory.set_word(state + data::STATE_CROWDED, 0)?;
        self.memory.set_word(state + data::STATE_THREAD, thread_pointer)?;
        self.memory.set_word(state + data::STATE_INNERMOST, own)?;
        self.memory.set_word(state + data::STATE_OF, self.call)?;
        Ok(Some(self.call))
    }

    /// Ends the thread's call of f0: nothing is measured in the thread any more.
    ///
    /// # Errors
    /// When the process ended.
    pub fn end_call(&self, thread_pointer: u64) -> Result<Option<ThreadTimes>, Error> {
        let Some(state) = self.state(thread_pointer)? else { return Ok(None) };
        let call = self.memory.word(state + data::STATE_OF)?;
        self.memory.set_word(state + data::STATE_OF, 0)?;
        let mut bytes = vec![0; MAX_NODES * data::NODE_BYTES as usize];
        self.memory.read(state + data::NODES, &mut bytes)?;
        let nodes = bytes.chunks_exact(data::NODE_BYTES as usize).map(|node| {
            let word = |at: usize| u64::from_le_bytes(node[at..at + 8].try_into().unwrap_or_default());
            if word(0) == call {
                NodeTimes { longest: word(8), sum: word(16), count: word(24) }
            } else {
                NodeTimes::default()
            }
        });
        Ok(Some(ThreadTimes {
            call,
            nodes: nodes.collect(),
            left: self.memory.word(state + data::STATE_LEFT)?,
            crowded: self.memory.word(state + data::STATE_CROWDED)?,
        }))
    }

    /// The address of a thread's state; a new thread gets a key.
    fn state(&self, thread_pointer: u64) -> Result<Option<u64>, Error> {
        let from = (thread_pointer >> 12 ^ thread_pointer >> 23) % data::MAX_THREADS;
        for way in 0..data::THREAD_WAYS {
            let index = (from + way) % data::MAX_THREADS;
            let key = self.states + data::KEYS + 8 * index;
            match self.memory.word(key)? {
                it if it == thread_pointer => {}
                0 => self.memory.set_word(key, thread_pointer)?,
                _ => continue,
            }
            return Ok(Some(self.states + data::STATES + (index << data::STATE_BITS)));
        }
        Ok(None)
    }
}

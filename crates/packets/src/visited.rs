//! A host's traffic as an iterator over a function that visits it.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use crate::{Source, Traffic};

/// Passes all of a host's traffic to its argument.
type Visit = dyn Fn(&mut dyn FnMut(Traffic)) + Send + Sync;

/// A host's traffic through a function that visits all of it: each reading runs in its own thread, a
/// few thousand items ahead, because several hosts are read side by side.
#[derive(Clone)]
pub struct Visited {
    visit: Arc<Visit>,
}

/// Items per chunk, and the number of chunks that may wait.
const CHUNK: usize = 1024;
const AHEAD: usize = 4;

impl Visited {
    /// Traffic that `visit` passes on, the same at each call.
    pub fn new(visit: impl Fn(&mut dyn FnMut(Traffic)) + Send + Sync + 'static) -> Self {
        Self { visit: Arc::new(visit) }
    }
}

impl Source for Visited {
    fn traffic(&self) -> Box<dyn Iterator<Item = Traffic> + '_> {
        let (sender, receiver) = sync_channel::<Vec<Traffic>>(AHEAD);
        let visit = Arc::clone(&self.visit);
        let visitor = thread::spawn(move || {
            let mut chunk = Vec::with_capacity(CHUNK);
            visit(&mut |item| {
                chunk.push(item);
                if chunk.len() == CHUNK {
                    // If the receiver is gone, the rest is dropped.
                    let _ = sender.send(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK)));
                }
            });
            let _ = sender.send(chunk);
        });
        let mut visitor = Some(visitor);
        let chunks = std::iter::from_fn(move || {
            receiver.recv().ok().or_else(|| {
                // A visit that panicked must not look complete.
                if let Some(Err(panic)) = visitor.take().map(thread::JoinHandle::join) {
                    std::panic::resume_unwind(panic);
                }
                None
            })
        });
        Box::new(chunks.flatten())
    }
}

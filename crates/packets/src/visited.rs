use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use crate::{Source, Traffic};

/// Tells all of a host's traffic to what it is given.
type Visit = dyn Fn(&mut dyn FnMut(Traffic)) + Send + Sync;

/// A host's traffic by way of a function that tells all of it: each reading runs in a thread of its own,
/// a few thousand items ahead, because several hosts are read side by side.
#[derive(Clone)]
pub struct Visited {
    visit: Arc<Visit>,
}

/// Items handed over at once, and how many times as many may wait.
const CHUNK: usize = 1024;
const AHEAD: usize = 4;

impl Visited {
    /// Traffic that `visit` tells, the same each time it is called.
    pub fn new(visit: impl Fn(&mut dyn FnMut(Traffic)) + Send + Sync + 'static) -> Self {
        Self { visit: Arc::new(visit) }
    }
}

impl Source for Visited {
    fn traffic(&self) -> Box<dyn Iterator<Item = Traffic> + '_> {
        let (sender, receiver) = sync_channel::<Vec<Traffic>>(AHEAD);
        let visit = Arc::clone(&self.visit);
        let told = thread::spawn(move || {
            let mut chunk = Vec::with_capacity(CHUNK);
            visit(&mut |item| {
                chunk.push(item);
                if chunk.len() == CHUNK {
                    // Where nobody listens any more, the rest is told to nobody.
                    let _ = sender.send(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK)));
                }
            });
            let _ = sender.send(chunk);
        });
        let mut told = Some(told);
        let chunks = std::iter::from_fn(move || {
            receiver.recv().ok().or_else(|| {
                // A visit that panicked must not pass for one that had no more to tell.
                if let Some(Err(panic)) = told.take().map(thread::JoinHandle::join) {
                    std::panic::resume_unwind(panic);
                }
                None
            })
        });
        Box::new(chunks.flatten())
    }
}

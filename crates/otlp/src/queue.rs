//! The way from the network to the disk: accepted messages wait here, within a bound, for a writing thread.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::counts::Counts;
use crate::filter::Kept;
use crate::priority;
use crate::room::{Room, Taken};

/// The largest size of waiting messages, bytes.
pub(crate) const MAX_QUEUE_BYTES: usize = 16 << 20;
/// The room that a message takes beside its bytes, so that small messages count too.
const MESSAGE_BYTES: usize = 256;

/// Writes a message. An error is a sentence, and the last call: later messages are not written.
pub type Sink = Box<dyn FnMut(&[u8]) -> Result<(), String> + Send>;

/// The sending end of the queue.
#[derive(Debug)]
pub(crate) struct Queue {
    sender: Mutex<Sender<Waiting>>,
    room: Arc<Room>,
}

#[derive(Debug)]
struct Waiting {
    kept: Kept,
    _taken: Taken,
}

/// The queue has no room for a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Queue {
    /// Starts the writing thread. It ends when the queue is dropped and all is written.
    pub(crate) fn start(sink: Sink, counts: Arc<Counts>) -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, waiting) = mpsc::channel();
        let thread = std::thread::Builder::new().name("spans".to_owned()).spawn(move || {
            priority::lower();
            write(&waiting, sink, &counts);
        })?;
        Ok((Self { sender: Mutex::new(sender), room: Room::new(MAX_QUEUE_BYTES) }, thread))
    }

    pub(crate) fn put(&self, kept: Kept) -> Result<(), Full> {
        let services: usize = kept.services.iter().map(String::len).sum();
        let taken = self.room.take(kept.message.capacity() + services + MESSAGE_BYTES).ok_or(Full)?;
        // The thread lives as long as the queue does.
        let _ = self.lock().send(Waiting { kept, _taken: taken });
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sender<Waiting>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(waiting: &Receiver<Waiting>, mut sink: Sink, counts: &Counts) {
    let mut failed = false;
    while let Ok(Waiting { kept, _taken }) = waiting.recv() {
        if !failed && let Err(why) = sink(&kept.message) {
            failed = true;
            counts.cannot_write(why);
        }
        if failed { counts.unwritten(kept.spans) } else { counts.written(&kept) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn message(bytes: usize) -> Kept {
        Kept { message: vec![0; bytes], spans: 2, invalid: 0, services: vec!["shop".to_owned()] }
    }

    #[test]
    fn a_full_queue_refuses_and_loses_nothing_that_it_accepted() {
        let (let_go, gate) = mpsc::channel::<()>();
        let bytes = Arc::new(AtomicUsize::new(0));
        let sum = Arc::clone(&bytes);
        let sink = move |message: &[u8]| {
            let _ = gate.recv();
            sum.fetch_add(message.len(), Ordering::Relaxed);
            Ok(())
        };
        let counts = Arc::new(Counts::default());
        let (queue, thread) = Queue::start(Box::new(sink), Arc::clone(&counts)).expect("a thread");
        let mut accepted = 0;
        while queue.put(message(1 << 20)).is_ok() {
            accepted += 1;
        }
        assert_eq!(accepted, 15, "16 MiB, without the room that each takes beside its bytes");
        drop(let_go);
        drop(queue);
        thread.join().expect("its end");
        assert_eq!(bytes.load(Ordering::Relaxed), accepted << 20);
        let received = counts.received();
        assert_eq!((received.spans, received.services, received.unwritten), (2 * accepted as u64, 1, 0));
    }

    #[test]
    fn the_first_error_ends_writing_and_is_kept() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let sink = move |_: &[u8]| {
            if count.fetch_add(1, Ordering::Relaxed) == 1 { Err("no room".to_owned()) } else { Ok(()) }
        };
        let counts = Arc::new(Counts::default());
        let (queue, thread) = Queue::start(Box::new(sink), Arc::clone(&counts)).expect("a thread");
        for _ in 0..4 {
            queue.put(message(1)).expect("room");
        }
        drop(queue);
        thread.join().expect("its end");
        let received = counts.received();
        assert_eq!((received.spans, received.unwritten), (2, 6));
        assert_eq!(calls.load(Ordering::Relaxed), 2, "the error is the last call");
        assert_eq!(received.why_unwritten.as_deref(), Some("no room"));
    }
}

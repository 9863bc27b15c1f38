//! Writing in a thread of its own: a write to a disk that everybody waits for can take a second, and
//! who drains the rings must not.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Context, Cpu, Event, EventKind, Tid};
use wakepath_kernel_records::{Buffer, walk};
use wakepath_recording::{WriteError, Writer};

use crate::clocks;

/// What is to be written, in order.
#[derive(Debug)]
pub(crate) enum Order {
    /// What a CPU's ring held, and how many records it had lost before.
    Packet { buffer: Buffer, cpu: Cpu, bytes: Vec<u8>, lost: u64 },
    /// A record of the buffer that all CPUs share.
    Record(Box<[u8]>),
    /// A record of our own.
    Event(Event),
    /// Nothing earlier than this will come to the buffer that all CPUs share, which lost so many.
    Flush { until: Stamp<Local>, lost: u64 },
    /// Look whether the disk has room.
    CheckSpace,
    /// The end has come: what was kept for it may be used.
    UseAllRoom,
    /// All that waits is written. Where there is no room for it, at least how the recording ended is.
    End { lost: u64 },
}

impl Order {
    fn bytes(&self) -> usize {
        match self {
            Self::Packet { bytes, .. } => bytes.len(),
            Self::Record(record) => record.len(),
            _ => 0,
        }
    }
}

/// Writes a recording: at once, or behind, while its thread runs.
#[derive(Debug)]
pub(crate) struct WriteBehind {
    at: At,
    /// Bytes that may wait before who has more has to wait.
    most: usize,
    /// Emptied buffers, to be filled again.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum At {
    Once(Box<Pen>),
    Thread(Arc<Queue>, JoinHandle<Box<Pen>>),
    /// Between the two.
    Nowhere,
}

/// Of buffers that are kept to be filled again: how many, and how large each may be.
const SPARE: (usize, usize) = (64, 1 << 20);
/// Between two looks whether the thread still lives, where there is no room.
const PATIENCE: Duration = Duration::from_millis(100);

impl WriteBehind {
    /// Writes at once, for now. `most` are the bytes that may wait later on.
    pub(crate) fn new(writer: Writer, most: usize) -> Self {
        let pen = Pen { writer, flushed: Stamp::from_ns(0), failed: false, unlooked: 0 };
        Self { at: At::Once(Box::new(pen)), most, spare: Vec::new() }
    }

    /// From now on a thread writes, with the rights and the priority of the one that calls this.
    pub(crate) fn start(&mut self) {
        self.at = match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Once(mut pen) => {
                let queue = Arc::new(Queue::default());
                let theirs = Arc::clone(&queue);
                At::Thread(
                    queue,
                    std::thread::spawn(move || {
                        theirs.serve(&mut pen);
                        pen
                    }),
                )
            }
            other => other,
        };
    }

    /// Waits until all is written; from now on writes at once.
    ///
    /// # Errors
    /// The first one of the thread that no call has returned so far.
    pub(crate) fn stop(&mut self) -> Result<(), WriteError> {
        let At::Thread(queue, thread) = std::mem::replace(&mut self.at, At::Nowhere) else {
            return Ok(());
        };
        queue.close();
        // What ends it early is a fault of ours, and no recording is better than half of one.
        let mut pen = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        pen.failed = false;
        self.at = At::Once(pen);
        queue.lock().error.take().map_or(Ok(()), Err)
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back one that stayed empty.
    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// Carries `orders` out, now or soon. Waits where too much waits already: the rings then run over,
    /// and count it.
    ///
    /// # Errors
    /// When something cannot be written. While the thread runs, of an earlier call; what was to be
    /// written since then is dropped, but for the records that wait for a flush.
    pub(crate) fn put(&mut self, orders: impl IntoIterator<Item = Order>) -> Result<(), WriteError> {
        match &mut self.at {
            // All of them, even if one fails: how the recording ended comes last.
            At::Once(pen) => {
                let mut first = Ok(());
                for order in orders {
                    let done = pen.obey(&order);
                    first = first.and(done);
                }
                first
            }
            At::Thread(queue, thread) if queue.has_room(self.most, thread) => {
                queue.put(orders, &mut self.spare)
            }
            At::Thread(..) | At::Nowhere => self.stop(),
        }
    }
}

/// The writer, and what it takes to go on after a failure.
#[derive(Debug)]
struct Pen {
    writer: Writer,
    /// Up to where rare records were written.
    flushed: Stamp<Local>,
    failed: bool,
    /// Bytes of packets since somebody looked whether the disk has room.
    unlooked: usize,
}

/// So many bytes are written before the pen looks for itself whether the disk has room: whoever drains the
/// rings asks for it once a second, in which much can come.
const LOOK_EVERY: usize = 256 << 10;

impl Pen {
    fn obey(&mut self, order: &Order) -> Result<(), WriteError> {
        match order {
            Order::Packet { buffer, cpu, bytes, lost } => self.packet(*buffer, *cpu, bytes, *lost),
            // A fault of ours in one record is no reason to lose the others.
            Order::Record(record) => match self.writer.life().push(record) {
                Ok(()) => Ok(()),
                Err(_) => self.writer.life().push_event(&loss_since(self.flushed)),
            },
            Order::Event(event) => self.writer.life().push_event(event),
            Order::Flush { until, lost } => {
                self.writer.life().flush(until.ns(), *lost)?;
                self.flushed = *until;
                Ok(())
            }
            Order::End { lost } => {
                let life = self.writer.life();
                let flushed = life.flush(u64::MAX, *lost);
                if flushed.as_ref().is_err_and(WriteError::is_out_of_room) {
                    life.shed().and_then(|()| life.flush(u64::MAX, *lost))?;
                }
                flushed
            }
            Order::CheckSpace => self.look(),
            Order::UseAllRoom => {
                self.writer.use_all_room();
                Ok(())
            }
        }
    }

    /// As [`Self::obey`], but after a failure only takes what can still wait: the disk is full, and what
    /// was kept for the end is not for more of the same.
    fn obey_behind(&mut self, order: &Order) -> Result<(), WriteError> {
        if self.failed && !matches!(order, Order::Record(_) | Order::Event(_)) {
            return Ok(());
        }
        self.obey(order).inspect_err(|_| self.failed = true)
    }

    fn look(&mut self) -> Result<(), WriteError> {
        self.unlooked = 0;
        self.writer.check_space().map(drop)
    }

    /// Writes a stretch of a ring. A program that wrote what is no record would be a fault of ours: what
    /// stands before it is kept, the rest is dropped and shows as a gap in the sequence numbers.
    fn packet(&mut self, buffer: Buffer, cpu: Cpu, bytes: &[u8], lost: u64) -> Result<(), WriteError> {
        self.unlooked += bytes.len();
        if self.unlooked > LOOK_EVERY {
            self.look()?;
        }
        let stream = match buffer {
            Buffer::Net => self.writer.net(cpu)?,
            _ => self.writer.sched(cpu)?,
        };
        let summary = match walk(buffer, &[bytes, &[]]) {
            Ok(summary) => summary,
            Err(error) => error.before,
        };
        let records = &bytes[..summary.bytes];
        stream.append(&[records], summary.first_stamp, summary.last_stamp, summary.records, lost)
    }
}

/// One rare record since `from`.
fn loss_since(from: Stamp<Local>) -> Event {
    Event {
        at: clocks::now(),
        cpu: Cpu::UNKNOWN,
        context: Context::Task,
        current: Tid(std::process::id()),
        kind: EventKind::Loss { from, count: 1 },
    }
}

/// Between the two threads.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    orders: VecDeque<Order>,
    /// Of `orders`, and of those that are being carried out.
    bytes: usize,
    closed: bool,
    /// The first one, until it is returned.
    error: Option<WriteError>,
    spare: Vec<Vec<u8>>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of the state is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no more than `most` bytes wait; false if the thread is no more.
    fn has_room<T>(&self, most: usize, thread: &JoinHandle<T>) -> bool {
        let mut state = self.lock();
        while state.bytes > most && !thread.is_finished() {
            let waited = self.emptied.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !thread.is_finished()
    }

    fn put(
        &self,
        orders: impl IntoIterator<Item = Order>,
        spare: &mut Vec<Vec<u8>>,
    ) -> Result<(), WriteError> {
        let mut state = self.lock();
        for order in orders {
            state.bytes += order.bytes();
            state.orders.push_back(order);
        }
        spare.append(&mut state.spare);
        let error = state.error.take();
        drop(state);
        self.filled.notify_one();
        error.map_or(Ok(()), Err)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Carries out what comes, until the queue is closed and empty.
    fn serve(&self, pen: &mut Pen) {
        let mut state = self.lock();
        loop {
            let orders = std::mem::take(&mut state.orders);
            if orders.is_empty() {
                if state.closed {
                    return;
                }
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            for order in orders {
                let result = pen.obey_behind(&order);
                self.done(order, result);
            }
            state = self.lock();
        }
    }

    fn done(&self, order: Order, result: Result<(), WriteError>) {
        let mut state = self.lock();
        state.bytes -= order.bytes();
        if let Err(error) = result {
            state.error.get_or_insert(error);
        }
        if let Order::Packet { mut bytes, .. } = order
            && state.spare.len() < SPARE.0
            && bytes.capacity() <= SPARE.1
        {
            bytes.clear();
            state.spare.push(bytes);
        }
        drop(state);
        self.emptied.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn who_has_more_waits_while_too_much_waits_already_and_no_longer_than_the_writer_lives() {
        let packet = |bytes| Order::Packet { buffer: Buffer::Sched, cpu: Cpu(0), bytes, lost: 0 };
        let queue = Arc::new(Queue::default());
        queue.put([packet(vec![0; 10])], &mut Vec::new()).unwrap();
        let (stop, stopped) = mpsc::channel::<()>();
        let writer = std::thread::spawn(move || stopped.recv().is_ok());
        let theirs = Arc::clone(&queue);
        assert!(queue.has_room(10, &writer), "the most is still room");
        let (say, said) = mpsc::channel();
        let asking = std::thread::spawn(move || {
            say.send(theirs.has_room(9, &writer)).unwrap();
            theirs.put([packet(vec![0; 10])], &mut Vec::new()).unwrap();
            say.send(theirs.has_room(9, &writer)).unwrap();
        });
        let moment = Duration::from_millis(30);
        assert!(said.recv_timeout(moment).is_err(), "no room");
        let order = queue.lock().orders.pop_front().unwrap();
        queue.done(order, Ok(()));
        assert_eq!(said.recv(), Ok(true), "what was there is written");
        assert!(said.recv_timeout(moment).is_err(), "no room again");
        stop.send(()).unwrap();
        assert_eq!(said.recv(), Ok(false), "nobody will make room");
        asking.join().unwrap();
    }

    #[test]
    fn the_first_error_is_returned_once_and_buffers_come_back_empty() {
        let queue = Queue::default();
        let packet = || Order::Packet { buffer: Buffer::Net, cpu: Cpu(0), bytes: vec![1; 8], lost: 0 };
        let mut spare = Vec::new();
        for (order, limit) in [(packet(), 1), (packet(), 2)] {
            queue.put([order], &mut spare).unwrap();
            let order = queue.lock().orders.pop_front().unwrap();
            let state = queue.lock().error.take();
            assert!(state.is_none());
            queue.done(order, Err(WriteError::SizeLimit { limit }));
            let error = queue.put([], &mut spare).unwrap_err();
            assert!(matches!(error, WriteError::SizeLimit { limit: told } if told == limit), "{error}");
            assert!(queue.put([], &mut spare).is_ok());
        }
        assert_eq!(queue.lock().bytes, 0);
        assert!(spare.len() == 2 && spare.iter().all(|buffer| buffer.is_empty() && buffer.capacity() == 8));
    }
}

//! Writing in a separate thread: a write to a busy disk can take a second, too long for the draining thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Context, Cpu, Event, EventKind, LostRecords, Tid};
use wakepath_kernel_records::{Buffer, walk};
use wakepath_recording::WriteError;

use crate::clocks;
use crate::flight::{FlightOptions, FlightRecorder};

/// A command to a recording's writer. Commands are carried out in order.
#[derive(Debug)]
pub(crate) enum WriteCommand {
    /// Write the records from a CPU's ring, which had lost `lost` records before.
    Packet { buffer: Buffer, cpu: Cpu, bytes: Vec<u8>, lost: u64 },
    /// Write a record from the buffer that all CPUs share.
    Record(Box<[u8]>),
    /// Write a record of our own.
    Event(Event),
    /// Write the rare records up to this time: no earlier one will come. Their buffer has lost `lost` records so far.
    Flush { until: Stamp<Local>, lost: u64 },
    /// Check whether the disk has room.
    CheckSpace,
    /// Use the room reserved for the end.
    UseAllRoom,
    /// Write everything that waits; without room for it, at least how the recording ended. The rings were drained up
    /// to `complete`, if no drained record was dropped.
    End { lost: u64, complete: Option<Stamp<Local>> },
}

impl WriteCommand {
    fn bytes(&self) -> usize {
        match self {
            Self::Packet { bytes, .. } => bytes.len(),
            Self::Record(record) => record.len(),
            _ => 0,
        }
    }
}

/// The destination of a session's records.
#[derive(Debug)]
pub enum Destination {
    /// A recording on disk.
    Recording(Box<wakepath_recording::Writer>),
    /// A flight recorder's memory.
    Flight(Box<FlightOptions>),
}

/// Writes a recording, or keeps it in memory: directly, or in a separate thread.
#[derive(Debug)]
pub(crate) struct WriteBehind {
    mode: Mode,
    /// The most bytes that may wait before a caller with more has to wait.
    max_waiting_bytes: usize,
    /// Emptied buffers, to be filled again.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Mode {
    Direct(Box<Target>),
    Thread(Arc<Queue>, JoinHandle<Box<Target>>),
    /// Between the two, during a change.
    Changing,
}

/// The most empty buffers kept.
const MAX_SPARE: usize = 64;
/// The largest capacity of a kept buffer, bytes.
const MAX_SPARE_BYTES: usize = 1 << 20;
/// The time between two checks whether the thread still runs, while there is no room.
const CHECK_THREAD_EVERY: Duration = Duration::from_millis(100);

impl WriteBehind {
    /// Writes directly, for now.
    pub(crate) fn new(destination: Destination, max_waiting_bytes: usize) -> Self {
        let target = match destination {
            Destination::Recording(recording) => Target::Recording(Box::new(Writer {
                recording: *recording,
                flushed: Stamp::from_ns(0),
                failed: false,
                unchecked_bytes: 0,
            })),
            Destination::Flight(options) => Target::Flight(Box::new(FlightRecorder::new(*options))),
        };
        Self { mode: Mode::Direct(Box::new(target)), max_waiting_bytes, spare: Vec::new() }
    }

    /// From now on a thread writes, with the calling thread's privileges and priority.
    pub(crate) fn start(&mut self) {
        self.mode = match std::mem::replace(&mut self.mode, Mode::Changing) {
            Mode::Direct(mut target) => {
                let queue = Arc::new(Queue::default());
                let served = Arc::clone(&queue);
                Mode::Thread(
                    queue,
                    std::thread::spawn(move || {
                        served.serve(&mut target);
                        target
                    }),
                )
            }
            other => other,
        };
    }

    /// Waits until all is written; from now on writes directly.
    ///
    /// # Errors
    /// The thread's first error not yet returned by a call.
    pub(crate) fn stop(&mut self) -> Result<(), WriteError> {
        let Mode::Thread(queue, thread) = std::mem::replace(&mut self.mode, Mode::Changing) else {
            return Ok(());
        };
        queue.close();
        // Only a bug ends the thread early, and no recording is better than half a recording.
        let mut target = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if let Target::Recording(writer) = &mut *target {
            writer.failed = false;
        }
        self.mode = Mode::Direct(target);
        queue.lock().error.take().map_or(Ok(()), Err)
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back an empty buffer.
    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        self.spare.push(buffer);
    }

    /// Carries `commands` out, now or soon. Blocks while too much waits already: the rings then overflow and count
    /// the lost records.
    ///
    /// # Errors
    /// When something cannot be written. While the thread runs, the error is an earlier call's; later commands are
    /// dropped, except records that wait for a flush.
    pub(crate) fn put(&mut self, commands: impl IntoIterator<Item = WriteCommand>) -> Result<(), WriteError> {
        match &mut self.mode {
            // All commands, even if a command fails: how the recording ended comes last.
            Mode::Direct(target) => {
                let mut first = Ok(());
                for command in commands {
                    let done = target.execute(&command);
                    first = first.and(done);
                }
                first
            }
            Mode::Thread(queue, thread) if queue.has_room(self.max_waiting_bytes, thread) => {
                queue.put(commands, &mut self.spare)
            }
            Mode::Thread(..) | Mode::Changing => self.stop(),
        }
    }
}

#[derive(Debug)]
enum Target {
    Recording(Box<Writer>),
    Flight(Box<FlightRecorder>),
}

impl Target {
    fn execute(&mut self, command: &WriteCommand) -> Result<(), WriteError> {
        match self {
            Self::Recording(writer) => writer.execute(command),
            Self::Flight(recorder) => recorder.execute(command),
        }
    }

    fn execute_behind(&mut self, command: &WriteCommand) -> Result<(), WriteError> {
        match self {
            Self::Recording(writer) => writer.execute_behind(command),
            Self::Flight(recorder) => recorder.execute(command),
        }
    }
}

/// Carries out commands, with the state it needs to go on after a failure.
#[derive(Debug)]
struct Writer {
    recording: wakepath_recording::Writer,
    /// Rare records are written up to this time.
    flushed: Stamp<Local>,
    failed: bool,
    /// Packet bytes since the room on the disk was checked.
    unchecked_bytes: usize,
}

/// Bytes written between two checks of the room on the disk: a session asks for a check only once a second, and much
/// can come in between.
const CHECK_EVERY_BYTES: usize = 256 << 10;

impl Writer {
    fn execute(&mut self, command: &WriteCommand) -> Result<(), WriteError> {
        match command {
            WriteCommand::Packet { buffer, cpu, bytes, lost } => self.packet(*buffer, *cpu, bytes, *lost),
            // A malformed record is a bug of ours, but no reason to lose the others.
            WriteCommand::Record(record) => match self.recording.life().push(record) {
                Ok(()) => Ok(()),
                Err(_) => self.recording.life().push_event(&loss_since(self.flushed)),
            },
            WriteCommand::Event(event) => self.recording.life().push_event(event),
            WriteCommand::Flush { until, lost } => {
                self.recording.life().flush(until.ns(), *lost)?;
                self.flushed = *until;
                Ok(())
            }
            WriteCommand::End { lost, complete } => {
                let life = self.recording.life();
                let flushed = life.flush(u64::MAX, *lost);
                if flushed.as_ref().is_err_and(WriteError::is_out_of_room) {
                    life.shed().and_then(|()| life.flush(u64::MAX, *lost))?;
                }
                if let (Ok(()), Some(at)) = (&flushed, complete) {
                    // Without room no stream has its end, and a reader concludes nothing from the absence.
                    let _ = self.recording.close_streams(*at);
                }
                flushed
            }
            WriteCommand::CheckSpace => self.check_space(),
            WriteCommand::UseAllRoom => {
                self.recording.use_all_room();
                Ok(())
            }
        }
    }

    /// Does the same as [`Self::execute`], but after a failure only accepts records that can still wait: the disk is
    /// full, and the room reserved for the end must stay.
    fn execute_behind(&mut self, command: &WriteCommand) -> Result<(), WriteError> {
        if self.failed && !matches!(command, WriteCommand::Record(_) | WriteCommand::Event(_)) {
            return Ok(());
        }
        self.execute(command).inspect_err(|_| self.failed = true)
    }

    fn check_space(&mut self) -> Result<(), WriteError> {
        self.unchecked_bytes = 0;
        self.recording.check_space().map(drop)
    }

    /// Writes a ring's records. If a record is malformed, which is a bug of ours, the records before it are kept; the
    /// rest is dropped, and shows as a gap in the sequence numbers.
    fn packet(&mut self, buffer: Buffer, cpu: Cpu, bytes: &[u8], lost: u64) -> Result<(), WriteError> {
        self.unchecked_bytes += bytes.len();
        if self.unchecked_bytes > CHECK_EVERY_BYTES {
            self.check_space()?;
        }
        let stream = match buffer {
            Buffer::Net => self.recording.net(cpu)?,
            _ => self.recording.sched(cpu)?,
        };
        let summary = match walk(buffer, &[bytes, &[]]) {
            Ok(summary) => summary,
            Err(error) => error.before,
        };
        let records = &bytes[..summary.bytes];
        stream.append(&[records], summary.first_stamp, summary.last_stamp, summary.records, lost)
    }
}

/// The loss of a rare record since `from`.
fn loss_since(from: Stamp<Local>) -> Event {
    Event {
        at: clocks::now(),
        cpu: Cpu::UNKNOWN,
        context: Context::Task,
        current: Tid(std::process::id()),
        kind: EventKind::Loss { from, count: 1, records: LostRecords::Any },
    }
}

/// The commands on their way from a session to the writing thread.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    commands: VecDeque<WriteCommand>,
    /// The size of waiting and running commands, bytes.
    bytes: usize,
    closed: bool,
    /// The first error, until it is returned.
    error: Option<WriteError>,
    spare: Vec<Vec<u8>>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change to the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until at most `max` bytes wait; false if the thread has ended.
    fn has_room<T>(&self, max: usize, thread: &JoinHandle<T>) -> bool {
        let mut state = self.lock();
        while state.bytes > max && !thread.is_finished() {
            let waited = self.emptied.wait_timeout(state, CHECK_THREAD_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !thread.is_finished()
    }

    fn put(
        &self,
        commands: impl IntoIterator<Item = WriteCommand>,
        spare: &mut Vec<Vec<u8>>,
    ) -> Result<(), WriteError> {
        let mut state = self.lock();
        for command in commands {
            state.bytes += command.bytes();
            state.commands.push_back(command);
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

    /// Carries out commands until the queue is closed and empty.
    fn serve(&self, target: &mut Target) {
        let mut state = self.lock();
        loop {
            let commands = std::mem::take(&mut state.commands);
            if commands.is_empty() {
                if state.closed {
                    return;
                }
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            for command in commands {
                let result = target.execute_behind(&command);
                self.done(command, result);
            }
            state = self.lock();
        }
    }

    fn done(&self, command: WriteCommand, result: Result<(), WriteError>) {
        let mut state = self.lock();
        state.bytes -= command.bytes();
        if let Err(error) = result {
            state.error.get_or_insert(error);
        }
        if let WriteCommand::Packet { mut bytes, .. } = command
            && state.spare.len() < MAX_SPARE
            && bytes.capacity() <= MAX_SPARE_BYTES
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
    fn a_caller_waits_while_there_is_no_room_and_no_longer_than_the_writer_lives() {
        let packet = |bytes| WriteCommand::Packet { buffer: Buffer::Sched, cpu: Cpu(0), bytes, lost: 0 };
        let queue = Arc::new(Queue::default());
        queue.put([packet(vec![0; 10])], &mut Vec::new()).unwrap();
        let (stop, stopped) = mpsc::channel::<()>();
        let writer = std::thread::spawn(move || stopped.recv().is_ok());
        let caller = Arc::clone(&queue);
        assert!(queue.has_room(10, &writer), "the maximum is still room");
        let (report, reports) = mpsc::channel();
        let asking = std::thread::spawn(move || {
            report.send(caller.has_room(9, &writer)).unwrap();
            caller.put([packet(vec![0; 10])], &mut Vec::new()).unwrap();
            report.send(caller.has_room(9, &writer)).unwrap();
        });
        let moment = Duration::from_millis(30);
        assert!(reports.recv_timeout(moment).is_err(), "no room");
        let command = queue.lock().commands.pop_front().unwrap();
        queue.done(command, Ok(()));
        assert_eq!(reports.recv(), Ok(true), "what was there is written");
        assert!(reports.recv_timeout(moment).is_err(), "no room again");
        stop.send(()).unwrap();
        assert_eq!(reports.recv(), Ok(false), "no thread will make room");
        asking.join().unwrap();
    }

    #[test]
    fn the_first_error_is_returned_once_and_buffers_come_back_empty() {
        let queue = Queue::default();
        let packet = || WriteCommand::Packet { buffer: Buffer::Net, cpu: Cpu(0), bytes: vec![1; 8], lost: 0 };
        let mut spare = Vec::new();
        for (command, limit) in [(packet(), 1), (packet(), 2)] {
            queue.put([command], &mut spare).unwrap();
            let command = queue.lock().commands.pop_front().unwrap();
            let state = queue.lock().error.take();
            assert!(state.is_none());
            queue.done(command, Err(WriteError::SizeLimit { limit }));
            let error = queue.put([], &mut spare).unwrap_err();
            assert!(
                matches!(error, WriteError::SizeLimit { limit: reported } if reported == limit),
                "{error}"
            );
            assert!(queue.put([], &mut spare).is_ok());
        }
        assert_eq!(queue.lock().bytes, 0);
        assert!(spare.len() == 2 && spare.iter().all(|buffer| buffer.is_empty() && buffer.capacity() == 8));
    }
}

//! A recording session from the first attach to the last drain.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::RingBuffer;
use wakepath_clock::{Local, Stamp};
use wakepath_event::{CallEnd, Context, Cpu, Event, EventKind, FunctionCall, Mark, NameSpace, Tid};
use wakepath_kernel_records::{Buffer, Header, Kind};
use wakepath_recording::{WriteError, Writer};

use crate::child::{Held, Running, Start};
use crate::mappings::Mappings;
use crate::probes::OpenCall;
use crate::programs::{Missing, Programs};
use crate::rings::Rings;
use crate::watch::{Watch, pidfd};
use crate::write_behind::{Order, WriteBehind};
use crate::{Error, Options, Signals, Stacks, clocks, names, rights, sampling};

/// Sleep between drains when little happens. At the highest rate seen (354,000 semaphore round trips
/// a second of 176 bytes each) a ring of 8 MiB is full after 135 ms, at that of packets (330,000 a second
/// sent and received, of 80 bytes) one of 4 MiB after 160 ms, and a burst comes unannounced.
const MAX_SLEEP: Duration = Duration::from_millis(50);
/// Sleep between drains when a ring was more than a quarter full.
const SHORTEST_SLEEP: Duration = Duration::from_millis(5);
/// Bytes that may at least wait to be written: several seconds of a busy machine, since a disk with much
/// to do makes even a write to memory wait that long.
const MIN_BEHIND: usize = 64 << 20;
/// How often clocks, losses and limits are looked at.
const SECOND: Duration = Duration::from_secs(1);
/// How long an interrupted command has to end before recording, or waiting for it, stops without it.
pub const GRACE: Duration = Duration::from_secs(2);

/// Bytes of a record of the snapshot, `struct wp_thread`.
const THREAD_BYTES: usize = 88;
/// Of what a thread is blocked in, `struct wp_blocked`.
const BLOCKED_BYTES: usize = 48;
/// How long a rare record is held back so that an earlier one can still come before it, ns: far
/// longer than a tracepoint's program runs, though a virtual CPU may be stopped for as long.
const HOLD_NS: u64 = 200_000_000;

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The command, or all processes asked about, ended.
    Ended,
    /// The time asked for was over.
    Duration,
    /// Somebody asked to stop.
    Interrupted,
    /// The recording reached its largest size, or the disk its fullest.
    OutOfRoom,
}

/// What a session came to.
#[derive(Debug)]
pub struct Outcome {
    /// Why it ended.
    pub reason: EndReason,
    /// The command's wait status, if it ran and ended.
    pub status: Option<i32>,
    /// How long it recorded.
    pub elapsed: Duration,
    /// The command, if it goes on without being recorded.
    pub running: Option<Running>,
    /// What was in the way of more, if it ended for want of room.
    pub out_of_room: Option<WriteError>,
    /// What this kernel did not let us see.
    pub missing: Vec<Missing>,
    /// Calls of functions that were not recorded for want of room, or that recursed too deep.
    pub calls_overflowed: u64,
    /// Calls of functions of the kernel that were not recorded, since nobody saw them begin, or return.
    pub calls_unseen: u64,
    /// CPU time that this process took while recording.
    pub consumer: Duration,
}

/// Runs a session: records until the command ends, the time is over or `stop` was asked. `open` makes the
/// recording, and is called when all is ready: a question that makes no sense, rights that are missing
/// or a command that is not there leave the disk as it was.
///
/// # Errors
/// When recording could not start, the command could not run, or the recording could not be written.
pub fn record(
    options: &Options,
    open: impl FnOnce() -> Result<Writer, WriteError>,
    stop: &Signals,
) -> Result<Outcome, Error> {
    if let Some(&pid) = options.targets.iter().find(|&&pid| pidfd(pid).is_none()) {
        return Err(Error::NoProcess { pid });
    }
    let cpus = sampling::possible_cpus().map_err(|source| Error::MapRings { source })?;
    let mut storage = MaybeUninit::uninit();
    let mut programs = Programs::load(&mut storage, options, cpus)?;
    let (sched, net) = programs.rings(options, cpus)?;
    let arrived = Rc::new(RefCell::new(Vec::new()));
    let incoming = Rc::clone(&arrived);
    let buffer = programs.life(move |record| incoming.borrow_mut().push(Box::from(record)))?;
    let held = match options.command.as_slice() {
        [] => None,
        words => Some(Held::spawn(words, options.caller.as_ref().filter(|_| !options.as_root))?),
    };
    // As much as the rings hold once more.
    let most = (sched.size() + net.size()) * cpus;
    let out = WriteBehind::new(open()?, most.max(MIN_BEHIND));
    for pid in options.targets.iter().copied().chain(held.as_ref().map(|held| held.pid as u32)) {
        programs.follow(pid)?;
    }
    programs.attach(options)?;

    let (began, spent) = (Instant::now(), cpu_time());
    let mut session = Session {
        programs,
        sched,
        net,
        arrived,
        buffer,
        out,
        orders: Vec::new(),
        mappings: Mappings::new(),
        life_lost: vec![0; cpus],
        misses: 0,
        stacks: options.stacks != Stacks::None,
        looked: clocks::now(),
    };
    session.begin(options, held.as_ref())?;
    let command = held.as_ref().map(|held| held.pid);
    if let Some(held) = held
        && let Start::Failed(source) = held.release()
    {
        return Err(Error::Exec { command: options.command[0].clone(), source });
    }
    let urgent = Urgent::new();
    let command_is_roots = options.as_root && !options.command.is_empty();
    rights::lower_for_session(options.caller.as_ref(), command_is_roots)
        .map_err(|source| Error::Rights { source })?;
    // Threads begin with their maker's rights: after these were lowered.
    session.mappings = std::mem::replace(&mut session.mappings, Mappings::new()).start();
    session.out.start();
    let mut out_of_room = None;
    let (mut reason, status) = match session.run(options, command, stop, began) {
        Err(Error::Write(error)) if error.is_out_of_room() => {
            out_of_room = Some(error);
            (EndReason::OutOfRoom, None)
        }
        other => other?,
    };
    let elapsed = began.elapsed();
    let ended = session.end(status);
    drop(urgent);
    match ended {
        Err(Error::Write(error)) if error.is_out_of_room() => {
            reason = EndReason::OutOfRoom;
            out_of_room.get_or_insert(error);
        }
        other => other?,
    }
    let [calls_overflowed, calls_unseen] = session.programs.calls_untold();
    Ok(Outcome {
        reason,
        status,
        elapsed,
        running: command.filter(|_| status.is_none()).map(|pid| Running { pid }),
        out_of_room,
        calls_overflowed,
        calls_unseen,
        missing: session.programs.missing,
        consumer: cpu_time().saturating_sub(spent),
    })
}

struct Session<'a, 'obj> {
    programs: Programs<'obj>,
    sched: Rings,
    net: Rings,
    /// Rare records, as the buffer handed them over.
    arrived: Rc<RefCell<Vec<Box<[u8]>>>>,
    buffer: RingBuffer<'a>,
    out: WriteBehind,
    /// What was not handed to it yet.
    orders: Vec<Order>,
    mappings: Mappings,
    /// What each CPU had lost of rare records when we last looked.
    life_lost: Vec<u64>,
    /// How often programs had been skipped when we last looked.
    misses: u64,
    /// Stacks are taken.
    stacks: bool,
    /// When we last looked.
    looked: Stamp<Local>,
}

impl Session<'_, '_> {
    /// What stands at a recording's beginning: clocks, threads, names, and what is asked.
    fn begin(&mut self, options: &Options, held: Option<&Held>) -> Result<(), Error> {
        self.note_clocks();
        let snapshot = self.programs.threads()?;
        // With `--path-only` no calls are recorded, and so not these.
        let blocked = if options.calls { self.programs.blocked()? } else { Vec::new() };
        let lived = snapshot.chunks_exact(THREAD_BYTES).chain(blocked.chunks_exact(BLOCKED_BYTES));
        self.orders.extend(lived.map(|record| Order::Record(record.into())));
        for (cpu, tid) in softirq_threads(&snapshot) {
            if cpu < self.sched.cpus() {
                self.sched.set_ksoftirqd(cpu, tid);
            }
        }
        let functions = options.functions.iter().map(|(name, _)| name);
        let names = functions.chain(options.kernel_functions.iter().map(|(name, _)| name));
        for (target, name) in names.enumerate() {
            self.note(EventKind::Name(NameSpace::Target, target as u64, name.as_bytes().into()));
        }
        for (space, key, name) in names::all() {
            self.note(EventKind::Name(space, key, name));
        }
        self.note(EventKind::Mark(Mark::Observer(Tid(std::process::id()))));
        for &target in &options.targets {
            self.note(EventKind::Mark(Mark::Target(Tid(target))));
        }
        if let Some(held) = held {
            use std::os::unix::ffi::OsStrExt;
            let words: Vec<&[u8]> = options.command.iter().map(|word| word.as_bytes()).collect();
            let words = words.join(&0).into();
            self.note(EventKind::Mark(Mark::Command { tgid: Tid(held.pid as u32), words }));
        }
        let started = clocks::now();
        self.note_at(started, Cpu::UNKNOWN, EventKind::Mark(Mark::Started));
        self.drain()?;
        // Who lives and what is asked is written at once: a recording that is cut off in its first
        // moments then tells them all the same.
        self.orders.push(Order::Flush { until: started, lost: 0 });
        self.hand_over()
    }

    fn run(
        &mut self,
        options: &Options,
        command: Option<i32>,
        stop: &Signals,
        began: Instant,
    ) -> Result<(EndReason, Option<i32>), Error> {
        let mut watch = Watch::new(command, &options.targets, options.duration);
        let mut sleep = SHORTEST_SLEEP;
        let mut next_look = began + SECOND;
        loop {
            watch.sleep(sleep);
            let fullest = self.drain()?;
            sleep = match fullest {
                full if full > 0.25 => SHORTEST_SLEEP,
                full if full < 0.05 => (sleep * 2).min(MAX_SLEEP),
                _ => sleep,
            };
            if Instant::now() >= next_look {
                next_look += SECOND;
                self.look();
                self.orders.push(Order::CheckSpace);
            }
            if let Some(over) = watch.over(stop) {
                return Ok(over);
            }
        }
    }

    /// Stops recording and writes what is left.
    fn end(&mut self, status: Option<i32>) -> Result<(), Error> {
        self.programs.detach();
        // What the rings still hold must not take the room that was kept for the end.
        self.drain_rings();
        let drained = self.hand_over();
        let drained = drained.and(self.out.stop().map_err(Error::Write));
        let full = match drained {
            Err(Error::Write(error)) if error.is_out_of_room() => Some(error),
            other => other.map(|()| None)?,
        };
        self.orders.push(Order::UseAllRoom);
        if let Some(status) = status {
            self.note(EventKind::Mark(Mark::Ended(status as u32)));
        }
        for OpenCall { target, thread, from } in self.programs.open_calls() {
            let thread = Tid(thread.unwrap_or(0));
            let call = FunctionCall { target, thread, from: Stamp::from_ns(from), end: CallEnd::Open };
            self.note(EventKind::Function(call));
        }
        self.note(EventKind::Mark(Mark::Stopped));
        // Without a flush: one that takes the room, or fails for want of it, would leave none for the end.
        self.take_rare();
        for mapping in std::mem::replace(&mut self.mappings, Mappings::new()).finish() {
            self.note(EventKind::Mapping(mapping));
        }
        // Cgroups, disks and interfaces that came while we recorded.
        for (space, key, name) in names::all() {
            self.note(EventKind::Name(space, key, name));
        }
        self.look();
        let lost = self.life_lost.iter().sum();
        self.orders.push(Order::End { lost });
        self.hand_over()?;
        full.map_or(Ok(()), |error| Err(Error::Write(error)))
    }

    /// Takes what all buffers hold. Returns how full the fullest ring was, 0 to 1.
    fn drain(&mut self) -> Result<f64, Error> {
        let fullest = self.drain_rings();
        // Before the buffer is read: what is stamped later than this may still be on its way.
        let now = clocks::now();
        self.take_rare();
        let lost = self.life_lost.iter().sum();
        self.orders.push(Order::Flush { until: now.minus(HOLD_NS), lost });
        self.hand_over()?;
        Ok(fullest)
    }

    fn hand_over(&mut self) -> Result<(), Error> {
        Ok(self.out.put(self.orders.drain(..))?)
    }

    fn drain_rings(&mut self) -> f64 {
        let mut fullest = 0.0f64;
        for cpu in 0..self.sched.cpus() {
            for (buffer, rings) in [(Buffer::Sched, &self.sched), (Buffer::Net, &self.net)] {
                // The counter before the position: a loss that it counts then lies before the end of
                // this packet or right behind it.
                let lost = rings.lost(cpu);
                let mut bytes = self.out.buffer();
                rings.drain(cpu, &mut bytes);
                fullest = fullest.max(bytes.len() as f64 / rings.size() as f64);
                if bytes.is_empty() {
                    self.out.give_back(bytes);
                } else {
                    self.orders.push(Order::Packet { buffer, cpu: Cpu(cpu as u16), bytes, lost });
                }
            }
        }
        fullest
    }

    /// Rare records that arrived, and mappings that were found.
    fn take_rare(&mut self) {
        // Its errors are those of callbacks, and ours has none.
        self.buffer.consume_raw();
        let arrived = self.arrived.take();
        for (tgid, address) in arrived.iter().filter_map(|record| sampled(record)) {
            self.mappings.sampled(tgid, address);
        }
        self.orders.extend(arrived.into_iter().map(Order::Record));
        for mapping in self.mappings.found() {
            self.note(EventKind::Mapping(mapping));
        }
    }

    /// Once a second: the clocks, and what was lost since.
    fn look(&mut self) {
        self.note_clocks();
        for (cpu, lost) in self.programs.life_lost().into_iter().enumerate() {
            let before = self.life_lost.get(cpu).copied().unwrap_or(lost);
            if lost > before {
                self.note_loss(Cpu(cpu as u16), lost - before);
                self.life_lost[cpu] = lost;
            }
        }
        if self.stacks {
            self.note(EventKind::StackCounts(self.programs.stack_counts()));
        }
        let misses = self.programs.recursion_misses();
        if misses > self.misses {
            self.note_loss(Cpu::UNKNOWN, misses - self.misses);
            self.misses = misses;
        }
        self.looked = clocks::now();
    }

    fn note_clocks(&mut self) {
        let (at, clocks) = clocks::together();
        self.note_at(at, Cpu::UNKNOWN, EventKind::Clocks(clocks));
    }

    fn note_loss(&mut self, cpu: Cpu, count: u64) {
        self.note_at(clocks::now(), cpu, EventKind::Loss { from: self.looked, count });
    }

    fn note(&mut self, what: EventKind) {
        self.note_at(clocks::now(), Cpu::UNKNOWN, what);
    }

    /// Adds a record of our own.
    fn note_at(&mut self, at: Stamp<Local>, cpu: Cpu, what: EventKind) {
        let current = Tid(std::process::id());
        let event = Event { at, cpu, context: Context::Task, current, kind: what };
        self.orders.push(Order::Event(event));
    }
}

/// While it lives, this thread, and the one that writes, go before others: where CPUs are short, which is when people record, one
/// that waits its turn lets the rings run over. It needs a few hundredths of a CPU. The command was
/// started before and has its own priority.
struct Urgent {
    before: libc::c_int,
}

impl Urgent {
    /// Without the right to it, nothing changes.
    fn new() -> Self {
        // SAFETY: reads and sets one number of this thread.
        unsafe {
            let before = libc::getpriority(libc::PRIO_PROCESS, 0);
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
            Self { before }
        }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // SAFETY: sets one number of this thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, self.before) };
    }
}

/// Process and innermost user address, if the record is a stack; offsets as in `struct wp_sample`.
fn sampled(record: &[u8]) -> Option<(u32, u64)> {
    let kind = Header::read(record)?.kind;
    if kind != Kind::Sample.number() && kind != Kind::Stack.number() {
        return None;
    }
    let tgid = u32::from_le_bytes(*record.get(16..)?.first_chunk()?);
    let kernel_frames = usize::from(u16::from_le_bytes(*record.get(20..)?.first_chunk()?));
    let address = u64::from_le_bytes(*record.get(32 + kernel_frames * 8..)?.first_chunk()?);
    Some((tgid, address))
}

/// Which thread serves softirqs on which CPU, from a snapshot's records.
fn softirq_threads(snapshot: &[u8]) -> Vec<(usize, u32)> {
    const COMM: usize = 72;
    let threads = snapshot.chunks_exact(THREAD_BYTES);
    threads
        .filter_map(|record| {
            let comm = record.get(COMM..)?.split(|&b| b == 0).next()?;
            let cpu = std::str::from_utf8(comm.strip_prefix(b"ksoftirqd/")?).ok()?.parse().ok()?;
            Some((cpu, Header::read(record)?.tid))
        })
        .collect()
}

/// CPU time of this process, user and kernel.
fn cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the kernel fills the timespec; zero is a valid one.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

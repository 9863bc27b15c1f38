//! Finishes the stacks that the BPF programs could not unwind, in a separate thread: it reads files, and the draining
//! thread must not wait for a disk.

mod spaces;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet, VecDeque, btree_map};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::RingBuffer;
use wakepath_kernel_records::{Header, Kind};

pub(crate) use self::spaces::{Spaces, start_stack};
use crate::clocks;
use crate::mapped_code::Made;
use crate::stack_copy::StackCopy;

/// The most waiting copies, some 9 KiB each.
const MAX_WAITING: usize = 1024;
/// With more waiting copies, a copy from an already known address is refused, unless its process is a target.
const MAX_ALIKE: usize = MAX_WAITING / 2;
/// The most target processes remembered.
const MAX_ASKED: usize = 65_536;
/// The most addresses remembered at which copies stopped.
const MAX_STOPPED: usize = 65_536;
/// The thread's nice value: until a rule is there, each stack that needs it is copied, and where CPUs are short, this
/// takes long. Its priority is below the draining thread's.
const NICE: libc::c_int = -3;
/// The longest time between looks at processes' new mappings, and at silenced processes.
const PATIENCE: Duration = Duration::from_millis(100);

/// The thread's front.
pub(crate) struct Unwinder {
    copies: SyncSender<Waiting>,
    /// The code that processes map, on its way to the thread.
    mapped: Sender<Made>,
    finished: Receiver<Box<[u8]>>,
    thread: Thread,
    counts: Arc<Counts>,
    /// The stamps of samples on their way, ns, each with the number of samples.
    samples: BTreeMap<u64, u32>,
    /// The number of copies on their way.
    waiting: usize,
    /// Address spaces and addresses where copies stopped, since the last time without waiting copies.
    stopped: HashSet<(u64, u64)>,
    /// The target processes: their stacks come before others.
    asked: HashSet<u32>,
}

/// A copy on its way.
struct Waiting {
    copy: StackCopy,
    /// Whether its process is a target.
    is_asked: bool,
}

enum Thread {
    Idle(Box<Idle>),
    At(JoinHandle<()>),
    Ended,
}

/// The channel ends that the thread takes over when it begins, and its address spaces.
struct Idle {
    copies: Receiver<Waiting>,
    seen: Receiver<Made>,
    found: SyncSender<Box<[u8]>>,
    spaces: Option<Spaces>,
}

/// Counts for [`wakepath_event::UnwindCounts`].
#[derive(Debug, Default)]
struct Counts {
    copied: AtomicU64,
    refused: AtomicU64,
    ns: AtomicU64,
}

impl Unwinder {
    /// Without address spaces there are no copies either.
    pub(crate) fn new(spaces: Option<Spaces>) -> Self {
        let (copies, taken) = mpsc::sync_channel(MAX_WAITING);
        let (mapped, seen) = mpsc::channel();
        let (found, finished) = mpsc::sync_channel(2 * MAX_WAITING);
        let thread = Thread::Idle(Box::new(Idle { copies: taken, seen, found, spaces }));
        Self {
            copies,
            mapped,
            finished,
            thread,
            counts: Arc::default(),
            samples: BTreeMap::new(),
            waiting: 0,
            stopped: HashSet::new(),
            asked: HashSet::new(),
        }
    }

    /// Makes this process a target, with the processes it starts.
    pub(crate) fn asks_about(&mut self, tgid: u32) {
        if self.asked.len() < MAX_ASKED {
            self.asked.insert(tgid);
        }
    }

    /// Notes a new process, if the record is a fork.
    pub(crate) fn see(&mut self, record: &[u8]) {
        /// Offsets in `struct wp_thread`: the thread's process, and the process that started it.
        const TGID: usize = 20;
        const PARENT: usize = 24;
        if Header::read(record).is_none_or(|header| header.kind != Kind::Fork.number()) {
            return;
        }
        let number = |at: usize| record.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if let (Some(tgid), Some(parent)) = (number(TGID), number(PARENT))
            && self.asked.contains(&parent)
        {
            self.asks_about(tgid);
        }
    }

    /// From now on copies are finished, with this thread's privileges.
    pub(crate) fn start(mut self) -> Self {
        if let Thread::Idle(idle) = self.thread {
            let Idle { copies, seen, found, spaces } = *idle;
            self.thread = match spaces {
                Some(spaces) => {
                    let counts = Arc::clone(&self.counts);
                    Thread::At(std::thread::spawn(move || {
                        // SAFETY: sets a number for this thread, which may have inherited a higher priority.
                        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
                        finish_all(spaces, &copies, &seen, &found, &counts);
                    }))
                }
                None => Thread::Idle(Box::new(Idle { copies, seen, found, spaces })),
            };
        }
        self
    }

    /// Takes a copy. Returns the unfinished record if too many wait. Where many do, target processes' copies take
    /// precedence, and copies that stopped at new addresses: a single copy for an address is enough to find the rule,
    /// and all processes shall have their turn.
    pub(crate) fn take(&mut self, copy: StackCopy) -> Option<Box<[u8]>> {
        self.counts.copied.fetch_add(1, Ordering::Relaxed);
        let is_first = self.stopped.insert((copy.space(), copy.registers().ip));
        let is_asked = self.asked.contains(&copy.tgid());
        if !is_first && !is_asked && self.waiting > MAX_ALIKE {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Some(copy.unfinished(clocks::now().ns()));
        }
        let sample = copy.is_sample().then(|| copy.stamp());
        match self.copies.try_send(Waiting { copy, is_asked }) {
            Ok(()) => {
                self.waiting += 1;
                if let Some(stamp) = sample {
                    *self.samples.entry(stamp).or_default() += 1;
                }
                None
            }
            Err(mpsc::TrySendError::Full(waiting) | mpsc::TrySendError::Disconnected(waiting)) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                Some(waiting.copy.unfinished(clocks::now().ns()))
            }
        }
    }

    /// Passes on a process's new mapping, without waiting.
    pub(crate) fn mapped(&self) -> impl Fn(&Made) + Send + 'static {
        // The thread takes none where no stack is unwound.
        let unwinds = !matches!(&self.thread, Thread::Idle(idle) if idle.spaces.is_none());
        let mapped = unwinds.then(|| self.mapped.clone());
        move |made| {
            if let Some(mapped) = &mapped {
                let _ = mapped.send(made.clone());
            }
        }
    }

    /// The records finished since the last call.
    pub(crate) fn finished(&mut self) -> Vec<Box<[u8]>> {
        let finished: Vec<_> = self.finished.try_iter().collect();
        self.waiting = self.waiting.saturating_sub(finished.len());
        if self.waiting == 0 || self.stopped.len() > MAX_STOPPED {
            self.stopped.clear();
        }
        for stamp in finished.iter().filter_map(|record| stamp_of_sample(record)) {
            if let btree_map::Entry::Occupied(mut waits) = self.samples.entry(stamp) {
                *waits.get_mut() -= 1;
                if *waits.get() == 0 {
                    waits.remove();
                }
            }
        }
        finished
    }

    /// The stamp of the earliest sample on its way, ns.
    pub(crate) fn oldest_sample(&self) -> Option<u64> {
        self.samples.first_key_value().map(|(stamp, _)| *stamp)
    }

    /// The numbers of copies and unfinished copies, and the thread's CPU time, ns.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let Counts { copied, refused, ns } = &*self.counts;
        [copied, refused, ns].map(|count| count.load(Ordering::Relaxed))
    }

    /// The remaining records, once all copies are finished.
    pub(crate) fn finish(&mut self) -> Vec<Box<[u8]>> {
        // Nothing is taken any more.
        (self.copies, self.mapped) = (mpsc::sync_channel(0).0, mpsc::channel().0);
        self.samples.clear();
        match std::mem::replace(&mut self.thread, Thread::Ended) {
            Thread::At(thread) => {
                let rest = self.finished.iter().collect();
                // The thread does not panic; if it did, its finished records would be here.
                let _ = thread.join();
                rest
            }
            Thread::Idle(idle) => {
                idle.copies.try_iter().map(|waiting| waiting.copy.unfinished(clocks::now().ns())).collect()
            }
            Thread::Ended => Vec::new(),
        }
    }
}
/// Finishes copies until no more will come.
fn finish_all(
    mut spaces: Spaces,
    copies: &Receiver<Waiting>,
    seen: &Receiver<Made>,
    found: &SyncSender<Box<[u8]>>,
    counts: &Counts,
) {
    let mut pending = VecDeque::new();
    let mut turn = Turn::Oldest;
    loop {
        spaces.listen();
        seen.try_iter().for_each(|made| spaces.mapped(made));
        let known = pending.len();
        if pending.is_empty() {
            match copies.recv_timeout(PATIENCE) {
                Ok(waiting) => pending.push_back(waiting),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        pending.extend(copies.try_iter().take(MAX_WAITING.saturating_sub(known)));
        // A process may end soon, and its mappings with it.
        pending.iter().skip(known).for_each(|waiting| spaces.look_at(&waiting.copy));
        turn = turn.next();
        let Some(copy) = next(&mut pending, turn) else { continue };
        let finished = spaces.finish(&copy);
        counts.refused.fetch_add(finished.refused.into(), Ordering::Relaxed);
        if found.send(finished.record).is_err() {
            return;
        }
        let ns = clocks::read(libc::CLOCK_THREAD_CPUTIME_ID);
        counts.ns.store(ns, Ordering::Relaxed);
    }
}

fn stamp_of_sample(record: &[u8]) -> Option<u64> {
    let header = Header::read(record)?;
    (header.kind == Kind::Sample.number()).then_some(header.stamp)
}

/// The order in which copies are taken.
#[derive(Clone, Copy)]
enum Turn {
    /// The oldest copy of a target process.
    Asked,
    /// The copy of the youngest process, since such processes may end soon.
    Youngest,
    /// The oldest copy.
    Oldest,
}

impl Turn {
    fn next(self) -> Self {
        match self {
            Self::Asked => Self::Youngest,
            Self::Youngest => Self::Oldest,
            Self::Oldest => Self::Asked,
        }
    }
}

/// Takes the copy from `pending` whose turn it is.
fn next(pending: &mut VecDeque<Waiting>, turn: Turn) -> Option<StackCopy> {
    let at = match turn {
        Turn::Asked => pending.iter().position(|waiting| waiting.is_asked).unwrap_or(0),
        Turn::Youngest => (0..pending.len()).max_by_key(|&at| pending[at].copy.tgid())?,
        Turn::Oldest => 0,
    };
    pending.remove(at).map(|waiting| waiting.copy)
}

/// During the calibration: finds the rules for its own threads' stacks, since it measures a stack's cost with known
/// rules. The stacks themselves are dropped, like all records for the calibration alone.
pub(crate) fn learn_own_stacks(
    spaces: Option<&mut Spaces>,
    buffer: &RingBuffer<'_>,
    arrived: &RefCell<Vec<Box<[u8]>>>,
) {
    let Some(spaces) = spaces else { return };
    // The only errors would be the callback's, which has none.
    buffer.consume_raw();
    let own = std::process::id();
    let mut others = Vec::new();
    for record in arrived.take() {
        match StackCopy::new(record) {
            Ok(Some(copy)) if copy.tgid() == own && !spaces.knows(&copy) => {
                spaces.finish(&copy);
            }
            Ok(_) => {}
            Err(record) => others.push(record),
        }
    }
    arrived.replace(others);
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_event::{CgroupId, Comm, Context, Cpu, Event, EventKind, ThreadIdentity, Tid};
    use wakepath_kernel_records::Encoder;
    use wakepath_unwind::Registers;

    use super::*;
    use crate::stack_copy::tests::{decoded, own_stack_copy};
    use crate::unwind_rules::UnwindRules;

    const REGISTERS: Registers = Registers { ip: 0x1000, sp: 0x7000, bp: 0 };

    fn spaces() -> Option<Spaces> {
        Some(Spaces::new(UnwindRules::own().expect("memory")))
    }

    #[test]
    fn those_that_are_asked_about_the_youngest_process_and_the_one_that_waits_longest_have_their_turns() {
        let waiting = |sp, is_asked| {
            let copy = own_stack_copy(Registers { sp, ..REGISTERS }, 0, &[]);
            Waiting { copy, is_asked }
        };
        // All in one process: the last copy is as young as the others.
        let made = [(1, false), (2, false), (3, true), (4, false), (5, true), (6, false)];
        let mut pending: VecDeque<Waiting> = made.map(|(sp, is_asked)| waiting(sp, is_asked)).into();
        let mut turn = Turn::Oldest;
        let mut next = || {
            turn = turn.next();
            next(&mut pending, turn).map(|copy| copy.registers().sp)
        };
        let taken: Vec<_> = std::iter::from_fn(&mut next).collect();
        assert_eq!(taken, [3, 6, 1, 5, 4, 2]);
    }

    #[test]
    fn stacks_of_a_process_that_is_asked_about_and_of_those_that_it_starts_are_not_refused_for_others() {
        let mut unwinder = Unwinder::new(spaces());
        let copy = || own_stack_copy(Registers { ip: 0x1000, ..REGISTERS }, 0, &[0; 64]);
        for _ in 0..=MAX_ALIKE {
            assert!(unwinder.take(copy()).is_none());
        }
        assert!(unwinder.take(copy()).is_some());
        let own = std::process::id();
        // By the layout that the decoder shares with the programs.
        let fork = |parent: u32, child: u32| {
            let identity = ThreadIdentity {
                // Another number than the process's, as a thread has.
                tid: Tid(8),
                tgid: Tid(child),
                parent: Tid(parent),
                ns_tid: Tid(3),
                ns_tgid: Tid(4),
                start: Stamp::from_ns(5),
                cgroup: CgroupId::default(),
                cpu_cgroup: CgroupId::default(),
                kernel: false,
                comm: Comm::default(),
            };
            let kind = EventKind::Fork { child: identity };
            let event =
                Event { at: Stamp::from_ns(6), cpu: Cpu(0), context: Context::Task, current: Tid(7), kind };
            let mut record = Vec::new();
            Encoder::for_release("6.1.0").encode(&event, 0, &mut record).expect("an event that fits");
            record
        };
        let mut thread = fork(1, own);
        thread[8] = Kind::Thread.number();
        unwinder.asks_about(1);
        unwinder.see(&thread);
        unwinder.see(&fork(2, own));
        unwinder.see(&fork(1, own)[..25]);
        assert!(unwinder.take(copy()).is_some(), "no process that is asked about started it");
        unwinder.see(&fork(1, 2));
        unwinder.see(&fork(2, own));
        assert!(unwinder.take(copy()).is_none());
    }

    #[test]
    fn without_the_thread_and_where_too_many_wait_what_was_guessed_is_kept() {
        let copy = || own_stack_copy(REGISTERS, 0, &[0; 64]);
        let mut idle = Unwinder::new(None);
        assert!(idle.take(copy()).is_none());
        assert_eq!(idle.finish().len(), 1, "nothing is lost");
        let EventKind::StackLater(_, stack) = decoded(&idle.take(copy()).expect("it is returned")).1 else {
            panic!("a stack that was guessed");
        };
        assert_eq!(stack.user.len(), 1);
        let mut full = Unwinder::new(spaces());
        for n in 0..MAX_WAITING as u64 {
            let elsewhere = Registers { ip: REGISTERS.ip + n, ..REGISTERS };
            assert!(full.take(own_stack_copy(elsewhere, 0, &[0; 64])).is_none());
        }
        assert!(full.take(copy()).is_some());
        assert_eq!(full.counts()[..2], [MAX_WAITING as u64 + 1, 1]);
        let mut full = full.start();
        assert_eq!(full.finish().len(), MAX_WAITING);
        // This process has another stack.
        assert_eq!(full.counts()[..2], [MAX_WAITING as u64 + 1, MAX_WAITING as u64 + 1]);
    }

    #[test]
    fn copies_that_stopped_at_one_address_leave_room_for_those_of_others() {
        let mut unwinder = Unwinder::new(spaces());
        let copy = |ip| own_stack_copy(Registers { ip, ..REGISTERS }, 0, &[0; 64]);
        for _ in 0..=MAX_ALIKE {
            assert!(unwinder.take(copy(0x1000)).is_none());
        }
        assert!(unwinder.take(copy(0x1000)).is_some());
        assert!(unwinder.take(copy(0x2000)).is_none(), "the first of its kind");
        assert!(unwinder.take(copy(0x2000)).is_some());
        // Once none waits, all is as at first.
        let mut unwinder = unwinder.start();
        while unwinder.waiting > 0 {
            assert!(unwinder.finished().len() <= MAX_ALIKE + 2);
        }
        assert!(unwinder.take(copy(0x1000)).is_none());
    }
}

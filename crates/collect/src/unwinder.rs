//! Finishes the stacks that the BPF programs could not unwind, in a thread of its own: it reads files, and the thread
//! that drains the rings must not wait for a disk.

mod spaces;

use std::collections::{BTreeMap, VecDeque, btree_map};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use wakepath_kernel_records::{Header, Kind};

pub(crate) use self::spaces::Spaces;
use crate::clocks;
use crate::mapped_code::Made;
use crate::stack_copy::StackCopy;

/// Most copies that wait, of some 9 KiB each.
const MAX_WAITING: usize = 1024;
/// While stacks of some process are not copied: the longest time after which they may be copied again.
const PATIENCE: Duration = Duration::from_millis(100);

/// The front of the thread.
pub(crate) struct Unwinder {
    questions: SyncSender<Question>,
    finished: Receiver<Box<[u8]>>,
    thread: Thread,
    counts: Arc<Counts>,
    /// The stamps of samples that are on their way, ns, each with their number.
    samples: BTreeMap<u64, u32>,
}

/// Work for the thread.
enum Question {
    /// Finish this.
    Copy(StackCopy),
    /// A process mapped code.
    Mapped(Made),
}

enum Thread {
    Idle(Receiver<Question>, SyncSender<Box<[u8]>>, Option<Spaces>),
    At(JoinHandle<()>),
}

/// Counts of [`wakepath_event::UnwindCounts`].
#[derive(Debug, Default)]
struct Counts {
    copied: AtomicU64,
    refused: AtomicU64,
    ns: AtomicU64,
}

impl Unwinder {
    /// Without address spaces there are no copies either.
    pub(crate) fn new(spaces: Option<Spaces>) -> Self {
        let (questions, asked) = mpsc::sync_channel(MAX_WAITING);
        // Room for what waits here and in the thread, and more: at the end nobody takes it while the mappings are finished.
        let (found, finished) = mpsc::sync_channel(3 * MAX_WAITING);
        let thread = Thread::Idle(asked, found, spaces);
        Self { questions, finished, thread, counts: Arc::default(), samples: BTreeMap::new() }
    }

    /// From now on copies are finished, with the privileges of this thread and at normal priority.
    pub(crate) fn start(self) -> Self {
        let Self { questions, finished, thread, counts, samples } = self;
        let thread = match thread {
            Thread::Idle(asked, found, Some(spaces)) => {
                let counted = Arc::clone(&counts);
                Thread::At(std::thread::spawn(move || {
                    // SAFETY: sets one number of this thread, which may have inherited a raised priority.
                    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
                    finish_all(spaces, &asked, &found, &counted);
                }))
            }
            other => other,
        };
        Self { questions, finished, thread, counts, samples }
    }

    /// Takes a copy. Returns the unfinished record if too many wait.
    pub(crate) fn take(&mut self, copy: StackCopy) -> Option<Box<[u8]>> {
        self.counts.copied.fetch_add(1, Ordering::Relaxed);
        let sample = copy.is_sample().then(|| copy.stamp());
        match self.questions.try_send(Question::Copy(copy)) {
            Ok(()) => {
                if let Some(stamp) = sample {
                    *self.samples.entry(stamp).or_default() += 1;
                }
                None
            }
            Err(mpsc::TrySendError::Full(question) | mpsc::TrySendError::Disconnected(question)) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                question.unfinished()
            }
        }
    }

    /// Passes on what a process mapped; waits while there is no room, so that no rule of earlier code stays. To be
    /// dropped before [`Self::finish`].
    pub(crate) fn mapped(&self) -> impl Fn(&Made) + Send + 'static {
        // Nobody takes the question where no stack is unwound.
        let questions = match self.thread {
            Thread::Idle(_, _, None) => None,
            _ => Some(self.questions.clone()),
        };
        move |made| {
            if let Some(questions) = &questions {
                let _ = questions.send(Question::Mapped(made.clone()));
            }
        }
    }

    /// The records that were finished since the last call.
    pub(crate) fn finished(&mut self) -> Vec<Box<[u8]>> {
        let finished: Vec<_> = self.finished.try_iter().collect();
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

    /// The stamp of the earliest sample that is on its way, ns.
    pub(crate) fn oldest_sample(&self) -> Option<u64> {
        self.samples.first_key_value().map(|(stamp, _)| *stamp)
    }

    /// The number of copies, of those that were not finished, and the CPU time of the thread, ns.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let Counts { copied, refused, ns } = &*self.counts;
        [copied, refused, ns].map(|count| count.load(Ordering::Relaxed))
    }

    /// The remaining records, once all copies are finished.
    pub(crate) fn finish(&mut self) -> Vec<Box<[u8]>> {
        let (nowhere, _) = mpsc::sync_channel(0);
        self.questions = nowhere;
        let (_, nothing) = mpsc::channel();
        let rest = match std::mem::replace(&mut self.thread, Thread::Idle(nothing_asked(), closed(), None)) {
            Thread::At(thread) => {
                let rest = self.finished.iter().collect();
                // The thread does not panic; if it did, what it finished before is here.
                let _ = thread.join();
                rest
            }
            Thread::Idle(asked, ..) => asked.try_iter().filter_map(Question::unfinished).collect(),
        };
        self.finished = nothing;
        self.samples.clear();
        rest
    }
}

impl Question {
    /// The record without what the thread would have found.
    fn unfinished(self) -> Option<Box<[u8]>> {
        match self {
            Self::Copy(copy) => Some(copy.unfinished(clocks::now().ns())),
            Self::Mapped(_) => None,
        }
    }
}

/// Finishes copies until there will be no more.
fn finish_all(
    mut spaces: Spaces,
    asked: &Receiver<Question>,
    found: &SyncSender<Box<[u8]>>,
    counts: &Counts,
) {
    let mut pending = VecDeque::new();
    let mut youngest = false;
    loop {
        let some_are_silent = spaces.listen();
        if pending.is_empty() {
            let question = if some_are_silent {
                asked.recv_timeout(PATIENCE)
            } else {
                asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match question {
                Ok(question) => pending.extend(spaces.ask(question)),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        let more = MAX_WAITING.saturating_sub(pending.len());
        pending.extend(asked.try_iter().take(more).filter_map(|question| spaces.ask(question)));
        youngest = !youngest;
        let Some(copy) = next(&mut pending, youngest) else { continue };
        let finished = spaces.finish(&copy);
        counts.refused.fetch_add(finished.refused.into(), Ordering::Relaxed);
        if found.send(finished.record).is_err() {
            return;
        }
        let ns = clocks::read(libc::CLOCK_THREAD_CPUTIME_ID);
        counts.ns.store(ns, Ordering::Relaxed);
    }
}

fn nothing_asked() -> Receiver<Question> {
    mpsc::channel().1
}

fn closed() -> SyncSender<Box<[u8]>> {
    mpsc::sync_channel(0).0
}

fn stamp_of_sample(record: &[u8]) -> Option<u64> {
    let header = Header::read(record)?;
    (header.kind == Kind::Sample.number()).then_some(header.stamp)
}

impl Spaces {
    /// Takes note of what can be known at once. Returns the copy, if the question is one.
    fn ask(&mut self, question: Question) -> Option<StackCopy> {
        match question {
            Question::Copy(copy) => {
                // The process may end soon, and its mappings with it.
                self.look_at(&copy);
                Some(copy)
            }
            Question::Mapped(made) => {
                self.mapped(made);
                None
            }
        }
    }
}

/// Takes the next copy from `pending`: in turns that of the youngest process, since such processes may end soon, and
/// the one that waits longest.
fn next(pending: &mut VecDeque<StackCopy>, youngest: bool) -> Option<StackCopy> {
    let young = || (0..pending.len()).max_by_key(|&at| pending[at].tgid());
    let at = if youngest { young()? } else { 0 };
    pending.remove(at)
}

#[cfg(test)]
mod tests {
    use wakepath_event::EventKind;
    use wakepath_unwind::Registers;

    use super::*;
    use crate::stack_copy::tests::{decoded, of_this_process};
    use crate::unwind_rules::UnwindRules;

    const REGISTERS: Registers = Registers { ip: 0x1000, sp: 0x7000, bp: 0 };

    fn spaces() -> Option<Spaces> {
        Some(Spaces::new(UnwindRules::own().expect("memory")))
    }

    #[test]
    fn the_youngest_process_and_the_one_that_waits_longest_have_their_turns() {
        let copy = |sp| of_this_process(Registers { sp, ..REGISTERS }, 0, &[]);
        // All of one process: the last one is as young as the others.
        let mut pending: VecDeque<StackCopy> = [1, 2, 3].into_iter().map(copy).collect();
        let mut next = |youngest| next(&mut pending, youngest).map(|copy| copy.registers().sp);
        assert_eq!([next(false), next(true), next(false), next(true)], [Some(1), Some(3), Some(2), None]);
    }

    #[test]
    fn without_the_thread_and_where_too_many_wait_what_was_guessed_is_kept() {
        let copy = || of_this_process(REGISTERS, 0, &[0; 64]);
        let mut idle = Unwinder::new(None);
        assert!(idle.take(copy()).is_none());
        assert_eq!(idle.finish().len(), 1, "nothing is lost");
        let EventKind::StackLater(_, stack) = decoded(&idle.take(copy()).expect("it is returned")).1 else {
            panic!("a stack that was guessed");
        };
        assert_eq!(stack.user.len(), 1);
        let mut full = Unwinder::new(spaces());
        for _ in 0..MAX_WAITING {
            assert!(full.take(copy()).is_none());
        }
        assert!(full.take(copy()).is_some());
        assert_eq!(full.counts()[..2], [MAX_WAITING as u64 + 1, 1]);
        let mut full = full.start();
        assert_eq!(full.finish().len(), MAX_WAITING);
        // This process has another stack.
        assert_eq!(full.counts()[..2], [MAX_WAITING as u64 + 1, MAX_WAITING as u64 + 1]);
    }
}

//! Finds the processes whose threads name, in their memory, the span they work for (OpenTelemetry's thread-context
//! record, OTEP 4947), and shows the BPF programs its place: `bpf/thread_context.bpf.h`. A separate thread looks at
//! all processes at the start, and later at processes that map code or are forked.

mod changes;
mod open;
mod place;
mod published;
mod symbol;
mod words;

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wakepath_event::NameSpace;
use wakepath_process::{Process, processes};

use self::changes::Change;
pub(crate) use self::changes::Changes;
pub(crate) use self::open::OpenSpanWatch;
pub use self::open::OpenSpans;
use self::place::{Files, Found};
use self::published::Published;
pub(crate) use self::words::Words;
use crate::names::Name;
use crate::options::KeptAttributes;
use crate::unwinder::start_stack;

/// The interval at which new processes and libraries are looked for: until then their threads' contexts are not
/// known.
const INTERVAL: Duration = Duration::from_millis(20);
/// The longest time from a library's mapping until the loader has filled in its words' places.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between checks whether processes have ended.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The interval for another look at a process without a published context. It doubles, from the shortest to the
/// longest.
const LOOK_INTERVALS: std::ops::Range<Duration> = INTERVAL..Duration::from_secs(60);
/// The most processes reported as having unread contexts.
const MAX_FAILED: usize = 8;

/// A process with the word, but without a readable place for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadContexts {
    /// The process.
    pub tgid: u32,
    /// The process name.
    pub comm: Box<[u8]>,
    /// The reason, as a sentence without its end.
    pub reason: &'static str,
}

/// The thread's front.
pub(crate) struct Contexts {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Vec<UnreadContexts>>>,
}

impl Contexts {
    /// From now on looks at processes, with this thread's privileges; with `open`, also at ongoing spans. The
    /// processes' published names go to `said`, with the kept attributes' names.
    pub(crate) fn start(
        words: Words,
        changes: Changes,
        open: Option<OpenSpanWatch>,
        (said, kept): (Sender<Name>, KeptAttributes),
    ) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: sets one number of this thread, which may have inherited a raised priority.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
            Finder::new(words, said, kept).run(changes, open, &stopped)
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }

    /// No process is looked at any more. Returns the processes with unreadable contexts.
    pub(crate) fn finish(mut self) -> Vec<UnreadContexts> {
        self.stop = None;
        // The thread does not panic; if it did, there would be nothing to report.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

struct Finder {
    words: Words,
    files: Files,
    /// Processes whose words are in the table, each with its first stack's beginning.
    known: HashMap<u32, u64>,
    /// Each process's published context, or the next look for it.
    published: HashMap<u32, Look>,
    said: Sender<Name>,
    kept: KeptAttributes,
    /// Processes with the word in a library whose place the loader has not filled in yet, each with the beginning of
    /// its wait.
    waiting: HashMap<u32, Instant>,
    unread: Vec<UnreadContexts>,
}

/// The last look for a process's published context.
enum Look {
    /// The context was there.
    Found(Published),
    /// Nothing was there: the time of the next look, and the interval before it.
    Again(Instant, Duration),
}

impl Finder {
    fn new(words: Words, said: Sender<Name>, kept: KeptAttributes) -> Self {
        Self {
            words,
            files: Files::default(),
            known: HashMap::new(),
            published: HashMap::new(),
            said,
            kept,
            waiting: HashMap::new(),
            unread: Vec::new(),
        }
    }

    fn run(
        mut self,
        mut changes: Changes,
        mut open: Option<OpenSpanWatch>,
        stopped: &Receiver<()>,
    ) -> Vec<UnreadContexts> {
        for tgid in processes() {
            // A command that was just started does not wait for all other processes: it may end before they have been
            // looked at.
            changes.take(|change| self.take(change));
            self.look_for_services(false);
            self.look_at(tgid);
        }
        let mut swept = Instant::now();
        loop {
            changes.take(|change| self.take(change));
            let waiting: Vec<_> = self.waiting.keys().copied().collect();
            waiting.into_iter().for_each(|tgid| self.look_at(tgid));
            if let Some(open) = &mut open {
                open.look(&self.known);
            }
            let is_sweep = swept.elapsed() >= SWEEP_INTERVAL;
            if is_sweep {
                self.sweep();
                swept = Instant::now();
            }
            self.look_for_services(is_sweep);
            match stopped.recv_timeout(INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // The newest processes too.
        for look in self.published.values_mut() {
            if let Look::Again(at, _) = look {
                *at = Instant::now();
            }
        }
        self.look_for_services(true);
        self.unread
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Mapped(made) => {
                if self.files.has_symbol(made.mapping.tgid.0, &made.mapping, made.inode) {
                    self.words.note_load(made.mapping.tgid.0);
                    self.look_at(made.mapping.tgid.0);
                }
            }
            Change::Forked { parent, child } if self.known.contains_key(&parent) => self.look_at(child),
            Change::Forked { parent, child } => {
                if let Some(&since) = self.waiting.get(&parent) {
                    self.waiting.insert(child, since);
                }
            }
        }
    }

    fn look_at(&mut self, tgid: u32) {
        let found = self.files.find(tgid);
        match found {
            Found::NotYet => {
                let since = *self.waiting.entry(tgid).or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    self.give_up(tgid, "no code of it asks the loader where its words are");
                }
            }
            Found::Word(word) => {
                self.waiting.remove(&tgid);
                if self.words.set(tgid, word) {
                    // Another program publishes a context of its own.
                    if self.known.insert(tgid, word.start_stack) != Some(word.start_stack) {
                        self.forget_service(tgid);
                        self.published.insert(tgid, Look::Again(Instant::now(), LOOK_INTERVALS.start));
                    }
                } else {
                    self.give_up(tgid, "the table of such processes has no room");
                }
            }
            Found::Unreadable(reason) => self.give_up(tgid, reason),
            Found::None => {
                self.waiting.remove(&tgid);
            }
        }
    }

    fn give_up(&mut self, tgid: u32, reason: &'static str) {
        self.waiting.remove(&tgid);
        let is_new = self.unread.iter().all(|unread| (unread.tgid, unread.reason) != (tgid, reason));
        if is_new && self.unread.len() < MAX_FAILED {
            let comm = Process::open(tgid).and_then(|process| process.comm()).unwrap_or_default().into();
            self.unread.push(UnreadContexts { tgid, comm, reason });
        }
    }

    /// Makes room where processes ended, or run another program by now.
    fn sweep(&mut self) {
        let Self { known, words, waiting, .. } = self;
        let mut gone = Vec::new();
        known.retain(|&tgid, stack| {
            let is_there = start_stack(tgid) == Some(*stack);
            if !is_there {
                words.remove(tgid);
                gone.push(tgid);
            }
            is_there
        });
        waiting.retain(|&tgid, _| start_stack(tgid).is_some());
        gone.into_iter().for_each(|tgid| self.forget_service(tgid));
    }

    /// Looks for published contexts, where it is time; with `changed`, also whether known contexts have changed.
    fn look_for_services(&mut self, changed: bool) {
        let now = Instant::now();
        for (&tgid, look) in &mut self.published {
            let interval = match look {
                Look::Found(published) if changed && published.is_outdated(tgid) => LOOK_INTERVALS.start,
                Look::Again(at, interval) if *at <= now => (*interval * 2).min(LOOK_INTERVALS.end),
                _ => continue,
            };
            match Published::find(tgid, &self.kept) {
                Some(published) => {
                    let before = match look {
                        Look::Found(before) => Some(&*before),
                        Look::Again(..) => None,
                    };
                    for name in names(tgid, &published, before) {
                        // The session may have ended.
                        let _ = self.said.send(name);
                    }
                    self.words.set_keys(tgid, published.key_bits());
                    *look = Look::Found(published);
                }
                None => *look = Look::Again(now + interval, interval),
            }
        }
    }

    /// The process with this number has ended, or runs another program by now.
    fn forget_service(&mut self, tgid: u32) {
        if let Some(Look::Found(_)) = self.published.remove(&tgid) {
            for space in [NameSpace::Service, NameSpace::ServiceInstance] {
                // The session may have ended.
                let _ = self.said.send((space, tgid.into(), [].into()));
            }
        }
    }
}

/// The names in a published context, without attributes from the context before.
fn names(tgid: u32, now: &Published, before: Option<&Published>) -> Vec<Name> {
    let of_process = |space, name: &str| (space, tgid.into(), name.as_bytes().into());
    let mut names = vec![
        of_process(NameSpace::Service, &now.service),
        of_process(NameSpace::ServiceInstance, &now.instance),
    ];
    let is_new = |key: &&(u8, Box<str>)| before.is_none_or(|before| !before.keys.contains(key));
    names.extend(now.keys.iter().filter(is_new).map(|(key, name)| {
        (NameSpace::ThreadAttribute, u64::from(tgid) << 8 | u64::from(*key), name.as_bytes().into())
    }));
    names
}

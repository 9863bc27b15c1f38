//! Finishes the stacks that the BPF programs could not unwind, in a thread of its own: it reads files, and the thread
//! that drains the rings must not wait for a disk.

use std::collections::{BTreeMap, HashMap, VecDeque, btree_map};
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use wakepath_kernel_records::{Header, Kind};
use wakepath_unwind::{Module, Place, Rule, walk};

use crate::clocks;
use crate::mappings::{Inode, open_mapped, parse};
use crate::stack_copy::StackCopy;
use crate::unwind_rules::UnwindRules;

/// Most copies that wait, of some 9 KiB each.
const MAX_WAITING: usize = 1024;
/// How often the mappings of a process are read at most: generated code is in no file.
const MAX_READS: u32 = 20;
/// Most processes that are remembered.
const MAX_PROCESSES: usize = 4096;
/// Most bytes of tables that are kept.
const MAX_TABLE_BYTES: usize = 256 << 20;

/// The front of the thread.
pub(crate) struct Unwinder {
    copies: SyncSender<StackCopy>,
    finished: Receiver<Box<[u8]>>,
    thread: Thread,
    counts: Arc<Counts>,
    /// The stamps of samples that are on their way, ns, each with their number.
    samples: BTreeMap<u64, u32>,
}

enum Thread {
    Idle(Receiver<StackCopy>, SyncSender<Box<[u8]>>, Option<UnwindRules>),
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
    /// Without rules there are no copies either.
    pub(crate) fn new(rules: Option<UnwindRules>) -> Self {
        let (copies, asked) = mpsc::sync_channel(MAX_WAITING);
        let (found, finished) = mpsc::sync_channel(2 * MAX_WAITING);
        let thread = Thread::Idle(asked, found, rules);
        Self { copies, finished, thread, counts: Arc::default(), samples: BTreeMap::new() }
    }

    /// From now on copies are finished, with the privileges of this thread and at normal priority.
    pub(crate) fn start(self) -> Self {
        let Self { copies, finished, thread, counts, samples } = self;
        let thread = match thread {
            Thread::Idle(asked, found, Some(rules)) => {
                let counted = Arc::clone(&counts);
                Thread::At(std::thread::spawn(move || {
                    // SAFETY: sets one number of this thread, which may have inherited a raised priority.
                    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
                    let mut spaces = Spaces::new(rules);
                    let mut pending = VecDeque::new();
                    let mut youngest = false;
                    loop {
                        if pending.is_empty() {
                            let Ok(copy) = asked.recv() else { return };
                            pending.push_back(copy);
                        }
                        let known = pending.len();
                        pending.extend(asked.try_iter().take(MAX_WAITING.saturating_sub(known)));
                        // A process may end soon, and its mappings with it.
                        pending.iter().skip(known.saturating_sub(1)).for_each(|copy| spaces.look_at(copy));
                        youngest = !youngest;
                        let Some(copy) = next(&mut pending, youngest) else { continue };
                        if found.send(spaces.finish(&copy, &counted)).is_err() {
                            return;
                        }
                        let ns = clocks::read(libc::CLOCK_THREAD_CPUTIME_ID);
                        counted.ns.store(ns, Ordering::Relaxed);
                    }
                }))
            }
            other => other,
        };
        Self { copies, finished, thread, counts, samples }
    }

    /// Takes a copy. Returns the unfinished record if too many wait.
    pub(crate) fn take(&mut self, copy: StackCopy) -> Option<Box<[u8]>> {
        self.counts.copied.fetch_add(1, Ordering::Relaxed);
        let sample = copy.is_sample().then(|| copy.stamp());
        match self.copies.try_send(copy) {
            Ok(()) => {
                if let Some(stamp) = sample {
                    *self.samples.entry(stamp).or_default() += 1;
                }
                None
            }
            Err(mpsc::TrySendError::Full(copy) | mpsc::TrySendError::Disconnected(copy)) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                Some(copy.unfinished(clocks::now().ns()))
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
        self.copies = nowhere;
        let (_, nothing) = mpsc::channel();
        let rest = match std::mem::replace(&mut self.thread, Thread::Idle(nothing_asked(), closed(), None)) {
            Thread::At(thread) => {
                let rest = self.finished.iter().collect();
                // The thread does not panic; if it did, what it finished before is here.
                let _ = thread.join();
                rest
            }
            Thread::Idle(asked, ..) => {
                asked.try_iter().map(|copy| copy.unfinished(clocks::now().ns())).collect()
            }
        };
        self.finished = nothing;
        self.samples.clear();
        rest
    }
}

fn nothing_asked() -> Receiver<StackCopy> {
    mpsc::channel().1
}

fn closed() -> SyncSender<Box<[u8]>> {
    mpsc::sync_channel(0).0
}

fn stamp_of_sample(record: &[u8]) -> Option<u64> {
    let header = Header::read(record)?;
    (header.kind == Kind::Sample.number()).then_some(header.stamp)
}

/// Takes the next copy from `pending`: in turns that of the youngest process, since such processes may end soon, and
/// the one that waits longest.
fn next(pending: &mut VecDeque<StackCopy>, youngest: bool) -> Option<StackCopy> {
    let young = || (0..pending.len()).max_by_key(|&at| pending[at].tgid());
    let at = if youngest { young()? } else { 0 };
    pending.remove(at)
}

/// The address spaces of processes, and the files that are mapped there.
struct Spaces {
    rules: UnwindRules,
    spaces: HashMap<u64, Space>,
    modules: HashMap<Inode, Rc<Module>>,
    /// How many stacks were finished.
    finished: u64,
}

#[derive(Default)]
struct Space {
    mapped: Vec<Mapped>,
    reads: u32,
    /// It was gone, or ran another program, whenever it was looked for.
    gone: bool,
    /// A stack was walked with it.
    used: bool,
}

struct Mapped {
    from: u64,
    to: u64,
    offset: u64,
    /// None if the file could not be read.
    module: Option<Rc<Module>>,
}

impl Spaces {
    fn new(rules: UnwindRules) -> Self {
        Self { rules, spaces: HashMap::new(), modules: HashMap::new(), finished: 0 }
    }

    /// Reads the mappings of the process of a stack, if it is new.
    fn look_at(&mut self, copy: &StackCopy) {
        // A program that is just being started may look like another one: it is looked at again.
        let known = self.spaces.remove(&copy.space());
        let mut space = known.unwrap_or(Space { gone: true, ..Space::default() });
        if space.gone && space.reads < MAX_READS {
            space.gone = !self.read(&mut space, copy);
        }
        self.spaces.insert(copy.space(), space);
    }

    /// Forgets what is too much.
    fn forget(&mut self) {
        self.finished += 1;
        let bytes = || self.modules.values().map(|module| module.bytes()).sum::<usize>();
        if self.spaces.len() > MAX_PROCESSES || self.finished.is_multiple_of(64) && bytes() > MAX_TABLE_BYTES
        {
            self.spaces.clear();
            self.modules.clear();
        }
    }

    fn finish(&mut self, copy: &StackCopy, counts: &Counts) -> Box<[u8]> {
        self.forget();
        self.look_at(copy);
        let id = copy.space();
        let mut space = self.spaces.remove(&id).unwrap_or_default();
        if space.gone {
            self.spaces.insert(id, space);
            counts.refused.fetch_add(1, Ordering::Relaxed);
            return copy.unfinished(clocks::now().ns());
        }
        let mut fresh = !space.used;
        space.used = true;
        let registers = copy.registers();
        let unwound =
            walk(registers, copy.stands(), copy.certain(), copy.memory(), copy.room(), |address, stands| {
                if let Some(known) = self.rules.get(id, address, stands) {
                    return known;
                }
                // A library may have been loaded since, so the mappings are read again, once for each stack.
                if space.find(address).is_none() && !fresh && space.reads < MAX_READS {
                    fresh = true;
                    self.read(&mut space, copy);
                }
                let (place, library) = space.place(address, stands);
                self.rules.set(id, address, stands, place, library);
                place
            });
        self.spaces.insert(id, space);
        copy.finished(&unwound, clocks::now().ns())
    }

    /// Reads the mappings of the process; false if it is gone, or runs another program by now.
    fn read(&mut self, space: &mut Space, copy: &StackCopy) -> bool {
        space.reads += 1;
        let tgid = copy.tgid();
        let Ok(maps) = fs::read(format!("/proc/{tgid}/maps")) else { return false };
        let mut mapped = Vec::new();
        for line in maps.split(|&b| b == b'\n') {
            let Some((mut mapping, inode)) = parse(line) else { continue };
            mapping.tgid = wakepath_event::Tid(tgid);
            let module = match self.modules.get(&inode) {
                Some(known) => Some(Rc::clone(known)),
                None => open_mapped(tgid, &mapping, inode).map(|file| {
                    let module = Rc::new(Module::new(file, is_c_library(&mapping.path)));
                    self.modules.insert(inode, Rc::clone(&module));
                    module
                }),
            };
            mapped.push(Mapped { from: mapping.from, to: mapping.to, offset: mapping.offset, module });
        }
        // Only after the mappings: then they are those of this program.
        if start_stack(tgid).is_none_or(|now| now != copy.start_stack()) || mapped.is_empty() {
            return false;
        }
        space.mapped = mapped;
        true
    }
}

impl Space {
    fn find(&self, address: u64) -> Option<&Mapped> {
        self.mapped.iter().find(|mapped| (mapped.from..mapped.to).contains(&address))
    }

    /// The place of an address, and whether it is in the C library.
    fn place(&self, address: u64, stands: bool) -> (Place, bool) {
        let Some((mapped, module)) =
            self.find(address).and_then(|mapped| Some((mapped, mapped.module.as_ref()?)))
        else {
            return (Place { rule: Rule::NoTable, called: stands }, false);
        };
        (module.place(address - mapped.from + mapped.offset, stands), module.library)
    }
}

/// Where the first stack of a process begins: the 28th field of its `stat`.
fn start_stack(tgid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{tgid}/stat")).ok()?;
    // The name may hold anything.
    let behind = stat.iter().rposition(|&b| b == b')')?;
    let fields = std::str::from_utf8(&stat[behind + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(25)?.parse().ok()
}

/// Whether a file is the C library, or loads it.
fn is_c_library(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] = [b"libc.so", b"libc-", b"libpthread", b"ld-linux", b"ld-musl"];
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    NAMES.iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use wakepath_event::{EventKind, Stack};
    use wakepath_unwind::Registers;

    use super::*;
    use crate::stack_copy::tests::{decoded, of_this_process};

    /// The registers here, and the stack above them.
    #[inline(never)]
    fn here() -> (Registers, Vec<u8>) {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: reads registers alone. The stack of a test's thread is megabytes long, and this many bytes of it
        // are in use.
        let memory = unsafe {
            std::arch::asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) ip, out(reg) sp, out(reg) bp);
            std::slice::from_raw_parts(sp as *const u8, 1024).to_vec()
        };
        (Registers { ip, sp, bp }, memory)
    }

    fn stack(record: &[u8]) -> Stack {
        match decoded(record).1 {
            EventKind::StackLater(_, stack) => stack,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stack_of_a_process_that_lives_is_proved_and_its_rules_are_there_for_the_next() {
        let mut spaces = Spaces::new(UnwindRules::own().expect("memory"));
        let counts = Counts::default();
        let (registers, memory) = here();
        let start = start_stack(std::process::id()).expect("this process");
        let copy = of_this_process(registers, start, &memory);
        let found = stack(&spaces.finish(&copy, &counts));
        assert!(found.user.len() >= 2 && usize::from(found.proved) == found.user.len(), "{found:x?}");
        let own =
            a_stack_of_a_process_that_lives_is_proved_and_its_rules_are_there_for_the_next as fn() as u64;
        let caller = found.user[1];
        assert!(caller > own && caller - own < 0x4000, "{caller:x} is in this test, which begins at {own:x}");
        assert!(spaces.rules.get(copy.space(), registers.ip, true).is_some());
        assert!(spaces.rules.get(copy.space(), caller, false).is_some());
        assert!(spaces.rules.get(copy.space(), caller, true).is_none());
        // The process is not read again for addresses that are known.
        assert_eq!(stack(&spaces.finish(&copy, &counts)), found);
        assert_eq!(spaces.spaces[&copy.space()].reads, 1, "all was known");
        assert_eq!(counts.refused.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_process_that_runs_another_program_by_now_is_not_read_for_the_old_one() {
        let mut spaces = Spaces::new(UnwindRules::own().expect("memory"));
        let counts = Counts::default();
        let (registers, memory) = here();
        let start = start_stack(std::process::id()).expect("this process");
        let copy = of_this_process(registers, start + 16, &memory);
        for refused in 1..3 {
            assert_eq!(stack(&spaces.finish(&copy, &counts)).user.len(), 1);
            assert_eq!(counts.refused.load(Ordering::Relaxed), refused);
        }
        assert!(spaces.rules.get(copy.space(), registers.ip, true).is_none());
    }

    #[test]
    fn the_mappings_of_a_process_are_read_again_for_code_of_no_file_but_not_forever() {
        let mut spaces = Spaces::new(UnwindRules::own().expect("memory"));
        let start = start_stack(std::process::id()).expect("this process");
        for n in 0..2 * u64::from(MAX_READS) {
            let registers = Registers { ip: 0x10_0000 + n * 64, sp: 0x7000, bp: 0 };
            let found =
                stack(&spaces.finish(&of_this_process(registers, start, &[0; 64]), &Counts::default()));
            assert_eq!((found.user.len(), found.proved), (1, 1));
        }
        assert_eq!(spaces.spaces[&77].reads, MAX_READS);
    }

    #[test]
    fn the_youngest_process_and_the_one_that_waits_longest_have_their_turns() {
        let (registers, _) = here();
        let copy = |sp| of_this_process(Registers { sp, ..registers }, 0, &[]);
        // All of one process: the last one is as young as the others.
        let mut pending: VecDeque<StackCopy> = [1, 2, 3].into_iter().map(copy).collect();
        let mut next = |youngest| next(&mut pending, youngest).map(|copy| copy.registers().sp);
        assert_eq!([next(false), next(true), next(false), next(true)], [Some(1), Some(3), Some(2), None]);
    }

    #[test]
    fn without_the_thread_and_where_too_many_wait_what_was_guessed_is_kept() {
        let (registers, memory) = here();
        let copy = || of_this_process(registers, 0, &memory);
        let mut idle = Unwinder::new(None);
        assert!(idle.take(copy()).is_none());
        assert_eq!(idle.finish().len(), 1, "nothing is lost");
        assert_eq!(stack(&idle.take(copy()).expect("it is returned")).user.len(), 1);
        let mut full = Unwinder::new(Some(UnwindRules::own().expect("memory")));
        for _ in 0..MAX_WAITING {
            assert!(full.take(copy()).is_none());
        }
        assert!(full.take(copy()).is_some());
        assert_eq!(full.counts()[..2], [MAX_WAITING as u64 + 1, 1]);
        let mut full = full.start();
        assert_eq!(full.finish().len(), MAX_WAITING);
    }
}

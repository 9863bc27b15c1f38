//! Go programs that start while a session records, or during its preparation.
//!
//! An exec record leads to the file. A separate thread looks at it, since the draining thread must not wait for a
//! disk, and attaches the probes. The kernel then has them in all processes that run the file, also in later ones. So
//! a file's first process runs unseen for some 10 to 100 ms: its goroutines are unknown until each takes its first
//! step after that, and a span that began before belongs to no goroutine.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use wakepath_clock::{Local, Stamp};
use wakepath_functions::is_go_program;
use wakepath_kernel_records::{Header, Kind};
use wakepath_process::{Process, processes};

use super::{
    FileId, GoFile, GoProbes, GoRefused, IsAsked, Later, MAX_PROGRAMS, Seen, by_descriptor, probed_program,
    reasons,
};
use crate::clocks;
use crate::names::Name;
use crate::options::Goroutines;

/// The most files remembered; with more, files are looked at again.
const MAX_SEEN: usize = 65_536;
/// The most Go programs named.
const MAX_NAMED: usize = 256;

/// New Go programs that started while a session recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GoStarted {
    /// The files of recorded programs, each with the time from its start to its probes: earlier goroutine steps are
    /// not known.
    pub probed: Vec<(PathBuf, Duration)>,
    /// Programs that should be recorded and cannot be.
    pub refused: Vec<GoRefused>,
    /// The files of programs left out, since the question is about others.
    pub left_alone: Vec<PathBuf>,
    /// The files of programs whose process ended, or executed another program, before there were probes.
    pub ended: Vec<PathBuf>,
}

/// Field offsets in `struct wp_thread` and `struct wp_exec`, bytes.
const TID: usize = 16;
const TGID: usize = 20;
const PARENT_TGID: usize = 24;
const EXEC_TGID: usize = 20;
const EXEC_PATH: usize = 40;

/// A change to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Forked { parent: u32, child: u32 },
    Ran { tgid: u32, at: Stamp<Local>, path: PathBuf },
}

impl Change {
    /// A record's change; `None` for other records, and for a new thread in a process.
    fn of(record: &[u8]) -> Option<Self> {
        let header = Header::read(record)?;
        let word = |at: usize| Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?));
        match Kind::from_number(header.kind)? {
            Kind::Fork => {
                let (tid, child, parent) = (word(TID)?, word(TGID)?, word(PARENT_TGID)?);
                (tid == child).then_some(Self::Forked { parent, child })
            }
            Kind::Exec => {
                let path = record.get(EXEC_PATH..)?.split(|byte| *byte == 0).next()?;
                let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
                Some(Self::Ran { tgid: word(EXEC_TGID)?, at: Stamp::from_ns(header.stamp), path })
            }
            _ => None,
        }
    }
}

/// The thread's outcome.
#[derive(Default)]
pub(crate) struct Started {
    /// The Go programs.
    pub(crate) programs: GoStarted,
    /// Their probes, which stay until these are dropped.
    pub(crate) links: Vec<OwnedFd>,
}

/// The thread's front; without a thread where no goroutines are recorded.
#[derive(Default)]
pub(crate) struct GoWatch {
    changes: Option<Sender<Change>>,
    named: Option<Receiver<Vec<Name>>>,
    thread: Option<JoinHandle<Started>>,
    /// Waiting changes are skipped.
    is_over: Arc<AtomicBool>,
}

impl GoWatch {
    /// From now on programs are looked at, with this thread's rights; with `probes`, programs in question get them.
    /// `command` is the command's process number, `count` the number of programs with probes.
    pub(crate) fn start(
        later: Option<Later>,
        probes: Option<GoProbes>,
        command: Option<u32>,
        count: usize,
    ) -> Self {
        let Some(later) = later else { return Self::default() };
        let (changes, changed) = mpsc::channel();
        let (name, named) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            // SAFETY: sets one number of this thread, which may have inherited a raised priority.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
            let since = later.since;
            let mut watcher = Watcher::new(later, probes, command, count);
            for tgid in processes() {
                // The session may have ended.
                let _ = name.send(watcher.looks_at(tgid, since).unwrap_or_default());
            }
            for change in changed.iter().take_while(|_| !over.load(Ordering::Relaxed)) {
                if let Some(names) = watcher.take(change) {
                    // The session may have ended.
                    let _ = name.send(names);
                }
            }
            Started { programs: watcher.programs, links: watcher.links }
        });
        Self { changes: Some(changes), named: Some(named), thread: Some(thread), is_over }
    }

    /// Passes a record on, if it is a process's fork or exec.
    pub(crate) fn see(&self, record: &[u8]) {
        if let Some(changes) = &self.changes
            && let Some(change) = Change::of(record)
        {
            // The thread does not end before this value is dropped.
            let _ = changes.send(change);
        }
    }

    /// The newly known names of park reasons.
    pub(crate) fn named(&self) -> Vec<Name> {
        self.named.iter().flat_map(Receiver::try_iter).flatten().collect()
    }

    /// From now on no further program is looked at. Returns whether the last look is over.
    pub(crate) fn is_over(&mut self) -> bool {
        self.is_over.store(true, Ordering::Relaxed);
        self.changes = None;
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the last look is over. Call [`Self::named`] once more.
    pub(crate) fn finish(&mut self) -> Started {
        self.is_over();
        // The thread does not panic; if it did, there would be nothing to report.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

struct Watcher {
    probes: Option<GoProbes>,
    goroutines: Goroutines,
    is_asked: Option<IsAsked>,
    /// The processes in question, and all that they start.
    asked: HashSet<u32>,
    seen: HashMap<FileId, Seen>,
    /// The next program's number.
    next: u32,
    programs: GoStarted,
    links: Vec<OwnedFd>,
}

impl Watcher {
    fn new(later: Later, probes: Option<GoProbes>, command: Option<u32>, count: usize) -> Self {
        let Later { goroutines, of, is_asked, seen, .. } = later;
        let asked = of.into_iter().chain(command).collect();
        let (programs, links) = (GoStarted::default(), Vec::new());
        Self { probes, goroutines, is_asked, asked, seen, next: count as u32, programs, links }
    }

    /// Takes a change. Returns the park reasons' names for a new program.
    fn take(&mut self, change: Change) -> Option<Vec<Name>> {
        match change {
            Change::Forked { parent, child } => {
                // The number may have belonged to an earlier process.
                match self.asked.contains(&parent) {
                    true => self.asked.insert(child),
                    false => self.asked.remove(&child),
                };
                None
            }
            Change::Ran { tgid, at, path } => {
                let names = self.looks_at(tgid, at);
                self.ran(&path, self.is_asked(tgid));
                names
            }
        }
    }

    fn is_asked(&self, tgid: u32) -> bool {
        let is_further = || self.is_asked.as_ref().is_some_and(|is_asked| is_asked(tgid));
        self.goroutines.is_for_all() || self.asked.contains(&tgid) || is_further()
    }

    /// Looks at a process's program, which it has run since `at` or later.
    fn looks_at(&mut self, tgid: u32, at: Stamp<Local>) -> Option<Vec<Name>> {
        let file = Process::open(tgid).and_then(|process| process.exe()).ok()?;
        // The process may have ended already, and its link with it; our descriptor's link stays.
        let path = by_descriptor(&file).read_link().ok()?;
        self.runs(Named::new(path, file)?, self.is_asked(tgid), at)
    }

    /// A process runs a file since `at`.
    fn runs(&mut self, named: Named, is_asked: bool, at: Stamp<Local>) -> Option<Vec<Name>> {
        let Named { path, file, id } = named;
        match self.seen.get(&id) {
            Some(Seen::Settled) => return None,
            Some(Seen::LeftAlone) if !is_asked || self.probes.is_none() => return None,
            _ => {}
        }
        let by_descriptor = by_descriptor(&file);
        if !is_go_program(&by_descriptor) {
            self.note(id, Seen::Settled);
            return None;
        }
        let Some(probes) = self.probes.as_ref().filter(|_| is_asked) else {
            self.leave_alone(path, id);
            return None;
        };
        self.programs.left_alone.retain(|other| *other != path);
        let number = self.next;
        let found = match probed_program(&by_descriptor, self.goroutines) {
            Ok(Some(Ok(_))) if number as usize >= MAX_PROGRAMS => {
                Err(String::from("too many Go programs run"))
            }
            Ok(Some(Ok(_))) if !probes.need_no_rights() => Err(String::from(
                "it started meanwhile, and before Linux 6.6 further probes need rights that were dropped",
            )),
            Ok(Some(Ok(program))) => {
                let go = GoFile { path: path.clone(), file, program };
                match probes.attach(number, &go) {
                    Ok(links) => Ok((links, go.program.reasons)),
                    Err(error) => Err(error.to_string()),
                }
            }
            Ok(Some(Err(fault))) => Err(fault.to_string()),
            Ok(None) => {
                self.note(id, Seen::Settled);
                return None;
            }
            Err(error) => Err(error.to_string()),
        };
        self.note(id, Seen::Settled);
        match found {
            Ok((links, names)) => {
                self.links.extend(links);
                self.next += 1;
                let after = Duration::from_nanos(clocks::now().since(at));
                name(&mut self.programs.probed, (path, after));
                Some(reasons(number, names).collect())
            }
            Err(why) => {
                name(&mut self.programs.refused, GoRefused { path, why });
                None
            }
        }
    }

    /// A process ran the file with this path, and may run another by now.
    fn ran(&mut self, path: &Path, is_asked: bool) {
        // The directory for a relative path is not known.
        let Some(named) = path.is_absolute().then(|| Named::open(path)).flatten() else { return };
        if !self.seen.contains_key(&named.id) {
            if is_go_program(&by_descriptor(&named.file)) {
                match is_asked {
                    // The program may run again: then it is probed.
                    true => name(&mut self.programs.ended, named.path),
                    false => self.leave_alone(named.path, named.id),
                }
            } else {
                self.note(named.id, Seen::Settled);
            }
        }
    }

    fn leave_alone(&mut self, path: PathBuf, id: FileId) {
        name(&mut self.programs.left_alone, path);
        self.note(id, Seen::LeftAlone);
    }

    fn note(&mut self, id: FileId, seen: Seen) {
        if self.seen.len() >= MAX_SEEN {
            self.seen.clear();
        }
        self.seen.insert(id, seen);
    }
}

/// An open program file.
struct Named {
    path: PathBuf,
    file: File,
    id: FileId,
}

impl Named {
    /// `None` where the file is gone, is not regular, or may not be read.
    fn open(path: &Path) -> Option<Self> {
        Self::new(path.to_owned(), File::open(path).ok()?)
    }

    fn new(path: PathBuf, file: File) -> Option<Self> {
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { path, file, id: (metadata.dev(), metadata.ino()) })
    }
}

fn name<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if list.len() < MAX_NAMED && !list.contains(&one) {
        list.push(one);
    }
}

#[cfg(test)]
mod tests {
    use wakepath_kernel_records::layout::Layout;

    use super::*;

    fn watcher(all: bool, of: &[u32], is_asked: Option<IsAsked>) -> Watcher {
        let (of, since, seen) = (of.to_vec(), clocks::now(), HashMap::new());
        let goroutines = if all { Goroutines::All } else { Goroutines::Asked };
        let later = Later { goroutines, of_command: false, of, is_asked, since, seen };
        Watcher::new(later, None, Some(7), 0)
    }

    fn forked(parent: u32, child: u32) -> Change {
        Change::Forked { parent, child }
    }

    #[test]
    fn programs_that_the_command_or_a_target_starts_are_asked_about_and_a_number_that_comes_again_is_not() {
        let mut watcher = watcher(false, &[20], None);
        for change in [forked(7, 8), forked(8, 9), forked(20, 21), forked(30, 31)] {
            watcher.take(change);
        }
        let asked =
            |watcher: &Watcher| (0..40).filter(|tgid| watcher.asked.contains(tgid)).collect::<Vec<_>>();
        assert_eq!(asked(&watcher), [7, 8, 9, 20, 21]);
        watcher.take(forked(30, 8));
        assert_eq!(asked(&watcher), [7, 9, 20, 21]);
    }

    #[test]
    fn a_record_of_a_new_process_or_a_new_program_is_a_change_and_that_of_a_new_thread_is_none() {
        let place = |kind, field: &str| Layout::of(kind).field(field).expect("a field").offset;
        let record = |kind, words: &[(&str, u32)]| {
            let mut record = vec![0; Layout::of(kind).bytes];
            record[..8].copy_from_slice(&500_u64.to_le_bytes());
            record[8] = kind.number();
            for (field, word) in words {
                record[place(kind, field)..][..4].copy_from_slice(&word.to_le_bytes());
            }
            record
        };
        let born = |tid| record(Kind::Fork, &[("thread_tid", tid), ("tgid", 8), ("parent_tgid", 7)]);
        assert_eq!(Change::of(&born(8)), Some(forked(7, 8)));
        assert_eq!(Change::of(&born(9)), None);
        let mut ran = record(Kind::Exec, &[("old_tid", 5), ("tgid", 8)]);
        ran[place(Kind::Exec, "path")..][..7].copy_from_slice(b"/bin/go");
        let expected = Change::Ran { tgid: 8, at: Stamp::from_ns(500), path: PathBuf::from("/bin/go") };
        assert_eq!(Change::of(&ran), Some(expected));
        for cut in 0..ran.len() {
            // A cut path is another path.
            let _ = Change::of(&ran[..cut]);
        }
        assert_eq!(Change::of(&record(Kind::Exit, &[("tgid", 8)])), None);
    }

    #[test]
    fn a_program_that_go_did_not_make_is_looked_at_once_and_named_nowhere() {
        let mut watcher = watcher(true, &[], None);
        let own = std::env::current_exe().expect("its file");
        let tgid = std::process::id();
        // The directory for a relative path is not known: the file is found by the process.
        for path in [PathBuf::from("a/relative/one"), own.clone()] {
            watcher.take(Change::Ran { tgid, at: clocks::now(), path });
            assert_eq!(watcher.seen.values().collect::<Vec<_>>(), [&Seen::Settled]);
        }
        // The cost of other languages' programs.
        let cost = |watcher: &mut Watcher, is_new: bool| {
            let began = clocks::read(libc::CLOCK_THREAD_CPUTIME_ID);
            for _ in 0..1000 {
                if is_new {
                    watcher.seen.clear();
                }
                watcher.take(Change::Ran { tgid, at: clocks::now(), path: own.clone() });
            }
            (clocks::read(libc::CLOCK_THREAD_CPUTIME_ID) - began) / 1000
        };
        let [again, new] = [false, true].map(|is_new| cost(&mut watcher, is_new));
        println!(
            "a program of a file that was looked at costs {again} ns of CPU time, one of a new file {new} ns"
        );
        // A process that has ended.
        watcher.take(Change::Ran {
            tgid: u32::MAX,
            at: clocks::now(),
            path: PathBuf::from("/there/is/none"),
        });
        assert_eq!(watcher.programs, GoStarted::default());
    }
}

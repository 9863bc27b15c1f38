//! The files that processes have mapped as code, read while a process lives, so that sampled addresses keep their
//! meaning after its end.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use wakepath_event::{Mapping, Tid};
use wakepath_process::Process;

use crate::mapped_code::{Inode, Made, MappedCode};
use crate::raw_records::{goroutines_function, sampled_address};

/// A mapped program file that this process may open through its mapping alone: its path leads through another user's
/// directory, or belongs to a container.
#[derive(Debug)]
pub struct MappedFile {
    /// The path, as the mapping has it.
    pub path: Box<[u8]>,
    /// The file's build id.
    pub build_id: Box<[u8]>,
    /// The file, opened for reading.
    pub file: fs::File,
}

/// The most files kept open.
const MAX_KEPT_FILES: usize = 256;

/// The most goroutine functions remembered; with more, some are asked for again.
const MAX_FUNCTIONS: usize = 4096;

/// Reads mappings in a separate thread: a build id is read from a disk, which may be slow, and the draining thread
/// must not wait for it.
pub(crate) struct Mappings {
    questions: Sender<(u32, u64)>,
    answers: Receiver<Mapping>,
    reader: Reader,
    /// The goroutine functions asked for so far.
    functions: HashSet<(u32, u64)>,
}

enum Reader {
    Idle(Receiver<(u32, u64)>, Sender<Mapping>),
    At(JoinHandle<Vec<MappedFile>>),
}

impl Mappings {
    pub(crate) fn new() -> Self {
        let (questions, asked) = mpsc::channel();
        let (found, answers) = mpsc::channel();
        Self { questions, answers, reader: Reader::Idle(asked, found), functions: HashSet::new() }
    }

    /// From now on questions are answered, with this thread's privileges and at normal priority. `code` has the
    /// mappings of processes that are gone by then; each of its mappings is passed on to `see`.
    pub(crate) fn start(self, code: Option<MappedCode>, see: impl Fn(&Made) + Send + 'static) -> Self {
        let Self { questions, answers, reader, functions } = self;
        let reader = match reader {
            Reader::Idle(asked, found) => Reader::At(std::thread::spawn(move || {
                // SAFETY: sets one number of this thread, which may have inherited a raised priority.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
                let mut known = Mapped { code, ..Mapped::default() };
                let mut pending = Pending::default();
                while let Some((tgid, address)) = pending.next(&asked, || known.take_code(&see)) {
                    if known.sampled(tgid, address).into_iter().any(|mapping| found.send(mapping).is_err()) {
                        break;
                    }
                }
                known.build_ids.kept
            })),
            started => started,
        };
        Self { questions, answers, reader, functions }
    }

    /// Asks for the mappings of a record's addresses: a sample's, and the function in which a goroutine began.
    pub(crate) fn see(&mut self, record: &[u8]) {
        if let Some((tgid, address)) = sampled_address(record) {
            self.sampled(tgid, address);
        }
        if let Some((tgid, address)) = goroutines_function(record) {
            self.begins_goroutines(tgid, address);
        }
    }

    /// Asks for the mapping of process `tgid` at `address`, which will be among the answers.
    pub(crate) fn sampled(&self, tgid: u32, address: u64) {
        // Without a reader mappings are unknown, and so are the symbols.
        let _ = self.questions.send((tgid, address));
    }

    /// Asks for the mapping of the function at `address` in which goroutines of process `tgid` begin. Each goroutine
    /// step has it, so a function is asked for once.
    fn begins_goroutines(&mut self, tgid: u32, address: u64) {
        if self.functions.len() >= MAX_FUNCTIONS {
            self.functions.clear();
        }
        if self.functions.insert((tgid, address)) {
            self.sampled(tgid, address);
        }
    }

    /// The mappings found since the last call.
    pub(crate) fn found(&self) -> Vec<Mapping> {
        self.answers.try_iter().collect()
    }

    /// The remaining mappings, once all questions are answered; and the files that only their mappings led to.
    pub(crate) fn finish(self) -> (Vec<Mapping>, Vec<MappedFile>) {
        let Self { questions, answers, reader, .. } = self;
        drop(questions);
        if let Reader::At(thread) = reader {
            let rest = answers.iter().collect();
            // The thread does not panic; if it did, the mappings that it found before would be here.
            return (rest, thread.join().unwrap_or_default());
        }
        (Vec::new(), Vec::new())
    }
}

/// Questions without an answer yet. Those about the youngest processes go first: such processes may end soon, and
/// with stacks at all switches there are questions about every process.
#[derive(Default)]
struct Pending(BTreeMap<u32, VecDeque<u64>>);

impl Pending {
    /// The next question; blocks while there is none, and returns `None` once there will be no more. Calls `meanwhile`
    /// now and then.
    fn next(&mut self, asked: &Receiver<(u32, u64)>, mut meanwhile: impl FnMut()) -> Option<(u32, u64)> {
        const PATIENCE: Duration = Duration::from_millis(100);
        let waited = loop {
            meanwhile();
            if !self.0.is_empty() {
                break None;
            }
            match asked.recv_timeout(PATIENCE) {
                Ok(question) => break Some(question),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        };
        for (tgid, address) in waited.into_iter().chain(asked.try_iter()) {
            self.0.entry(tgid).or_default().push_back(address);
        }
        let mut youngest = self.0.last_entry()?;
        let question = (*youngest.key(), youngest.get_mut().pop_front()?);
        if youngest.get().is_empty() {
            youngest.remove();
        }
        Some(question)
    }
}

/// The sampled processes' mappings: read once, and again if an address is outside the known mappings (a library was
/// loaded later).
#[derive(Default)]
struct Mapped {
    known: HashMap<u32, Known>,
    build_ids: BuildIds,
    code: Option<MappedCode>,
}

#[derive(Default)]
struct Known {
    ranges: Vec<(u64, u64)>,
    reads: u32,
}

/// The most readings of a process's mappings: addresses in generated code stay unknown.
const MAX_READS: u32 = 20;

impl Mapped {
    fn take_code(&mut self, see: impl Fn(&Made)) {
        if let Some(code) = &mut self.code {
            code.take(see);
        }
    }

    /// The new mappings for a sample of process `tgid` at `address`.
    fn sampled(&mut self, tgid: u32, address: u64) -> Vec<Mapping> {
        let Self { known, build_ids, code } = self;
        let known = known.entry(tgid).or_default();
        if known.covers(address) || known.reads >= MAX_READS {
            return Vec::new();
        }
        known.reads += 1;
        let mut new = Vec::new();
        let mut add = |known: &mut Known, mut mapping: Mapping, inode| {
            if known.ranges.contains(&(mapping.from, mapping.to)) {
                return;
            }
            known.ranges.push((mapping.from, mapping.to));
            mapping.build_id = build_ids.of(tgid, &mapping, inode).unwrap_or_default();
            new.push(mapping);
        };
        let mappings = Process::open(tgid).and_then(|process| process.mappings()).unwrap_or_default();
        for (mapping, inode) in mappings.iter().filter_map(|mapping| code_of_file(tgid, mapping)) {
            add(known, mapping, inode);
        }
        // The process ended meanwhile, or runs another program now.
        if let Some(code) = code.as_ref().filter(|_| !known.covers(address)) {
            code.of(tgid).for_each(|made| add(known, made.mapping.clone(), made.inode));
        }
        new
    }
}

impl Known {
    fn covers(&self, address: u64) -> bool {
        self.ranges.iter().any(|&(from, to)| (from..to).contains(&address))
    }
}

/// The build ids of the files read so far.
#[derive(Default)]
struct BuildIds {
    known: HashMap<Inode, Box<[u8]>>,
    kept: Vec<MappedFile>,
}

impl BuildIds {
    /// A mapped file's build id, empty if it has none; `None` if the file cannot be read, as when the process ended
    /// meanwhile. Another process may have the same file mapped, so `None` is not remembered.
    fn of(&mut self, tgid: u32, mapping: &Mapping, inode: Inode) -> Option<Box<[u8]>> {
        if let Some(known) = self.known.get(&inode) {
            return Some(known.clone());
        }
        let through_mapping = open_mapping(tgid, mapping);
        let named = open_named(mapping, inode);
        // The file's function names are read later, with fewer rights.
        let to_keep =
            through_mapping.as_ref().filter(|_| named.is_none()).and_then(|file| file.try_clone().ok());
        let found = build_id(through_mapping.or(named)?);
        if let Some(file) = to_keep.filter(|_| !found.is_empty() && self.kept.len() < MAX_KEPT_FILES) {
            self.kept.push(MappedFile { path: mapping.path.clone(), build_id: found.clone(), file });
        }
        self.known.insert(inode, found.clone());
        Some(found)
    }
}

/// A mapping's file; `None` if it cannot be read, as when the process ended meanwhile.
pub(crate) fn open_mapped(tgid: u32, mapping: &Mapping, inode: Inode) -> Option<fs::File> {
    open_mapping(tgid, mapping).or_else(|| open_named(mapping, inode))
}

/// Through the mapping itself: by now the path may name another file, or a file in another mount namespace.
fn open_mapping(tgid: u32, mapping: &Mapping) -> Option<fs::File> {
    Process::open(tgid).and_then(|process| process.mapped_file(&(mapping.from..mapping.to))).ok()
}

/// By the path, if it names the mapped file.
fn open_named(mapping: &Mapping, inode: Inode) -> Option<fs::File> {
    let path = Path::new(OsStr::from_bytes(&mapping.path));
    let data = path.metadata().ok().filter(|data| path.is_absolute() && data.is_file())?;
    let device = data.dev();
    let is_it = (libc::major(device), libc::minor(device), data.ino()) == inode;
    if is_it { fs::File::open(path).ok() } else { None }
}

/// The mapping and its file, if it is code from a file, or the `[vdso]`. A file without a path keeps its mark ` (deleted)`,
/// so that a later reader does not take another file for it.
pub(crate) fn code_of_file(tgid: u32, mapping: &wakepath_process::Mapping) -> Option<(Mapping, Inode)> {
    let is_file = mapping.path().is_some() || mapping.name == b"[vdso]";
    let found = Mapping {
        tgid: Tid(tgid),
        from: mapping.addresses.start,
        to: mapping.addresses.end,
        offset: mapping.offset,
        build_id: Box::default(),
        path: mapping.name[..].into(),
    };
    (is_file && mapping.is_code()).then_some((found, mapping.file))
}

/// An ELF file's GNU build id, empty if it has none.
fn build_id(file: fs::File) -> Box<[u8]> {
    use object::Object;

    let id = || -> Option<Box<[u8]>> {
        let cache = object::ReadCache::new(file);
        let object = object::File::parse(&cache).ok()?;
        Some(object.build_id().ok()??.into())
    };
    id().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_asked_before_the_reader_began_is_answered_by_the_end() {
        let mappings = Mappings::new();
        let here = a_question_asked_before_the_reader_began_is_answered_by_the_end as fn() as usize as u64;
        mappings.sampled(std::process::id(), here);
        let (found, _) = mappings.start(None, |_| ()).finish();
        let mine = found.iter().find(|mapping| (mapping.from..mapping.to).contains(&here)).unwrap();
        assert_eq!(&*mine.path, std::env::current_exe().unwrap().as_os_str().as_encoded_bytes());
        assert_eq!(mine.tgid, Tid(std::process::id()));
    }

    #[test]
    fn a_function_of_goroutines_is_asked_for_once() {
        let mut mappings = Mappings::new();
        for (tgid, address) in [(7, 1), (7, 1), (7, 2), (8, 1), (7, 1)] {
            mappings.begins_goroutines(tgid, address);
        }
        let Reader::Idle(asked, _) = &mappings.reader else { panic!("it has not begun") };
        assert_eq!(asked.try_iter().collect::<Vec<_>>(), [(7, 1), (7, 2), (8, 1)]);
        (0..MAX_FUNCTIONS as u64).for_each(|address| mappings.begins_goroutines(9, address));
        assert!(mappings.functions.len() <= MAX_FUNCTIONS);
    }

    #[test]
    fn a_process_that_is_gone_hides_no_file_that_others_have_mapped() {
        let path = std::env::current_exe().unwrap();
        let data = path.metadata().unwrap();
        let inode = (libc::major(data.dev()), libc::minor(data.dev()), data.ino());
        let path = path.as_os_str().as_encoded_bytes().into();
        let (from, to, offset, build_id) = (0x1000, 0x2000, 0, Box::default());
        let mapping = Mapping { tgid: Tid(0), from, to, offset, build_id, path };
        let mut build_ids = BuildIds::default();
        // No process has this number. Another file may have the name by now.
        assert_eq!(build_ids.of(0, &mapping, (inode.0, inode.1, inode.2 + 1)), None);
        assert!(build_ids.known.is_empty(), "what could not be read is tried again");
        let found = build_ids.of(0, &mapping, inode).unwrap();
        let cut = Mapping { path: Box::from(*b"/nowhere"), ..mapping };
        assert_eq!(build_ids.of(0, &cut, inode), Some(found), "it is known by now");
    }

    #[test]
    fn questions_about_the_youngest_process_are_answered_first() {
        let (questions, asked) = mpsc::channel();
        for question in [(7, 1), (9, 2), (8, 3), (9, 4)] {
            questions.send(question).unwrap();
        }
        let mut pending = Pending::default();
        let mut next = || pending.next(&asked, || ());
        assert_eq!([next(), next()], [Some((9, 2)), Some((9, 4))]);
        questions.send((10, 5)).unwrap();
        drop(questions);
        assert_eq!([next(), next(), next(), next()], [Some((10, 5)), Some((8, 3)), Some((7, 1)), None]);
    }

    #[test]
    fn only_code_from_files_is_a_mapping() {
        let read = |line: &[u8]| {
            code_of_file(7, &wakepath_process::Mapping::parse(line).expect("a line of the kernel's form"))
        };
        let line = b"7f1000-7f2000 r-xp 00001000 fe:00 1234   /usr/lib/libz.so.1 (deleted)";
        let (mapping, inode) = read(line).unwrap();
        assert_eq!((mapping.from, mapping.to, mapping.offset), (0x7f1000, 0x7f2000, 0x1000));
        assert_eq!((mapping.tgid, &*mapping.path), (Tid(7), &b"/usr/lib/libz.so.1 (deleted)"[..]));
        assert_eq!(inode, (0xfe, 0, 1234));
        assert!(read(b"7ffd000-7ffe000 r-xp 00000000 00:00 0 [vdso]").is_some());
        assert!(read(b"7f1000-7f2000 rw-p 00001000 fe:00 1234   /usr/lib/libz.so.1").is_none());
        assert!(read(b"7ffd000-7ffe000 r-xp 00000000 00:00 0 [stack]").is_none());
        assert!(read(b"7ffd000-7ffe000 r-xp 00000000 00:00 0 ").is_none());
    }
}

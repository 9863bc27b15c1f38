//! Processes' address spaces, the files mapped there, and the stacks walked with them.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wakepath_event::Mapping;
use wakepath_process::Process;
use wakepath_unwind::{Module, Place, Rule, walk};

use crate::clocks;
use crate::mapped_code::Inode;
use crate::mapped_code::Made;
use crate::mappings::{code_of_file, open_mapped};
use crate::stack_copy::StackCopy;
use crate::unwind_rules::UnwindRules;

/// The number of immediate readings of a process's mappings, and the interval for later readings: a process may make
/// code, or load libraries, for as long as it runs.
const MAX_READS: u32 = 20;
const READ_INTERVAL: Duration = Duration::from_millis(250);
/// The most copies for a process in [`COPIES_INTERVAL`]; then none for as long. A process whose registers and stacks
/// lead to other words each time has no end of them.
const MAX_COPIES: u32 = 1000;
const COPIES_INTERVAL: Duration = Duration::from_secs(1);
/// The most processes remembered.
const MAX_PROCESSES: usize = 4096;
/// The most open files. There may be no more than 1024 descriptors.
const MAX_MODULES: usize = 256;
/// The most bytes kept in tables, if none is added.
const MAX_TABLE_BYTES: usize = 256 << 20;

/// The known address spaces.
pub(crate) struct Spaces {
    pub(super) rules: UnwindRules,
    spaces: HashMap<u64, Space>,
    /// Each process's last address space.
    latest: HashMap<u32, u64>,
    modules: HashMap<Inode, Arc<Module>>,
    /// The size of the tables in `modules`, bytes.
    table_bytes: usize,
    /// Address spaces without copies for now, each with the end of that time.
    silent: VecDeque<(Instant, u64)>,
}

#[derive(Default)]
struct Space {
    /// The files, in order of address.
    mapped: Vec<Mapped>,
    /// All code, with or without a file.
    code: Vec<Range<u64>>,
    reads: u32,
    last_read: Option<Instant>,
    /// At each look so far, the process was gone or ran another program.
    gone: bool,
    /// A stack was walked with this address space.
    used: bool,
    /// The start of a counting interval, and the copies since.
    copies: Option<(Instant, u32)>,
}

struct Mapped {
    mapping: Mapping,
    inode: Inode,
}

/// A finished copy.
pub(crate) struct Finished {
    pub(crate) record: Box<[u8]>,
    /// The process was gone: the record has only what the programs themselves found.
    pub(crate) refused: bool,
}

impl Spaces {
    pub(crate) fn new(rules: UnwindRules) -> Self {
        Self {
            rules,
            spaces: HashMap::new(),
            latest: HashMap::new(),
            modules: HashMap::new(),
            table_bytes: 0,
            silent: VecDeque::new(),
        }
    }

    /// Whether the rule is known by now for the address at which a copy's walk stopped.
    pub(crate) fn knows(&self, copy: &StackCopy) -> bool {
        self.rules.get(copy.space(), copy.registers().ip, copy.stands()).is_some()
    }

    /// Reads the mappings of a stack's process, if it is new.
    pub(super) fn look_at(&mut self, copy: &StackCopy) {
        // A program that is just being started may look like another program: it is looked at again.
        let known = self.spaces.remove(&copy.space());
        let mut space = known.unwrap_or(Space { gone: true, ..Space::default() });
        if space.gone && space.may_be_read() {
            space.gone = !self.read(&mut space, copy);
        }
        self.latest.insert(copy.tgid(), copy.space());
        self.spaces.insert(copy.space(), space);
    }

    /// A process mapped code: rules for the code there before are forgotten.
    pub(super) fn mapped(&mut self, Made { mapping, inode }: Made) {
        let Some(id) = self.latest.get(&mapping.tgid.0) else { return };
        let Some(space) = self.spaces.get_mut(id).filter(|space| !space.gone) else { return };
        let new = Mapped { mapping, inode };
        if space.mapped.iter().any(|known| known.is_same(&new)) {
            return;
        }
        let range = new.range();
        space.mapped.retain(|known| known.range().end <= range.start || range.end <= known.range().start);
        let behind = space.mapped.partition_point(|known| known.mapping.from < range.start);
        space.mapped.insert(behind, new);
        space.code.push(range.clone());
        self.rules.forget(*id, std::slice::from_ref(&range));
    }

    /// Listens again to address spaces whose time is over. Returns whether others are left.
    pub(super) fn listen(&mut self) -> bool {
        let now = Instant::now();
        while self.silent.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, space)) = self.silent.pop_front() {
                self.rules.listen(space);
            }
        }
        !self.silent.is_empty()
    }

    fn silence(&mut self, space: u64, time: Duration) {
        if self.rules.is_silent(space) {
            return;
        }
        self.rules.silence(space);
        self.silent.push_back((Instant::now() + time, space));
    }

    /// Forgets everything if there are too many processes, files or table bytes.
    fn forget(&mut self) {
        let tables = self.table_bytes > MAX_TABLE_BYTES || self.modules.len() > MAX_MODULES;
        if self.spaces.len() > MAX_PROCESSES || tables {
            self.spaces.clear();
            self.latest.clear();
            self.modules.clear();
            self.table_bytes = 0;
        }
    }

    /// Finishes a stack, and adds its addresses' rules.
    pub(crate) fn finish(&mut self, copy: &StackCopy) -> Finished {
        self.forget();
        self.look_at(copy);
        let id = copy.space();
        let mut space = self.spaces.remove(&id).unwrap_or_default();
        if space.gone {
            if !space.may_be_read() {
                self.silence(id, READ_INTERVAL);
            }
            self.spaces.insert(id, space);
            return Finished { record: copy.unfinished(clocks::now().ns()), refused: true };
        }
        if space.is_too_much() {
            self.silence(id, COPIES_INTERVAL);
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
                let is_code = |space: &Space| space.code.iter().any(|code| code.contains(&address));
                let mut certain = fresh;
                if !is_code(&space) && !fresh && space.may_be_read() {
                    fresh = true;
                    certain = self.read(&mut space, copy);
                }
                let Some(mapped) = space.find(address) else {
                    let rule = if is_code(&space) || !certain { Rule::NoTable } else { Rule::NoCode };
                    let place = Place { rule, called: stands };
                    // Code may have been mapped since the mappings were read: it is looked for again.
                    if is_code(&space) || certain {
                        self.rules.set(id, address, stands, place, false);
                    }
                    return place;
                };
                match self.place(copy.tgid(), mapped, address, stands) {
                    Some((place, library)) => {
                        self.rules.set(id, address, stands, place, library);
                        place
                    }
                    None => Place { rule: Rule::NoTable, called: stands },
                }
            });
        self.spaces.insert(id, space);
        Finished { record: copy.finished(&unwound, clocks::now().ns()), refused: false }
    }

    /// The place of an address in a file, and whether the file is the C library; `None` if there is no room for the
    /// file's table.
    fn place(&mut self, tgid: u32, mapped: &Mapped, address: u64, stands: bool) -> Option<(Place, bool)> {
        let Mapped { mapping, inode } = mapped;
        let module = match self.modules.get(inode) {
            Some(known) => Some(Arc::clone(known)),
            None => open_mapped(tgid, mapping, *inode).map(|file| {
                let module = Arc::new(Module::new(file, is_c_library(&mapping.path)));
                self.modules.insert(*inode, Arc::clone(&module));
                module
            }),
        };
        let Some(module) = module else {
            return Some((Place { rule: Rule::NoTable, called: stands }, false));
        };
        // A single stack may lead through as many files as it has frames.
        if !module.is_read() && self.table_bytes > MAX_TABLE_BYTES {
            return None;
        }
        let before = module.bytes();
        let place = module.place(address - mapping.from + mapping.offset, stands);
        self.table_bytes += module.bytes() - before;
        Some((place, module.library))
    }

    /// Reads the process's mappings; false if it is gone, or runs another program by now.
    fn read(&mut self, space: &mut Space, copy: &StackCopy) -> bool {
        space.reads = space.reads.saturating_add(1);
        space.last_read = Some(Instant::now());
        let tgid = copy.tgid();
        let Ok(process) = Process::open(tgid) else { return false };
        let Ok(mappings) = process.mappings() else { return false };
        let code: Vec<_> = mappings.iter().filter(|it| it.is_code()).map(|it| it.addresses.clone()).collect();
        let mapped = mappings.iter().filter_map(|mapping| code_of_file(tgid, mapping));
        let mapped: Vec<_> = mapped.map(|(mapping, inode)| Mapped { mapping, inode }).collect();
        // Checked only after the mappings are read: then they belong to this program.
        if !process.stat().is_ok_and(|stat| stat.start_stack == copy.start_stack()) || code.is_empty() {
            return false;
        }
        self.rules.forget(copy.space(), &space.changes(&mapped, &code));
        (space.mapped, space.code) = (mapped, code);
        true
    }

    /// The number of readings of an address space's mappings.
    #[cfg(test)]
    pub(super) fn reads(&self, space: u64) -> u32 {
        self.spaces[&space].reads
    }
}

impl Space {
    fn may_be_read(&self) -> bool {
        self.reads < MAX_READS || self.last_read.is_none_or(|at| at.elapsed() >= READ_INTERVAL)
    }

    /// Counts a copy; true if it is the first beyond the limit.
    fn is_too_much(&mut self) -> bool {
        let (since, copies) = self
            .copies
            .filter(|(since, _)| since.elapsed() < COPIES_INTERVAL)
            .unwrap_or_else(|| (Instant::now(), 0));
        self.copies = Some((since, copies + 1));
        copies == MAX_COPIES
    }

    fn find(&self, address: u64) -> Option<&Mapped> {
        let behind = self.mapped.partition_point(|mapped| mapped.mapping.from <= address);
        self.mapped[..behind].last().filter(|mapped| address < mapped.mapping.to)
    }

    /// Where the code differs from the last time: rules from then are of no use.
    fn changes(&self, mapped: &[Mapped], code: &[Range<u64>]) -> Vec<Range<u64>> {
        let new = mapped.iter().filter(|new| !self.mapped.iter().any(|old| old.is_same(new)));
        let gone = self.mapped.iter().filter(|old| !mapped.iter().any(|new| new.is_same(old)));
        // Where there was no code, a rule may say so.
        let more = code.iter().filter(|new| !self.code.contains(new)).cloned();
        new.chain(gone).map(Mapped::range).chain(more).collect()
    }
}

impl Mapped {
    fn range(&self) -> Range<u64> {
        self.mapping.from..self.mapping.to
    }

    /// The same part of the same file at the same place.
    fn is_same(&self, other: &Self) -> bool {
        self.range() == other.range()
            && self.inode == other.inode
            && self.mapping.offset == other.mapping.offset
    }
}

/// Where a process's first stack begins: a different start is a different program.
pub(crate) fn start_stack(tgid: u32) -> Option<u64> {
    Some(Process::open(tgid).ok()?.stat().ok()?.start_stack)
}

/// Whether a file is the C library, or loads it.
fn is_c_library(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] = [b"libc.so", b"libc-", b"libpthread", b"ld-linux", b"ld-musl"];
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    NAMES.iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use wakepath_event::{EventKind, Stack, Tid};
    use wakepath_unwind::Registers;

    use super::*;
    use crate::stack_copy::tests::{decoded, own_stack_copy};

    /// The address space for copies in these tests.
    const SPACE: u64 = 77;

    fn spaces() -> Spaces {
        Spaces::new(UnwindRules::own().expect("memory"))
    }

    /// The current registers, and the stack above them.
    #[inline(never)]
    pub(in crate::unwinder) fn here() -> (Registers, Vec<u8>) {
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: reads registers alone. A test thread's stack is megabytes long, and at least this many bytes are in
        // use.
        let memory = unsafe {
            std::arch::asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) ip, out(reg) sp, out(reg) bp);
            std::slice::from_raw_parts(sp as *const u8, 1024).to_vec()
        };
        (Registers { ip, sp, bp }, memory)
    }

    /// Where this process's stack begins.
    fn start() -> u64 {
        start_stack(std::process::id()).expect("this process")
    }

    fn stack(Finished { record, .. }: Finished) -> Stack {
        match decoded(&record).1 {
            EventKind::StackLater(_, stack) => stack,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stack_of_a_process_that_lives_is_proved_and_its_rules_are_there_for_the_next() {
        let mut spaces = spaces();
        let (registers, memory) = here();
        let copy = own_stack_copy(registers, start(), &memory);
        assert!(!spaces.knows(&copy));
        let found = stack(spaces.finish(&copy));
        assert!(found.user.len() >= 2 && usize::from(found.proved) == found.user.len(), "{found:x?}");
        let own = a_stack_of_a_process_that_lives_is_proved_and_its_rules_are_there_for_the_next as fn()
            as usize as u64;
        let caller = found.user[1];
        assert!(caller > own && caller - own < 0x4000, "{caller:x} is in this test, which begins at {own:x}");
        assert!(spaces.knows(&copy));
        assert!(spaces.rules.get(SPACE, caller, false).is_some());
        assert!(spaces.rules.get(SPACE, caller, true).is_none());
        // The process is not read again for known addresses.
        assert_eq!(stack(spaces.finish(&copy)), found);
        assert_eq!(spaces.reads(SPACE), 1, "all was known");
        assert!(spaces.modules.len() <= 3, "only files that an address needs are opened");
    }

    #[test]
    fn a_process_that_runs_another_program_by_now_is_not_read_for_the_old_one() {
        let mut spaces = spaces();
        let (registers, memory) = here();
        let copy = own_stack_copy(registers, start() + 16, &memory);
        let began = Instant::now();
        for tries in 1..=MAX_READS {
            let finished = spaces.finish(&copy);
            assert!(finished.refused);
            assert_eq!(stack(finished).user.len(), 1);
            // It may be just being started.
            let is_last = tries == MAX_READS;
            assert!(spaces.rules.is_silent(SPACE) == is_last || began.elapsed() > READ_INTERVAL);
        }
        assert!(!spaces.knows(&copy));
        // Later it is tried again.
        std::thread::sleep(READ_INTERVAL);
        assert!(!spaces.listen() && !spaces.rules.is_silent(SPACE));
    }

    #[test]
    fn the_mappings_of_a_process_are_read_again_for_unknown_addresses_but_not_all_the_time() {
        let mut spaces = spaces();
        let began = Instant::now();
        for n in 0..2 * u64::from(MAX_READS) {
            let registers = Registers { ip: 0x10_0000 + n * 64, sp: 0x7000, bp: 0 };
            let copy = own_stack_copy(registers, start(), &[0; 64]);
            let found = stack(spaces.finish(&copy));
            assert_eq!((found.user.len(), found.proved), (1, 1));
            // Where the mappings were not read again, there may be code by now.
            assert!(spaces.knows(&copy) == (n < MAX_READS.into()) || began.elapsed() > READ_INTERVAL);
        }
        let more = began.elapsed().as_millis() / READ_INTERVAL.as_millis();
        assert!((MAX_READS..=MAX_READS + more as u32).contains(&spaces.reads(SPACE)));
    }

    #[test]
    fn a_process_with_too_many_copies_is_not_heard_for_a_while() {
        let mut spaces = spaces();
        let (registers, memory) = here();
        let copy = own_stack_copy(registers, start(), &memory);
        let mut space = Space::default();
        let began = Instant::now();
        let too_much = (0..2 * MAX_COPIES).filter(|_| space.is_too_much()).count();
        assert!(too_much == 1 || began.elapsed() > COPIES_INTERVAL, "{too_much}");
        spaces.finish(&copy);
        spaces.spaces.get_mut(&SPACE).expect("it").copies = Some((Instant::now(), MAX_COPIES - 1));
        spaces.finish(&copy);
        assert!(!spaces.rules.is_silent(SPACE) && !spaces.listen());
        spaces.finish(&copy);
        assert!(spaces.rules.is_silent(SPACE) && spaces.listen());
    }

    #[test]
    fn an_address_that_is_no_code_is_no_frame_and_code_of_no_file_is_one_without_proof() {
        let mut spaces = spaces();
        let value = Box::new(7_u64);
        let no_code = &raw const *value as u64;
        // Code without a file.
        let made = crate::rings::map(4096, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).expect("memory");
        // SAFETY: the page that was just made.
        let failed = unsafe { libc::mprotect(made.as_ptr().cast(), 4096, libc::PROT_READ | libc::PROT_EXEC) };
        assert_eq!(failed, 0);
        for (word, frames) in [(no_code, 1), (made.as_ptr() as u64 + 64, 2)] {
            // The thread stands in code without a file, which has a frame pointer.
            let at = Registers { ip: made.as_ptr() as u64, sp: 0x7000, bp: 0x7000 };
            let memory = [0x7010, word, 0, 0].map(u64::to_le_bytes).concat();
            let found = stack(spaces.finish(&own_stack_copy(at, start(), &memory)));
            assert_eq!((found.user.len(), found.proved), (frames, 1), "{found:x?}");
        }
        // SAFETY: nothing refers to the page.
        unsafe { libc::munmap(made.as_ptr().cast(), 4096) };
    }

    #[test]
    fn rules_are_forgotten_where_another_file_or_code_is_by_now() {
        let mapped = |from, to, offset, inode| Mapped {
            mapping: Mapping {
                tgid: Tid(7),
                from,
                to,
                offset,
                build_id: Box::default(),
                path: Box::default(),
            },
            inode: (8, 1, inode),
        };
        let space = Space {
            mapped: vec![
                mapped(0x1000, 0x2000, 0, 1),
                mapped(0x3000, 0x4000, 0, 2),
                mapped(0x5000, 0x6000, 0, 3),
            ],
            code: vec![0x1000..0x2000, 0x3000..0x4000, 0x5000..0x6000],
            ..Space::default()
        };
        assert!(space.find(0xfff).is_none() && space.find(0x2000).is_none());
        assert_eq!(space.find(0x1fff).expect("it").inode.2, 1);
        assert_eq!(space.find(0x5000).expect("it").inode.2, 3);
        let changes = |mapped: &[Mapped], code| {
            let mut changes = space.changes(mapped, code);
            changes.sort_by_key(|range| range.start);
            changes.dedup();
            changes
        };
        assert_eq!(changes(&space.mapped, &space.code), []);
        // Another file, another part of the same file, gone, and new.
        let now =
            [mapped(0x1000, 0x2000, 0, 9), mapped(0x3000, 0x4000, 0x1000, 2), mapped(0x7000, 0x8000, 0, 4)];
        let all = [0x1000..0x2000, 0x3000..0x4000, 0x5000..0x6000, 0x7000..0x8000];
        assert_eq!(changes(&now, &space.code), all);
        // Code without a file.
        let made = 0xa000..0xb000;
        assert_eq!(changes(&space.mapped, &[&space.code[..], std::slice::from_ref(&made)].concat()), [made]);
    }

    #[test]
    fn rules_are_forgotten_where_a_process_maps_another_file() {
        let mut spaces = spaces();
        let (registers, memory) = here();
        let copy = own_stack_copy(registers, start(), &memory);
        let found = stack(spaces.finish(&copy));
        let caller = found.user[1];
        let known = spaces.spaces[&SPACE].find(registers.ip).expect("this program");
        let made = Made { mapping: known.mapping.clone(), inode: known.inode };
        let mut another = made.clone();
        another.inode.2 += 1;
        let elsewhere = Mapping { tgid: Tid(0), ..made.mapping.clone() };
        for nothing_new in [made, Made { mapping: elsewhere, ..another.clone() }] {
            spaces.mapped(nothing_new);
            assert!(spaces.knows(&copy));
        }
        // Only a part of it is another file by now.
        let beside = caller + 0x1000;
        spaces.rules.set(SPACE, beside, false, Place { rule: Rule::NoTable, called: true }, false);
        another.mapping.from = caller & !0xfff;
        another.mapping.to = another.mapping.from + 0x1000;
        spaces.mapped(another.clone());
        let rule = |address| spaces.rules.get(SPACE, address, false);
        assert!(rule(caller).is_none() && rule(beside).is_some());
        let now = spaces.spaces[&SPACE].find(caller).expect("it");
        assert_eq!((now.range(), now.inode), (another.mapping.from..another.mapping.to, another.inode));
    }
}

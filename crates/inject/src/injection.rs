//! Stubs in a process: put in, given other nodes, taken out.

mod calls;
mod tables;

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use wakepath_process::{Memory, Process, path_through};

use crate::data::{self, Frame};
use crate::error::{Error, Refusal};
use crate::gate::Gate;
use crate::process::{check, is_of_file, started};
use crate::remote::{Work, with_thread};
use crate::room;
use crate::send;
use crate::stub;

/// A region's size, bytes: the shared code, and a stub for each site.
const REGION_BYTES: u64 = (stub::STUBS_AT + data::MAX_SITES * stub::STUB_BYTES).next_multiple_of(0x1000);
/// The most regions: one for each part of the address space within reach of a call.
const MAX_REGIONS: usize = 8;
/// Place of the regions' addresses in the data, behind their number.
const REGIONS: u64 = 48;
/// A site at least this far from each region needs another region.
const ONE_REGION: u64 = 1 << 30;
/// Memory that no code has to reach: far from programs and libraries.
const ANYWHERE: Range<u64> = 1 << 40..1 << 40;

/// A call site to measure.
#[derive(Debug, Clone)]
pub struct Site {
    /// The instruction's address in the process.
    pub address: u64,
    /// The mapped file, by a path that this process can open.
    pub file: PathBuf,
    /// The instruction's offset in the file, bytes.
    pub offset: u64,
    /// The calling function's frame.
    pub frame: Frame,
    /// The nodes whose calls are measured there.
    pub nodes: Vec<Node>,
}

/// A node of the function tree: calls at a site while the innermost open node is this parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The calling function's node; 0 is f0.
    pub parent: u32,
    /// The called function's node, below `MAX_NODES`.
    pub node: u32,
}

/// The functions that register unwinding tables for code made at run time: `__register_frame_info` and
/// `__deregister_frame_info` in the compiler's library, by their addresses in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwinder {
    /// Takes a table, and memory for the unwinder's own note.
    pub register: u64,
    /// Takes the table.
    pub deregister: u64,
}

/// The reason why a site is left unchanged.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum SiteRefusal {
    /// The request has the site twice.
    #[error("a site that is given twice")]
    Twice,
    /// The instruction there is no such call.
    #[error("not a call that takes the address from its own bytes")]
    NotACall,
    /// The code differs from the file's.
    #[error("the code there is not that of its file")]
    Changed,
    /// There are too many sites.
    #[error("more than {} sites", data::MAX_SITES - 1)]
    Many,
    /// No free memory is near enough.
    #[error("no room within 2 GB of it")]
    Far,
    /// The kernel refused a break point there.
    #[error("the kernel refuses a probe there (error {errno})")]
    Kernel {
        /// The error number, positive.
        errno: i32,
    },
}

/// `int3`
const BREAK_POINT: u8 = 0xcc;
/// The waiting time for break points from another source, at all sites of a request together.
const BREAK_POINTS_GO_WITHIN: Duration = Duration::from_secs(1);

/// The traces left in the process at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// Sites whose code is gone, or no longer ours.
    pub gone: usize,
    /// Calls open in stubs, which will return through them.
    pub open: usize,
}

/// A code change.
#[derive(Debug, Clone)]
struct Change {
    file: PathBuf,
    offset: u64,
    /// The displacement's address in the process.
    at: u64,
    before: [u8; 4],
    after: [u8; 4],
    /// The function that the stub calls; 0 for a change by another process.
    callee: u64,
    /// The site's number, and the numbers of its further nodes.
    numbers: Vec<u32>,
}

/// The stubs in a process. They are taken out when this value is dropped.
#[derive(Debug)]
pub struct Injection {
    process: Process,
    memory: Memory,
    data: u64,
    /// The memory shared with the program that begins calls of f0.
    states: u64,
    regions: Vec<u64>,
    unwinders: Vec<Unwinder>,
    /// By the instruction's address.
    changes: BTreeMap<u64, Change>,
    /// The removed stubs' numbers and callees, by instruction address. A thread preempted inside a removed stub may
    /// still run it, so its site number and callee are never reused.
    taken_out: BTreeMap<u64, (u32, u64)>,
    /// The next site number, and the free numbers: from further nodes, or never put in.
    next: u32,
    free: Vec<u32>,
    call: u64,
}

impl Injection {
    /// Prepares a process for stubs, with the threads' states in `shared`: mappable memory of
    /// [`SHARED_BYTES`](crate::SHARED_BYTES) bytes. Exceptions handled by these unwinders pass the stubs. Stubs left
    /// by a killed wakepath are taken out first.
    ///
    /// # Errors
    /// When the process is refused, or has ended. It is unchanged then.
    pub fn begin(pid: u32, shared: BorrowedFd<'_>, unwinders: &[Unwinder]) -> Result<Self, Error> {
        let process = Process::open(pid)?;
        check(&process)?;
        let (memory, maps) = (process.writable_memory()?, process.mappings()?);
        let mut found = None;
        for mapping in maps.iter().filter(|it| it.name.is_empty() && it.permissions == *b"rw-p") {
            let at = mapping.addresses.start;
            // The head is a page of its own, which a forked child finds empty.
            if memory.word(at)? == data::MAGIC && memory.word(at + 8)? == data::LAYOUT {
                found = Some(at);
            }
        }
        let mut injection = Self {
            process,
            memory,
            data: 0,
            states: 0,
            regions: Vec::new(),
            unwinders: unwinders.to_vec(),
            changes: BTreeMap::new(),
            taken_out: BTreeMap::new(),
            next: 1,
            free: Vec::new(),
            call: 0,
        };
        match found {
            Some(at) => injection.take_over(at)?,
            None => {
                let none = Refusal::NoMemory { pid, errno: libc::ENOMEM };
                injection.data = injection.map(&ANYWHERE, data::BYTES, false)?.ok_or(none)?;
            }
        }
        injection.states = injection.map_shared(shared)?;
        for region in &injection.regions {
            injection.memory.write(*region, &stub::shared(injection.data, injection.states))?;
        }
        for index in 0..injection.regions.len() {
            injection.register(index)?;
        }
        let me = std::process::id();
        let memory = &injection.memory;
        memory.set_word(injection.data + data::OWNER, me.into())?;
        memory.set_word(injection.data + data::OWNER + 8, started(me).unwrap_or_default())?;
        memory.set_word(injection.data + 8, data::LAYOUT)?;
        memory.set_word(injection.data, data::MAGIC)?;
        Ok(injection)
    }

    /// Takes over a dead owner's data and undoes its changes. The memory is used again, since open calls still return
    /// through its stubs.
    fn take_over(&mut self, at: u64) -> Result<(), Error> {
        let owner = self.memory.word(at + data::OWNER)? as u32;
        if owner != 0
            && started(owner) == Some(self.memory.word(at + data::OWNER + 8)?)
            && owner != std::process::id()
        {
            return Err(Refusal::Owned { pid: self.process.pid(), owner }.into());
        }
        self.data = at;
        self.memory.set_word(at + data::DEADLINE, 0)?;
        let regions = self.memory.word(at + REGIONS)?.min(MAX_REGIONS as u64);
        self.regions =
            (0..regions).map(|i| self.memory.word(at + REGIONS + 8 + 8 * i)).collect::<Result<_, _>>()?;
        let maps = self.process.mappings()?;
        let numbers = self.memory.word(at + data::CHANGES)?.clamp(1, data::MAX_SITES);
        self.next = numbers as u32;
        for index in 0..numbers {
            let entry = at + data::JOURNAL + index * data::CHANGE_BYTES;
            let address = self.memory.word(entry)?;
            let (before, after) = (self.memory.word(entry + 8)?, self.memory.word(entry + 16)?);
            let Some(mapping) = maps.iter().find(|it| it.addresses.contains(&address)) else { continue };
            if address == 0 || !mapping.name.starts_with(b"/") {
                continue;
            }
            // The journal has the displacement's address and its distance from the instruction's first byte.
            let back = before >> 32;
            let change = Change {
                file: path_through(self.process.pid(), &mapping.addresses),
                offset: mapping.offset + (address - mapping.addresses.start) - back,
                at: address,
                before: (before as u32).to_le_bytes(),
                after: (after as u32).to_le_bytes(),
                callee: 0,
                numbers: Vec::new(),
            };
            self.changes.insert(address - back, change);
        }
        self.restore()?;
        Ok(())
    }

    /// Maps memory in the process; `None` where no free memory is within reach.
    fn map(&self, near: &Range<u64>, bytes: u64, code: bool) -> Result<Option<u64>, Error> {
        let (pid, maps) = (self.process.pid(), self.process.mappings()?);
        let Some(at) = room::near(&maps, near, bytes) else { return Ok(None) };
        let protection =
            if code { libc::PROT_READ | libc::PROT_EXEC } else { libc::PROT_READ | libc::PROT_WRITE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        with_thread(&self.process, &self.memory, &maps, Work::SystemCalls, |thread| {
            let arguments = [at, bytes, protection as u64, flags as u64, u64::MAX, 0];
            let got = thread.make(libc::SYS_mmap, arguments)?;
            if got != at {
                // An old kernel, which does not know the flag.
                thread.make(libc::SYS_munmap, [got, bytes, 0, 0, 0, 0])?;
                return Err(Refusal::NoMemory { pid, errno: libc::ENOMEM }.into());
            }
            Ok(Some(at))
        })
    }

    /// Maps the states in the process, which receives the descriptor in a message and closes it afterwards.
    fn map_shared(&self, shared: BorrowedFd<'_>) -> Result<u64, Error> {
        let (data, maps) = (self.data, self.process.mappings()?);
        let none = Refusal::NoMemory { pid: self.process.pid(), errno: libc::ENOMEM };
        let at = room::near(&maps, &ANYWHERE, data::SHARED_BYTES).ok_or(none)?;
        with_thread(&self.process, &self.memory, &maps, Work::SystemCalls, |thread| {
            // A forked child then measures nothing.
            let wipe = [data, data::HEAD_BYTES, libc::MADV_WIPEONFORK as u64, 0, 0, 0];
            thread.make(libc::SYS_madvise, wipe)?;
            let fd = send::to(thread, &self.memory, data + data::SCRATCH, shared)?;
            let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let flags = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
            let mapped = thread.make(libc::SYS_mmap, [at, data::SHARED_BYTES, protection, flags, fd, 0]);
            thread.make(libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
            mapped
        })
    }

    /// Puts stubs at sites; a site with a stub gets these nodes instead. The answers are in the sites' order.
    ///
    /// # Errors
    /// When the process ended, or gets no memory.
    pub fn redirect(&mut self, sites: &[Site]) -> Result<Vec<Result<(), SiteRefusal>>, Error> {
        let mut answers = Vec::with_capacity(sites.len());
        let mut new = Vec::new();
        let patience = Instant::now() + BREAK_POINTS_GO_WITHIN;
        for site in sites {
            answers.push(match self.changes.get(&site.address).map(|change| change.numbers.clone()) {
                Some(numbers) => match self.renumber(&numbers, site)? {
                    Some(numbers) => {
                        if let Some(change) = self.changes.get_mut(&site.address) {
                            change.numbers = numbers;
                        }
                        Ok(())
                    }
                    None => Err(SiteRefusal::Many),
                },
                None if new.iter().any(|(address, _)| *address == site.address) => Err(SiteRefusal::Twice),
                None => self.prepare(site, patience)?.map(|change| new.push((site.address, change))),
            });
        }
        let gate = Gate::at(
            self.process.pid(),
            new.iter().map(|(_, change)| (change.file.as_path(), change.offset)),
        );
        let gate = match gate {
            Ok(gate) => gate,
            Err(why) => {
                let errno = why.raw_os_error().unwrap_or(libc::EINVAL);
                for (answer, site) in answers.iter_mut().zip(sites) {
                    if new.iter().any(|(address, _)| *address == site.address) {
                        *answer = Err(SiteRefusal::Kernel { errno });
                    }
                }
                new.into_iter().for_each(|(address, change)| self.retire(address, change));
                return Ok(answers);
            }
        };
        let changed: Vec<u64> = new.iter().map(|(address, _)| *address).collect();
        for (address, change) in new {
            // The journal comes first: a later reader compares the bytes before it changes them.
            self.note(&change, address)?;
            self.memory.write(change.at, &change.after)?;
            self.changes.insert(address, change);
        }
        drop(gate);
        // While one of its break points stands, threads execute the file's instruction there, past the stub.
        let patience = Instant::now() + BREAK_POINTS_GO_WITHIN;
        for address in changed {
            while self.has_break_point(address) && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(answers)
    }

    fn has_break_point(&self, address: u64) -> bool {
        let mut code = [0];
        self.memory.read(address, &mut code).is_ok() && code == [BREAK_POINT]
    }

    /// Makes a stub, and the change to the site that leads to it.
    fn prepare(&mut self, site: &Site, patience: Instant) -> Result<Result<Change, SiteRefusal>, Error> {
        let Some(code) = self.code_of_file(site, patience) else { return Ok(Err(SiteRefusal::Changed)) };
        let (back, through_pointer) = match code {
            [0xe8, ..] => (1, false),
            // A linker's rewrite of a call through a pointer, with a prefix for the same length.
            [0x67, 0xe8, ..] => (2, false),
            [0xff, 0x15, ..] => (2, true),
            _ => return Ok(Err(SiteRefusal::NotACall)),
        };
        let at = site.address + back;
        let mut before = [0; 4];
        self.memory.read(at, &mut before)?;
        let leads_to = (at + 4).wrapping_add_signed(i32::from_le_bytes(before).into());
        let callee = if through_pointer { self.memory.word(leads_to)? } else { leads_to };
        let Some(region) = self.region(site.address)? else { return Ok(Err(SiteRefusal::Far)) };
        let had = self.taken_out.get(&site.address).filter(|(_, before)| *before == callee);
        let had: Vec<u32> = had.map(|(number, _)| *number).into_iter().collect();
        let Some(numbers) = self.renumber(&had, site)? else { return Ok(Err(SiteRefusal::Many)) };
        let number = numbers[0];
        let stub_at = region + stub::STUBS_AT + u64::from(number) * stub::STUB_BYTES;
        self.memory.write(stub_at, &stub::stub(region, stub_at, number, callee))?;
        let pointer = stub_at + stub::POINTER_AT;
        let target = if through_pointer { pointer } else { stub_at };
        let Ok(after) = i32::try_from(target.wrapping_sub(at + 4) as i64) else {
            // The stub was never put in.
            self.free.extend(numbers);
            return Ok(Err(SiteRefusal::Far));
        };
        let (file, offset, after) = (site.file.clone(), site.offset, after.to_le_bytes());
        Ok(Ok(Change { file, offset, at, before, after, callee, numbers }))
    }

    /// The code at a site, if it equals the file's. A kernel break point that was just removed may still be there for
    /// a short time: a process between fork and exec holds a copy of its descriptor.
    fn code_of_file(&self, site: &Site, patience: Instant) -> Option<[u8; 6]> {
        loop {
            let mut code = [0; 6];
            self.memory.read(site.address, &mut code).ok()?;
            if is_of_file(&site.file, site.offset, &code) {
                return Some(code);
            }
            if code[0] != BREAK_POINT || Instant::now() > patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Keeps the stub of a restored site, and frees the numbers of its further nodes.
    fn retire(&mut self, address: u64, change: Change) {
        if let Some((&number, further)) = change.numbers.split_first() {
            self.taken_out.insert(address, (number, change.callee));
            self.free.extend(further);
        }
    }

    /// Gives a site its nodes: its own number, and another number for each further node. `None` where no number is
    /// free.
    fn renumber(&mut self, had: &[u32], site: &Site) -> Result<Option<Vec<u32>>, Error> {
        let mut numbers = had.to_vec();
        while numbers.len() < site.nodes.len().max(1) {
            match self.free.pop() {
                Some(number) => numbers.push(number),
                None if u64::from(self.next) < data::MAX_SITES => {
                    numbers.push(self.next);
                    self.next += 1;
                }
                None => {
                    self.free.extend(numbers.drain(had.len()..));
                    return Ok(None);
                }
            }
        }
        self.free.extend(numbers.drain(site.nodes.len().max(1)..));
        let (frame, distance) = match site.frame {
            Frame::AboveStack(bytes) => (0_u32, bytes as i64),
            Frame::AboveFramePointer(bytes) => (1, bytes),
            Frame::Unknown => (2, 0),
        };
        // From the last node to the first, which link to it; each node's parent is written last.
        let mut next = 0_u32;
        for (index, &number) in numbers.iter().enumerate().rev() {
            let at = self.data + data::SITES + u64::from(number) * data::SITE_BYTES;
            self.memory.write(at + data::SITE_PARENT, &data::NO_PARENT.to_le_bytes())?;
            let node = site.nodes.get(index);
            let of_node = node.map_or(0, |it| it.node);
            let mut fields = Vec::with_capacity(20);
            fields.extend(of_node.to_le_bytes());
            fields.extend(frame.to_le_bytes());
            fields.extend(next.to_le_bytes());
            fields.extend(distance.to_le_bytes());
            self.memory.write(at + data::SITE_NODE, &fields)?;
            let parent = node.map_or(data::NO_PARENT, |it| it.parent);
            self.memory.write(at + data::SITE_PARENT, &parent.to_le_bytes())?;
            next = number;
        }
        Ok(Some(numbers))
    }

    /// A region within the site's reach.
    fn region(&mut self, site: u64) -> Result<Option<u64>, Error> {
        if let Some(&region) = self.regions.iter().find(|region| region.abs_diff(site) < ONE_REGION) {
            return Ok(Some(region));
        }
        if self.regions.len() == MAX_REGIONS {
            return Ok(None);
        }
        let Some(region) = self.map(&(site..site + 8), REGION_BYTES, true)? else { return Ok(None) };
        self.memory.write(region, &stub::shared(self.data, self.states))?;
        self.regions.push(region);
        let count = self.regions.len() as u64;
        self.memory.set_word(self.data + REGIONS + 8 * count, region)?;
        self.memory.set_word(self.data + REGIONS, count)?;
        self.register(self.regions.len() - 1)?;
        Ok(Some(region))
    }

    /// Writes a change into the journal, at its number's place.
    fn note(&self, change: &Change, address: u64) -> Result<(), Error> {
        let number = u64::from(change.numbers.first().copied().unwrap_or_default());
        let entry = self.data + data::JOURNAL + number * data::CHANGE_BYTES;
        let before = u64::from(u32::from_le_bytes(change.before)) | (change.at - address) << 32;
        self.memory.set_word(entry + 8, before)?;
        self.memory.set_word(entry + 16, u32::from_le_bytes(change.after).into())?;
        self.memory.set_word(entry, change.at)?;
        let changes = self.data + data::CHANGES;
        Ok(self.memory.set_word(changes, self.memory.word(changes)?.max(number + 1))?)
    }

    /// Stubs measure until this time, in ticks of the time stamp counter; the caller has to set it again and again.
    ///
    /// # Errors
    /// When the process ended.
    pub fn measure_until(&self, ticks: u64) -> Result<(), Error> {
        Ok(self.memory.set_word(self.data + data::DEADLINE, ticks)?)
    }

    /// The shared memory's address in the process.
    pub fn states(&self) -> u64 {
        self.states
    }

    /// The address ranges with the stubs' code.
    pub fn code(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.regions.iter().map(|&region| region..region + REGION_BYTES)
    }

    /// Sites that are not needed measure nothing any more, and keep their stubs.
    ///
    /// # Errors
    /// When the process ended.
    pub fn quiet(&mut self, is_needed: impl Fn(u64) -> bool) -> Result<(), Error> {
        for (_, change) in self.changes.iter().filter(|(address, _)| !is_needed(**address)) {
            for number in &change.numbers {
                let at = self.data + data::SITES + u64::from(*number) * data::SITE_BYTES;
                self.memory.write(at + data::SITE_PARENT, &data::NO_PARENT.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Gives all sites their code back. Returns the number of sites whose code is gone or replaced; these are left
    /// alone.
    ///
    /// # Errors
    /// When the process ended, or the kernel refused the break points for the change.
    pub fn restore(&mut self) -> Result<usize, Error> {
        if self.changes.is_empty() {
            return Ok(0);
        }
        let maps = self.process.mappings()?;
        let mut gone = 0;
        let is_ours = |change: &Change| {
            let mut now = [0; 4];
            let mapped = maps.iter().any(|it| it.addresses.contains(&change.at) && it.name.starts_with(b"/"));
            mapped && self.memory.read(change.at, &mut now).is_ok() && now == change.after
        };
        let (ours, others): (Vec<_>, Vec<_>) = self.changes.iter().partition(|(_, change)| is_ours(change));
        gone += others.iter().filter(|(_, change)| !change.numbers.is_empty()).count();
        let gate = Gate::at(
            self.process.pid(),
            ours.iter().map(|(_, change)| (change.file.as_path(), change.offset)),
        )
        .map_err(|why| Error::of("probes at the code", self.process.pid(), why))?;
        for (_, change) in &ours {
            if self.memory.write(change.at, &change.before).is_err() {
                gone += 1;
            }
        }
        drop(gate);
        for (address, change) in std::mem::take(&mut self.changes) {
            self.retire(address, change);
        }
        // Their number stays, so that the next owner does not reuse these stubs' places.
        let noted = self.memory.word(self.data + data::CHANGES)?.min(data::MAX_SITES);
        self.memory.write(self.data + data::JOURNAL, &vec![0; (noted * data::CHANGE_BYTES) as usize])?;
        Ok(gone)
    }

    /// The number of calls open in stubs: the return addresses on their stacks are ours.
    ///
    /// # Errors
    /// When the process ended.
    pub fn open_calls(&self) -> Result<usize, Error> {
        let count = (1_u64 << data::CALL_BITS) + data::CALL_WAYS;
        let mut bytes = vec![0; (count * data::CALL_BYTES) as usize];
        self.memory.read(self.data + data::CALLS, &mut bytes)?;
        let slots = bytes
            .chunks_exact(data::CALL_BYTES as usize)
            .map(|call| u64::from_le_bytes(call[..8].try_into().unwrap_or_default()));
        let is_open = |slot: &u64| {
            *slot != 0
                && self.memory.word(*slot).is_ok_and(|place| self.code().any(|code| code.contains(&place)))
        };
        Ok(slots.filter(is_open).count())
    }

    /// Takes all stubs out.
    ///
    /// # Errors
    /// When the process ended, or the kernel refused.
    pub fn end(mut self) -> Result<Left, Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Left, Error> {
        self.measure_until(0)?;
        let gone = self.restore()?;
        let open = self.open_calls()?;
        if open == 0 {
            self.deregister()?;
        }
        self.memory.set_word(self.data + data::OWNER, 0)?;
        Ok(Left { gone, open })
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

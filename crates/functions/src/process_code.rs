//! A running process's functions by address, and the calls in their code.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use wakepath_process::{FileId, Mapping, Memory, Process};

use crate::debug_file::debug_file;
use crate::error::{Refusal, RefusalReason};
use crate::find::{FunctionMap, OpenFile, extents, names_of};
use crate::function::{Function, Runtime};
use crate::identity::FileIdentity;
use crate::image::Image;
use crate::instruction::{MAX_BYTES, may_probe_behind_call};
use crate::kernel_code::{KernelCode, is_of_kernel};
use crate::library::{FileLocation, code_files, mapped_location};
use crate::place::{Budget, ProbeRequest, body};
use crate::sites::{CallSite, Callee, Operand, Sites, passed_on_by};

mod unwinding;

pub use unwinding::Unwinding;

/// The maximum number of linkage table entries to follow in a chain.
const MAX_PASSED_ON: usize = 4;
/// The maximum size of a linkage table entry: `endbr64` and a jump with a prefix, bytes.
const LINKAGE_BYTES: u64 = 16;

/// The code that a process has mapped from files. Read once, and again when missing code is asked for.
#[derive(Debug)]
pub struct ProcessCode {
    process: Process,
    exceptions: bool,
    memory: Memory,
    mappings: Vec<Mapping>,
    /// `None` for a file that cannot be read as code.
    files: HashMap<FileId, Option<CodeFile>>,
    /// The kernel code below it, where calls are followed into the kernel.
    kernel: Option<KernelCode>,
}

#[derive(Debug)]
struct CodeFile {
    place: FileLocation,
    image: Image,
    debug: Option<Image>,
}

/// A function in a process: its address, and its probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFunction {
    /// Its address in the process.
    pub address: u64,
    /// The function in its file.
    pub function: Function,
}

/// A place in a process where a function calls another function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSite {
    /// The instruction's address in the process.
    pub address: u64,
    /// The instruction's offset in its file.
    pub offset: u64,
    /// The return address in the process; `None` for a jump in place of a call and a return.
    pub returns_to: Option<u64>,
    /// The offset in the file of the instruction behind a call, if a probe may be put on it: it sees returns of functions that leave by a jump.
    pub behind: Option<u64>,
    /// The called function.
    pub callee: ProcessCallee,
}

/// The function that a process's site calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessCallee {
    /// A known function.
    Function(Box<ProcessFunction>),
    /// A function that no probe sees, with the reason.
    Refused(Refusal),
    /// A library function that the process has not called from there so far: the loader binds it at the first call.
    Unbound,
    /// A function whose address the program computes for the call.
    Computed(Operand),
    /// A kernel function, by the number of the system call there. Only where calls are followed into the kernel.
    OfKernel,
}

/// A function's calls in a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSites {
    /// By address within each part of the function.
    pub sites: Vec<ProcessSite>,
    /// Whether every byte of the function was decoded.
    pub whole: bool,
    /// The number of jumps to computed places: by `switch` tables, or calls in the last place.
    pub computed_jumps: usize,
}

impl ProcessCode {
    /// A process's code. With `exceptions`, functions that an exception may pass get no return probes.
    ///
    /// # Errors
    /// When the process does not exist, or its memory may not be read.
    pub fn of(pid: u32, exceptions: bool) -> io::Result<Self> {
        let process = Process::open(pid)?;
        let (memory, mappings) = (process.memory()?, code_files(&process)?);
        Ok(Self { process, exceptions, memory, mappings, files: HashMap::new(), kernel: None })
    }

    /// Follows calls into the kernel too.
    #[must_use]
    pub fn with_kernel(self, kernel: KernelCode) -> Self {
        Self { kernel: Some(kernel), ..self }
    }

    /// The kernel's code, where calls are followed into it.
    pub fn kernel(&mut self) -> Option<&mut KernelCode> {
        self.kernel.as_mut()
    }

    /// The address in the process of a function in a file; `None` if the process has not mapped it.
    pub fn address_of(&mut self, function: &Function) -> Option<u64> {
        let mappings = self.mappings_of(function);
        let key = mappings.first()?.file;
        self.open(&key);
        let offset = self.files.get(&key)?.as_ref()?.image.offset(function.address)?;
        mappings.iter().filter(|it| it.file == key).find_map(|mapping| mapping.address_of(offset))
    }

    /// A function's file as the process has it mapped: by its identity, else by its path, also by a symbolic link.
    fn mappings_of(&self, function: &Function) -> Vec<Mapping> {
        let identity = FileIdentity::of(&function.probe.file, &function.shown);
        let all = |is_it: &dyn Fn(&Mapping) -> bool| -> Vec<Mapping> {
            self.mappings.iter().filter(|mapping| is_it(mapping)).cloned().collect()
        };
        let same = all(&|mapping| identity.is_mapped(mapping));
        match same.is_empty() {
            true => all(&|mapping| {
                mapping.path().is_some_and(|path| path == function.shown || path == identity.path)
            }),
            false => same,
        }
    }

    /// A name for a function by which another run of the same code finds it: its file, the file's build, and its
    /// address there. `None` where the file names no build, so that another build would go unnoticed.
    pub fn place_of(&mut self, function: &ProcessFunction) -> Option<String> {
        if is_of_kernel(function.address) {
            return self.kernel.as_ref()?.place_of(function);
        }
        let (key, file_address) = self.locate(function.address).ok()?;
        let file = self.files.get(&key)?.as_ref()?;
        let build = hexadecimal(&file.image.build_id);
        let path = file.place.shown.to_str()?;
        (!build.is_empty()).then(|| format!("{build} {file_address:#x} {path}"))
    }

    /// The function with this name, by [`ProcessCode::place_of`]; `None` if the process has not mapped this build of
    /// its file.
    pub fn at_place(&mut self, place: &str) -> Option<ProcessFunction> {
        if let Some(found) = self.kernel.as_ref().and_then(|kernel| kernel.at_place(place)) {
            return Some(found);
        }
        let mut words = place.splitn(3, ' ');
        let (build, stated, path) = (words.next()?, words.next()?, words.next()?);
        let stated = u64::from_str_radix(stated.strip_prefix("0x")?, 16).ok()?;
        let mappings: Vec<Mapping> =
            self.mappings.iter().filter(|it| it.path() == Some(Path::new(path))).cloned().collect();
        let key = mappings.first()?.file;
        self.open(&key);
        let image = &self.files.get(&key)?.as_ref()?.image;
        let offset = image.offset(stated).filter(|_| hexadecimal(&image.build_id) == build)?;
        self.function_at(mappings.iter().find_map(|mapping| mapping.address_of(offset))?).ok()
    }

    /// The first of these functions whose code the process no longer has at its address: its file was unloaded, perhaps
    /// to be loaded again at another address.
    ///
    /// # Errors
    /// When the process does not exist any more.
    pub fn moved<'a>(
        &self,
        mut functions: impl Iterator<Item = &'a ProcessFunction>,
    ) -> io::Result<Option<&'a ProcessFunction>> {
        let now = code_files(&self.process)?;
        // The process has ended, and its parent has not waited for it yet.
        if now.is_empty() {
            return Ok(None);
        }
        Ok(functions.find(|of| {
            if is_of_kernel(of.address) {
                return false;
            }
            let found = now.iter().find_map(|it| it.offset_of(of.address).map(|offset| (it.file, offset)));
            let is_there = found.is_some_and(|(key, offset)| {
                let file = self.files.get(&key).and_then(Option::as_ref);
                file.is_some_and(|file| file.image.offset(of.function.address) == Some(offset))
            });
            !is_there
        }))
    }

    /// The file behind an address in the process's code: a path that leads to it, its path in the process's view, and
    /// the offset in it, bytes; `None` for code without a file.
    pub fn place_in_file(&mut self, address: u64) -> Option<(PathBuf, PathBuf, u64)> {
        let (key, _) = self.locate(address).ok()?;
        let (_, offset) = self.mapped(address)?;
        let place = &self.files.get(&key)?.as_ref()?.place;
        Some((place.open.clone(), place.shown.clone(), offset))
    }

    /// The function that begins at an address in the process.
    ///
    /// # Errors
    /// When there is no code from a file, or no probe can see its calls.
    pub fn function_at(&mut self, address: u64) -> Result<ProcessFunction, Refusal> {
        if let Some(kernel) = self.kernel.as_ref().filter(|_| is_of_kernel(address)) {
            return kernel.function_at(address);
        }
        let (key, file_address) = self.locate(address)?;
        let Some(Some(file)) = self.files.get(&key) else { return Err(unmapped(address)) };
        let function = file.function_at(file_address, self.exceptions)?;
        Ok(ProcessFunction { address, function })
    }

    /// The calls in a function's code. Callees joined by the linker or the loader are looked up in the process's
    /// memory.
    ///
    /// # Errors
    /// When the function's file is mapped no longer.
    pub fn sites(&mut self, of: &ProcessFunction) -> Result<ProcessSites, Refusal> {
        if let Some(kernel) = self.kernel.as_mut().filter(|_| is_of_kernel(of.address)) {
            return kernel.sites(of);
        }
        let (key, file_address) = self.locate(of.address)?;
        let Some(Some(file)) = self.files.get(&key) else { return Err(unmapped(of.address)) };
        let Sites { sites, whole, computed_jumps, system_calls } = file.sites(file_address);
        let offsets: Vec<(u64, Option<u64>)> = sites
            .iter()
            .map(|site| (file.image.offset(site.address).unwrap_or_default(), file.behind(site)))
            .collect();
        // The distance of the process's addresses from the file's.
        let above = of.address.wrapping_sub(file_address);
        let mut callees: HashMap<u64, ProcessCallee> = HashMap::new();
        let sites = sites.into_iter().zip(offsets).map(|(site, (offset, behind))| {
            let CallSite { address, returns_to, callee } = site;
            let callee = match callee {
                Callee::Computed(operand) => ProcessCallee::Computed(operand),
                Callee::At(target) => self.callee(&mut callees, target.wrapping_add(above)),
                Callee::Slot(slot) => match self.word(slot.wrapping_add(above)) {
                    Some(target) => self.callee(&mut callees, target),
                    None => ProcessCallee::Refused(unmapped(slot)),
                },
            };
            ProcessSite {
                address: address.wrapping_add(above),
                offset,
                returns_to: returns_to.map(|place| place.wrapping_add(above)),
                behind,
                callee,
            }
        });
        let mut sites: Vec<ProcessSite> = sites.collect();
        if self.kernel.is_some() {
            let Some(Some(file)) = self.files.get(&key) else { return Err(unmapped(of.address)) };
            sites.extend(system_calls.into_iter().map(|(at, behind)| ProcessSite {
                address: at.wrapping_add(above),
                offset: file.image.offset(at).unwrap_or_default(),
                returns_to: Some(behind.wrapping_add(above)),
                behind: None,
                callee: ProcessCallee::OfKernel,
            }));
        }
        Ok(ProcessSites { sites, whole, computed_jumps })
    }

    fn callee(&mut self, known: &mut HashMap<u64, ProcessCallee>, target: u64) -> ProcessCallee {
        if let Some(found) = known.get(&target) {
            return found.clone();
        }
        let found = self.look_up(target);
        known.insert(target, found.clone());
        found
    }

    /// The function behind a called address: behind linkage table entries, if the address is such an entry.
    fn look_up(&mut self, mut target: u64) -> ProcessCallee {
        for _ in 0..MAX_PASSED_ON {
            let (key, file_address) = match self.locate(target) {
                Ok(found) => found,
                Err(refusal) => return ProcessCallee::Refused(refusal),
            };
            let Some(Some(file)) = self.files.get(&key) else {
                return ProcessCallee::Refused(unmapped(target));
            };
            let code = file.image.code(file_address..file_address.saturating_add(LINKAGE_BYTES));
            // A function in this file that begins with a jump is a function all the same.
            let slot = (!file.begins_function(file_address))
                .then(|| passed_on_by(&code.unwrap_or_default(), file_address))
                .flatten();
            let Some(slot) = slot else {
                return match file.function_at(file_address, self.exceptions) {
                    Ok(function) => {
                        ProcessCallee::Function(Box::new(ProcessFunction { address: target, function }))
                    }
                    Err(refusal) => ProcessCallee::Refused(refusal),
                };
            };
            let Some(next) = self.word(target.wrapping_add(slot.wrapping_sub(file_address))) else {
                return ProcessCallee::Refused(unmapped(target));
            };
            // Before the first call, the place in memory leads back to the table, which calls the loader.
            if self.is_bound_later(next, target) {
                return ProcessCallee::Unbound;
            }
            target = next;
        }
        ProcessCallee::Unbound
    }

    /// Whether a linkage table's entry leads to an address in the same file where no function begins.
    fn is_bound_later(&mut self, next: u64, entry: u64) -> bool {
        let (Ok((own, _)), Ok((key, file_address))) = (self.locate(entry), self.locate(next)) else {
            return false;
        };
        let file = self.files.get(&key).and_then(Option::as_ref);
        own == key && file.is_some_and(|file| !file.begins_function(file_address))
    }

    /// The file behind an address in the process, open, and the address in the file.
    fn locate(&mut self, address: u64) -> Result<(FileId, u64), Refusal> {
        if self.mapped(address).is_none() {
            // A library may have been loaded since.
            self.mappings = code_files(&self.process).unwrap_or_default();
        }
        let (key, offset) = self.mapped(address).ok_or_else(|| unmapped(address))?;
        self.open(&key);
        let file = self.files.get(&key).and_then(Option::as_ref);
        let stated = file.and_then(|file| file.image.address(offset)).ok_or_else(|| unmapped(address))?;
        Ok((key, stated))
    }

    /// The file mapped at an address, and the offset in it, bytes.
    fn mapped(&self, address: u64) -> Option<(FileId, u64)> {
        self.mappings.iter().find_map(|it| it.offset_of(address).map(|offset| (it.file, offset)))
    }

    fn open(&mut self, key: &FileId) {
        if self.files.contains_key(key) {
            return;
        }
        let mapping = self.mappings.iter().find(|mapping| mapping.file == *key);
        let file = mapping.and_then(|mapping| CodeFile::open(mapped_location(self.process.pid(), mapping)));
        self.files.insert(*key, file);
    }

    /// A word in the process's memory.
    fn word(&self, address: u64) -> Option<u64> {
        self.memory.word(address).ok()
    }
}

impl CodeFile {
    fn open(place: FileLocation) -> Option<Self> {
        let mut image = Image::open(&place.open).ok()?;
        let mut debug = debug_file(&image, &place.shown, &place.root);
        if let Some(debug) = &mut debug {
            image.symbols.merge(std::mem::take(&mut debug.symbols));
        }
        Some(Self { place, image, debug })
    }

    fn begins_function(&self, address: u64) -> bool {
        !FunctionMap::of(&self.image).at(address).is_empty()
    }

    fn function_at(&self, address: u64, exceptions: bool) -> Result<Function, Refusal> {
        let Self { image, debug, place } = self;
        let file = OpenFile { image, debug: debug.as_ref(), place, exceptions, learns: true };
        let neighbours = FunctionMap::of(image);
        let symbols = neighbours.at(address);
        let mut names = names_of(image, &[], symbols);
        if names.is_empty() {
            // A stripped file.
            names.push(place.name_of(address));
        }
        let name = names.first().cloned().unwrap_or_default();
        let found = file.function(address, symbols, names, &neighbours, &Budget::of(image));
        found.map_err(|why| Refusal { name, file: place.shown.display().to_string(), why })
    }

    /// The offset behind a call, if a probe may be put there.
    fn behind(&self, site: &CallSite) -> Option<u64> {
        let behind = site.returns_to?;
        let call = self.image.code(site.address..behind).ok()?;
        let code = self.image.code(behind..behind.saturating_add(MAX_BYTES as u64)).ok()?;
        may_probe_behind_call(&call, &code, behind).then(|| self.image.offset(behind)).flatten()
    }

    fn sites(&self, address: u64) -> Sites {
        let neighbours = FunctionMap::of(&self.image);
        let symbols = neighbours.at(address);
        let names = names_of(&self.image, &[], symbols);
        let (main, cold) = extents(&self.image, address, symbols, &names, &neighbours);
        let is_go = self.image.go && neighbours.is_go(address);
        let wanted = ProbeRequest {
            main,
            cold: &cold,
            runtime: if is_go { Runtime::Go } else { Runtime::Native },
            // So that parts elsewhere are found in the table for unwinding.
            unwinds: true,
            switches: false,
            uncalled: false,
            learns: false,
            name: &|_| None,
        };
        Sites::of(&body(&self.image, &wanted, &Budget::of(&self.image)))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unmapped(address: u64) -> Refusal {
    Refusal {
        name: format!("{address:#x}"),
        file: "memory".to_owned(),
        why: RefusalReason::NotCode { address },
    }
}

#[cfg(test)]
mod tests;

//! CPython in a process: the places in the interpreter where Python functions begin and end.
//!
//! The interpreter's built-in probe `function__return` is passed at each end. Its counterpart `function__entry` is
//! passed only while a Python profiler is on (CPython 3.11), so that a function is seen to begin in the interpreter's
//! code for the instruction RESUME. This code is found by the interpreter's instruction table: 256 code addresses, one
//! behind the other.

mod code;
mod layout;
mod note;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags};
use wakepath_process::{Error, Memory, Process};

pub use code::PythonCode;

use crate::instruction::{ProbeMethod, decode, probed};
use crate::library::{code_files, mapped_location};

/// The maximum size of an interpreter's file, bytes.
const MAX_FILE: u64 = 512 << 20;
/// The number of instructions in the table.
const INSTRUCTIONS: usize = 256;
/// At least this number of them are in the interpreter's main function; the others were put aside as rarely used.
const MANY: usize = 64;
/// The maximum number of machine instructions from the beginning of an instruction's code to a place for a probe.
const MAX_AWAY: usize = 24;

/// A process's interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// Its file, to be given to the kernel.
    pub file: PathBuf,
    /// The file's path as the process sees it.
    pub shown: PathBuf,
    /// The places where functions begin or go on, bytes from the file's beginning.
    pub begins: Vec<u64>,
    /// The place where they end.
    pub ends: u64,
    /// The place of the end probe's counter: the interpreter passes the probe where the counter is not 0.
    pub semaphore: u64,
    /// The address at which the process keeps the state of the thread with the interpreter's lock.
    pub thread: u64,
}

/// The error for a process whose Python functions cannot be seen.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PythonError {
    #[error("cannot read process {pid}: {source}")]
    Process { pid: u32, source: io::Error },
    #[error("process {pid} runs no CPython: none of its files has the interpreter of Python")]
    NoPython { pid: u32 },
    #[error("cannot read {}: {source}", .file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} is damaged: {what}", .file.display())]
    Damaged { file: PathBuf, what: String },
    #[error(
        "{} is CPython {}.{}: functions of Python are followed in 3.11, whose structures are known", .file.display(), .major, .minor
    )]
    Release { file: PathBuf, major: u64, minor: u64 },
    #[error("{} is CPython before 3.11: functions of Python are followed in 3.11, whose structures are known", .file.display())]
    OldRelease { file: PathBuf },
    #[error("{} was built without CPython's probes: nothing shows where its functions end", .file.display())]
    NoProbes { file: PathBuf },
    #[error("in {}, no place is found where functions of Python begin: its code for RESUME has another form", .file.display())]
    NoPlace { file: PathBuf },
}

/// A process's interpreter.
///
/// # Errors
/// When it has none, or an interpreter that shows too little.
pub fn python_of(pid: u32) -> Result<Python, PythonError> {
    let of_process = |error: Error| PythonError::Process { pid, source: error.into() };
    let process = Process::open(pid).map_err(of_process)?;
    let memory = process.memory().map_err(of_process)?;
    let is_candidate = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().to_lowercase().contains("python"))
    };
    let program = process.program().unwrap_or_default();
    let is_meant = |path: &Path| is_candidate(path) || path == program;
    for mapping in code_files(&process).map_err(of_process)? {
        if !mapping.path().is_some_and(is_meant) {
            continue;
        }
        let place = mapped_location(pid, &mapping);
        let found = Interpreter::read(&place.open, &place.shown)?;
        let Some(found) = found else { continue };
        let bias = found.bias(mapping.offset, mapping.addresses.start);
        let Some(bias) = bias else { continue };
        return found.places(&memory, bias, &place.open, &place.shown);
    }
    Err(PythonError::NoPython { pid })
}

/// The parts read from an interpreter's file.
struct Interpreter {
    /// The mapped parts of the file: addresses, the offset in the file, and whether they are code.
    segments: Vec<(Range<u64>, u64, bool)>,
    /// The function that interprets.
    main: Range<u64>,
    /// `_PyRuntime`; `None` before 3.7.
    runtime: Option<u64>,
    release: Option<u64>,
    /// The place of `function__return`, and its semaphore.
    ends: Option<(u64, u64)>,
    bytes: Vec<u8>,
}

impl Interpreter {
    /// The interpreter in a file; `None` if there is none.
    fn read(open: &Path, shown: &Path) -> Result<Option<Self>, PythonError> {
        let failed = |source| PythonError::File { file: shown.to_owned(), source };
        let file = File::open(open).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if length > MAX_FILE {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let damaged =
            |what: object::Error| PythonError::Damaged { file: shown.to_owned(), what: what.to_string() };
        let elf = object::File::parse(bytes.as_slice()).map_err(damaged)?;
        let symbol = |name: &str| {
            elf.dynamic_symbols()
                .chain(elf.symbols())
                .find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))
                .map(|symbol| symbol.address()..symbol.address().saturating_add(symbol.size()))
        };
        // The second name is Python 2's.
        let main = symbol("_PyEval_EvalFrameDefault").or_else(|| symbol("PyEval_EvalFrameEx"));
        let Some(main) = main else { return Ok(None) };
        let runtime = symbol("_PyRuntime").map(|at| at.start);
        let segment = |segment: object::Segment<'_, '_>| {
            let (offset, size) = segment.file_range();
            let is_code = matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & 1 != 0);
            (segment.address()..segment.address().saturating_add(size), offset, is_code)
        };
        let segments: Vec<_> = elf.segments().map(segment).collect();
        let version = symbol("Py_Version").and_then(|at| {
            let at = offset_in(&segments, at.start)? as usize;
            Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
        });
        let base = elf.section_by_name(".stapsdt.base").map_or(0, |section| section.address());
        let notes = elf.section_by_name(".note.stapsdt").and_then(|section| section.data().ok());
        let ends = notes.and_then(|notes| note::find(notes, base, "python", "function__return"));
        let ends = ends.and_then(|(place, semaphore)| {
            Some((offset_in(&segments, place)?, offset_in(&segments, semaphore)?))
        });
        let release = version.map(|version| version >> 16);
        Ok(Some(Self { main, runtime, release, ends, segments, bytes }))
    }

    /// The distance of the process's addresses from the file's.
    fn bias(&self, offset: u64, address: u64) -> Option<u64> {
        let of = |(addresses, at, is_code): &(Range<u64>, u64, bool)| {
            let into = at.wrapping_sub(addresses.start);
            (*is_code && (at & !4095) <= offset && offset < at + (addresses.end - addresses.start))
                .then(|| address.wrapping_sub(offset.wrapping_sub(into)))
        };
        self.segments.iter().find_map(of)
    }

    fn places(&self, memory: &Memory, bias: u64, open: &Path, shown: &Path) -> Result<Python, PythonError> {
        let file = || shown.to_owned();
        let runtime = match (self.release, self.runtime) {
            (Some(layout::RELEASE), Some(runtime)) => runtime,
            // `Py_Version` came with 3.11.
            (None, _) | (_, None) => return Err(PythonError::OldRelease { file: file() }),
            (Some(other), _) => {
                return Err(PythonError::Release { file: file(), major: other >> 8, minor: other & 255 });
            }
        };
        let (ends, semaphore) = self.ends.ok_or_else(|| PythonError::NoProbes { file: file() })?;
        let table = self.table(memory, bias).ok_or_else(|| PythonError::NoPlace { file: file() })?;
        let mut begins: Vec<u64> = [layout::RESUME, layout::RESUME_QUICK]
            .iter()
            .filter_map(|instruction| self.place_behind(*table.get(*instruction)?))
            .collect();
        begins.sort_unstable();
        begins.dedup();
        if begins.is_empty() {
            return Err(PythonError::NoPlace { file: file() });
        }
        let thread = runtime.wrapping_add(bias).wrapping_add(layout::CURRENT_THREAD);
        Ok(Python { file: open.to_owned(), shown: file(), begins, ends, semaphore, thread })
    }

    /// The addresses of the code for each instruction, as in the file. The process has its own addresses there, from
    /// the loader.
    fn table(&self, memory: &Memory, bias: u64) -> Option<Vec<u64>> {
        let is_code =
            |at: u64| self.segments.iter().any(|(addresses, _, code)| *code && addresses.contains(&at));
        for (addresses, ..) in self.segments.iter().filter(|(.., is_code)| !is_code) {
            let at = addresses.start.wrapping_add(bias);
            let Ok(bytes) = memory.bytes(at, addresses.end - addresses.start) else { continue };
            let words: Vec<u64> = bytes
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()).wrapping_sub(bias))
                .collect();
            if let Some(found) = table_in(&words, is_code, &self.main) {
                return Some(found.to_vec());
            }
        }
        None
    }

    /// The first place from an address on that always comes next and need not be single-stepped, as an offset in the
    /// file.
    fn place_behind(&self, address: u64) -> Option<u64> {
        let mut at = address;
        for _ in 0..MAX_AWAY {
            let offset = offset_in(&self.segments, at)?;
            let code = self.bytes.get(offset as usize..)?;
            let code = &code[..code.len().min(64)];
            let found = probed(code, at)?;
            match found.method {
                // No 5-byte no-operation amid a function: a call in its place would write below the stack pointer.
                Some(ProbeMethod::Emulated) => return Some(offset),
                Some(_) if decode(code, at)?.flow_control() == iced_x86::FlowControl::Next => {}
                _ => return None,
            }
            at = at.checked_add(found.length as u64)?;
        }
        None
    }
}

/// The first instruction table among these words.
fn table_in<'a>(words: &'a [u64], is_code: impl Fn(u64) -> bool, main: &Range<u64>) -> Option<&'a [u64]> {
    let mut run = 0;
    for (at, word) in words.iter().enumerate() {
        run = if is_code(*word) { run + 1 } else { 0 };
        if run < INSTRUCTIONS {
            continue;
        }
        let table = &words[at + 1 - INSTRUCTIONS..=at];
        let of_main = table.iter().filter(|word| main.contains(word)).count();
        // Other code addresses may stand before or behind it: the last instruction and the first are in the function
        // too.
        let is_whole = [table[layout::RESUME], table[layout::RESUME_QUICK], table[INSTRUCTIONS - 1]]
            .iter()
            .all(|word| main.contains(word));
        if of_main >= MANY && is_whole {
            return Some(table);
        }
    }
    None
}

fn offset_in(segments: &[(Range<u64>, u64, bool)], address: u64) -> Option<u64> {
    let (addresses, offset, _) = segments.iter().find(|(addresses, ..)| addresses.contains(&address))?;
    offset.checked_add(address - addresses.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_instructions_is_256_places_of_code_most_of_one_function() {
        let main = 1000..2000;
        let is_code = |at: u64| (500..5000).contains(&at);
        let mut words = vec![7; 50];
        // Another table stands before it.
        words.extend(vec![3000; 300]);
        words.push(0);
        words.extend((0..256).map(|number| if number % 2 == 0 { 1000 + number } else { 4000 }));
        words[351 + layout::RESUME] = 1500;
        words[351 + 255] = 1999;
        words.push(0);
        let found = table_in(&words, is_code, &main).expect("a table");
        assert_eq!((found.len(), found[0], found[layout::RESUME], found[255]), (256, 1000, 1500, 1999));
        words[351 + layout::RESUME] = 0;
        assert_eq!(table_in(&words, is_code, &main), None, "cut in two");
        assert_eq!(table_in(&words[..400], is_code, &main), None);
        assert_eq!(table_in(&[], is_code, &main), None);
        let mut of_others = vec![4000; INSTRUCTIONS];
        for at in [layout::RESUME, layout::RESUME_QUICK, INSTRUCTIONS - 1] {
            of_others[at] = 1000;
        }
        assert_eq!(table_in(&of_others, is_code, &main), None, "three addresses of the function");
    }

    #[test]
    fn a_process_without_python_is_said_to_be_one() {
        let error = python_of(std::process::id()).expect_err("no Python").to_string();
        assert!(error.contains("runs no CPython"), "{error}");
        assert!(matches!(python_of(0), Err(PythonError::Process { .. })));
    }
}

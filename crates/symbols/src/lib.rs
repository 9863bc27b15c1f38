//! Finds the function, file and line of an address in a program's file or in the running kernel.
//!
//! A file is taken to be the recorded one if its build id is the recorded one. A file that was replaced since
//! would give names that look right and are wrong, so it is reported as replaced. The paths come from a
//! recording, which is not trusted: only regular files are opened.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use blazesym::MaybeDefault;
use blazesym::helper::read_elf_build_id;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};

/// Code in a file, as a process had it mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code<'a> {
    /// The file's path.
    pub path: &'a [u8],
    /// The offset in the file, bytes.
    pub offset: u64,
    /// The file's build id when it was recorded, or empty.
    pub build_id: &'a [u8],
}

/// The result of looking up an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Found {
    /// In this function.
    Function(Function),
    /// In this file, which has no name for it.
    Unnamed(Vec<u8>),
    /// In this file, which was replaced since the recording, or has no build id to compare.
    Replaced(Vec<u8>),
    /// In this file, which cannot be read here.
    Unreadable(Vec<u8>),
    /// In the kernel; its symbols cannot be read here.
    Kernel,
}

/// A place in the code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// The function's name; the innermost one where functions were inlined.
    pub name: String,
    /// The last component of its file's path; `None` for the kernel.
    pub module: Option<Vec<u8>>,
    /// The last component of its source file, and the line; `None` without debug information.
    pub line: Option<(String, u32)>,
}

/// Finds functions, and remembers the files that it read.
pub struct Symbols {
    symbolizer: Symbolizer,
    files: HashMap<(Vec<u8>, Vec<u8>), Trust>,
    kernel: bool,
    same_boot: bool,
}

/// Whether a file is the one that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Same,
    Replaced,
    Unreadable,
}

impl Symbols {
    /// For the recordings of a host. `same_boot`: it is this host, in the same boot; then the kernel's addresses
    /// still hold, and a file without a build id is taken to be the recorded one.
    pub fn new(same_boot: bool) -> Self {
        Self {
            symbolizer: Symbolizer::builder().enable_code_info(true).enable_inlined_fns(true).build(),
            files: HashMap::new(),
            kernel: same_boot && kernel_symbols_are_readable(),
            same_boot,
        }
    }

    /// The function at a place in a file.
    pub fn in_file(&mut self, code: Code) -> Found {
        match self.trust(code) {
            Trust::Same => {}
            Trust::Replaced => return Found::Replaced(last_component(code.path)),
            Trust::Unreadable => return Found::Unreadable(last_component(code.path)),
        }
        let source = Source::Elf(Elf::new(Path::new(OsStr::from_bytes(code.path))));
        match self.symbolizer.symbolize_single(&source, Input::FileOffset(code.offset)) {
            Ok(Symbolized::Sym(symbol)) => {
                Found::Function(function(&symbol, Some(last_component(code.path))))
            }
            Ok(Symbolized::Unknown(_)) => Found::Unnamed(last_component(code.path)),
            Err(_) => Found::Unreadable(last_component(code.path)),
        }
    }

    /// The function at an address of the kernel.
    pub fn in_kernel(&self, address: u64) -> Found {
        if !self.kernel {
            return Found::Kernel;
        }
        // Without vmlinux: reading its debug information takes seconds, and its lines are not needed.
        let kernel = Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() };
        match self.symbolizer.symbolize_single(&Source::Kernel(kernel), Input::AbsAddr(address)) {
            Ok(Symbolized::Sym(symbol)) => Found::Function(function(&symbol, None)),
            Ok(Symbolized::Unknown(_)) | Err(_) => Found::Kernel,
        }
    }

    fn trust(&mut self, code: Code) -> Trust {
        let same_boot = self.same_boot;
        let key = (code.path.to_vec(), code.build_id.to_vec());
        *self.files.entry(key).or_insert_with(|| {
            let path = PathBuf::from(OsStr::from_bytes(code.path));
            // A pipe or a device would be opened, and perhaps never answer.
            if !path.is_absolute() || !path.metadata().is_ok_and(|data| data.is_file()) {
                return Trust::Unreadable;
            }
            match read_elf_build_id(&path) {
                Ok(Some(id)) if *id == *code.build_id => Trust::Same,
                Ok(None) if code.build_id.is_empty() && same_boot => Trust::Same,
                Ok(_) => Trust::Replaced,
                Err(_) => Trust::Unreadable,
            }
        })
    }
}

fn function(symbol: &Sym, module: Option<Vec<u8>>) -> Function {
    // The processor was in the innermost inlined function, which has the line.
    let (name, place) = match symbol.inlined.last() {
        Some(inlined) => (&inlined.name, inlined.code_info.as_ref()),
        None => (&symbol.name, symbol.code_info.as_deref()),
    };
    let line = place.and_then(|place| Some((place.file.to_string_lossy().into_owned(), place.line?)));
    let line = line.map(|(file, line)| (file.rsplit('/').next().unwrap_or_default().to_owned(), line));
    Function { name: name.to_string(), module, line }
}

fn last_component(path: &[u8]) -> Vec<u8> {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path).to_vec()
}

/// Whether `/proc/kallsyms` has addresses: without the privilege to read them, all are 0.
fn kernel_symbols_are_readable() -> bool {
    use std::io::{BufRead, BufReader};
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else { return false };
    let known = |line: String| !line.starts_with("0000000000000000");
    BufReader::new(file).lines().map_while(Result::ok).take(1000).any(known)
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols").field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function to be found.
    #[inline(never)]
    fn a_function_of_the_test(n: u64) -> u64 {
        std::hint::black_box(n + 1)
    }

    /// The path of the file that this process has mapped at `address`, and the offset in it.
    fn mapped(address: u64) -> (Vec<u8>, u64) {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("our own mappings");
        for line in maps.lines() {
            let mut fields = line.split_whitespace();
            let range = fields.next().expect("a range");
            let hex = |text| u64::from_str_radix(text, 16).expect("a number");
            let (from, to) = range.split_once('-').map(|(from, to)| (hex(from), hex(to))).expect("a range");
            let offset = hex(fields.nth(1).expect("an offset"));
            if (from..to).contains(&address) {
                return (fields.last().expect("a path").as_bytes().to_vec(), address - from + offset);
            }
        }
        panic!("{address:#x} is not mapped");
    }

    fn ours() -> (Vec<u8>, u64, Vec<u8>) {
        let (path, offset) = mapped(a_function_of_the_test as *const () as u64);
        let id = read_elf_build_id(Path::new(OsStr::from_bytes(&path))).expect("an ELF file");
        (path, offset, id.map(|id| id.to_vec()).unwrap_or_default())
    }

    #[test]
    fn a_function_is_found_by_the_offset_of_its_code_in_its_file() {
        let (path, offset, build_id) = ours();
        let found = Symbols::new(true).in_file(Code { path: &path, offset, build_id: &build_id });
        let Found::Function(function) = found else { panic!("{found:?}") };
        assert!(function.name.ends_with("a_function_of_the_test"), "{function:?}");
        assert_eq!(function.module, Some(last_component(&path)));
        assert_eq!(function.line.expect("tests have debug information").0, "lib.rs");
    }

    #[test]
    fn a_replaced_file_is_reported_and_its_names_are_not_used() {
        let (path, offset, build_id) = ours();
        for other in [&b"another"[..], &[]] {
            let code = Code { path: &path, offset, build_id: other };
            // A file without a build id is trusted only in the same boot.
            let same_boot = !build_id.is_empty();
            assert_eq!(Symbols::new(same_boot).in_file(code), Found::Replaced(last_component(&path)));
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        for path in ["/dev/zero", "/proc/self/fd/0", "/", "relative", "/nonexistent", ""] {
            let code = Code { path: path.as_bytes(), offset: 0, build_id: b"x" };
            let found = Symbols::new(true).in_file(code);
            assert_eq!(found, Found::Unreadable(last_component(path.as_bytes())), "{path}");
        }
    }

    #[test]
    fn a_pipe_without_a_writer_does_not_block_the_lookup() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let code = Code { path: pipe.as_os_str().as_bytes(), offset: 0, build_id: b"x" };
            sender.send(Symbols::new(true).in_file(code))
        });
        let found = receiver.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(found, Ok(Found::Unreadable(b"pipe".to_vec())));
    }

    #[test]
    fn a_kernel_of_another_boot_has_no_names() {
        assert_eq!(Symbols::new(false).in_kernel(0xffff_ffff_8100_0000), Found::Kernel);
    }
}

//! Finds the function, file and line for an address in a program's file or in the running kernel.
//!
//! A file is taken for the recorded file if it has the recorded build id. Another file, from another machine or
//! replaced since, would give names that look right and are wrong, so it is reported as such. The paths come from a
//! recording, which is not trusted: only regular files are opened.
//!
//! A stripped file's names are in its debug file ([`installed_debug_file`]), or packed into it. Servers are asked only
//! where a caller gives them ([`DebugFiles`]); the build id in their files is the proof.

pub mod demangle;
mod elf;
mod exported;
mod kept;
mod separate;
mod vdso;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use blazesym::MaybeDefault;
use blazesym::helper::read_elf_build_id;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};

use elf::Facts;
pub use elf::debug_link;
use exported::Exported;
pub use kept::Kept;
use kept::{Held, MAX_FILE_BYTES};
pub use separate::{ByBuildId, DebugFiles, Wanted, has_build_id, installed_debug_file};
use separate::{below_debug, unpacked};

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
    /// In this file, which was replaced since the recording.
    Replaced(Vec<u8>),
    /// In this file; the file with its path here is different: from another machine, or from a container.
    Another(Vec<u8>),
    /// In this file; without a build id, nothing shows whether the file with its path here is the recorded file.
    Unproved(Vec<u8>),
    /// In this file, which cannot be read here.
    Unreadable(Vec<u8>),
    /// In a process whose files were not recorded.
    Unmapped,
    /// In the kernel; its symbols may not be read here.
    Kernel,
    /// In a kernel that runs no longer, or on another machine.
    AnotherKernel,
}

/// The boot during a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Boot {
    /// This machine's current boot.
    This {
        /// When the recording began, ns since 1970, where known.
        began_ns: Option<u64>,
    },
    /// An earlier boot, or another machine's.
    Another,
}

/// A place in the code.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// The function's name; the innermost function's where functions were inlined.
    pub name: String,
    /// The last component of its file's path; `None` for the kernel.
    pub module: Option<Vec<u8>>,
    /// The last component of its source file, and the line; `None` without debug information.
    pub line: Option<(String, u32)>,
}

/// Finds functions, and remembers the files that it read.
pub struct Symbols {
    symbolizer: Symbolizer,
    files: HashMap<(Vec<u8>, Vec<u8>), Names>,
    kernel: KernelNames,
    vdso: Option<Exported>,
    boot: Boot,
    kept: Kept,
    debug_files: DebugFiles,
    /// Links to the servers' files with data shared by debug files, for the symbolizer.
    shared: Option<tempfile::TempDir>,
    /// The folder below which debug files are installed.
    root: PathBuf,
}

/// The source of the kernel functions' names.
#[derive(Debug)]
enum KernelNames {
    Running,
    Kept(Held),
    Forbidden,
    AnotherBoots,
}

/// The path of the `[vdso]` in a recording.
const VDSO: &[u8] = b"[vdso]";

/// Whether a file is the recorded file.
#[derive(Debug)]
enum Trust {
    Same,
    /// The recorded file, held open: kept since the recording, or from a server.
    Held(Held),
    Replaced,
    Another,
    Unproved,
    Unreadable,
}

/// The places with names for a file's code.
#[derive(Debug)]
struct Names {
    program: Trust,
    debug: Option<DebugFile>,
    /// The facts about the program; without it, about its debug file.
    facts: Facts,
    /// The program's exported functions, where the symbolizer would stop at packed symbols.
    exported: Option<Exported>,
    /// The shared data, held open while its path is used.
    _shared: Option<Held>,
}

/// A debug file.
#[derive(Debug)]
enum DebugFile {
    Installed(PathBuf),
    Held(Held),
}

impl DebugFile {
    fn path(&self) -> PathBuf {
        match self {
            Self::Installed(path) => path.clone(),
            Self::Held(held) => held.path(),
        }
    }
}

impl Symbols {
    /// For a host's recordings. In the same boot the kernel's addresses still hold, and a file without a build id is
    /// taken for the recorded file. Files in `kept` are read where others may not be; `debug_files` are asked for what
    /// is not installed.
    pub fn new(boot: Boot, kept: Kept, debug_files: DebugFiles) -> Self {
        let kernel = match (boot, kernel_symbols_are_readable()) {
            (Boot::Another, _) => KernelNames::AnotherBoots,
            (Boot::This { .. }, true) => KernelNames::Running,
            (Boot::This { .. }, false) => kept.kernel().map_or(KernelNames::Forbidden, KernelNames::Kept),
        };
        let shared = if debug_files.ask_servers() { tempfile::tempdir().ok() } else { None };
        Self {
            symbolizer: symbolizer(shared.as_ref(), true),
            files: HashMap::new(),
            kernel,
            vdso: None,
            boot,
            kept,
            debug_files,
            shared,
            root: PathBuf::from("/"),
        }
    }

    /// The same for whole functions: code inlined into a function belongs to it.
    pub fn with_whole_functions(self) -> Self {
        Self { symbolizer: symbolizer(self.shared.as_ref(), false), ..self }
    }

    /// The function at a place in a file, which has the name of its path's last component.
    pub fn in_file(&mut self, code: Code) -> Found {
        self.in_file_named(code, &last_component(code.path))
    }

    /// The same in a file with another name, from a link to it.
    pub fn in_file_named(&mut self, code: Code, name: &[u8]) -> Found {
        let file = || name.to_vec();
        if code.path == VDSO {
            return self.in_vdso(code.offset);
        }
        let key = (code.path.to_vec(), code.build_id.to_vec());
        if !self.files.contains_key(&key) {
            let names = self.names(code, name);
            self.files.insert(key.clone(), names);
        }
        let Names { program, debug, facts, exported, .. } = &self.files[&key];
        let lacks_names = debug.is_none() && !facts.has_symbols && !code.build_id.is_empty();
        if let Some(debug) = debug
            && let Some(address) = facts.address(code.offset)
            && let Ok(Symbolized::Sym(symbol)) = self.symbolize(debug.path(), Input::VirtOffset(address))
        {
            return Found::Function(function(&symbol, Some(file())));
        }
        let found = match program {
            Trust::Same | Trust::Held(_) if exported.is_some() => {
                let name = exported.as_ref().and_then(|it| it.function(facts.address(code.offset)?));
                let function =
                    |name: &str| Function { name: readable(name), module: Some(file()), line: None };
                name.map_or_else(|| Found::Unnamed(file()), |name| Found::Function(function(name)))
            }
            Trust::Same => self.symbol(PathBuf::from(OsStr::from_bytes(code.path)), code.offset, name),
            Trust::Held(held) => self.symbol(held.path(), code.offset, name),
            Trust::Replaced => Found::Replaced(file()),
            Trust::Another => Found::Another(file()),
            Trust::Unproved => Found::Unproved(file()),
            Trust::Unreadable => Found::Unreadable(file()),
        };
        if lacks_names && !matches!(found, Found::Function(_)) && !self.debug_files.ask_servers() {
            self.debug_files.note(name);
        }
        found
    }

    fn symbol(&self, path: PathBuf, offset: u64, name: &[u8]) -> Found {
        match self.symbolize(path, Input::FileOffset(offset)) {
            Ok(Symbolized::Sym(symbol)) => Found::Function(function(&symbol, Some(name.to_vec()))),
            Ok(Symbolized::Unknown(_)) => Found::Unnamed(name.to_vec()),
            Err(_) => Found::Unreadable(name.to_vec()),
        }
    }

    /// Looks an address up. Where the debug information cannot be read, the symbols alone are.
    fn symbolize(&self, path: PathBuf, at: Input<u64>) -> Result<Symbolized<'_>, blazesym::Error> {
        let mut elf = Elf::new(path);
        let whole = self.symbolizer.symbolize_single(&Source::Elf(elf.clone()), at);
        whole.or_else(|_| {
            elf.debug_syms = false;
            self.symbolizer.symbolize_single(&Source::Elf(elf), at)
        })
    }

    /// The function at a place in the file that a path leads to now, whatever was recorded.
    pub fn in_file_as_it_is(&mut self, path: &Path, offset: u64) -> Found {
        let id = read_elf_build_id(path).ok().flatten().unwrap_or_default();
        self.in_file(Code { path: path.as_os_str().as_bytes(), offset, build_id: &id })
    }

    fn in_vdso(&mut self, offset: u64) -> Found {
        if self.boot == Boot::Another {
            return Found::Another(VDSO.to_vec());
        }
        match self.vdso.get_or_insert_with(vdso::this_process).function(offset) {
            Some(name) => {
                let module = Some(VDSO.to_vec());
                Found::Function(Function { name: name.to_owned(), module, line: None })
            }
            None => Found::Unnamed(VDSO.to_vec()),
        }
    }

    /// The function at a kernel address.
    pub fn in_kernel(&self, address: u64) -> Found {
        let kallsyms = match &self.kernel {
            KernelNames::Running => MaybeDefault::Default,
            KernelNames::Kept(copied) => MaybeDefault::Some(copied.path()),
            KernelNames::Forbidden => return Found::Kernel,
            KernelNames::AnotherBoots => return Found::AnotherKernel,
        };
        // Without vmlinux: reading its debug information takes seconds, and its lines are not needed.
        let kernel = Kernel { kallsyms, vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() };
        match self.symbolizer.symbolize_single(&Source::Kernel(kernel), Input::AbsAddr(address)) {
            Ok(Symbolized::Sym(symbol)) => Found::Function(function(&symbol, None)),
            Ok(Symbolized::Unknown(_)) | Err(_) => Found::Kernel,
        }
    }

    /// Finds a file's names: its debug file, and the shared data.
    fn names(&self, code: Code, name: &[u8]) -> Names {
        let mut program = match self.kept.file(code.path, code.build_id) {
            Some(held) => Trust::Held(held),
            None => by_path(code, self.boot),
        };
        let path = match &program {
            Trust::Same => Some(PathBuf::from(OsStr::from_bytes(code.path))),
            Trust::Held(held) => Some(held.path()),
            _ => None,
        };
        let opened = path.as_ref().and_then(|path| File::open(path).ok());
        let facts = opened.as_ref().and_then(Facts::read);
        let debug = match &facts {
            Some(facts) if facts.has_symbols => None,
            _ => self.debug_file(code, path.as_deref(), facts.as_ref(), opened.as_ref(), name),
        };
        let of_debug = || debug.as_ref().and_then(|debug| Facts::read(&File::open(debug.path()).ok()?));
        let shared = of_debug().and_then(|facts| self.shared(&facts.shared?, name));
        // The debug file may have lost the places for the program's bytes.
        let facts = facts.or_else(|| of_debug().filter(|facts| facts.address(code.offset).is_some()));
        let facts = facts.or_else(|| {
            let held = self.debug_files.ask(Wanted::Program, code.build_id, name)?;
            let facts = Facts::read(&File::open(held.path()).ok()?)?;
            program = Trust::Held(held);
            Some(facts)
        });
        let facts = facts.unwrap_or_default();
        let is_packed = facts.packed.is_some() && !facts.has_symbols;
        let exported = opened.filter(|_| is_packed).and_then(|mut program| {
            let mut bytes = Vec::new();
            program.rewind().ok()?;
            program.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
            Exported::read(&bytes)
        });
        Names { program, debug, facts, exported, _shared: shared }
    }

    /// A program's debug file: the installed file, else a server's, else the file in the program.
    fn debug_file(
        &self,
        code: Code,
        path: Option<&Path>,
        facts: Option<&Facts>,
        program: Option<&File>,
        name: &[u8],
    ) -> Option<DebugFile> {
        let shown = Path::new(OsStr::from_bytes(code.path));
        let link = facts.and_then(|facts| facts.link.as_ref());
        let link = link.map(|(name, checksum)| (name.as_slice(), *checksum));
        let open = |path: &Path| {
            // A folder or a pipe is no debug file.
            path.is_file().then(|| (path.to_owned(), has_build_id(path, code.build_id)))
        };
        let places = (shown, self.root.as_path());
        let program_path = path.unwrap_or(shown);
        let installed = installed_debug_file(code.build_id, link, program_path, places, open);
        let asked = || self.debug_files.ask(Wanted::DebugInfo, code.build_id, name);
        let packed = || unpacked(program?, facts?.packed?);
        installed.map(DebugFile::Installed).or_else(|| asked().or_else(packed).map(DebugFile::Held))
    }

    /// Gets the data shared by debug files, unless it is installed, and puts it where the symbolizer finds it.
    fn shared(&self, build_id: &[u8], name: &[u8]) -> Option<Held> {
        let below = below_debug(build_id)?;
        if self.root.join("usr/lib/debug").join(&below).exists() {
            return None;
        }
        let link = self.shared.as_ref()?.path().join(below);
        let held = self.debug_files.ask(Wanted::DebugInfo, build_id, name)?;
        std::fs::create_dir_all(link.parent()?).ok()?;
        std::os::unix::fs::symlink(held.path(), link).ok()?;
        Some(held)
    }
}

/// Whether the file with the recorded path is the recorded file.
fn by_path(code: Code, boot: Boot) -> Trust {
    let path = Path::new(OsStr::from_bytes(code.path));
    // A pipe or a device would be opened, and perhaps never answer.
    let Some(data) = path.metadata().ok().filter(|data| path.is_absolute() && data.is_file()) else {
        return Trust::Unreadable;
    };
    let Ok(id) = read_elf_build_id(path) else { return Trust::Unreadable };
    let id = id.as_deref().unwrap_or_default();
    match (id == code.build_id, boot) {
        (true, _) if !id.is_empty() => Trust::Same,
        (_, Boot::This { began_ns: Some(began) }) if changed_ns(&data) > i128::from(began) => Trust::Replaced,
        (true, Boot::This { .. }) => Trust::Same,
        // A process may have had it mapped under this path in a container.
        (false, _) if !code.build_id.is_empty() => Trust::Another,
        _ => Trust::Unproved,
    }
}

/// The time of a file's last change in any way, ns since 1970. No program can set this time.
fn changed_ns(data: &Metadata) -> i128 {
    i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec())
}

fn symbolizer(shared: Option<&tempfile::TempDir>, inlined: bool) -> Symbolizer {
    let folders = shared.into_iter().map(|folder| folder.path().to_owned());
    Symbolizer::builder()
        .enable_code_info(true)
        .enable_inlined_fns(inlined)
        .set_debug_dirs(Some(folders.chain(["/usr/lib/debug".into()])))
        // Its demangler takes a C function called `f` for the type `float`.
        .enable_demangling(false)
        .build()
}

fn function(symbol: &Sym, module: Option<Vec<u8>>) -> Function {
    // The processor was in the innermost inlined function, which has the line.
    let (name, place) = match symbol.inlined.last() {
        Some(inlined) => (&inlined.name, inlined.code_info.as_ref()),
        None => (&symbol.name, symbol.code_info.as_deref()),
    };
    let line = place.and_then(|place| Some((place.file.to_string_lossy().into_owned(), place.line?)));
    let line = line.map(|(file, line)| (file.rsplit('/').next().unwrap_or_default().to_owned(), line));
    Function { name: readable(name), module, line }
}

/// A name as its language writes it.
fn readable(name: &str) -> String {
    demangle::with_parameters(name).unwrap_or_else(|| name.to_owned())
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

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use wakepath_process::Process;

    use super::*;

    /// The symbols for this boot, or for another.
    fn symbols(same_boot: bool) -> Symbols {
        let boot = if same_boot { Boot::This { began_ns: None } } else { Boot::Another };
        Symbols::new(boot, Kept::default(), DebugFiles::default())
    }

    /// A function to be found.
    #[inline(never)]
    fn a_function_of_the_test(n: u64) -> u64 {
        std::hint::black_box(n + 1)
    }

    /// The path of the file mapped at `address` in this process, and the offset in it.
    fn mapped(address: u64) -> (Vec<u8>, u64) {
        let mappings = Process::own().and_then(|own| own.mappings()).expect("our own mappings");
        let found = mappings.into_iter().find_map(|it| it.offset_of(address).map(|offset| (it.name, offset)));
        found.expect("it is mapped")
    }

    fn ours() -> (Vec<u8>, u64, Vec<u8>) {
        let (path, offset) = mapped(a_function_of_the_test as *const () as u64);
        let id = read_elf_build_id(Path::new(OsStr::from_bytes(&path))).expect("an ELF file");
        (path, offset, id.map(|id| id.to_vec()).unwrap_or_default())
    }

    #[test]
    fn a_function_is_found_by_the_offset_of_its_code_in_its_file() {
        let (path, offset, build_id) = ours();
        let found = symbols(true).in_file(Code { path: &path, offset, build_id: &build_id });
        let Found::Function(function) = found else { panic!("{found:?}") };
        assert!(function.name.ends_with("a_function_of_the_test"), "{function:?}");
        assert_eq!(function.module, Some(last_component(&path)));
        assert_eq!(function.line.expect("tests have debug information").0, "lib.rs");
    }

    #[test]
    fn a_replaced_file_is_not_another_machines_and_the_names_of_neither_are_used() {
        let (path, offset, build_id) = ours();
        assert!(!build_id.is_empty(), "tests are linked with one");
        let file = last_component(&path);
        let found = |build_id, boot| {
            Symbols::new(boot, Kept::default(), DebugFiles::default()).in_file(Code {
                path: &path,
                offset,
                build_id,
            })
        };
        let data = Path::new(OsStr::from_bytes(&path)).metadata().expect("it is there");
        let changed = u64::try_from(changed_ns(&data)).expect("after 1970");
        let began = |ns| Boot::This { began_ns: Some(ns) };
        for (build_id, boot, expected) in [
            (&b"another"[..], began(changed - 1), Found::Replaced(file.clone())),
            (b"another", began(changed), Found::Another(file.clone())),
            (b"another", Boot::This { began_ns: None }, Found::Another(file.clone())),
            (b"another", Boot::Another, Found::Another(file.clone())),
            (b"", began(changed - 1), Found::Replaced(file.clone())),
            (b"", began(changed), Found::Unproved(file.clone())),
            (b"", Boot::Another, Found::Unproved(file.clone())),
        ] {
            assert_eq!(found(build_id, boot), expected, "{build_id:?} {boot:?}");
        }
        // For a file with the recorded build id, its time alone decides nothing.
        for boot in [began(changed - 1), Boot::Another] {
            assert!(matches!(found(&build_id, boot), Found::Function(_)), "{boot:?}");
        }
    }

    #[test]
    fn a_file_without_a_build_id_is_the_recorded_one_only_if_nothing_changed_it_since() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let [source, program] = ["a.c", "a"].map(|name| folder.path().join(name));
        std::fs::write(&source, "int main(void) { return 0; }").expect("a file");
        let compiled = std::process::Command::new("cc")
            .args(["-Wl,--build-id=none", "-o"])
            .args([&program, &source])
            .status();
        assert!(compiled.expect("a C compiler").success());
        let code = Code { path: program.as_os_str().as_bytes(), offset: 0, build_id: b"" };
        let changed =
            u64::try_from(changed_ns(&program.metadata().expect("it is there"))).expect("after 1970");
        let found = |boot| Symbols::new(boot, Kept::default(), DebugFiles::default()).in_file(code);
        let file = || b"a".to_vec();
        assert_eq!(found(Boot::This { began_ns: Some(changed - 1) }), Found::Replaced(file()));
        assert_eq!(found(Boot::This { began_ns: Some(changed) }), Found::Unnamed(file()));
        assert_eq!(found(Boot::Another), Found::Unproved(file()));
    }

    #[test]
    fn a_file_that_was_opened_before_is_read_where_its_path_leads_nowhere() {
        let (path, offset, build_id) = ours();
        let kept = || {
            let file = std::fs::File::open(OsStr::from_bytes(&path)).expect("our own file");
            Kept::new(None, [(Box::from(*b"/nonexistent/ours"), build_id.as_slice().into(), file)])
        };
        let found = |build_id| {
            let code = Code { path: b"/nonexistent/ours", offset, build_id };
            Symbols::new(Boot::This { began_ns: None }, kept(), DebugFiles::default()).in_file(code)
        };
        let Found::Function(function) = found(&build_id) else { panic!("{:?}", found(&build_id)) };
        assert!(function.name.ends_with("a_function_of_the_test"), "{function:?}");
        assert_eq!(function.module.as_deref(), Some(&b"ours"[..]));
        assert_eq!(found(b"another"), Found::Unreadable(b"ours".to_vec()));
    }

    #[test]
    fn the_code_that_the_kernel_maps_into_each_process_has_names() {
        let vdso = vdso::this_process();
        let offset = (0..1 << 16).find(|&offset| vdso.function(offset) == Some("__vdso_clock_gettime"));
        let code = Code { path: VDSO, offset: offset.expect("x86-64 has one"), build_id: b"" };
        let function =
            Function { name: String::from("__vdso_clock_gettime"), module: Some(VDSO.to_vec()), line: None };
        assert_eq!(symbols(true).in_file(code), Found::Function(function));
        assert_eq!(symbols(true).in_file(Code { offset: 1 << 30, ..code }), Found::Unnamed(VDSO.to_vec()));
        assert_eq!(symbols(false).in_file(code), Found::Another(VDSO.to_vec()));
    }

    #[test]
    fn only_regular_files_are_opened() {
        for path in ["/dev/zero", "/proc/self/fd/0", "/", "relative", "/nonexistent", ""] {
            let code = Code { path: path.as_bytes(), offset: 0, build_id: b"x" };
            let found = symbols(true).in_file(code);
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
            sender.send(symbols(true).in_file(code))
        });
        let found = receiver.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(found, Ok(Found::Unreadable(b"pipe".to_vec())));
    }

    #[test]
    fn a_kernel_of_another_boot_has_no_names() {
        assert_eq!(symbols(false).in_kernel(0xffff_ffff_8100_0000), Found::AnotherKernel);
    }

    #[test]
    fn names_of_the_kernel_that_were_kept_are_used_where_the_running_ones_may_not_be_read() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("kallsyms");
        std::fs::write(&path, "ffffffff81000000 T a_function\nffffffff81000100 T another\n").expect("a file");
        let kept = Kept::new(std::fs::File::open(&path).ok(), []);
        let mut symbols = Symbols::new(Boot::This { began_ns: None }, Kept::default(), DebugFiles::default());
        symbols.kernel = KernelNames::Forbidden;
        assert_eq!(symbols.in_kernel(0xffff_ffff_8100_0010), Found::Kernel);
        symbols.kernel = KernelNames::Kept(kept.kernel().expect("a copy"));
        let Found::Function(function) = symbols.in_kernel(0xffff_ffff_8100_0010) else { panic!("a name") };
        assert_eq!(function.name, "a_function");
    }
}

//! The search for the file behind a name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use wakepath_process::{Error, Mapping, Process, SeenFile, path_through, processes, root_of};

use crate::error::LibraryError;
use crate::identity::FileIdentity;
use crate::loader_cache;
use crate::target::FileName;

/// The folders that the loader searches after its cache.
const FOLDERS: [&str; 6] =
    ["/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"];

/// A file with a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileLocation {
    /// The path to open and to give to the kernel.
    pub open: PathBuf,
    /// The path to show: as the processes see it.
    pub shown: PathBuf,
    /// The root folder of the processes.
    pub root: PathBuf,
}

impl FileLocation {
    fn ours(path: PathBuf) -> Self {
        Self { shown: path.clone(), open: path, root: PathBuf::from("/") }
    }

    /// An address's name where no symbol is, as the kernel and other tools write it.
    pub fn name_of(&self, address: u64) -> String {
        format!("{}+{address:#x}", self.shown.file_name().unwrap_or_default().to_string_lossy())
    }
}

/// The files for a name: several, where processes have different files mapped.
///
/// Files that the processes have mapped come first; a library not mapped yet may still be loaded, and is looked for
/// where the loader would. A path leads to a file here, or in a process's own view.
pub(crate) fn locations(name: &FileName, processes: &[u32]) -> Result<Vec<FileLocation>, LibraryError> {
    refuse_runtime_map(name)?;
    let mut mapped = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut inside = None;
    for &pid in processes {
        let failed = |error: Error| LibraryError::Process { pid, source: error.into() };
        let process = Process::open(pid).map_err(failed)?;
        let wanted = WantedFile::of(name, Some(&process));
        for mapping in code_files(&process).map_err(failed)?.iter().filter(|it| wanted.is_mapped(it)) {
            if seen.insert(mapping.file) {
                mapped.insert(mapped_location(pid, mapping));
            }
        }
        inside = inside.or_else(|| inside_location(name, &process));
    }
    if !mapped.is_empty() {
        return Ok(mapped.into_iter().collect());
    }
    match name {
        FileName::Path(path) => Ok(vec![inside.unwrap_or_else(|| FileLocation::ours(path.clone()))]),
        FileName::Short(name) => by_name(name, !processes.is_empty()),
    }
}

/// The processes with a file of this name mapped, as each sees it, except this process. Unreadable processes are left out.
pub fn processes_with(name: &FileName) -> Vec<u32> {
    let has = |pid: &u32| {
        let Ok(process) = Process::open(*pid) else { return false };
        let wanted = WantedFile::of(name, Some(&process));
        code_files(&process).is_ok_and(|files| files.iter().any(|mapping| wanted.is_mapped(mapping)))
    };
    let mut found = processes();
    found.retain(|pid| *pid != std::process::id() && has(pid));
    found
}

/// A name to compare with mappings.
enum WantedFile<'a> {
    /// A library's short name, or a program's.
    Short(&'a str),
    /// A path's files, and its form in the kernel's lists, where a file replaced since still has it.
    Path(Option<PathBuf>, Vec<FileIdentity>),
}

impl<'a> WantedFile<'a> {
    /// A name in this process's view and in the other process's.
    pub fn of(name: &'a FileName, process: Option<&Process>) -> Self {
        let path = match name {
            FileName::Short(name) => return Self::Short(name),
            FileName::Path(path) => path,
        };
        let ours = SeenFile::at(path).ok();
        let listed = match &ours {
            // Another file may have its path by now.
            Some(file) if file.is_deleted => None,
            Some(file) => Some(file.path.clone()),
            None => Some(path.clone()),
        };
        let theirs = process.filter(|_| path.is_absolute()).and_then(|process| process.seen(path).ok());
        Self::Path(listed, [ours, theirs].into_iter().flatten().map(FileIdentity::seen).collect())
    }

    /// Whether a mapped file has this name.
    pub fn is_mapped(&self, mapping: &Mapping) -> bool {
        let Some(mapped) = mapping.path() else { return false };
        match self {
            Self::Short(name) => {
                mapped.file_name().is_some_and(|file| is_called(&file.to_string_lossy(), name))
            }
            Self::Path(listed, files) => {
                listed.as_deref() == Some(mapped) || files.iter().any(|file| file.is_mapped(mapping))
            }
        }
    }
}

/// The file at a path in a process's own view, if it is another file than here, and can be opened through the process.
fn inside_location(name: &FileName, process: &Process) -> Option<FileLocation> {
    let FileName::Path(path) = name else { return None };
    let theirs = process.seen(path.is_absolute().then_some(path)?).ok()?;
    let file = |found: &Metadata| (found.dev(), found.ino());
    let is_theirs = |path: &Path| path.metadata().is_ok_and(|found| file(&found) == file(&theirs.metadata));
    if is_theirs(path) {
        return None;
    }
    let root = root_of(process.pid());
    // A link inside leads elsewhere from here.
    let open = root.join(path.strip_prefix("/").unwrap_or(path));
    is_theirs(&open).then(|| FileLocation { open, shown: path.clone(), root })
}

fn refuse_runtime_map(name: &FileName) -> Result<(), LibraryError> {
    let path = match name {
        FileName::Path(path) => path.clone(),
        FileName::Short(name) => PathBuf::from(name),
    };
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let number = file.strip_prefix("perf-").and_then(|rest| rest.strip_suffix(".map"));
    match number {
        Some(number) if number.parse::<u32>().is_ok() => Err(LibraryError::RuntimeMap { path }),
        _ => Ok(()),
    }
}

/// `libc`, `libc.so`, `libc.so.6` are names of `libc.so.6`; `libc` was a name for `libc-2.31.so` too.
fn is_called(file: &str, name: &str) -> bool {
    let Some(rest) = file.strip_prefix(name) else { return false };
    let continues = |rest: &str| rest.is_empty() || rest.starts_with('.');
    match name.contains(".so") {
        true => continues(rest),
        false => {
            let dated = rest.starts_with('-') && rest[1..].starts_with(|c: char| c.is_ascii_digit());
            rest.is_empty()
                || rest.strip_prefix(".so").is_some_and(continues)
                || dated && rest.ends_with(".so")
        }
    }
}

/// The files that a process has mapped to be executed.
pub(crate) fn code_files(process: &Process) -> Result<Vec<Mapping>, Error> {
    let mut mappings = process.mappings()?;
    mappings.retain(|mapping| mapping.is_code() && mapping.path().is_some());
    Ok(mappings)
}

/// The way to a mapped file: by its own path if that leads there from here, else by the process's root, else, if it was
/// deleted or replaced, by the mapping itself.
pub(crate) fn mapped_location(pid: u32, mapping: &Mapping) -> FileLocation {
    let (root, shown) = (root_of(pid), mapping.path().unwrap_or(Path::new("")).to_owned());
    let inside = root.join(shown.strip_prefix("/").unwrap_or(&shown));
    let is_it = |path: &Path| path.metadata().is_ok_and(|found| found.ino() == mapping.file.2);
    let (open, root) = match () {
        () if !mapping.is_deleted() && is_it(&shown) => (shown.clone(), PathBuf::from("/")),
        () if !mapping.is_deleted() && is_it(&inside) => (inside, root),
        () => (path_through(pid, &mapping.addresses), root),
    };
    FileLocation { open, shown, root }
}

/// A library as the loader finds it, or a program as a shell does.
fn by_name(name: &str, among_processes: bool) -> Result<Vec<FileLocation>, LibraryError> {
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    let found = unambiguous_files(name, libraries(name, &cache, &FOLDERS.map(Path::new)))?;
    if !found.is_empty() {
        return Ok(found);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    on_path(name, &path).map(|path| vec![FileLocation::ours(path)]).ok_or_else(|| {
        let processes = if among_processes { "the mappings of the processes, " } else { "" };
        let looked = format!("{processes}the loader's cache, the standard folders and PATH");
        LibraryError::Unknown { name: name.to_owned(), looked }
    })
}

/// The files of the libraries with a name, if they all have the same file name.
fn unambiguous_files(
    name: &str,
    libraries: Vec<(String, PathBuf)>,
) -> Result<Vec<FileLocation>, LibraryError> {
    let mut names: Vec<&String> = libraries.iter().map(|(name, _)| name).collect();
    names.dedup();
    // A library's builds for several processors have the same name.
    if names.len() > 1 {
        let candidates = names.into_iter().cloned().collect();
        return Err(LibraryError::Several { name: name.to_owned(), candidates });
    }
    Ok(libraries.into_iter().map(|(_, path)| FileLocation::ours(path)).collect())
}

/// Names and paths of the matching libraries, each file once: from the loader's cache, else from the folders.
fn libraries(name: &str, cache: &[u8], folders: &[&Path]) -> Vec<(String, PathBuf)> {
    let mut all = loader_cache::entries(cache);
    all.retain(|(library, _)| is_called(library, name));
    if all.is_empty() {
        all = in_folders(name, folders);
    }
    // `libssl.so`, for linking, is another name of `libssl.so.3`.
    all.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
    let mut seen = BTreeSet::new();
    all.retain(|(_, path)| {
        path.metadata().is_ok_and(|found| found.is_file() && seen.insert((found.dev(), found.ino())))
    });
    // A whole name means this library, even if other names begin with it.
    if all.iter().any(|(library, _)| library == name) {
        all.retain(|(library, _)| library == name);
    }
    all.sort();
    all
}

fn in_folders(name: &str, folders: &[&Path]) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            if file.contains(".so") && is_called(&file, name) {
                found.push((file, entry.path()));
            }
        }
    }
    found
}

fn on_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(runs)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    use wakepath_process::{Mapping, Process, path_through, root_of};

    use super::{code_files, is_called, libraries, locations, mapped_location, on_path, unambiguous_files};
    use crate::loader_cache::X86_64;
    use crate::loader_cache::tests::cache;
    use crate::target::FileName;

    #[test]
    fn a_short_name_is_that_of_a_library_or_a_program() {
        for (name, files) in [
            ("libc", &["libc.so.6", "libc-2.31.so", "libc.so"][..]),
            ("libc.so.6", &["libc.so.6"]),
            ("libssl.so", &["libssl.so.3", "libssl.so"]),
            ("libpython3.11", &["libpython3.11.so.1.0"]),
            ("app", &["app"]),
        ] {
            for file in files {
                assert!(is_called(file, name), "{name} {file}");
            }
        }
        for (name, file) in [
            ("libc", "libcrypt.so.1"),
            ("libc", "libc.a"),
            ("libc", "libc-client.so"),
            ("libc", "libc-2.31.a"),
            ("libc", "libcrypt.so"),
            ("libc", "libc2.so"),
            ("libssl.so", "libssl.sort"),
            ("app", "app2"),
            ("lib", "libc.so.6"),
        ] {
            assert!(!is_called(file, name), "{name} {file}");
        }
    }

    #[test]
    fn a_library_is_found_where_the_loader_finds_it() {
        let found = locations(&FileName::Short("libc".to_owned()), &[]).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].open.file_name().unwrap(), "libc.so.6");
        assert_eq!(locations(&FileName::Short("libc.so.6".to_owned()), &[]).unwrap(), found);
    }

    #[test]
    fn a_program_is_found_on_the_path() {
        let found = locations(&FileName::Short("sh".to_owned()), &[]).unwrap();
        assert!(found[0].open.ends_with("sh"), "{found:?}");
    }

    #[test]
    fn what_a_process_has_mapped_comes_first() {
        let here = std::process::id();
        let libc = locations(&FileName::Short("libc".to_owned()), &[here]).unwrap();
        assert_eq!(libc.len(), 1, "{libc:?}");
        let test = std::env::current_exe().unwrap();
        let name = test.file_name().unwrap().to_string_lossy().into_owned();
        let program = locations(&FileName::Short(name), &[here]).unwrap();
        assert_eq!(program[0].open, test);
        assert_eq!(program[0].root, Path::new("/"));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_places_searched() {
        let error =
            locations(&FileName::Short("no-such-library".to_owned()), &[std::process::id()]).unwrap_err();
        let error = error.to_string();
        for part in ["no-such-library", "the mappings of the processes", "loader's cache", "PATH"] {
            assert!(error.contains(part), "{error}");
        }
        let error = locations(&FileName::Short("libc".to_owned()), &[u32::MAX - 1]).unwrap_err().to_string();
        assert!(error.contains("cannot read what process"), "{error}");
    }

    #[test]
    fn code_that_a_runtime_made_is_in_no_file() {
        for name in ["/tmp/perf-12.map", "perf-12.map"] {
            let name = match name.contains('/') {
                true => FileName::Path(name.into()),
                false => FileName::Short(name.into()),
            };
            let error = locations(&name, &[]).unwrap_err().to_string();
            assert!(error.contains("no file holds it"), "{error}");
        }
    }

    /// A folder with empty files of these names, and their paths.
    fn folder<const N: usize>(names: [&str; N]) -> (tempfile::TempDir, [PathBuf; N]) {
        let folder = tempfile::tempdir().unwrap();
        let paths = names.map(|name| folder.path().join(name));
        paths.iter().for_each(|path| fs::write(path, "").unwrap());
        (folder, paths)
    }

    #[test]
    fn the_cache_of_the_loader_comes_before_the_folders() {
        let (cached, [of_cache]) = folder(["liba.so.1"]);
        let (standard, [of_folder, b]) = folder(["liba.so.1", "libb.so.1"]);
        let folders = [standard.path()];
        let cache = cache(&[
            (X86_64, "liba.so.1", of_cache.to_str().unwrap()),
            (X86_64, "libgone.so.1", cached.path().join("libgone.so.1").to_str().unwrap()),
        ]);
        let found = |name, cache: &[u8]| libraries(name, cache, &folders);
        assert_eq!(found("liba", &cache), [("liba.so.1".to_owned(), of_cache)]);
        assert_eq!(found("liba", &[]), [("liba.so.1".to_owned(), of_folder)]);
        assert_eq!(found("libb", &cache), [("libb.so.1".to_owned(), b)]);
        assert_eq!(found("libgone", &cache), [], "it was removed since");
        assert_eq!(found("libc", &cache), []);
    }

    #[test]
    fn a_library_with_two_names_is_one_and_libraries_of_two_names_are_several() {
        let (folder, [_, _, _, _, static_one, program]) =
            folder(["libssl.so.3", "libx.so.1", "libx.so.2", "libx.so.2.1", "libs.a", "prog"]);
        symlink("libssl.so.3", folder.path().join("libssl.so")).unwrap();
        symlink("nowhere", folder.path().join("libssl.so.4")).unwrap();
        fs::create_dir(folder.path().join("libd.so")).unwrap();
        let names = |name: &str| {
            let found = libraries(name, &[], &[Path::new("/nonexistent"), folder.path()]);
            assert!(found.iter().all(|(file, path)| *path == folder.path().join(file)), "{found:?}");
            found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names("libssl"), ["libssl.so.3"]);
        assert_eq!(names("libx"), ["libx.so.1", "libx.so.2", "libx.so.2.1"]);
        assert_eq!(names("libx.so.2"), ["libx.so.2"], "a whole name");
        assert!(static_one.exists() && names("libs").is_empty(), "it is no shared library");
        assert!(program.exists() && names("prog").is_empty());
        assert!(names("libd").is_empty(), "it is a folder");

        let file = |name: &str| (name.to_owned(), folder.path().join(name));
        let several = unambiguous_files("libx", vec![file("libx.so.1"), file("libx.so.2")]).unwrap_err();
        let says = "`libx` may mean any of libx.so.1, libx.so.2: name one of them";
        assert_eq!(several.to_string(), says);
        let builds = vec![file("libx.so.1"), ("libx.so.1".to_owned(), folder.path().join("libx.so.2"))];
        let paths = unambiguous_files("libx", builds).unwrap().into_iter().map(|found| found.open);
        assert_eq!(
            paths.collect::<Vec<_>>(),
            ["libx.so.1", "libx.so.2"].map(|name| folder.path().join(name))
        );
        assert_eq!(unambiguous_files("libx", Vec::new()).unwrap(), []);
    }

    #[test]
    fn a_program_is_an_executable_file_in_a_folder_of_the_path() {
        let (text, [_]) = folder(["tool"]);
        let (program, [tool]) = folder(["tool"]);
        fs::set_permissions(&tool, Permissions::from_mode(0o755)).unwrap();
        let (folders, []) = folder([]);
        fs::create_dir(folders.path().join("tool")).unwrap();
        let path = std::env::join_paths([text.path(), folders.path(), program.path()]).unwrap();
        assert_eq!(on_path("tool", &path), Some(tool));
        assert_eq!(on_path("other", &path), None);
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(program.path().strip_prefix("/").unwrap());
        assert!(relative.join("tool").is_file(), "the path leads there");
        assert_eq!(on_path("tool", relative.as_os_str()), None, "it depends on the folder of the caller");
    }

    #[test]
    fn the_files_of_a_process_are_those_that_it_may_execute() {
        let found = code_files(&Process::own().unwrap()).unwrap();
        let program = std::env::current_exe().unwrap();
        assert!(found.iter().any(|it| it.path() == Some(&program)));
        // Its data is mapped too, and code without a file.
        assert!(found.iter().all(|it| it.permissions[2] == b'x' && it.name.starts_with(b"/")), "{found:?}");
    }

    #[test]
    fn a_mapped_file_is_reached_by_its_path_only_if_it_is_the_same_file() {
        let (_folder, [path]) = folder(["app"]);
        let inode = path.metadata().unwrap().ino();
        let here = std::process::id();
        let open = |inode: u64, deleted: bool| {
            let mark = if deleted { " (deleted)" } else { "" };
            let line = format!("1000-2000 r-xp 00000000 00:00 {inode} {}{mark}", path.display());
            let mapping = Mapping::parse(line.as_bytes()).unwrap();
            let found = mapped_location(here, &mapping);
            assert_eq!(found.shown, path);
            (found.open, found.root)
        };
        let by_itself = (path_through(here, &(0x1000..0x2000)), root_of(here));
        assert_eq!(open(inode, false), (path.clone(), PathBuf::from("/")));
        assert_eq!(open(inode + 1, false), by_itself, "another file has its path by now");
        assert_eq!(open(inode, true), by_itself);
    }

    #[test]
    fn a_file_of_another_name_than_runtimes_give_is_looked_for() {
        for name in ["perf-x.map", "perf-12.maps", "perf-12"] {
            let error = locations(&FileName::Short(name.to_owned()), &[]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("no library or program is called `{name}`")), "{error}");
            assert!(error.contains("(searched the loader's cache"), "{error}");
        }
    }
}

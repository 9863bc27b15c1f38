//! A program that was stripped: each place of its names gives those that it had before.

use std::collections::HashMap;
use std::fs;
use std::process::Command;

use object::{Object, ObjectSegment, ObjectSymbol};

use super::*;
use crate::{Boot, Code, Found, Function, Kept, Symbols};

const SOURCE: &str = "static volatile int sum;
static int __attribute__((noinline)) work(int n) { for (int i = 0; i < n; i++) sum += i; return sum; }
int exported(int n) { return n + sum; }
int main(int count, char **words) { return work(count) & 1; }
";

fn run(command: &mut Command) {
    assert!(command.status().expect("the program is there").success(), "{command:?}");
}

/// A program with symbols, its stripped copy, its debug file, and a place in its function `work`.
struct Stripped {
    folder: tempfile::TempDir,
    build_id: Vec<u8>,
    offset: u64,
    /// A place in its exported function.
    exported: u64,
    /// The folder below which debug files are looked for.
    root: PathBuf,
}

impl Stripped {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        let stripped = Self { folder, build_id: Vec::new(), offset: 0, exported: 0, root };
        let [source, whole, app, debug] =
            ["a.c", "whole", "app", "app.debug"].map(|name| stripped.path(name));
        fs::write(&source, SOURCE).expect("written");
        run(Command::new("cc")
            .args(["-g", "-O1", "-rdynamic", "-Wl,--build-id", "-o"])
            .arg(&whole)
            .arg(&source));
        run(Command::new("objcopy").arg("--only-keep-debug").arg(&whole).arg(&debug));
        run(Command::new("objcopy").arg("--strip-all").arg(&whole).arg(&app));
        let bytes = fs::read(&whole).expect("it was made");
        let elf = object::File::parse(&*bytes).expect("a program");
        let offset = |name| {
            let address = elf.symbol_by_name(name).expect("it is there").address();
            let segment =
                elf.segments().find(|it| (it.address()..it.address() + it.size()).contains(&address));
            let segment = segment.expect("it is loaded");
            address - segment.address() + segment.file_range().0
        };
        let (offset, exported) = (offset("work"), offset("exported"));
        let build_id = elf.build_id().expect("notes").expect("a build id").to_vec();
        Self { build_id, offset, exported, ..stripped }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The place of its debug file below a root.
    fn installed(&self) -> PathBuf {
        let path = self.path("root/usr/lib/debug").join(below_debug(&self.build_id).expect("a build id"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        path
    }

    /// The function in the stripped copy or another file, where these servers may be asked.
    fn found_in(&self, file: &str, debug_files: &DebugFiles) -> Found {
        let mut symbols = Symbols::new(Boot::This { began_ns: None }, Kept::default(), debug_files.clone());
        symbols.root = self.root.clone();
        let path = self.path(file);
        let code = Code { path: path.as_os_str().as_bytes(), offset: self.offset, build_id: &self.build_id };
        symbols.in_file_named(code, b"app")
    }

    fn found(&self) -> Found {
        self.found_in("app", &DebugFiles::default())
    }
}

fn work(line: Option<u32>) -> Found {
    let line = line.map(|line| (String::from("a.c"), line));
    Found::Function(Function { name: String::from("work"), module: Some(b"app".to_vec()), line })
}

fn unnamed() -> Found {
    Found::Unnamed(b"app".to_vec())
}

#[test]
fn an_installed_debug_file_names_functions_and_lines_as_before() {
    let made = Stripped::new();
    assert_eq!(made.found_in("whole", &DebugFiles::default()), work(Some(2)));
    assert_eq!(made.found(), unnamed());
    // The program has no link to it: its build id is enough.
    let installed = made.installed();
    fs::copy(made.path("app.debug"), &installed).expect("copied");
    assert_eq!(made.found(), work(Some(2)));
    // Another build's debug file in its place.
    run(Command::new("cc")
        .args(["-g", "-Wl,--build-id=0x00112233", "-o"])
        .args([&installed, &made.path("a.c")]));
    assert_eq!(made.found(), unnamed());
}

#[test]
fn a_linked_debug_file_counts_for_its_build_id_or_its_checksum() {
    let made = Stripped { root: PathBuf::from("/"), ..Stripped::new() };
    let link = || {
        let link = format!("--add-gnu-debuglink={}", made.path("app.debug").display());
        run(Command::new("objcopy").arg(link).arg(made.path("app")));
    };
    link();
    assert_eq!(made.found(), work(Some(2)));
    // A debug file with another checksum: the build id is the better proof.
    fs::write(
        made.path("app.debug"),
        [&fs::read(made.path("app.debug")).expect("it is there")[..], b"\n"].concat(),
    )
    .expect("written");
    assert_eq!(made.found(), work(Some(2)));
    // Neither: the program is as readable as before.
    run(Command::new("cc")
        .args(["-g", "-Wl,--build-id=0x00112233", "-o"])
        .args([made.path("app.debug"), made.path("a.c")]));
    assert_eq!(made.found(), unnamed());
}

#[test]
fn symbols_that_are_packed_into_the_program_name_its_functions() {
    let mut made = Stripped::new();
    // The names that the program exports are left out of the packed ones.
    let strip = ["--strip-debug", "--strip-symbol=exported"];
    run(Command::new("objcopy").args(strip).args([made.path("whole"), made.path("symbols")]));
    run(Command::new("xz").arg(made.path("symbols")));
    let add = |made: &Stripped, packed: &str| {
        let section = format!(".gnu_debugdata={}", made.path(packed).display());
        run(Command::new("objcopy")
            .arg("--add-section")
            .arg(section)
            .args([made.path("app"), made.path("packed")]));
    };
    add(&made, "symbols.xz");
    assert_eq!(made.found_in("packed", &DebugFiles::default()), work(None));
    let mut bytes = fs::read(made.path("symbols.xz")).expect("it was made");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(made.path("damaged.xz"), bytes).expect("written");
    add(&made, "damaged.xz");
    assert_eq!(made.found_in("packed", &DebugFiles::default()), unnamed());
    made.offset = made.exported;
    let exported = Function { name: String::from("exported"), module: Some(b"app".to_vec()), line: None };
    for packed in ["symbols.xz", "damaged.xz"] {
        add(&made, packed);
        assert_eq!(made.found_in("packed", &DebugFiles::default()), Found::Function(exported.clone()));
    }
}

#[test]
fn a_copy_in_memory_has_a_largest_size() {
    assert!(Held::copy(io::repeat(0).take(crate::kept::MAX_FILE_BYTES)).is_ok());
    assert!(Held::copy(io::repeat(0).take(crate::kept::MAX_FILE_BYTES + 1)).is_err());
}

/// Servers with these files, that note what they are asked for.
#[derive(Debug, Default)]
struct Files {
    files: HashMap<(Wanted, Vec<u8>), PathBuf>,
    asked: Mutex<Vec<(Wanted, Vec<u8>)>>,
}

impl ByBuildId for Files {
    fn file(&self, wanted: Wanted, build_id: &[u8], name: &[u8]) -> Option<File> {
        assert_eq!(name, b"app");
        self.asked.lock().expect("a list").push((wanted, build_id.to_vec()));
        File::open(self.files.get(&(wanted, build_id.to_vec()))?).ok()
    }
}

/// The function in a file where servers have these, and the kinds that they were asked for.
fn asked(made: &Stripped, file: &str, has: &[(Wanted, &str)]) -> (Found, Vec<Wanted>) {
    let files = has.iter().map(|(wanted, file)| ((*wanted, made.build_id.clone()), made.path(file)));
    let servers = Arc::new(Files { files: files.collect(), asked: Mutex::default() });
    let debug_files = DebugFiles::from_servers(Arc::clone(&servers) as Arc<dyn ByBuildId>);
    let found = made.found_in(file, &debug_files);
    assert_eq!(debug_files.nameless(), [[0; 0]; 0], "servers were asked");
    let asked = servers.asked.lock().expect("a list").iter().map(|(wanted, _)| *wanted).collect();
    (found, asked)
}

#[test]
fn servers_are_asked_for_what_is_not_here() {
    use Wanted::{DebugInfo, Program};
    let made = Stripped::new();
    let (named, none): (Found, &[(Wanted, &str)]) = (work(Some(2)), &[]);
    assert_eq!(asked(&made, "whole", none), (named.clone(), vec![]), "it has symbols");
    assert_eq!(asked(&made, "app", &[(DebugInfo, "app.debug")]), (named.clone(), vec![DebugInfo]));
    assert_eq!(asked(&made, "app", none), (unnamed(), vec![DebugInfo]));
    // A server that lies.
    run(Command::new("cc")
        .args(["-g", "-Wl,--build-id=0x00112233", "-o"])
        .args([made.path("other"), made.path("a.c")]));
    assert_eq!(asked(&made, "app", &[(DebugInfo, "other")]), (unnamed(), vec![DebugInfo]));
    // On another machine, the debug file does not say at which address the program's bytes are.
    let both = [(DebugInfo, "app.debug"), (Program, "app")];
    assert_eq!(asked(&made, "gone", &both), (named.clone(), vec![DebugInfo, Program]));
    let gone = Found::Unreadable(b"app".to_vec());
    assert_eq!(asked(&made, "gone", &both[..1]), (gone.clone(), vec![DebugInfo, Program]));
    // A file that has both says it.
    assert_eq!(asked(&made, "gone", &[(DebugInfo, "whole")]), (named.clone(), vec![DebugInfo]));
    assert_eq!(asked(&made, "gone", &[(Program, "whole")]), (named.clone(), vec![DebugInfo, Program]));
    assert_eq!(asked(&made, "gone", &[(Program, "other")]), (gone, vec![DebugInfo, Program]));
    // Another build is here under this name.
    assert_eq!(asked(&made, "other", &both), (named.clone(), vec![DebugInfo, Program]));
    assert_eq!(asked(&made, "other", none), (Found::Another(b"app".to_vec()), vec![DebugInfo, Program]));
    // An installed debug file is read first.
    fs::copy(made.path("app.debug"), made.installed()).expect("copied");
    assert_eq!(asked(&made, "app", none), (named, vec![]));
}

#[test]
fn files_without_names_are_noted_where_servers_could_have_them() {
    let mut made = Stripped::new();
    let noted = |made: &Stripped, file: &str| {
        let debug_files = DebugFiles::default();
        (made.found_in(file, &debug_files), debug_files.nameless())
    };
    assert_eq!(noted(&made, "whole"), (work(Some(2)), vec![]));
    assert_eq!(noted(&made, "app"), (unnamed(), vec![b"app".to_vec()]));
    assert_eq!(noted(&made, "gone"), (Found::Unreadable(b"app".to_vec()), vec![b"app".to_vec()]));
    // A place in no function of a file with symbols.
    let work = std::mem::replace(&mut made.offset, 0);
    assert_eq!(noted(&made, "whole"), (unnamed(), vec![]));
    made.offset = work;
    // Without a build id there is nothing to ask by.
    run(Command::new("objcopy").arg("--remove-section=.note.gnu.build-id").arg(made.path("app")));
    made.build_id.clear();
    assert_eq!(noted(&made, "app"), (unnamed(), vec![]));
    assert_eq!(noted(&made, "gone").1, [[0; 0]; 0]);
    assert_eq!(asked(&made, "app", &[]).1, []);
    for length in [1, 65] {
        made.build_id = vec![7; length];
        assert_eq!(asked(&made, "gone", &[]).1, [], "{length}");
    }
}

#[test]
fn data_that_debug_files_share_is_fetched_too() {
    let made = Stripped::new();
    let id = [9; 20];
    let section = made.path("link");
    fs::write(&section, [&b"/nonexistent/shared.debug\0"[..], &id].concat()).expect("written");
    let add = format!(".gnu_debugaltlink={}", section.display());
    run(Command::new("objcopy").arg("--add-section").arg(add).arg(made.path("app.debug")));
    let shared = format!("-Wl,--build-id=0x{}", "09".repeat(20));
    run(Command::new("cc").args(["-g", &shared, "-o"]).args([made.path("shared"), made.path("a.c")]));
    for (has_it, build_id) in [(true, id), (false, [8; 20])] {
        let files = [(made.build_id.clone(), "app.debug"), (build_id.to_vec(), "shared")];
        let files = files.map(|(id, file)| ((Wanted::DebugInfo, id), made.path(file)));
        let servers = Arc::new(Files { files: files.into(), asked: Mutex::default() });
        let debug_files = DebugFiles::from_servers(Arc::clone(&servers) as Arc<dyn ByBuildId>);
        let mut symbols = Symbols::new(Boot::Another, Kept::default(), debug_files);
        symbols.root = made.path("root");
        let path = made.path("app");
        let code = Code { path: path.as_os_str().as_bytes(), offset: made.offset, build_id: &made.build_id };
        assert_eq!(symbols.in_file_named(code, b"app"), work(Some(2)));
        let expected = [made.build_id.clone(), id.to_vec()].map(|id| (Wanted::DebugInfo, id));
        assert_eq!(*servers.asked.lock().expect("a list"), expected);
        let link =
            symbols.shared.as_ref().expect("a folder").path().join(below_debug(&id).expect("a build id"));
        assert_eq!(has_build_id(&link, &id), has_it, "the symbolizer looks there");
    }
}

#[test]
fn any_bytes_are_facts_or_none() {
    let made = Stripped::new();
    let bytes = fs::read(made.path("whole")).expect("it was made");
    let file = made.path("cut");
    let facts = |bytes: &[u8]| {
        fs::write(&file, bytes).expect("written");
        crate::elf::Facts::read(&File::open(&file).expect("it is there"))
    };
    assert!(facts(&bytes).is_some_and(|facts| facts.has_symbols));
    for length in [0, 1, 16, 63, 64, 100, bytes.len() / 2] {
        assert!(facts(&bytes[..length]).is_none_or(|facts| !facts.has_symbols), "{length}");
    }
    // Each byte of the head, and each of the last section headers.
    for at in (0..64).chain(bytes.len() - 512..bytes.len()) {
        for value in [0, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let _ = facts(&changed).map(|facts| facts.address(u64::MAX));
        }
    }
}

//! Files as processes have them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use wakepath_functions::{Finder, Function, Probe, ProcessCode, Target};

use crate::programs::Programs;

/// A program that waits until its input ends, and with it this.
struct Running(Child);

impl Running {
    /// Started, and past its exec.
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{error}"));
        // Its first byte shows that it runs.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        Self(child)
    }

    fn find(&self, target: &str) -> Function {
        let target = Target::parse(target).unwrap();
        let mut found = Finder::new(&[self.0.id()]).find(&target).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.functions.len(), 1, "{found:?}");
        found.functions.remove(0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

const WAITS: &str = "
    #include <unistd.h>
    __attribute__((noinline)) int handle(int x) { __asm__(\"\"); return x; }
    int main(void) { char c; write(1, \"x\", 1); read(0, &c, 1); return handle(0); }
";

fn waiting(programs: &Programs) -> PathBuf {
    programs.compile("waits.c", WAITS, &["-O1", "-static"])
}

#[test]
fn a_program_is_found_by_its_name_among_what_runs() {
    let programs = Programs::new();
    let app = waiting(&programs);
    let running = Running::start(&mut Command::new(&app));
    assert_eq!(running.find("waits:handle").probe.file, app);
    // Another way to the same file, as a user may write it.
    let other = programs.path("other");
    std::os::unix::fs::symlink(&app, &other).unwrap();
    assert_eq!(running.find(&format!("{}:handle", other.display())).shown, app);
}

#[test]
fn needs_root_a_file_that_was_replaced_is_the_one_that_runs() {
    if !is_root() {
        return;
    }
    let programs = Programs::new();
    let app = waiting(&programs);
    let running = Running::start(&mut Command::new(&app));
    let before = running.find("waits:handle");
    fs::remove_file(&app).unwrap();
    programs.compile("waits.c", &WAITS.replace("handle", "renamed"), &["-O1", "-static"]);
    let after = running.find("waits:handle");
    assert_eq!(after.shown, app);
    assert_eq!(Probe { file: before.probe.file.clone(), ..after.probe.clone() }, before.probe);
    assert!(
        after.probe.file.starts_with(format!("/proc/{}/map_files", running.0.id())),
        "{:?}",
        after.probe.file
    );
}

#[test]
fn needs_root_a_file_of_a_container_is_reached_through_its_process() {
    if !is_root() {
        return;
    }
    let programs = Programs::new();
    let app = waiting(&programs);
    // Mounts of its own, as a container has: there the program's folder is at another place.
    let script = "mount --bind \"$1\" /mnt && exec /mnt/waits";
    let folder = app.parent().unwrap();
    let running = Running::start(Command::new("unshare").args(["-m", "sh", "-c", script, "sh"]).arg(folder));
    let found = running.find("waits:handle");
    assert_eq!(found.shown, Path::new("/mnt/waits"));
    let root = PathBuf::from(root_of(running.0.id()));
    assert_eq!(found.probe.file, root.join("mnt/waits"));
    assert_eq!(running.find("/mnt/waits:handle").probe.file, found.probe.file);
}

#[test]
fn needs_root_the_program_of_a_process_is_found_after_its_path_is_gone() {
    if !is_root() {
        return;
    }
    let programs = Programs::new();
    let app = waiting(&programs);
    let running = Running::start(&mut Command::new(&app));
    let (before, exe) = (running.find("waits:handle"), format!("/proc/{}/exe", running.0.id()));
    let own = |found: &Function| (found.probe.offset, found.address, found.shown.clone());
    let address = |found: &Function| ProcessCode::of(running.0.id(), true).unwrap().address_of(found);
    assert_eq!(own(&running.find(&format!("{exe}:handle"))), own(&before));
    let place = address(&before);
    assert!(place.is_some());
    // Another name of the same file.
    let hard = programs.path("hard");
    fs::hard_link(&app, &hard).unwrap();
    assert_eq!(own(&running.find(&format!("{}:handle", hard.display()))), own(&before));
    let probe = Probe { file: hard.clone(), ..before.probe.clone() };
    assert_eq!(address(&Function { shown: hard.clone(), probe, ..before.clone() }), place);
    fs::remove_file(&hard).unwrap();
    fs::remove_file(&app).unwrap();
    for replaced in [false, true] {
        if replaced {
            programs.compile("waits.c", &WAITS.replace("handle", "renamed"), &["-O1", "-static"]);
        }
        let found = running.find(&format!("{exe}:handle"));
        assert_eq!((own(&found), address(&found)), (own(&before), place), "replaced: {replaced}");
        let map_files = format!("/proc/{}/map_files", running.0.id());
        assert!(found.probe.file.starts_with(map_files), "{:?}", found.probe.file);
    }
    // The file that the process has mapped, not the new file at its path.
    let by_path = running.find(&format!("{}:handle", app.display()));
    assert_eq!((own(&by_path), address(&by_path)), (own(&before), place));
    // The process of the program that replaced it has another file.
    let other = Running::start(&mut Command::new(&app));
    let target = Target::parse(&format!("{exe}:handle")).unwrap();
    let found = Finder::new(&[other.0.id()]).find(&target).unwrap().functions.remove(0);
    assert_eq!(found.probe.file, Path::new(&exe), "it may map the file later");
    assert_eq!(ProcessCode::of(other.0.id(), true).unwrap().address_of(&found), None);
    assert!(Finder::new(&[other.0.id()]).find(&Target::parse("waits:handle").unwrap()).is_err());
}

#[test]
fn needs_root_a_path_is_the_one_that_the_process_sees() {
    if !is_root() {
        return;
    }
    let programs = Programs::new();
    let app = waiting(&programs);
    // A root of its own, with a program of a name that is another's here, and links that begin at that root.
    let root = programs.path("root");
    fs::create_dir_all(root.join("opt/bin")).unwrap();
    fs::copy(&app, root.join("opt/bin/env")).unwrap();
    fs::copy(&app, root.join("opt/bin/later")).unwrap();
    fs::create_dir(root.join("usr")).unwrap();
    std::os::unix::fs::symlink("/opt/bin", root.join("usr/bin")).unwrap();
    let running = Running::start(Command::new("chroot").arg(&root).arg("/usr/bin/env"));
    let expected = running.find("env:handle");
    let inside = root.canonicalize().unwrap().join("opt/bin/env");
    for path in ["/usr/bin/env", "/opt/bin/env", &format!("{}/opt/bin/env", root_of(running.0.id()))] {
        assert_eq!(running.find(&format!("{path}:handle")), expected, "{path}");
    }
    assert_eq!(running.find(&format!("{}:handle", inside.display())), expected);
    assert_eq!(expected.probe.file, inside);
    assert!(ProcessCode::of(running.0.id(), true).unwrap().address_of(&expected).is_some());
    // Not mapped: opened through the process, unless a link would lead elsewhere from here.
    let later = running.find("/opt/bin/later:handle");
    let through = format!("{}/opt/bin/later", root_of(running.0.id()));
    assert_eq!((later.probe.file, later.shown), (through.into(), "/opt/bin/later".into()));
    let error = |path: &str| {
        let target = Target::parse(&format!("{path}:handle")).unwrap();
        Finder::new(&[running.0.id()]).find(&target).unwrap_err().to_string()
    };
    assert!(error("/usr/bin/later").contains("cannot read /usr/bin/later"), "{}", error("/usr/bin/later"));
    assert!(error("/opt/bin/no").contains("cannot read /opt/bin/no"));
}

#[test]
fn a_script_in_place_of_an_interpreter_names_the_program_of_the_process() {
    let programs = Programs::new();
    let app = waiting(&programs);
    let running = Running::start(&mut Command::new(&app));
    let shim = programs.path("shim");
    fs::write(&shim, "#!/usr/bin/env bash\nexec app\n").unwrap();
    let error = |processes: &[u32]| {
        let target = Target::parse(&format!("{}:handle", shim.display())).unwrap();
        Finder::new(processes).find(&target).unwrap_err().to_string()
    };
    let pid = running.0.id();
    let says = format!(
        "which /usr/bin/env runs: its functions are not machine code; process {pid} runs {}: name this file",
        app.display()
    );
    assert!(error(&[pid]).ends_with(&says), "{}", error(&[pid]));
    for processes in [&[][..], &[pid, std::process::id()]] {
        assert!(error(processes).ends_with("; probe /usr/bin/env, or a program that the script calls"));
    }
}

fn root_of(pid: u32) -> String {
    format!("/proc/{pid}/root")
}

/// Only root reads the mappings of another user's process, and changes roots.
fn is_root() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        eprintln!("skipped: not root; it would have shown that files are reached through their process");
    }
    root
}

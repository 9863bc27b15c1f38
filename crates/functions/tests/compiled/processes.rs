//! Files as processes have them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use wakepath_functions::{Finder, Function, Probe, Target};

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
    let root = PathBuf::from(format!("/proc/{}/root", running.0.id()));
    assert_eq!(found.probe.file, root.join("mnt/waits"));
    assert_eq!(running.find("/mnt/waits:handle").probe.file, found.probe.file);
}

/// Only root reads the mappings of another user's process, and changes roots.
fn is_root() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        eprintln!("skipped: not root; it would have shown that files are reached through their process");
    }
    root
}

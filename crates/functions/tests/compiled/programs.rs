//! Programs made from a few lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use wakepath_functions::{FindError, Finder, Found, Function, Target};

/// A folder with programs, removed with this value.
pub struct Programs {
    folder: TempDir,
}

impl Programs {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles `source` (its language by the end of `name`: `.c`, `.cc`, `.s`) into a file named without it.
    pub fn compile(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let from = self.path(name);
        std::fs::write(&from, source).unwrap();
        let to = from.with_extension("");
        let compiler = if name.ends_with(".cc") { "c++" } else { "cc" };
        // Assembler code without a note on its stack would make the linker warn.
        run(Command::new(compiler).arg(&from).arg("-o").arg(&to).arg("-Wl,-z,noexecstack").args(options));
        to
    }

    /// A shared library from assembler code, nothing added.
    pub fn assemble(&self, name: &str, source: &str) -> PathBuf {
        self.compile(name, source, &["-shared", "-nostdlib", "-Wl,--build-id=sha1"])
    }
}

/// Runs a tool that must be there and succeed.
pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

pub fn find(file: &Path, function: &str) -> Result<Found, FindError> {
    let target = Target::parse(&format!("{}:{function}", file.display())).unwrap();
    Finder::new(&[]).find(&target)
}

/// The only matching function.
pub fn only(file: &Path, function: &str) -> Function {
    let found = find(file, function).unwrap_or_else(|error| panic!("{function}: {error}"));
    assert_eq!(found.functions.len(), 1, "{function}: {found:?}");
    assert!(found.refused.is_empty(), "{:?}", found.refused);
    found.functions.into_iter().next().unwrap()
}

/// The message about a function that cannot be probed.
pub fn refusal(file: &Path, function: &str) -> String {
    match find(file, function) {
        Ok(found) => panic!("{function} is not refused: {found:?}"),
        Err(error) => error.to_string(),
    }
}

/// The file's bytes where a function is probed.
pub fn bytes_at<const N: usize>(file: &Path, offset: u64) -> [u8; N] {
    let content = std::fs::read(file).unwrap();
    content[offset as usize..].first_chunk::<N>().copied().unwrap()
}

/// The argument of [`Programs::assemble`] for a function `name` with these instructions.
pub fn function(name: &str, instructions: &str) -> String {
    format!(
        ".text\n.globl {name}\n.type {name}, @function\n{name}:\n{instructions}\n.size {name}, .-{name}\n"
    )
}

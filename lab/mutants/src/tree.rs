//! The copy of the tree with the switches: the tree itself is never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A folder with a checkout's files.
pub struct Tree {
    pub folder: PathBuf,
    /// The sources at the time of the copy: later edits are not tried.
    sources: BTreeMap<PathBuf, Vec<u8>>,
}

impl Tree {
    /// Copies each file in a checkout that git does not ignore, in its current state, and removes others. An unchanged
    /// file stays as it is, so that cargo does not build it again.
    pub fn copy(checkout: &Path, folder: &Path) -> Result<Self> {
        let list = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(checkout)
            .output()
            .context("cannot run git")?;
        ensure!(list.status.success(), "git does not list the files of {}", checkout.display());
        let names = list.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let names = names.map(|name| PathBuf::from(OsStr::from_bytes(name)));
        let files: BTreeSet<_> = names.filter(|name| checkout.join(name).is_file()).collect();
        fs::create_dir_all(folder)?;
        remove_others(folder, folder, &files)?;
        let mut sources = BTreeMap::new();
        for file in files {
            let from = checkout.join(&file);
            if is_rust(&file) {
                sources.insert(file, fs::read(&from)?);
                continue;
            }
            let to = folder.join(&file);
            if fs::read(&to).ok() != Some(fs::read(&from)?) {
                fs::create_dir_all(to.parent().unwrap_or(folder))?;
                fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            }
        }
        Ok(Self { folder: folder.to_owned(), sources })
    }

    /// A source as in the checkout.
    pub fn source(&self, file: &str) -> Option<&str> {
        self.sources.get(Path::new(file)).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Writes the sources: with the text from `text` if it returns any, the others as in the checkout.
    pub fn write_sources(&self, text: impl Fn(&str) -> Option<String>) -> Result<()> {
        for (file, source) in &self.sources {
            let text = file.to_str().and_then(&text).map(String::into_bytes);
            let text = text.as_ref().unwrap_or(source);
            let to = self.folder.join(file);
            if fs::read(&to).ok().as_ref() != Some(text) {
                fs::create_dir_all(to.parent().unwrap_or(&self.folder))?;
                fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
            }
        }
        Ok(())
    }
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}

fn remove_others(root: &Path, folder: &Path, files: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(root, &path, files)?;
        } else if !files.contains(path.strip_prefix(root)?) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::Tree;

    /// A folder that is removed on drop.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_copy_has_the_files_as_they_are_now_and_the_sources_that_are_given() {
        let scratch = Scratch(std::env::temp_dir().join(format!("wakepath-mutants-{}", std::process::id())));
        let (checkout, copy) = (scratch.0.join("checkout"), scratch.0.join("copy"));
        let write = |name: &str, text: &str| {
            fs::create_dir_all(checkout.join(name).parent().unwrap()).unwrap();
            fs::write(checkout.join(name), text).unwrap();
        };
        let read = |name: &str| fs::read_to_string(copy.join(name)).ok();
        write(".gitignore", "target\n");
        write("src/lib.rs", "fn f() {}");
        write("src/other.rs", "fn g() {}");
        write("cases/a", "1");
        write("target/b", "2");
        assert!(Command::new("git").args(["init", "-q"]).arg(&checkout).status().unwrap().success());
        let fill = |checkout: &Path| {
            let tree = Tree::copy(checkout, &copy).unwrap();
            tree.write_sources(|file| (file == "src/lib.rs").then(|| "fn h() {}".to_owned())).unwrap();
        };
        fill(&checkout);
        let all = ["src/lib.rs", "src/other.rs", "cases/a", "target/b"].map(read);
        assert_eq!(
            all.each_ref().map(Option::as_deref),
            [Some("fn h() {}"), Some("fn g() {}"), Some("1"), None]
        );
        write("cases/a", "3");
        fs::remove_file(checkout.join("src/other.rs")).unwrap();
        fill(&checkout);
        assert_eq!(["src/other.rs", "cases/a"].map(read), [None, Some("3".to_owned())]);
    }
}

//! The files for changes: the distributions before and after each, in a directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use wakepath_caller::{Caller, Destination, Directory};
use wakepath_engine::watch::{Change, Stretch};

/// The most changes kept in a directory: a change every 15 minutes for a day. A pair of files takes some KiB.
const MAX_KEPT_CHANGES: usize = 100;

const BEFORE: &str = ".before.json";
const AFTER: &str = ".after.json";

/// A change's files.
#[derive(Debug)]
pub struct Kept {
    /// The file with the distribution before it.
    pub before: PathBuf,
    /// The file with the distribution after it.
    pub after: PathBuf,
}

/// The directory with changes.
#[derive(Debug)]
pub struct KeptChanges<'a> {
    path: &'a Path,
}

impl<'a> KeptChanges<'a> {
    /// The directory at `path`, which is made for the first change.
    pub fn new(path: &'a Path) -> Self {
        Self { path }
    }

    /// Writes a change's two files, with the rights of the user who called, and removes the oldest if there are too many. `name` begins the
    /// file names, and `document` writes a distribution.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn keep(
        &self,
        name: String,
        change: &Change,
        document: impl Fn(&Stretch, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Kept> {
        let there = self.open()?.changes()?;
        let name = free(name, &there);
        let kept = Kept {
            before: self.path.join(format!("{name}{BEFORE}")),
            after: self.path.join(format!("{name}{AFTER}")),
        };
        let write = |path: &Path, stretch: &Stretch| {
            Destination::find(path)?.write(|file| {
                let mut out = BufWriter::new(file);
                document(stretch, &mut out)?;
                out.flush()
            })
        };
        write(&kept.before, &change.before)?;
        write(&kept.after, &change.after)?;
        self.open()?.remove_oldest()?;
        Ok(kept)
    }

    /// Opens the directory, which is made if it does not exist.
    fn open(&self) -> io::Result<OpenDirectory> {
        let acting = Caller::act(Caller::from_sudo().as_ref())?;
        let directory = match Directory::at(self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let (parent, name) = Directory::of(self.path)?;
                parent.create(name)?
            }
            directory => directory?,
        };
        drop(acting);
        Ok(OpenDirectory(directory))
    }
}

/// An open directory with changes.
struct OpenDirectory(Directory);

impl OpenDirectory {
    /// The changes in the directory, by the common beginning of their file names, oldest first. Other files are
    /// ignored.
    fn changes(&self) -> io::Result<BTreeSet<String>> {
        let names = self.0.names()?;
        Ok(names.iter().filter_map(|(name, _)| change_of(name)).map(str::to_owned).collect())
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let _acting = Caller::act(Caller::from_sudo().as_ref())?;
        let changes = self.changes()?;
        let too_many = changes.len().saturating_sub(MAX_KEPT_CHANGES);
        for change in changes.iter().take(too_many) {
            for end in [BEFORE, AFTER] {
                match self.0.remove_file(OsStr::new(&format!("{change}{end}"))) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// The file's change, by the file name: `20261121T025841Z-TARGET.before.json`.
fn change_of(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    let change = name.strip_suffix(BEFORE).or_else(|| name.strip_suffix(AFTER))?;
    let (time, _) = change.split_once('-')?;
    let is_time = |(at, c): (usize, char)| match at {
        8 => c == 'T',
        15 => c == 'Z',
        _ => c.is_ascii_digit(),
    };
    (time.len() == 16 && time.chars().enumerate().all(is_time)).then_some(change)
}

/// A name without a change: further changes in the same second and target are numbered.
fn free(name: String, there: &BTreeSet<String>) -> String {
    if !there.contains(&name) {
        return name;
    }
    // With more numbers than names, a number is free.
    let numbered = (2..there.len() + 3).map(|number| format!("{name}-{number}"));
    let mut free = numbered.filter(|name| !there.contains(name));
    free.next().unwrap_or(name.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wakepath_engine::Host;
    use wakepath_engine::latency::LatencySource;
    use wakepath_engine::watch::{
        Alarm, Histogram, Notice, Unit, WatchEvent, WatchNews, WatchedTarget, as_latency,
    };
    use wakepath_report::{json, text};

    use super::*;

    fn change(since: u64) -> Change {
        let stretch = |latency| {
            let mut histogram = Histogram::new(Unit::Nanoseconds);
            (0..1000).for_each(|_| histogram.add(latency));
            Stretch::new(Duration::ZERO, Duration::from_secs(1), histogram)
        };
        let since = Duration::from_secs(since);
        Change {
            since,
            before: stretch(1000),
            after: stretch(1 << 20),
            score: 1100.0,
            as_it_was: None,
            alarm: Alarm::Rings,
        }
    }

    /// Keeps a change in this target, `since` seconds after 2001-09-09 01:46:40 UTC.
    fn keep(directory: &Path, target: &str, since: u64) -> io::Result<Kept> {
        let change = change(since);
        let notice = Notice::Changed(Box::new(change.clone()));
        let news = WatchNews {
            host: &Host::default(),
            target: &WatchedTarget { name: target.to_owned(), source: LatencySource::Calls, process: None },
            origin_realtime_ns: Some(1_000_000_000_000_000_000),
            at: Duration::from_secs(since),
            what: WatchEvent::Notice(&notice),
        };
        KeptChanges::new(directory).keep(text::kept_name(&news, change.since), &change, |stretch, out| {
            json::live_latency(&as_latency(&news, stretch), out)
        })
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn both_sides_of_a_change_are_documents_that_can_be_compared() {
        let place = tempfile::tempdir().expect("a folder");
        let directory = place.path().join("watch");
        let kept = keep(&directory, "./app:f", 20).expect("room");
        assert_eq!(kept.before, directory.join("20010909T014700Z-app:f.before.json"));
        for (path, expected) in [(&kept.before, change(20).before), (&kept.after, change(20).after)] {
            let document = std::fs::read(path).expect("a file");
            let found = json::profiles(&document).expect("a document");
            assert_eq!(found[0].histogram, expected.histogram);
        }
        // The same second and target again.
        let again = keep(&directory, "./app:f", 20).expect("room");
        assert_eq!(again.before, directory.join("20010909T014700Z-app:f-2.before.json"));
        assert_eq!(names(&directory).len(), 4);
    }

    #[test]
    fn the_newest_hundred_changes_are_kept_and_other_files_stay() {
        let place = tempfile::tempdir().expect("a folder");
        let directory = place.path();
        for other in ["notes.txt", "old.before.json", "00010101T000000-f.before.json"] {
            std::fs::write(directory.join(other), "mine").expect("room");
        }
        for since in 0..MAX_KEPT_CHANGES as u64 + 3 {
            keep(directory, "disk", since).expect("room");
        }
        let names = names(directory);
        assert_eq!(names.len(), 2 * MAX_KEPT_CHANGES + 3);
        let ours: Vec<_> = names.iter().filter(|name| change_of(OsStr::new(name)).is_some()).collect();
        assert_eq!(ours.first().map(|name| name.as_str()), Some("20010909T014643Z-disk.after.json"));
    }
}

//! CPU limits set while a recording runs. A limit lifted before the end is there neither at the recording's beginning
//! nor at its end, so each is read when it hands out time.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wakepath_event::NameSpace;
use wakepath_kernel_records::{Header, Kind};

use crate::names::{Hierarchy, MAX_CGROUPS, Name, cpu_limit, folders, path_within};

/// The shortest time between two readings of a limit: reading takes some 20 µs, in which nothing is drained.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The most cgroups among which a new cgroup is searched for: 10 ms, a tenth of the time after which a ring is full.
const MAX_SEARCHED: usize = 500;

/// The most cgroups remembered, so that memory is bounded where many come and go.
const MAX_KNOWN: usize = 2 * MAX_CGROUPS;

/// The cgroups in the hierarchy with the CPU controller, by inode, and their limits at the last reading.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    root: PathBuf,
    known: HashMap<u64, Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The path; `None` where the cgroup is gone.
    path: Option<Box<[u8]>>,
    read: Option<Instant>,
    /// The last limit.
    limit: Option<String>,
}

impl Limits {
    /// Starts from the cgroups named when recording began.
    pub(crate) fn new(names: &[Name]) -> Self {
        Self::below(Hierarchy::Cpu.root().unwrap_or_default(), names)
    }

    fn below(root: PathBuf, names: &[Name]) -> Self {
        let mut known: HashMap<u64, Known> = HashMap::new();
        for (space, inode, name) in names {
            match space {
                NameSpace::CpuCgroup => known.entry(*inode).or_default().path = Some(name.clone()),
                NameSpace::CpuLimit => {
                    known.entry(*inode).or_default().limit = String::from_utf8(name.to_vec()).ok();
                }
                _ => {}
            }
        }
        Self { root, known }
    }

    /// The new names, if this record shows that a limit handed out time: the limit where it has changed, and the
    /// cgroup where it is new.
    pub(crate) fn see(&mut self, record: &[u8]) -> Vec<Name> {
        handed_out(record).map_or(Vec::new(), |inode| self.read(inode, Instant::now()))
    }

    fn read(&mut self, inode: u64, now: Instant) -> Vec<Name> {
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(&inode) {
            self.known.clear();
        }
        let known = self.known.entry(inode).or_default();
        if known.read.is_some_and(|read| now.duration_since(read) < READ_INTERVAL) {
            return Vec::new();
        }
        known.read = Some(now);
        let mut names = Vec::new();
        if known.path.is_none()
            && let Some((folder, _)) =
                folders(self.root.clone()).take(MAX_SEARCHED).find(|(_, it)| *it == inode)
        {
            let path = path_within(&self.root, &folder);
            names.push((NameSpace::CpuCgroup, inode, path.clone()));
            known.path = Some(path);
        }
        let limit = known.path.as_ref().and_then(|path| cpu_limit(&folder(&self.root, path)));
        if let Some(limit) = limit.filter(|limit| known.limit.as_ref() != Some(limit)) {
            names.push((NameSpace::CpuLimit, inode, limit.as_bytes().into()));
            known.limit = Some(limit);
        }
        names
    }
}

/// A cgroup's folder, from a path that begins with a slash.
fn folder(root: &Path, path: &[u8]) -> PathBuf {
    root.join(std::ffi::OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)))
}

/// The cgroup in a `struct wp_refill` record; `None` for other records.
fn handed_out(record: &[u8]) -> Option<u64> {
    (Header::read(record)?.kind == Kind::Refill.number())
        .then(|| record.get(16..)?.first_chunk().copied().map(u64::from_le_bytes))?
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// A v2 hierarchy in which `/shop` is known, and its inode.
    fn hierarchy() -> (tempfile::TempDir, Limits, u64) {
        let root = tempfile::tempdir().expect("a folder");
        let inode = add(root.path(), "shop", "max 100000");
        let names = [(NameSpace::CpuCgroup, inode, (*b"/shop").into())];
        let limits = Limits::below(root.path().to_owned(), &names);
        (root, limits, inode)
    }

    fn add(root: &Path, group: &str, limit: &str) -> u64 {
        let folder = root.join(group);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("cpu.max"), limit).expect("a limit");
        folder.metadata().expect("a folder").ino()
    }

    fn limit(inode: u64, text: &str) -> Name {
        (NameSpace::CpuLimit, inode, text.as_bytes().into())
    }

    #[test]
    fn a_limit_that_hands_out_time_is_named_once_and_again_where_it_has_changed() {
        let (root, mut limits, shop) = hierarchy();
        let began = Instant::now();
        let after = |ms| began + Duration::from_millis(ms);
        assert_eq!(limits.read(shop, began), [], "it was lifted before it could be read");
        add(root.path(), "shop", "1000 100000\n");
        assert_eq!(limits.read(shop, after(999)), [], "too early");
        assert_eq!(limits.read(shop, after(1000)), [limit(shop, "1000 100000")]);
        assert_eq!(limits.read(shop, after(2000)), [], "as before");
        add(root.path(), "shop", "50000 100000\n");
        assert_eq!(limits.read(shop, after(2999)), [], "too early");
        assert_eq!(limits.read(shop, after(3000)), [limit(shop, "50000 100000")]);
    }

    #[test]
    fn a_limit_that_was_named_at_the_beginning_is_not_named_again() {
        let root = tempfile::tempdir().expect("a folder");
        let inode = add(root.path(), "shop", "1000 100000\n");
        let names = [(NameSpace::CpuCgroup, inode, (*b"/shop").into()), limit(inode, "1000 100000")];
        assert_eq!(Limits::below(root.path().to_owned(), &names).read(inode, Instant::now()), []);
    }

    #[test]
    fn a_cgroup_that_came_later_is_named_with_its_limit() {
        let (root, mut limits, _) = hierarchy();
        let inode = add(root.path(), "shop/web", "20000 100000\n");
        let expected = [(NameSpace::CpuCgroup, inode, (*b"/shop/web").into()), limit(inode, "20000 100000")];
        assert_eq!(limits.read(inode, Instant::now()), expected);
        assert_eq!(limits.read(inode + 1, Instant::now()), [], "it is there no more");
    }

    #[test]
    fn only_a_record_of_time_that_is_handed_out_names_a_cgroup() {
        let record = |kind: Kind, length: usize| {
            let mut bytes = vec![0; length];
            bytes[8] = kind.number();
            bytes
        };
        let whole = record(Kind::Refill, 24);
        assert_eq!(Header::read(&whole).map(|header| header.kind), Some(Kind::Refill.number()));
        assert_eq!(handed_out(&whole), Some(0));
        assert_eq!(handed_out(&record(Kind::Refill, 23)), None);
        assert_eq!(handed_out(&record(Kind::Waking, 24)), None);
        assert_eq!(handed_out(&[]), None);
    }
}

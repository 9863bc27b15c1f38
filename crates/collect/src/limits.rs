//! CPU and I/O limits while a recording runs. A limit lifted before the end is there neither at the recording's beginning
//! nor at its end, so each is read when it hands out time, or lets a disk request go that it held back.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wakepath_event::NameSpace;
use wakepath_kernel_records::{Header, Kind};

use crate::io_limit::io_limits;
use crate::names::{Hierarchy, MAX_CGROUPS, Name, cgroup_names, cpu_limit, folders, path_within};
use crate::refaults::refaults;

/// The shortest time between two readings of a limit: reading takes some 20 µs, in which nothing is drained.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The most cgroups among which a new cgroup is searched for: 10 ms, a tenth of the time after which a ring is full.
const MAX_SEARCHED: usize = 500;

/// The most cgroups remembered, so that memory is bounded where many come and go.
const MAX_KNOWN: usize = 2 * MAX_CGROUPS;

/// A controller with limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Cpu,
    Io,
    Memory,
}

impl Controller {
    /// The cgroup in a record that shows a limit at work; `None` for other records.
    fn at_work(self, record: &[u8]) -> Option<u64> {
        let (kind, place) = match self {
            Self::Cpu => (Kind::Refill, 16),
            Self::Io => (Kind::BlockRelease, 24),
            Self::Memory => (Kind::Reclaim, 24),
        };
        let found = Header::read(record)?.kind;
        // A process killed for want of memory.
        let place = match self {
            Self::Memory if found == Kind::SignalSent.number() => 32,
            _ if found == kind.number() => place,
            _ => return None,
        };
        let cgroup = record.get(place..)?.first_chunk().copied().map(u64::from_le_bytes);
        cgroup.filter(|cgroup| *cgroup != 0)
    }

    const fn cgroup_names(self) -> NameSpace {
        match self {
            Self::Cpu => NameSpace::CpuCgroup,
            Self::Io => NameSpace::IoCgroup,
            Self::Memory => NameSpace::MemoryCgroup,
        }
    }

    const fn limit_names(self) -> NameSpace {
        match self {
            Self::Cpu => NameSpace::CpuLimit,
            Self::Io => NameSpace::IoLimit,
            // The limit itself is in the record.
            Self::Memory => NameSpace::Refaults,
        }
    }

    /// The limit of the cgroup in a folder, as a recording has it.
    fn limit(self, root: &Path, folder: &Path) -> Option<String> {
        match self {
            Self::Cpu => cpu_limit(folder),
            Self::Io => io_limits(root, folder),
            Self::Memory => refaults(folder),
        }
    }
}

/// The limits of all controllers.
#[derive(Debug, Default)]
pub(crate) struct AllLimits(Vec<Limits>);

impl AllLimits {
    /// Starts from the cgroups named when recording began.
    pub(crate) fn new(names: &[Name]) -> Self {
        Self(vec![Limits::cpu(names), Limits::io(names), Limits::memory(names)])
    }

    /// The new names, if this record shows a limit at work.
    pub(crate) fn see(&mut self, record: &[u8]) -> Vec<Name> {
        self.0.iter_mut().flat_map(|limits| limits.see(record)).collect()
    }

    /// The changes since the last readings, when recording ends.
    pub(crate) fn last(&mut self) -> Vec<Name> {
        self.0.iter_mut().flat_map(Limits::last).collect()
    }
}

/// The cgroups in the hierarchy with a controller, by inode, and their limits at the last reading.
#[derive(Debug)]
struct Limits {
    controller: Controller,
    root: PathBuf,
    known: HashMap<u64, Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The path; `None` where the cgroup is gone.
    path: Option<Box<[u8]>>,
    /// The recording has the path.
    named: bool,
    read: Option<Instant>,
    /// The last limit.
    limit: Option<String>,
}

impl Limits {
    /// CPU limits; starts from the cgroups named when recording began.
    fn cpu(names: &[Name]) -> Self {
        Self::below(Hierarchy::Cpu.root().unwrap_or_default(), names)
    }

    /// I/O limits. A recording names only the cgroups whose requests were held back.
    fn io(names: &[Name]) -> Self {
        Self::unnamed(Controller::Io, Hierarchy::Io, names)
    }

    /// Counts of cgroups whose memory limits are reached. A recording names only these.
    fn memory(names: &[Name]) -> Self {
        Self::unnamed(Controller::Memory, Hierarchy::Memory, names)
    }

    fn unnamed(controller: Controller, hierarchy: Hierarchy, names: &[Name]) -> Self {
        let root = hierarchy.root();
        let cgroups = match root == Hierarchy::V2.root() {
            true => v2_cgroups(names),
            false => cgroup_names(hierarchy),
        };
        let known = |path| Known { path: Some(path), ..Known::default() };
        let known = cgroups.into_iter().map(|(inode, path)| (inode, known(path))).collect();
        Self { controller, root: root.unwrap_or_default(), known }
    }

    fn below(root: PathBuf, names: &[Name]) -> Self {
        let mut known: HashMap<u64, Known> = HashMap::new();
        for (space, inode, name) in names {
            match space {
                NameSpace::CpuCgroup => {
                    let known = known.entry(*inode).or_default();
                    (known.path, known.named) = (Some(name.clone()), true);
                }
                NameSpace::CpuLimit => {
                    known.entry(*inode).or_default().limit = String::from_utf8(name.to_vec()).ok();
                }
                _ => {}
            }
        }
        Self { controller: Controller::Cpu, root, known }
    }

    /// The changes since the last readings, when recording ends: counts go on until then.
    fn last(&mut self) -> Vec<Name> {
        let read = self.known.iter().filter(|(_, known)| known.read.is_some());
        let cgroups: Vec<u64> = read.map(|(inode, _)| *inode).collect();
        cgroups.into_iter().flat_map(|inode| self.read(inode, Instant::now() + READ_INTERVAL)).collect()
    }

    /// The new names, if this record shows a limit at work: the limit where it has changed, and the cgroup where it is
    /// new.
    fn see(&mut self, record: &[u8]) -> Vec<Name> {
        self.controller.at_work(record).map_or(Vec::new(), |inode| self.read(inode, Instant::now()))
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
            known.path = Some(path_within(&self.root, &folder));
        }
        if let Some(path) = known.path.as_ref().filter(|_| !known.named) {
            names.push((self.controller.cgroup_names(), inode, path.clone()));
            known.named = true;
        }
        let path = known.path.as_ref();
        let limit = path.and_then(|path| self.controller.limit(&self.root, &folder(&self.root, path)));
        if let Some(limit) = limit.filter(|limit| known.limit.as_ref() != Some(limit)) {
            names.push((self.controller.limit_names(), inode, limit.as_bytes().into()));
            known.limit = Some(limit);
        }
        names
    }
}

/// The named cgroups in the v2 hierarchy.
fn v2_cgroups(names: &[Name]) -> HashMap<u64, Box<[u8]>> {
    let v2 = names.iter().filter(|(space, ..)| *space == NameSpace::Cgroup);
    v2.map(|(_, inode, path)| (*inode, path.clone())).collect()
}

/// A cgroup's folder, from a path that begins with a slash.
fn folder(root: &Path, path: &[u8]) -> PathBuf {
    root.join(std::ffi::OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)))
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
    fn only_a_record_of_a_limit_at_work_names_a_cgroup() {
        let record = |kind: Kind, length: usize| {
            let mut bytes: Vec<u8> = (0..length as u8).map(|place| place / 8).collect();
            bytes[8] = kind.number();
            bytes
        };
        let number = |byte| Some(u64::from_le_bytes([byte; 8]));
        let whole = record(Kind::Refill, 24);
        assert_eq!(Header::read(&whole).map(|header| header.kind), Some(Kind::Refill.number()));
        for (controller, kind, length, expected) in [
            (Controller::Cpu, Kind::Refill, 24, number(2)),
            (Controller::Cpu, Kind::Refill, 23, None),
            (Controller::Cpu, Kind::BlockRelease, 48, None),
            (Controller::Cpu, Kind::Waking, 24, None),
            (Controller::Io, Kind::BlockRelease, 48, number(3)),
            (Controller::Io, Kind::BlockRelease, 31, None),
            (Controller::Io, Kind::Refill, 24, None),
        ] {
            let found = controller.at_work(&record(kind, length));
            assert_eq!(found, expected, "{controller:?} {kind:?} {length}");
            assert_eq!(controller.at_work(&[]), None);
        }
    }

    #[test]
    fn a_cgroup_whose_requests_were_held_back_is_named_once_with_its_limit() {
        let root = tempfile::tempdir().expect("a folder");
        let shop = root.path().join("shop");
        fs::create_dir_all(&shop).expect("a folder");
        fs::write(shop.join("io.max"), "1:99 rbps=max wbps=1000 riops=max wiops=max\n").expect("a limit");
        let inode = shop.metadata().expect("a folder").ino();
        let path = || Some((*b"/shop").into());
        for known in [HashMap::new(), HashMap::from([(inode, Known { path: path(), ..Known::default() })])] {
            let root = root.path().to_owned();
            let mut limits = Limits { controller: Controller::Io, root, known };
            let began = Instant::now();
            let limit = (NameSpace::IoLimit, inode, (*b"1:99 wbps=1000 /shop").into());
            let expected = [(NameSpace::IoCgroup, inode, (*b"/shop").into()), limit];
            assert_eq!(limits.read(inode, began), expected);
            assert_eq!(limits.read(inode, began + READ_INTERVAL), [], "as before");
        }
    }
}

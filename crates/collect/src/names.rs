//! Names for the numbers in records: cgroups (with their CPU limits), interrupts, disks, interfaces.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wakepath_event::NameSpace;

/// A name: its kind, the number that it stands for, its bytes.
pub(crate) type Name = (NameSpace, u64, Box<[u8]>);

/// The most named cgroups, to bound the time and space for names.
pub(crate) const MAX_CGROUPS: usize = 20_000;

/// All names as of now.
pub(crate) fn all() -> Vec<Name> {
    let mut names = all_cgroups();
    interrupts(&fs::read("/proc/interrupts").unwrap_or_default(), &mut names);
    numbered("/sys/class/block", "dev", NameSpace::BlockDevice, &mut names);
    numbered("/sys/class/net", "ifindex", NameSpace::Interface, &mut names);
    names
}

/// The current paths of all cgroups, in the hierarchies that a recording names.
pub fn cgroup_paths() -> Vec<Box<[u8]>> {
    let names = all_cgroups().into_iter();
    names.filter(|(space, ..)| *space != NameSpace::CpuLimit).map(|(_, _, path)| path).collect()
}

fn all_cgroups() -> Vec<Name> {
    let mut names = cgroups(Hierarchy::V2, NameSpace::Cgroup);
    names.extend(cgroups(Hierarchy::Cpu, NameSpace::CpuCgroup));
    names
}

/// A cgroup hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    V2,
    /// The hierarchy with the CPU controller.
    Cpu,
    /// The hierarchy with the I/O controller.
    Io,
    /// The hierarchy with the memory controller.
    Memory,
    /// The hierarchy with the cpuset controller.
    Cpuset,
}

impl Hierarchy {
    pub(crate) fn root(&self) -> Option<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let find = |wanted: &dyn Fn(&str, &str) -> bool| {
            mounts.lines().find_map(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let (path, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
                wanted(kind, options).then(|| PathBuf::from(path))
            })
        };
        let v2 = || find(&|kind, _| kind == "cgroup2");
        let v1 = |controller: &str| {
            find(&|kind, options| kind == "cgroup" && options.split(',').any(|option| option == controller))
        };
        match self {
            Self::V2 => v2(),
            Self::Cpu => v1("cpu").or_else(v2),
            Self::Io => v1("blkio").or_else(v2),
            Self::Memory => v1("memory").or_else(v2),
            Self::Cpuset => v1("cpuset").or_else(v2),
        }
    }
}

/// The current paths of all cgroups, by inode; empty without such a hierarchy.
pub(crate) fn cgroup_names(hierarchy: Hierarchy) -> HashMap<u64, Box<[u8]>> {
    cgroups(hierarchy, NameSpace::Cgroup).into_iter().map(|(_, inode, path)| (inode, path)).collect()
}

/// Every cgroup's path in a hierarchy, by its inode, and its CPU limit if it has one; empty without such a hierarchy.
fn cgroups(hierarchy: Hierarchy, space: NameSpace) -> Vec<Name> {
    let Some(root) = hierarchy.root() else { return Vec::new() };
    let mut names = Vec::new();
    for (folder, inode) in folders(root.clone()).take(MAX_CGROUPS) {
        names.push((space, inode, path_within(&root, &folder)));
        if space == NameSpace::CpuCgroup
            && let Some(limit) = cpu_limit(&folder)
        {
            names.push((NameSpace::CpuLimit, inode, limit.into_bytes().into()));
        }
    }
    names
}

/// A folder and all below it, each with its inode, in no order. Folders that disappear meanwhile are left out.
pub(crate) fn folders(root: PathBuf) -> impl Iterator<Item = (PathBuf, u64)> {
    let mut folders = vec![root];
    std::iter::from_fn(move || {
        loop {
            let folder = folders.pop()?;
            let Ok(data) = folder.symlink_metadata() else { continue };
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            folders.extend(below.map(|entry| entry.path()));
            return Some((folder, data.ino()));
        }
    })
}

/// A cgroup's path in its hierarchy, with a slash in front.
pub(crate) fn path_within(root: &Path, folder: &Path) -> Box<[u8]> {
    let path = folder.strip_prefix(root).unwrap_or(folder);
    [b"/", path.as_os_str().as_bytes()].concat().into()
}

/// `quota period` in microseconds, for a v1 or v2 cgroup with a CPU limit.
pub(crate) fn cpu_limit(folder: &Path) -> Option<String> {
    let number = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<i64>().ok();
    if let (Some(quota), Some(period)) = (number("cpu.cfs_quota_us"), number("cpu.cfs_period_us")) {
        return (quota > 0).then(|| format!("{quota} {period}"));
    }
    let limit = fs::read_to_string(folder.join("cpu.max")).ok()?;
    (!limit.starts_with("max")).then(|| limit.trim().to_owned())
}

/// Device interrupts in `/proc/interrupts`: lines such as ` 36:  0  821  PCI-MSIX-0000:00:02.0  1-edge  virtio1-req.0`.
fn interrupts(text: &[u8], names: &mut Vec<Name>) {
    let text = String::from_utf8_lossy(text);
    for line in text.lines() {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Ok(number) = number.trim().parse::<u64>() else { continue };
        // The counts come first, then the chip and the trigger; the handlers follow.
        let words: Vec<&str> =
            rest.split_whitespace().skip_while(|word| word.parse::<u64>().is_ok()).collect();
        let handlers = words.iter().rposition(|word| word.ends_with("-edge") || word.ends_with("-fasteoi"));
        let name = words[handlers.map_or(0, |at| at + 1)..].join(" ");
        if !name.is_empty() {
            names.push((NameSpace::Interrupt, number, name.into_bytes().into()));
        }
    }
}

/// Adds the names in a sysfs class, whose numbers stand in a file of each entry.
fn numbered(class: &str, file: &str, space: NameSpace, names: &mut Vec<Name>) {
    for entry in fs::read_dir(class).into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(entry.path().join(file)) else { continue };
        let key = match text.trim().split_once(':') {
            Some((major, minor)) => match (major.parse::<u64>(), minor.parse::<u64>()) {
                (Ok(major), Ok(minor)) => major << 20 | minor,
                _ => continue,
            },
            None => match text.trim().parse() {
                Ok(number) => number,
                Err(_) => continue,
            },
        };
        names.push((space, key, entry.file_name().as_bytes().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_interrupt_is_named_by_its_handlers() {
        let mut names = Vec::new();
        interrupts(
            b"           CPU0       CPU1       \n 36:          0      82077 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\nLOC:      16446      16782   Local timer interrupts\n",
            &mut names,
        );
        assert_eq!(names, [(NameSpace::Interrupt, 36, b"virtio1-req.0".to_vec().into())]);
    }
}

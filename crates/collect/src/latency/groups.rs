//! Reading the counts by group from the kernel: `bpf/group.bpf.h`.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags};
use wakepath_distribution::GroupBy;

use super::counts::{Counts, Group};
use crate::error::Error;
use crate::libbpf::{into_io, word};
use crate::names::{Hierarchy, cgroup_names};
use crate::skeleton::latency::LatencySkel;

/// The grouping for the counts, with the cgroups' names.
#[derive(Debug)]
pub(super) struct Grouping {
    by: GroupBy,
    hierarchy: Hierarchy,
    /// The cgroups when counting began: some are gone when it ends.
    cgroups: HashMap<u64, Box<[u8]>>,
}

impl Grouping {
    pub fn new(by: GroupBy) -> Self {
        let (mut hierarchy, mut cgroups) = (Hierarchy::V2, HashMap::new());
        if by == GroupBy::Cgroup {
            cgroups = cgroup_names(hierarchy);
            // The root alone: the processes are grouped in v1.
            if cgroups.len() < 2 {
                hierarchy = Hierarchy::Cpu;
                cgroups = cgroup_names(hierarchy);
            }
        }
        Self { by, hierarchy, cgroups }
    }

    /// This grouping's number in `enum wp_by`.
    pub const fn number(&self) -> u32 {
        match (self.by, self.hierarchy) {
            (GroupBy::Process, _) => 1,
            (GroupBy::Thread, _) => 2,
            (GroupBy::Cgroup, Hierarchy::V2) => 3,
            (GroupBy::Cgroup, Hierarchy::Cpu | Hierarchy::Io | Hierarchy::Memory | Hierarchy::Cpuset) => 4,
        }
    }

    /// Gives groups their names.
    pub(super) fn name<'a>(&self, skeleton: &LatencySkel<'_>, groups: impl Iterator<Item = &'a mut Group>) {
        if self.by == GroupBy::Cgroup {
            let now = cgroup_names(self.hierarchy);
            for group in groups {
                group.name = now.get(&group.id).or_else(|| self.cgroups.get(&group.id)).cloned();
            }
            return;
        }
        for group in groups {
            let key = [group.id.to_ne_bytes(), group.start_ns.to_ne_bytes()].concat();
            // `struct wp_group_name`.
            let Ok(Some(found)) = skeleton.maps.group_names.lookup(&key, MapFlags::ANY) else {
                continue;
            };
            let Some((name, process)) = found.split_first_chunk::<16>() else { continue };
            group.name = name.split(|&byte| byte == 0).next().map(Box::from);
            group.process = process.first_chunk().map(|word| u32::from_ne_bytes(*word));
        }
    }
}

/// Each target's groups. They are read in sequence: while counting goes on, some later than others.
pub(super) fn read(skeleton: &LatencySkel<'_>) -> Result<HashMap<u64, Vec<Group>>, Error> {
    let mut groups: HashMap<u64, Vec<Group>> = HashMap::new();
    let map = &skeleton.maps.groups;
    for key in map.keys() {
        let value =
            map.lookup(&key, MapFlags::ANY).map_err(|source| Error::Counts { source: into_io(source) })?;
        let Some(value) = value else { continue };
        // The key is a `struct wp_group_of_target`.
        let [id, start_ns, target] = [0, 8, 16].map(|at| word(&key, at));
        let counts = Counts::sum([value.as_slice()]);
        groups.entry(target).or_default().push(Group { id, start_ns, process: None, name: None, counts });
    }
    Ok(groups)
}

/// Removes all groups, which come from the calibration's calls.
pub(super) fn clear(skeleton: &LatencySkel<'_>) {
    for map in [&skeleton.maps.groups, &skeleton.maps.group_names] {
        for key in map.keys() {
            let _ = map.delete(&key);
        }
    }
}

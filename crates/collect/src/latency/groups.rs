//! Whose latencies were counted: `bpf/group.bpf.h`.

use std::collections::HashMap;

use libbpf_rs::{MapCore, MapFlags};
use wakepath_distribution::{GroupBy, MAX_GROUP_SLICES};

use super::{Counters, Counts, Groups};
use crate::Error;
use crate::names::{Hierarchy, cgroup_names};
use crate::programs::into_io;

/// A process, a thread or a cgroup with its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Of the process or thread; of the cgroup, its inode.
    pub id: u64,
    /// When it started, ns of the monotonic clock; 0 for a cgroup.
    pub start_ns: u64,
    /// The process that a thread belongs to.
    pub process: Option<u32>,
    /// What the process or thread was called at last, or the cgroup's path; nothing where that is gone.
    pub name: Option<Box<[u8]>>,
    /// Its own; of those, `open` is not told apart.
    pub counts: Counts,
}

/// What came of a group between two readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Of which group: its number and when it started; nothing of those for whom there was no room.
    pub whose: Option<(u64, u64)>,
    /// What came.
    pub counts: Counts,
}

/// What was counted of groups at the last reading.
#[derive(Debug, Default)]
pub(super) struct Parts {
    asked: bool,
    kept: usize,
    last: HashMap<(usize, Option<(u64, u64)>), Counts>,
}

impl Parts {
    pub fn new(asked: bool) -> Self {
        Self { asked, ..Self::default() }
    }

    /// What came since the last reading, target by target.
    pub fn since(&mut self, groups: &[Groups]) -> Option<Vec<Vec<Part>>> {
        if !self.asked {
            return None;
        }
        let mut parts = Vec::new();
        for (target, Groups { groups, others }) in groups.iter().enumerate() {
            let known = groups.iter().map(|group| (Some((group.id, group.start_ns)), &group.counts));
            let mut of_target = Vec::new();
            for (whose, counts) in known.chain([(None, others)]) {
                let before = self.last.insert((target, whose), counts.clone());
                if before.as_ref() == Some(counts) {
                    continue;
                }
                let counts = before.map_or_else(|| counts.clone(), |before| counts.since(&before));
                if counts.buckets.iter().any(|&count| count > 0) {
                    of_target.push(Part { whose, counts });
                }
            }
            self.kept += of_target.len();
            parts.push(of_target);
        }
        self.asked = self.kept <= MAX_GROUP_SLICES;
        self.asked.then_some(parts)
    }
}

/// How groups are told apart, where they are.
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
            // The root alone: what groups there are are those of v1.
            if cgroups.len() < 2 {
                hierarchy = Hierarchy::Cpu;
                cgroups = cgroup_names(hierarchy);
            }
        }
        Self { by, hierarchy, cgroups }
    }

    /// As `told_apart_by` says it: an `enum wp_by`.
    pub const fn number(&self) -> u32 {
        match (self.by, self.hierarchy) {
            (GroupBy::Process, _) => 1,
            (GroupBy::Thread, _) => 2,
            (GroupBy::Cgroup, Hierarchy::V2) => 3,
            (GroupBy::Cgroup, Hierarchy::Cpu) => 4,
        }
    }
}

/// A key of `groups`: `struct wp_group_of_target`.
struct Key {
    id: u64,
    start_ns: u64,
    target: u64,
}

impl Key {
    fn read(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self { id: word(0)?, start_ns: word(8)?, target: word(16)? })
    }
}

impl Counters<'_> {
    /// The groups of each target. They are read one after another: where counting goes on, some later
    /// than others.
    pub(super) fn groups(&self) -> Result<HashMap<u64, Vec<Group>>, Error> {
        let mut groups: HashMap<u64, Vec<Group>> = HashMap::new();
        if self.grouping.is_none() {
            return Ok(groups);
        }
        let map = &self.skeleton.maps.groups;
        for bytes in map.keys() {
            let Some(key) = Key::read(&bytes) else { continue };
            let value = map.lookup(&bytes, MapFlags::ANY);
            let value = value.map_err(|source| Error::Counts { source: into_io(source) })?;
            let Some(value) = value else { continue };
            let counts = Counts::sum([value.as_slice()]);
            groups.entry(key.target).or_default().push(Group {
                id: key.id,
                start_ns: key.start_ns,
                process: None,
                name: None,
                counts,
            });
        }
        Ok(groups)
    }

    /// Gives groups their names.
    pub(super) fn name<'a>(&self, groups: impl Iterator<Item = &'a mut Group>) {
        let Some(grouping) = &self.grouping else { return };
        if grouping.by == GroupBy::Cgroup {
            let now = cgroup_names(grouping.hierarchy);
            for group in groups {
                group.name = now.get(&group.id).or_else(|| grouping.cgroups.get(&group.id)).cloned();
            }
            return;
        }
        for group in groups {
            let key = [group.id.to_ne_bytes(), group.start_ns.to_ne_bytes()].concat();
            // `struct wp_group_name`.
            let Ok(Some(found)) = self.skeleton.maps.group_names.lookup(&key, MapFlags::ANY) else {
                continue;
            };
            let Some((name, process)) = found.split_first_chunk::<16>() else { continue };
            group.name = name.split(|&byte| byte == 0).next().map(Box::from);
            group.process = process.first_chunk().map(|word| u32::from_ne_bytes(*word));
        }
    }

    /// Forgets those of calls that were made to measure probes.
    pub(super) fn forget_groups(&self) {
        let maps = &self.skeleton.maps;
        for key in maps.groups.keys() {
            let _ = maps.groups.delete(&key);
        }
        for key in maps.group_names.keys() {
            let _ = maps.group_names.delete(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(calls: u64) -> Counts {
        let buckets = std::array::from_fn(|bucket| if bucket == 10 { calls } else { 0 });
        Counts { buckets, sum: calls * 1500, unwound: 0, overflowed: 0, open: 0, unseen: 0 }
    }

    fn groups(of: &[(u64, u64)], others: u64) -> Vec<Groups> {
        let group =
            |&(id, calls)| Group { id, start_ns: 1, process: None, name: None, counts: counts(calls) };
        vec![Groups { groups: of.iter().map(group).collect(), others: counts(others) }]
    }

    #[test]
    fn between_readings_only_who_came_has_a_part() {
        let mut parts = Parts::new(true);
        let mut since = |of: &[(u64, u64)], others| {
            let parts = parts.since(&groups(of, others)).expect("room").remove(0);
            let told = parts.into_iter().map(|part| (part.whose.map(|(id, _)| id), part.counts.buckets[10]));
            told.collect::<Vec<_>>()
        };
        assert_eq!(since(&[(7, 3)], 0), [(Some(7), 3)]);
        assert_eq!(since(&[(7, 3), (8, 2)], 1), [(Some(8), 2), (None, 1)]);
        assert_eq!(since(&[(7, 5), (8, 2)], 1), [(Some(7), 2)]);
        assert_eq!(Parts::new(false).since(&groups(&[(7, 3)], 0)), None);
    }

    #[test]
    fn more_than_can_be_kept_are_told_by_no_reading_from_then_on() {
        let mut parts = Parts::new(true);
        let many = |calls| (0..MAX_GROUP_SLICES as u64).map(|id| (id, calls)).collect::<Vec<_>>();
        assert!(parts.since(&groups(&many(1), 0)).is_some());
        assert_eq!(parts.since(&groups(&many(2), 0)), None);
        assert_eq!(parts.since(&groups(&[(7, 3)], 0)), None);
    }
}

//! How the scheduler treats threads: nice value, class, allowed CPUs.
//!
//! The BPF programs look at threads (`bpf/scheduling.bpf.h`); here a look becomes a name, with the cgroup whose cpuset
//! allows just these CPUs.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wakepath_clock::{Local, Stamp};
use wakepath_event::NameSpace;
use wakepath_kernel_records::Header;

use crate::names::{Hierarchy, Name, folders, path_within};
use crate::sampling::cpu_list;

/// `WP_SCHEDULING`.
const SCHEDULING: u8 = 61;
/// The size of `struct wp_scheduling`.
pub(crate) const BYTES: usize = 176;
/// Offsets in it.
const TID: usize = 16;
const NICE: usize = 20;
const POLICY: usize = 21;
const PRIORITY: usize = 22;
const AUTOGROUP: usize = 24;
const CPUSET: usize = 32;
const ALLOWED: usize = 40;
const WORDS: usize = 44;
const CPUS: usize = 48;

/// The most ranges of CPUs in a name.
const MAX_RANGES: usize = 64;
/// The shortest time between two readings of a cpuset.
const READ_INTERVAL: Duration = Duration::from_secs(1);
/// The most cgroups among which a cpuset is searched for.
const MAX_SEARCHED: usize = 500;
/// The most remembered cpusets.
const MAX_KNOWN: usize = 4096;

/// Whether this record holds a thread's scheduling.
pub(crate) fn is_one(record: &[u8]) -> bool {
    record.get(8) == Some(&SCHEDULING)
}

/// The mark that all threads were looked at.
pub(crate) fn all_seen() -> Name {
    (NameSpace::Scheduling, 0, Box::default())
}

/// The cpusets of threads that may not run on all CPUs, by their cgroup.
#[derive(Debug, Default)]
pub(crate) struct Schedulings {
    root: Option<Option<PathBuf>>,
    known: HashMap<u64, Cpuset>,
}

#[derive(Debug)]
struct Cpuset {
    /// `None` where the cgroup was not found.
    folder: Option<PathBuf>,
    cpus: Vec<usize>,
    read: Instant,
}

impl Schedulings {
    /// A thread's scheduling by this record, and the time of the look.
    pub(crate) fn see(&mut self, record: &[u8]) -> Option<(Stamp<Local>, Name)> {
        let header = Header::read(record)?;
        if !is_one(record) || record.len() < BYTES {
            return None;
        }
        let (tid, allowed, words) = (word(record, TID)?, word(record, ALLOWED)?, word(record, WORDS)?);
        let (nice, policy, priority) = (record[NICE] as i8, record[POLICY], record[PRIORITY]);
        let mut text = format!("nice {nice} policy {policy} priority {priority}");
        let (autogroup, cpuset) = (long(record, AUTOGROUP)?, long(record, CPUSET)?);
        if autogroup != 0 {
            text += &format!(" autogroup {autogroup}");
        }
        let masks = record[CPUS..BYTES].chunks_exact(8).take(words as usize);
        let masks: Vec<u64> = masks.filter_map(|mask| long(mask, 0)).collect();
        let cpus: Vec<usize> =
            (0..masks.len() * 64).filter(|cpu| masks[cpu / 64] >> (cpu % 64) & 1 == 1).collect();
        // A larger mask has CPUs behind those read.
        let ranges = ranges(&cpus);
        if cpus.len() == allowed as usize && !cpus.is_empty() && ranges.len() <= MAX_RANGES {
            text += &format!(" cpus {}", ranges.join(","));
            if let Some((path, allowed)) = self.cpuset(cpuset, Instant::now()) {
                match allowed == cpus {
                    true => text += &format!(" by cpuset {}", String::from_utf8_lossy(&path)),
                    false => text += " by affinity",
                }
            }
        }
        Some((Stamp::from_ns(header.stamp), (NameSpace::Scheduling, tid.into(), text.into_bytes().into())))
    }

    /// A cpuset's path and CPUs.
    fn cpuset(&mut self, id: u64, now: Instant) -> Option<(Box<[u8]>, Vec<usize>)> {
        let root = self.root.get_or_insert_with(|| Hierarchy::Cpuset.root()).clone()?;
        if self.known.len() >= MAX_KNOWN && !self.known.contains_key(&id) {
            self.known.clear();
        }
        let find =
            || folders(root.clone()).take(MAX_SEARCHED).find(|(_, it)| *it == id).map(|(folder, _)| folder);
        let is_new = !self.known.contains_key(&id);
        let known =
            self.known.entry(id).or_insert_with(|| Cpuset { folder: find(), cpus: Vec::new(), read: now });
        let folder = known.folder.as_ref()?;
        if is_new || now.duration_since(known.read) >= READ_INTERVAL {
            known.cpus = effective_cpus(folder).unwrap_or_default();
            known.read = now;
        }
        (!known.cpus.is_empty()).then(|| (path_within(&root, folder), known.cpus.clone()))
    }
}

/// The CPUs that a cpuset allows, in v2 or v1.
fn effective_cpus(folder: &Path) -> Option<Vec<usize>> {
    let files = ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"];
    let text = files.iter().find_map(|file| fs::read_to_string(folder.join(file)).ok())?;
    cpu_list(&text).ok()
}

/// Ascending numbers as the kernel writes them: `0-2`, `5`.
fn ranges(cpus: &[usize]) -> Vec<String> {
    let runs = cpus.chunk_by(|one, next| one + 1 == *next);
    let range = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    };
    runs.map(range).collect()
}

fn word(record: &[u8], at: usize) -> Option<u32> {
    record.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn long(record: &[u8], at: usize) -> Option<u64> {
    record.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// A thread's record: nice value, policy, real-time priority, autogroup, cpuset, allowed CPUs, and the mask's words.
    fn record(
        nice: i8,
        [policy, priority]: [u8; 2],
        [autogroup, cpuset]: [u64; 2],
        allowed: u32,
        masks: &[u64],
    ) -> Vec<u8> {
        let mut record = vec![0; BYTES];
        record[..8].copy_from_slice(&9_u64.to_le_bytes());
        record[8] = SCHEDULING;
        record[TID..][..4].copy_from_slice(&7_u32.to_le_bytes());
        (record[NICE], record[POLICY], record[PRIORITY]) = (nice as u8, policy, priority);
        record[AUTOGROUP..][..8].copy_from_slice(&autogroup.to_le_bytes());
        record[CPUSET..][..8].copy_from_slice(&cpuset.to_le_bytes());
        record[ALLOWED..][..4].copy_from_slice(&allowed.to_le_bytes());
        record[WORDS..][..4].copy_from_slice(&(masks.len() as u32).to_le_bytes());
        for (mask, place) in masks.iter().zip((CPUS..BYTES).step_by(8)) {
            record[place..][..8].copy_from_slice(&mask.to_le_bytes());
        }
        record
    }

    fn text(schedulings: &mut Schedulings, record: &[u8]) -> String {
        let (at, (space, tid, name)) = schedulings.see(record).expect("a look");
        assert_eq!((at.ns(), space, tid), (9, NameSpace::Scheduling, 7));
        String::from_utf8(name.into()).expect("text")
    }

    /// Schedulings on a machine with this hierarchy for cpusets.
    fn with_root(root: Option<&Path>) -> Schedulings {
        Schedulings { root: Some(root.map(Path::to_owned)), ..Schedulings::default() }
    }

    #[test]
    fn a_look_has_the_nice_value_the_class_and_the_sessions_group() {
        let mut without = with_root(None);
        let mut of = |record: Vec<u8>| text(&mut without, &record);
        assert_eq!(of(record(19, [0, 0], [0, 0], 2, &[])), "nice 19 policy 0 priority 0");
        assert_eq!(of(record(-5, [5, 0], [10, 0], 2, &[])), "nice -5 policy 5 priority 0 autogroup 10");
        assert_eq!(of(record(0, [1, 50], [0, 0], 2, &[])), "nice 0 policy 1 priority 50");
    }

    #[test]
    fn a_mask_becomes_ranges_unless_it_is_not_whole() {
        let mut without = with_root(None);
        let mut of = |allowed, masks: &[u64]| {
            let text = text(&mut without, &record(0, [0, 0], [0, 0], allowed, masks));
            text.strip_prefix("nice 0 policy 0 priority 0").expect("as ever").trim().to_owned()
        };
        assert_eq!(of(1, &[2]), "cpus 1");
        assert_eq!(of(5, &[0b1101, 0b11]), "cpus 0,2-3,64-65");
        assert_eq!(of(3, &[0b11, 0]), "", "a CPU behind the words read");
        assert_eq!(of(0, &[0]), "");
        let alternating = [0x5555_5555_5555_5555; 4];
        assert_eq!(of(128, &alternating), "", "too long");
        assert!(of(64, &alternating[..2]).starts_with("cpus 0,2,4,"));
    }

    #[test]
    fn just_the_cpus_of_a_cpuset_are_by_that_cpuset_and_fewer_are_by_affinity() {
        for file in ["cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"] {
            let root = tempfile::tempdir().expect("a folder");
            let shop = root.path().join("shop");
            fs::create_dir(&shop).expect("a folder");
            fs::write(shop.join(file), "0-1\n").expect("a file");
            let id = shop.metadata().expect("a folder").ino();
            let mut schedulings = with_root(Some(root.path()));
            let mut of = |id, allowed, mask| {
                let text = text(&mut schedulings, &record(0, [0, 0], [0, id], allowed, &[mask]));
                text.split_once(" cpus ").expect("CPUs").1.to_owned()
            };
            assert_eq!(of(id, 2, 3), "0-1 by cpuset /shop");
            assert_eq!(of(id, 1, 2), "1 by affinity");
            assert_eq!(of(99, 1, 2), "1", "a cgroup that is gone");
        }
    }

    #[test]
    fn a_cpuset_is_read_again_after_a_second() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |cpus: &str| fs::write(root.path().join("cpuset.cpus"), cpus).expect("a file");
        let id = root.path().metadata().expect("a folder").ino();
        let (mut schedulings, began) = (with_root(Some(root.path())), Instant::now());
        let mut at = |ms| schedulings.cpuset(id, began + Duration::from_millis(ms)).map(|(_, cpus)| cpus);
        write("0\n");
        assert_eq!(at(0), Some(vec![0]));
        write("1\n");
        assert_eq!([at(999), at(1000)], [Some(vec![0]), Some(vec![1])]);
    }

    #[test]
    fn a_cut_record_and_another_kind_are_no_look() {
        let whole = record(19, [0, 0], [0, 0], 1, &[u64::MAX; 16]);
        for length in 0..whole.len() {
            assert_eq!(with_root(None).see(&whole[..length]), None);
        }
        let mut words = whole.clone();
        words[WORDS..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(with_root(None).see(&words).is_some(), "no length is believed");
        let mut other = whole;
        other[8] = 62;
        assert!(!is_one(&other) && with_root(None).see(&other).is_none());
    }

    #[test]
    fn the_record_is_as_the_c_header_says() {
        let source = r#"
            #include <stddef.h>
            #include <stdio.h>
            #include "scheduling.h"
            #define AT(field) printf("%zu ", offsetof(struct wp_scheduling, field))
            int main(void) {
                printf("%d %zu ", WP_SCHEDULING, sizeof(struct wp_scheduling));
                AT(tid); AT(nice); AT(policy); AT(priority); AT(autogroup); AT(cpuset); AT(allowed); AT(words); AT(cpus);
            }"#;
        let folder = tempfile::tempdir().expect("a folder");
        let (c, program) = (folder.path().join("scheduling.c"), folder.path().join("scheduling"));
        fs::write(&c, source).expect("room");
        let bpf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf");
        let compiled =
            std::process::Command::new("cc").arg("-I").arg(bpf).arg("-o").arg(&program).arg(&c).status();
        assert!(compiled.expect("a compiler").success(), "the C compiler refused bpf/scheduling.h");
        let printed = std::process::Command::new(&program).output().expect("its output").stdout;
        let expected = [
            usize::from(SCHEDULING),
            BYTES,
            TID,
            NICE,
            POLICY,
            PRIORITY,
            AUTOGROUP,
            CPUSET,
            ALLOWED,
            WORDS,
            CPUS,
        ];
        let expected: String = expected.iter().map(|number| format!("{number} ")).collect();
        assert_eq!(String::from_utf8(printed).expect("text"), expected);
    }
}

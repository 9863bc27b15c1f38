//! The places behind calls of functions, learned as the calls come: `bpf/callers.bpf.h`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags};
use wakepath_functions::may_probe_behind_call;
use wakepath_process::{FileId, Process, path_through};

use crate::error::Error;
use crate::libbpf::word;

/// The most places with probes.
const MAX_PLACES: usize = 256;
/// A place loses its probe if more hits a second end no call: a single step takes some 20 µs.
const MAX_STRAYS_PER_SECOND: u64 = 1_000;
/// The longest call instruction, and the longest instruction, bytes.
const MAX_CALL: usize = 8;
const MAX_INSTRUCTION: usize = 15;

/// The states in the map.
const NEW: u32 = 0;
const PROBED: u32 = 1;
const REFUSED: u32 = 2;

/// A place behind a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The called function.
    pub target: u32,
    /// The process that called.
    pub pid: u32,
    /// The file to give to the kernel.
    pub file: PathBuf,
    /// The place in it, bytes.
    pub offset: u64,
}

/// The probes behind calls: all processes with a file share its places' probes, by function, file and offset.
#[derive(Debug)]
pub(crate) struct LearnedCallers<L = Link> {
    probes: BTreeMap<(u32, FileId, u64), Behind<L>>,
    /// The functions that get no more.
    removed: BTreeSet<u32>,
}

/// A probe behind a call.
#[derive(Debug)]
struct Behind<L> {
    /// `None`: the kernel refused it, or returns from other calls hit it too often.
    link: Option<L>,
    began: Instant,
    /// The processes' places in memory.
    keys: Vec<Vec<u8>>,
}

impl<L> Behind<L> {
    /// Removes it; calls from there are unseen.
    fn remove(&mut self, seen: &impl MapCore) {
        self.link = None;
        self.keys.iter().for_each(|key| set(seen, key, REFUSED));
    }
}

impl<L> Default for LearnedCallers<L> {
    fn default() -> Self {
        Self { probes: BTreeMap::new(), removed: BTreeSet::new() }
    }
}

impl<L> LearnedCallers<L> {
    /// Puts probes behind the calls that came since the last time, by `attach`; those calls were not measured. A place where no probe may be is left
    /// out for good, and loses it where it ends too few calls.
    pub fn learn(&mut self, seen: &impl MapCore, mut attach: impl FnMut(&Place) -> Result<L, Error>) {
        for key in seen.keys().collect::<Vec<_>>() {
            if state(seen, &key).is_none_or(|(state, _)| state != NEW) {
                continue;
            }
            let [address, rest] = [word(&key, 0), word(&key, 8)];
            let (pid, target) = (rest as u32, (rest >> 32) as u32);
            let state = match place(pid, address).filter(|_| !self.removed.contains(&target)) {
                Some((id, file, offset)) => self
                    .probe(&key, (target, id, offset), || attach(&Place { target, pid, file, offset }).ok()),
                None => REFUSED,
            };
            set(seen, &key, state);
        }
        for probe in self.probes.values_mut().filter(|probe| probe.link.is_some()) {
            let strays = probe.keys.iter().filter_map(|key| state(seen, key)).map(|(_, strays)| strays);
            if are_too_many(strays.sum(), probe.began.elapsed()) {
                probe.remove(seen);
            }
        }
    }

    /// Removes a function's probes for good.
    pub fn remove(&mut self, seen: &impl MapCore, target: u32) {
        self.removed.insert(target);
        let probes = self.probes.iter_mut().filter(|((function, ..), _)| *function == target);
        probes.for_each(|(_, probe)| probe.remove(seen));
    }

    /// The state of a place in a process's memory, behind which the probe is put unless it is there.
    fn probe(&mut self, key: &[u8], id: (u32, FileId, u64), attach: impl FnOnce() -> Option<L>) -> u32 {
        if !self.probes.contains_key(&id) {
            if self.probes.len() >= MAX_PLACES {
                return REFUSED;
            }
            let link = attach();
            self.probes.insert(id, Behind { link, began: Instant::now(), keys: Vec::new() });
        }
        let Some(probe) = self.probes.get_mut(&id).filter(|probe| probe.link.is_some()) else {
            return REFUSED;
        };
        probe.keys.push(key.to_vec());
        PROBED
    }

    /// The hits so far that ended no call.
    pub fn strays(&self, seen: &impl MapCore) -> u64 {
        self.strays_where(seen, |_| true)
    }

    /// The hits behind a function's calls that ended none of them.
    pub fn strays_by(&self, seen: &impl MapCore, target: u32) -> u64 {
        self.strays_where(seen, |function| function == target)
    }

    fn strays_where(&self, seen: &impl MapCore, is_meant: impl Fn(u32) -> bool) -> u64 {
        let probes = self.probes.iter().filter(|((function, ..), _)| is_meant(*function));
        let keys = probes.flat_map(|(_, probe)| &probe.keys);
        keys.filter_map(|key| state(seen, key)).map(|(_, strays)| strays).sum()
    }

    /// Removes the probes.
    pub fn detach(&mut self) -> Vec<L> {
        std::mem::take(&mut self.probes).into_values().filter_map(|probe| probe.link).collect()
    }
}

/// Whether this many hits in this time ended no call too often; a tenth of a second's are allowed at once.
pub(crate) fn are_too_many(strays: u64, elapsed: Duration) -> bool {
    let allowed =
        (elapsed + Duration::from_millis(100)).as_millis() * u128::from(MAX_STRAYS_PER_SECOND) / 1_000;
    u128::from(strays) > allowed
}

/// A place's state in the map, and its strays.
fn state(seen: &impl MapCore, key: &[u8]) -> Option<(u32, u64)> {
    let value = seen.lookup(key, MapFlags::ANY).ok()??;
    Some((word(&value, 0) as u32, word(&value, 8)))
}

/// Sets a place's state. Where the map cannot be written any more, the place's calls stay unseen.
fn set(seen: &impl MapCore, key: &[u8], state: u32) {
    let strays = self::state(seen, key).map_or(0, |(_, strays)| strays);
    let mut value = [0; 16];
    value[..4].copy_from_slice(&state.to_ne_bytes());
    value[8..].copy_from_slice(&strays.to_ne_bytes());
    let _ = seen.update(key, &value, MapFlags::ANY);
}

/// The file and the place in it, bytes, behind a call at this address; `None` where no probe may be.
fn place(pid: u32, address: u64) -> Option<(FileId, PathBuf, u64)> {
    let process = Process::open(pid).ok()?;
    let mappings = process.mappings().ok()?;
    let mapping = mappings.into_iter().find(|mapping| mapping.addresses.contains(&address))?;
    let is_code = mapping.permissions[2] == b'x' && mapping.file != FileId::default();
    if !is_code {
        return None;
    }
    // In memory another probe may be there.
    let code = process.mapped_file(&mapping.addresses).ok()?;
    let offset = mapping.offset.checked_add(address - mapping.addresses.start)?;
    let from = offset.saturating_sub(MAX_CALL as u64);
    let mut bytes = [0; MAX_CALL + MAX_INSTRUCTION];
    let read = code.read_at(&mut bytes, from).ok()?;
    let (before, behind) = bytes.get(..read)?.split_at_checked((offset - from) as usize)?;
    let file = path_through(pid, &mapping.addresses);
    may_probe_behind_call(before, behind, address).then_some((mapping.file, file, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_hits_a_second_may_end_no_call() {
        let ms = Duration::from_millis;
        for (strays, elapsed, too_many) in
            [(100, ms(0), false), (101, ms(0), true), (1_100, ms(1_000), false), (1_101, ms(1_000), true)]
        {
            assert_eq!(are_too_many(strays, elapsed), too_many, "{strays}");
        }
    }

    #[test]
    fn places_share_a_probe_and_are_bounded() {
        let mut callers = LearnedCallers::<u32>::default();
        let at = |offset| (0, FileId::default(), offset);
        assert_eq!(callers.probe(b"one", at(1), || Some(7)), PROBED);
        assert_eq!(callers.probe(b"another process", at(1), || panic!("it is there")), PROBED);
        assert_eq!(callers.probe(b"refused", at(2), || None), REFUSED);
        // For good.
        assert_eq!(callers.probe(b"refused again", at(2), || Some(8)), REFUSED);
        for offset in 3..=MAX_PLACES as u64 {
            assert_eq!(callers.probe(b"more", at(offset), || Some(9)), PROBED);
        }
        assert_eq!(callers.probe(b"too many", at(1_000), || Some(9)), REFUSED);
        assert_eq!(callers.probe(b"known", at(1), || Some(9)), PROBED);
        assert_eq!(callers.detach().len(), MAX_PLACES - 1);
        assert!(callers.detach().is_empty());
    }
}

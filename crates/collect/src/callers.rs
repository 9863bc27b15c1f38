//! The places behind calls of functions, learned as the calls come: `bpf/callers.bpf.h`.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use libbpf_rs::{Link, MapCore, MapFlags};
use wakepath_functions::may_probe_behind_call;
use wakepath_process::{FileId, Process, path_through};

use crate::error::Error;
use crate::libbpf::{load_error, word};

/// The most places with probes.
const MAX_PLACES: usize = 256;
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

/// The probes behind calls.
#[derive(Debug)]
pub(crate) struct LearnedCallers<L = Link> {
    /// The places with probes: all processes with a file share them.
    places: BTreeSet<(u32, FileId, u64)>,
    /// The probes.
    links: Vec<L>,
}

impl<L> Default for LearnedCallers<L> {
    fn default() -> Self {
        Self { places: BTreeSet::new(), links: Vec::new() }
    }
}

impl<L> LearnedCallers<L> {
    /// Puts probes behind the calls that came since the last time, by `attach`; those calls were not measured. Returns whether there were new
    /// places. A place where no probe may be is left out for good.
    pub fn learn(
        &mut self,
        seen: &impl MapCore,
        mut attach: impl FnMut(&Place) -> Result<L, Error>,
    ) -> Result<bool, Error> {
        let is_new = |key: &Vec<u8>| matches!(seen.lookup(key, MapFlags::ANY), Ok(Some(state)) if state == NEW.to_ne_bytes());
        let new: Vec<Vec<u8>> = seen.keys().filter(is_new).collect();
        for key in &new {
            let [address, rest] = [word(key, 0), word(key, 8)];
            let (pid, target) = (rest as u32, (rest >> 32) as u32);
            let state = match place(pid, address) {
                Some((id, _, offset)) if self.places.contains(&(target, id, offset)) => PROBED,
                Some((id, file, offset)) if self.places.len() < MAX_PLACES => {
                    match attach(&Place { target, pid, file, offset }) {
                        Ok(link) => {
                            self.links.push(link);
                            self.places.insert((target, id, offset));
                            PROBED
                        }
                        Err(_) => REFUSED,
                    }
                }
                _ => REFUSED,
            };
            seen.update(key, &state.to_ne_bytes(), MapFlags::ANY).map_err(load_error)?;
        }
        Ok(!new.is_empty())
    }

    /// Removes the probes.
    pub fn detach(&mut self) -> Vec<L> {
        self.places.clear();
        std::mem::take(&mut self.links)
    }
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

//! Indirect calls, watched to learn what they call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapFlags};
use wakepath_functions::Operand;

use super::Drill;
use crate::error::Error;
use crate::libbpf::{load_error, word};

impl Drill<'_> {
    /// Watches where indirect calls go: each site's number, its file and offset, and the place of the address.
    ///
    /// # Errors
    /// When the kernel refuses a probe there.
    pub fn watch(&mut self, sites: &[(u32, PathBuf, u64, Operand)]) -> Result<(), Error> {
        let mut places: BTreeMap<&Path, Vec<(u64, u64)>> = BTreeMap::new();
        for (number, file, offset, operand) in sites {
            let maps = &self.skeleton.maps;
            maps.operands
                .update(&number.to_ne_bytes(), &operand_bytes(operand), MapFlags::ANY)
                .map_err(load_error)?;
            places.entry(file).or_default().push(((*number).into(), *offset));
        }
        let mut links = Vec::new();
        for (file, places) in places {
            links.extend(self.attach(("drill_target", "drill_target_one"), false, file, &places)?);
        }
        self.watched.push((sites.iter().map(|(number, ..)| *number).collect(), links));
        Ok(())
    }

    /// Stops watching indirect calls.
    pub fn watch_no_more(&mut self) {
        self.watched.clear();
        self.watch_kernel_no_more();
    }

    /// The watched indirect calls' targets so far: the site's number, the address in the process, and the number of
    /// calls.
    pub fn targets(&self) -> Vec<(u32, u64, u64)> {
        let map = &self.skeleton.maps.targets;
        let of_key = |key: Vec<u8>| {
            let times = map.lookup(&key, MapFlags::ANY).ok()??;
            Some((word(&key, 0) as u32, word(&key, 8), word(&times, 0)))
        };
        map.keys().filter_map(of_key).collect()
    }
}

/// A `struct wp_drill_operand`.
pub(super) fn operand_bytes(operand: &Operand) -> [u8; 16] {
    let mut bytes = [0; 16];
    let none = u8::MAX;
    bytes[..4].copy_from_slice(&[
        operand.base.unwrap_or(none),
        operand.index.unwrap_or(none),
        operand.scale,
        operand.in_memory.into(),
    ]);
    bytes[8..].copy_from_slice(&operand.displacement.to_ne_bytes());
    bytes
}

//! The functions at the addresses of samples and stacks.

use std::collections::HashMap;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{Mapping, Tid};
use wakepath_symbols::{Code, Found, Symbols};
use wakepath_wait_graph::Sample;

use crate::{Recorded, Site};

/// The functions of a recording's code, for all paths of a question: each file is read once, and only when an
/// address lies in it.
pub struct CodeNames<'a> {
    pub(crate) recorded: &'a Recorded,
    same_boot: bool,
    /// Made with the first address.
    symbols: Option<Symbols>,
    /// The code that each process had mapped, and since when, in time order.
    mappings: HashMap<Tid, Vec<(Stamp<Local>, &'a Mapping)>>,
    user: HashMap<(&'a [u8], u64), Found>,
    kernel: HashMap<u64, Found>,
}

impl<'a> CodeNames<'a> {
    /// No address is looked up yet. `same_boot`: the machine that was recorded is this one, and it was not
    /// booted since; then the running kernel's symbols are those of the recording.
    pub fn new(recorded: &'a Recorded, same_boot: bool) -> Self {
        let mut mappings: HashMap<Tid, Vec<(Stamp<Local>, &Mapping)>> = HashMap::new();
        for (at, mapping) in &recorded.survey.mappings {
            mappings.entry(mapping.tgid).or_default().push((*at, mapping));
        }
        Self { recorded, same_boot, symbols: None, mappings, user: HashMap::new(), kernel: HashMap::new() }
    }

    pub(crate) fn site(&mut self, Sample { at, tgid, kernel, user, .. }: Sample) -> Site {
        // A caller's frame holds where it goes on: the call lies before that.
        let address =
            |n: usize| user.get(n).map(|&address| if n == 0 { address } else { address.wrapping_sub(1) });
        if let Some(&leaf) = kernel.first() {
            let leaf = self.in_kernel(leaf);
            let caller = address(0).and_then(|address| self.user(tgid, at, address));
            return Site::new(leaf, true, caller);
        }
        let leaf = address(0).and_then(|address| self.user(tgid, at, address));
        let leaf = leaf.unwrap_or_else(|| Found::Unnamed(Vec::new()));
        let mut caller = None;
        for n in 1..user.len() {
            let Some(found) = address(n).and_then(|address| self.user(tgid, at, address)) else { continue };
            let elsewhere = module(&found) != module(&leaf);
            if caller.is_none() || elsewhere {
                caller = Some(found);
            }
            if elsewhere {
                break;
            }
        }
        Site::new(leaf, false, caller)
    }

    pub(crate) fn in_kernel(&mut self, address: u64) -> Found {
        let symbols = self.symbols.get_or_insert_with(|| Symbols::new(self.same_boot));
        self.kernel.entry(address).or_insert_with(|| symbols.in_kernel(address)).clone()
    }

    pub(crate) fn user(&mut self, tgid: Tid, at: Stamp<Reference>, address: u64) -> Option<Found> {
        let mapping = self.mapping(tgid, Stamp::from_ns(at.ns()), address)?;
        let offset = address - mapping.from + mapping.offset;
        let symbols = self.symbols.get_or_insert_with(|| Symbols::new(self.same_boot));
        let code = Code { path: &mapping.path, offset, build_id: &mapping.build_id };
        Some(self.user.entry((&mapping.path, offset)).or_insert_with(|| symbols.in_file(code)).clone())
    }

    /// The mapping of a process that contains an address.
    fn mapping(&self, mut process: Tid, mut at: Stamp<Local>, address: u64) -> Option<&'a Mapping> {
        /// Births without a program of the newborn's own, one after the other.
        const GENERATIONS: usize = 16;
        let holds =
            |mapping: &&(Stamp<Local>, &'a Mapping)| (mapping.1.from..mapping.1.to).contains(&address);
        for _ in 0..GENERATIONS {
            let of_process = self.mappings.get(&process).map_or(&[][..], Vec::as_slice);
            // Mappings are read a while after a sample; one that was there before counts first.
            let before = of_process.iter().rev().filter(|(since, _)| *since <= at).find(holds);
            if let Some((_, mapping)) = before.or_else(|| of_process.iter().find(holds)) {
                return Some(mapping);
            }
            // Other tracers record each mapping when a program makes it, and not that a new process has the mappings that
            // its parent had until then.
            let own = of_process.iter().any(|(since, _)| *since <= at);
            if own || self.recorded.tracer.is_none() {
                return None;
            }
            let leader = self.recorded.leader(process, at.on_reference_host())?;
            let identity = self.recorded.graph.thread(leader).identity.as_ref()?;
            (process, at) = (identity.parent, identity.start);
        }
        None
    }
}

/// The file that a function is in.
pub(crate) fn module(found: &Found) -> Option<&[u8]> {
    match found {
        Found::Function(function) => function.module.as_deref(),
        Found::Unnamed(file) | Found::Replaced(file) | Found::Unreadable(file) => Some(file),
        Found::Kernel => None,
    }
}

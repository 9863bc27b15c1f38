//! The functions at sampled and stacked addresses.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{Comm, HostIndex, Mapping, Tid};
use wakepath_symbols::{Boot, Code, Found, Symbols};
use wakepath_wait_graph::{Sample, ThreadIndex};

use crate::{Caller, Recorded, Site};

/// A place in a file: the host, the file, the name of the link under which it runs, and the offset.
type Place<'a> = (HostIndex, &'a [u8], Option<Comm>, u64);

/// The functions in a recording's code, for all paths in a question: each file is read once, and only when an
/// address lies in it.
pub struct CodeNames<'a> {
    pub(crate) recorded: &'a Recorded,
    /// The first host's boot. No file or kernel on another host is known to be this machine's.
    boot: Boot,
    /// Each boot's symbols: the first host's, and the other hosts'; made with the first address.
    symbols: HashMap<Boot, Symbols>,
    /// Each process's code mappings, with the times since which they are known, in time order.
    mappings: HashMap<Tid, Vec<(Stamp<Local>, &'a Mapping)>>,
    pub(crate) user: HashMap<Place<'a>, Found>,
    /// Whether a link with this name lies beside this file and leads to it.
    links: HashMap<(Comm, &'a [u8]), bool>,
    kernel: HashMap<(HostIndex, u64), Found>,
    /// Whether code inlined into a function belongs to it.
    whole: bool,
}

impl<'a> CodeNames<'a> {
    /// No address is looked up yet. `same_boot`: this is the (first) recorded machine, not booted since; then the
    /// running kernel's symbols are the recording's.
    pub fn new(recorded: &'a Recorded, same_boot: bool) -> Self {
        let mut mappings: HashMap<Tid, Vec<(Stamp<Local>, &Mapping)>> = HashMap::new();
        for (at, mapping) in &recorded.survey.mappings {
            mappings.entry(mapping.tgid).or_default().push((*at, mapping));
        }
        let began_ns = recorded.survey.session.started.and_then(|began| recorded.survey.realtime(began));
        let boot = if same_boot { Boot::This { began_ns } } else { Boot::Another };
        let (user, links, kernel) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { recorded, boot, symbols: HashMap::new(), mappings, user, links, kernel, whole: false }
    }

    /// The same for whole functions: code inlined into a function belongs to it.
    pub fn with_whole_functions(self) -> Self {
        Self { whole: true, symbols: HashMap::new(), user: HashMap::new(), ..self }
    }

    fn boot_of(&self, host: HostIndex) -> Boot {
        if host == HostIndex::default() { self.boot } else { Boot::Another }
    }

    fn symbols(&mut self, host: HostIndex) -> &mut Symbols {
        let Recorded { kept_files, debug_files, .. } = self.recorded;
        let boot = self.boot_of(host);
        let whole = self.whole;
        let symbols = || {
            let symbols = Symbols::new(boot, kept_files.clone(), debug_files.clone());
            if whole { symbols.with_whole_functions() } else { symbols }
        };
        self.symbols.entry(boot).or_insert_with(symbols)
    }

    pub(crate) fn site(&mut self, Sample { at, tgid, kernel, user, proved }: Sample) -> Site {
        // A caller's frame holds its return address: the call lies before it.
        let address =
            |n: usize| user.get(n).map(|&address| if n == 0 { address } else { address.wrapping_sub(1) });
        if let Some(&leaf) = kernel.first() {
            let leaf = self.in_kernel(tgid.host(), leaf);
            let caller = address(0).and_then(|address| self.user(tgid, at, address));
            return Site::new(leaf, true, caller);
        }
        let leaf = address(0).and_then(|address| self.user(tgid, at, address));
        let leaf = leaf.unwrap_or_else(|| self.outside_of_files(tgid));
        let mut caller = None;
        for n in 1..user.len() {
            let Some(found) = address(n).and_then(|address| self.user(tgid, at, address)) else { continue };
            let elsewhere = module(&found) != module(&leaf);
            if caller.is_none() || elsewhere {
                caller = Some((n, found));
            }
            if elsewhere {
                break;
            }
        }
        let site = Site::new(leaf, false, None);
        match caller {
            Some((n, caller)) if n < proved => Site { caller: Caller::Function(caller), ..site },
            Some((_, caller)) => Site { caller: Caller::Guess(caller), ..site },
            None => site,
        }
    }

    /// The code at an address in no file known to be mapped by the process: a runtime may have made it in memory.
    pub(crate) fn outside_of_files(&self, tgid: Tid) -> Found {
        match self.mappings.contains_key(&tgid) {
            true => Found::Unnamed(Vec::new()),
            false => Found::Unmapped,
        }
    }

    pub(crate) fn in_kernel(&mut self, host: HostIndex, address: u64) -> Found {
        if let Some(found) = self.kernel.get(&(host, address)) {
            return found.clone();
        }
        let found = self.symbols(host).in_kernel(address);
        self.kernel.insert((host, address), found.clone());
        found
    }

    /// The code at an address in a process at a time; `None` if no file is known to have been mapped there.
    pub fn code_at(&mut self, process: ThreadIndex, at: Stamp<Reference>, address: u64) -> Option<Found> {
        self.user(self.recorded.graph.thread(process).tid(), at, address)
    }

    pub(crate) fn user(&mut self, tgid: Tid, at: Stamp<Reference>, address: u64) -> Option<Found> {
        let mapping = self.mapping(tgid, Stamp::from_ns(at.ns()), address)?;
        let offset = address - mapping.from + mapping.offset;
        let link = self.link(tgid, at, &mapping.path);
        let host = tgid.host();
        let place = (host, &*mapping.path, link, offset);
        if let Some(known) = self.user.get(&place) {
            return Some(known.clone());
        }
        let code = Code { path: &mapping.path, offset, build_id: &mapping.build_id };
        let found = match link {
            Some(link) => self.symbols(host).in_file_named(code, link.bytes()),
            None => self.symbols(host).in_file(code),
        };
        self.user.insert(place, found.clone());
        Some(found)
    }

    /// The name of the link under which a process runs a file: `redis-server`, though its code lies in
    /// `redis-check-rdb`. The kernel names the process after the link, which must lie beside the file and lead to it.
    fn link(&mut self, tgid: Tid, at: Stamp<Reference>, path: &'a [u8]) -> Option<Comm> {
        if self.boot_of(tgid.host()) == Boot::Another {
            return None;
        }
        let comm = self.recorded.process_comm(tgid, at)?;
        let leads_to_it = || {
            let folder = &path[..=path.iter().rposition(|&b| b == b'/')?];
            let is_a_name = !comm.bytes().contains(&b'/');
            let link = is_a_name.then(|| [folder, comm.bytes()].concat())?;
            let leads_to = Path::new(OsStr::from_bytes(&link)).canonicalize().ok()?;
            Some(leads_to.as_os_str().as_bytes() == path)
        };
        let is_link = *self.links.entry((comm, path)).or_insert_with(|| leads_to_it().unwrap_or(false));
        is_link.then_some(comm)
    }

    /// The mapping in a process that contains an address.
    fn mapping(&self, mut process: Tid, mut at: Stamp<Local>, address: u64) -> Option<&'a Mapping> {
        /// The largest number of forks in a row without a program of the child's own.
        const GENERATIONS: usize = 16;
        let holds =
            |mapping: &&(Stamp<Local>, &'a Mapping)| (mapping.1.from..mapping.1.to).contains(&address);
        for _ in 0..GENERATIONS {
            let of_process = self.mappings.get(&process).map_or(&[][..], Vec::as_slice);
            // Mappings are read a while after a sample; a mapping from before the sample counts first.
            let before = of_process.iter().rev().filter(|(since, _)| *since <= at).find(holds);
            if let Some((_, mapping)) = before.or_else(|| of_process.iter().find(holds)) {
                return Some(mapping);
            }
            // Other tracers record each mapping when a program makes it, but not the mappings that a new process
            // inherits from its parent. Our own recorder reads a process's mappings, unless the process is gone.
            let own = match self.recorded.is_of_other_tracer(process.host()) {
                true => of_process.iter().any(|(since, _)| *since <= at),
                false => !of_process.is_empty(),
            };
            if own {
                return None;
            }
            let leader = self.recorded.leader(process, at.on_reference_host())?;
            let identity = self.recorded.graph.thread(leader).identity.as_ref()?;
            (process, at) = (identity.parent, identity.start);
        }
        None
    }
}

/// The name of the code's file.
pub(crate) fn module(found: &Found) -> Option<&[u8]> {
    match found {
        Found::Function(function) => function.module.as_deref(),
        Found::Unnamed(file)
        | Found::Replaced(file)
        | Found::Another(file)
        | Found::Unproved(file)
        | Found::Unreadable(file) => Some(file),
        Found::Unmapped | Found::Kernel | Found::AnotherKernel => None,
    }
}

#[cfg(test)]
mod tests;

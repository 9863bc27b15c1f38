//! Places in the code as text. Samples: `~ 23 of 24 samples in compress_block (libz.so.1), from pack_items
//! checkout.c:88`. Waits, whose stacks were taken: `14 of 14 waits in save_order (checkout), from main
//! checkout.c:88`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_engine::{Caller, Found, Frame, Function, Place, Sampled, SiteId, Stacks};
use wakepath_event::Comm;
use wakepath_wait_graph::ThreadIndex;

use crate::escape::escape;
use crate::units::part_of;

/// How many waits began at which site; those of which nothing is known at `None`.
pub type Sites = BTreeMap<Option<SiteId>, u64>;

/// Functions by how they are told, with how often they were seen and with which callers: over many paths,
/// whose sites have numbers of their own.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    functions: BTreeMap<String, (u64, BTreeMap<String, u64>)>,
    /// Those too of which nothing is known.
    total: u64,
}

/// A function of a [`Tally`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<'a> {
    /// With its file: `compress_block (libz.so.1)`.
    pub function: &'a str,
    /// As it goes on behind that: `, from main checkout.c:88`; the one that it was seen with most.
    pub caller: Option<&'a str>,
    /// How often.
    pub count: u64,
}

impl Tally {
    /// Adds samples of a place.
    pub fn sample(&mut self, place: &Place, count: u64) {
        self.total += count;
        let caller = place.caller.as_ref().and_then(|caller| from(caller, &place.leaf));
        self.add(found(&place.leaf, place.in_kernel), caller, count);
    }

    /// Adds waits that began, or were ended, at a site; nothing is known of those at `None`.
    pub fn waits(&mut self, stacks: &Stacks, site: Option<SiteId>, count: u64) {
        self.total += count;
        let Some(site) = site.map(|site| stacks.site(site)) else { return };
        let caller = match &site.caller {
            Caller::Function(caller) => from(caller, &site.function),
            Caller::Unknown => Some(String::from(", its callers unknown: no frame pointers")),
            Caller::Nobody => None,
        };
        self.add(found(&site.function, site.in_kernel), caller, count);
    }

    /// `caller` goes on behind the function: `, from main checkout.c:88`.
    fn add(&mut self, function: String, caller: Option<String>, count: u64) {
        let (sum, callers) = self.functions.entry(function).or_default();
        *sum += count;
        if let Some(caller) = caller {
            *callers.entry(caller).or_default() += count;
        }
    }

    /// How often anything was seen.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// What was seen, most often first.
    pub fn seen(&self) -> Vec<Seen<'_>> {
        let most = |(a, n): &(&String, &u64), (b, m): &(&String, &u64)| n.cmp(m).then_with(|| b.cmp(a));
        let mut seen: Vec<_> = self
            .functions
            .iter()
            .map(|(function, (count, callers))| {
                let caller = callers.iter().max_by(most).map(|(caller, _)| caller.as_str());
                Seen { function, caller, count: *count }
            })
            .collect();
        seen.sort_by_key(|seen| Reverse(seen.count));
        seen
    }

    /// The function seen most; the next too, where none has most of them.
    pub fn tell(&self, what: &str) -> Option<String> {
        let mut seen = self.seen().into_iter();
        let first = seen.next()?;
        let counted =
            |count| if self.total == 0 { what.to_owned() } else { part_of(count, self.total, what) };
        let mut text = format!("{} in {}", counted(first.count), first.function);
        text += first.caller.unwrap_or_default();
        if let Some(next) = seen.next().filter(|_| first.count * 2 < self.total) {
            text += &format!("; {} in {}", counted(next.count), next.function);
        }
        Some(text)
    }

    /// The same of samples.
    pub fn tell_samples(&self) -> Option<String> {
        Some(format!("~ {}", self.tell("samples")?))
    }
}

/// Where these threads were seen running while they were called so; `None` without samples.
pub fn places(sampled: &Sampled, comm: Comm, of: impl Fn(ThreadIndex) -> bool) -> Option<String> {
    let mut tally = Tally::default();
    let of_these = sampled.iter().filter(|((thread, called), _)| *called == comm && of(*thread));
    of_these.flat_map(|(_, places)| places).for_each(|(place, count)| tally.sample(place, *count));
    tally.tell_samples()
}

/// Where waits began, or were ended; `None` where nothing is known of any. Without a count where they
/// were counted elsewhere.
pub fn sites(stacks: &Stacks, sites: &Sites, what: &str) -> Option<String> {
    let mut tally = Tally::default();
    sites.iter().for_each(|(site, count)| tally.waits(stacks, *site, *count));
    tally.tell(what)
}

/// A frame of a stack: `save_order (checkout) checkout.c:41`.
pub fn frame(frame: &Frame) -> String {
    let text = found(&frame.found, frame.in_kernel);
    match &frame.found {
        Found::Function(Function { line: Some((file, line)), .. }) => {
            format!("{text} {}:{line}", escape(file.as_bytes()))
        }
        _ => text,
    }
}

/// What was found, with its file.
fn found(found: &Found, in_kernel: bool) -> String {
    match found {
        Found::Function(Function { name, module, .. }) => {
            let file = module.as_ref().map_or_else(|| String::from("kernel"), |module| escape(module));
            let file = if in_kernel { String::from("kernel") } else { file };
            format!("{} ({file})", escape(name.as_bytes()))
        }
        Found::Kernel => String::from("the kernel"),
        Found::Unnamed(file) if file.is_empty() => String::from("code that no file holds"),
        Found::Unnamed(file) => format!("{}, which has no names", escape(file)),
        Found::Replaced(file) => format!("{}, which was replaced since", escape(file)),
        Found::Unreadable(file) => format!("{}, which cannot be read here", escape(file)),
    }
}

/// Who called it. That code without names was called from the same code says nothing.
fn from(caller: &Found, callee: &Found) -> Option<String> {
    let says = caller != callee || matches!(caller, Found::Function(_));
    says.then(|| format!(", from {}", with_line(caller)))
}

/// What was found, with its line where that is known.
fn with_line(caller: &Found) -> String {
    match caller {
        Found::Function(Function { name, line: Some((file, line)), .. }) => {
            format!("{} {}:{line}", escape(name.as_bytes()), escape(file.as_bytes()))
        }
        caller => found(caller, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, module: Option<&str>, line: Option<(&str, u32)>) -> Found {
        Found::Function(Function {
            name: String::from(name),
            module: module.map(|module| module.as_bytes().to_vec()),
            line: line.map(|(file, line)| (String::from(file), line)),
        })
    }

    fn text(places_and_counts: &[(Found, bool, Option<Found>, u64)]) -> Option<String> {
        let counts = places_and_counts.iter().map(|(leaf, in_kernel, caller, count)| {
            (Place { leaf: leaf.clone(), in_kernel: *in_kernel, caller: caller.clone() }, *count)
        });
        let comm = Comm::new(b"checkout");
        let sampled = Sampled::from([((ThreadIndex(3), comm), counts.collect())]);
        assert_eq!(places(&sampled, comm, |_| false), None, "no thread of this row");
        assert_eq!(places(&sampled, Comm::new(b"sh"), |_| true), None, "it had another name then");
        places(&sampled, comm, |thread| thread == ThreadIndex(3))
    }

    #[test]
    fn the_place_with_most_samples_is_told_with_who_called_it() {
        let pack = function("pack_items", Some("checkout"), Some(("checkout.c", 88)));
        let main = function("main", Some("checkout"), Some(("checkout.c", 9)));
        let compress = function("compress_block", Some("libz.so.1"), None);
        let few = [
            (compress.clone(), false, Some(pack.clone()), 20),
            (compress, false, Some(main), 3),
            (pack, false, None, 1),
        ];
        let expected = "~ 23 of 24 samples in compress_block (libz.so.1), from pack_items checkout.c:88";
        assert_eq!(text(&few).as_deref(), Some(expected));
    }

    #[test]
    fn no_place_with_half_of_them_is_the_answer_alone() {
        let places = [("a", 40), ("b", 35), ("c", 30)]
            .map(|(name, n)| (function(name, Some("x"), None), false, None, n));
        assert_eq!(text(&places).as_deref(), Some("~ 38% of samples in a (x); 33% of samples in b (x)"));
    }

    #[test]
    fn what_cannot_be_named_says_why() {
        for (leaf, in_kernel, expected) in [
            (Found::Kernel, true, "the kernel"),
            (function("copy_page", None, None), true, "copy_page (kernel)"),
            (Found::Replaced(b"libz.so".to_vec()), false, "libz.so, which was replaced since"),
            (Found::Unreadable(b"a\x1b".to_vec()), false, r"a\x1b, which cannot be read here"),
            (Found::Unnamed(b"stripped".to_vec()), false, "stripped, which has no names"),
            (Found::Unnamed(Vec::new()), false, "code that no file holds"),
        ] {
            assert_eq!(text(&[(leaf, in_kernel, None, 1)]), Some(format!("~ 1 of 1 samples in {expected}")));
        }
    }
}

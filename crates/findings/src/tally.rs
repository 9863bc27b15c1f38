//! Functions in which threads were seen, counted over samples and stacks on many paths.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_loaded::{Caller, Frame, Site, SiteId, Stacks};
use wakepath_symbols::{Found, Function};

/// The number of waits that began, or were ended, at each site on a path; unknown sites at `None`.
pub type Sites = BTreeMap<Option<SiteId>, u64>;

/// Functions, with their counts and callers. Each path numbers its sites itself; functions are the same on all.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Functions without lines: a function's lines count together.
    functions: BTreeMap<Frame, (u64, BTreeMap<Caller, u64>)>,
    /// Includes counts at no known function.
    total: u64,
}

/// A function of a [`Tally`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The function, without a line.
    pub function: &'a Frame,
    /// The most frequent caller; never [`Caller::Nobody`].
    pub caller: Option<&'a Caller>,
    /// The number of samples or waits.
    pub count: u64,
}

/// Functions in which threads ran, or waited.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// By samples.
    pub ran: Tally,
    /// By wait stacks.
    pub waited: Tally,
}

impl Tally {
    /// Adds waits that began, or were ended, at a path's sites.
    pub fn add_sites(&mut self, stacks: &Stacks, sites: &Sites) {
        for (site, &count) in sites {
            match site {
                Some(site) => self.add(stacks.site(*site), count),
                None => self.total += count,
            }
        }
    }

    /// Adds samples or waits at a site.
    pub fn add(&mut self, Site { function, caller }: &Site, count: u64) {
        self.total += count;
        let says = match caller {
            Caller::Nobody => false,
            // A caller without a name in the same file says nothing.
            Caller::Function(caller) | Caller::Guess(caller) => {
                *caller != function.found || matches!(caller, Found::Function(_))
            }
            Caller::Unknown => true,
        };
        let mut function = function.clone();
        if let Found::Function(Function { line, .. }) = &mut function.found {
            *line = None;
        }
        let (sum, callers) = self.functions.entry(function).or_default();
        *sum += count;
        if says {
            *callers.entry(caller.clone()).or_default() += count;
        }
    }

    /// The sum with another.
    pub fn with(mut self, other: Self) -> Self {
        self.total += other.total;
        for (function, (count, callers)) in other.functions {
            let (sum, of_callers) = self.functions.entry(function).or_default();
            *sum += count;
            for (caller, count) in callers {
                *of_callers.entry(caller).or_default() += count;
            }
        }
        self
    }

    /// The number of samples or waits, including unknown functions.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Whether there are enough for a statement: fewer than five samples are chance.
    pub const fn is_enough(&self) -> bool {
        self.total >= 5
    }

    /// The most frequent function; and the next, if the first has less than half the total.
    pub fn leading(&self) -> Option<(Seen<'_>, Option<Seen<'_>>)> {
        let mut seen = self.seen().into_iter();
        let first = seen.next()?;
        let next = seen.next().filter(|_| first.count * 2 < self.total);
        Some((first, next))
    }

    /// The functions, most frequent first.
    pub fn seen(&self) -> Vec<Seen<'_>> {
        let most = |(a, n): &(&Caller, &u64), (b, m): &(&Caller, &u64)| n.cmp(m).then_with(|| b.cmp(a));
        let mut seen: Vec<_> = self
            .functions
            .iter()
            .map(|(function, (count, callers))| {
                let caller = callers.iter().max_by(most).map(|(caller, _)| caller);
                Seen { function, caller, count: *count }
            })
            .collect();
        seen.sort_by_key(|seen| Reverse(seen.count));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_both_counts_of_a_function_and_its_callers() {
        let story = crate::testing::checkout();
        let evidence = story.evidence();
        let mut sites = evidence.ran();
        let (.., site, _) = sites.next().expect("a sample");
        let tally = |count| {
            let mut tally = Tally::default();
            tally.add(site, count);
            tally
        };
        let mut unknown = Tally::default();
        unknown.add_sites(evidence.stacks, &Sites::from([(None, 3)]));
        let sum = tally(2).with(tally(5)).with(unknown);
        assert_eq!((sum.total(), sum.seen()), (10, tally(7).seen()));
        let callers = |tally: &Tally| tally.functions.values().cloned().collect::<Vec<_>>();
        assert_eq!(callers(&sum), callers(&tally(7)));
    }
    use crate::testing::{checkout, checkout_stacks, function};

    fn site(name: &str, line: u32, caller: Caller) -> Site {
        let found = function(name, Some("app"), Some(("app.c", line)));
        Site { caller, ..Site::new(found, false, None) }
    }

    /// Each function's name, its count, and its most frequent caller.
    fn seen(tally: &Tally) -> Vec<(String, u64, Option<String>)> {
        let name = |found: &Found| match found {
            Found::Function(function) => function.name.clone(),
            other => format!("{other:?}"),
        };
        let caller = |caller: &Caller| match caller {
            Caller::Function(found) => name(found),
            Caller::Guess(found) => format!("{}?", name(found)),
            other => format!("{other:?}"),
        };
        let all = tally.seen();
        all.iter().map(|seen| (name(&seen.function.found), seen.count, seen.caller.map(caller))).collect()
    }

    #[test]
    fn lines_of_a_function_are_one_and_its_most_frequent_caller_is_named() {
        let by = |name: &str| Caller::Function(function(name, Some("app"), None));
        let mut tally = Tally::default();
        for (site, count) in [
            (site("parse", 10, by("main")), 3),
            (site("parse", 11, by("reload")), 5),
            (site("parse", 12, by("main")), 4),
            (site("sort", 20, Caller::Nobody), 30),
            (site("hash", 30, Caller::Unknown), 2),
            (site("copy", 40, by("second")), 6),
            (site("copy", 41, by("first")), 6),
        ] {
            tally.add(&site, count);
        }
        assert_eq!(tally.total(), 56);
        let text = |name: &str| Some(name.to_owned());
        let expected = [
            ("sort", 30, None),
            ("copy", 12, text("first")),
            ("parse", 12, text("main")),
            ("hash", 2, text("Unknown")),
        ];
        assert_eq!(seen(&tally), expected.map(|(name, count, caller)| (name.to_owned(), count, caller)));
        let functions: Vec<_> = tally.seen().into_iter().map(|seen| seen.function.clone()).collect();
        let lines = |frame: &Frame| matches!(&frame.found, Found::Function(Function { line: Some(_), .. }));
        assert!(!functions.iter().any(lines));
    }

    #[test]
    fn a_caller_that_is_the_same_nameless_place_says_nothing_and_a_recursion_does() {
        let mut tally = Tally::default();
        let place = Found::Replaced(b"app".to_vec());
        let nameless = |caller: Found| Site::new(place.clone(), false, Some(caller));
        tally.add(&nameless(place.clone()), 3);
        assert_eq!(tally.seen()[0].caller, None);
        tally.add(&nameless(Found::Replaced(b"lib".to_vec())), 1);
        assert!(tally.seen()[0].caller.is_some());
        let mut tally = Tally::default();
        let walk = function("walk", Some("app"), None);
        tally.add(&Site::new(walk.clone(), false, Some(walk)), 2);
        assert_eq!(seen(&tally), [("walk".to_owned(), 2, Some("walk".to_owned()))]);
    }

    #[test]
    fn a_function_that_has_less_than_half_leads_together_with_the_next_one() {
        let leading = |counts: &[u64], unknown: u64| {
            let mut tally = Tally::default();
            for (number, &count) in counts.iter().enumerate() {
                tally.add(&site(&format!("f{number}"), 1, Caller::Nobody), count);
            }
            tally.add_sites(&wakepath_loaded::Stacks::default(), &Sites::from([(None, unknown)]));
            tally.leading().map(|(first, next)| (first.count, next.map(|next| next.count)))
        };
        assert_eq!(leading(&[5, 4, 1], 0), Some((5, None)), "half of all");
        assert_eq!(leading(&[5, 4, 1], 1), Some((5, Some(4))), "the unknown ones count");
        assert_eq!(leading(&[5], 9), Some((5, None)));
        assert_eq!(leading(&[], 9), None);
    }

    #[test]
    fn waits_at_unknown_sites_count_in_the_whole_alone() {
        let story = checkout();
        let stacks = checkout_stacks(&story.path);
        let known = stacks.wait_stack(wakepath_critical_path::WaitId(0)).and_then(|stack| stack.site);
        assert!(known.is_some());
        let mut tally = Tally::default();
        tally.add_sites(&stacks, &Sites::from([(known, 7), (None, 4)]));
        assert_eq!((tally.total(), tally.seen().iter().map(|seen| seen.count).sum::<u64>()), (11, 7));
    }
}

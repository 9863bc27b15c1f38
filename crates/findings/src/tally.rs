//! Functions in which threads were seen, counted over samples and stacks of many paths.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_names::{Caller, Frame, Site, SiteId, Stacks};
use wakepath_symbols::{Found, Function};

/// The number of waits that began, or were ended, at each site of a path; those of unknown sites at `None`.
pub type Sites = BTreeMap<Option<SiteId>, u64>;

/// Functions with the number of times that each was seen, and with which callers. Sites have numbers of their own on
/// each path; functions are the same on all.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Each without its line: its lines are one.
    functions: BTreeMap<Frame, (u64, BTreeMap<Caller, u64>)>,
    /// Includes what is at no known function.
    total: u64,
}

/// A function of a [`Tally`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The function, without a line.
    pub function: &'a Frame,
    /// The caller that it was seen with most; never [`Caller::Nobody`].
    pub caller: Option<&'a Caller>,
    /// The number of times.
    pub count: u64,
}

/// Functions in which threads ran, or waited.
#[derive(Debug, Clone, Default)]
pub struct Code {
    /// By samples.
    pub ran: Tally,
    /// By the stacks of waits.
    pub waited: Tally,
}

impl Tally {
    /// Adds waits that began, or were ended, at sites of a path.
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

    /// The number of samples or waits, those at no known function included.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The functions, the one seen most first.
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

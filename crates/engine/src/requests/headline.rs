//! A request's most important finding: the blocking request, else its path's blame, else its span.

use std::cmp::Reverse;

use super::one::{OwnTime, RequestAnswer, RequestPath};
use super::{BlockedBy, BlockedByMissing};

/// A request's most important finding.
#[derive(Debug, Clone, Copy)]
pub enum RequestHeadline<'a> {
    /// The request that blocked it for the longest time, if all such requests took a tenth of its own or more.
    Blocked(Blocking<'a>),
    /// Its path's headline.
    Path(&'a RequestPath<'a>),
    /// The operation with the most own time, if the path is not known; and whether this is more than half the request.
    Span(&'a OwnTime, bool),
    /// Only its length.
    Length,
}

/// A blocking request.
#[derive(Debug, Clone, Copy)]
pub enum Blocking<'a> {
    /// Its spans are known.
    Known(&'a BlockedBy),
    /// Its spans are missing.
    Missing(&'a BlockedByMissing),
}

impl Blocking<'_> {
    /// The blocked time, ns.
    pub fn total_ns(&self) -> u64 {
        match self {
            Self::Known(blocked) => blocked.total_ns,
            Self::Missing(blocked) => blocked.total_ns,
        }
    }
}

impl RequestPath<'_> {
    /// The requests blocking it, the largest first; of equals, those with known spans first.
    pub fn blocking(&self) -> Vec<Blocking<'_>> {
        by_time(&self.blocked_by, &self.blocked_by_missing)
    }
}

impl RequestAnswer<'_> {
    /// The most important finding.
    pub fn headline(&self) -> RequestHeadline<'_> {
        match &self.path {
            Ok(path) => {
                let blocking = path.blocking();
                let all = blocking.iter().map(Blocking::total_ns).fold(0, u64::saturating_add);
                match blocking.first() {
                    Some(first) if leads(all, self.to.since(self.from)) => RequestHeadline::Blocked(*first),
                    _ => RequestHeadline::Path(path),
                }
            }
            Err(_) => self.own.first().map_or(RequestHeadline::Length, |first| {
                RequestHeadline::Span(first, is_most(first.total_ns, self.to.since(self.from)))
            }),
        }
    }
}

fn by_time<'a>(known: &'a [BlockedBy], missing: &'a [BlockedByMissing]) -> Vec<Blocking<'a>> {
    let known = known.iter().map(Blocking::Known);
    let mut all: Vec<_> = known.chain(missing.iter().map(Blocking::Missing)).collect();
    all.sort_by_key(|one| Reverse(one.total_ns()));
    all
}

/// Whether the time by all blocking requests leads: with less than a tenth, they did not make the request slow.
fn leads(ns: u64, of_ns: u64) -> bool {
    ns.saturating_mul(10) >= of_ns
}

/// Whether a time is more than half the other.
pub(super) fn is_most(ns: u64, of_ns: u64) -> bool {
    ns > of_ns / 2
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use wakepath_spans::{RequestIndex, TraceId};

    use super::*;

    #[test]
    fn most_is_more_than_half() {
        let found = [(50, 100), (51, 100), (50, 101), (51, 101)].map(|(ns, of_ns)| is_most(ns, of_ns));
        assert_eq!(found, [false, true, false, true]);
        assert!(is_most(u64::MAX, u64::MAX) && !is_most(0, 0));
    }

    #[test]
    fn a_blocking_request_leads_with_a_tenth_of_the_time() {
        assert_eq!(
            [(10, 100), (9, 100), (10, 101)].map(|(ns, of_ns)| leads(ns, of_ns)),
            [true, false, false]
        );
    }

    #[test]
    fn the_request_that_blocked_longest_comes_first_and_a_known_one_before_another_of_the_same_time() {
        let known = |total_ns| BlockedBy { request: RequestIndex(0), total_ns, through: Vec::new() };
        let missing = |total_ns| BlockedByMissing {
            trace: TraceId([7; 16]),
            sampled: true,
            services: BTreeSet::new(),
            attributes: BTreeSet::new(),
            total_ns,
        };
        let (all_known, all_missing) = ([known(50), known(20)], [missing(70), missing(50)]);
        let told: Vec<_> = by_time(&all_known, &all_missing)
            .iter()
            .map(|one| (one.total_ns(), matches!(one, Blocking::Known(_))))
            .collect();
        assert_eq!(told, [(70, false), (50, true), (50, false), (20, true)]);
    }
}

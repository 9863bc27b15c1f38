//! The first thing to say about a request: which other one blocked it, else what its path blames, else its span.

use std::cmp::Reverse;

use super::blame::{BlockedBy, BlockedByMissing};
use super::one::{OwnTime, RequestAnswer, RequestPath};

/// The first thing to say about a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestHeadline<'a> {
    /// The request that blocked it for the longest time.
    Blocked(Blocking<'a>),
    /// The headline of its path.
    Path(&'a RequestPath<'a>),
    /// The operation with the most own time, where the path is not known; and whether that is more than half of the
    /// request.
    Span(&'a OwnTime, bool),
    /// Nothing but its length.
    Length,
}

/// A request that blocked another one.
#[derive(Debug, Clone, Copy)]
pub enum Blocking<'a> {
    /// Its spans are among the spans.
    Known(&'a BlockedBy),
    /// They are not.
    Missing(&'a BlockedByMissing),
}

impl Blocking<'_> {
    /// The time for which it did, ns.
    pub fn total_ns(&self) -> u64 {
        match self {
            Self::Known(blocked) => blocked.total_ns,
            Self::Missing(blocked) => blocked.total_ns,
        }
    }
}

impl RequestPath<'_> {
    /// The requests that blocked it, the largest first; of equal ones those whose spans are known.
    pub fn blocking(&self) -> Vec<Blocking<'_>> {
        let known = self.blocked_by.iter().map(Blocking::Known);
        let mut all: Vec<_> = known.chain(self.blocked_by_missing.iter().map(Blocking::Missing)).collect();
        all.sort_by_key(|one| Reverse(one.total_ns()));
        all
    }
}

impl RequestAnswer<'_> {
    /// The first thing to say.
    pub fn headline(&self) -> RequestHeadline<'_> {
        match &self.path {
            Ok(path) => match path.blocking().first() {
                Some(first) => RequestHeadline::Blocked(*first),
                None => RequestHeadline::Path(path),
            },
            Err(_) => self.own.first().map_or(RequestHeadline::Length, |first| {
                RequestHeadline::Span(first, is_most(first.total_ns, self.to.since(self.from)))
            }),
        }
    }
}

/// Whether a time is more than half of another one.
fn is_most(ns: u64, of_ns: u64) -> bool {
    ns > of_ns / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_is_more_than_half() {
        let of = |ns, of_ns| is_most(ns, of_ns);
        assert_eq!([of(50, 100), of(51, 100), of(50, 101), of(51, 101)], [false, true, false, true]);
        assert!(is_most(u64::MAX, u64::MAX) && !is_most(0, 0));
    }
}

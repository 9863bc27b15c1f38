//! The requests under way in a time range, as `--from` and `--to` name it.

use wakepath_clock::{Reference, Stamp};
use wakepath_spans::RequestIndex;

use super::span_time::{SpanTime, times};
use super::{Places, RequestsError, Traced};
use crate::query::range;
use crate::{PathQuery, QueryError, Recorded, TimeSpec};

/// A time range; all requests count without a beginning and an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeRange {
    /// The beginning; `None` for the recording's.
    pub from: Option<TimeSpec>,
    /// The end; `None` for the recording's.
    pub to: Option<TimeSpec>,
}

impl TimeRange {
    /// These requests, as far as they were under way in the range, in the same order.
    ///
    /// # Errors
    /// When the range is empty, or none was under way.
    pub(super) fn overlapping(
        self,
        recorded: &Recorded,
        traced: &Traced,
        places: &Places,
        requests: Vec<RequestIndex>,
    ) -> Result<Vec<RequestIndex>, RequestsError> {
        if self == Self::default() {
            return Ok(requests);
        }
        let query = PathQuery { from: self.from, to: self.to, ..PathQuery::default() };
        let range = range(recorded, &query).map_err(|error| match error {
            QueryError::NoRealtime => RequestsError::NoRealtime,
            _ => RequestsError::EmptyTime,
        })?;
        let there = requests.len();
        let is_within = |request: &RequestIndex| {
            overlaps(times(places, traced, traced.request(*request).root), (range.start, range.end))
        };
        let within: Vec<_> = requests.into_iter().filter(is_within).collect();
        if within.is_empty() { Err(RequestsError::NoneWithin { there }) } else { Ok(within) }
    }
}

/// Whether a request has a moment in the range. A moment at its ends counts, as at the recording's.
fn overlaps((from, to): (SpanTime, SpanTime), (begin, end): (Stamp<Reference>, Stamp<Reference>)) -> bool {
    SpanTime::from(begin) <= to && from <= end.into()
}

#[cfg(test)]
mod tests {
    use wakepath_joining::testing::made;

    use super::*;
    use crate::requests::{RequestsQuery, from_arrival, requests_within};

    /// Recorded from 100 to 1000; realtime is 1000000 more.
    const HOST: &str = "
        host web3
        thread a tid=10
        100 c0 idle clocks 1000100
        100 c0 idle started
        100 c0 idle switch a
        900 c0 a switch idle blocked
        1000 c0 idle stopped";
    const SPANS: &str = "service s
        a/a 1000200..1000400
        b/b 1000400..1000500
        c/c 1000300..1000300
        d/d 1000850..1001500
        e/e 1002000..1003000
        f/f 1000010..1000090";

    fn within(from: Option<&str>, to: Option<&str>) -> Result<String, RequestsError> {
        let made = made(HOST, SPANS);
        let [from, to] = [from, to].map(|at| at.map(|at| at.parse().expect("a time")));
        let query = RequestsQuery::default();
        let found = requests_within(&made.recorded, &made.traced, &query, TimeRange { from, to })?;
        let joined = made.joined();
        let ranked = from_arrival(&joined, &found.requests).requests;
        assert_eq!(ranked, found.requests, "no arrival is known, and requests outside are last");
        assert_eq!(
            found.operations.iter().map(|one| one.histogram.calls()).sum::<u64>(),
            found.requests.len() as u64
        );
        Ok(found.requests.iter().map(|request| &made.root(*request)[..1]).collect())
    }

    #[test]
    fn a_request_counts_that_has_a_moment_in_the_range() {
        for (from, to, expected) in [
            (None, None, "dabcef"),
            (Some("0"), None, "dabc"),
            (None, Some("-0"), "dabc"),
            (Some("300ns"), None, "dab"),
            (Some("301ns"), None, "db"),
            (Some("401ns"), None, "d"),
            (None, Some("300ns"), "abc"),
            (None, Some("299ns"), "ac"),
            (None, Some("100ns"), "a"),
            (Some("150ns"), Some("200ns"), "ac"),
            (Some("200ns"), Some("200001ns"), "dabc"),
            (Some("201ns"), Some("250ns"), "a"),
            (Some("-150ns"), None, "d"),
            (Some("1970-01-01T00:00:00.001000500"), None, "db"),
            (Some("1970-01-01T00:00:00.001000501"), None, "d"),
        ] {
            assert_eq!(within(from, to).as_deref(), Ok(expected), "{from:?} {to:?}");
        }
    }

    #[test]
    fn a_range_without_time_or_without_requests_is_refused() {
        for (from, to) in [("300ns", "300ns"), ("300ns", "299ns"), ("5s", "6s")] {
            assert_eq!(within(Some(from), Some(to)), Err(RequestsError::EmptyTime), "{from} {to}");
        }
        for (from, to) in [(None, Some("99ns")), (Some("401ns"), Some("749ns"))] {
            let error = within(from, to).expect_err("none");
            assert_eq!(error.to_string(), "none of 6 requests was under way at this time");
        }
    }
}

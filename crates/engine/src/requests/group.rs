//! An operation's requests, all or those in a peak, explained together: beside its usual requests, or beside another
//! recording's.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::OnceLock;

use wakepath_critical_path::Algorithm;
use wakepath_distribution::{Histogram, Unit, bucket_of, peaks};
use wakepath_findings::PerGroup;
use wakepath_spans::{Operation, RequestIndex};

use super::find::{matching, matching_one_operation};
use super::one::{request_in_group, worker};
use super::{
    BlockedByMissing, Joined, RequestPath, RequestsError, RequestsQuery, SpanClock, Traced, WithoutPath,
};
use crate::calls::{head_of, spread};
use crate::{CallsAnswer, CallsOf, Group, Head, Name, Which};

/// A question about an operation's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupQuery {
    /// The operation: a single operation must fit.
    pub requests: RequestsQuery,
    /// The peak, from 1 on as the histogram numbers them; `None` for all requests, beside another recording.
    pub peak: Option<usize>,
    /// The algorithm for paths.
    pub algorithm: Algorithm,
}

/// Blocking requests, grouped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockerOf {
    /// An operation's requests.
    Operation(Operation),
    /// Requests without spans here.
    WithoutSpans {
        /// The service published by their process, if there is a single service.
        service: Option<Name>,
        /// Whether they are sampled: their spans exist, and did not arrive.
        sampled: bool,
    },
}

/// Requests blocking the explained requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The blocking requests.
    pub of: BlockerOf,
    /// The blocked time, ns.
    pub total_ns: PerGroup<u64>,
    /// The number of blocked requests among the explained.
    pub blocked: PerGroup<u64>,
}

/// Many requests, explained together.
#[derive(Debug)]
pub struct GroupAnswer<'r> {
    /// The paths and the histogram, as for a function's calls.
    pub calls: CallsAnswer<'r>,
    /// The explained requests, in their paths' order.
    pub explained: Vec<RequestIndex>,
    /// The number of selected requests without a path.
    pub without_path: PerGroup<WithoutPath>,
    /// The requests blocking them, the largest difference first.
    pub blocked_by: Vec<Blocker>,
    /// The other recording's head, if any.
    pub other: Option<Head>,
    /// The spans beside the other recording.
    pub other_traced: Option<&'r Traced>,
    /// The spans and their requests.
    pub traced: &'r Traced,
    /// The clocks of their service's spans.
    pub clocks: Vec<SpanClock>,
    /// The number of requests with a path.
    pub paths: PerGroup<u64>,
}

/// Explains a peak's requests beside the usual requests, or a recording's requests beside those in `other`.
///
/// # Errors
/// When no request matches, several operations do, or the peak does not exist.
pub fn request_group<'r>(
    joined: &Joined<'r>,
    query: &GroupQuery,
    other: Option<&Joined<'r>>,
) -> Result<GroupAnswer<'r>, RequestsError> {
    let all = matching_one_operation(joined.traced, &query.requests)?;
    let operation = joined.traced.operation(all[0]).clone();
    let length = |request: &RequestIndex| joined.traced.root(*request).length_ns();
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    all.iter().for_each(|request| histogram.add(length(request)));
    let peaks = peaks(&histogram);
    let of_peak = |number: usize| -> Vec<RequestIndex> {
        let peak = &peaks[number];
        let within = |request: &&RequestIndex| {
            (peak.from_bucket..=peak.to_bucket).contains(&bucket_of(length(request)))
        };
        all.iter().filter(within).copied().collect()
    };
    let (asked, which) = match query.peak {
        None => (all.clone(), Which::All),
        Some(number) => {
            let place = number.checked_sub(1).filter(|place| *place < peaks.len());
            let place = place.ok_or(RequestsError::NoPeak { asked: number, there: peaks.len() })?;
            (of_peak(place), Which::Peak(number))
        }
    };
    let usual = match other {
        Some(other) => {
            let same = RequestsQuery {
                service: Some(operation.service.to_string()),
                operation: Some(operation.name.to_string()),
            };
            Some((None, other, matching(other.traced, &same)?))
        }
        None => {
            let main = (0..peaks.len()).max_by_key(|&peak| peaks[peak].count);
            let is_asked: HashSet<_> = asked.iter().collect();
            let others = main.map(|main| {
                let usual: Vec<_> =
                    of_peak(main).into_iter().filter(|request| !is_asked.contains(request)).collect();
                (Some(main + 1), joined, usual)
            });
            others.filter(|(.., usual)| !usual.is_empty())
        }
    };
    let mut blockers = Blockers::default();
    let asked = explained(joined, &asked, query.algorithm, true, &mut blockers);
    let usual = usual.map(|(peak, joined, requests)| {
        (peak, explained(joined, &requests, query.algorithm, false, &mut blockers))
    });
    if asked.requests.is_empty() {
        return Err(RequestsError::NoPaths { why: asked.without_path });
    }
    let of_same = usual.as_ref().filter(|_| other.is_none()).map(|(_, usual)| &usual.group);
    let head = head_of(joined.recorded, &asked.group, of_same);
    let of_other =
        usual.as_ref().zip(other).map(|((_, usual), other)| head_of(other.recorded, &usual.group, None));
    let without_path = PerGroup {
        asked: asked.without_path,
        usual: usual.as_ref().map_or(WithoutPath::default(), |(_, usual)| usual.without_path.clone()),
    };
    let explained_usual = usual.as_ref().map_or(0, |(_, usual)| usual.requests.len());
    let paths = PerGroup { asked: asked.requests.len() as u64, usual: explained_usual as u64 };
    let target = Name::from(format!("{} {}", operation.service, operation.name).as_str());
    let calls = CallsAnswer {
        head,
        of: CallsOf::Operation,
        target,
        histogram,
        unwound: 0,
        open: 0,
        moved: 0,
        unprobed_after: None,
        of_goroutines: false,
        followed: 0,
        parked: Vec::new(),
        asked: asked.group,
        which,
        usual: usual.map(|(peak, usual)| (peak, usual.group)).filter(|(_, group)| !group.paths.is_empty()),
        findings: OnceLock::new(),
    };
    let is_own =
        |clock: &&SpanClock| joined.traced.spans.services[clock.service.0 as usize].name == operation.service;
    Ok(GroupAnswer {
        calls,
        explained: asked.requests,
        without_path,
        blocked_by: blockers.finish(paths),
        other: of_other,
        other_traced: other.map(|other| other.traced),
        traced: joined.traced,
        clocks: joined.contexts.clocks.iter().filter(is_own).cloned().collect(),
        paths,
    })
}

/// Requests with their paths.
struct Explained<'r> {
    group: Group<'r>,
    requests: Vec<RequestIndex>,
    without_path: WithoutPath,
}

fn explained<'r>(
    joined: &Joined<'r>,
    requests: &[RequestIndex],
    algorithm: Algorithm,
    is_asked: bool,
    blockers: &mut Blockers,
) -> Explained<'r> {
    let mut found = Explained {
        group: Group { calls: requests.len() as u64, paths: Vec::new() },
        requests: Vec::new(),
        without_path: WithoutPath::default(),
    };
    // Most spans of a day may lie outside a one-minute recording: the requests to explain are chosen among the others.
    let mut with_worker = Vec::new();
    for &which in requests {
        match worker(joined, which) {
            Ok(_) => with_worker.push(which),
            Err(why) => found.without_path.add(why),
        }
    }
    for which in spread(with_worker.len()).map(|place| with_worker[place]) {
        let path = match request_in_group(joined, which, algorithm).path {
            Ok(path) => path,
            Err(why) => {
                found.without_path.add(why);
                continue;
            }
        };
        for (of, ns) in by_blocker(joined.traced, &path) {
            blockers.add(of, is_asked, ns);
        }
        found.group.paths.push(path.answer);
        found.requests.push(which);
    }
    found
}

/// The time for which requests blocked a path, by operation, ns.
pub(super) fn by_blocker(traced: &Traced, path: &RequestPath<'_>) -> BTreeMap<BlockerOf, u64> {
    let known = path
        .blocked_by
        .iter()
        .map(|blocked| (BlockerOf::Operation(traced.operation(blocked.request).clone()), blocked.total_ns));
    let missing = path.blocked_by_missing.iter().map(|blocked| (without_spans(blocked), blocked.total_ns));
    let mut sums = BTreeMap::new();
    for (of, ns) in known.chain(missing) {
        *sums.entry(of).or_default() += ns;
    }
    sums
}

fn without_spans(blocked: &BlockedByMissing) -> BlockerOf {
    let names: BTreeSet<&Name> = blocked.services.iter().map(|service| &service.name).collect();
    let only = names.first().filter(|_| names.len() == 1);
    BlockerOf::WithoutSpans { service: only.map(|name| (*name).clone()), sampled: blocked.sampled }
}

/// The time by blocking requests, and the number of blocked requests.
#[derive(Debug, Default)]
struct Blockers(BTreeMap<BlockerOf, (PerGroup<u64>, PerGroup<u64>)>);

impl Blockers {
    fn add(&mut self, of: BlockerOf, is_asked: bool, ns: u64) {
        let (total, blocked) = self.0.entry(of).or_default();
        *(if is_asked { &mut total.asked } else { &mut total.usual }) += ns;
        *(if is_asked { &mut blocked.asked } else { &mut blocked.usual }) += 1;
    }

    /// Sorted by the difference per request, the largest first.
    fn finish(self, explained: PerGroup<u64>) -> Vec<Blocker> {
        let blockers = self.0.into_iter();
        let mut blockers: Vec<_> =
            blockers.map(|(of, (total_ns, blocked))| Blocker { of, total_ns, blocked }).collect();
        let mean = |ns: u64, count: u64| ns as f64 / count.max(1) as f64;
        let difference = |one: &Blocker| {
            mean(one.total_ns.asked, explained.asked) - mean(one.total_ns.usual, explained.usual)
        };
        blockers.sort_by(|a, b| difference(b).total_cmp(&difference(a)));
        blockers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_that_blocked_each_of_the_slow_ones_longer_than_the_usual_ones_comes_first() {
        let of = |name: &str| BlockerOf::Operation(Operation { service: "bank".into(), name: name.into() });
        let mut blockers = Blockers::default();
        for (name, is_asked, ns) in
            [("A", true, 10), ("P", true, 60), ("P", true, 40), ("P", false, 400), ("Z", false, 30)]
        {
            blockers.add(of(name), is_asked, ns);
        }
        // Per request: 50 less 40 for `P`, 5 for `A`, and less than none for `Z`.
        let found = blockers.finish(PerGroup { asked: 2, usual: 10 });
        let blocker = |name, (asked, usual), (all, others)| Blocker {
            of: of(name),
            total_ns: PerGroup { asked, usual },
            blocked: PerGroup { asked: all, usual: others },
        };
        let expected =
            [blocker("P", (100, 400), (2, 1)), blocker("A", (10, 0), (1, 0)), blocker("Z", (0, 30), (0, 1))];
        assert_eq!(found, expected);
    }

    #[test]
    fn requests_without_spans_are_of_a_service_if_their_processes_publish_no_other() {
        let said = |name: &str, instance: &str| super::super::SaidService {
            name: name.into(),
            instance: Some(instance.into()),
        };
        for (services, expected) in [
            (vec![], None),
            (vec![said("shop", "i-1")], Some("shop")),
            (vec![said("shop", "i-1"), said("shop", "i-2")], Some("shop")),
            (vec![said("shop", "i-1"), said("bank", "i-1")], None),
        ] {
            for sampled in [false, true] {
                let missing = BlockedByMissing {
                    trace: wakepath_spans::TraceId([7; 16]),
                    sampled,
                    services: services.iter().cloned().collect(),
                    attributes: BTreeSet::new(),
                    total_ns: 1,
                };
                let expected = BlockerOf::WithoutSpans { service: expected.map(Name::from), sampled };
                assert_eq!(without_spans(&missing), expected);
            }
        }
    }
}

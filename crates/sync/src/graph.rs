//! Each host's way to the reference.

use wakepath_clock::{ErrorBound, Local, Peer, Quality, Reference, Stamp, Transform};

use crate::{HostClock, Pair};

type Window = Option<(Stamp<Local>, Stamp<Local>)>;

/// Hosts, and the conversions between them that packets gave.
pub(crate) struct Graph<'a> {
    edges: Vec<Edge>,
    windows: &'a [Window],
}

/// A conversion from a host's clock to another's.
struct Edge {
    from: usize,
    to: usize,
    transform: Transform<Local, Peer>,
    quality: Quality,
    cost: Cost,
}

/// The cost of a way, in order of weight: unbounded steps, the sum of errors, steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Cost {
    unbounded: u32,
    error: u64,
    steps: u32,
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        Self {
            unbounded: self.unbounded + other.unbounded,
            error: self.error.saturating_add(other.error),
            steps: self.steps + other.steps,
        }
    }
}

impl<'a> Graph<'a> {
    pub(crate) fn new(hosts: usize, pairs: &[Pair], windows: &'a [Window]) -> Self {
        debug_assert_eq!(hosts, windows.len(), "a window for each host");
        let mut edges = Vec::with_capacity(pairs.len() * 2);
        for pair in pairs {
            let Some(there) = &pair.transform else { continue };
            let back = there.inverse().map(Transform::swapped);
            let both = [(pair.a, pair.b, Some(there.clone())), (pair.b, pair.a, back)];
            for (from, to, transform) in both {
                let (Some(transform), Some(window)) = (transform, windows[from]) else { continue };
                let cost = match transform.worst(window.0, window.1) {
                    ErrorBound::Within(error) => Cost { unbounded: 0, error, steps: 1 },
                    ErrorBound::Unbounded => Cost { unbounded: 1, error: 0, steps: 1 },
                };
                edges.push(Edge { from, to, transform, quality: pair.quality, cost });
            }
        }
        Self { edges, windows }
    }

    /// The reference that leaves the fewest hosts without a clock, then the smallest worst error; the
    /// first among equals.
    pub(crate) fn best(&self) -> Option<usize> {
        let rank = |&reference: &usize| {
            let ways = self.ways(reference);
            let lost = ways.iter().filter(|way| way.is_none()).count();
            let worst = ways.iter().flatten().map(|way| way.0).max();
            (lost, worst, reference)
        };
        (0..self.windows.len()).min_by_key(rank)
    }

    /// Every host's way to this reference.
    pub(crate) fn clocks(&self, reference: usize) -> Vec<HostClock> {
        let ways = self.ways(reference);
        let mut order: Vec<(Cost, usize)> =
            ways.iter().enumerate().filter_map(|(host, way)| Some((way.as_ref()?.0, host))).collect();
        order.sort_unstable();
        let unlinked = HostClock {
            quality: Quality::None,
            error: ErrorBound::Unbounded,
            transform: None,
            way: Vec::new(),
        };
        let mut clocks = vec![unlinked; ways.len()];
        // Nearer hosts first: the rest of a way is known when its first step is added.
        for (_, host) in order {
            let Some((_, edge)) = ways[host] else { continue };
            let Some(edge) = edge.map(|edge| &self.edges[edge]) else {
                clocks[host] = HostClock {
                    quality: Quality::Exact,
                    error: ErrorBound::ZERO,
                    transform: Some(Transform::identity()),
                    way: vec![host],
                };
                continue;
            };
            let next = &clocks[edge.to];
            let Some(rest) = &next.transform else { continue };
            let transform: Option<Transform<Local, Reference>> = match next.way.len() {
                1 => Some(edge.transform.clone().to_reference()),
                _ => edge.transform.then(&rest.for_peer()),
            };
            let Some(transform) = transform else { continue };
            let error =
                self.windows[host].map_or(ErrorBound::Unbounded, |(from, to)| transform.worst(from, to));
            let way = [host].into_iter().chain(next.way.iter().copied()).collect();
            let quality = edge.quality.min(next.quality);
            clocks[host] = HostClock { quality, error, transform: Some(transform), way };
        }
        clocks
    }

    /// For each host the cost of its best way to the reference and the way's first edge (Dijkstra's
    /// algorithm from the reference; among equal ways the fewest steps, then the first).
    fn ways(&self, reference: usize) -> Vec<Option<(Cost, Option<usize>)>> {
        let mut ways: Vec<Option<(Cost, Option<usize>)>> = vec![None; self.windows.len()];
        let mut done = vec![false; ways.len()];
        if let Some(way) = ways.get_mut(reference) {
            *way = Some((Cost::default(), None));
        }
        loop {
            let open = ways.iter().enumerate().filter(|(host, _)| !done[*host]);
            let nearest = open.filter_map(|(host, way)| Some((way.as_ref()?.0, host))).min();
            let Some((cost, at)) = nearest else { return ways };
            done[at] = true;
            for (index, edge) in self.edges.iter().enumerate().filter(|(_, edge)| edge.to == at) {
                let whole = cost.plus(edge.cost);
                let better = ways[edge.from].is_none_or(|way| whole < way.0);
                if !done[edge.from] && better {
                    ways[edge.from] = Some((whole, Some(index)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakepath_clock::Line;

    use super::*;

    const ALWAYS: Window = Some((Stamp::MIN, Stamp::MAX));

    /// A pair with equal clocks, within this error; without an error, traffic went one way.
    fn pair((a, b, error): (usize, usize, Option<u64>)) -> Pair {
        let (quality, error) = error
            .map_or((Quality::OneWay, ErrorBound::Unbounded), |ns| (Quality::Exact, ErrorBound::Within(ns)));
        let transform = Some(Transform::line(Line::IDENTITY, error));
        Pair { a, b, matched: [1; 2], ambiguous: 0, inversions: 0, quality, error, transform }
    }

    /// The least cost of all ways without a cycle from a host: unbounded steps, sum of errors, steps.
    fn least(at: usize, to: usize, pairs: &[(usize, usize, Option<u64>)], seen: &[usize]) -> Option<Cost> {
        if at == to {
            return Some(Cost::default());
        }
        let steps = pairs.iter().filter_map(|&(a, b, error)| match at {
            _ if at == a => Some((b, error)),
            // The way back errs by a ns more.
            _ if at == b => Some((a, error.map(|error| error + 1))),
            _ => None,
        });
        let ways = steps.filter(|(next, _)| !seen.contains(next)).filter_map(|(next, error)| {
            let rest = least(next, to, pairs, &[seen, &[next]].concat())?;
            Some(Cost {
                unbounded: rest.unbounded + u32::from(error.is_none()),
                error: rest.error + error.unwrap_or(0),
                steps: rest.steps + 1,
            })
        });
        ways.min()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_host_takes_the_way_of_the_fewest_unbounded_steps_then_least_error_then_fewest_steps(
            pairs in prop::collection::vec((0..5_usize, 0..5_usize, prop::option::weighted(0.7, 0..4_u64)), 0..10),
            reference in 0..5_usize,
        ) {
            let pairs: Vec<_> = pairs.into_iter().filter(|pair| pair.0 != pair.1).collect();
            let linked: Vec<Pair> = pairs.iter().copied().map(pair).collect();
            let windows = [ALWAYS; 5];
            let ways = Graph::new(5, &linked, &windows).ways(reference);
            for (host, way) in ways.iter().enumerate() {
                prop_assert_eq!(way.map(|way| way.0), least(host, reference, &pairs, &[host]), "host {}", host);
            }
        }
    }

    #[test]
    fn the_way_with_fewest_steps_is_taken_among_equal_ways_then_the_first() {
        let way = |host: usize, pairs: &[(usize, usize, Option<u64>)]| {
            let pairs: Vec<Pair> = pairs.iter().copied().map(pair).collect();
            Graph::new(5, &pairs, &[ALWAYS; 5]).clocks(0)[host].way.clone()
        };
        let square = [(1, 0, Some(2)), (2, 0, Some(2)), (3, 1, Some(2)), (3, 2, Some(2))];
        assert_eq!(way(3, &square), [3, 1, 0]);
        // Three steps with 2 ns each are found before the two steps with 5 and 1 ns.
        let longer = [(1, 0, Some(2)), (2, 1, Some(2)), (3, 2, Some(2)), (4, 0, Some(5)), (3, 4, Some(1))];
        assert_eq!(way(3, &longer), [3, 4, 0]);
        let unbounded = [(1, 0, None), (2, 1, None), (2, 3, Some(900)), (3, 4, Some(900)), (4, 0, None)];
        assert_eq!(way(2, &unbounded), [2, 3, 4, 0]);
    }

    #[test]
    fn a_step_to_the_reference_is_the_pairs_own_conversion_and_each_further_one_adds_its_error() {
        let pairs = [(1, 0, Some(10)), (2, 1, Some(5)), (3, 2, None)].map(pair);
        let clocks = Graph::new(5, &pairs, &[ALWAYS; 5]).clocks(0);
        let found: Vec<_> = clocks.iter().map(|clock| (clock.quality, clock.error)).collect();
        assert_eq!(
            found,
            [
                (Quality::Exact, ErrorBound::ZERO),
                (Quality::Exact, ErrorBound::Within(10)),
                // A ns of rounding.
                (Quality::Exact, ErrorBound::Within(16)),
                (Quality::OneWay, ErrorBound::Unbounded),
                (Quality::None, ErrorBound::Unbounded),
            ]
        );
        let pieces = |host: usize| clocks[host].transform.as_ref().map(Transform::pieces);
        assert_eq!(pieces(1), pairs[0].transform.as_ref().map(Transform::pieces));
        assert!(clocks[4].transform.is_none() && clocks[4].way.is_empty());
    }
}

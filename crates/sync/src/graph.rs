//! Which way each host's stamps take to the reference.

use wakepath_clock::{ErrorBound, Local, Peer, Quality, Reference, Stamp, Transform};

use crate::{HostClock, Pair};

type Window = Option<(Stamp<Local>, Stamp<Local>)>;

/// Hosts, and the conversions between them that packets gave.
pub(crate) struct Graph<'a> {
    edges: Vec<Edge>,
    windows: &'a [Window],
}

/// A conversion from one host's clock to another's.
struct Edge {
    from: usize,
    to: usize,
    transform: Transform<Local, Peer>,
    quality: Quality,
    cost: Cost,
}

/// The cost of a way: unbounded steps, then the sum of errors, then steps.
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
    /// first of equal ones.
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
        // Nearer hosts first: what follows a step is known when the step is taken.
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
                _ => edge.transform.then(&rest.of_peer()),
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

    /// For each host the cost of its best way to the reference and the edge that it begins with
    /// (Dijkstra's algorithm from the reference; of equal ways that with fewer steps, then the first).
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

//! The first pass: the rough relation between the clocks. Then the second, in this order.

use std::collections::HashSet;

use wakepath_clock::{Cursor, ErrorBound, Limits, Local, Quality, Reference, Stamp, Transform};
use wakepath_packets::{Matcher, Outcome, Sketch, StreamKey, Traffic};

use crate::graph::Graph;
use crate::{Host, Pair};

type Window = Option<(Stamp<Local>, Stamp<Local>)>;

/// The error added where the sketches' traffic went one way only, or contradicts itself, ns: too large a value costs
/// memory, too small a value costs matches.
const ROUGH_ERROR_NS: u64 = 1_000_000_000;

/// Groups of hosts linked by a few packets, each with a clock that its hosts nearly share.
pub(crate) struct Alignment {
    sketches: Vec<Sketch>,
    windows: Vec<Window>,
    groups: Vec<Group>,
}

struct Group {
    /// The hosts' indices.
    hosts: Vec<usize>,
    /// From each host's clock to the common clock.
    transforms: Vec<Transform<Local, Reference>>,
    /// The largest error of the common clock, ns.
    error: u64,
}

impl Alignment {
    pub(crate) fn new(hosts: &[Host<'_>], limits: Limits) -> Self {
        let mut sketches: Vec<Sketch> = hosts.iter().map(|host| Sketch::of(host.source, None)).collect();
        if sketches.iter().any(Sketch::overflowed) {
            let several = shared_streams(&sketches);
            sketches = hosts.iter().map(|host| Sketch::of(host.source, Some(&several))).collect();
        }
        let windows: Vec<Window> = hosts
            .iter()
            .zip(&sketches)
            .map(|(host, sketch)| with_packets(host.window, sketch.window()))
            .collect();
        let mut pairs = Vec::new();
        for a in 0..hosts.len() {
            for b in a + 1..hosts.len() {
                let solver = sketches[a].compare(&sketches[b], limits);
                let Some((from, to)) = windows[a] else { continue };
                let solution = solver.solve(from, to);
                let Some(transform) = solution.transform else { continue };
                let error = match (solution.quality, transform.worst(from, to)) {
                    (Quality::Exact, ErrorBound::Within(ns)) => ErrorBound::Within(ns),
                    (_, bound) => ErrorBound::Within(bound.ns().unwrap_or(0).saturating_add(ROUGH_ERROR_NS)),
                };
                let transform = Transform::new(
                    transform
                        .pieces()
                        .iter()
                        .map(|&piece| wakepath_clock::Piece { error, ..piece })
                        .collect(),
                );
                let (matched, quality) = (solver.counts(), Quality::Approximate);
                pairs.push(Pair { a, b, matched, ambiguous: 0, inversions: 0, quality, error, transform });
            }
        }
        let groups = groups(hosts.len(), &pairs, &windows);
        Self { sketches, windows, groups }
    }

    /// Each host's time, from its first event to its last.
    pub(crate) fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// The time on this host's clock in which any host in its group has events, with a margin.
    pub(crate) fn group_window(&self, host: usize) -> (Stamp<Local>, Stamp<Local>) {
        let own = self.windows[host].unwrap_or_default();
        let Some(group) = self.groups.iter().find(|group| group.hosts.contains(&host)) else { return own };
        let ends = group.hosts.iter().zip(&group.transforms).filter_map(|(&host, transform)| {
            let (from, to) = self.windows[host]?;
            Some((transform.convert(from).0, transform.convert(to).0))
        });
        let margin = group.error.saturating_mul(2).saturating_add(1_000_000);
        let (from, to) = ends.fold((Stamp::MAX, Stamp::MIN), |all, one| (all.0.min(one.0), all.1.max(one.1)));
        let place = group.hosts.iter().position(|&other| other == host).unwrap_or(0);
        let Some(back) = group.transforms[place].inverse() else { return own };
        let (from, to) = (back.convert(from).0.minus(margin), back.convert(to).0.plus(margin));
        (own.0.min(from), own.1.max(to))
    }

    /// Matches all packets; each packet's outcome goes to `sink`, with host indices in `hosts`.
    pub(crate) fn match_packets(&self, hosts: &[Host<'_>], sink: &mut impl FnMut(Outcome)) {
        for group in self.groups.iter().filter(|group| group.hosts.len() > 1) {
            let sketches: Vec<&Sketch> = group.hosts.iter().map(|&host| &self.sketches[host]).collect();
            let mut renumbered = |outcome: Outcome| sink(outcome.placed(|host| group.hosts[host]));
            let mut matcher = Matcher::new(&sketches, group.error);
            let mut traffics: Vec<HostTraffic<'_>> = group
                .hosts
                .iter()
                .zip(&group.transforms)
                .map(|(&host, transform)| HostTraffic::new(hosts[host].source.traffic(), transform.cursor()))
                .collect();
            while let Some((host, item, common)) = next(&mut traffics) {
                match item {
                    Traffic::Flow(id, flow) => matcher.flow(host, id, flow),
                    Traffic::Packet(at, packet) => matcher.packet(host, at, common, &packet, &mut renumbered),
                }
            }
            matcher.finish(&mut renumbered);
        }
    }
}

/// A host's window with its packets, which may lie outside the given window: an offset found there has to hold for them
/// too.
fn with_packets(given: Window, packets: Window) -> Window {
    match (given, packets) {
        (Some(given), Some(packets)) => Some((given.0.min(packets.0), given.1.max(packets.1))),
        (given, packets) => given.or(packets),
    }
}

/// A host's traffic, and its current position.
struct HostTraffic<'a> {
    traffic: Box<dyn Iterator<Item = Traffic> + 'a>,
    cursor: Cursor<'a, Local, Reference>,
    head: Option<(Traffic, u64)>,
    common: u64,
}

impl<'a> HostTraffic<'a> {
    fn new(traffic: Box<dyn Iterator<Item = Traffic> + 'a>, cursor: Cursor<'a, Local, Reference>) -> Self {
        let mut traffic = Self { traffic, cursor, head: None, common: 0 };
        traffic.advance();
        traffic
    }

    fn advance(&mut self) {
        self.head = self.traffic.next().map(|item| {
            if let Traffic::Packet(at, _) = item {
                self.common = self.cursor.convert(at).0.ns();
            }
            (item, self.common)
        });
    }
}

/// The next item in all traffics by common time; at equal times, from the first traffic.
fn next(traffics: &mut [HostTraffic<'_>]) -> Option<(usize, Traffic, u64)> {
    let heads = traffics.iter().enumerate().filter_map(|(host, traffic)| Some((traffic.head?.1, host)));
    let (common, host) = heads.min()?;
    let (item, _) = traffics[host].head?;
    traffics[host].advance();
    Some((host, item, common))
}

/// Streams known to more than one host.
fn shared_streams(sketches: &[Sketch]) -> HashSet<StreamKey> {
    let mut once = HashSet::new();
    let mut several = HashSet::new();
    for sketch in sketches {
        let own: HashSet<StreamKey> = sketch.streams().collect();
        for stream in own {
            if !once.insert(stream) {
                several.insert(stream);
            }
        }
    }
    several
}

/// The connected hosts, each group on the clock of its first host.
fn groups(hosts: usize, pairs: &[Pair], windows: &[Window]) -> Vec<Group> {
    let graph = Graph::new(hosts, pairs, windows);
    let mut grouped = vec![false; hosts];
    let mut groups = Vec::new();
    for root in 0..hosts {
        if grouped[root] {
            continue;
        }
        let mut group = Group { hosts: Vec::new(), transforms: Vec::new(), error: 0 };
        for (host, clock) in graph.clocks(root).into_iter().enumerate() {
            if let Some(transform) = clock.transform {
                grouped[host] = true;
                group.hosts.push(host);
                group.transforms.push(transform);
                group.error = group.error.max(clock.error.ns().unwrap_or(ROUGH_ERROR_NS));
            }
        }
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_window_holds_the_given_one_and_all_packets() {
        let window = |from, to| Some((Stamp::from_ns(from), Stamp::from_ns(to)));
        for (given, packets, expected) in [
            (window(10, 20), window(12, 18), window(10, 20)),
            (window(10, 20), window(5, 15), window(5, 20)),
            (window(10, 20), window(15, 25), window(10, 25)),
            (window(10, 20), None, window(10, 20)),
            (None, window(12, 18), window(12, 18)),
            (None, None, None),
        ] {
            assert_eq!(with_packets(given, packets), expected);
        }
    }
}

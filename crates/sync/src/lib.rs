//! Hosts on one clock.
//!
//! Packets between two hosts bound the relation between their clocks (`wakepath-clock`); pairs of hosts form a graph,
//! and each host's way to the reference has the smallest sum of errors, which need not be the fewest hops (Giraldeau
//! 2015, section 5.3.1). A host without a link to others stays without a clock: nothing is guessed.
//!
//! All traffic is read twice: first for a rough alignment from a few packets, then side by side in the aligned order,
//! so that memory holds only packets in flight.

mod alignment;
mod graph;

use std::collections::BTreeMap;

use wakepath_clock::{
    ErrorBound, Exchange, Limits, Local, Peer, Quality, Reference, Solver, Stamp, Transform,
};
use wakepath_packets::{Outcome, Source};

use alignment::Alignment;
use graph::Graph;

/// A host to synchronise.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The host's traffic.
    pub source: &'a dyn Source,
    /// The stamps of its first event and its last, of any kind: conversions are needed, and errors bounded, over all
    /// this time. `None`: from its first packet to its last.
    pub window: Option<(Stamp<Local>, Stamp<Local>)>,
}

/// Options of a synchronisation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The index of the host whose clock is the reference. `None`: the host from which most hosts can be reached, with
    /// the smallest worst error.
    pub reference: Option<usize>,
    /// The assumptions about the clocks.
    pub limits: Limits,
}

/// Hosts on a common clock.
#[derive(Debug, Clone)]
pub struct Synchronisation {
    /// The index of the host whose clock is the reference; `None` without hosts.
    pub reference: Option<usize>,
    /// Each host's clock, in the order given.
    pub hosts: Vec<HostClock>,
    /// The pairs of hosts that exchanged packets.
    pub pairs: Vec<Pair>,
}

/// A host's way to the reference.
#[derive(Debug, Clone)]
pub struct HostClock {
    /// The worst quality among the pairs on the way; [`Quality::None`] for a host without a link.
    pub quality: Quality,
    /// The largest error within the host's own window.
    pub error: ErrorBound,
    /// From its clock to the reference; `None` for a host without a link.
    pub transform: Option<Transform<Local, Reference>>,
    /// The hosts on the way, from this host to the reference, both included.
    pub way: Vec<usize>,
}

/// The result for the packets between two hosts.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The first host's index.
    pub a: usize,
    /// The second host's index, larger than `a`.
    pub b: usize,
    /// The numbers of matched packets, from a to b and back.
    pub matched: [u64; 2],
    /// Packets that were not used, because several sends or receives fit.
    pub ambiguous: u64,
    /// Packets that arrive before they were sent once both stamps are on the reference clock, among the packets that
    /// bind the clocks most. The way between the two promises zero; over other ways small errors add up.
    pub inversions: u64,
    /// The relation's quality.
    pub quality: Quality,
    /// The largest error within a's own window.
    pub error: ErrorBound,
    /// From a's clock to b's.
    pub transform: Option<Transform<Local, Peer>>,
}

/// Finds the relations between these hosts' clocks.
pub fn synchronise(hosts: &[Host<'_>], options: &Options) -> Synchronisation {
    synchronise_seeing(hosts, options, &mut |_| {})
}

/// Like [`synchronise`], and passes the result for each received packet from another host to `sink`, with host indices.
/// The order is nearly time order, so that the results also show the progress of reading.
///
/// Where a packet passed several interfaces of the receiving host, the result is for the first sighting.
pub fn synchronise_seeing(
    hosts: &[Host<'_>],
    options: &Options,
    sink: &mut dyn FnMut(&Outcome),
) -> Synchronisation {
    let alignment = Alignment::new(hosts, options.limits);
    let mut solvers: BTreeMap<(usize, usize), (Solver, u64)> = BTreeMap::new();
    alignment.match_packets(hosts, &mut |outcome| {
        sink(&outcome);
        let (from, to) = (outcome.pair().from, outcome.pair().to);
        let (solver, ambiguous) =
            solvers.entry((from.min(to), from.max(to))).or_insert_with(|| (Solver::new(options.limits), 0));
        match outcome {
            Outcome::Ambiguous(_) => *ambiguous += 1,
            Outcome::Matched(m) if from < to => solver.forward(m.sent, peers(m.received)),
            Outcome::Matched(m) => solver.backward(peers(m.sent), m.received),
        }
    });

    let windows = alignment.windows();
    let mut pairs: Vec<Pair> = Vec::with_capacity(solvers.len());
    for (&(a, b), (solver, ambiguous)) in &solvers {
        let (from, to) = alignment.group_window(a);
        let solution = solver.solve(from, to);
        let error = match (&solution.transform, windows[a]) {
            (Some(transform), Some((from, to))) => transform.worst(from, to),
            _ => ErrorBound::Unbounded,
        };
        pairs.push(Pair {
            a,
            b,
            matched: solver.counts(),
            ambiguous: *ambiguous,
            inversions: solution.inversions,
            quality: solution.quality,
            error,
            transform: solution.transform,
        });
    }

    let graph = Graph::new(hosts.len(), &pairs, windows);
    let reference = options.reference.filter(|&given| given < hosts.len()).or_else(|| graph.best());
    let hosts = reference.map_or_else(Vec::new, |reference| graph.clocks(reference));
    for pair in &mut pairs {
        let (solver, _) = &solvers[&(pair.a, pair.b)];
        let (Some(a), Some(b)) = (&hosts[pair.a].transform, &hosts[pair.b].transform) else { continue };
        pair.inversions = solver.binding().filter(|&packet| inverted(packet, a, b)).count() as u64;
    }
    Synchronisation { reference, hosts, pairs }
}

fn inverted(
    (exchange, a, b): (Exchange, Stamp<Local>, Stamp<Peer>),
    of_a: &Transform<Local, Reference>,
    of_b: &Transform<Local, Reference>,
) -> bool {
    let a = of_a.convert(a).0;
    let b = of_b.convert(Stamp::from_ns(b.ns())).0;
    match exchange {
        Exchange::Forward => a > b,
        Exchange::Backward => b > a,
    }
}

/// A stamp of a pair's later host, as the earlier host's solver takes it.
fn peers(stamp: Stamp<Local>) -> Stamp<Peer> {
    Stamp::from_ns(stamp.ns())
}

#[cfg(test)]
mod tests {
    use wakepath_clock::{ErrorBound, Line};

    use super::*;

    #[test]
    fn a_packet_is_inverted_if_it_arrives_before_it_was_sent_on_the_clock_of_the_reference() {
        let same = Transform::identity();
        // The second host's clock is 100 ns ahead.
        let ahead = Transform::line(Line::through((100, 0), (300, 200)).expect("in range"), ErrorBound::ZERO);
        for (exchange, a, b, expected) in [
            (Exchange::Forward, 50, 149, true),
            (Exchange::Forward, 50, 150, false),
            (Exchange::Forward, 50, 151, false),
            (Exchange::Backward, 50, 149, false),
            (Exchange::Backward, 50, 150, false),
            (Exchange::Backward, 50, 151, true),
        ] {
            let packet = (exchange, Stamp::from_ns(a), Stamp::from_ns(b));
            assert_eq!(inverted(packet, &same, &ahead), expected, "{packet:?}");
        }
    }
}

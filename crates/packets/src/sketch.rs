//! The first pass: a small sample from each host's packets, for a rough comparison of clocks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::FixedState;
use wakepath_clock::{Limits, Local, Solver, Stamp};

use crate::flows::{Flows, StreamKey, hash};
use crate::header::{Identity, Place, identify};
use crate::{Source, Traffic};

/// The largest number of packets in a sketch; twice this number while it is made.
const MAX_SAMPLES: usize = 1 << 15;
/// The samples per stream at which cutting stops.
const MIN_CELLS: usize = 16;
/// The largest number of kept sightings per header: a header with this number counts as repeated.
const MAX_SIGHTINGS: usize = 4;

/// Sampled packets from a host, chosen by their content: another host that saw the same packets chose the same
/// sample.
#[derive(Debug, Clone)]
pub struct Sketch {
    /// The matcher continues with them.
    flows: Arc<Flows>,
    streams: HashMap<StreamKey, Stream, FixedState>,
    samples: usize,
    /// Streams with a larger hash were given up.
    limit: u64,
    window: Option<(Stamp<Local>, Stamp<Local>)>,
}

#[derive(Debug, Clone)]
struct Stream {
    samples: Vec<Sample>,
    /// The largest kept hash.
    limit: u64,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    hash: u64,
    at: u64,
    place: Place,
}

impl Sketch {
    /// Reads a host's traffic; with `only`, keeps these streams' packets alone.
    pub fn of(source: &dyn Source, only: Option<&HashSet<StreamKey>>) -> Self {
        let mut flows = Flows::default();
        let mut sketch = Self {
            flows: Arc::default(),
            streams: HashMap::default(),
            samples: 0,
            limit: u64::MAX,
            window: None,
        };
        for item in source.traffic() {
            match item {
                Traffic::Flow(id, flow) => flows.define(id, flow),
                Traffic::Packet(at, packet) => {
                    let (from, to) = sketch.window.unwrap_or((at, at));
                    sketch.window = Some((from.min(at), to.max(at)));
                    let (stream, identity) = identify(&flows, &packet);
                    if only.is_none_or(|only| only.contains(&stream)) {
                        sketch.add(stream, identity, at, Place::of(&packet));
                    }
                }
            }
        }
        for stream in sketch.streams.values_mut() {
            stream.prune(usize::MAX);
        }
        sketch.flows = Arc::new(flows);
        sketch
    }

    /// The first and the last packet's stamp.
    pub fn window(&self) -> Option<(Stamp<Local>, Stamp<Local>)> {
        self.window
    }

    /// Whether there were more streams than a sketch can hold: then it should be made anew from the
    /// streams that another host shares.
    pub fn overflowed(&self) -> bool {
        self.limit < u64::MAX
    }

    /// All defined streams.
    pub fn streams(&self) -> impl Iterator<Item = StreamKey> {
        self.flows.streams()
    }

    pub(crate) fn flows(&self) -> Arc<Flows> {
        Arc::clone(&self.flows)
    }

    fn add(&mut self, key: StreamKey, identity: Identity, at: Stamp<Local>, place: Place) {
        // Where segments are merged or split, a segment's last byte most often stays a segment's last byte.
        let hash = match identity {
            Identity::Bytes { seq, len } => hash(seq.wrapping_add(len)),
            Identity::Exact(hash) => hash,
        };
        if hash_of(key) > self.limit {
            return;
        }
        let stream = self.streams.entry(key).or_insert(Stream { samples: Vec::new(), limit: u64::MAX });
        if hash > stream.limit {
            return;
        }
        stream.samples.push(Sample { hash, at: at.ns(), place });
        self.samples += 1;
        if self.samples > 2 * MAX_SAMPLES {
            self.prune();
        }
    }

    fn prune(&mut self) {
        if self.streams.len() > MAX_SAMPLES / MIN_CELLS {
            let mut hashes: Vec<u64> = self.streams.keys().copied().map(hash_of).collect();
            let (_, &mut limit, _) = hashes.select_nth_unstable(MAX_SAMPLES / MIN_CELLS / 2);
            self.limit = limit;
            self.streams.retain(|&key, _| hash_of(key) <= limit);
            self.streams.shrink_to_fit();
        }
        // A stream with few packets leaves room for others.
        let mut keep = MAX_SAMPLES;
        loop {
            let kept: usize = self.streams.values().map(|stream| stream.samples.len().min(keep)).sum();
            if kept <= MAX_SAMPLES || keep <= MIN_CELLS {
                break;
            }
            keep = keep * 3 / 4;
        }
        self.samples = 0;
        for stream in self.streams.values_mut() {
            stream.prune(keep);
            self.samples += stream.samples.len();
        }
    }

    /// The relation between two hosts' clocks by their sketches, from this host's to the other's.
    pub fn compare(&self, other: &Self, limits: Limits) -> Solver {
        let mut solver = Solver::new(limits);
        let mut keys: Vec<StreamKey> = self.streams.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let (Some(here), Some(there)) = (self.streams.get(&key), other.streams.get(&key)) else {
                continue;
            };
            let (mut here, mut there) = (here.once().peekable(), there.once().peekable());
            while let (Some(a), Some(b)) = (here.peek(), there.peek()) {
                match a.hash.cmp(&b.hash) {
                    std::cmp::Ordering::Less => drop(here.next()),
                    std::cmp::Ordering::Greater => drop(there.next()),
                    std::cmp::Ordering::Equal => {
                        match (a.place.out, b.place.out) {
                            (true, false) => solver.forward(Stamp::from_ns(a.at), Stamp::from_ns(b.at)),
                            (false, true) => solver.backward(Stamp::from_ns(b.at), Stamp::from_ns(a.at)),
                            _ => {}
                        }
                        here.next();
                    }
                }
            }
        }
        solver
    }
}

impl Stream {
    /// Keeps the headers with the smallest hashes, and the first sightings of each.
    fn prune(&mut self, keep: usize) {
        // Stable: sightings with equal times stay in their original order.
        self.samples.sort_by_key(|sample| (sample.hash, sample.at));
        let (mut last, mut sightings) = (None, 0);
        self.samples.retain(|sample| {
            sightings = if last == Some(sample.hash) { sightings + 1 } else { 1 };
            last = Some(sample.hash);
            sightings <= MAX_SIGHTINGS
        });
        if self.samples.len() > keep {
            self.limit = self.samples[keep - 1].hash;
            self.samples.retain(|sample| sample.hash <= self.limit);
        }
        self.samples.shrink_to_fit();
    }

    /// The first sighting of each header with fewer than [`MAX_SIGHTINGS`] sightings, at different places.
    fn once(&self) -> impl Iterator<Item = &Sample> {
        self.samples.chunk_by(|a, b| a.hash == b.hash).filter_map(|sightings| {
            let again = (1..sightings.len())
                .any(|i| sightings[..i].iter().any(|before| before.place == sightings[i].place));
            let hops = sightings.len() < MAX_SIGHTINGS;
            sightings.first().filter(|_| hops && !again)
        })
    }
}

fn hash_of(key: StreamKey) -> u64 {
    hash(key.0)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use wakepath_event::{Direction, Flow, FlowId, Packet};

    use super::*;

    fn packet(flow: u64, seq: u32, interface: u32) -> Traffic {
        let (flow, direction) = (FlowId(flow), Direction::Out);
        let packet = Packet { flow, direction, seq, ack: 0, len: 10, tcp_flags: 16, netns: 1, interface };
        Traffic::Packet(Stamp::from_ns(seq.into()), packet)
    }

    /// A stream's sample hashes, in order.
    fn kept(stream: &Stream) -> Vec<u64> {
        stream.samples.iter().map(|sample| sample.hash).collect()
    }

    /// The hashes of all packets by stream, in order.
    fn hashes(traffic: &[Traffic], flows: &Flows) -> HashMap<StreamKey, Vec<u64>> {
        let mut hashes: HashMap<StreamKey, Vec<u64>> = HashMap::new();
        for item in traffic {
            let Traffic::Packet(_, packet) = item else { continue };
            let (stream, identity) = identify(flows, packet);
            let hash = match identity {
                Identity::Bytes { seq, len } => hash(seq.wrapping_add(len)),
                Identity::Exact(hash) => hash,
            };
            hashes.entry(stream).or_default().push(hash);
        }
        hashes.values_mut().for_each(|hashes| hashes.sort_unstable());
        hashes
    }

    /// The hashes up to a stream's limit.
    fn expected(hashes: &[u64], limit: u64) -> &[u64] {
        &hashes[..hashes.partition_point(|&hash| hash <= limit)]
    }

    #[test]
    fn a_sketch_holds_65536_packets_and_one_more_halves_it_to_those_of_the_smallest_hashes() {
        for (count, samples) in [(65_536, 65_536), (65_537, 32_768)] {
            let traffic: Vec<Traffic> = (0..count).map(|seq| packet(0, seq, 1)).collect();
            let sketch = Sketch::of(&traffic, None);
            let stream = &sketch.streams[&StreamKey::UNDEFINED];
            assert_eq!((stream.samples.len(), sketch.overflowed()), (samples, false), "{count} packets");
            let hashes = hashes(&traffic, &sketch.flows);
            assert_eq!(kept(stream), expected(&hashes[&StreamKey::UNDEFINED], stream.limit));
        }
    }

    #[test]
    fn a_packet_that_is_kept_is_kept_each_time_up_to_the_fourth() {
        // Through six interfaces, one after the other: most are seen after the sketch was already halved.
        let traffic: Vec<Traffic> =
            (0..6).flat_map(|interface| (0..20_000).map(move |seq| packet(0, seq, interface))).collect();
        let sketch = Sketch::of(&traffic, None);
        let stream = &sketch.streams[&StreamKey::UNDEFINED];
        assert!(stream.limit < u64::MAX);
        let hashes = hashes(&traffic[..20_000], &sketch.flows);
        let once = expected(&hashes[&StreamKey::UNDEFINED], stream.limit);
        let four_times: Vec<u64> = once.iter().flat_map(|&hash| [hash; MAX_SIGHTINGS]).collect();
        assert_eq!(kept(stream), four_times);
    }

    #[test]
    fn a_header_is_compared_if_each_place_saw_it_once_and_there_were_fewer_than_four() {
        let sample = |hash: u64, at: u64, interface: u32| {
            let Traffic::Packet(_, packet) = packet(0, 1, interface) else { unreachable!("a packet") };
            Sample { hash, at, place: Place::of(&packet) }
        };
        // The hash, and the interfaces that saw it.
        let sightings: [(u64, &[u32]); 6] =
            [(1, &[1]), (2, &[1, 2]), (3, &[1, 1]), (4, &[1, 2, 3]), (5, &[1, 2, 1]), (6, &[1, 2, 3, 4])];
        let samples = sightings.iter().flat_map(|&(hash, interfaces)| {
            (0..).zip(interfaces).map(move |(at, &interface)| sample(hash, 10 * hash + at, interface))
        });
        let stream = Stream { samples: samples.collect(), limit: u64::MAX };
        let once: Vec<_> = stream.once().map(|sample| (sample.hash, sample.at)).collect();
        assert_eq!(once, [(1, 10), (2, 20), (4, 40)]);
    }

    #[test]
    fn a_stream_of_as_many_packets_as_are_kept_has_no_limit() {
        for (count, kept, limit) in [(9, 9, u64::MAX), (10, 10, u64::MAX), (11, 10, 9), (12, 10, 9)] {
            let Traffic::Packet(_, packet) = packet(0, 1, 1) else { unreachable!("a packet") };
            let place = Place::of(&packet);
            let samples = (0..count).rev().map(|hash| Sample { hash, at: 0, place }).collect();
            let mut stream = Stream { samples, limit: u64::MAX };
            stream.prune(10);
            assert_eq!((stream.samples.len(), stream.limit), (kept, limit), "{count}");
        }
    }

    #[test]
    fn the_smallest_hashes_are_kept_from_too_many_streams() {
        let address = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let flow = |id: u64| Flow { source: address(id as u16), target: address(80), protocol: 6 };
        let defined = (0..2100).map(|id| Traffic::Flow(FlowId(id), flow(id)));
        let packets = (0..36).flat_map(|turn| (0..2100).map(move |id| packet(id, turn * 10, 1)));
        let traffic: Vec<Traffic> = defined.chain(packets).collect();
        let sketch = Sketch::of(&traffic, None);
        assert!(sketch.overflowed());
        // Half of the 2048 that fit, and the stream at the limit.
        assert_eq!(sketch.streams.len(), 1025);
        let mut streams: Vec<u64> = sketch.streams().map(hash_of).collect();
        streams.sort_unstable();
        assert_eq!((streams.len(), streams[1024]), (2100, sketch.limit));
        let hashes = hashes(&traffic, &sketch.flows);
        for (&key, stream) in &sketch.streams {
            assert!(hash_of(key) <= sketch.limit);
            assert_eq!(kept(stream), expected(&hashes[&key], stream.limit));
        }
        let few: HashSet<StreamKey> = sketch.streams().take(5).collect();
        let sketch = Sketch::of(&traffic, Some(&few));
        assert_eq!((sketch.streams.len(), sketch.overflowed()), (5, false));
        assert!(sketch.streams.values().all(|stream| stream.samples.len() == 36));
    }
}

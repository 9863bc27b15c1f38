//! Matching remembers packets in flight, though all of a host's stamps lie before the other's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use wakepath_clock::{Quality, Stamp};
use wakepath_event::{Direction, Flow, FlowId, Packet};
use wakepath_packets::{Source, Traffic};
use wakepath_sync::{Host, Options, synchronise};

/// Counts memory in use.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Memory in use is counted for the whole program, so only one measurement runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: the system allocator does all work; only sizes are added up beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(used, Relaxed);
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A side of many connections: data goes one way, an acknowledgement for each back, with `gap` ns
/// between two packets.
#[derive(Clone, Copy)]
struct Steady {
    client: bool,
    packets: u64,
    gap: u64,
    connections: u64,
    offset: u64,
    ppm: i64,
}

const SPREAD: u64 = 30_000;

impl Steady {
    fn local(&self, true_ns: u64) -> Stamp<wakepath_clock::Local> {
        let drift = true_ns as i64 / 1_000_000 * self.ppm;
        Stamp::from_ns(self.offset + true_ns.wrapping_add_signed(drift))
    }

    fn packet(&self, i: u64) -> Traffic {
        let (connection, turn) = (i / 2 % self.connections, i / 2 / self.connections);
        let data = i.is_multiple_of(2);
        let out = data == self.client;
        // Within the gap, so that both hosts see all packets in the same order.
        let delay = 20_000 + i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (SPREAD.min(self.gap / 4));
        let at = i * self.gap + if out { 0 } else { delay.min(self.gap - 1) };
        let sent = (turn * 1000) as u32;
        let (seq, ack, len) = if data { (sent, 1, 1000) } else { (1, sent + 1000, 0) };
        let packet = Packet {
            flow: FlowId(connection * 2 + u64::from(!data)),
            direction: if out { Direction::Out } else { Direction::In },
            seq,
            ack,
            len,
            tcp_flags: 16,
            netns: 1,
            interface: 2,
        };
        Traffic::Packet(self.local(at), packet)
    }
}

impl Source for Steady {
    fn traffic(&self) -> Box<dyn Iterator<Item = Traffic> + '_> {
        let flows = (0..self.connections).flat_map(|connection| {
            let address = |host: u8, port: u64| {
                SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, (port >> 16) as u8, 0, host)), port as u16)
            };
            let flow = Flow { source: address(1, connection), target: address(2, 80), protocol: 6 };
            let there = Traffic::Flow(FlowId(connection * 2), flow);
            [there, Traffic::Flow(FlowId(connection * 2 + 1), flow.reversed())]
        });
        Box::new(flows.chain((0..self.packets).map(|i| self.packet(i))))
    }
}

/// The peak memory for this number of packets, bytes.
fn peak(packets: u64, gap: u64, connections: u64) -> usize {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let client = Steady { client: true, packets, gap, connections, offset: 0, ppm: 150 };
    // All of the client's stamps lie before the server's.
    let hours = packets * gap + 5 * 3_600_000_000_000;
    let server = Steady { client: false, offset: hours, ppm: -40, ..client };
    let before = USED.load(Relaxed);
    PEAK.store(before, Relaxed);
    let hosts = [Host { source: &client, window: None }, Host { source: &server, window: None }];
    let sync = synchronise(&hosts, &Options::default());
    let peak = PEAK.load(Relaxed) - before;
    let pair = &sync.pairs[0];
    let matched = pair.matched[0] + pair.matched[1];
    println!(
        "{packets} packets on {connections} connections: {} KiB, {matched} matched, {} ambiguous, error {:?}",
        peak >> 10,
        pair.ambiguous,
        pair.error
    );
    assert_eq!((pair.quality, pair.inversions), (Quality::Exact, 0));
    assert!(matched * 100 >= packets * 99, "{matched} of {packets} matched in {} KiB", peak >> 10);
    peak
}

#[test]
fn memory_does_not_grow_with_the_hours() {
    // Two hours and eighteen, each packet in its own stretch of time.
    let short = peak(20_000, 400_000_000, 10);
    let long = peak(160_000, 400_000_000, 10);
    assert!(long < short * 3, "{short} bytes, then {long}");
}

const LIMIT: usize = 64 << 20;

#[test]
fn memory_does_not_grow_with_the_packets() {
    let little = peak(50_000, 100_000, 100);
    let much = peak(400_000, 100_000, 100);
    assert!(much <= LIMIT && much < little * 3, "{little} bytes, then {much}");
}

#[test]
#[ignore = "a minute of CPU without optimisation: cargo test --release -p wakepath-sync --test memory -- --ignored"]
fn ten_million_packets_fit_64_mib_whatever_their_rate_and_connections() {
    for (packets, gap, connections) in [
        (10_000_000, 100_000, 100),
        (2_000_000, 100_000, 200_000),
        (2_000_000, 5_000, 1000),
        (2_000_000, 1_000_000, 10),
    ] {
        let peak = peak(packets, gap, connections);
        assert!(
            peak <= LIMIT,
            "{peak} bytes: {packets} packets of {connections} connections, {gap} ns apart"
        );
    }
}

//! Packets that come faster than memory allows: they are forgotten sooner, but no sooner than memory
//! requires.

use wakepath_clock::Stamp;
use wakepath_event::{Direction, FlowId, Packet};
use wakepath_packets::{Matcher, Outcome, Sketch, Traffic};

/// The largest number of packets in a matcher's memory, and the number between two searches for old
/// packets.
const MAX_PACKETS: usize = 200_000;
const LOOK_INTERVAL: usize = 64;

/// Two hosts whose packets are known by their headers alone; their clocks agree.
struct Hosts {
    matcher: Matcher,
    matched: Vec<(u64, u64)>,
    ambiguous: usize,
}

impl Hosts {
    fn new() -> Self {
        let nothing = Sketch::of(&Vec::<Traffic>::new(), None);
        Self { matcher: Matcher::new(&[&nothing, &nothing], 0), matched: Vec::new(), ambiguous: 0 }
    }

    /// Packet `number` leaves the first host, or arrives at the second.
    fn pass(&mut self, at: u64, direction: Direction, number: u32) {
        let (flow, seq) = (FlowId(1), number);
        let packet = Packet { flow, direction, seq, ack: 0, len: 10, tcp_flags: 0, netns: 1, interface: 1 };
        let host = usize::from(direction == Direction::In);
        self.matcher.packet(host, Stamp::from_ns(at), at, &packet, &mut |outcome| match outcome {
            Outcome::Matched(pair) => self.matched.push((pair.sent.ns(), pair.received.ns())),
            Outcome::Ambiguous(_) => self.ambiguous += 1,
        });
    }

    fn finish(mut self) -> (Vec<(u64, u64)>, usize) {
        self.matcher.finish(&mut |outcome| match outcome {
            Outcome::Matched(pair) => self.matched.push((pair.sent.ns(), pair.received.ns())),
            Outcome::Ambiguous(_) => self.ambiguous += 1,
        });
        (self.matched, self.ambiguous)
    }
}

#[test]
fn memory_is_used_as_far_as_it_goes_and_what_is_on_its_way_within_it_is_matched() {
    // 100 000 packets a second for 2 s, each 0.6 s on its way: the usual 3 s would be 600 000 packets.
    let (every, travel, count) = (10_000, 600_000_000, 200_000_u32);
    let mut hosts = Hosts::new();
    let mut least = usize::MAX;
    let mut most = 0;
    for turn in 0..count + (travel / every) as u32 {
        let at = u64::from(turn) * every;
        if turn < count {
            hosts.pass(at, Direction::Out, turn);
        }
        if let Some(number) = turn.checked_sub((travel / every) as u32) {
            hosts.pass(at, Direction::In, number);
        }
        let remembered = hosts.matcher.remembered();
        most = most.max(remembered);
        if most > MAX_PACKETS {
            least = least.min(remembered);
        }
    }
    assert!((MAX_PACKETS..MAX_PACKETS + LOOK_INTERVAL).contains(&most), "{most} at most");
    // An age is cut by a quarter at once.
    assert!(least >= MAX_PACKETS / 4 * 3 - LOOK_INTERVAL, "{least} at least");
    let (mut matched, ambiguous) = hosts.finish();
    matched.sort_unstable();
    let expected: Vec<_> = (0..u64::from(count)).map(|i| (i * every, i * every + travel)).collect();
    assert!(
        matched == expected && ambiguous == 0,
        "{} of {count} matched, {ambiguous} ambiguous",
        matched.len()
    );
}

#[test]
fn after_a_burst_packets_are_remembered_as_long_as_before() {
    let mut hosts = Hosts::new();
    // All in the same ns: at any age, there are too many.
    let burst = MAX_PACKETS as u32 + 2 * LOOK_INTERVAL as u32;
    for number in 0..burst {
        hosts.pass(1_000_000_000, Direction::Out, number);
    }
    assert!(hosts.matcher.remembered() <= 2 * LOOK_INTERVAL, "{}", hosts.matcher.remembered());
    // The age grows by a sixteenth every 64 packets, from 0 to a second.
    let mut at = 2_000_000_000;
    for number in burst..burst + 30_000 {
        hosts.pass(at, Direction::Out, number);
        at += 1000;
    }
    let first = burst + 30_000;
    hosts.pass(at, Direction::Out, first);
    (1..200).for_each(|number| hosts.pass(at + 900_000_000, Direction::Out, first + number));
    hosts.pass(at + 900_000_000, Direction::In, first);
    assert_eq!(hosts.finish(), (vec![(at, at + 900_000_000)], 0));
}

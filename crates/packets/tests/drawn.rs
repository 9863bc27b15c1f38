//! Small situations as text: the hosts' sightings, and their matches.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wakepath_clock::Stamp;
use wakepath_event::{Direction, Flow, FlowId, Packet};
use wakepath_packets::{Matcher, Outcome, Sketch, Traffic};

/// Each line is `MS HOST out|in SEQ+LEN [@INTERFACE] [FLAGS]`, in time order; hosts are A, B and C. The result has a
/// part for each receive: `SENT FROM > RECEIVED TO`, in ms, or `FROM ? TO`. The common clock is off by at most `error`
/// ns.
fn outcomes<'a>(error: u64, drawing: impl IntoIterator<Item = &'a str>) -> String {
    let address = |host: u8| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), 80);
    let flow = Flow { source: address(1), target: address(2), protocol: 6 };
    let defined = vec![Traffic::Flow(FlowId(7), flow)];
    let sketch = Sketch::of(&defined, None);
    let mut matcher = Matcher::new(&[&sketch, &sketch, &sketch], error);
    let mut found = Vec::new();
    for line in drawing {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ms: u64 = words[0].parse().expect("ms");
        let host = usize::from(words[1].as_bytes()[0] - b'A');
        let (seq, len) = words[3].split_once('+').expect("SEQ+LEN");
        let interface =
            words.iter().find_map(|word| word.strip_prefix('@')).map_or(1, |n| n.parse().expect("index"));
        let flag = |name: &str, bit: u16| if words.contains(&name) { bit } else { 0 };
        let packet = Packet {
            flow: FlowId(7),
            direction: if words[2] == "out" { Direction::Out } else { Direction::In },
            seq: seq.parse().expect("seq"),
            ack: 1,
            len: len.parse().expect("len"),
            tcp_flags: flag("ack", 16) | flag("psh", 8) | flag("syn", 2) | flag("fin", 1),
            netns: 1,
            interface,
        };
        let common = ms * 1_000_000;
        // Clocks with hours between them: only the common clock may matter.
        let at = Stamp::from_ns(common + host as u64 * 3_600_000_000_000_000);
        matcher.packet(host, at, common, &packet, &mut |outcome| found.push(outcome));
    }
    matcher.finish(&mut |outcome| found.push(outcome));
    let name = |host: usize| char::from(b'A' + host as u8);
    let ms = |host: usize, ns: u64| (ns - host as u64 * 3_600_000_000_000_000) / 1_000_000;
    let mut lines: Vec<String> = found
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Matched(m) => {
                let (sent, received) = (ms(m.from, m.sent.ns()), ms(m.to, m.received.ns()));
                format!("{sent} {} > {received} {}", name(m.from), name(m.to))
            }
            Outcome::Ambiguous(m) => format!("{} ? {}", name(m.from), name(m.to)),
        })
        .collect();
    lines.sort();
    lines.join(", ")
}

/// A situation begins with its name, and ends with the outcome.
const SITUATIONS: &str = "
segments that arrive as one wait for the last:
    0 A out 0+100
    1 A out 100+100
    2 A out 200+100
    5 B in 0+300
    = 2 A > 5 B

a buffer that arrives in segments was sent once:
    0 A out 0+300
    5 B in 0+100
    6 B in 100+200
    = 0 A > 5 B, 0 A > 6 B

segments may arrive out of order:
    0 A out 0+100
    1 A out 100+100
    5 B in 100+100
    6 B in 0+100
    = 0 A > 6 B, 1 A > 5 B

sequence numbers wrap:
    0 A out 4294967200+100
    1 A out 4+100
    5 B in 4294967200+200
    = 1 A > 5 B

of segments that arrive out of order the first ones may lie before the end of all sequence numbers:
    0 A out 4294967200+100
    1 A out 4+100
    5 B in 4+100
    6 B in 4294967200+100
    = 0 A > 6 B, 1 A > 5 B

a segment with old bytes and new ones is ambiguous, and those before and behind it are not:
    0 A out 0+100
    1 A out 100+100
    2 A out 150+100
    3 A out 250+100
    5 B in 0+100
    6 B in 200+50
    7 B in 250+100
    = 0 A > 5 B, 3 A > 7 B, A ? B

segments that were sent again are ambiguous:
    0 A out 0+100
    1 A out 100+100
    3 A out 0+100
    5 B in 100+100
    6 B in 0+100
    = 1 A > 5 B, A ? B

segments that arrive again are ambiguous:
    0 A out 0+100
    5 B in 0+100
    6 B in 0+100
    = A ? B

a segment that is sent again when the first time is forgotten is not taken for the first:
    0 A out 0+100
    9000 A out 100+100
    9001 B in 100+100
    9900 A out 0+100
    9950 B in 0+100
    = 9000 A > 9001 B

a receive whose send was not all recorded matches nothing:
    0 A out 0+100
    2 A out 200+100
    5 B in 0+300
    =

the same segment on veth, bridge and device is one:
    0 A out 0+100 @7
    1 A in 0+100 @8
    2 A out 0+100 @2
    5 B in 0+100 @2
    6 B out 0+100 @8
    7 B in 0+100 @7
    = 0 A > 5 B

a host between receives what the first one sent:
    0 A out 0+100
    3 C in 0+100 @1
    4 C out 0+100 @2
    7 B in 0+100
    = 0 A > 3 C, 0 A > 7 B

opening and closing take a place in the stream:
    0 A out 0+0 syn
    1 A out 1+100 ack
    2 A out 101+0 fin ack
    5 B in 0+0 syn
    6 B in 1+100 ack fin
    = 0 A > 5 B, 2 A > 6 B

bare acknowledgements match where they occur once:
    0 A out 50+0 ack
    1 B in 50+0 ack
    2 A out 60+0 ack
    3 A out 60+0 ack
    4 B in 60+0 ack
    = 0 A > 1 B, A ? B

of two acknowledgements of one number the flags decide:
    0 A out 50+0 ack
    1 A out 50+0 ack psh
    2 B in 50+0 ack psh
    3 B in 50+0 ack
    = 0 A > 3 B, 1 A > 2 B

a segment that two hosts may have sent is ambiguous:
    0 A out 0+100
    1 C out 0+100
    5 B in 0+100
    = A ? B

a bare acknowledgement that two hosts may have sent is ambiguous:
    0 A out 50+0 ack
    1 C out 50+0 ack
    5 B in 50+0 ack
    = A ? B

a segment is on its way for three seconds at most, and may seem to arrive a second before it was sent:
    0 A out 0+100
    0 A out 100+100
    3000 B in 0+100
    3001 B in 100+100
    4000 B in 200+100
    4000 B in 300+100
    5000 A out 200+100
    5001 A out 300+100
    = 0 A > 3000 B, 5000 A > 4000 B

a bare acknowledgement is, too:
    0 A out 50+0 ack
    0 A out 60+0 ack
    3000 B in 50+0 ack
    3001 B in 60+0 ack
    4000 B in 70+0 ack
    4000 B in 80+0 ack
    5000 A out 70+0 ack
    5001 A out 80+0 ack
    = 0 A > 3000 B, 5000 A > 4000 B
";

#[test]
fn each_receive_waits_for_the_send_that_it_can_have_come_from() {
    let mut situations = 0;
    for situation in SITUATIONS.split("\n\n") {
        let mut lines = situation.trim().lines();
        let (name, expected) = (lines.next().expect("a name"), lines.next_back().expect("an outcome"));
        assert_eq!(format!("= {}", outcomes(0, lines)).trim(), expected.trim(), "{name}");
        situations += 1;
    }
    assert_eq!(situations, 19);
}

#[test]
fn a_segment_that_is_forgotten_among_many_others_is_not_taken_for_the_first_one_either() {
    let often: String = (0..100).map(|i| format!("{} C out {}+1\n", 4000 + i, 5000 + 10 * i)).collect();
    let (before, behind) = (
        ["0 A out 0+100", "1 A out 100+100"],
        ["9000 A out 200+100", "9001 B in 200+100", "9900 A out 0+100", "9950 B in 0+100"],
    );
    let lines = before.into_iter().chain(often.lines()).chain(behind);
    assert_eq!(outcomes(0, lines), "9000 A > 9001 B");
}

#[test]
fn clocks_of_which_nothing_is_known_hold_up_no_answer() {
    let often: String = (0..100).map(|i| format!("{i} A out {}+10\n{i} B in {0}+10\n", 10 * i)).collect();
    let found = outcomes(u64::MAX, often.lines());
    assert_eq!(found.split(", ").count(), 100, "{found}");
}

#[test]
fn an_id_of_a_flow_stands_for_another_connection_from_some_time_on() {
    let address = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let flow = |port: u16| Flow { source: address(port), target: address(80), protocol: 6 };
    let packet = |direction, seq: u32, len: u32| {
        let flow = FlowId(7);
        Packet { flow, direction, seq, ack: 1, len, tcp_flags: 16, netns: 1, interface: 2 }
    };
    // The same bytes and acknowledgements pass over both connections; a sketch knows only an id's last flow.
    let traffic = |direction, begin: u64| -> Vec<Traffic> {
        let of = |port: u16, at: u64| {
            let packets = [packet(direction, 0, 100), packet(direction, 100, 0)];
            let [data, bare] = packets.map(|packet| Traffic::Packet(Stamp::from_ns(begin + at), packet));
            [Traffic::Flow(FlowId(7), flow(port)), data, bare]
        };
        [of(1, 10), of(2, 20)].concat()
    };
    let hosts = [traffic(Direction::Out, 0), traffic(Direction::In, 5)];
    let sketches = hosts.each_ref().map(|traffic| Sketch::of(traffic, None));
    let mut matcher = Matcher::new(&sketches.each_ref(), 0);
    let mut found = Vec::new();
    // In time order: three items from each host by turns.
    for turn in 0..2 {
        for (host, traffic) in hosts.iter().enumerate() {
            for item in &traffic[turn * 3..turn * 3 + 3] {
                match *item {
                    Traffic::Flow(id, flow) => matcher.flow(host, id, flow),
                    Traffic::Packet(at, packet) => {
                        matcher.packet(host, at, at.ns(), &packet, &mut |outcome| found.push(outcome));
                    }
                }
            }
        }
    }
    assert_eq!(matcher.remembered(), 8, "on each host two ranges of bytes and two headers");
    matcher.finish(&mut |outcome| found.push(outcome));
    let pair = |outcome: &Outcome| match outcome {
        Outcome::Matched(m) => (m.sent.ns(), m.received.ns()),
        Outcome::Ambiguous(_) => (0, 0),
    };
    let mut pairs: Vec<_> = found.iter().map(pair).collect();
    pairs.sort_unstable();
    assert_eq!(pairs, [(10, 15), (10, 15), (20, 25), (20, 25)]);
}

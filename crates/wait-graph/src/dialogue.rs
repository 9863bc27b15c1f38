//! Connections as dialogues: the opener, the last data's sender, and the answering threads.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Direction, Flow, FlowId, HostIndex, Packet};

use crate::ThreadIndex;

/// An end of a connection, seen from either end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// This end.
    Own,
    /// The other end.
    Other,
}

/// A connection up to some time, seen from an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dialogue {
    /// The opening end, and the time; `None` if the handshake was not recorded.
    pub opened: Option<(End, Stamp<Reference>)>,
    /// The end whose data crossed this host's edge last since the opening, and the time of its first data since the other end's last data.
    pub last_data: Option<(End, Stamp<Reference>)>,
}

/// Data from the other end of a connection, and this end's data behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The connection, as this end sends on it.
    pub flow: Flow,
    /// The opening end; `None` if the handshake was not recorded.
    pub opened: Option<End>,
    /// The other end's first data.
    pub asked: Stamp<Reference>,
    /// This end's first data behind it.
    pub answered: Stamp<Reference>,
    /// The thread that sent the answer: the first data sent by a thread itself.
    pub thread: ThreadIndex,
}

/// A thread's first data on a connection, or its first behind the other end's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The connection, as this end sends on it.
    pub flow: Flow,
    /// The opening end; `None` if the handshake was not recorded.
    pub opened: Option<End>,
    /// The time of the data.
    pub at: Stamp<Reference>,
    /// The sender.
    pub thread: ThreadIndex,
}

/// The dialogues of all connections, 16 bytes for each change of speaker.
#[derive(Debug, Default)]
pub(crate) struct Dialogues {
    /// A connection's two directions have the numbers 2n and 2n + 1.
    numbers: HashMap<FlowId, u32, FixedState>,
    /// With the host, for connections that cannot leave it.
    by_ends: HashMap<(Option<HostIndex>, Flow), u32, FixedState>,
    /// By direction number, seen from the direction's sender.
    sides: Vec<Side>,
}

#[derive(Debug, Default)]
struct Side {
    openings: Vec<(Stamp<Reference>, End)>,
    turns: Vec<Turn>,
}

/// An end's data, up to the other end's data.
#[derive(Debug, Clone, Copy)]
struct Turn {
    at: Stamp<Reference>,
    /// The sending thread, or [`NOT_KNOWN`].
    sender: u32,
    speaker: End,
}

const _: () = assert!(size_of::<Turn>() == 16);

const NOT_KNOWN: u32 = u32::MAX;

const TCP: u8 = 6;
const SYN: u16 = 2;
const ACK: u16 = 16;

impl Side {
    /// The end that opened the connection, and the time, up to and including `at`.
    fn opened(&self, at: Stamp<Reference>) -> Option<(End, Stamp<Reference>)> {
        let until = self.openings.partition_point(|&(when, _)| when <= at);
        until.checked_sub(1).map(|last| (self.openings[last].1, self.openings[last].0))
    }
}

impl Dialogues {
    /// `inside` is the host that the flow cannot leave.
    pub fn define(&mut self, id: FlowId, inside: Option<HostIndex>, flow: Flow) {
        let next = self.sides.len() as u32;
        let number = *self.by_ends.entry((inside, flow)).or_insert(next);
        if number == next {
            self.by_ends.insert((inside, flow.reversed()), next + 1);
            self.sides.resize_with(self.sides.len() + 2, Side::default);
        }
        self.numbers.insert(id, number);
    }

    /// Notes a packet; `flow` is its flow, if defined, and `sender` the thread that sent it, in a call of its own.
    pub fn packet(
        &mut self,
        at: Stamp<Reference>,
        packet: &Packet,
        flow: Option<&Flow>,
        sender: Option<ThreadIndex>,
    ) {
        let is_syn = packet.tcp_flags & SYN != 0 && flow.is_some_and(|flow| flow.protocol == TCP);
        if packet.len == 0 && !is_syn {
            return;
        }
        let Some(&number) = self.numbers.get(&packet.flow) else { return };
        let (number, speaker) = match packet.direction {
            Direction::Out => (number, End::Own),
            Direction::In => (number ^ 1, End::Other),
        };
        let Some(side) = self.sides.get_mut(number as usize) else { return };
        if is_syn {
            // The answer to a SYN goes to the opening end.
            let opener = match (speaker, packet.tcp_flags & ACK != 0) {
                (speaker, false) => speaker,
                (End::Own, true) => End::Other,
                (End::Other, true) => End::Own,
            };
            // A retransmitted SYN, and its answer, open nothing.
            let spoken = side.turns.last().map(|turn| turn.at);
            if side.openings.last().is_none_or(|&(at, last)| last != opener || spoken.is_some_and(|s| s > at))
            {
                side.openings.push((at, opener));
            }
        }
        if packet.len > 0 {
            let begun = side.openings.last().map(|&(at, _)| at);
            let goes_on =
                |turn: &&mut Turn| turn.speaker == speaker && begun.is_none_or(|begun| begun <= turn.at);
            // Arriving data has its sender on the other side.
            let sender = sender.filter(|_| speaker == End::Own).map_or(NOT_KNOWN, |thread| thread.0);
            match side.turns.last_mut().filter(goes_on) {
                Some(turn) if turn.sender == NOT_KNOWN => turn.sender = sender,
                Some(_) => {}
                None => side.turns.push(Turn { at, sender, speaker }),
            }
        }
    }

    /// The dialogue up to and including `at`, seen from the end that sends `flow`, or receives it.
    pub fn at(&self, flow: FlowId, of: Direction, at: Stamp<Reference>) -> Dialogue {
        let Some(&number) = self.numbers.get(&flow) else { return Dialogue::default() };
        let number = if of == Direction::Out { number } else { number ^ 1 };
        let Some(side) = self.sides.get(number as usize) else { return Dialogue::default() };
        let opened = side.opened(at);
        let begun = opened.map(|(_, at)| at);
        let turn =
            side.turns.partition_point(|turn| turn.at <= at).checked_sub(1).map(|last| side.turns[last]);
        let last_data = turn.filter(|turn| begun.is_none_or(|begun| begun <= turn.at));
        Dialogue { opened, last_data: last_data.map(|turn| (turn.speaker, turn.at)) }
    }

    /// The thread with the last sent data on a flow up to `at`, else with the first behind it.
    pub fn data_sender(&self, flow: FlowId, at: Stamp<Reference>) -> Option<ThreadIndex> {
        let side = self.sides.get(*self.numbers.get(&flow)? as usize)?;
        let is_sent = |turn: &&Turn| turn.speaker == End::Own && turn.sender != NOT_KNOWN;
        let (before, behind) = side.turns.split_at(side.turns.partition_point(|turn| turn.at <= at));
        let turn = before.iter().rev().find(is_sent).or_else(|| behind.iter().find(is_sent))?;
        Some(ThreadIndex(turn.sender))
    }

    /// All directions, by number.
    fn directions(&self) -> impl Iterator<Item = (&Side, Flow)> {
        let mut flows: Vec<_> = self.by_ends.iter().map(|((_, flow), number)| (*number, *flow)).collect();
        flows.sort_unstable_by_key(|(number, _)| *number);
        flows.into_iter().map(|(number, flow)| (&self.sides[number as usize], flow))
    }

    /// Each thread's first data on a connection, and behind each of the other end's data.
    pub fn questions(&self) -> impl Iterator<Item = Question> {
        self.directions().flat_map(|(side, flow)| {
            let own = side.turns.iter().filter(|turn| turn.speaker == End::Own && turn.sender != NOT_KNOWN);
            own.map(move |turn| Question {
                flow,
                opened: side.opened(turn.at).map(|(end, _)| end),
                at: turn.at,
                thread: ThreadIndex(turn.sender),
            })
        })
    }

    /// The exchanges on all connections, seen from each end, with an answer sent by a thread.
    pub fn exchanges(&self) -> impl Iterator<Item = Exchange> {
        self.directions().flat_map(|(side, flow)| {
            side.turns.windows(2).filter_map(move |pair| {
                let &[asked, answered] = pair else { return None };
                let opened = side.opened(answered.at);
                let is_one = asked.speaker == End::Other
                    && answered.speaker == End::Own
                    && answered.sender != NOT_KNOWN
                    && opened.is_none_or(|(_, at)| at <= asked.at);
                is_one.then_some(Exchange {
                    flow,
                    opened: opened.map(|(end, _)| end),
                    asked: asked.at,
                    answered: answered.at,
                    thread: ThreadIndex(answered.sender),
                })
            })
        })
    }

    pub fn bytes(&self) -> usize {
        let of_side = |side: &Side| size_of_val(&*side.openings) + size_of_val(&*side.turns);
        size_of_val(&*self.sides) + self.sides.iter().map(of_side).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: FlowId = FlowId(1);
    const IN: FlowId = FlowId(2);

    /// A connection's dialogues with these packets: `AT DIRECTION FLAGS LENGTH`, seen from the end that sends `OUT`.
    fn dialogues(protocol: u8, packets: &[(u64, Direction, u16, u32)]) -> Dialogues {
        let [source, target] = ["10.0.0.2:40000", "10.0.0.3:80"].map(|end| end.parse().expect("an address"));
        let flow = Flow { source, target, protocol };
        let mut dialogues = Dialogues::default();
        dialogues.define(OUT, None, flow);
        dialogues.define(IN, None, flow.reversed());
        for &(at, direction, tcp_flags, len) in packets {
            let id = if direction == Direction::Out { OUT } else { IN };
            let packet =
                Packet { flow: id, direction, seq: 0, ack: 0, len, tcp_flags, netns: 0, interface: 0 };
            let flow = if direction == Direction::Out { flow } else { flow.reversed() };
            dialogues.packet(Stamp::from_ns(at), &packet, Some(&flow), None);
        }
        dialogues
    }

    #[test]
    fn the_last_data_and_the_opening_end_are_those_up_to_a_time() {
        use Direction::{In, Out};
        use End::{Other, Own};
        const SYN_ACK: u16 = SYN | ACK;
        let look = |dialogues: &Dialogues, ns: u64| {
            let Dialogue { opened, last_data } = dialogues.at(OUT, Out, Stamp::from_ns(ns));
            assert_eq!(dialogues.at(IN, In, Stamp::from_ns(ns)), Dialogue { opened, last_data });
            let ns = |one: Option<(End, Stamp<Reference>)>| one.map(|(end, at)| (end, at.ns()));
            (ns(opened), ns(last_data))
        };
        // Own end opens, asks, and gets an answer in two packets; the acknowledgements carry no data.
        let asked = dialogues(
            TCP,
            &[
                (10, Out, SYN, 0),
                (11, Out, SYN, 0),
                (12, In, SYN_ACK, 0),
                (13, Out, ACK, 0),
                (20, Out, ACK, 5),
                (25, In, ACK, 0),
                (30, In, ACK, 9),
                (31, In, ACK, 9),
                (32, Out, ACK, 0),
            ],
        );
        let own = Some((Own, 10));
        for (ns, expected) in [
            (9, (None, None)),
            (10, (own, None)),
            (19, (own, None)),
            (20, (own, Some((Own, 20)))),
            (29, (own, Some((Own, 20)))),
            (30, (own, Some((Other, 30)))),
            (99, (own, Some((Other, 30)))),
        ] {
            assert_eq!(look(&asked, ns), expected, "{ns}");
        }
        // The other end opens; either half of the handshake shows it.
        for first in [(5, In, SYN, 0), (5, Out, SYN_ACK, 0)] {
            let called = dialogues(TCP, &[first, (6, In, ACK, 3)]);
            assert_eq!(look(&called, 9), (Some((Other, 5)), Some((Other, 6))), "{first:?}");
        }
        let answered = dialogues(TCP, &[(5, In, SYN_ACK, 0)]);
        assert_eq!(look(&answered, 9), (Some((Own, 5)), None));
        // The same ports are used again: the previous connection's data means nothing.
        let again = dialogues(TCP, &[(1, Out, SYN, 0), (2, Out, ACK, 5), (5, Out, SYN, 0), (9, Out, ACK, 5)]);
        for (ns, expected) in [
            (4, (Some((Own, 1)), Some((Own, 2)))),
            (8, (Some((Own, 5)), None)),
            (9, (Some((Own, 5)), Some((Own, 9)))),
        ] {
            assert_eq!(look(&again, ns), expected, "{ns}");
        }
        // A single byte is data.
        let byte = dialogues(TCP, &[(1, Out, SYN, 0), (2, Out, ACK, 5), (3, In, ACK, 1), (4, Out, ACK, 1)]);
        assert_eq!(look(&byte, 3), (Some((Own, 1)), Some((Other, 3))));
        assert_eq!(look(&byte, 4), (Some((Own, 1)), Some((Own, 4))));
        // The first packet may carry data already; sent again, it opens nothing.
        let fast = dialogues(TCP, &[(10, Out, SYN, 5), (11, Out, SYN, 0)]);
        assert_eq!(look(&fast, 12), (Some((Own, 10)), Some((Own, 10))));
        // A UDP packet has no flags.
        let udp = dialogues(17, &[(5, In, SYN, 3)]);
        assert_eq!(look(&udp, 9), (None, Some((Other, 5))));
        assert_eq!(asked.at(FlowId(3), Out, Stamp::MAX), Dialogue::default(), "not defined");
    }

    #[test]
    fn on_one_host_each_end_has_its_own_side() {
        let both = dialogues(TCP, &[(5, Direction::Out, ACK, 3)]);
        let other = both.at(IN, Direction::Out, Stamp::from_ns(9));
        assert_eq!(other.last_data, None, "it has not arrived");
        let [source, target] = ["10.0.0.2:40000", "10.0.0.3:80"].map(|end| end.parse().expect("an address"));
        let mut both = both;
        let arrives = Packet {
            flow: OUT,
            direction: Direction::In,
            seq: 0,
            ack: 0,
            len: 3,
            tcp_flags: ACK,
            netns: 0,
            interface: 0,
        };
        both.packet(Stamp::from_ns(7), &arrives, Some(&Flow { source, target, protocol: TCP }), None);
        let [other, own] = [IN, OUT].map(|flow| both.at(flow, Direction::Out, Stamp::from_ns(9)).last_data);
        assert_eq!(other, Some((End::Other, Stamp::from_ns(7))));
        assert_eq!(own, Some((End::Own, Stamp::from_ns(5))));
    }

    /// The exchanges of the end that sends `OUT`, as `ASKED-ANSWERED THREAD`, from packets `AT DIRECTION FLAGS THREAD`.
    fn exchanges(packets: &[(u64, Direction, u16, Option<u32>)]) -> Vec<String> {
        let [source, target] = ["10.0.0.2:80", "10.0.0.3:40000"].map(|end| end.parse().expect("an address"));
        let out = Flow { source, target, protocol: TCP };
        let mut dialogues = Dialogues::default();
        dialogues.define(OUT, None, out);
        dialogues.define(IN, None, out.reversed());
        for &(at, direction, tcp_flags, sender) in packets {
            let (id, flow) = if direction == Direction::Out { (OUT, out) } else { (IN, out.reversed()) };
            let len = u32::from(tcp_flags & SYN == 0);
            let packet =
                Packet { flow: id, direction, seq: 0, ack: 0, len, tcp_flags, netns: 0, interface: 0 };
            dialogues.packet(Stamp::from_ns(at), &packet, Some(&flow), sender.map(ThreadIndex));
        }
        let own = dialogues.exchanges().filter(|exchange| exchange.flow == out);
        own.map(|Exchange { opened, asked, answered, thread, .. }| {
            let opened = opened.map_or("?", |end| if end == End::Own { "own" } else { "other" });
            format!("{}-{} by {} {opened}", asked.ns(), answered.ns(), thread.0)
        })
        .collect()
    }

    #[test]
    fn a_flows_sender_is_the_last_thread_with_data_up_to_a_time_else_the_next() {
        let [source, target] = ["10.0.0.2:80", "10.0.0.3:40000"].map(|end| end.parse().expect("an address"));
        let out = Flow { source, target, protocol: TCP };
        let mut dialogues = Dialogues::default();
        dialogues.define(OUT, None, out);
        dialogues.define(IN, None, out.reversed());
        let packets = [(5, Direction::Out, Some(3)), (10, Direction::In, None), (15, Direction::Out, None)];
        let later = [(20, Direction::In, None), (25, Direction::Out, Some(4))];
        for (at, direction, sender) in packets.into_iter().chain(later) {
            let (id, flow) = if direction == Direction::Out { (OUT, out) } else { (IN, out.reversed()) };
            let packet = Packet {
                flow: id,
                direction,
                seq: 0,
                ack: 0,
                len: 1,
                tcp_flags: ACK,
                netns: 0,
                interface: 0,
            };
            dialogues.packet(Stamp::from_ns(at), &packet, Some(&flow), sender.map(ThreadIndex));
        }
        let sender = |flow, at| dialogues.data_sender(flow, Stamp::from_ns(at)).map(|thread| thread.0);
        assert_eq!([1, 5, 24, 25].map(|at| sender(OUT, at)), [3, 3, 3, 4].map(Some));
        assert_eq!([sender(IN, 99), sender(FlowId(3), 99)], [None, None]);
    }

    #[test]
    fn an_exchange_is_a_question_and_the_answer_that_a_thread_sent() {
        use Direction::{In, Out};
        // The first data of each turn counts, and the first thread that sent some of it.
        let packets = [
            (1, In, SYN, None),
            (5, In, ACK, Some(9)),
            (6, In, ACK, Some(9)),
            (8, Out, ACK, Some(3)),
            (9, Out, ACK, Some(4)),
            (20, In, ACK, None),
            (24, Out, ACK, None),
            (25, Out, ACK, Some(5)),
            (30, In, ACK, None),
            (31, Out, ACK, None),
            (40, In, ACK, None),
        ];
        assert_eq!(exchanges(&packets), ["5-8 by 3 other", "20-24 by 5 other"]);
        // Own data without a question before it, as the asking end sends.
        assert_eq!(exchanges(&[(5, Out, ACK, Some(3)), (8, In, ACK, None)]), [""; 0]);
        assert_eq!(
            exchanges(&[(5, Out, ACK, Some(3)), (8, In, ACK, None), (9, Out, ACK, Some(3))]),
            ["8-9 by 3 ?"]
        );
        // A later connection with the same ports is another connection.
        let again = [(5, In, ACK, None), (7, Out, SYN, Some(3)), (8, Out, ACK, Some(3))];
        assert_eq!(exchanges(&again), [""; 0]);
    }
}

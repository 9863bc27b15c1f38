//! Packets sent by a TCP timer, and the timer's kind.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use wakepath_event::{FlowId, Packet};

use crate::outgoing::Outgoing;
use crate::{PacketTimer, Sender, Sent, ThreadIndex, TimerPurpose};

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;

/// The packets that each flow's own host has sent so far.
#[derive(Debug, Default)]
pub(crate) struct Senders(HashMap<FlowId, Progress, FixedState>);

#[derive(Debug, Default)]
struct Progress {
    /// The first sending of the SYN.
    syn: Option<Sent>,
    /// The number of times that a timer repeated the SYN.
    repeats: u32,
    /// The last acknowledgement.
    ack: u32,
}

impl Senders {
    /// Whether the flow's own host sent a packet, with a record.
    pub(crate) fn has(&self, flow: FlowId) -> bool {
        self.0.contains_key(&flow)
    }

    /// Notes a packet sent by its own host.
    pub(crate) fn note(&mut self, header: &Packet, sent: Sent) {
        let progress = self.0.entry(header.flow).or_default();
        progress.ack = header.ack;
        if header.tcp_flags & SYN == 0 {
            return;
        }
        match sent.by {
            Sender::Timer(_) => progress.repeats += 1,
            _ => (progress.syn, progress.repeats) = (Some(sent), 0),
        }
    }

    /// The timer that sends this TCP packet; `closed`: the other end's receive window is closed. `back` is the other direction of the packet's flow.
    pub(crate) fn timer(
        &self,
        header: &Packet,
        back: Option<FlowId>,
        outgoing: &Outgoing,
        closed: bool,
    ) -> PacketTimer {
        let progress = self.0.get(&header.flow);
        let timer = |purpose, first: Option<Sent>| PacketTimer {
            flow: header.flow,
            purpose,
            first: first.map(|first| (first.at, thread(first))),
        };
        if header.tcp_flags & SYN != 0 {
            // The first SYN is sent by `connect` or in answer to a SYN, never by a timer.
            let repeats = progress.map_or(0, |progress| progress.repeats) + 1;
            let is_answer = header.tcp_flags & ACK != 0;
            let purpose = if is_answer { TimerPurpose::Data } else { TimerPurpose::Syn { repeats } };
            return timer(purpose, progress.and_then(|progress| progress.syn));
        }
        if header.len > 0 {
            return match outgoing.seen(header.flow, header.seq, header.len) {
                Some(first) => timer(TimerPurpose::Data, Some(first)),
                None => timer(TimerPurpose::Other, None),
            };
        }
        let is_new = |progress: &&Progress| header.ack.wrapping_sub(progress.ack).cast_signed() > 0;
        match (header.tcp_flags & (FIN | RST) == 0, progress.filter(is_new)) {
            // The acknowledgement was not delayed before the first acknowledged byte had been sent.
            (true, Some(progress)) => {
                let bytes = back.and_then(|back| outgoing.seen(back, progress.ack, 1));
                timer(TimerPurpose::Acknowledgement, bytes)
            }
            (true, None) if closed => timer(TimerPurpose::WindowProbe, None),
            _ => timer(TimerPurpose::Other, None),
        }
    }
}

fn thread(sent: Sent) -> Option<ThreadIndex> {
    match sent.by {
        Sender::Thread(thread) => Some(thread),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_event::Direction;

    use super::*;

    fn header(tcp_flags: u16, ack: u32) -> Packet {
        Packet { tcp_flags, ack, ..wakepath_scenario::packet(FlowId(1), Direction::Out, 0) }
    }

    fn sent(ns: u64, by: Sender) -> Sent {
        Sent { at: Stamp::from_ns(ns), by }
    }

    #[test]
    fn the_first_sending_of_a_syn_is_not_that_of_a_packet_behind_it() {
        let mut senders = Senders::default();
        let thread = Sender::Thread(ThreadIndex(3));
        senders.note(&header(SYN, 0), sent(10, thread));
        senders.note(&header(ACK, 1), sent(20, thread));
        senders.note(
            &header(SYN, 0),
            sent(30, Sender::Timer(senders.timer(&header(SYN, 0), None, &Outgoing::default(), false))),
        );
        let timer = senders.timer(&header(SYN, 0), None, &Outgoing::default(), false);
        assert_eq!(timer.purpose, TimerPurpose::Syn { repeats: 2 });
        assert_eq!(timer.first, Some((Stamp::from_ns(10), Some(ThreadIndex(3)))));
    }

    #[test]
    fn a_packet_that_ends_a_connection_is_no_delayed_acknowledgement() {
        let mut senders = Senders::default();
        senders.note(&header(ACK, 100), sent(10, Sender::Thread(ThreadIndex(3))));
        let purpose = |flags, ack, closed| {
            senders.timer(&header(flags, ack), None, &Outgoing::default(), closed).purpose
        };
        assert_eq!(purpose(ACK, 101, true), TimerPurpose::Acknowledgement);
        assert_eq!(purpose(ACK, 100, true), TimerPurpose::WindowProbe);
        assert_eq!(purpose(ACK, 100, false), TimerPurpose::Other);
        for flags in [ACK | FIN, ACK | RST] {
            assert_eq!(purpose(flags, 101, true), TimerPurpose::Other);
        }
    }

    #[test]
    fn an_acknowledgement_is_delayed_from_the_first_byte_that_it_acknowledges() {
        let (mut senders, mut outgoing) = (Senders::default(), Outgoing::default());
        let thread = |index| Sender::Thread(ThreadIndex(index));
        senders.note(&header(ACK, 100), sent(10, thread(3)));
        let back = FlowId(2);
        // The first ten bytes were acknowledged.
        outgoing.send(back, 90, 10, sent(5, thread(4)));
        outgoing.send(back, 100, 10, sent(20, thread(5)));
        outgoing.send(back, 110, 10, sent(30, thread(6)));
        let first =
            |back, ack| senders.timer(&header(ACK, ack), back, &outgoing, false).first.map(|(at, _)| at.ns());
        assert_eq!(first(Some(back), 120), Some(20));
        assert_eq!(first(Some(back), 105), Some(20));
        assert_eq!(first(Some(back), 100), None, "nothing new");
        assert_eq!((first(None, 120), first(Some(FlowId(7)), 120)), (None, None));
        let timer = senders.timer(&header(ACK, 120), Some(back), &outgoing, false);
        assert_eq!(timer.first, Some((Stamp::from_ns(20), Some(ThreadIndex(5)))));
    }
}

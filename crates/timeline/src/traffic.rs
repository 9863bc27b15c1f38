//! Packets and disk requests: each arrival is linked to its sending.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockRequest, Context, Direction, Event, FlowId, Packet as Header, Softirq};

use crate::instance::Packet;
use crate::{Completion, Occupant, PacketTimer, Sender, Sent, Sink, Timeline, TimerPurpose};

/// An IP protocol number, and a TCP header flag.
const TCP: u8 = 6;
const SYN: u16 = 2;

impl Timeline {
    pub(crate) fn packet(
        &mut self,
        event: &Event,
        at: Stamp<Reference>,
        header: &Header,
        sink: &mut impl Sink,
    ) {
        let current = self.observe(event, at, sink);
        // Without a definition of the flow, its two ends may use different ids.
        let protocol = self.protocols.get(&header.flow).copied();
        let key = (protocol.map(|_| header.flow), header.seq, header.len, header.ack);
        let stream = (protocol == Some(TCP)).then_some(header.flow);
        if stream.is_some() {
            self.windows.pass(at, header);
        }
        match header.direction {
            Direction::Out => {
                // A packet forwarded for a host without a recording has no sender here.
                let Some(sent) = self.sending(event, at, header, current, stream) else { return };
                self.sends.insert(key, sent);
                self.senders.note(header, sent);
                if let Some(stream) = stream {
                    if header.tcp_flags & SYN != 0 {
                        self.outgoing.begin(stream);
                    }
                    self.outgoing.send(stream, header.seq, header.len, sent);
                    if let Sender::Timer(PacketTimer { purpose: TimerPurpose::Data, .. }) = sent.by {
                        self.outgoing.send_again(stream, header.seq, header.len, sent);
                    }
                }
            }
            Direction::In => {
                let of_bytes = || self.outgoing.find(stream?, header.seq, header.len);
                // The sender's host is recorded, so a record of this sending is missing.
                let missing = || self.senders.has(header.flow).then_some(Sent { at, by: Sender::Unseen });
                let sent = self.sends.get(&key).or_else(of_bytes).or_else(missing);
                if let Some(cpu_state) = self.cpu_state(event.cpu) {
                    cpu_state.instance.receive(Packet { flow: header.flow, at, sent });
                }
            }
        }
    }

    /// This packet's sender. A packet sent in receive context was caused by the packet that the same socket
    /// received there (an acknowledgement that opens the window), or is the same packet, forwarded. A packet
    /// sent when others have left a queue was caused by those. `None` for a forwarded packet without a
    /// recorded sender.
    fn sending(
        &mut self,
        event: &Event,
        at: Stamp<Reference>,
        header: &Header,
        current: Occupant,
        stream: Option<FlowId>,
    ) -> Option<Sent> {
        let context = event.context;
        let by = match (context, current) {
            (Context::Task, Occupant::Thread(thread)) => {
                self.threads[thread.0 as usize].acted = true;
                Sender::Thread(thread)
            }
            (Context::Softirq(Softirq::NetRx), _) => {
                let back = self.reversed.get(&header.flow).copied();
                let instance = self.cpu_state(event.cpu).map(|cpu_state| &cpu_state.instance);
                let forwarded = instance.and_then(|instance| instance.packet(header.flow, at));
                if let Some(forwarded) = forwarded {
                    return forwarded.sent;
                }
                match instance.and_then(|instance| instance.packet(back?, at)?.sent) {
                    Some(sent) => return Some(sent.lets_go(header.tcp_flags & Header::HELD_BACK != 0)),
                    None => Sender::Interrupt(context),
                }
            }
            (Context::LocalTimer | Context::Softirq(Softirq::Timer | Softirq::Hrtimer), _) => {
                let flow = header.flow;
                let other = PacketTimer { flow, purpose: TimerPurpose::Other, first: None };
                let back = self.reversed.get(&flow).copied();
                let closed = back.is_some_and(|back| self.windows.is_closed(back));
                let of_tcp = |_| self.senders.timer(header, back, &self.outgoing, closed);
                Sender::Timer(stream.map_or(other, of_tcp))
            }
            // TCP limits its share of a device's queue and continues when some packets have been sent. So
            // this packet waited for earlier packets of the same socket.
            (Context::Softirq(Softirq::NetTx | Softirq::Tasklet), _) => {
                match self.outgoing.last(header.flow) {
                    Some(sent) => return Some(sent),
                    None => Sender::Interrupt(context),
                }
            }
            _ => Sender::Interrupt(context),
        };
        Some(Sent { at, by })
    }

    pub(crate) fn completed(
        &mut self,
        event: &Event,
        at: Stamp<Reference>,
        request: &BlockRequest,
        sink: &mut impl Sink,
    ) {
        self.observe(event, at, sink);
        let noted = |stamp: Option<Stamp<_>>| stamp.map(Stamp::on_reference_host);
        let start = noted(request.start);
        // A request starts before its issue. Ids are addresses: an earlier issue belongs to another request, whose completion is lost.
        let issue =
            self.issues.remove(&request.id).filter(|issue| start.is_none_or(|start| start <= issue.at));
        let issued = noted(request.issued).or(issue.map(|issue| issue.at));
        let completion = Completion {
            request: *request,
            at,
            start: start.or(issued),
            issued,
            submitter: issue.and_then(|issue| issue.submitter),
            held: match issue {
                Some(issue) => issue.held,
                None => start.and_then(|start| self.held_requests.flush(request, start)),
            },
            alone: true,
        };
        if let Some(cpu_state) = self.cpu_state(event.cpu) {
            cpu_state.instance.complete(completion);
        }
    }
}

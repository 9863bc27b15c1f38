//! The receive windows of TCP connections, for waits in a sending call.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Call, FileName, FlowId, Packet, Tid};

/// The sockets on which threads have blocked, and each flow's last closed window.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// A descriptor's outgoing flow.
    sockets: HashMap<(Tid, u32), FlowId, FixedState>,
    /// By the flow of the packets that closed the window.
    closed: HashMap<FlowId, Closed, FixedState>,
}

#[derive(Debug, Clone, Copy)]
struct Closed {
    from: Stamp<Reference>,
    to: Option<Stamp<Reference>>,
}

impl Windows {
    /// Notes a descriptor's meaning.
    pub(crate) fn observe(&mut self, file: &FileName) {
        match file.flow {
            Some(flow) => self.sockets.insert((file.tgid, file.fd), flow),
            None => self.sockets.remove(&(file.tgid, file.fd)),
        };
    }

    /// Notes a TCP packet, sent or received.
    pub(crate) fn pass(&mut self, at: Stamp<Reference>, header: &Packet) {
        const RST: u16 = 4;
        const ACK: u16 = 16;
        let closes = header.tcp_flags & Packet::WINDOW_CLOSED != 0;
        if !closes && (self.closed.is_empty() || header.tcp_flags & (ACK | RST) != ACK) {
            return;
        }
        match (closes, self.closed.get_mut(&header.flow)) {
            // Each answer to a probe repeats it.
            (true, Some(Closed { to: None, .. })) | (false, None) => {}
            (true, _) => {
                self.closed.insert(header.flow, Closed { from: at, to: None });
            }
            (false, Some(closed)) => closed.to = closed.to.or(Some(at)),
        }
    }

    /// Whether a flow's last packet closed its sender's window.
    pub(crate) fn is_closed(&self, flow: FlowId) -> bool {
        self.closed.get(&flow).is_some_and(|closed| closed.to.is_none())
    }

    /// Whether a call in this process sent, from `from` to `to`, to an end whose window was closed for most of that time. `reversed` has each flow's
    /// other direction.
    pub(crate) fn closed_for(
        &self,
        tgid: Tid,
        call: &Call,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        reversed: &HashMap<FlowId, FlowId>,
    ) -> bool {
        if self.closed.is_empty() || !Call::SENDS.contains(&call.number) {
            return false;
        }
        let socket = self.sockets.get(&(tgid, call.argument() as u32));
        let back = socket.and_then(|socket| reversed.get(socket));
        back.and_then(|back| self.closed.get(back)).is_some_and(|closed| {
            let (since, until) = (closed.from.max(from), closed.to.map_or(to, |opened| opened.min(to)));
            until.since(since) > to.since(from) / 2
        })
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::Direction;

    use super::*;

    const OUT: FlowId = FlowId(1);
    const BACK: FlowId = FlowId(2);

    fn at(ns: u64) -> Stamp<Reference> {
        Stamp::from_ns(ns)
    }

    fn packet(flow: FlowId, tcp_flags: u16) -> Packet {
        Packet { flow, direction: Direction::In, seq: 0, ack: 0, len: 0, tcp_flags, netns: 0, interface: 0 }
    }

    fn windows(packets: &[(u64, FlowId, u16)]) -> Windows {
        let mut windows = Windows::default();
        let (tgid, name) = (Tid(7), Box::from(&b""[..]));
        windows.observe(&FileName { tgid, fd: 3, mode: 0o140_777, inode: 1, flow: Some(OUT), name });
        packets.iter().for_each(|&(ns, flow, flags)| windows.pass(at(ns), &packet(flow, flags)));
        windows
    }

    fn is_closed(windows: &Windows, tgid: u32, number: u32, fd: u64, from: u64, to: u64) -> bool {
        let reversed = HashMap::from([(OUT, BACK), (BACK, OUT)]);
        let call = Call { number, arg0: fd, lock: None };
        windows.closed_for(Tid(tgid), &call, at(from), at(to), &reversed)
    }

    const CLOSED: u16 = Packet::WINDOW_CLOSED | 16;

    #[test]
    fn a_send_waits_for_a_window_that_was_closed_for_most_of_the_wait() {
        let open = windows(&[(10, BACK, 16), (20, BACK, CLOSED), (25, OUT, 16)]);
        assert!(is_closed(&open, 7, 44, 3, 15, 100), "still closed");
        assert!(!is_closed(&open, 7, 44, 3, 0, 40), "for half of the wait alone");
        assert!(is_closed(&open, 7, 44, 3, 0, 41));
        assert!(!is_closed(&open, 8, 44, 3, 15, 100), "another process");
        assert!(!is_closed(&open, 7, 44, 4, 15, 100), "another descriptor");
        assert!(!is_closed(&open, 7, 45, 3, 15, 100), "no call that sends");
        let opened = windows(&[(20, BACK, CLOSED), (30, BACK, CLOSED), (80, BACK, 16), (90, BACK, 16)]);
        assert!(is_closed(&opened, 7, 44, 3, 10, 80), "opened at the end of the wait");
        assert!(!is_closed(&opened, 7, 44, 3, 79, 100));
        assert!(!is_closed(&opened, 7, 44, 3, 85, 100), "after it had opened");
    }

    #[test]
    fn only_acknowledgements_of_that_flow_open_or_close_a_window() {
        let reset = windows(&[(20, BACK, CLOSED), (30, BACK, 16 | 4), (31, BACK, 0), (32, OUT, 16)]);
        assert!(is_closed(&reset, 7, 1, 3, 20, 100));
        let other = windows(&[(20, OUT, CLOSED)]);
        assert!(!is_closed(&other, 7, 1, 3, 20, 100), "its own window");
        let again = windows(&[(20, BACK, CLOSED), (30, BACK, 16), (40, BACK, CLOSED)]);
        assert!(is_closed(&again, 7, 1, 3, 40, 100), "closed a second time");
        let mut moved = windows(&[(20, BACK, CLOSED)]);
        let (tgid, name) = (Tid(7), Box::from(&b"log"[..]));
        moved.observe(&FileName { tgid, fd: 3, mode: 0o100_644, inode: 2, flow: None, name });
        assert!(!is_closed(&moved, 7, 1, 3, 20, 100), "the descriptor is another file by now");
    }
}

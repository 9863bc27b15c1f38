//! The processes with a connection's receiving end on this host, as the recorder saw them at times.

use wakepath_clock::{Local, Stamp};
use wakepath_event::{FlowId, HostIndex, NameSpace, Tid};

use crate::Names;

/// The kind of a receiving socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReceiverKind {
    /// The connection's own socket.
    Connected,
    /// The listening socket: the connection is not accepted.
    Listening,
    /// A socket of a protocol without connections.
    Bound,
}

/// A listening socket's queue for connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AcceptQueue {
    /// The unaccepted connections.
    pub waiting: u32,
    /// More than this number make the kernel drop the next.
    pub room: u32,
    /// The packets dropped since the socket was made.
    pub dropped: u32,
}

impl AcceptQueue {
    /// Whether the kernel drops the next connection request.
    pub const fn is_full(self) -> bool {
        self.waiting > self.room
    }
}

/// A flow's receiving socket at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// The time of the reading.
    pub at: Stamp<Local>,
    /// The socket's kind.
    pub kind: ReceiverKind,
    /// A single listening socket's queue.
    pub queue: Option<AcceptQueue>,
    /// The processes with it open.
    pub processes: Vec<Tid>,
}

/// The most processes of a socket; further processes are left out.
const MAX_PROCESSES: usize = 64;

impl Receiver {
    fn parse(at: Stamp<Local>, text: &[u8], host: HostIndex) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split(' ').peekable();
        let kind = match words.next()? {
            "connected" => ReceiverKind::Connected,
            "listening" => ReceiverKind::Listening,
            "bound" => ReceiverKind::Bound,
            _ => return None,
        };
        let mut figure = |name: &str| {
            let word = words.next_if(|word| word.starts_with(name))?;
            word.strip_prefix(name)?.strip_prefix('=')?.parse().ok()
        };
        let [waiting, room, dropped] = ["waiting", "room", "dropped"].map(&mut figure);
        let queue = waiting.zip(room).zip(dropped);
        let queue = queue.map(|((waiting, room), dropped)| AcceptQueue { waiting, room, dropped });
        let processes = words.take(MAX_PROCESSES).map(|word| Some(Tid(word.parse().ok()?).on(host)));
        Some(Self { at, kind, queue, processes: processes.collect::<Option<_>>()? })
    }
}

impl Names {
    /// The readings of a flow's receiving socket from `from` to `to`, the one in force at `from`, and the first later; in time
    /// order.
    pub fn receivers(&self, flow: FlowId, from: Stamp<Local>, to: Stamp<Local>) -> Vec<Receiver> {
        let Some(host) = self.inside(flow) else { return Vec::new() };
        let all = self.readings(NameSpace::Receiver, flow.0);
        let first = all.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let behind = (all.partition_point(|(at, _)| *at <= to) + 1).min(all.len());
        let within = all.get(first..behind).unwrap_or_default().iter();
        within.filter_map(|(at, text)| Receiver::parse(*at, text.bytes(), host)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, flow};
    use wakepath_event::EventKind;

    #[test]
    fn a_reading_has_a_kind_perhaps_a_queue_and_processes() {
        let at = Stamp::from_ns(5);
        let parse = |text: &str| {
            Receiver::parse(at, text.as_bytes(), HostIndex(0)).map(|found| {
                let queue = found.queue.map(|queue| (queue.waiting, queue.room, queue.dropped));
                (found.kind, queue, found.processes.into_iter().map(|process| process.0).collect::<Vec<_>>())
            })
        };
        let full = parse("listening waiting=2 room=1 dropped=3 7 8");
        assert_eq!(full, Some((ReceiverKind::Listening, Some((2, 1, 3)), vec![7, 8])));
        assert_eq!(
            parse("listening waiting:2 room=1 dropped=3 7"),
            Some((ReceiverKind::Listening, None, vec![7]))
        );
        assert_eq!(parse("listening 7"), Some((ReceiverKind::Listening, None, vec![7])));
        assert_eq!(parse("connected 7"), Some((ReceiverKind::Connected, None, vec![7])));
        assert_eq!(parse("bound"), Some((ReceiverKind::Bound, None, vec![])));
        for text in [
            "",
            "closed 7",
            "connected x",
            "listening waiting=2 7x",
            "listening waiting=x room=1 dropped=1 7 y",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(Receiver::parse(at, b"\xff", HostIndex(0)), None);
        let other = Receiver::parse(at, b"bound 7", HostIndex(1)).expect("a socket");
        assert_eq!(other.processes, [Tid(7).on(HostIndex(1))]);
        let many = format!("bound{}", " 4".repeat(1_000));
        assert_eq!(parse(&many).map(|(.., processes)| processes.len()), Some(MAX_PROCESSES));
    }

    #[test]
    fn a_queue_is_full_where_more_wait_than_it_has_room_for() {
        let full = |waiting, room| AcceptQueue { waiting, room, dropped: 0 }.is_full();
        assert_eq!([full(1, 1), full(2, 1), full(1, 0), full(0, 0)], [false, true, true, false]);
    }

    #[test]
    fn a_times_readings_are_those_within_it_the_one_before_and_the_next() {
        let mut names = Names::default();
        names.observe(&event(0, 0, 7, flow(1, "127.0.0.1:40000", "127.0.0.1:80")));
        names.observe(&event(0, 0, 7, flow(2, "10.0.0.1:40000", "10.0.0.2:80")));
        for (at, process) in [(10, 1), (20, 2), (30, 3), (40, 4)] {
            for flow in [1, 2] {
                let text = format!("bound {process}").into_bytes().into();
                names.observe(&event(at, 0, 7, EventKind::Name(NameSpace::Receiver, flow, text)));
            }
        }
        let between = |from, to| {
            let found = names.receivers(FlowId(1), Stamp::from_ns(from), Stamp::from_ns(to));
            found.iter().map(|found| found.processes[0].0).collect::<Vec<_>>()
        };
        assert_eq!(between(20, 30), [2, 3, 4]);
        assert_eq!([between(15, 29), between(19, 20)], [[1, 2, 3]; 2]);
        assert_eq!([between(2, 10), between(31, 39)], [[1, 2], [3, 4]]);
        assert_eq!([between(2, 9), between(50, 60)], [[1], [4]]);
        let outside = names.receivers(FlowId(2), Stamp::from_ns(0), Stamp::from_ns(99));
        assert_eq!(outside, [], "a flow that leaves the host has no process here");
    }
}

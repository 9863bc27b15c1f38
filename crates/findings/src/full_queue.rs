//! Waits in `connect` for room in a unix socket's accept queue.

use std::collections::BTreeMap;

use wakepath_loaded::Object;
use wakepath_wait_graph::ThreadIndex;

use crate::Evidence;

/// The thread to make room in a unix socket's full accept queue, if the window's thread waited for room for more than half the
/// window. Inferred: a unix socket's `connect` seldom waits for anything else. TCP's ends by a packet, and by no
/// thread; vsock's by a kernel thread.
pub(crate) fn full_queue(evidence: &Evidence<'_>) -> Option<ThreadIndex> {
    const CONNECT: u32 = 42;
    let own = evidence.subject().tgid;
    let mut waited: BTreeMap<ThreadIndex, u64> = BTreeMap::new();
    for (_, wait) in evidence.waits() {
        let is_connect = wait.depth == 0 && wait.call.is_some_and(|call| call.number == CONNECT);
        let Some(by) = wait.ended_by.filter(|_| is_connect) else { continue };
        let key = evidence.recorded.wait_call_key(wait);
        let object = key.and_then(|key| evidence.recorded.names().spell(key).object);
        let by_thread = evidence.thread(by);
        if object == Some(Object::Socket(None)) && by_thread.tgid != own && !by_thread.kernel {
            *waited.entry(by).or_default() += wait.to.since(wait.from);
        }
    }
    let (by, ns) = waited.into_iter().max_by_key(|(_, ns)| *ns)?;
    (ns > evidence.window_ns() / 2).then_some(by)
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_critical_path::{Window, active};
    use wakepath_event::Tid;
    use wakepath_loaded::testing::{event, file, read};
    use wakepath_loaded::{Sampled, Stacks};

    use super::*;

    /// A client connects from 10 to 600; the server accepts another connection and wakes it.
    const TRACE: &str = "
        thread client tid=10
        thread helper tid=11 tgid=10
        thread server tid=20
        0 c0 idle started
        0 c0 idle switch client
        0 c1 idle switch server
        0 c2 idle switch helper
        10 c0 client switch idle blocked=interruptible call=42:3
        600 c1 server waking client
        600 c0 idle switch client
        1000 c0 idle stopped
    ";

    /// The thread making room, in a window up to `to`. The descriptor has this mode, and this flow.
    fn found(change: (&str, &str), file: (u32, Option<u64>), to: u64) -> Option<u32> {
        found_in(&[change], file, to)
    }

    fn found_in(changes: &[(&str, &str)], (mode, flow): (u32, Option<u64>), to: u64) -> Option<u32> {
        let mut trace = TRACE.to_owned();
        for (from, to) in changes {
            assert!(trace.contains(from), "{from}");
            trace = trace.replacen(from, to, 1);
        }
        let mut events = wakepath_scenario::text::parse(&trace).expect("a trace").events;
        let place = events.iter().position(|event| event.at.ns() >= 10).expect("a place");
        events.insert(place, event(9, 0, 10, file(10, 3, mode, flow, "")));
        let recorded = read(&events);
        let thread = recorded.with_tid(Tid(10))[0];
        let window = Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(to) };
        let path = active(recorded.graph(), window);
        let (stacks, sampled) = (Stacks::default(), Sampled::default());
        let evidence = Evidence { recorded: &recorded, path: &path, stacks: &stacks, sampled: &sampled };
        let by = full_queue(&evidence);
        by.map(|by| recorded.graph().thread(by).tid().0)
    }

    #[test]
    fn only_a_connect_ended_by_another_process_is_for_a_full_accept_queue() {
        const UNIX: (u32, Option<u64>) = (0o140_600, None);
        let none = ("", "");
        assert_eq!(found(none, UNIX, 1000), Some(20));
        // It waited for 590 ns.
        assert_eq!([1180, 1179].map(|to| found(none, UNIX, to)), [None, Some(20)]);
        assert_eq!(found(none, (0o010_600, None), 1000), None, "a pipe");
        assert_eq!(found(("call=42:3", "call=43:3"), UNIX, 1000), None, "accept");
        assert_eq!(found(("c1 server waking", "c2 helper waking"), UNIX, 1000), None, "its own process");
        assert_eq!(found(("c1 server waking", "c1 server/net_rx waking"), UNIX, 1000), None, "a packet");
        assert_eq!(
            found(("thread server tid=20", "thread server tid=20 kernel"), UNIX, 1000),
            None,
            "vsock's worker"
        );
        // It waited for a thread of its own, which connected.
        let through = [
            (
                "10 c0 client switch idle blocked=interruptible call=42:3",
                "5 c2 helper switch idle blocked=interruptible \
              call=42:3\n8 c0 client switch idle blocked=interruptible call=202:0x1000",
            ),
            (
                "600 c1 server waking client",
                "598 c1 server waking helper\n599 c2 idle switch helper\n600 c2 helper waking client",
            ),
        ];
        assert_eq!(found_in(&through, UNIX, 1000), None);
    }
}

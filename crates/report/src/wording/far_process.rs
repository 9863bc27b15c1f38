//! The words for the process at a connection's other end, and for name servers.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Call, Tid};
use wakepath_findings::{Doing, Evidence, FarProcess, PartKey, Row, RowKey};
use wakepath_loaded::{CallName, Endpoint, Object, ReceiverKind, Recorded, call_name};
use wakepath_wait_graph::TimerPurpose;

use super::{call, list, who};
use crate::units::{count, duration};

/// The most named processes.
const MAX_NAMED: usize = 2;

/// A connection's end: `tcp 10.0.0.3:5432`, `DNS server 10.0.0.2:53`.
pub fn endpoint(end: &Endpoint) -> String {
    match end.protocol {
        17 if end.is_name_server() => format!("DNS server {}", end.address),
        6 if end.is_name_server() => format!("DNS server {} (tcp)", end.address),
        _ => end.to_string(),
    }
}

/// Whether an object is a socket to a name server.
pub(super) fn is_name_server(object: &Object) -> bool {
    matches!(object, Object::Socket(Some(end)) if end.is_name_server())
}

/// A process, by its main thread at `at`: `python3 s.py (812)`.
pub fn process(recorded: &Recorded, process: Tid, at: Stamp<Reference>) -> String {
    match recorded.leader(process, at) {
        Some(leader) => who(recorded, &recorded.thread_at(leader, at)),
        None => format!("process {process}"),
    }
}

/// The processes at the other end, the window's own process last; `None` for that alone.
fn processes(evidence: &Evidence<'_>, far: &FarProcess) -> Option<String> {
    let own = evidence.subject().tgid;
    let at = evidence.path.window.to;
    let others = far.processes.iter().filter(|one| Some(**one) != own);
    let mut names: Vec<String> = others.map(|one| process(evidence.recorded, *one, at)).collect();
    if names.is_empty() {
        return None;
    }
    if names.len() < far.processes.len() {
        names.push(String::from("its own process"));
    }
    Some(list(&names, MAX_NAMED))
}

/// The clause about the silent process, behind a row's words; empty if not known:
/// `; the accept queue of python3 s.py (812) was full, it slept`.
pub fn clause(evidence: &Evidence<'_>, key: &RowKey, row: &Row) -> String {
    // Data held back has its sender's name already.
    let has_name = matches!(key, RowKey::SentByTimer(_, TimerPurpose::Nagle));
    let Some(far) = row.far.as_ref().filter(|_| !has_name) else { return String::new() };
    let is_syn = matches!(key, RowKey::SentByTimer(_, TimerPurpose::Syn { .. }));
    let several = far.processes.len() > 1;
    let has = if several { "have" } else { "has" };
    let names = processes(evidence, far);
    let who = names.clone().unwrap_or_else(|| String::from("its own process"));
    let text = match (far.full, far.socket) {
        (Some(_), _) => match &names {
            Some(names) => format!("the accept queue of {names} was full"),
            None => String::from("its own accept queue was full"),
        },
        (None, Some(ReceiverKind::Listening)) if is_syn || !far.is_unaccepted => {
            format!("{who} {} there", if several { "listen" } else { "listens" })
        }
        (None, Some(ReceiverKind::Listening)) => format!("{who} {has} not accepted the connection"),
        (None, Some(ReceiverKind::Bound)) => format!("{who} {has} the socket there"),
        (None, Some(ReceiverKind::Connected) | None) => format!("{who} {has} the other end"),
    };
    let did = far.did.as_ref().map(|did| format!(", it {}", doing(did)));
    format!("; {text}{}", did.unwrap_or_default())
}

/// The clause about another process's sleep, or its question to a name server, for most of its time: `, which slept`; else empty.
pub(super) fn did_mostly(key: &RowKey, row: &Row) -> String {
    let is_most = |(_, ns): &(&PartKey, &u64)| **ns > row.total_ns / 2;
    match (key, row.parts.iter().find(is_most)) {
        (RowKey::Process(..), Some((PartKey::Call(name), _))) if Call::SLEEPS.contains(&name.number) => {
            String::from(", which slept")
        }
        (RowKey::Process(..), Some((PartKey::Call(name), _)))
            if name.object.as_ref().is_some_and(is_name_server) =>
        {
            format!(", which waited in {}", call(name))
        }
        _ => String::new(),
    }
}

/// A silent process's activity: `slept`, `waited in flock of stock.lock`.
pub fn doing(doing: &Doing) -> String {
    match doing {
        Doing::Ran => String::from("ran"),
        Doing::WaitedForCpu => String::from("waited for a CPU"),
        Doing::Throttled => String::from("was not allowed to run (CPU limit)"),
        Doing::Slept(_) => String::from("slept"),
        // Its own socket, which has no other end.
        Doing::Waited(CallName { number, object: Some(Object::Socket(None)) }) => {
            format!("waited in {}", call_name(*number))
        }
        Doing::Waited(name) => format!("waited in {}", call(name)),
        Doing::Stopped => String::from("was stopped by a signal"),
    }
}

/// Data held back by Nagle's algorithm: `data that python3 s.py (812) had written: …`.
pub(super) fn held_back(evidence: &Evidence<'_>, end: Option<&Endpoint>, row: Option<&Row>) -> String {
    let far = row.and_then(|row| row.far.as_ref());
    let who = match far.map(|far| processes(evidence, far)) {
        Some(Some(who)) => who,
        Some(None) => String::from("its own process"),
        None => end.map_or(String::from("the other end"), endpoint),
    };
    let place = match end.filter(|_| far.is_some()) {
        Some(end) => format!("on {end}"),
        None => String::from("there"),
    };
    format!(
        "data that {who} had written: held back until a delayed acknowledgement (Nagle); set TCP_NODELAY {place}"
    )
}

/// The line about the search and the queue; `None` without a search.
pub fn line(evidence: &Evidence<'_>, far: &FarProcess) -> Option<String> {
    let since = |at: Stamp<Reference>| duration(at.since(evidence.recorded.from()));
    if let Some((queue, at)) = far.full {
        let connections = count(queue.waiting.into(), "connection");
        let room = queue.room;
        return Some(format!(
            "its queue {} after the start: {connections} not accepted, and room for {room} before the kernel drops more",
            since(at)
        ));
    }
    far.seen.map(|at| format!("its process as seen {} after the start", since(at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use expect_test::expect;
    use wakepath_critical_path::{Cause, SegmentKind};
    use wakepath_event::{Comm, NameSpace};
    use wakepath_findings::Expected;
    use wakepath_findings::testing::Story;
    use wakepath_loaded::AcceptQueue;

    #[test]
    fn a_name_server_is_named_by_its_port_and_protocol() {
        let words = |protocol, address: &str| {
            endpoint(&Endpoint { protocol, address: address.parse().expect("an address") })
        };
        assert_eq!(words(17, "10.0.0.2:53"), "DNS server 10.0.0.2:53");
        assert_eq!(words(6, "[::1]:53"), "DNS server [::1]:53 (tcp)");
        assert_eq!(
            [words(17, "10.0.0.2:54"), words(132, "10.0.0.2:53")],
            ["udp 10.0.0.2:54", "IP protocol 132 10.0.0.2:53"]
        );
    }

    #[test]
    fn the_clause_says_which_process_did_not_answer_and_what_it_did() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        story.thread(20, 1, b"python3", 7);
        story.thread(21, 1, b"worker", 7);
        story.name(NameSpace::Script, 20, "s.py");
        story.then(100, own, None, SegmentKind::Running, Cause::None);
        let story = story.finish();
        let evidence = story.evidence();
        let end = Endpoint { protocol: 6, address: "10.0.0.2:80".parse().expect("an address") };
        let at = story.path.window.from;
        let queue = AcceptQueue { waiting: 2, room: 1, dropped: 0 };
        let far = |processes: &[u32], socket, full: bool, did| FarProcess {
            processes: processes.iter().map(|process| Tid(*process)).collect(),
            socket,
            seen: socket.map(|_| at),
            is_unaccepted: true,
            full: full.then_some((queue, at)),
            did,
        };
        let said =
            |key: &RowKey, far: FarProcess| clause(&evidence, key, &Row { far: Some(far), ..Row::default() });
        let syn = RowKey::SentByTimer(Some(end), TimerPurpose::Syn { repeats: 1 });
        let timed_out = RowKey::TimedOut(Expected::Input);
        let (listening, connected) = (Some(ReceiverKind::Listening), Some(ReceiverKind::Connected));
        let call = |number, object| CallName { number, object };
        let slept = || Some(Doing::Slept(call(230, None)));
        let waited = |object| Some(Doing::Waited(call(45, object)));
        for (key, far, expected) in [
            (
                &syn,
                far(&[20], listening, true, slept()),
                "; the accept queue of python3 s.py (20) was full, it slept",
            ),
            (
                &syn,
                far(&[20], listening, false, Some(Doing::Ran)),
                "; python3 s.py (20) listens there, it ran",
            ),
            (
                &syn,
                far(&[20, 21], listening, false, None),
                "; python3 s.py (20) and worker (21) listen there",
            ),
            (&syn, far(&[7], listening, true, None), "; its own accept queue was full"),
            (
                &timed_out,
                far(&[7, 20], Some(ReceiverKind::Bound), false, None),
                "; python3 s.py (20) and its own process have the socket there",
            ),
            (&syn, far(&[99], listening, true, None), "; the accept queue of process 99 was full"),
            (
                &timed_out,
                far(&[20], listening, false, Some(Doing::Stopped)),
                "; python3 s.py (20) has not accepted the connection, it was stopped by a signal",
            ),
            (
                &timed_out,
                far(&[21], connected, false, Some(Doing::WaitedForCpu)),
                "; worker (21) has the other end, it waited for a CPU",
            ),
            (
                &timed_out,
                far(&[21], None, false, Some(Doing::Throttled)),
                "; worker (21) has the other end, it was not allowed to run (CPU limit)",
            ),
            (
                &timed_out,
                far(&[21], Some(ReceiverKind::Bound), false, waited(Some(Object::Socket(None)))),
                "; worker (21) has the socket there, it waited in recvfrom",
            ),
            (
                &timed_out,
                far(&[7], connected, false, waited(Some(Object::File("l".into())))),
                "; its own process has the other end, it waited in recvfrom of l",
            ),
            (&RowKey::SentByTimer(Some(end), TimerPurpose::Nagle), far(&[20], connected, false, None), ""),
        ] {
            assert_eq!(said(key, far), expected);
        }
        assert_eq!(clause(&evidence, &syn, &Row::default()), "");
        let accepted = FarProcess { is_unaccepted: false, ..far(&[20], listening, false, None) };
        assert_eq!(said(&timed_out, accepted), "; python3 s.py (20) listens there");
        let lines = [
            far(&[20], listening, true, None),
            far(&[20], connected, false, None),
            far(&[20], None, false, None),
        ];
        expect![[r#"
            Some("its queue 0 ns after the start: 2 connections not accepted, and room for 1 before the kernel drops more")
            Some("its process as seen 0 ns after the start")
            None
        "#]]
        .assert_eq(&lines.map(|far| format!("{:?}\n", line(&evidence, &far))).concat());
        let held =
            |far: Option<FarProcess>| held_back(&evidence, Some(&end), Some(&Row { far, ..Row::default() }));
        assert!(
            held(Some(far(&[20], connected, false, None)))
                .starts_with("data that python3 s.py (20) had written: held back")
        );
        assert!(
            held(Some(far(&[20], connected, false, None))).ends_with("set TCP_NODELAY on tcp 10.0.0.2:80")
        );
        assert!(
            held(Some(far(&[7], connected, false, None)))
                .starts_with("data that its own process had written")
        );
        assert!(
            held(None).starts_with("data that tcp 10.0.0.2:80 had written")
                && held(None).ends_with("set TCP_NODELAY there")
        );
    }

    #[test]
    fn a_process_says_when_it_mostly_slept_or_asked_a_name_server() {
        let dns = Endpoint { protocol: 17, address: "10.0.0.2:53".parse().expect("an address") };
        let process = RowKey::Process(Comm::new(b"sshd"), None);
        let did = |key: &RowKey, number, object, ns| {
            let parts = BTreeMap::from([(PartKey::Call(CallName { number, object }), ns)]);
            did_mostly(key, &Row { total_ns: 100, parts, ..Row::default() })
        };
        assert_eq!(did(&process, 230, None, 51), ", which slept");
        assert_eq!(did(&process, 230, None, 50), "");
        let object = Some(Object::Socket(Some(dns)));
        assert_eq!(did(&process, 7, object.clone(), 90), ", which waited in poll on DNS server 10.0.0.2:53");
        assert_eq!(did(&process, 7, Some(Object::Pipe), 90), "");
        assert_eq!(did(&RowKey::Timer, 230, None, 90), "");
    }
}

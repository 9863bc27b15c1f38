//! The process at a connection's other end, in a row of the document.

use serde::Serialize;
use wakepath_engine::Head;
use wakepath_findings::FarProcess;
use wakepath_loaded::ReceiverKind;

use crate::json::head::since_origin;
use crate::wording;

#[derive(Serialize)]
pub(super) struct FarJson {
    processes: Vec<u32>,
    /// Their socket's kind; null if no search found it.
    socket: Option<&'static str>,
    /// When the search found them.
    seen_ns: Option<i64>,
    /// The listening socket's full queue.
    queue: Option<QueueJson>,
    /// The process's activity for most of the wait.
    did: Option<String>,
}

#[derive(Serialize)]
struct QueueJson {
    waiting: u32,
    room: u32,
    dropped: u32,
    seen_ns: i64,
}

impl FarJson {
    pub fn new(head: &Head, far: &FarProcess) -> Self {
        Self {
            processes: far.processes.iter().map(|process| process.number()).collect(),
            socket: far.socket.map(|kind| match kind {
                ReceiverKind::Connected => "connected",
                ReceiverKind::Listening => "listening",
                ReceiverKind::Bound => "bound",
            }),
            seen_ns: far.seen.map(|at| since_origin(head, at)),
            queue: far.full.map(|(queue, at)| QueueJson {
                waiting: queue.waiting,
                room: queue.room,
                dropped: queue.dropped,
                seen_ns: since_origin(head, at),
            }),
            did: far.did.as_ref().map(wording::far_doing),
        }
    }
}

//! Waits still open at the recording's end, in documents.

use serde::Serialize;
use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Hang, SignalSender};
use wakepath_engine::{Head, Recorded};
use wakepath_event::BlockedState;
use wakepath_findings::{ChildWait, LeftAlone};
use wakepath_loaded::call_name;
use wakepath_wait_graph::ThreadIndex;

use super::head::since_origin;
use super::text;
use crate::wording;

/// A thread.
#[derive(Serialize)]
pub struct WhoseJson {
    host: String,
    pid: Option<u32>,
    tid: u32,
    comm: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<String>,
    cgroup: Option<String>,
    unit: Option<String>,
}

/// An open wait.
#[derive(Serialize)]
pub struct HangJson {
    #[serde(flatten)]
    whose: WhoseJson,
    since_ns: i64,
    began_before: bool,
    /// A signal stopped it; then `call` is where the signal met it.
    stopped: bool,
    call: Option<String>,
    lock: Option<LockJson>,
    signal: Option<SignalJson>,
}

/// A child's wait, while its parent waited for its end.
#[derive(Serialize)]
pub struct ChildWaitJson {
    #[serde(flatten)]
    wait: HangJson,
    /// Nobody could wake it: `forked` or `not_forked`.
    left_alone: Option<&'static str>,
}

/// The signal that killed a waiting thread.
#[derive(Serialize)]
struct SignalJson {
    number: u32,
    name: String,
    at_ns: i64,
    sender: Option<WhoseJson>,
}

#[derive(Serialize)]
struct LockJson {
    address: String,
    kernel: bool,
    owner: Option<WhoseJson>,
    /// The kernel names the owner; otherwise the lock's memory does.
    proved: bool,
}

/// A thread's identity at `at`.
pub fn whose(recorded: &Recorded, thread: ThreadIndex, at: Stamp<Reference>) -> WhoseJson {
    let who = recorded.thread_at(thread, at);
    let names = &recorded.survey.names;
    WhoseJson {
        host: text(recorded.host_of(who.tid).boot_id.as_bytes()),
        pid: who.tgid.map(|tgid| tgid.number()),
        tid: who.tid.number(),
        comm: text(who.comm.bytes()),
        script: who.script.map(|script| text(script.bytes())),
        cgroup: names.cgroup_of(&who).map(|path| text(path.bytes())),
        unit: names.unit(&who).as_ref().map(wording::unit),
    }
}

/// Why nobody could wake a thread.
pub const fn left_alone(how: LeftAlone) -> &'static str {
    match how {
        LeftAlone::Forked => "forked",
        LeftAlone::NotForked => "not_forked",
    }
}

/// A child's wait.
pub fn child_wait(wait: HangJson, of: &ChildWait) -> ChildWaitJson {
    ChildWaitJson { wait, left_alone: of.left_alone.map(left_alone) }
}

/// An open wait as of `at`.
pub fn hang_document(recorded: &Recorded, head: &Head, hang: &Hang, at: Stamp<Reference>) -> HangJson {
    HangJson {
        whose: whose(recorded, hang.thread, at),
        since_ns: since_origin(head, hang.since),
        began_before: hang.began_before,
        stopped: hang.state == Some(BlockedState::Stopped),
        call: hang.call.map(|call| call_name(call.number).into_owned()),
        lock: hang.lock.map(|lock| LockJson {
            address: format!("{:#x}", lock.address),
            kernel: lock.kernel,
            owner: lock.owner.map(|owner| whose(recorded, owner, at)),
            proved: hang.proved,
        }),
        signal: hang.killed.map(|killed| SignalJson {
            number: killed.by.number,
            name: wording::signal_name(killed.by.number).into_owned(),
            at_ns: since_origin(head, killed.at),
            sender: match killed.by.sender {
                SignalSender::Thread(by) => Some(whose(recorded, by, at)),
                SignalSender::Timer | SignalSender::Unknown => None,
            },
        }),
    }
}

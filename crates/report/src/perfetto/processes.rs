//! Each thread's process, and the names of both.

use std::collections::BTreeMap;
use std::io;

use wakepath_engine::Recorded;
use wakepath_event::Tid;
use wakepath_wait_graph::{Thread, ThreadIndex};

use super::Trace;
use super::packet_at;
use super::proto::Message;
use crate::wording;

/// A `ProcessTree` for each time at which threads appear.
pub fn write(recorded: &Recorded, trace: &mut Trace) -> io::Result<()> {
    let mut by_birth: BTreeMap<u64, Vec<(ThreadIndex, &Thread)>> = BTreeMap::new();
    for (index, thread) in recorded.graph.threads() {
        by_birth.entry(thread.first.ns()).or_default().push((index, thread));
    }
    for (at, threads) in by_birth {
        let mut tree = Message::new();
        for (index, thread) in threads {
            let tid = thread.tid();
            let ends = recorded.graph.successor(index).is_some();
            let at = if ends { thread.last } else { recorded.to() };
            let mut name = wording::title(&recorded.thread_at(index, at));
            if let Some(host) = recorded.remote_host(tid).filter(|host| !host.name.bytes().is_empty()) {
                name += &format!(" on {}", wording::name(&host.name));
            }
            if let Some(identity) = thread.identity.as_ref().filter(|identity| identity.tgid == tid) {
                let process = Message::new()
                    .number(1, u64::from(tid.0))
                    .number(2, u64::from(identity.parent.0))
                    .text(3, &name)
                    .number(9, 1) // A comm, no command line.
                    .number(8, identity.kernel.into());
                tree = tree.message(1, &process);
            }
            let tgid = thread.tgid().unwrap_or(Tid::IDLE);
            let mut member = Message::new().number(1, u64::from(tid.0)).text(2, &name);
            if tgid != Tid::IDLE {
                member = member.number(3, u64::from(tgid.0));
            }
            tree = tree.message(2, &member);
        }
        trace.packet(packet_at(at).message(2, &tree))?;
    }
    Ok(())
}

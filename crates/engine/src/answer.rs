//! Answers as data, with everything in them that a shell needs to show them.

use std::collections::BTreeMap;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Path, Problem, Segment, Wait};
use wakepath_event::{Comm, ThreadIdentity, Tid};
use wakepath_wait_graph::ThreadIndex;

use crate::{CallName, Contributor, Loss, Name, Survey};

/// The machine that was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Its boot id: what tells one host, and one boot of it, from another.
    pub boot_id: String,
    /// What it calls itself.
    pub name: Name,
    /// Its kernel's release.
    pub kernel: Name,
}

/// What every document begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The machine.
    pub host: Host,
    /// Where a document's time begins: all its stamps count from here.
    pub origin: Stamp<Reference>,
    /// Realtime at the origin, ns since 1970; `None` where the clocks were never read.
    pub origin_realtime_ns: Option<u64>,
    /// How far stamps may be off from those of other hosts, ns. 0 on one host.
    pub clock_error_ns: u64,
    /// What a reader should know, the worst first.
    pub problems: Vec<Problem>,
    /// Records lost where the answer looks.
    pub losses: Vec<Loss>,
    /// The recorder's own CPU time, where its threads were recorded.
    pub cost: Option<Cost>,
}

/// What recording cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// CPU time of the recorder's own threads, ns.
    pub observer_ns: u64,
    /// The time it was measured over, ns.
    pub over_ns: u64,
}

/// How the window was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The command that was recorded: its first process's main thread, exec to exit.
    Command {
        /// Its words.
        words: Vec<Name>,
        /// Its wait status, where its end was seen.
        status: Option<u32>,
    },
    /// A thread, over its whole life in the recording or a part of it.
    Thread,
}

/// Why a window took its time.
#[derive(Debug, Clone)]
pub struct PathAnswer<'r> {
    /// What every document begins with.
    pub head: Head,
    /// How the window was chosen.
    pub question: Question,
    /// The path that explains it.
    pub path: Path,
    /// What the window's time went to, the largest first; together they are the whole window.
    pub contributors: Vec<Contributor>,
    /// Who the threads on the path are, named as they were when the window closed.
    pub threads: BTreeMap<ThreadIndex, ThreadIdentity>,
    /// The rest of the recording.
    pub survey: &'r Survey,
}

impl PathAnswer<'_> {
    /// The window's length, ns.
    pub fn window_ns(&self) -> u64 {
        self.path.window.to.since(self.path.window.from)
    }

    /// Who a thread is; `None` for one that the recording does not introduce.
    pub fn thread(&self, index: ThreadIndex) -> Option<&ThreadIdentity> {
        self.threads.get(&index)
    }

    /// The window's own thread.
    pub fn subject(&self) -> Option<&ThreadIdentity> {
        self.thread(self.path.window.thread)
    }

    /// What a thread was called at `at`: a process has one name before an exec and another after.
    pub fn comm_at(&self, thread: &ThreadIdentity, at: Stamp<Reference>) -> Comm {
        self.survey.names.comm_at(thread.tid, local(at)).unwrap_or(thread.comm)
    }

    /// The system call that a segment's thread was blocked in.
    pub fn segment_call(&self, segment: &Segment) -> Option<CallName> {
        let call = segment.call.as_ref()?;
        Some(self.survey.names.call(call, self.tgid(segment.thread), local(segment.to)))
    }

    /// The system call of a wait.
    pub fn wait_call(&self, wait: &Wait) -> Option<CallName> {
        let call = wait.call.as_ref()?;
        Some(self.survey.names.call(call, self.tgid(Some(wait.thread)), local(wait.to)))
    }

    fn tgid(&self, thread: Option<ThreadIndex>) -> Tid {
        thread.and_then(|index| self.thread(index)).map_or(Tid::IDLE, |thread| thread.tgid)
    }

    /// The innermost wait that a segment explains.
    pub fn parent(&self, segment: &Segment) -> Option<&Wait> {
        self.path.waits.get(segment.parent?.0 as usize)
    }
}

/// One host: its own clock is the reference.
pub(crate) fn local(at: Stamp<Reference>) -> Stamp<Local> {
    Stamp::from_ns(at.ns())
}

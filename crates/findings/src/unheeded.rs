//! Signals asking a process to end, after which it lived on.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Path, Window};
use wakepath_event::{SentEffect, Tid};
use wakepath_loaded::Recorded;
use wakepath_wait_graph::ThreadIndex;

use crate::deaths::{family, process_at, thread_at_time};
use crate::{Death, Evidence};

/// A process ends within this time after an effective signal, ns.
const AT_ONCE_NS: u64 = 100_000_000;

/// A signal asking a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unheeded {
    /// The process's main thread.
    pub target: ThreadIndex,
    /// The sender, if known.
    pub sender: Option<ThreadIndex>,
    /// The signal number.
    pub signal: u32,
    /// Its time.
    pub at: Stamp<Reference>,
    /// The reason for which the process lived on.
    pub why: LivesOn,
    /// The end of the process.
    pub end: LivedUntil,
    /// The time from the signal to the process's end or the window's end, ns.
    pub lived_ns: u64,
}

/// The reason for which a process lived on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivesOn {
    /// It ignores the signal.
    Ignores,
    /// It is the first in its PID namespace, and has no handler.
    FirstInNamespace,
    /// Its handler ran.
    HandlerRan,
    /// No thread took the signal: all block it, or none got to it.
    NotTaken,
}

/// The end of a process after such a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivedUntil {
    /// A signal killed it.
    Killed(Death),
    /// It ended itself.
    Exited,
    /// It lived when the window ended.
    Lives,
}

/// The signals by or to a window's processes asking for an end, if the window then waited for it, in time order; equal signals
/// count once.
pub fn unheeded(recorded: &Recorded, path: &Path, deaths: &[Death]) -> Vec<Unheeded> {
    let (graph, window) = (recorded.graph(), path.window);
    let Some(own) = graph.thread(window.thread).tgid() else { return Vec::new() };
    let sendings = &recorded.signals().sent;
    if sendings.is_empty() {
        return Vec::new();
    }
    let own = family(recorded, own, window.to);
    let is_own = |thread: ThreadIndex| graph.thread(thread).tgid().is_some_and(|it| own.contains(&it));
    let mut found: Vec<Unheeded> = Vec::new();
    for sending in sendings {
        let at = sending.at.on_reference_host();
        if at < window.from || at >= window.to {
            continue;
        }
        let Some(target) = process_at(recorded, sending.signal.target, at) else { continue };
        let sender = sending.sender.and_then(|tid| thread_at_time(recorded, tid, at));
        let of_own = sender.is_some_and(is_own);
        let same = |known: &Unheeded| known.target == target && known.signal == sending.signal.number;
        if !(of_own || is_own(target)) || found.iter().any(same) {
            continue;
        }
        let Some(end) = end_of(recorded, window, deaths, target, at) else { continue };
        let (end, until) = end;
        let lived_ns = until.min(window.to).since(at);
        let number = sending.signal.number;
        let Some(why) = why(recorded, target, number, sending.signal.effect, at, until) else { continue };
        let one = Unheeded { target, sender, signal: number, at, why, end, lived_ns };
        if lived_ns >= AT_ONCE_NS && is_awaited(recorded, path, &one, &is_own) {
            found.push(one);
        }
    }
    found
}

/// The end of a process after a signal, and its time; `None` if it had died before.
fn end_of(
    recorded: &Recorded,
    window: Window,
    deaths: &[Death],
    target: ThreadIndex,
    at: Stamp<Reference>,
) -> Option<(LivedUntil, Stamp<Reference>)> {
    let graph = recorded.graph();
    let death = deaths.iter().find(|death| death.thread == target);
    if death.is_some_and(|death| death.taken < at) {
        return None;
    }
    if let Some(death) = death.filter(|death| death.taken <= window.to) {
        return Some((LivedUntil::Killed(*death), death.taken));
    }
    let exited = graph.thread(target).exited.filter(|exited| *exited <= window.to);
    match exited {
        Some(exited) if exited < at => None,
        Some(exited) => Some((LivedUntil::Exited, exited)),
        None => Some((LivedUntil::Lives, window.to)),
    }
}

/// The reason for which a process lived on; `None` for a kill.
fn why(
    recorded: &Recorded,
    target: ThreadIndex,
    number: u32,
    effect: SentEffect,
    from: Stamp<Reference>,
    until: Stamp<Reference>,
) -> Option<LivesOn> {
    let [from, until] = [from, until].map(|at| Stamp::<Local>::from_ns(at.ns()));
    let graph = recorded.graph();
    let process = graph.thread(target).tgid();
    let ran = || {
        let mut threads = graph.threads().filter(|(_, thread)| thread.tgid() == process);
        threads.any(|(_, thread)| recorded.signals().is_handled(thread.tid(), number, from, until))
    };
    Some(match effect {
        SentEffect::NoMemory => return None,
        SentEffect::Ignored => LivesOn::Ignores,
        SentEffect::Dropped => LivesOn::FirstInNamespace,
        SentEffect::Handled if ran() => LivesOn::HandlerRan,
        SentEffect::Handled | SentEffect::Default => LivesOn::NotTaken,
    })
}

/// Whether the window waited for the process's end: it killed the process, looked whether it still ran, or its path leads
/// through it. The window's own process needs no other reason.
fn is_awaited(
    recorded: &Recorded,
    path: &Path,
    one: &Unheeded,
    is_own: &impl Fn(ThreadIndex) -> bool,
) -> bool {
    let graph = recorded.graph();
    let process = graph.thread(one.target).tgid().unwrap_or(Tid::IDLE);
    let own = graph.thread(path.window.thread).tgid();
    let killed = match one.end {
        LivedUntil::Killed(death) => match death.by {
            crate::KilledBy::Thread(by) => is_own(by),
            _ => false,
        },
        LivedUntil::Exited | LivedUntil::Lives => false,
    };
    let polled = || recorded.failed_calls().asks_for_process(process.number());
    let on_path = || {
        path.segments().any(|segment| {
            let of = segment.thread.and_then(|thread| graph.thread(thread).tgid());
            of == Some(process) && segment.to > one.at
        })
    };
    own == Some(process) || killed || polled() || on_path()
}

impl Unheeded {
    /// Whether its waiting is a part of the window worth a line.
    pub fn is_large(&self, evidence: &Evidence<'_>) -> bool {
        self.lived_ns.saturating_mul(10) >= evidence.window_ns()
    }

    /// Whether it took half of the window.
    pub fn is_most(&self, evidence: &Evidence<'_>) -> bool {
        self.lived_ns.saturating_mul(2) >= evidence.window_ns()
    }
}

#[cfg(test)]
mod tests;

//! Killed processes, and signals without effect.

use serde::Serialize;
use wakepath_clock::{Reference, Stamp};
use wakepath_engine::{Head, Recorded};
use wakepath_findings::{
    AwaitedBy, AwaitedWait, Death, DeathPart, KilledBy, LivedUntil, LivesOn, Unheeded, WindowDeath,
};
use wakepath_wait_graph::ThreadIndex;

use super::Documents;
use crate::json::hang::{WhoseJson, whose};
use crate::json::head::since_origin;
use crate::wording;

/// A killed process with a part in the window's time.
#[derive(Serialize)]
pub struct DeathJson {
    #[serde(flatten)]
    killed: KilledJson,
    part: &'static str,
    /// Its time on the path, where a wait ended by its death.
    total_ns: Option<u64>,
    awaited: Option<AwaitedJson>,
    basis: &'static str,
}

/// A killed process.
#[derive(Serialize)]
struct KilledJson {
    #[serde(flatten)]
    whose: WhoseJson,
    number: u32,
    name: String,
    at_ns: i64,
    by: &'static str,
    sender: Option<WhoseJson>,
    limit_unit: Option<String>,
    limit_bytes: Option<u64>,
}

/// A wait, which the process was expected to end.
#[derive(Serialize)]
struct AwaitedJson {
    waiter: WhoseJson,
    since_ns: i64,
    until_ns: i64,
    evidence: &'static str,
    waits: Option<u64>,
    asked_ns: Option<i64>,
}

/// A signal asking a process to end.
#[derive(Serialize)]
pub struct UnheededJson {
    #[serde(flatten)]
    whose: WhoseJson,
    number: u32,
    name: String,
    at_ns: i64,
    sender: Option<WhoseJson>,
    why: &'static str,
    end: &'static str,
    lived_ns: u64,
    killed: Option<KilledJson>,
}

impl Documents<'_> {
    /// The window's deaths.
    pub fn deaths(&self) -> Vec<DeathJson> {
        let named = self.named();
        self.0.deaths.iter().map(|it| named.death(it)).collect()
    }

    /// The signals without effect.
    pub fn unheeded(&self) -> Vec<UnheededJson> {
        let named = self.named();
        self.0.unheeded.iter().map(|it| named.unheeded(it)).collect()
    }

    fn named(&self) -> NamedAt<'_> {
        NamedAt { recorded: self.0.recorded, head: &self.0.head, at: self.0.path.window.to }
    }
}

/// An answer, for the names and times in its documents.
pub struct NamedAt<'a> {
    /// The recording.
    pub recorded: &'a Recorded,
    /// The answer's head.
    pub head: &'a Head,
    /// The time for all names.
    pub at: Stamp<Reference>,
}

impl NamedAt<'_> {
    fn whole(&self, thread: ThreadIndex) -> WhoseJson {
        whose(self.recorded, thread, self.at)
    }

    fn since_origin(&self, at: Stamp<Reference>) -> i64 {
        since_origin(self.head, at)
    }

    fn killed_process(&self, death: &Death) -> KilledJson {
        let limit = match death.by {
            KilledBy::NoMemory(limit) => limit,
            _ => None,
        };
        let unit = limit.and_then(|limit| self.recorded.names().memory_unit(limit.cgroup));
        KilledJson {
            whose: self.whole(death.thread),
            number: death.signal,
            name: wording::signal_name(death.signal).into_owned(),
            at_ns: self.since_origin(death.at),
            by: match death.by {
                KilledBy::NoMemory(_) => "no_memory",
                KilledBy::Kernel => "kernel",
                KilledBy::Itself => "itself",
                KilledBy::Thread(_) => "thread",
                KilledBy::Unknown => "unknown",
            },
            sender: match death.by {
                KilledBy::Thread(by) => Some(self.whole(by)),
                _ => None,
            },
            limit_unit: unit.as_ref().map(wording::unit),
            limit_bytes: limit.map(|limit| limit.bytes),
        }
    }

    /// A death.
    pub fn death(&self, it: &WindowDeath) -> DeathJson {
        DeathJson {
            killed: self.killed_process(&it.death),
            part: match it.part {
                DeathPart::Awaited(_) => "awaited",
                DeathPart::EndedWait(_) => "ended_wait",
                DeathPart::Own => "own",
            },
            total_ns: match it.part {
                DeathPart::EndedWait(ns) => Some(ns),
                DeathPart::Awaited(_) | DeathPart::Own => None,
            },
            awaited: match &it.part {
                DeathPart::Awaited(wait) => Some(self.awaited(wait)),
                DeathPart::EndedWait(_) | DeathPart::Own => None,
            },
            basis: match it.part {
                DeathPart::Awaited(_) => "inferred",
                DeathPart::EndedWait(_) | DeathPart::Own => "measured",
            },
        }
    }

    fn awaited(&self, wait: &AwaitedWait) -> AwaitedJson {
        let (evidence, waits, asked) = match wait.by {
            AwaitedBy::Holds => ("holds_lock", None, None),
            AwaitedBy::Writes => ("writes_pipe", None, None),
            AwaitedBy::WokeBefore(waits) => ("ended_earlier_waits", Some(waits), None),
            AwaitedBy::Unanswered(asked) => ("unanswered", None, Some(self.since_origin(asked))),
        };
        AwaitedJson {
            waiter: self.whole(wait.waiter),
            since_ns: self.since_origin(wait.since),
            until_ns: self.since_origin(wait.until),
            evidence,
            waits,
            asked_ns: asked,
        }
    }

    fn unheeded(&self, it: &Unheeded) -> UnheededJson {
        UnheededJson {
            whose: self.whole(it.target),
            number: it.signal,
            name: wording::signal_name(it.signal).into_owned(),
            at_ns: self.since_origin(it.at),
            sender: it.sender.map(|sender| self.whole(sender)),
            why: match it.why {
                LivesOn::Ignores => "ignores",
                LivesOn::FirstInNamespace => "first_in_namespace",
                LivesOn::HandlerRan => "handler_ran",
                LivesOn::NotTaken => "not_taken",
            },
            end: match it.end {
                LivedUntil::Killed(_) => "killed",
                LivedUntil::Exited => "exited",
                LivedUntil::Lives => "lives",
            },
            lived_ns: it.lived_ns,
            killed: match &it.end {
                LivedUntil::Killed(death) => Some(self.killed_process(death)),
                LivedUntil::Exited | LivedUntil::Lives => None,
            },
        }
    }
}

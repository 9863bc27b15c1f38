//! Why others had the CPU, in a row of the document.

use std::collections::BTreeSet;

use serde::Serialize;
use wakepath_event::Comm;
use wakepath_findings::{Behind, Confined, Standing};
use wakepath_loaded::AllowedBy;

use crate::json::text;
use crate::wording;

#[derive(Serialize)]
pub(super) struct PrecedenceJson {
    waiting: StandingJson,
    running: StandingJson,
    comms: Vec<String>,
    running_comms: Vec<String>,
    running_processes: Vec<u32>,
    total_ns: u64,
}

#[derive(Serialize)]
struct StandingJson {
    class: Option<&'static str>,
    nice: i8,
    priority: u8,
}

impl StandingJson {
    const fn new(Standing { class, nice, priority }: Standing) -> Self {
        Self { class: class.name(), nice, priority }
    }
}

impl PrecedenceJson {
    pub fn new(Behind { own, others, ns, waiters, had }: &Behind) -> Self {
        let processes: BTreeSet<u32> = had.values().flatten().map(|process| process.number()).collect();
        Self {
            waiting: StandingJson::new(*own),
            running: StandingJson::new(*others),
            comms: comms(waiters),
            running_comms: had.keys().map(|name| text(name.comm.bytes())).collect(),
            running_processes: processes.into_iter().collect(),
            total_ns: *ns,
        }
    }
}

#[derive(Serialize)]
pub(super) struct ConfinedJson {
    cpus: String,
    /// Null if not known.
    by: Option<&'static str>,
    /// The unit with the cpuset; null for the outermost.
    cpuset: Option<String>,
    comms: Vec<String>,
    idle_ns: u64,
    total_ns: u64,
}

impl ConfinedJson {
    pub fn new(Confined { cpus, ns, idle_ns, waiters }: &Confined) -> Self {
        let (by, cpuset) = match &cpus.by {
            None => (None, None),
            Some(AllowedBy::Affinity) => (Some("affinity"), None),
            Some(AllowedBy::Cpuset(of)) => (Some("cpuset"), of.as_ref().map(wording::unit)),
        };
        Self {
            cpus: wording::cpu_ranges(cpus),
            by,
            cpuset,
            comms: comms(waiters),
            idle_ns: *idle_ns,
            total_ns: *ns,
        }
    }
}

fn comms(names: &BTreeSet<Comm>) -> Vec<String> {
    names.iter().map(|name| text(name.bytes())).collect()
}

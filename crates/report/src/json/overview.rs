//! `wakepath.path/1` where there is no single window: the threads that could be asked about.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_critical_path::Hang;
use wakepath_engine::{Overview, Scope};
use wakepath_event::Tid;
use wakepath_findings::ThreadTimes;
use wakepath_names::call_name;

use super::hang::{HangJson, WhoseJson, hang_document, whose};
use super::head::{HeadJson, since_origin};
use super::{text, write};

/// Writes the document of an overview.
pub fn overview(overview: &Overview, out: &mut dyn Write) -> io::Result<()> {
    let documents = Documents(overview);
    let hang = |hang: &Hang| hang_document(overview.recorded, &overview.head, hang, overview.to);
    write(
        out,
        &OverviewJson {
            head: HeadJson::new("wakepath.path/1", &overview.head),
            window: None,
            scope: ScopeJson {
                by: match overview.scope {
                    Scope::All => "all",
                    Scope::Host(_) => "host",
                    Scope::Processes(_) => "pid",
                    Scope::Cgroup(_) => "cgroup",
                },
                pids: match &overview.scope {
                    Scope::Processes(pids) => pids.iter().map(|pid| pid.number()).collect(),
                    _ => Vec::new(),
                },
                cgroup: match &overview.scope {
                    Scope::Cgroup(cgroup) => Some(text(cgroup.bytes())),
                    _ => None,
                },
                host: match overview.scope {
                    Scope::Host(host) => Some(overview.recorded.host_of(Tid(1).on(host)).boot_id.clone()),
                    _ => None,
                },
                from_ns: since_origin(&overview.head, overview.from),
                to_ns: since_origin(&overview.head, overview.to),
            },
            deadlocks: overview.open.deadlocks.iter().map(|cycle| cycle.iter().map(hang).collect()).collect(),
            still_waiting: overview.open.still_waiting.iter().map(hang).collect(),
            idle_at_end: overview.open.idle,
            threads: overview.threads.iter().map(|times| documents.thread(times)).collect(),
        },
    )
}

#[derive(Serialize)]
struct OverviewJson {
    #[serde(flatten)]
    head: HeadJson,
    /// Null: it distinguishes this document from a path.
    window: Option<()>,
    scope: ScopeJson,
    deadlocks: Vec<Vec<HangJson>>,
    still_waiting: Vec<HangJson>,
    idle_at_end: usize,
    threads: Vec<ThreadJson>,
}

#[derive(Serialize)]
struct ScopeJson {
    by: &'static str,
    pids: Vec<u32>,
    cgroup: Option<String>,
    /// A host of several, by its boot id.
    host: Option<String>,
    from_ns: i64,
    to_ns: i64,
}

#[derive(Serialize)]
struct ThreadJson {
    #[serde(flatten)]
    whose: WhoseJson,
    running_ns: u64,
    runnable_ns: u64,
    throttled_ns: u64,
    waiting_ns: u64,
    idle_ns: u64,
    unknown_ns: u64,
    longest_wait: Option<LongestJson>,
}

#[derive(Serialize)]
struct LongestJson {
    from_ns: i64,
    to_ns: i64,
    call: Option<String>,
}

struct Documents<'a>(&'a Overview<'a>);

impl Documents<'_> {
    fn thread(&self, times: &ThreadTimes) -> ThreadJson {
        ThreadJson {
            whose: whose(self.0.recorded, times.thread, self.0.to),
            running_ns: times.running_ns,
            runnable_ns: times.runnable_ns,
            throttled_ns: times.throttled_ns,
            waiting_ns: times.waiting_ns,
            idle_ns: times.idle_ns,
            unknown_ns: times.unknown_ns,
            longest_wait: times.longest.map(|wait| LongestJson {
                from_ns: since_origin(&self.0.head, wait.from),
                to_ns: since_origin(&self.0.head, wait.to),
                call: wait.call.map(|call| call_name(call.number).into_owned()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::json::shape::misfits;
    use crate::sample::{DEADLOCK, overview_of};

    #[test]
    fn documents_keep_the_contract() {
        overview_of(DEADLOCK, |answer| {
            let mut out = Vec::new();
            overview(answer, &mut out).expect("a vector takes everything");
            let document: Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(misfits(include_str!("../../contract/overview.txt"), &document), Vec::<String>::new());
            let tids = |list: &Value| {
                let threads = list.as_array().expect("a list").iter();
                threads.map(|thread| thread["tid"].as_u64().expect("a tid")).collect::<Vec<_>>()
            };
            assert_eq!(tids(&document["deadlocks"][0]), [10, 11]);
            assert_eq!(tids(&document["still_waiting"]), [10, 11, 12]);
            assert_eq!(document["still_waiting"][2]["lock"]["owner"]["tid"], 10);
        });
    }
}

//! `wakepath.path/1` without a single window: the threads to ask about.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_critical_path::Hang;
use wakepath_engine::{Overview, Scope};
use wakepath_event::Tid;
use wakepath_findings::{KernelPart, OpenChain, ThreadTimes, ThreadsHeadline, Way};
use wakepath_loaded::{FarEndKind, call_name};

use super::hang::{HangJson, WhoseJson, hang_document, whose};
use super::head::{HeadJson, since_origin};
use super::path::deaths::{DeathJson, NamedAt};
use super::{text, write};
use crate::text::{overview_headline, overview_next};

/// Writes an overview's document; `recording` are the words that name the recording in a command.
pub fn overview(overview: &Overview, recording: &[String], out: &mut dyn Write) -> io::Result<()> {
    let documents = Documents(overview);
    let named = NamedAt { recorded: overview.recorded, head: &overview.head, at: overview.to };
    let hang = |hang: &Hang| hang_document(overview.recorded, &overview.head, hang, overview.to);
    write(
        out,
        &OverviewJson {
            head: HeadJson::new("wakepath.path/1", &overview.head),
            window: None,
            headline: documents.headline(),
            next: next(overview, recording),
            scope: documents.scope(),
            deadlocks: overview.open.deadlocks.iter().map(|cycle| cycle.iter().map(hang).collect()).collect(),
            still_waiting: overview.open.still_waiting.iter().map(hang).collect(),
            open_chains: overview.chains.iter().map(|chain| documents.chain(chain)).collect(),
            deaths: overview.deaths.iter().map(|it| named.death(it)).collect(),
            idle_at_end: overview.open.idle,
            sleeping_at_end: overview.open.sleeping,
            undecided_at_end: overview.open.undecided,
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
    headline: OverviewHeadlineJson,
    next: Option<Vec<String>>,
    scope: ScopeJson,
    deadlocks: Vec<Vec<HangJson>>,
    still_waiting: Vec<HangJson>,
    /// For asked processes: open waits, and the processes able to end them, from each asked thread on.
    open_chains: Vec<OpenChainJson>,
    /// Killed processes expected to end open waits.
    deaths: Vec<DeathJson>,
    idle_at_end: usize,
    sleeping_at_end: usize,
    undecided_at_end: usize,
    threads: Vec<ThreadJson>,
}

#[derive(Serialize)]
struct OpenChainJson {
    waits: Vec<OpenEndJson>,
    /// The process able to end the last wait, if it waits for nothing known.
    last: Option<LastJson>,
    circle: bool,
    deadlock: bool,
}

#[derive(Serialize)]
struct OpenEndJson {
    #[serde(flatten)]
    wait: HangJson,
    ends: Vec<EndJson>,
    /// The kernel's functions in which it was blocked at the start; empty where the call says enough.
    kernel: Vec<String>,
    /// The file that it is to open.
    file: Option<String>,
}

#[derive(Serialize)]
struct EndJson {
    way: &'static str,
    pids: Vec<u32>,
}

#[derive(Serialize)]
struct LastJson {
    pid: u32,
    wait: Option<HangJson>,
}

/// The sentence, and the thread to ask about first.
#[derive(Serialize)]
struct OverviewHeadlineJson {
    code: &'static str,
    text: String,
    who: Option<WhoseJson>,
}

/// The question about the thread to ask about first.
fn next(overview: &Overview, recording: &[String]) -> Option<Vec<String>> {
    let command = ["wakepath", "path"].map(String::from);
    Some(command.into_iter().chain(recording.iter().cloned()).chain(overview_next(overview)?).collect())
}

#[derive(Serialize)]
struct ScopeJson {
    by: &'static str,
    pids: Vec<u32>,
    cgroup: Option<String>,
    /// A host among several, by its boot id.
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
    waiting_inferred_ns: u64,
    idle_ns: u64,
    idle_inferred_ns: u64,
    sleeping_ns: u64,
    undecided_ns: u64,
    unknown_ns: u64,
    longest_wait: Option<LongestJson>,
}

#[derive(Serialize)]
struct LongestJson {
    from_ns: i64,
    to_ns: i64,
    call: Option<String>,
    undecided: bool,
}

struct Documents<'a>(&'a Overview<'a>);

impl Documents<'_> {
    fn headline(&self) -> OverviewHeadlineJson {
        let code = match self.0.headline() {
            ThreadsHeadline::Deadlocked => "deadlocked",
            ThreadsHeadline::StillWaiting(_) => "still_waiting",
            ThreadsHeadline::Choose => "choose",
        };
        let who = self.0.thread_to_ask().map(|thread| whose(self.0.recorded, thread, self.0.to));
        OverviewHeadlineJson { code, text: overview_headline(self.0).into_plain(), who }
    }

    fn chain(&self, chain: &OpenChain) -> OpenChainJson {
        let Overview { head, recorded, to, .. } = self.0;
        let hang = |hang: &Hang| hang_document(recorded, head, hang, *to);
        let end = |(way, pids): &(Way, Vec<Tid>)| EndJson {
            way: match way {
                Way::Child => "child",
                Way::AtStart(FarEndKind::Writers) => "writers",
                Way::AtStart(FarEndKind::Readers) => "readers",
                Way::AtStart(FarEndKind::Peer) => "peer",
                Way::AtStart(FarEndKind::Listener) => "listener",
                Way::AtStart(FarEndKind::Holder) => "holder",
                Way::AtStart(FarEndKind::Unsearched) => "unsearched",
                Way::AtStart(FarEndKind::Daemon) => "daemon",
                Way::AtStart(FarEndKind::Other) => "other",
                Way::Kernel(KernelPart::NetworkFiles, _) => "network_file_system",
                Way::Kernel(KernelPart::FrozenFiles, _) => "frozen_file_system",
                Way::Kernel(KernelPart::Journal, _) => "journal",
                Way::Kernel(KernelPart::Device, _) => "device",
            },
            pids: pids.iter().map(|pid| pid.number()).collect(),
        };
        let waits = chain.links.iter();
        OpenChainJson {
            waits: waits
                .map(|wait| OpenEndJson {
                    wait: hang(&wait.hang),
                    ends: wait.ends.iter().map(end).collect(),
                    kernel: wait.kernel.iter().map(|function| text(function.as_bytes())).collect(),
                    file: wait.file.as_ref().map(|file| text(file.bytes())),
                })
                .collect(),
            last: chain
                .last
                .as_ref()
                .map(|(pid, wait)| LastJson { pid: pid.number(), wait: wait.as_ref().map(hang) }),
            circle: chain.is_circle,
            deadlock: chain.is_deadlock,
        }
    }

    fn scope(&self) -> ScopeJson {
        let Overview { head, recorded, from, to, .. } = self.0;
        let [from_ns, to_ns] = [from, to].map(|at| since_origin(head, *at));
        let all = ScopeJson { by: "all", pids: Vec::new(), cgroup: None, host: None, from_ns, to_ns };
        match &self.0.scope {
            Scope::All => all,
            Scope::Host(host) => {
                let host = recorded.host_of(Tid(1).on(*host)).boot_id.clone();
                ScopeJson { by: "host", host: Some(host), ..all }
            }
            Scope::Processes(pids) => {
                ScopeJson { by: "pid", pids: pids.iter().map(|pid| pid.number()).collect(), ..all }
            }
            Scope::Cgroup(cgroup) => ScopeJson { by: "cgroup", cgroup: Some(text(cgroup.bytes())), ..all },
        }
    }

    fn thread(&self, times: &ThreadTimes) -> ThreadJson {
        ThreadJson {
            whose: whose(self.0.recorded, times.thread, self.0.to),
            running_ns: times.running_ns,
            runnable_ns: times.runnable_ns,
            throttled_ns: times.throttled_ns,
            waiting_ns: times.waiting_ns,
            waiting_inferred_ns: times.waiting_inferred_ns,
            idle_ns: times.idle_ns,
            idle_inferred_ns: times.idle_inferred_ns,
            sleeping_ns: times.sleeping_ns,
            undecided_ns: times.undecided_ns,
            unknown_ns: times.unknown_ns,
            longest_wait: times.longest.map(|wait| LongestJson {
                from_ns: since_origin(&self.0.head, wait.from),
                to_ns: since_origin(&self.0.head, wait.to),
                call: wait.call.map(|call| call_name(call.number).into_owned()),
                undecided: wait.undecided,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::json::shape::{document, golden};
    use crate::sample::{DEADLOCK, KILLED, hanging, overview_of};

    #[test]
    fn documents_keep_the_contract() {
        overview_of(DEADLOCK, |answer| {
            let shape = include_str!("../../contract/overview.txt");
            let document = document(shape, |out| overview(answer, &["a.rec".into()], out));
            golden(&document, &expect_test::expect_file!["../../tests/golden/overview_of_a_deadlock.json"]);
            let tids = |list: &Value| {
                let threads = list.as_array().expect("a list").iter();
                threads.map(|thread| thread["tid"].as_u64().expect("a tid")).collect::<Vec<_>>()
            };
            assert_eq!(tids(&document["deadlocks"][0]), [10, 11]);
            assert_eq!(tids(&document["still_waiting"]), [10, 11, 12]);
            assert_eq!(document["still_waiting"][2]["lock"]["owner"]["tid"], 10);
            let headline = &document["headline"];
            assert_eq!((&headline["code"], &headline["who"]["tid"]), (&"deadlocked".into(), &10.into()));
            assert_eq!(headline["text"], "the whole machine, 900 ns, 5 threads: deadlocked");
            assert_eq!(document["next"], serde_json::json!(["wakepath", "path", "a.rec", "--tid", "10"]));
        });
        overview_of(KILLED, |answer| {
            let document = document(include_str!("../../contract/overview.txt"), |out| {
                overview(answer, &["a.rec".into()], out)
            });
            golden(
                &document,
                &expect_test::expect_file!["../../tests/golden/overview_of_killed_threads.json"],
            );
            assert_eq!(document["deadlocks"][0][1]["signal"]["name"], "SIGINT");
        });
    }

    #[test]
    fn an_open_wait_has_the_processes_that_could_end_it() {
        hanging(|answer| {
            let document = document(include_str!("../../contract/overview.txt"), |out| {
                overview(answer, &["a.rec".into()], out)
            });
            let chains = document["open_chains"].as_array().expect("a list");
            let told = chains.iter().map(|chain| {
                let waits = chain["waits"].as_array().expect("a list").iter();
                let waits: Vec<String> =
                    waits.map(|wait| format!("{} {}", wait["tid"], wait["ends"])).collect();
                assert_eq!(chain["deadlock"], false);
                format!("{} last={} {}", waits.join("; "), chain["last"]["pid"], chain["circle"])
            });
            assert_eq!(
                told.collect::<Vec<_>>(),
                [
                    r#"10 [{"pids":[20],"way":"child"}]; 20 [{"pids":[10],"way":"readers"}] last=null true"#,
                    r#"30 [{"pids":[40],"way":"peer"}] last=40 false"#,
                    r#"50 [{"pids":[61,62,63,64,40],"way":"writers"}] last=null false"#,
                ]
            );
            assert_eq!(chains[1]["last"]["wait"]["call"], "clock_nanosleep");
        });
    }
}

//! The first screen in a path's document: the headline, the rows with their evidence, and the next command.

use serde::Serialize;
use wakepath_engine::PathAnswer;
use wakepath_event::Comm;
use wakepath_findings::{
    BasisMix, Chain, Finding, LargestPart, PartKey, PathFindings, Row, RowKey, Seen, Tally, Who, WindowEnd,
};
use wakepath_loaded::{CallName, Object, call_name};

use super::Documents;
use super::failed_calls::{FailedCallJson, SpinJson};
use super::far::FarJson;
use super::scheduling::{ConfinedJson, PrecedenceJson};
use crate::json::{hang, text};
use crate::text::{headline, next_words, record_words, row_text};
use crate::wording;

/// The most functions listed per kind.
pub const MAX_FUNCTIONS: usize = 10;

/// The sentence that answers.
#[derive(Serialize)]
pub struct HeadlineJson {
    pub code: &'static str,
    pub text: String,
    /// The index of the row whose time it gives; null if no row has this time.
    pub row: Option<usize>,
    /// It took more than half the window.
    pub is_most: bool,
    pub total_ns: u64,
    pub share: f64,
    /// Null for an empty window.
    pub basis: Option<&'static str>,
    pub who: Option<WhoJson>,
    /// The threads between the window's own thread and the last one; absent where it waited directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through: Option<ThroughJson>,
    /// The reading with more joins, or fewer; null with a single reading.
    pub other_reading: Option<OtherReadingJson>,
}

/// Threads that waited for each other.
#[derive(Serialize)]
pub struct ThroughJson {
    /// The first and the last two.
    threads: Vec<hang::WhoseJson>,
    /// How many stand between the first and the last two.
    more: usize,
}

#[derive(Serialize)]
pub struct OtherReadingJson {
    /// Its joined waits, in the words of the document's `joins`.
    joins: &'static str,
    code: &'static str,
    what: String,
    is_most: bool,
    total_ns: u64,
    share: f64,
    basis: &'static str,
}

/// The responsible threads.
#[derive(Serialize)]
pub struct WhoJson {
    host: String,
    /// Null if they belong to several processes, or if unknown.
    pid: Option<u32>,
    /// Null for several threads, or if unknown.
    tid: Option<u32>,
    /// Null if they have several names.
    comm: Option<String>,
    /// The script that a single thread's process runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<String>,
    comms: Vec<String>,
    /// 0 if their number is unknown.
    processes: usize,
    threads: usize,
}

#[derive(Serialize)]
pub struct RowJson {
    code: &'static str,
    /// The blamed cause in words.
    what: String,
    /// Its line on the first screen.
    text: String,
    total_ns: u64,
    /// The part that the window's own thread spent while it waited for no other thread.
    own_ns: u64,
    share: f64,
    basis: &'static str,
    /// Whether the first screen has a line for the row.
    shown: bool,
    stretches: u64,
    calls: Vec<CallJson>,
    /// Waits for a disk in unknown system calls.
    unknown_calls: Option<UnknownCallsJson>,
    parts: Vec<PartJson>,
    /// Calls that failed before its sleeps; empty if not recorded.
    failed_calls: Vec<FailedCallJson>,
    /// The programs between its sleeps, where these are processes that a loop starts; most frequent first.
    between: Vec<String>,
    /// Calls failing again and again while its threads ran.
    spins: Vec<SpinJson>,
    /// For a wait for a CPU: others had precedence by their nice value or class.
    precedence: Option<PrecedenceJson>,
    /// For a wait for a CPU: its threads might not run on all CPUs.
    confined: Option<ConfinedJson>,
    /// Code sites where its threads were seen running.
    samples: Vec<SamplesJson>,
    /// Functions in which its waits began.
    waited_in: Option<FunctionsJson>,
    /// Kernel threads in its wait chain.
    through: Vec<String>,
    /// The threads that lost its time, by name, largest loss first.
    users: Vec<UserJson>,
    processes: Vec<u32>,
    threads: usize,
    /// The waits for its garbage collections; absent for other rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pauses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_ns: Option<u64>,
    /// The silent process on this host; absent if not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    far: Option<FarJson>,
}

#[derive(Serialize)]
struct CallJson {
    call: String,
    object: Option<ObjectJson>,
    /// The waits that began in this row.
    waits: u64,
    total_ns: u64,
}

#[derive(Serialize)]
pub(super) struct ObjectJson {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub name: Option<String>,
}

#[derive(Serialize)]
struct UnknownCallsJson {
    waits: u64,
    total_ns: u64,
}

#[derive(Serialize)]
pub struct PartJson {
    /// A segment kind; null for kernel threads, and for a call.
    pub kind: Option<&'static str>,
    /// The cause, as in `contributors`; null for the thread itself.
    pub code: Option<&'static str>,
    pub what: String,
    pub total_ns: u64,
}

#[derive(Serialize)]
pub struct SamplesJson {
    /// Null for threads with several names.
    comm: Option<String>,
    #[serde(flatten)]
    seen: FunctionsJson,
}

impl SamplesJson {
    /// The functions in which threads with this name ran.
    pub fn new(comm: Option<Comm>, ran: &Tally) -> Self {
        Self { comm: comm.map(|comm| text(comm.bytes())), seen: FunctionsJson::new(ran) }
    }
}

#[derive(Serialize)]
pub struct FunctionsJson {
    total: u64,
    functions: Vec<FunctionJson>,
}

#[derive(Serialize)]
struct FunctionJson {
    count: u64,
    function: String,
    caller: Option<String>,
}

#[derive(Serialize)]
struct UserJson {
    comm: String,
    total_ns: u64,
}

/// A window's part, 0 to 1.
pub fn share(ns: u64, window_ns: u64) -> f64 {
    if window_ns == 0 { 0.0 } else { ns as f64 / window_ns as f64 }
}

impl FunctionsJson {
    /// These functions; `None` if no thread was seen in any.
    pub fn if_any(tally: &Tally) -> Option<Self> {
        (tally.total() > 0).then(|| Self::new(tally))
    }

    fn new(tally: &Tally) -> Self {
        let function = |seen: Seen<'_>| FunctionJson {
            count: seen.count,
            function: wording::function(seen.function),
            caller: seen.caller.and_then(wording::function_caller),
        };
        let functions = tally.seen().into_iter().take(MAX_FUNCTIONS).map(function).collect();
        Self { total: tally.total(), functions }
    }
}

impl ObjectJson {
    fn new(object: &Object) -> Self {
        let (kind, name) = wording::object_kind(object);
        Self { kind, name }
    }
}

impl<'a> Documents<'a> {
    fn found(&self) -> &'a PathFindings {
        self.0.findings()
    }

    /// The first screen's sentence.
    pub fn headline(&self) -> HeadlineJson {
        let found = self.found();
        let largest = found.headline.largest.as_ref();
        let blamed = largest.and_then(|part| Some((part, found.rows.get(part.row)?)));
        let code = match (found.headline.end, blamed) {
            (WindowEnd::StillWaiting, _) => "still_waiting",
            (WindowEnd::Killed, _) => "killed",
            (WindowEnd::DescendantKilled, _) => "descendant_killed",
            (WindowEnd::Over, None) => "empty_window",
            (WindowEnd::Over, Some((_, row))) => self.row_words(&row.key, &row.row).0,
        };
        let total_ns = largest.map_or(0, |part| part.ns);
        HeadlineJson {
            code,
            text: headline(self.0).into_plain(),
            row: largest.map(|part| part.row),
            is_most: largest.is_some_and(|part| part.is_most),
            total_ns,
            share: share(total_ns, self.0.window_ns()),
            basis: blamed.map(|(part, _)| wording::certainty_code(part.certainty)),
            who: found.headline.who.as_ref().map(|who| self.who(who)),
            through: found.headline.through.as_ref().map(|chain| self.through(chain)),
            other_reading: self.other_reading(),
        }
    }

    fn through(&self, Chain { links, more }: &Chain) -> ThroughJson {
        let at = self.0.path.window.to;
        let threads = links.iter().map(|link| hang::whose(self.0.recorded, *link, at)).collect();
        ThroughJson { threads, more: *more }
    }

    fn other_reading(&self) -> Option<OtherReadingJson> {
        let (evidence, other) = (self.0.evidence_of_other()?, self.found().other_reading.as_ref()?);
        let part @ LargestPart { row, ns, is_most, certainty, .. } = &other.largest;
        let (key, row) = other.rows.get(*row)?;
        Some(OtherReadingJson {
            joins: if other.joins { "alike" } else { "proved" },
            code: wording::row(&evidence, key, row).0,
            what: wording::blamed(&evidence, key, row, part),
            is_most: *is_most,
            total_ns: *ns,
            share: share(*ns, self.0.window_ns()),
            basis: wording::certainty_code(*certainty),
        })
    }

    fn row_words(&self, key: &RowKey, row: &Row) -> (&'static str, String) {
        wording::row(&self.0.evidence(), key, row)
    }

    fn who(&self, who: &Who) -> WhoJson {
        WhoJson::new(self.0, who)
    }

    /// The first screen's rows, largest first.
    pub fn rows(&self) -> Vec<RowJson> {
        let found = self.found();
        found.rows.iter().enumerate().map(|(place, row)| self.row(row, place < found.shown)).collect()
    }

    fn row(&self, finding: &Finding, shown: bool) -> RowJson {
        let (evidence, row) = (self.0.evidence(), &finding.row);
        let (code, what) = self.row_words(&finding.key, row);
        let mut calls: Vec<_> = row.calls.iter().collect();
        calls.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.ns));
        let call = |(CallName { number, object }, waits): (&CallName, &wakepath_findings::Waits)| CallJson {
            call: call_name(*number).into_owned(),
            object: object.as_ref().map(ObjectJson::new),
            waits: waits.count,
            total_ns: waits.ns,
        };
        let unknown = row.in_unknown_calls;
        let part = |(key, ns): (&PartKey, u64)| {
            let activity = match key {
                PartKey::Activity(activity) => Some(activity),
                PartKey::KernelThreads | PartKey::Call(_) => None,
            };
            PartJson {
                kind: activity.map(|activity| activity.kind.name()),
                code: activity.and_then(|activity| wording::blamed_code(&evidence, &activity.blamed)),
                what: wording::part(&evidence, &finding.key, key),
                total_ns: ns,
            }
        };
        let between = row.sleep_loop.iter().flat_map(|of| &of.between);
        let samples = finding.ran.iter().filter(|(_, ran)| ran.total() > 0);
        let mut users: Vec<_> = row.users_by_name().into_iter().collect();
        users.sort_by_key(|(user, ns)| (std::cmp::Reverse(*ns), *user));
        let user = |(user, ns): (Comm, u64)| UserJson { comm: text(user.bytes()), total_ns: ns };
        RowJson {
            code,
            what,
            text: row_text(&evidence, finding),
            total_ns: row.total_ns,
            own_ns: row.own_ns,
            share: share(row.total_ns, self.0.window_ns()),
            basis: certainty(row.basis),
            shown,
            stretches: row.stretches,
            calls: calls.into_iter().map(call).collect(),
            unknown_calls: (unknown.count > 0 || unknown.ns > 0)
                .then_some(UnknownCallsJson { waits: unknown.count, total_ns: unknown.ns }),
            parts: finding.parts().into_iter().map(part).collect(),
            failed_calls: row.polling.iter().map(FailedCallJson::new).collect(),
            between: between.map(|name| text(name.bytes())).collect(),
            spins: finding.spins.iter().map(SpinJson::new).collect(),
            precedence: finding.cpu.behind.as_ref().map(PrecedenceJson::new),
            confined: finding.cpu.confined.as_ref().map(ConfinedJson::new),
            samples: samples.map(|(comm, ran)| SamplesJson::new(Some(*comm), ran)).collect(),
            waited_in: FunctionsJson::if_any(&finding.waited),
            through: row.through.iter().map(|name| text(name.bytes())).collect(),
            users: users.into_iter().map(user).collect(),
            processes: row.processes.iter().map(|process| process.number()).collect(),
            threads: row.threads.len(),
            pauses: row.pauses.as_ref().map(|pauses| pauses.count),
            paused_ns: row.pauses.as_ref().map(|pauses| pauses.ns),
            far: row.far.as_ref().map(|far| FarJson::new(&self.0.head, far)),
        }
    }
}

impl WhoJson {
    /// The threads responsible in a window.
    pub fn new(answer: &PathAnswer<'_>, who: &Who) -> Self {
        let thread = who.thread.map(|thread| answer.thread(thread));
        let host = answer.recorded.host_at(who.host.unwrap_or_default());
        let only = |count: usize| count == 1;
        Self {
            host: text(host.boot_id.as_bytes()),
            pid: who.processes.first().filter(|_| only(who.processes.len())).map(|process| process.number()),
            tid: thread.map(|thread| thread.tid.number()),
            comm: who.names.first().filter(|_| only(who.names.len())).map(|name| text(name.bytes())),
            script: thread.and_then(|thread| thread.script).map(|script| text(script.bytes())),
            comms: who.names.iter().map(|name| text(name.bytes())).collect(),
            processes: who.processes.len(),
            threads: who.threads,
        }
    }
}

/// A sum's certainty, as documents spell it.
pub fn certainty(basis: BasisMix) -> &'static str {
    wording::certainty_code(basis.certainty())
}

/// The next command; `recording` are the words that name the recording.
pub fn next(answer: &PathAnswer<'_>, recording: &[String]) -> Option<Vec<String>> {
    if let Some(command) = record_words(answer) {
        return Some(command);
    }
    let question = next_words(answer)?;
    let command = ["wakepath", "path"].map(String::from);
    Some(command.into_iter().chain(recording.iter().cloned()).chain(question).collect())
}

//! `wakepath.path/1`: the reasons for a window's length.

pub(super) mod deaths;
mod failed_calls;
mod far;
mod findings;
mod reclaims;
mod scheduling;
mod segments;
#[cfg(test)]
mod tests;
mod user_states;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Serialize, Serializer};
use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Algorithm, Contributor, Hang, JoinedSum, Responsible};
use wakepath_engine::{Head, OtherPath, PathAnswer, Question};
use wakepath_event::Comm;
use wakepath_findings::Blamed;
use wakepath_loaded::{Caller, Site, ThreadInfo, call_name};
use wakepath_wait_graph::ThreadIndex;

use super::function::{FunctionJson, function};
use super::hang::{ChildWaitJson, HangJson, child_wait, hang_document, left_alone};
use super::head::{HeadJson, since_origin};
use super::{text, write};
use crate::wording;
pub(super) use findings::{
    FunctionsJson, HeadlineJson, MAX_FUNCTIONS, PartJson, RowJson, SamplesJson, WhoJson, certainty, next,
    share,
};

/// Writes a path's document; `recording` are the words that name the recording in a command.
pub fn path(answer: &PathAnswer, recording: &[String], out: &mut dyn Write) -> io::Result<()> {
    let head = HeadJson::new("wakepath.path/1", &answer.head);
    let documents = Documents(answer);
    let screen = FirstScreenJson {
        headline: documents.headline(),
        rows: documents.rows(),
        next: next(answer, recording),
    };
    write(out, &PathJson { head, screen, body: body(answer) })
}

/// The first screen: the sentence that answers, the rows, and the next command as a list of words.
#[derive(Serialize)]
pub(super) struct FirstScreenJson<R: Serialize> {
    pub headline: HeadlineJson,
    pub rows: Vec<R>,
    /// Null if no command leads further.
    pub next: Option<Vec<String>>,
}

/// An answer's rows.
pub(super) fn rows(answer: &PathAnswer) -> Vec<RowJson> {
    Documents(answer).rows()
}

/// An answer's headline.
pub(super) fn headline(answer: &PathAnswer) -> HeadlineJson {
    Documents(answer).headline()
}

/// The document without its head and first screen.
pub(super) fn body<'a>(answer: &'a PathAnswer<'_>) -> impl Serialize + use<'a> {
    let documents = Documents(answer);
    let path = &answer.path;
    let hang = |hang: &Hang| hang_document(answer.recorded, &answer.head, hang, path.window.to);
    BodyJson {
        window: documents.window(),
        question: documents.question(),
        algorithm: match path.algorithm {
            Algorithm::Active => "active",
            Algorithm::Joined | Algorithm::JoinedInSlices | Algorithm::JoinedIfAlike => "joined",
            Algorithm::Exact => "exact",
        },
        joins: match path.algorithm {
            Algorithm::Active | Algorithm::Exact => "none",
            Algorithm::Joined => "proved",
            Algorithm::JoinedInSlices => "slices",
            Algorithm::JoinedIfAlike => "alike",
        },
        joined: path.joined.into(),
        if_not_joined: answer.if_not_joined.as_deref().map(|other| documents.other_path(other)),
        if_joined: answer.if_joined.as_deref().map(|other| documents.other_path(other)),
        contributors: answer.contributors.iter().map(|part| documents.contributor(part)).collect(),
        still_waiting: answer.still_waiting.as_ref().map(hang),
        killed: answer.killed.as_ref().map(hang),
        left_alone: answer.left_alone.map(left_alone),
        child_waits: answer.child_waits.iter().map(|wait| child_wait(hang(&wait.hang), wait)).collect(),
        deadlocks: answer.deadlocks.iter().map(|cycle| cycle.iter().map(hang).collect()).collect(),
        samples: documents.samples(),
        user_states: documents.user_states(),
        reclaims: documents.reclaims(),
        deaths: documents.deaths(),
        unheeded_signals: documents.unheeded(),
        waits: Many(move || {
            let waits = path.waits.iter().enumerate();
            waits.map(move |(id, wait)| Documents(answer).wait(id as u64, wait))
        }),
        segments: Many(move || {
            // Waits and segments share a numbering: an id means a single thing in a document.
            let first = path.waits.len() as u64;
            let segments = path.segments.iter().enumerate();
            segments.map(move |(number, segment)| Documents(answer).segment(first, number, segment))
        }),
    }
}

#[derive(Serialize)]
struct PathJson<B: Serialize> {
    #[serde(flatten)]
    head: HeadJson,
    #[serde(flatten)]
    screen: FirstScreenJson<RowJson>,
    #[serde(flatten)]
    body: B,
}

#[derive(Serialize)]
struct BodyJson<'a, W: Serialize, S: Serialize> {
    window: WindowJson<'a>,
    question: QuestionJson,
    algorithm: &'static str,
    /// The joined waits: none, proved, also slices, or all alike.
    joins: &'static str,
    joined: JoinedJson,
    if_not_joined: Option<OtherPathJson<'a>>,
    if_joined: Option<OtherPathJson<'a>>,
    contributors: Vec<ContributorJson<'a>>,
    still_waiting: Option<HangJson>,
    killed: Option<HangJson>,
    left_alone: Option<&'static str>,
    child_waits: Vec<ChildWaitJson>,
    deadlocks: Vec<Vec<HangJson>>,
    samples: Vec<SampledJson<'a>>,
    user_states: Vec<user_states::UserStateJson<'a>>,
    reclaims: Vec<reclaims::ReclaimsJson>,
    deaths: Vec<deaths::DeathJson>,
    unheeded_signals: Vec<deaths::UnheededJson>,
    waits: W,
    segments: S,
}

/// A list made while it is written: a path with a million segments is never a million documents in memory.
struct Many<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Many<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// A segment's thread; all null while a packet is in flight between hosts.
#[derive(Serialize)]
struct WhoseJson<'a> {
    host: Option<&'a str>,
    pid: Option<u32>,
    tid: Option<u32>,
    comm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<String>,
}

impl WhoseJson<'_> {
    /// The same thread when it had this name. Its process ran the script under its last name.
    fn named(self, comm: Option<Comm>) -> Self {
        let comm = comm.map(|comm| text(comm.bytes()));
        Self { script: self.script.filter(|_| self.comm == comm), comm, ..self }
    }
}

#[derive(Serialize)]
struct WindowJson<'a> {
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    from_ns: i64,
    to_ns: i64,
    cgroup: Option<String>,
    unit: Option<String>,
}

#[derive(Serialize)]
struct QuestionJson {
    by: &'static str,
    words: Option<Vec<String>>,
    status: Option<u32>,
}

#[derive(Serialize)]
struct ContributorJson<'a> {
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    kind: &'static str,
    code: Option<&'static str>,
    what: Option<String>,
    call: Option<String>,
    unit: Option<String>,
    segments: u64,
    total_ns: u64,
    share: f64,
}

/// Waits ended early, counted together with a later wait.
#[derive(Serialize)]
struct JoinedJson {
    waits: u64,
    total_ns: u64,
    /// The waits ended by tickers.
    by_threads: u64,
}

impl From<JoinedSum> for JoinedJson {
    fn from(JoinedSum { waits, ns, by_threads }: JoinedSum) -> Self {
        Self { waits, total_ns: ns, by_threads }
    }
}

#[derive(Serialize)]
struct OtherPathJson<'a> {
    #[serde(flatten)]
    joined: JoinedJson,
    contributors: Vec<ContributorJson<'a>>,
}

/// Code sites where a thread was seen running on the path.
#[derive(Serialize)]
struct SampledJson<'a> {
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    total: u64,
    places: Vec<PlaceJson>,
}

#[derive(Serialize)]
struct PlaceJson {
    count: u64,
    in_kernel: bool,
    #[serde(flatten)]
    leaf: FunctionJson,
    caller: Option<FunctionJson>,
}

struct Documents<'a>(&'a PathAnswer<'a>);

impl<'a> Documents<'a> {
    fn head(&self) -> &'a Head {
        &self.0.head
    }

    fn whose(&self, index: Option<ThreadIndex>, at: Stamp<Reference>) -> WhoseJson<'a> {
        let who = index.map(|index| self.0.recorded.thread_at(index, at));
        WhoseJson {
            host: who.map(|who| self.0.recorded.host_of(who.tid).boot_id.as_str()),
            pid: who.and_then(|who| who.tgid).map(|tgid| tgid.number()),
            tid: who.map(|who| who.tid.number()),
            comm: who.map(|who| text(who.comm.bytes())),
            script: who.and_then(|who| who.script).map(|script| text(script.bytes())),
        }
    }

    fn cgroup(&self, who: &ThreadInfo) -> Option<String> {
        self.0.recorded.survey.names.cgroup_of(who).map(|path| text(path.bytes()))
    }

    fn unit(&self, who: &ThreadInfo) -> Option<String> {
        self.0.recorded.survey.names.unit(who).as_ref().map(wording::unit)
    }

    fn window(&self) -> WindowJson<'a> {
        let window = self.0.path.window;
        WindowJson {
            whose: self.whose(Some(window.thread), window.to),
            from_ns: since_origin(self.head(), window.from),
            to_ns: since_origin(self.head(), window.to),
            cgroup: self.cgroup(&self.0.subject()),
            unit: self.unit(&self.0.subject()),
        }
    }

    fn question(&self) -> QuestionJson {
        match &self.0.question {
            Question::Command { words, status } => QuestionJson {
                by: "command",
                words: Some(words.iter().map(|word| text(word.bytes())).collect()),
                status: *status,
            },
            Question::Thread => QuestionJson { by: "thread", words: None, status: None },
            Question::Request { .. } => QuestionJson { by: "request", words: None, status: None },
        }
    }

    fn contributor(&self, part: &Contributor) -> ContributorJson<'a> {
        let who = part.thread.map(|index| self.0.thread(index));
        let (evidence, responsible) = (self.0.evidence(), Responsible::from(&part.what));
        let blamed = evidence.activity(part.kind, responsible, part.thread).blamed;
        let what = match &blamed {
            Blamed::CpuLimit(limit) => Some(wording::limit(limit)),
            _ => wording::responsible(&evidence, responsible).1,
        };
        let window = self.0.window_ns();
        ContributorJson {
            whose: self.whose(part.thread, self.0.path.window.to).named(part.thread.map(|_| part.comm)),
            kind: part.kind.name(),
            code: wording::blamed_code(&evidence, &blamed),
            what,
            call: part.call.map(|call| call_name(call).into_owned()),
            unit: who.as_ref().and_then(|who| self.unit(who)),
            segments: part.segments,
            total_ns: part.total_ns,
            share: findings::share(part.total_ns, window),
        }
    }

    fn other_path(&self, other: &'a OtherPath) -> OtherPathJson<'a> {
        OtherPathJson {
            joined: other.timed_out.into(),
            contributors: other.contributors.iter().map(|part| self.contributor(part)).collect(),
        }
    }

    fn samples(&self) -> Vec<SampledJson<'a>> {
        let evidence = self.0.evidence();
        let mut by_thread: BTreeMap<(ThreadIndex, Comm), BTreeMap<&Site, u64>> = BTreeMap::new();
        for (thread, comm, site, count) in evidence.ran() {
            *by_thread.entry((thread, comm)).or_default().entry(site).or_default() += count;
        }
        let of_thread = |((thread, comm), places): ((ThreadIndex, Comm), BTreeMap<&Site, u64>)| {
            let total = places.values().sum();
            let mut places: Vec<_> = places.into_iter().collect();
            places.sort_by_key(|(place, count)| (Reverse(*count), *place));
            let document = |(place, count): (&Site, u64)| PlaceJson {
                count,
                in_kernel: place.function.in_kernel,
                leaf: function(&place.function.found, place.function.proved),
                caller: match &place.caller {
                    Caller::Function(caller) => Some(function(caller, true)),
                    Caller::Guess(caller) => Some(function(caller, false)),
                    Caller::Nobody | Caller::Unknown => None,
                },
            };
            let whose = self.whose(Some(thread), self.0.path.window.to);
            SampledJson {
                whose: whose.named(Some(comm)),
                total,
                places: places.into_iter().map(document).collect(),
            }
        };
        by_thread.into_iter().map(of_thread).collect()
    }
}

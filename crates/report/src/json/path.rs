//! `wakepath.path/1`: why a window took its time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Serialize, Serializer};
use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{
    Algorithm, Basis, Cause, Contributor, Hang, LockCause, Responsible, Segment, SegmentKind, Wait, WaitId,
};
use wakepath_engine::{CallName, Head, Object, PathAnswer, Place, Question, Taken, ThreadInfo};
use wakepath_event::Comm;
use wakepath_wait_graph::ThreadIndex;

use super::function::{FunctionJson, function};
use super::hang::{HangJson, hang_document};
use super::head::{HeadJson, since_origin};
use super::{text, write};
use crate::places::frame;
use crate::wording;

/// Writes the document of a path.
pub fn path(answer: &PathAnswer, out: &mut dyn Write) -> io::Result<()> {
    let documents = Documents(answer);
    let path = &answer.path;
    let hang = |hang: &Hang| hang_document(answer.recorded, &answer.head, hang, path.window.to);
    write(
        out,
        &PathJson {
            head: HeadJson::new("wakepath.path/1", &answer.head),
            window: documents.window(),
            question: documents.question(),
            algorithm: match path.algorithm {
                Algorithm::Active => "active",
                Algorithm::Joined => "joined",
                Algorithm::Exact => "exact",
            },
            contributors: answer.contributors.iter().map(|part| documents.contributor(part)).collect(),
            still_waiting: answer.still_waiting.as_ref().map(hang),
            deadlocks: answer.deadlocks.iter().map(|cycle| cycle.iter().map(hang).collect()).collect(),
            samples: documents.samples(),
            waits: Many(|| path.waits.iter().enumerate().map(|(id, wait)| documents.wait(id as u64, wait))),
            segments: Many(|| {
                // One numbering for waits and segments: an id means one thing in a document.
                let first = path.waits.len() as u64;
                let segments = path.segments.iter().enumerate();
                segments.map(move |(number, segment)| Documents(answer).segment(first, number, segment))
            }),
        },
    )
}

#[derive(Serialize)]
struct PathJson<'a, W: Serialize, S: Serialize> {
    #[serde(flatten)]
    head: HeadJson,
    window: WindowJson<'a>,
    question: QuestionJson,
    algorithm: &'static str,
    contributors: Vec<ContributorJson<'a>>,
    still_waiting: Option<HangJson>,
    deadlocks: Vec<Vec<HangJson>>,
    samples: Vec<SampledJson<'a>>,
    waits: W,
    segments: S,
}

/// A list that is made while it is written: a path of a million segments is never a million
/// documents in memory.
struct Many<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Many<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// The thread of a segment; all null where a packet is in flight between hosts.
#[derive(Serialize)]
struct WhoseJson<'a> {
    host: Option<&'a str>,
    pid: Option<u32>,
    tid: Option<u32>,
    comm: Option<String>,
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
struct SegmentJson<'a> {
    from_ns: i64,
    to_ns: i64,
    kind: &'static str,
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    start_ns: Option<i64>,
    cgroup: Option<String>,
    unit: Option<String>,
    id: u64,
    parent: Option<u32>,
    depth: u32,
    via: Option<&'static str>,
    call: Option<String>,
    object: Option<ObjectJson>,
    cause: Option<CauseJson<'a>>,
    basis: &'static str,
    rule: Option<&'static str>,
    error_ns: Option<u64>,
    stack: Option<Vec<String>>,
}

#[derive(Serialize)]
struct WaitJson<'a> {
    id: u64,
    parent: Option<u32>,
    from_ns: i64,
    to_ns: i64,
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    depth: u32,
    via: Option<&'static str>,
    call: Option<String>,
    object: Option<ObjectJson>,
    ended_by: Option<WhoseJson<'a>>,
    lock: Option<LockJson<'a>>,
    basis: &'static str,
    rule: Option<&'static str>,
    stack: Option<Vec<String>>,
    waker_stack: Option<Vec<String>>,
}

#[derive(Serialize)]
struct ContributorJson<'a> {
    #[serde(flatten)]
    whose: WhoseJson<'a>,
    kind: &'static str,
    what: Option<String>,
    call: Option<String>,
    unit: Option<String>,
    segments: u64,
    total_ns: u64,
    share: f64,
}

/// Where a thread was seen running on the path.
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

#[derive(Serialize)]
struct CauseJson<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    what: Option<String>,
    #[serde(flatten)]
    who: WhoseJson<'a>,
    at_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
}

#[derive(Serialize)]
struct LockJson<'a> {
    address: String,
    kernel: bool,
    owner: Option<WhoseJson<'a>>,
}

#[derive(Serialize)]
struct ObjectJson {
    #[serde(rename = "type")]
    kind: &'static str,
    name: Option<String>,
    pid: Option<u32>,
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
        }
    }

    fn segment(&self, first: u64, number: usize, segment: &Segment) -> SegmentJson<'a> {
        let call = self.0.segment_call(segment);
        let who = segment.thread.map(|index| self.0.recorded.thread_at(index, segment.to));
        SegmentJson {
            from_ns: since_origin(self.head(), segment.from),
            to_ns: since_origin(self.head(), segment.to),
            kind: wording::kind_word(segment.kind),
            whose: self.whose(segment.thread, segment.to),
            start_ns: who.and_then(|who| who.start).map(|start| since_origin(self.head(), start)),
            cgroup: who.as_ref().and_then(|who| self.cgroup(who)),
            unit: who.as_ref().and_then(|who| self.unit(who)),
            id: first + number as u64,
            parent: segment.parent.map(|wait| wait.0),
            depth: segment.depth,
            via: wording::via_word(segment.via),
            call: call.as_ref().map(|call| call.name.to_string()),
            object: object(call.as_ref()),
            cause: self.cause(segment),
            basis: wording::basis_word(segment.basis),
            rule: rule(segment.basis),
            error_ns: self.0.recorded.clock_error(segment.thread, segment.from, segment.to),
            stack: self.stack(self.0.stacks.of_segment(number)),
        }
    }

    fn wait(&self, id: u64, wait: &Wait) -> WaitJson<'a> {
        let call = self.0.wait_call(wait);
        WaitJson {
            id,
            parent: wait.parent.map(|wait| wait.0),
            from_ns: since_origin(self.head(), wait.from),
            to_ns: since_origin(self.head(), wait.to),
            whose: self.whose(Some(wait.thread), wait.to),
            depth: wait.depth,
            via: wording::via_word(wait.via),
            call: call.as_ref().map(|call| call.name.to_string()),
            object: object(call.as_ref()),
            ended_by: wait.ended_by.map(|by| self.whose(Some(by), wait.to)),
            lock: wait.lock.map(|lock| self.lock(lock, wait.from)),
            basis: wording::basis_word(wait.basis),
            rule: rule(wait.basis),
            stack: self.stack(self.0.stacks.of_wait(WaitId(id as u32))),
            waker_stack: self.stack(self.0.stacks.of_waker(WaitId(id as u32))),
        }
    }

    /// Frames, innermost first; none where the stack is lost.
    fn stack(&self, taken: Option<Taken>) -> Option<Vec<String>> {
        Some(match taken? {
            Taken::Known(id) => self.0.stacks.stack(id).frames.iter().map(frame).collect(),
            Taken::Lost => Vec::new(),
        })
    }

    fn lock(&self, lock: LockCause, at: Stamp<Reference>) -> LockJson<'a> {
        LockJson {
            address: format!("{:#x}", lock.address),
            kernel: lock.kernel,
            owner: lock.owner.map(|owner| self.whose(Some(owner), at)),
        }
    }

    fn contributor(&self, part: &Contributor) -> ContributorJson<'a> {
        let who = part.thread.map(|index| self.0.thread(index));
        let what = match part.kind {
            SegmentKind::Throttled => who.and_then(|who| crate::rows::limit(self.0, &who)),
            _ => wording::responsible(self.0, Responsible::from(&part.what)),
        };
        let window = self.0.window_ns();
        ContributorJson {
            whose: WhoseJson {
                comm: part.thread.map(|_| text(part.comm.bytes())),
                ..self.whose(part.thread, self.0.path.window.to)
            },
            kind: wording::kind_word(part.kind),
            what,
            call: part.call.map(|call| self.0.recorded.survey.names.call_name(call).into_owned()),
            unit: who.as_ref().and_then(|who| self.unit(who)),
            segments: part.segments,
            total_ns: part.total_ns,
            share: if window == 0 { 0.0 } else { part.total_ns as f64 / window as f64 },
        }
    }

    fn samples(&self) -> Vec<SampledJson<'a>> {
        let of_thread = |((thread, comm), places): (&(ThreadIndex, Comm), &BTreeMap<Place, u64>)| {
            let mut places: Vec<_> = places.iter().collect();
            places.sort_by_key(|(place, count)| (Reverse(**count), *place));
            SampledJson {
                whose: WhoseJson {
                    comm: Some(text(comm.bytes())),
                    ..self.whose(Some(*thread), self.0.path.window.to)
                },
                total: places.iter().map(|(_, count)| **count).sum(),
                places: places
                    .into_iter()
                    .map(|(place, count)| PlaceJson {
                        count: *count,
                        in_kernel: place.in_kernel,
                        leaf: function(&place.leaf),
                        caller: place.caller.as_ref().map(function),
                    })
                    .collect(),
            }
        };
        self.0.sampled.iter().map(of_thread).collect()
    }

    fn cause(&self, segment: &Segment) -> Option<CauseJson<'a>> {
        let (kind, other) = match &segment.cause {
            Cause::None => return None,
            Cause::Competitor(other) => ("competitor", Some(*other)),
            Cause::IdleCpu => ("idle_cpu", None),
            Cause::Timer { .. } => ("timer", None),
            Cause::Block { .. } => ("block_request", None),
            Cause::Network { .. } => ("packet", None),
            Cause::Interrupt { .. } => ("interrupt", None),
            Cause::Lock(lock) => ("lock", lock.owner),
            Cause::StillWaiting => ("still_waiting", None),
            Cause::BeforeRecording => ("before_recording", None),
            Cause::NoWakeupSeen => ("no_wakeup_seen", None),
            Cause::Lost | Cause::Unrecorded => ("lost", None),
            Cause::NotAlive => ("not_alive", None),
        };
        // A device, a timer or a packet ends the segment at its own moment.
        let ends = matches!(
            segment.cause,
            Cause::Timer { .. } | Cause::Block { .. } | Cause::Network { .. } | Cause::Interrupt { .. }
        );
        let names = &self.0.recorded.survey.names;
        let flow = match segment.cause {
            Cause::Network { flow } => flow,
            _ => None,
        };
        Some(CauseJson {
            kind,
            what: wording::responsible(self.0, Responsible::from(&segment.cause)),
            who: self.whose(other, segment.to),
            at_ns: ends.then(|| since_origin(self.head(), segment.to)),
            from: flow.and_then(|flow| names.sender(flow)).map(|peer| peer.address.to_string()),
            to: flow.and_then(|flow| names.receiver(flow)).map(|peer| peer.address.to_string()),
        })
    }
}

fn rule(basis: Basis) -> Option<&'static str> {
    match basis {
        Basis::Inferred(rule) => Some(wording::rule_word(rule)),
        _ => None,
    }
}

fn object(call: Option<&CallName>) -> Option<ObjectJson> {
    Some(match call?.object.as_ref()? {
        Object::File(name) => ObjectJson { kind: "file", name: Some(text(name.bytes())), pid: None },
        Object::Pipe => ObjectJson { kind: "pipe", name: None, pid: None },
        Object::Socket(peer) => ObjectJson {
            kind: "socket",
            name: peer.map(|peer| peer.to_string()),
            pid: peer.and_then(|peer| peer.process).map(|process| process.0),
        },
        Object::Anonymous(name) => {
            ObjectJson { kind: "anonymous", name: Some(text(name.bytes())), pid: None }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use wakepath_critical_path::{Rule, Via};
    use wakepath_engine::{Problem, ProblemKind};
    use wakepath_event::{Comm, Context, Cpu, FlowId, Tid};
    use wakepath_wait_graph::Loss;

    use super::*;
    use crate::json::shape::misfits;
    use crate::sample::{
        DEADLOCK, FUTEX, Story, Told, call, checkout, checkout_stacks, command, disk, path_of,
    };

    const SHAPE: &str = include_str!("../../contract/path.txt");

    fn document(answer: &PathAnswer) -> Value {
        let mut out = Vec::new();
        path(answer, &mut out).expect("a vector takes everything");
        serde_json::from_slice(&out).expect("JSON")
    }

    /// One segment of every kind and every cause, problems and losses.
    fn everything() -> Told {
        let mut story = Story::new();
        let own = story.thread(7, 1, b"own\xff", 7);
        let other = story.thread(8, 1, b"\x1bother", 8);
        story.flow(1, "10.0.0.2:40000", "[fe80::1]:5432");
        story.file(7, 3, 0o140_777, Some(1), "");
        let lock = LockCause { address: 0x7f00_1234, kernel: false, owner: Some(other) };
        let wait = story.wait(100, own, None, call(FUTEX, 0x7f00_1234), Via::Lock, other);
        story.waits[0].lock = Some(lock);
        story.waits[0].basis = Basis::Inferred(Rule::WakingBeforeSwitch);
        story.then(100, other, Some(wait), SegmentKind::Running, Cause::None);
        let causes = [
            (SegmentKind::Runnable, Cause::Competitor(other)),
            (SegmentKind::Runnable, Cause::IdleCpu),
            (SegmentKind::Throttled, Cause::None),
            (SegmentKind::Interrupted, Cause::Interrupt { context: Context::LocalTimer, irq: None }),
            (SegmentKind::Timer, Cause::Timer { context: Context::LocalTimer }),
            (SegmentKind::BlockDevice, disk(true)),
            (SegmentKind::BlockDevice, Cause::Block { request: None, queued: false }),
            (SegmentKind::Network, Cause::Network { flow: Some(FlowId(1)) }),
            (SegmentKind::Network, Cause::Network { flow: None }),
            (SegmentKind::Lock, Cause::Lock(lock)),
            (SegmentKind::UserInput, Cause::Interrupt { context: Context::Device, irq: Some(1) }),
            (SegmentKind::OtherDevice, Cause::Interrupt { context: Context::Device, irq: Some(9) }),
            (SegmentKind::Unknown, Cause::BeforeRecording),
            (SegmentKind::Unknown, Cause::NoWakeupSeen),
            (SegmentKind::Unknown, Cause::Lost),
            (SegmentKind::Unknown, Cause::Unrecorded),
            (SegmentKind::Unknown, Cause::NotAlive),
            (SegmentKind::Unknown, Cause::StillWaiting),
        ];
        for (i, (kind, cause)) in causes.into_iter().enumerate() {
            let segment = story.then(10 + i as u64, own, None, kind, cause);
            segment.call = Some(call(0, 3));
            segment.basis = if i % 2 == 0 { Basis::Ambiguous } else { Basis::Inferred(Rule::LastPacket) };
        }
        story.then(5, own, None, SegmentKind::Network, Cause::None).thread = None;
        story.told()
    }

    #[test]
    fn documents_keep_the_contract() {
        let everything = everything();
        let mut full = everything.answer(command());
        let from = full.path.window.from;
        let problem = Problem::new(ProblemKind::CutOff, from, from.plus(9));
        full.head.problems.push(Problem { thread: Some((Tid(7), Comm::new(b"own"))), ..problem });
        let at = from.minus(5);
        full.head.losses.push(Loss { cpu: Cpu::UNKNOWN, from: at, to: at, count: 0, reported: true });
        let checkout = checkout();
        let mut bare = checkout.answer(Question::Thread);
        bare.head.origin_realtime_ns = None;
        bare.head.cost = None;
        for answer in [&full, &bare] {
            assert_eq!(misfits(SHAPE, &document(answer)), Vec::<String>::new());
        }
        path_of(DEADLOCK, 12, |hung| {
            let document = document(hung);
            assert_eq!(misfits(SHAPE, &document), Vec::<String>::new());
            assert_eq!(document["still_waiting"]["lock"]["owner"]["tid"], 10);
            assert_eq!(document["deadlocks"][0][1]["tid"], 11);
        });
    }

    #[test]
    fn stacks_stand_beside_the_waits_and_a_lost_one_is_empty() {
        let mut story = checkout();
        story.stacks = checkout_stacks;
        let document = document(&story.answer(command()));
        assert_eq!(misfits(SHAPE, &document), Vec::<String>::new());
        let waits = document["waits"].as_array().expect("a list");
        let main = ["save_order (checkout) checkout.c:41", "main (checkout) checkout.c:88"];
        for (id, wait) in waits.iter().enumerate() {
            let stack = wait["stack"].as_array().expect("a list");
            match id {
                9 => assert!(stack.is_empty(), "{stack:?}"),
                14 => assert_eq!(stack[2], "ask_bank (checkout) checkout.c:41"),
                _ => assert_eq!(stack[2..4], main),
            }
            let woken = wait["via"] == "wakeup";
            assert_eq!(wait["waker_stack"].is_null(), !woken);
            assert!(!woken || wait["waker_stack"][1] == "jbd2_journal_commit_transaction (kernel)");
        }
        let last = document["segments"].as_array().and_then(|segments| segments.last()).expect("a segment");
        assert!(last["stack"].is_null(), "it did not wait");
    }

    #[test]
    fn segments_tile_the_window_and_contributors_are_all_of_it() {
        for story in [everything(), checkout()] {
            let document = document(&story.answer(command()));
            let ns = |value: &Value| value.as_i64().expect("an integer");
            let mut at = ns(&document["window"]["from_ns"]);
            for segment in document["segments"].as_array().expect("a list") {
                assert_eq!(ns(&segment["from_ns"]), at);
                at = ns(&segment["to_ns"]);
            }
            assert_eq!(at, ns(&document["window"]["to_ns"]));
            let parts = document["contributors"].as_array().expect("a list");
            let total: i64 = parts.iter().map(|part| ns(&part["total_ns"])).sum();
            assert_eq!(total, at - ns(&document["window"]["from_ns"]));
            let shares: f64 = parts.iter().map(|part| part["share"].as_f64().expect("a number")).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{shares}");
            assert!(parts.is_sorted_by_key(|part| -ns(&part["total_ns"])), "the largest first");
        }
    }

    #[test]
    fn an_id_means_one_thing_and_parents_are_waits() {
        let document = document(&checkout().answer(command()));
        let list = |key: &str| document[key].as_array().expect("a list").clone();
        let waits: BTreeSet<u64> = list("waits").iter().filter_map(|wait| wait["id"].as_u64()).collect();
        let segments: BTreeSet<u64> = list("segments").iter().filter_map(|s| s["id"].as_u64()).collect();
        assert_eq!((waits.len(), segments.len()), (list("waits").len(), list("segments").len()));
        assert!(waits.is_disjoint(&segments));
        for item in list("waits").iter().chain(&list("segments")) {
            assert!(item["parent"].is_null() || waits.contains(&item["parent"].as_u64().expect("an id")));
        }
    }

    #[test]
    fn times_count_from_an_origin_that_no_double_can_hold() {
        let document = document(&checkout().answer(command()));
        assert_eq!(document["origin_ns"], "9007199254740993");
        assert_eq!(document["window"]["from_ns"], 0);
        assert_eq!(document["segments"][0]["to_ns"], 4_000_000);
        let offset: i128 =
            document["clock"]["utc_offset_ns"].as_str().expect("a string").parse().expect("a number");
        let realtime: i128 =
            document["origin_realtime_ns"].as_str().expect("a string").parse().expect("a number");
        assert_eq!(realtime - offset, 9_007_199_254_740_993);
    }

    #[test]
    fn a_part_in_flight_is_nobodys() {
        let document = document(&everything().answer(command()));
        let last = document["segments"].as_array().and_then(|segments| segments.last()).expect("a segment");
        for key in ["host", "pid", "tid", "comm", "start_ns"] {
            assert!(last[key].is_null(), "{key}");
        }
    }

    #[test]
    fn a_name_of_any_bytes_is_valid_json() {
        let document = document(&everything().answer(command()));
        assert_eq!(document["window"]["comm"], "own\\xff");
        assert_eq!(document["segments"][0]["comm"], "\x1bother");
        assert_eq!(document["segments"][8]["cause"]["to"], "[fe80::1]:5432");
    }
}

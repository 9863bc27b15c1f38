//! A path's document: its shape, and its sums.

use std::collections::BTreeSet;

use serde_json::Value;
use wakepath_critical_path::{Basis, Cause, LockCause, Rule, SegmentKind, SignalCause, SignalSender, Via};
use wakepath_engine::{Problem, ProblemKind};
use wakepath_event::{
    CgroupId, Comm, Context, Cpu, EventKind, FlowId, LostRecords, MemoryLimit, NameSpace, SignalEffect, Tid,
};
use wakepath_findings::{
    AwaitedBy, AwaitedWait, Death, DeathPart, KilledBy, LivedUntil, LivesOn, Unheeded, WindowDeath,
};
use wakepath_wait_graph::{Loss, TimerPurpose};

use super::*;
use crate::json::shape;
use crate::sample::{Answered, CUT_SHORT, DEADLOCK, KILLED, command, marked_path, path_of};
use wakepath_findings::testing::{
    FUTEX, FinishedStory, Story, call, checkout, checkout_stacks, disk, held_back,
};

/// The document, which fits its shape.
fn document(answer: &PathAnswer) -> Value {
    shape::document(include_str!("../../../contract/path.txt"), |out| path(answer, &["a.rec".into()], out))
}

fn last_segment(document: &Value) -> &Value {
    document["segments"].as_array().and_then(|segments| segments.last()).expect("a segment")
}

/// A segment for every kind and every cause, problems and losses.
fn everything() -> FinishedStory {
    let mut story = Story::default();
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
        (SegmentKind::BlockDevice, held_back(7)),
        (SegmentKind::Network, Cause::Network { flow: Some(FlowId(1)) }),
        (SegmentKind::Network, Cause::Network { flow: None }),
        (
            SegmentKind::Network,
            Cause::SentByTimer { flow: FlowId(1), purpose: TimerPurpose::Syn { repeats: 1 } },
        ),
        (
            SegmentKind::Network,
            Cause::SentByTimer { flow: FlowId(1), purpose: TimerPurpose::Acknowledgement },
        ),
        (SegmentKind::Network, Cause::SentByTimer { flow: FlowId(1), purpose: TimerPurpose::WindowProbe }),
        (SegmentKind::Lock, Cause::Lock(lock)),
        (SegmentKind::UserInput, Cause::Interrupt { context: Context::Device, irq: Some(1) }),
        (SegmentKind::Queue, Cause::None),
        (SegmentKind::OtherDevice, Cause::Interrupt { context: Context::Device, irq: Some(9) }),
        (
            SegmentKind::Stopped,
            Cause::Signal(SignalCause {
                number: 18,
                effect: SignalEffect::GoesOn,
                sender: SignalSender::Thread(other),
            }),
        ),
        (SegmentKind::Unknown, Cause::BeforeRecording),
        (SegmentKind::Unknown, Cause::AfterRecording),
        (SegmentKind::Unknown, Cause::NoWakeupSeen),
        (SegmentKind::Unknown, Cause::Lost),
        (SegmentKind::Unknown, Cause::Unrecorded),
        (SegmentKind::Unknown, Cause::StepUnrecorded),
        (SegmentKind::Unknown, Cause::LoopEvent),
        (SegmentKind::Unknown, Cause::NotAlive),
        (SegmentKind::Unknown, Cause::StillWaiting),
        (
            SegmentKind::Unknown,
            Cause::Signal(SignalCause {
                number: 10,
                effect: SignalEffect::GoesOn,
                sender: SignalSender::Thread(other),
            }),
        ),
    ];
    for (i, (kind, cause)) in causes.into_iter().enumerate() {
        let segment = story.then(10 + i as u64, own, None, kind, cause);
        segment.call = Some(call(0, 3));
        segment.basis = if i % 2 == 0 { Basis::Ambiguous } else { Basis::Inferred(Rule::LastPacket) };
    }
    story.then(5, own, None, SegmentKind::Network, Cause::None).thread = None;
    story.finish()
}

/// A death of every kind, and a signal with every end.
fn deaths_and_signals(at: Stamp<Reference>) -> (Vec<WindowDeath>, Vec<Unheeded>) {
    let (own, other) = (ThreadIndex(0), ThreadIndex(1));
    let death = |by| Death { thread: other, process: Tid(8), at, taken: at, signal: 9, by };
    let limit = MemoryLimit { cgroup: CgroupId(7), bytes: 1 << 20, is_high: false };
    let killers = [
        KilledBy::NoMemory(Some(limit)),
        KilledBy::Kernel,
        KilledBy::Itself,
        KilledBy::Thread(own),
        KilledBy::Unknown,
    ];
    let awaited = |by| DeathPart::Awaited(AwaitedWait { waiter: own, since: at, until: at.plus(9), by });
    let parts = [
        awaited(AwaitedBy::Holds),
        awaited(AwaitedBy::WokeBefore(2)),
        awaited(AwaitedBy::Unanswered(at)),
        DeathPart::EndedWait(5),
        DeathPart::Own,
    ];
    let deaths = killers.into_iter().zip(parts).map(|(by, part)| WindowDeath { death: death(by), part });
    let whys = [LivesOn::Ignores, LivesOn::FirstInNamespace, LivesOn::HandlerRan, LivesOn::NotTaken];
    let killed = LivedUntil::Killed(death(KilledBy::Thread(own)));
    let ends = [killed, LivedUntil::Exited, LivedUntil::Lives, killed];
    let signal =
        |(why, end)| Unheeded { target: other, sender: Some(own), signal: 15, at, why, end, lived_ns: 9 };
    (deaths.collect(), whys.into_iter().zip(ends).map(signal).collect())
}

#[test]
fn documents_keep_the_contract() {
    let everything = everything();
    let mut full = everything.answer(command());
    let from = full.path.window.from;
    let problem = Problem::new(ProblemKind::CutOff, from, from.plus(9));
    full.head.problems.push(Problem { thread: Some((Tid(7), Comm::new(b"own"))), ..problem });
    let at = from.minus(5);
    full.head.losses.push(Loss {
        cpu: Cpu::UNKNOWN,
        from: at,
        to: at,
        count: 0,
        records: LostRecords::Any,
        reported: true,
    });
    (full.deaths, full.unheeded) = deaths_and_signals(from);
    let checkout = checkout();
    let mut bare = checkout.answer(Question::Thread);
    bare.head.origin_realtime_ns = None;
    bare.head.cost = None;
    for answer in [&full, &bare] {
        document(answer);
    }
    marked_path(|marked| {
        let state = &document(marked)["user_states"][0];
        assert_eq!(
            (&state["name"], &state["tid"], &state["count"]),
            (&"shop:read\u{1b}".into(), &10.into(), &1.into())
        );
        assert_eq!(state["total_ns"], 850);
    });
    path_of(DEADLOCK, 12, |hung| {
        let document = document(hung);
        assert_eq!(document["still_waiting"]["lock"]["owner"]["tid"], 10);
        assert_eq!(document["deadlocks"][0][1]["tid"], 11);
    });
    path_of(KILLED, 10, |killed| {
        let document = document(killed);
        assert_eq!(document["still_waiting"], serde_json::Value::Null);
        assert_eq!(document["killed"]["lock"]["owner"]["tid"], 11);
        assert_eq!(document["killed"]["signal"]["name"], "SIGINT");
        assert_eq!(document["killed"]["signal"]["sender"]["tid"], 20);
        assert_eq!(document["deadlocks"][0][1]["tid"], 11);
    });
    path_of(CUT_SHORT, 10, |cut| {
        let document = document(cut);
        assert_eq!(document["segments"][1]["cause"]["type"], "signal");
        assert_eq!(document["segments"][1]["cause"]["what"], "SIGALRM from a timer");
    });
}

#[test]
fn stacks_stand_beside_the_waits_and_a_lost_one_is_empty() {
    let mut story = checkout();
    story.stacks = checkout_stacks(&story.path);
    let document = document(&story.answer(command()));
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
    assert!(last_segment(&document)["stack"].is_null(), "it did not wait");
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
    let number = |value: &Value| value.as_str().expect("a string").parse::<i128>().expect("a number");
    let offset = number(&document["clock"]["utc_offset_ns"]);
    assert_eq!(number(&document["origin_realtime_ns"]) - offset, 9_007_199_254_740_993);
}

#[test]
fn a_part_in_flight_is_nobodys() {
    let document = document(&everything().answer(command()));
    let last = last_segment(&document);
    for key in ["host", "pid", "tid", "comm", "start_ns"] {
        assert!(last[key].is_null(), "{key}");
    }
}

#[test]
fn a_name_of_any_bytes_is_valid_json() {
    let document = document(&everything().answer(command()));
    assert_eq!(document["window"]["comm"], "own\\xff");
    assert_eq!(document["segments"][0]["comm"], "\x1bother");
    assert_eq!(document["segments"][9]["cause"]["to"], "[fe80::1]:5432");
}

/// The total ns of a list's elements.
fn total_ns(list: &Value) -> u64 {
    list.as_array().expect("a list").iter().map(|one| one["total_ns"].as_u64().expect("a number")).sum()
}

#[test]
fn the_first_screen_is_in_the_document() {
    let mut story = checkout();
    story.stacks = checkout_stacks(&story.path);
    let document = document(&story.answer(command()));
    let headline = &document["headline"];
    assert_eq!(headline["code"], "disk");
    assert_eq!(
        headline["text"],
        "checkout took 1.19 s: mostly waiting in fdatasync for disk sda (61%, mostly measured)"
    );
    assert_eq!((&headline["row"], &headline["is_most"]), (&0.into(), &true.into()));
    assert_eq!((&headline["total_ns"], &headline["basis"]), (&728_000_000.into(), &"mostly_measured".into()));
    assert_eq!((&headline["who"], &headline["other_reading"]), (&Value::Null, &Value::Null));
    assert_eq!(document["next"], serde_json::json!(["wakepath", "path", "a.rec", "--tree"]));

    let rows = document["rows"].as_array().expect("a list");
    let codes: Vec<_> = rows.iter().map(|row| row["code"].as_str().expect("text")).collect();
    assert_eq!(codes, ["disk", "running", "cpu_limit", "process", "unknown", "cpu"]);
    assert_eq!(rows[0]["what"], "waiting for disk sda");
    assert_eq!(rows[0]["text"], "disk sda, 14 waits in fdatasync of orders.db, through jbd2/sda1-8");
    assert_eq!(rows[0]["basis"], "mostly_measured");
    let call = serde_json::json!([{
        "call": "fdatasync",
        "object": {"type": "file", "name": "orders.db"},
        "waits": 14,
        "total_ns": 728_000_000,
    }]);
    assert_eq!(rows[0]["calls"], call);
    let parts: Vec<_> = rows[0]["parts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|part| (part["what"].as_str().expect("text"), part["kind"].as_str(), part["code"].as_str()))
        .collect();
    let (disk, block) = (Some("block_device"), Some("block_request"));
    assert_eq!(
        parts,
        [("in the device", disk, block), ("in its queue", disk, block), ("in kernel threads", None, None)]
    );
    let seen = |one: &Value| {
        let first = &one["functions"][0];
        (one["total"].as_u64(), first["count"].as_u64(), first["function"].as_str().map(str::to_owned))
    };
    let function = |name: &str| Some(name.to_owned());
    assert_eq!(seen(&rows[0]["waited_in"]), (Some(14), Some(13), function("save_order (checkout)")));
    assert_eq!(seen(&rows[1]["samples"][0]), (Some(24), Some(23), function("compress_block (libz.so.1)")));
    assert_eq!(rows[0]["through"], serde_json::json!(["jbd2/sda1-8"]));
    assert_eq!(rows[3]["processes"], serde_json::json!([912]));
    assert_eq!(rows[3]["users"], serde_json::json!([{"comm": "postgres", "total_ns": 88_000_000}]));
    assert_eq!((&rows[3]["own_ns"], &rows[1]["own_ns"]), (&0.into(), &240_000_000.into()));
    assert!(rows.iter().all(|row| row["shown"] == true));
    for row in rows {
        assert_eq!(total_ns(&row["parts"]), row["total_ns"].as_u64().expect("a number"), "{row}");
    }
}

#[test]
fn a_row_of_garbage_collection_has_the_waits_for_it() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"java", 7);
    let collector = story.thread_of(7, 8, 1, b"GC Thread#0", 7);
    let wait = story.wait(60, own, None, call(FUTEX, 3), Via::Wakeup, collector);
    story.then(20, collector, Some(wait), SegmentKind::Runnable, Cause::None);
    story.then(40, collector, Some(wait), SegmentKind::Running, Cause::None);
    story.then(10, own, None, SegmentKind::Running, Cause::None);
    let document = document(&story.finish().answer(command()));
    let [row, _, other] = document["rows"].as_array().map(Vec::as_slice).expect("rows") else { panic!() };
    assert_eq!((&row["total_ns"], &row["pauses"], &row["paused_ns"]), (&40.into(), &1.into(), &60.into()));
    assert!(other.get("pauses").is_none() && other.get("paused_ns").is_none(), "{other}");
}

#[test]
fn rows_and_contributors_are_the_same_time() {
    for story in [everything(), checkout()] {
        let document = document(&story.answer(command()));
        let window = story.evidence().window_ns();
        assert_eq!((total_ns(&document["rows"]), total_ns(&document["contributors"])), (window, window));
    }
}

#[test]
fn the_headline_says_how_a_window_ended_and_who_is_responsible() {
    let headline = |text: &str, tid| {
        let found = std::cell::RefCell::new(Value::Null);
        path_of(text, tid, |answer| *found.borrow_mut() = document(answer)["headline"].clone());
        found.into_inner()
    };
    let hung = headline(DEADLOCK, 12);
    assert_eq!((&hung["code"], &hung["who"]["tid"]), (&"still_waiting".into(), &10.into()));
    assert_eq!((&hung["who"]["comm"], &hung["who"]["pid"]), (&"left".into(), &10.into()));
    let killed = headline(KILLED, 10);
    assert_eq!((&killed["code"], &killed["who"]["tid"]), (&"killed".into(), &20.into()));
    assert_eq!(headline(CUT_SHORT, 10)["code"], "signal");

    let mut story = Story::default();
    let own = story.thread(7, 1, b"checkout", 7);
    let others = [8, 9].map(|tid| story.thread(tid, 7, b"cc1", 7));
    for other in others {
        let wait = story.wait(30, own, None, call(FUTEX, 3), Via::Wakeup, other);
        story.then(30, other, Some(wait), SegmentKind::Running, Cause::None);
    }
    let compilers = document(&story.finish().answer(command()))["headline"].clone();
    assert_eq!(compilers["code"], "running");
    let who = serde_json::json!({
        "host": "11112222-3333-4444-5555-666677778888",
        "pid": null, "tid": null, "comm": "cc1", "comms": ["cc1"], "processes": 2, "threads": 2,
    });
    assert_eq!(compilers["who"], who);

    let mut story = Story::default();
    story.thread(7, 1, b"checkout", 7);
    let empty = document(&story.finish().answer(command()));
    assert_eq!(
        (&empty["headline"]["code"], &empty["headline"]["basis"]),
        (&"empty_window".into(), &Value::Null)
    );
    assert_eq!(empty["rows"], serde_json::json!([]));
}

#[test]
fn a_script_stands_beside_its_processs_name_and_the_way_to_the_last_thread_in_the_headline() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"git", 7);
    let shell = story.thread(8, 7, b"sh", 7);
    let sleep = story.thread(9, 8, b"sleep", 7);
    story.name(NameSpace::Script, 8, "mon.sh");
    let outer = story.wait(60, own, None, call(FUTEX, 3), Via::Wakeup, shell);
    let inner = story.wait(60, shell, Some(outer), call(FUTEX, 3), Via::Wakeup, sleep);
    story.then(60, sleep, Some(inner), SegmentKind::Timer, Cause::None);
    let direct = story.wait(40, own, None, call(FUTEX, 3), Via::Wakeup, shell);
    story.then(40, shell, Some(direct), SegmentKind::Running, Cause::None);
    let document = document(&story.finish().answer(command()));
    let through = &document["headline"]["through"];
    let [link] = through["threads"].as_array().expect("a list").as_slice() else { panic!("{through}") };
    assert_eq!((&link["tid"], &link["script"], &through["more"]), (&8.into(), &"mon.sh".into(), &0.into()));
    for (what, script) in [
        ("/segments/0", None),
        ("/segments/1", Some("mon.sh")),
        ("/waits/1", Some("mon.sh")),
        ("/waits/1/ended_by", None),
        ("/waits/0/ended_by", Some("mon.sh")),
        ("/window", None),
    ] {
        let named = document.pointer(what).expect("a thread");
        assert_eq!(named.get("script").and_then(Value::as_str), script, "{what}");
    }
    let of_contributors = document["contributors"].as_array().expect("a list").iter();
    assert_eq!(of_contributors.filter(|part| part["script"] == "mon.sh").count(), 1);
}

#[test]
fn a_thread_that_had_another_name_then_has_no_script_beside_it() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"sh", 7);
    story.then(10, own, None, SegmentKind::Running, Cause::None);
    story.add_at(10, EventKind::Rename { tid: Tid(7), comm: Comm::new(b"python3") });
    story.add_at(11, EventKind::Name(NameSpace::Script, 7, b"a.sh".as_slice().into()));
    story.then(9, own, None, SegmentKind::Timer, Cause::None);
    let document = document(&story.finish().answer(command()));
    let names = document["contributors"].as_array().expect("a list").iter();
    let names: Vec<_> = names.map(|part| (&part["comm"], part.get("script").cloned())).collect();
    assert_eq!(names, [(&"sh".into(), None), (&"python3".into(), Some("a.sh".into()))]);
}

#[test]
fn a_wait_for_a_cpu_has_the_others_precedence_and_the_allowed_cpus() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"app", 7);
    let other = story.thread(8, 1, b"batch", 7);
    let mut look = |at, own: &str| {
        for (tid, text) in [(0, ""), (7, own), (8, "nice -5 policy 0 priority 0")] {
            story.add_at(at, EventKind::Name(NameSpace::Scheduling, tid, text.as_bytes().into()));
        }
    };
    let own_text = "nice 19 policy 3 priority 0 cpus 0-1,3 by cpuset /system.slice/shop.service";
    [0, 1000].into_iter().for_each(|at| look(at, own_text));
    story.then(100, own, None, SegmentKind::Runnable, Cause::Competitor(other));
    let story = story.finish();
    let answer = story.answer(command());
    let rows = &document(&answer)["rows"];
    let precedence = serde_json::json!({
        "waiting": {"class": "SCHED_BATCH", "nice": 19, "priority": 0},
        "running": {"class": "SCHED_OTHER", "nice": -5, "priority": 0},
        "comms": ["app"], "running_comms": ["batch"], "running_processes": [8], "total_ns": 100,
    });
    let confined = serde_json::json!({
        "cpus": "0-1,3", "by": "cpuset", "cpuset": "shop.service", "comms": ["app"], "idle_ns": 0, "total_ns": 100,
    });
    assert_eq!((&rows[0]["precedence"], &rows[0]["confined"]), (&precedence, &confined));
    let screen = crate::text::path(&answer, crate::text::Source::Read(""), crate::screen::Layout::PLAIN);
    assert!(screen.contains("app has nice 19, batch nice -5\n"), "{screen}");
    assert!(screen.contains("app may run on CPUs 0-1,3 only (cpuset of shop.service)\n"), "{screen}");
}

//! Garbage collections on the first screen.

use wakepath_critical_path::{Cause, SegmentKind, Via, WaitId};
use wakepath_event::Call;
use wakepath_findings::testing::{Story, call};

use super::*;
use crate::sample::{Answered, command};

#[test]
fn a_pool_is_a_single_row_and_collectors_of_garbage_are_called_that() {
    let told = |names: [&str; 3]| {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"java", 7);
        story.then(10, own, None, SegmentKind::Running, Cause::None);
        for (tid, name, ns) in [(8, names[0], 30), (9, names[1], 50), (10, names[2], 10)] {
            let other = story.thread_of(7, tid, 1, name.as_bytes(), 7);
            let wait = story.wait(ns, own, None, call(Call::FUTEX, 3), Via::Wakeup, other);
            story.then(ns, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        let screen = path(&story.finish().answer(command()), Source::Read(""), Layout::PLAIN);
        let is_collector = names[0].starts_with("GC");
        assert_eq!(
            screen.contains(" java waited for collections 2 times, 80 ns in all with the time "),
            is_collector,
            "{screen}"
        );
        let sentence = screen.split("\n2026").next().map(|lines| lines.replace('\n', " "));
        let row = screen.lines().find_map(|line| Some(line.split_once("  running")?.1.trim().to_owned()));
        (sentence.and_then(|line| Some(line.split_once(": ")?.1.to_owned())), row)
    };
    let some = |headline: &str, row: &str| (Some(headline.to_owned()), Some(row.to_owned()));
    assert_eq!(
        told(["GC Thread#0", "GC Thread#1", "VM Thread"]),
        some(
            "mostly waiting for GC Thread#1 and GC Thread#0, which were running a garbage collection (80%, measured)",
            "a garbage collection: GC Thread#1 and GC Thread#0 (2 threads)"
        )
    );
    assert_eq!(
        told(["pool-0", "pool-1", "pool-2"]),
        some(
            "mostly waiting for pool-1, pool-0 and 1 more, which were running (90%, measured)",
            "pool-1, pool-0 and 1 more (3 threads)"
        )
    );
}

#[test]
fn waits_for_collections_are_a_row_and_the_sentence_that_counts_them() {
    let told = |times: u32| {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"java", 7);
        story.then(10, own, None, SegmentKind::Running, Cause::None);
        let vm = story.thread_of(7, 8, 1, b"VM Thread", 7);
        for _ in 0..times {
            let wait = story.wait(60, own, None, call(Call::FUTEX, 3), Via::Wakeup, vm);
            story.then(40, vm, Some(wait), SegmentKind::Running, Cause::None);
            story.then(20, vm, Some(wait), SegmentKind::Runnable, Cause::IdleCpu);
            story.then(5, own, None, SegmentKind::Running, Cause::None);
        }
        let mut story = story.finish();
        story.stacks = std::mem::take(&mut story.stacks).with_collections((0..times).map(WaitId));
        let screen = path(&story.answer(command()), Source::Read(""), Layout::PLAIN);
        let sentence = screen.split("\n2026").next().map(|lines| lines.replace('\n', " "));
        let row = screen.lines().skip_while(|line| !line.contains("ns  waiting for"));
        (sentence.unwrap_or_default(), row.take(2).map(|line| line.trim().to_owned()).collect::<Vec<_>>())
    };
    let (sentence, rows) = told(1);
    assert_eq!(sentence, "java took 75 ns: mostly waiting for a garbage collection (80%, inferred)");
    assert_eq!(
        rows,
        [
            "80.0%    60 ns  waiting for a garbage collection  inferred",
            "40 ns running, 20 ns waiting for a CPU"
        ]
    );
    let (sentence, rows) = told(2);
    assert_eq!(sentence, "java took 140 ns: mostly waiting for 2 garbage collections (86%, inferred)");
    assert_eq!(rows[0], "85.7%   120 ns  waiting for 2 garbage collections  inferred");
}

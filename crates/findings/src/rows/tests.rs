//! A path's time by rows.

use super::*;
use crate::EndedBy;
use crate::testing::{FUTEX, Story, call, checkout, disk, held_back};
use wakepath_critical_path::{Cause, Via};
use wakepath_event::NameSpace;
use wakepath_loaded::{IoLimit, Unit};

#[test]
fn a_row_is_mostly_in_kernel_threads_where_these_took_more_than_half_of_it() {
    for (kernel_ns, total_ns, expected) in [(51, 100, true), (50, 100, false), (1, 1, true), (0, 0, false)] {
        let other = PartKey::Activity(Activity::plain(SegmentKind::BlockDevice));
        let parts = BTreeMap::from([(PartKey::KernelThreads, kernel_ns), (other, total_ns - kernel_ns)]);
        let row = Row { total_ns, parts, ..Row::default() };
        assert_eq!(row.is_mostly_in_kernel_threads(), expected, "{kernel_ns} of {total_ns}");
    }
    assert!(!Row { total_ns: 9, ..Row::default() }.is_mostly_in_kernel_threads());
}

#[test]
fn what_an_io_limit_held_back_is_no_time_of_the_disk() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"app", 7);
    let worker = story.thread(80, 2, b"kworker/u8:1", 0);
    story.name(NameSpace::BlockDevice, 8 << 20, "sda");
    story.name(NameSpace::IoLimit, 9, "sda wbps=1000 /shop");
    for cgroup in [9, 10] {
        let wait = story.wait(50, own, None, call(75, 5), Via::Wakeup, worker);
        story.then(40, worker, Some(wait), SegmentKind::BlockDevice, held_back(cgroup));
        story.then(6, worker, Some(wait), SegmentKind::BlockDevice, disk(true));
        story.then(3, worker, Some(wait), SegmentKind::BlockDevice, disk(false));
        story.then(1, worker, Some(wait), SegmentKind::Running, Cause::None);
        story.then(1, own, None, SegmentKind::Running, Cause::None);
    }
    let story = story.finish();
    let rows = rows(&story.evidence());
    let limit = |unit: Option<&str>, bytes| {
        let unit = unit.map(|name| Unit::Cgroup(name.into()));
        let (device, reads) = (8 << 20, false);
        RowKey::IoLimit(IoLimit { unit, device, reads, bytes, requests: None, alone: true })
    };
    let sums: Vec<_> = rows.iter().map(|(key, row)| (key.clone(), row.total_ns)).collect();
    let expected = [
        (limit(None, None), 40),
        (limit(Some("shop"), Some(1000)), 40),
        (RowKey::Disk(Some(8 << 20), DiskUse::Flush), 20),
        (RowKey::Running(Comm::new(b"app")), 2),
    ];
    assert_eq!(sums, expected);
    let waits: Vec<u64> =
        rows.iter().map(|(_, row)| row.calls.values().map(|waits| waits.count).sum()).collect();
    assert_eq!(waits, [1, 1, 0, 0], "a wait counts where it begins");
}

#[test]
fn another_processs_io_limit_is_a_part_of_the_wait_for_it() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"app", 7);
    let redis = story.thread(20, 1, b"redis", 20);
    story.name(NameSpace::IoLimit, 9, "sda wbps=1000 /shop");
    let wait = story.wait(50, own, None, call(0, 5), Via::Wakeup, redis);
    let sync = story.wait(45, redis, Some(wait), call(75, 3), Via::Wakeup, redis);
    story.then(40, redis, Some(sync), SegmentKind::BlockDevice, held_back(9));
    story.then(5, redis, Some(sync), SegmentKind::BlockDevice, disk(false));
    story.then(5, redis, Some(wait), SegmentKind::Running, Cause::None);
    let story = story.finish();
    let rows = rows(&story.evidence());
    let [(RowKey::Process(..), row)] = &rows[..] else { panic!("{rows:?}") };
    let held: u64 = row.parts.iter().filter(|(key, _)| is_held_back(key)).map(|(_, ns)| ns).sum();
    assert_eq!((row.total_ns, held), (50, 40));
}

fn is_held_back(key: &PartKey) -> bool {
    matches!(key, PartKey::Activity(Activity { blamed: Blamed::IoLimit(_), .. }))
}

#[test]
fn the_rows_are_the_whole_window() {
    let story = checkout();
    let evidence = story.evidence();
    let total: u64 = rows(&evidence).iter().map(|(_, row)| row.total_ns).sum();
    assert_eq!(total, evidence.window_ns());
}

#[test]
fn waits_for_a_disk_in_flushes_are_a_row_of_their_own_also_through_kernel_threads() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"app", 7);
    let jbd2 = story.thread(9, 2, b"jbd2/sda1-8", 2);
    for (number, ns) in [(74, 10), (0, 5), (75, 3), (1, 2)] {
        let wait = story.wait(ns + 1, own, None, call(number, 5), Via::Wakeup, jbd2);
        story.then(ns, jbd2, Some(wait), SegmentKind::BlockDevice, disk(false));
        story.then(1, jbd2, Some(wait), SegmentKind::Running, Cause::None);
    }
    story.then(4, own, None, SegmentKind::BlockDevice, disk(false)).call = Some(call(306, 0));
    story.then(6, own, None, SegmentKind::BlockDevice, disk(false));
    let story = story.finish();
    let rows = rows(&story.evidence());
    let sums: Vec<_> = rows.iter().map(|(key, row)| (key.clone(), row.total_ns)).collect();
    let sda = |use_of| RowKey::Disk(Some(8 << 20), use_of);
    assert_eq!(sums, [(sda(DiskUse::Flush), 19), (sda(DiskUse::Transfer), 15)]);
}

#[test]
fn the_threads_of_a_pool_share_a_row_of_a_path_and_not_of_a_call() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"app", 7);
    for (tid, name, ns) in [(8, b"worker-0", 10), (9, b"worker-1", 30), (10, b"worker3x", 5)] {
        let worker = story.thread_of(7, tid, 1, name, 7);
        let wait = story.wait(ns, own, None, call(FUTEX, 3), Via::Wakeup, worker);
        story.then(ns, worker, Some(wait), SegmentKind::Running, Cause::None);
    }
    let story = story.finish();
    let sums = |rows: Vec<(RowKey, Row)>| -> Vec<_> {
        rows.into_iter().map(|(key, row)| (key, row.total_ns, row.threads.len())).collect()
    };
    let ran = |name: &[u8], ns, threads| (RowKey::Running(Comm::new(name)), ns, threads);
    let evidence = story.evidence();
    assert_eq!(sums(super::rows(&evidence)), [ran(b"worker-", 40, 2), ran(b"worker3x", 5, 1)]);
    let by = |name: &[u8], ns| (RowKey::Thread(Comm::new(name), EndedBy::WakeUp), ns, 1);
    let of_call = sums(rows_of_call(&evidence));
    assert_eq!(of_call, [by(b"worker-1", 30), by(b"worker-0", 10), by(b"worker3x", 5)]);
}

#[test]
fn a_wait_for_a_cpu_has_own_threads_that_had_it_for_most_of_the_time() {
    let behind = |times: [u64; 3]| {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let pool = story.thread_of(7, 8, 1, b"pool", 7);
        let child = story.thread(9, 7, b"child", 7);
        let other = story.thread(20, 1, b"other", 20);
        for (ns, had) in times.into_iter().zip([pool, child, other]) {
            story.then(ns, own, None, SegmentKind::Runnable, Cause::Competitor(had));
            story.then(1, own, None, SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let evidence = story.evidence();
        let rows = rows(&evidence);
        let cpu = &rows.iter().find(|(key, _)| *key == RowKey::Cpu).expect("a wait for a CPU").1;
        let competitors = cpu.own_competitors().map(|(threads, elsewhere)| (threads.len(), elsewhere));
        (cpu.behind_own.0, cpu.behind_others.0, competitors)
    };
    assert_eq!(behind([30, 21, 50]), (30, 21, Some((1, false))));
    assert_eq!(behind([25, 26, 50]), (25, 26, Some((1, true))), "mostly a process of its own");
    assert_eq!(behind([0, 51, 50]), (0, 51, Some((1, true))));
    assert_eq!(behind([51, 0, 50]), (51, 0, Some((1, false))));
    assert_eq!(behind([30, 20, 50]), (30, 20, None), "half is not most");
}

#[test]
fn a_call_names_first_who_ended_its_waits_and_then_what_that_one_did() {
    let mut story = Story::default();
    let own = story.thread(7, 1, b"app", 7);
    let indexer = story.thread(8, 7, b"indexer", 7);
    let flusher = story.thread(9, 7, b"flusher", 7);
    let backend = story.thread(20, 1, b"backend", 20);
    let sleep = story.thread(30, 1, b"sleep", 30);
    let lock = story.wait(14, own, None, call(FUTEX, 3), Via::Lock, indexer);
    story.then(10, indexer, Some(lock), SegmentKind::Timer, Cause::None).call = Some(call(35, 0));
    let flush = story.wait(4, indexer, Some(lock), call(FUTEX, 4), Via::Wakeup, flusher);
    story.then(4, flusher, Some(flush), SegmentKind::Running, Cause::None);
    story.then(1, own, None, SegmentKind::Running, Cause::None);
    let query = story.wait(8, own, None, call(0, 5), Via::Packet, backend);
    story.then(3, backend, Some(query), SegmentKind::Running, Cause::None);
    let inner = story.wait(5, backend, Some(query), call(0, 6), Via::Wakeup, sleep);
    story.then(5, sleep, Some(inner), SegmentKind::Timer, Cause::None).call = Some(call(35, 0));
    story.then(1, own, None, SegmentKind::Running, Cause::None);
    let pipe = story.wait(2, own, None, call(0, 7), Via::Wakeup, indexer);
    story.then(2, indexer, Some(pipe), SegmentKind::Runnable, Cause::None);
    story.then(1, own, None, SegmentKind::Running, Cause::None);
    let packet = story.wait(1, own, None, call(0, 8), Via::Packet, flusher);
    story.then(1, flusher, Some(packet), SegmentKind::Running, Cause::None);
    story.then(1, own, None, SegmentKind::Running, Cause::None);
    let story = story.finish();
    let evidence = story.evidence();

    let rows = rows_of_call(&evidence);
    let keys: Vec<_> = rows.iter().map(|(key, row)| (key.clone(), row.total_ns)).collect();
    let thread = |name: &[u8], by| RowKey::Thread(Comm::new(name), by);
    assert_eq!(
        keys,
        [
            (thread(b"indexer", EndedBy::Release), 14),
            (RowKey::Process(Comm::new(b"backend"), None), 8),
            (RowKey::Running(Comm::new(b"app")), 4),
            (thread(b"indexer", EndedBy::WakeUp), 2),
            (thread(b"flusher", EndedBy::Packet), 1),
        ]
    );
    // A thread outside the key is named at the end of the wait chain.
    let ends = |row: &Row| {
        let ends = row.ends.iter().map(|(key, end)| (key.thread, end.ns));
        ends.collect::<Vec<_>>()
    };
    assert_eq!(ends(&rows[0].1), [(Some(Comm::new(b"flusher")), 4), (None, 10)]);
    assert_eq!(ends(&rows[1].1), [(None, 3), (Some(Comm::new(b"sleep")), 5)]);
    // The waits belong to the call's own thread, and count once each.
    let waits =
        |row: &Row| row.calls.iter().map(|(call, waits)| (call.number, waits.count)).collect::<Vec<_>>();
    assert_eq!([waits(&rows[0].1), waits(&rows[1].1)], [[(FUTEX, 1)], [(0, 1)]]);
    // A path's first screen shows the own threads' activities.
    let own = super::rows(&evidence).into_iter().map(|(key, _)| key);
    assert!(own.into_iter().all(|key| !matches!(key, RowKey::Thread(..))));
}

#[test]
fn time_outs_are_for_the_object_with_most_of_their_time() {
    let file = |name: &str| Some(Object::File(name.into()));
    let object = |calls: &[(u32, Option<Object>, u64)]| {
        let mut row = Row::default();
        for (number, object, ns) in calls.iter().cloned() {
            row.calls.insert(CallName { number, object }, Waits { count: 1, ns });
        }
        row.timed_out_object().map(|(object, others)| (object.clone(), others))
    };
    let (a, b) = (file("a"), file("b"));
    let both = [(0, a.clone(), 30), (7, a.clone(), 30), (0, b.clone(), 50), (0, None, 9)];
    assert_eq!(object(&both), a.clone().map(|a| (a, 2)), "of both calls together");
    assert_eq!(object(&[(0, a.clone(), 50), (0, b, 50)]), a.map(|a| (a, 1)), "the first of equal ones");
    assert_eq!(object(&[(0, None, 50), (0, file("c"), 9)]), None);
    assert_eq!(object(&[(0, Some(Object::Anonymous("[eventfd]".into())), 50)]), None);
    assert_eq!(object(&[]), None);
}

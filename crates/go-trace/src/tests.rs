//! Steps from traces that are made of text; damaged traces.

use super::*;
use crate::synthetic::{self, check, damage, steps, trace};

#[test]
fn a_mutex_names_the_goroutine_that_gave_it_up() {
    check(
        &["stack 1 sync.runtime_SemacquireMutex@90 internal/sync.(*Mutex).lockSlow@80 main.work@70
           7 100 status 5 7 2
           7 100 start 5 1
           8 105 start 6 1
           8 110 block sync 1
           7 130 unblock 6 2 0
           7 131 stop preempted 0
           8 132 start 6 3
           8 140 destroy"],
        &[
            "100 7 5 found",
            "100 7 5 runs",
            "105 8 6 runs",
            "110 8 6 parks: sync.Mutex.Lock",
            "130 7 6 ready, by 5",
            "131 7 5 yields",
            "132 8 6 runs",
            "140 8 6 ends",
        ],
    );
}

#[test]
fn the_stack_decides_what_a_goroutine_waits_for_where_the_reason_is_coarse() {
    for (reason, function, expected) in [
        ("sync", "sync.(*Mutex).Lock", "sync.Mutex.Lock"),
        ("sync", "sync.(*RWMutex).RLock", "sync.RWMutex.RLock"),
        ("sync", "sync.(*RWMutex).Lock", "sync.RWMutex.Lock"),
        ("sync", "sync.(*WaitGroup).Wait", "sync.WaitGroup.Wait"),
        ("sync", "os.(*fdMutex).rwlock", "semacquire"),
        ("sync.(*Cond).Wait", "main.main", "sync.Cond.Wait"),
        ("network", "main.main", "IO wait"),
        ("chan_receive", "sync.(*Mutex).Lock", "chan receive"),
        ("sleep", "main.main", "sleep"),
    ] {
        let text = format!("stack 1 {function}@80\n7 100 start 5 1\n7 110 block {reason} 1");
        check(&[&text], &["100 7 5 runs", &format!("110 7 5 parks: {expected}")]);
    }
}

#[test]
fn the_innermost_function_decides() {
    // `RWMutex.Lock` first waits for its own mutex.
    check(
        &["stack 1 sync.(*Mutex).Lock@80 sync.(*RWMutex).Lock@70
           7 100 start 5 1
           7 110 block sync 1"],
        &["100 7 5 runs", "110 7 5 parks: sync.Mutex.Lock"],
    );
}

#[test]
fn the_poller_makes_no_goroutine_ready_and_a_closed_connection_does() {
    let text = |by: &str| {
        format!(
            "stack 1 internal/poll.runtime_pollUnblock@9 internal/poll.(*FD).Close@8
             stack 2 runtime.gcStart@7
             7 100 start 5 1
             7 110 block network 0
             7 120 start 6 1
             {by}
             8 140 start 5 3"
        )
    };
    let [runs, parks, other, again] =
        ["100 7 5 runs", "110 7 5 parks: IO wait", "120 7 6 runs", "140 8 5 runs"];
    // A thread without a goroutine looks, or a goroutine's thread, when it collects garbage.
    for poller in ["9 130 unblock 5 2 0", "7 130 unblock 5 2 2"] {
        check(&[&text(poller)], &[runs, parks, other, again]);
    }
    check(&[&text("7 130 unblock 5 2 1")], &[runs, parks, other, "130 7 5 ready, by 6", again]);
}

#[test]
fn a_timer_makes_a_sleeper_ready_and_of_a_park_from_before_the_trace_only_a_goroutine_is_known_to_end_it() {
    check(
        &["7 100 start 5 1
           7 110 block sleep 0
           9 150 unblock 5 2 0
           9 151 start 5 3
           9 152 unblock 8 1 0
           7 160 unblock 9 1 0
           7 170 start 9 2"],
        &[
            "100 7 5 runs",
            "110 7 5 parks: sleep",
            "150 9 5 ready",
            "151 9 5 runs",
            "152 9 8 ready, by 5",
            "170 7 9 runs",
        ],
    );
}

#[test]
fn a_new_goroutine_names_its_parent_once_and_its_function_when_it_leaves() {
    let bytes = trace(
        26,
        &["stack 3 main.handle@5001
           7 100 start 5 1
           7 110 create 6 3 0
           7 120 block select 0
           7 130 start 6 1
           7 140 stop preempted 0
           7 150 start 6 2
           7 160 destroy"],
    );
    let trace = read(&bytes).expect("a trace");
    assert_eq!(
        steps(&trace),
        [
            "100 7 5 runs",
            "120 7 5 parks: select",
            "130 7 6 runs, by 5",
            "140 7 6 yields",
            "150 7 6 runs",
            "160 7 6 ends"
        ]
    );
    let began_in: Vec<_> = trace.steps.iter().map(|step| step.began_in).collect();
    assert_eq!(
        began_in,
        [0, 0, 5000, 5000, 5000, 5000],
        "the stack has the place behind the first instruction"
    );
}

#[test]
fn a_system_call_keeps_its_thread_until_its_processor_is_gone() {
    check(
        &["7 100 start 5 1
           7 110 syscall 1 0
           7 120 syscall_end
           7 130 syscall 2 0
           8 135 start 6 1
           7 140 syscall_end_blocked
           7 150 start 5 2"],
        &["100 7 5 runs", "135 8 6 runs", "140 7 5 yields", "150 7 5 runs"],
    );
}

#[test]
fn threads_of_other_languages_enter_and_leave_goroutines() {
    check(&["9 100 enter 40\n9 110 leave"], &["100 9 40 runs", "110 9 40 ends"]);
}

#[test]
fn coroutines_hand_their_thread_over() {
    check(
        &["7 100 start 5 1
           7 110 create_blocked 6 0 0
           7 120 switch 6 1
           7 130 switch 5 2
           7 140 switch 6 2
           7 150 switch_destroy 5 3"],
        &[
            "100 7 5 runs",
            "120 7 6 ready, by 5",
            "120 7 5 parks: coroutine",
            "120 7 6 runs, by 5",
            "130 7 5 ready, by 6",
            "130 7 6 parks: coroutine",
            "130 7 5 runs",
            "140 7 6 ready, by 5",
            "140 7 5 parks: coroutine",
            "140 7 6 runs",
            "150 7 5 ready, by 6",
            "150 7 6 ends",
            "150 7 5 runs",
        ],
    );
}

#[test]
fn a_goroutine_in_a_long_system_call_is_found_from_the_beginning_on() {
    // The thread itself writes nothing; another writes its status at the end. Waiting and ready goroutines are in no thread.
    check(
        &["7 100 start 5 1
           7 190 status_stack 6 8 3 0
           7 191 status 9 18446744073709551615 4
           7 192 status 10 18446744073709551615 1"],
        &["100 8 6 found", "100 7 5 runs"],
    );
    check(&["7 100 status 5 7 2\n7 110 block sleep 0"], &["100 7 5 found", "110 7 5 parks: sleep"]);
}

#[test]
fn generations_go_on_where_the_last_one_ended() {
    let bytes = trace(
        26,
        &[
            "7 100 start 5 1\n7 110 block sleep 0\n9 120 heap 5\n9 130 heap 5",
            "7 140 status 5 18446744073709551615 4\n7 140 unblock 5 1 0\n7 150 start 5 2\n8 120 start 6 1",
            "7 160 status 5 7 2\n7 170 destroy",
        ],
    );
    let trace = read(&bytes).expect("a trace");
    assert_eq!(
        steps(&trace),
        [
            "100 7 5 runs",
            "110 7 5 parks: sleep",
            // A thread may write into the next generation before another ends the last.
            "130 8 6 runs",
            "140 7 5 ready",
            "150 7 5 runs",
            "170 7 5 ends"
        ]
    );
    assert_eq!((trace.from_ns, trace.to_ns, trace.latest_ns), (6400, 10_880, 640));
}

#[test]
fn the_counters_of_a_goroutine_decide_where_the_stamps_do_not() {
    // Equal stamps, and a stamp that is a little late.
    check(
        &["7 100 start 5 1
           7 110 block chan_receive 0
           7 120 start 5 3
           8 110 start 6 1
           8 125 unblock 5 2 0
           9 126 start 8 1"],
        &[
            "100 7 5 runs",
            "110 7 5 parks: chan receive",
            "110 8 6 runs",
            "125 8 5 ready, by 6",
            "125 7 5 runs",
            "126 9 8 runs",
        ],
    );
    let late = read(&trace(26, &["7 100 start 5 1\n7 120 start 5 3\n8 125 unblock 5 2 0"])).expect("a trace");
    assert_eq!(late.latest_ns, 5 * UNIT_NS);
}

#[test]
fn an_event_does_not_wait_for_one_that_is_missing() {
    // Number 2 is not there, or far too late.
    check(
        &["7 100 start 5 1\n7 120 start 5 3\n8 10000 heap 1\n7 10010 destroy"],
        &["100 7 5 runs", "120 7 5 runs", "10010 7 5 ends"],
    );
    check(&["7 100 start 5 3\n7 110 destroy"], &["100 7 5 runs", "110 7 5 ends"]);
    // Two with one number.
    check(&["7 100 start 5 2\n8 101 start 5 2\n9 102 heap 1"], &["101 8 5 runs", "102 7 5 runs"]);
}

#[test]
fn every_version_is_read_and_others_are_refused() {
    for version in [22, 23, 25, 26] {
        let bytes = trace(version, &["7 100 start 5 1", "7 110 destroy"]);
        let read = read(&bytes).expect("a trace");
        assert_eq!(
            (read.version, steps(&read)),
            (version, vec!["100 7 5 runs".into(), "110 7 5 ends".into()])
        );
    }
    for version in [11, 21, 27] {
        let error = read(&trace(version, &["7 100 start 5 1"])).expect_err("unknown");
        assert_eq!(error, Error::Version(version));
    }
    for other in [
        &b""[..],
        b"go 1.26 trace\0\0",
        b"go 1.2x trace\0\0\0",
        b"go 1.26 trace\0\0x",
        b"GO 1.26 trace\0\0\0",
    ] {
        assert_eq!(read(other), Err(Error::NoTrace), "{other:?}");
        assert!(!is_trace(other));
    }
    assert_eq!(read(&synthetic::header(26)), Err(Error::Empty));
    assert!(is_trace(&synthetic::header(26)));
}

#[test]
fn a_trace_that_is_cut_anywhere_gives_its_whole_generations() {
    for version in [23, 26] {
        let mut bytes = synthetic::header(version);
        let mut ends = Vec::new();
        for (of, text) in [(1, "7 100 start 5 1"), (2, "7 110 stop preempted 0"), (3, "7 120 start 5 1")] {
            synthetic::generation(&mut bytes, version, of, text);
            ends.push(bytes.len());
        }
        for cut in 16..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count();
            match read(&bytes[..cut]) {
                Ok(trace) => {
                    assert_eq!(trace.steps.len(), whole, "version {version}, cut at {cut}");
                    let is_at_end = ends.contains(&cut);
                    assert_eq!(
                        trace.fault.is_none(),
                        is_at_end,
                        "version {version}, cut at {cut}: {:?}",
                        trace.fault
                    );
                }
                Err(error) => {
                    assert_eq!(whole, 0, "version {version}, cut at {cut}: {error}");
                    assert_eq!(error == Error::Empty, cut == 16, "{error}");
                }
            }
        }
    }
}

#[test]
fn no_size_is_believed() {
    let with = |events: &[u8]| {
        let mut bytes = synthetic::header(26);
        synthetic::batch(&mut bytes, 1, 7, 100, events);
        synthetic::frequency(&mut bytes, 26, 1, synthetic::FREQUENCY);
        bytes.push(52);
        bytes
    };
    let at = |place: usize| 16 + 5 + place;
    // An unknown event, and one that is cut.
    assert_eq!(damage(&with(&[53, 0])), Fault::Record { at: at(0) });
    assert_eq!(damage(&with(&[17, 1, 16, 0, 5])), Fault::Record { at: at(2) });
    // Kinds that stand in no thread's batch.
    assert_eq!(damage(&with(&[17, 1, 49, 1])), Fault::Record { at: at(2) });
    for (frames, expected) in [(128, true), (129, false)] {
        let mut stacks = vec![2, 3, 1];
        synthetic::number(&mut stacks, frames);
        stacks.extend((0..frames * 4).map(|_| 9));
        let mut bytes = synthetic::header(26);
        synthetic::generation(&mut bytes, 26, 1, "7 100 start 5 1");
        bytes.pop();
        synthetic::batch(&mut bytes, 1, 7, 100, &stacks);
        bytes.push(52);
        assert_eq!(read(&bytes).is_ok(), expected, "{frames} frames");
    }
    // A string longer than its batch, a stack with too many frames, a stack that is cut.
    assert_eq!(damage(&with(&[4, 5, 1, 100, b'x'])), Fault::Record { at: at(1) });
    assert_eq!(damage(&with(&[2, 3, 1, 129, 1])), Fault::Record { at: at(1) });
    assert_eq!(damage(&with(&[2, 3, 1, 1, 9, 9, 9])), Fault::Record { at: at(1) });
    let mut bytes = synthetic::header(26);
    bytes.extend([1, 1, 7, 100, 0x81, 0x80, 4]);
    assert_eq!(damage(&bytes), Fault::Batch { at: 16, claimed: 65_537 });
    let mut bytes = synthetic::header(26);
    bytes.extend([2, 1]);
    assert_eq!(damage(&bytes), Fault::Record { at: 16 });
}

#[test]
fn stamps_by_another_clock_are_refused() {
    let with = |sync: &[u8]| {
        let mut bytes = synthetic::header(26);
        synthetic::batch(&mut bytes, 1, 7, 100, &[17, 0]);
        synthetic::batch(&mut bytes, 1, u64::MAX, 1000, sync);
        bytes.push(52);
        bytes
    };
    let frequency = |units| {
        let mut sync = vec![50, 8];
        synthetic::number(&mut sync, units);
        sync
    };
    let snapshot = |clock_ns| {
        let mut sync = frequency(synthetic::FREQUENCY);
        sync.push(51);
        [24, clock_ns, 1_700_000_000, 5].into_iter().for_each(|one| synthetic::number(&mut sync, one));
        sync
    };
    assert_eq!(damage(&with(&frequency(9_000_000))), Fault::Frequency(9_000_000));
    assert_eq!(damage(&with(&[50])), Fault::NoFrequency { at: with(&[50]).len() - 1 });
    assert!(read(&with(&snapshot(1024 * UNIT_NS - 30))).is_ok());
    let far = 1024 * UNIT_NS + 2_000_000_000;
    assert_eq!(damage(&with(&snapshot(far))), Fault::Apart(2_000_000_000));
}

#[test]
fn generations_come_in_order() {
    for (version, numbers, expected) in [
        (26, &[1, 2][..], None),
        (26, &[2, 1], Some(1)),
        (26, &[1, 1], Some(1)),
        (23, &[1, 2], None),
        (23, &[1, 3], Some(0)),
    ] {
        let mut bytes = synthetic::header(version);
        for (of, text) in numbers.iter().zip(["7 100 start 5 1", "7 110 destroy"]) {
            synthetic::generation(&mut bytes, version, *of, text);
        }
        let trace = read(&bytes);
        let whole = trace.as_ref().map_or(0, |trace| if trace.fault.is_none() { 2 } else { 1 });
        assert_eq!(whole, expected.unwrap_or(2), "{version} {numbers:?}: {trace:?}");
    }
}

#[test]
fn events_without_a_goroutine_or_a_thread_make_no_step() {
    let none = u64::MAX;
    check(
        &[&format!(
            "7 100 destroy\n7 101 block sleep 0\n7 102 stop x 0\n{none} 103 start 5 1\n7 104 start 0 1"
        )],
        &[],
    );
}

#[test]
fn more_reasons_than_numbers_share_the_last() {
    let mut text = String::new();
    for number in 0..300 {
        text += &format!(
            "7 {} start 5 {}\n7 {} block reason{number}x 0\n",
            100 + number,
            number + 1,
            100 + number
        );
    }
    let trace = read(&trace(26, &[&text])).expect("a trace");
    assert_eq!(trace.reasons.len(), 256);
    assert_eq!(trace.steps.last().map(|step| step.kind), Some(StepKind::Parks(255)));
}

#[test]
fn any_bytes_give_an_answer() {
    let whole = trace(
        26,
        &["stack 1 a@5 b@6\n7 100 status 5 7 2\n7 101 create 6 1 1\n7 102 block sync 1\n8 103 start 6 1\n8 104 unblock 5 1 1";
            2],
    );
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random() % 4 {
            let place = 16 + random() % (bytes.len() - 16);
            bytes[place] = random() as u8;
        }
        if let Ok(trace) = read(&bytes) {
            assert!(trace.steps.is_sorted_by_key(|step| step.at_ns), "by time");
            assert!(trace.steps.len() <= 3 * bytes.len() && trace.from_ns <= trace.to_ns);
        }
    }
}

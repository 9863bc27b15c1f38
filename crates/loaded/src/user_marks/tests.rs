//! Marks become states and intervals, in the right threads.

use wakepath_event::{Event, EventKind};

use super::*;
use crate::testing::{event, read};

/// Marks: time, name, thread, and the field `id`, or 0 for none.
fn marks(marks: &[(u64, &str, u32, u32)]) -> Vec<Event> {
    let one = |&(at, name, thread, id): &(u64, &str, u32, u32)| {
        let fields: Vec<(Arc<str>, Box<str>)> =
            if id == 0 { Vec::new() } else { vec![("id".into(), id.to_string().into())] };
        let mark = UserMark {
            name: name.into(),
            process: Some(Tid(7)),
            thread: Some(Tid(thread)),
            fields: fields.into(),
        };
        event(at, 0, 0, EventKind::UserMark(Box::new(mark)))
    };
    marks.iter().map(one).collect()
}

fn lost(from: u64, to: u64) -> Event {
    event(to, 1, 0, EventKind::UserMarksLost { from: Stamp::from_ns(from), count: 1 })
}

/// The stretches with a name: begin, last mark, and end.
fn found(events: &[Event], name: &str, kind: StretchKind) -> Vec<(Option<u64>, u64, StretchEnd)> {
    let stretches = Stretches::new(&read(events));
    let index = stretches.names.iter().position(|one| *one == (name.to_owned(), kind)).expect("the name");
    let with_name = stretches.all.iter().filter(|one| one.name == index);
    with_name.map(|one| (one.from.map(Stamp::ns), one.to.ns(), one.end)).collect()
}

#[test]
fn two_marks_of_a_thread_enclose_a_state_if_only_the_last_words_of_their_names_differ() {
    use StretchEnd::Seen;
    for (begin, end, name) in [
        ("shop:order_begin", "shop:order_end", "shop:order"),
        ("shop:order_start", "shop:order_stop", "shop:order"),
        ("shop:order_start", "shop:order_end", "shop:order"),
        ("cyg:func_entry", "cyg:func_exit", "cyg:func"),
        ("shop:enter", "shop:leave", "shop"),
        ("p:lock_req", "p:lock_acq", "p:lock"),
    ] {
        let events = marks(&[(10, begin, 7, 0), (30, end, 7, 0)]);
        assert_eq!(found(&events, name, StretchKind::State), [(Some(10), 30, Seen)], "{begin}");
    }
    let others = marks(&[
        (10, "a:x_begin", 7, 0),
        (20, "b:x_end", 7, 0),
        (30, "a:x_stop", 7, 0),
        (40, "a:beat", 7, 0),
    ]);
    let kinds: Vec<_> = Stretches::new(&read(&others)).names.into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, [StretchKind::Interval; 4], "no pair");
}

#[test]
fn states_nest_and_each_thread_has_its_own() {
    use StretchEnd::{Open, Seen, Unseen};
    let events = marks(&[
        (10, "a:f_entry", 7, 0),
        (20, "a:f_entry", 7, 0),
        (25, "a:f_exit", 8, 0),
        (30, "a:f_exit", 7, 0),
        (40, "a:f_exit", 7, 0),
        (50, "a:f_entry", 8, 0),
    ]);
    let expected = [(None, 25, Unseen), (Some(20), 30, Seen), (Some(10), 40, Seen), (Some(50), 50, Open)];
    assert_eq!(found(&events, "a:f", StretchKind::State), expected);
}

#[test]
fn the_ids_of_a_states_marks_agree() {
    use StretchEnd::{Open, Seen, Unseen};
    let events = marks(&[
        (10, "a:order_begin", 7, 1),
        (20, "a:order_begin", 7, 2),
        (30, "a:order_end", 7, 1),
        (40, "a:order_end", 7, 9),
    ]);
    let expected = [(Some(10), 30, Seen), (None, 40, Unseen), (Some(20), 20, Open)];
    assert_eq!(found(&events, "a:order", StretchKind::State), expected);
}

#[test]
fn a_stretch_in_which_marks_may_be_lost_is_not_measured() {
    use StretchEnd::{Seen, Unseen};
    let mut events = marks(&[
        (10, "a:x_begin", 7, 0),
        (20, "a:x_end", 7, 0),
        (30, "a:x_begin", 7, 0),
        (50, "a:x_end", 7, 0),
        (60, "a:x_begin", 7, 0),
        (70, "a:x_end", 7, 0),
        (80, "a:x_begin", 7, 0),
    ]);
    // Between the marks at 30 and 50; and a loss from mark to mark.
    events.push(lost(40, 45));
    events.push(lost(20, 30));
    events.push(lost(85, 90));
    events.sort_by_key(|event| event.at);
    let expected =
        [(Some(10), 20, Seen), (Some(30), 50, Unseen), (Some(60), 70, Seen), (Some(80), 80, Unseen)];
    let mut whole = events.clone();
    whole.extend(marks(&[(95, "b:beat", 7, 0)]));
    assert_eq!(found(&whole, "a:x", StretchKind::State), expected);
    let times = found(&events, "a:x_begin", StretchKind::Interval);
    assert_eq!(times, [(Some(10), 30, Unseen), (Some(30), 60, Unseen), (Some(60), 80, Seen)]);
}

/// Threads 7 and 107 both have the number 7 in their own pid namespaces; 8 has its own.
const TWO_NAMESPACES: &str = "
    thread app tid=7
    thread boxed tid=107 ns=7/7
    thread other tid=8
    1 c0 idle started
    2 c0 idle switch boxed
    2 c1 idle switch app
    3 c2 idle switch other
";

/// The tids of these marks' threads: CPU, thread, process.
fn placed(marks: &[(u16, u32, Option<u32>)]) -> (Vec<Option<u32>>, u64) {
    let mut events = wakepath_scenario::text::parse(TWO_NAMESPACES).expect("a trace").events;
    for (at, &(cpu, thread, process)) in (10..).zip(marks) {
        let mark = UserMark {
            name: "a:b".into(),
            process: process.map(Tid),
            thread: Some(Tid(thread)),
            fields: Box::default(),
        };
        events.push(event(at, cpu, 0, EventKind::UserMark(Box::new(mark))));
    }
    events.push(event(90, 0, 107, EventKind::Current));
    let recorded = read(&events);
    let (threads, unplaced) = threads(&recorded);
    let tid = |thread: ThreadIndex| recorded.graph.thread(thread).tid().0;
    (threads.into_iter().map(|thread| thread.map(tid)).collect(), unplaced)
}

#[test]
fn the_thread_of_a_mark_is_the_one_with_its_number_that_had_its_cpu() {
    assert_eq!(placed(&[(0, 7, None), (1, 7, None)]), (vec![Some(107), Some(7)], 0), "by the CPU");
    assert_eq!(placed(&[(2, 8, Some(8))]), (vec![Some(8)], 0), "by both");
    assert_eq!(placed(&[(3, 8, Some(8))]), (vec![Some(8)], 0), "nothing is known of the CPU");
    assert_eq!(placed(&[(3, 7, None)]), (vec![None], 1), "two have the number");
    assert_eq!(placed(&[(2, 9, None)]), (vec![None], 1), "none has the number");
    // Another thread had the CPU each time: a number by chance.
    assert_eq!(placed(&[(0, 8, None), (1, 8, None)]), (vec![None, None], 2));
    // A mark may stand in its thread's previous CPU's buffer.
    assert_eq!(placed(&[(2, 8, None), (0, 8, None), (2, 8, None)]), (vec![Some(8); 3], 0));
    assert_eq!(placed(&[(2, 8, Some(99))]), (vec![None], 1), "the number is another process's thread's");
}

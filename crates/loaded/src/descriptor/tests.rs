//! Tests for descriptors, polled sets and pipes.

use wakepath_event::{Event, EventKind};

use super::*;
use crate::testing::{call, event, file, flow};

fn names(files: &[(u64, u32, u32, Option<u64>, &str)]) -> Names {
    let mut names = Names::default();
    for &(at, fd, mode, flow, name) in files {
        names.observe(&event(at, 0, 7, file(7, fd, mode, flow, name)));
    }
    names
}

#[test]
fn a_workers_request_is_named_as_such_with_its_file() {
    const FILE: u64 = 0x8000_0007;
    let names = names(&[(10, FILE as u32, 0o100_644, None, "wal")]);
    let call = |number, arg0| names.call(&call(number, arg0), Some(Tid(7)), Stamp::from_ns(20));
    let sync = call(74 | Call::REQUEST, FILE);
    assert_eq!((&*call_name(sync.number), sync.object), ("io_uring fsync", Some(Object::File("wal".into()))));
    assert_eq!(call(257 | Call::REQUEST, FILE).object, None, "openat has no descriptor");
    assert_eq!(call_name(Call::REQUEST | 9_999), "system call 1073751823");
    assert_eq!(call_name(Call::PAGE_FAULT), "page fault");
}

#[test]
fn a_descriptor_means_what_it_meant_at_that_moment() {
    let names = names(&[(10, 5, 0o100_644, None, "orders.db"), (20, 5, 0o010_600, None, "")]);
    let object = |at| names.call(&call(75, 5), Some(Tid(7)), Stamp::from_ns(at)).object;
    assert_eq!(object(10), Some(Object::File("orders.db".into())));
    assert_eq!(object(19), Some(Object::File("orders.db".into())));
    assert_eq!(object(20), Some(Object::Pipe));
}

#[test]
fn a_descriptor_has_no_object_before_its_first_record_but_for_the_time_in_which_that_is_made() {
    const FIRST: u64 = 1_000_000;
    let mut names = names(&[(FIRST, 5, 0o140_600, Some(9), ""), (FIRST, 6, 0o010_600, None, "")]);
    let key = |at| names.call_key(&call(0, 5), Some(Tid(7)), Stamp::from_ns(at));
    for (at, is_known) in [
        (0, false),
        (FIRST - MAX_RECORD_DELAY_NS - 1, false),
        (FIRST - MAX_RECORD_DELAY_NS, true),
        (FIRST - 1, true),
        (FIRST, true),
    ] {
        let known = (names.spell(key(at)).object.is_some(), names.socket(key(at)).is_some());
        assert_eq!(known, (is_known, is_known), "{at}");
    }
    // A poll of this descriptor alone has none either.
    const SET: u64 = Call::EMPTY_SET | 5;
    names.observe(&member(FIRST, SET, 6, 1));
    let poll = |at| names.call(&call(7, SET), Some(Tid(7)), Stamp::from_ns(at)).object;
    assert_eq!((poll(0), poll(FIRST)), (None, Some(Object::Pipe)));
}

#[test]
fn a_call_without_a_descriptor_has_no_object() {
    let names = names(&[(10, 5, 0o100_644, None, "orders.db")]);
    // The first argument of 202 (futex) and 230 (clock_nanosleep) is no descriptor, though it may look like
    // one.
    for number in [202, 230, 9999] {
        let found = names.call(&call(number, 5), Some(Tid(7)), Stamp::from_ns(10));
        assert_eq!(found.object, None, "{number}");
    }
    assert_eq!(call_name(9999), "system call 9999");
}

fn member(at: u64, set: u64, fd: u32, total: u32) -> Event {
    event(at, 0, 7, EventKind::SetMember(SetMember { set, tgid: Tid(7), fd, total }))
}

#[test]
fn a_killed_process_could_write_to_the_pipe_that_a_call_reads_or_polls_alone() {
    const ALONE: u64 = Call::EMPTY_SET | 5;
    const BOTH: u64 = Call::EMPTY_SET | 6;
    const TAKEN: u64 = 2_000_000_000;
    let mut names = Names::default();
    let pipe = |tgid, fd, mode, inode| {
        let EventKind::File(file) = file(tgid, fd, mode, None, "") else { panic!("a file") };
        EventKind::File(FileName { inode, ..file })
    };
    names.observe(&event(10, 0, 7, pipe(7, 5, 0o010_600, 77)));
    names.observe(&event(10, 0, 7, pipe(7, 6, 0o010_600, 78)));
    for (set, fd, total) in [(ALONE, 5, 1), (BOTH, 5, 2), (BOTH, 6, 2)] {
        names.observe(&member(11, set, fd, total));
    }
    names.observe(&event(TAKEN, 0, 9, pipe(9, 0, DYING_WRITER, 77)));
    let could_write = |names: &Names, call: (u32, u64), writer, taken| {
        let call = self::call(call.0, call.1);
        let reader = (&call, Tid(7), Stamp::from_ns(20));
        names.could_write(reader, (Tid(writer), Stamp::from_ns(taken)))
    };
    for number in [0, 19] {
        assert_eq!([5, 6].map(|fd| could_write(&names, (number, fd), 9, TAKEN)), [true, false]);
    }
    for number in Call::POLLS {
        assert_eq!([ALONE, BOTH].map(|set| could_write(&names, (number, set), 9, TAKEN)), [true, false]);
    }
    // Standard output.
    names.observe(&event(10, 0, 7, pipe(7, 1, 0o010_600, 77)));
    const OUTPUT: u64 = Call::EMPTY_SET | 16;
    names.observe(&member(11, OUTPUT, 1, 1));
    assert_eq!([(7, OUTPUT), (0, 1)].map(|call| could_write(&names, call, 9, TAKEN)), [false, true]);
    for other in [(1, 5), (202, 5), (232, 5)] {
        assert!(!could_write(&names, other, 9, TAKEN), "{other:?}");
    }
    assert!(!could_write(&names, (0, 5), 8, TAKEN), "another process");
    let second = 1_000_000_000;
    let times = [TAKEN - second, TAKEN - second + 1, TAKEN + second - 1, TAKEN + second];
    assert_eq!(times.map(|taken| could_write(&names, (0, 5), 9, taken)), [false, true, true, false]);
}

#[test]
fn a_poll_of_one_descriptor_is_about_its_object_then() {
    const SET: u64 = Call::EMPTY_SET | 5;
    let mut names = names(&[(10, 5, 0o010_600, None, ""), (30, 5, 0o100_644, None, "orders.db")]);
    names.observe(&member(11, SET, 5, 1));
    for number in Call::POLLS {
        let at = |at, arg0| names.call(&call(number, arg0), Some(Tid(7)), Stamp::from_ns(at)).object;
        assert_eq!(at(20, SET), Some(Object::Pipe));
        assert_eq!(at(30, SET), Some(Object::File("orders.db".into())));
        // Another set, an address, an unreadable set, no descriptors.
        for other in [SET + 1, 5, Call::NO_ARGUMENT, Call::EMPTY_SET] {
            assert_eq!(at(20, other), None, "{other:#x}");
        }
    }
    let other = |tgid, number| names.call(&call(number, SET), Some(Tid(tgid)), Stamp::from_ns(20)).object;
    assert_eq!((other(8, 7), other(7, 202)), (None, None), "another process, no poll");
}

#[test]
fn a_wait_for_a_set_of_the_kernel_is_about_the_descriptor_that_was_ready() {
    let names = names(&[(10, 4, 0, None, "[eventpoll]"), (10, 5, 0, None, "[timerfd]")]);
    let key = |number, end: WaitEnd| {
        let call = call(number, 4).with_end(end);
        names.call_key(&call, Some(Tid(7)), Stamp::from_ns(20))
    };
    let known = |number, end| {
        let key = key(number, end);
        (names.spell(key).object, key.is_of_ready_descriptor(), key.timer_end())
    };
    let object = |name: &str| Some(Object::Anonymous(name.into()));
    for number in Call::EPOLLS {
        let ready = (object("[timerfd]"), true, TimerEnd::Descriptor);
        assert_eq!(known(number, WaitEnd::Ready(5)), ready);
        assert_eq!(known(number, WaitEnd::Ready(6)), (None, true, TimerEnd::Descriptor), "no file is known");
        let nothing = (object("[eventpoll]"), false, TimerEnd::TimedOut);
        assert_eq!(known(number, WaitEnd::NothingReady), nothing);
        assert_eq!(known(number, WaitEnd::NotKnown), (object("[eventpoll]"), false, TimerEnd::Either));
    }
    let uring = (object("[eventpoll]"), false, TimerEnd::Either);
    assert_eq!(known(Call::IO_URING_ENTER, WaitEnd::NotKnown), uring, "a request may be a timer");
    assert_eq!(known(0, WaitEnd::NotKnown).2, TimerEnd::TimedOut, "a read has one descriptor");
    let window = key(44, WaitEnd::WindowClosed);
    assert!(window.waits_for_window() && window.timer_end() == TimerEnd::TimedOut);
    assert!(!key(44, WaitEnd::NotKnown).waits_for_window());
    let polled = call(7, Call::EMPTY_SET | 5).with_end(WaitEnd::TimerMember);
    assert_eq!(names.call_key(&polled, None, Stamp::from_ns(20)).timer_end(), TimerEnd::Either);
}

#[test]
fn a_set_has_each_object_once_and_the_number_of_all_descriptors() {
    const SET: u64 = Call::EMPTY_SET | 5;
    let mut names = names(&[
        (10, 5, 0o010_600, None, ""),
        (10, 6, 0o010_600, None, ""),
        (10, 7, 0o100_644, None, "orders.db"),
    ]);
    let object = |names: &Names| names.call(&call(7, SET), Some(Tid(7)), Stamp::from_ns(99)).object;
    // Descriptor 8 has no meaning. Two CPUs record the same set.
    for _ in 0..2 {
        for fd in [5, 6, 7, 8] {
            names.observe(&member(11, SET, fd, 4));
        }
    }
    // The descriptor's next meaning is not the set's.
    names.observe(&event(20, 0, 7, file(7, 7, 0o100_644, None, "later.db")));
    let all = vec![Object::File("orders.db".into()), Object::Pipe];
    assert_eq!(object(&names), Some(Object::AnyOf(all.clone(), SetSize::Known(4))));
    let key = |names: &Names| names.call_key(&call(7, SET), Some(Tid(7)), Stamp::from_ns(99));
    assert!(!names.polls(key(&names), FlowId(9)));
    names.observe(&event(12, 0, 7, file(7, 30, 0o140_600, Some(9), "")));
    names.observe(&member(12, SET, 30, 5));
    assert!(names.polls(key(&names), FlowId(9)));
    assert!(!names.polls(key(&names), FlowId(8)));
    // The same socket alone, in another set.
    const ALONE: u64 = SET + 16;
    let of_one = |names: &Names| names.call_key(&call(7, ALONE), Some(Tid(7)), Stamp::from_ns(99));
    assert!(!names.polls(of_one(&names), FlowId(9)), "the set is not known");
    names.observe(&member(13, ALONE, 30, 1));
    assert!(names.polls(of_one(&names), FlowId(9)));
    assert!(!names.polls(of_one(&names), FlowId(8)));
    for fd in 9..40 {
        names.observe(&event(21, 0, 7, file(7, fd, 0o140_600, None, "")));
        names.observe(&member(22, SET, fd, 17));
    }
    let all = [all, vec![Object::Socket(None)]].concat();
    assert_eq!(object(&names), Some(Object::AnyOf(all, SetSize::MoreThan(16))));
    assert_eq!(names.files.sets[&(Tid(7), SET)].members.len(), 16);
}

#[test]
fn a_set_of_as_many_descriptors_as_are_recorded_is_known_whole() {
    const SET: u64 = Call::EMPTY_SET | 5;
    for (total, size) in [
        (2, SetSize::Known(2)),
        (15, SetSize::Known(15)),
        (16, SetSize::Known(16)),
        (17, SetSize::MoreThan(16)),
        (u32::MAX, SetSize::MoreThan(16)),
    ] {
        let mut names = names(&[(10, 0, 0o010_600, None, "")]);
        // A set of two stays a set if a member's record is lost.
        for fd in 0..if total == 2 { 1 } else { total.min(17) } {
            names.observe(&member(11, SET, fd, total));
        }
        let object = names.call(&call(7, SET), Some(Tid(7)), Stamp::from_ns(20)).object;
        assert_eq!(object, Some(Object::AnyOf(vec![Object::Pipe], size)), "{total}");
    }
}

#[test]
fn a_connected_socket_is_named_by_its_other_end() {
    let mut names = names(&[(10, 3, 0o140_777, Some(1), "")]);
    let read = |names: &Names| names.call_key(&call(0, 3), Some(Tid(7)), Stamp::from_ns(10));
    let socket = |names: &Names| names.spell(read(names)).object;
    assert_eq!(socket(&names), Some(Object::Socket(None)));
    let [own, address] = ["127.0.0.1:1", "127.0.0.1:5432"];
    names.observe(&event(0, 0, 0, flow(1, own, address)));
    let end = Endpoint { protocol: 6, address: address.parse().expect("an address") };
    assert_eq!(socket(&names), Some(Object::Socket(Some(end))));
    let own = own.parse().expect("an address");
    assert_eq!(names.peer(read(&names)), Some(Peer { own, end, process: None }));
    assert_eq!(names.socket(read(&names)), Some(FlowId(1)));
    assert_eq!(names.socket(names.call_key(&call(0, 4), Some(Tid(7)), Stamp::from_ns(10))), None);
}

#[test]
fn a_call_sleeps_if_nothing_but_its_timer_can_end_it() {
    let names = Names::default();
    let sleeps = |number, arg0| {
        let key = names.call_key(&call(number, arg0), Some(Tid(7)), Stamp::from_ns(20));
        (key.name().into_owned(), key.is_sleep())
    };
    for (number, arg0, name, sleeps_in_it) in [
        (35, 0, "nanosleep", true),
        (230, 0, "clock_nanosleep", true),
        (7, Call::EMPTY_SET, "poll", true),
        (7, Call::EMPTY_SET | 5, "poll", false),
        (0, 5, "read", false),
        (Call::PAGE_FAULT, 0, "page fault", false),
    ] {
        assert_eq!(sleeps(number, arg0), (String::from(name), sleeps_in_it), "{arg0:#x}");
    }
}

#[test]
fn a_call_is_for_descriptors_if_it_has_one_or_polls_some() {
    let is = |number| CallName { number, object: None }.is_for_descriptors();
    // The calls read, epoll_wait, poll and select; futex, nanosleep, and a nameless call.
    assert!([0, 232, 7, 23].into_iter().all(is));
    assert!(![202, 35, 9_999].into_iter().any(is));
}

#[test]
fn a_file_without_a_name_is_no_object() {
    for mode in [0o100_644, 0] {
        let names = names(&[(10, 5, mode, None, "")]);
        let object = names.call(&call(0, 5), Some(Tid(7)), Stamp::from_ns(20)).object;
        assert_eq!(object, None, "{mode:o}");
    }
}

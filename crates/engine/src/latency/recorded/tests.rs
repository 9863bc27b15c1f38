//! Latencies in a recording, against drawn traces with known times.

use wakepath_clock::Stamp;
use wakepath_event::{EventKind, FunctionCall, Mark, NameSpace, Tid};
use wakepath_timeline::Numbering;

use super::*;
use crate::{Answer, Host, Subject, path};
use wakepath_loaded::testing::{event, read, thread};

/// Two threads of a process, and a thread of another process, which the first started. The lines give the times.
const TRACE: &str = "
thread a tid=10
thread b tid=11 tgid=10
thread other tid=20 parent=10
thread kernel tid=30
   0 c0 idle   started
   0 c0 idle   switch a
   0 c1 idle   switch b
 100 c0 a      switch idle blocked call=202:0x1000 op=0 value=2 claim=b
 164 c1 b      waking a                    # 64 in a futex
 170 c1 b      migrate a c0 c1             # one wait, in two queues
 172 c1 b      migrate a c1 c0
 180 c0 idle   switch a                    # waited 16 for a CPU
 300 c0 a      switch other                # who waited for it since before the recording
 400 c0 other  switch a                    # 100
 420 c0 a      lock 0xff owner=b
 430 c0 a      switch idle blocked=uninterruptible
 558 c1 b      waking a
 560 c0 idle   switch a                    # 2
 562 c0 a      unlock 0xff                 # 142 for a kernel lock
 600 c0 a      issue 1
 700 c0 a      issue 2
 856 c0 a      complete 1                  # 256 on the disk
 900 c0 a      switch idle throttled
 930 c0 idle   refill
 950 c0 idle   switch a                    # 50, of which 30 by the limit
1000 c0 a      switch other blocked call=0:3  # 600 for the other
1050 c1 b      switch idle runnable
1100 c0 other  stopped
";

fn recorded(more: &[EventKind]) -> Recorded {
    let mut events = wakepath_scenario::text::parse(TRACE).expect("a trace").events;
    let names = [
        (NameSpace::Target, 0, "./app:handle_get"),
        (NameSpace::Target, 1, "./app:handle_put"),
        (NameSpace::BlockDevice, 8 << 20, "sda"),
    ];
    let names = names.map(|(space, id, name)| EventKind::Name(space, id, name.as_bytes().into()));
    events.splice(4..4, more.iter().cloned().chain(names).map(|what| event(0, 0, 0, what)));
    for (target, thread, from, to, end) in [
        (0, 10, 110, 174, CallEnd::Returned),
        (0, 11, 100, 1050, CallEnd::Open),
        (0, 20, 310, 390, CallEnd::Returned),
        (1, 10, 200, 700, CallEnd::Unwound),
    ] {
        let call = FunctionCall { target, thread: Tid(thread), from: Stamp::from_ns(from), end };
        let before = events.partition_point(|event| event.at.ns() <= to);
        events.insert(before, event(to, 1, 11, EventKind::Function(call)));
    }
    read(&events)
}

/// The thread with this id.
fn thread_of(tid: u32) -> ThreadFilter {
    ThreadFilter::Subject(Subject::Tid(Tid(tid)))
}

/// The sum of all counted latencies, ns.
fn total(latency: &RecordedLatency) -> u128 {
    latency.targets.iter().map(|target| target.histogram.sum()).sum()
}

fn of(whom: ThreadFilter, targets: &[&str]) -> RecordedQuery {
    RecordedQuery {
        targets: targets.iter().map(|&target| target.to_owned()).collect(),
        threads: whom,
        ..RecordedQuery::default()
    }
}

/// The answer to a question: each target's name, the number and sum of its latencies, and the calls not in them.
fn ask(recorded: &Recorded, query: &RecordedQuery) -> String {
    let told = match recorded_latency(recorded, query) {
        Ok(told) => told.targets,
        Err(error) => return error.to_string(),
    };
    let tell = |found: &Distribution| {
        let mut text = format!("{} {} of {}", found.target, found.histogram.calls(), found.histogram.sum());
        for (n, what) in [(found.unwound, "left"), (found.open, "open"), (found.unseen, "unseen")] {
            if n > 0 {
                text.push_str(&format!(" {n} {what}"));
            }
        }
        text
    };
    told.iter().map(tell).collect::<Vec<_>>().join(", ")
}

#[test]
fn each_target_is_counted_from_where_it_begins_to_where_it_ends() {
    let recorded = recorded(&[]);
    for (target, expected) in [
        ("runqueue", "runqueue 5 of 768 1 open 1 unseen"),
        ("blocked:futex", "blocked:futex 1 of 64"),
        ("blocked:*", "blocked:read 0 of 0 1 open, blocked:futex 1 of 64"),
        ("blocked:fsync", "blocked:fsync 0 of 0"),
        ("lock:user", "lock:user 1 of 64"),
        ("lock:kernel", "lock:kernel 1 of 142"),
        ("lock", "lock 2 of 206"),
        ("disk", "disk 1 of 256 1 open"),
        ("disk:sda", "disk:sda 1 of 256 1 open"),
        ("./app:handle_get", "./app:handle_get 2 of 144 1 open"),
        ("handle_put", "./app:handle_put 0 of 0 1 left"),
        ("handle_*", "./app:handle_get 2 of 144 1 open, ./app:handle_put 0 of 0 1 left"),
    ] {
        assert_eq!(ask(&recorded, &of(ThreadFilter::All, &[target])), expected);
    }
    let several = of(ThreadFilter::All, &["disk", "runqueue", "disk"]);
    assert_eq!(ask(&recorded, &several), "disk 1 of 256 1 open, runqueue 5 of 768 1 open 1 unseen");
    let told = recorded_latency(&recorded, &of(ThreadFilter::All, &["runqueue"])).expect("an answer");
    let buckets: Vec<_> = (0..64).filter(|&bucket| told.targets[0].histogram.counts()[bucket] > 0).collect();
    assert_eq!(buckets, [1, 4, 5, 6, 9]);
    assert_eq!(
        told.targets[0].notes.join("; "),
        "in the whole recording, a CPU limit kept threads off the CPU in 1 of these waits, for 0.000 ms in all"
    );
}

#[test]
fn a_wait_whose_beginning_or_end_nobody_saw_is_counted_apart() {
    let trace = "
thread a tid=10
thread b tid=11 blocked
thread c tid=12 blocked
thread d tid=13 blocked
thread e tid=14 blocked
   0 c0 idle   started
   0 c1 idle   switch idle
 100 c0 a      waking #20
 164 c0 a      switch #20 runnable
 200 c0 #20    switch a blocked
 250 c0 a      fork new tid=30             # its waking is never seen
 300 c0 a      switch new runnable
 400 c0 new    switch a blocked            # 100
 500 c0 a      waking b
 600 c1 idle   loss from=450 count=9
 700 c1 b      switch idle blocked         # its switch-in was lost
 800 c0 a      waking b
 840 c0 a      switch c blocked call=0:3   # its waking was lost
 900 c0 c      switch b blocked            # 100
1000 c0 b      waking d
1200 c1 idle   loss from=1150 count=9
1300 c1 d      switch idle blocked         # its switch-in was lost, later than it was woken
1310 c0 b      switch a blocked            # as was this one's
1320 c0 a      waking e
1330 c0 a      waking e newborn            # so that the other one is dead
1400 c0 a      stopped
";
    let mut events = wakepath_scenario::text::parse(trace).expect("a trace").events;
    let before = events.partition_point(|event| event.at.ns() <= 150);
    // An event had shown it by then.
    events.insert(before, event(150, 0, 10, thread(20, 20, 1, "late")));
    let recorded = read(&events);
    let told = |tid| ask(&recorded, &of(thread_of(tid), &["runqueue"]));
    for (tid, expected) in [
        (10, "runqueue 2 of 136 1 unseen"),
        (20, "runqueue 1 of 64"),
        (30, "runqueue 0 of 0 1 unseen"),
        (11, "runqueue 1 of 100 1 unseen"),
        (12, "runqueue 0 of 0 1 unseen"),
        (13, "runqueue 0 of 0 1 unseen"),
    ] {
        assert_eq!(told(tid), expected, "{tid}");
    }
    let everyone = of(ThreadFilter::All, &["runqueue", "blocked:read"]);
    assert_eq!(ask(&recorded, &everyone), "runqueue 4 of 300 1 open 6 unseen, blocked:read 0 of 0 1 unseen");
}

#[test]
fn who_ran_for_no_time_at_all_has_waited_twice_and_who_was_let_go_by_a_limit_once() {
    let trace = "
thread a tid=10
thread b tid=11
        0 c0 idle started
        0 c0 idle switch a
 10000000 c0 a    switch b    runnable
 12000000 c0 b    switch a    runnable    # a: 2 ms
 12000000 c0 a    switch b    runnable
 15000000 c0 b    switch a    throttled   # a: 3 ms
 20000000 c0 a    switch b    blocked     # b: 5 ms, of which 5 by the limit
 20000000 c0 b    switch idle throttled
 24000000 c0 idle refill
 30000000 c0 idle switch b                # 10 ms, of which 4
 40000000 c0 b    stopped
";
    let recorded = read(&wakepath_scenario::text::parse(trace).expect("a trace").events);
    for (tid, expected) in [(10, "runqueue 2 of 5000000"), (11, "runqueue 2 of 15000000 1 unseen")] {
        assert_eq!(ask(&recorded, &of(thread_of(tid), &["runqueue"])), expected);
    }
    let told = recorded_latency(&recorded, &of(ThreadFilter::All, &["runqueue"])).expect("an answer");
    assert_eq!(
        told.targets[0].notes.join("; "),
        "in the whole recording, a CPU limit kept threads off the CPU in 2 of these waits, for 9.000 ms in all"
    );
}

#[test]
fn whose_latencies_are_counted_is_as_the_recording_was_made_or_as_it_is_asked() {
    let command = EventKind::Mark(Mark::Command { tgid: Tid(20), words: b"./other".as_slice().into() });
    let all = "runqueue 5 of 768 1 open 1 unseen";
    for (mark, whom, expected) in [
        (None, ThreadFilter::Recorded, all),
        (Some(command.clone()), ThreadFilter::Recorded, "runqueue 1 of 600 1 unseen"),
        (Some(command), ThreadFilter::All, all),
        (Some(EventKind::Mark(Mark::Target(Tid(20)))), ThreadFilter::Recorded, "runqueue 1 of 600 1 unseen"),
        (None, ThreadFilter::Processes(vec![Tid(20)]), "runqueue 1 of 600 1 unseen"),
        // With its descendants.
        (None, ThreadFilter::Processes(vec![Tid(10)]), all),
        (None, ThreadFilter::Processes(vec![Tid(30)]), "runqueue 0 of 0"),
        (None, ThreadFilter::Processes(vec![Tid(11)]), "no process 11 in this recording"),
        (None, thread_of(11), "runqueue 0 of 0 1 open"),
        (None, thread_of(10), "runqueue 4 of 168"),
        (None, ThreadFilter::Subject(Subject::Pid(Tid(10))), "runqueue 4 of 168 1 open"),
    ] {
        let recorded = recorded(mark.as_slice());
        assert_eq!(ask(&recorded, &of(whom.clone(), &["runqueue"])), expected, "{whom:?}");
    }
    let recorded = recorded(&[]);
    let calls = of(thread_of(20), &["handle_get", "lock:kernel"]);
    assert_eq!(ask(&recorded, &calls), "./app:handle_get 1 of 80, lock:kernel 0 of 0");
}

#[test]
fn windows_side_by_side_and_parts_of_the_time_add_up_to_the_whole() {
    let recorded = recorded(&[]);
    let targets = ["runqueue", "blocked:futex", "lock", "disk", "handle_get", "handle_put"];
    let whole = recorded_latency(&recorded, &of(ThreadFilter::All, &targets)).expect("an answer");
    let ends = [0, 164, 180, 181, 400, 562, 700, 856, 1099, 1100];
    for (index, target) in whole.targets.iter().enumerate() {
        let (mut sum, mut calls, mut lost) = (0, 0, 0);
        for ends in ends.windows(2) {
            let part = RecordedQuery {
                from: Some(TimeSpec::AfterStart(ends[0])),
                to: Some(TimeSpec::AfterStart(ends[1])),
                ..of(ThreadFilter::All, &targets)
            };
            let part = recorded_latency(&recorded, &part).expect("an answer");
            let part = &part.targets[index];
            sum += part.histogram.sum();
            calls += part.histogram.calls();
            lost += part.unseen + part.unwound;
        }
        assert_eq!((sum, calls), (target.histogram.sum(), target.histogram.calls()), "{}", target.target);
        assert_eq!(lost, target.unseen + target.unwound, "{}", target.target);
    }
    for every in [1, 7, 100, 1100, 5000] {
        let query =
            RecordedQuery { every: Some(Duration::from_nanos(every)), ..of(ThreadFilter::All, &targets) };
        for target in recorded_latency(&recorded, &query).expect("an answer").targets {
            let calls = target.slices.iter().map(|slice| slice.histogram.calls()).sum::<u64>();
            assert_eq!(calls, target.histogram.calls(), "{every} {}", target.target);
            let last = target.slices.last().expect("a part").to;
            assert_eq!(last, Duration::from_nanos(1100), "{every} {}", target.target);
        }
    }
}

#[test]
fn segments_are_those_of_the_path() {
    let recorded = recorded(&[]);
    let mut query = of(thread_of(10), &["segment:*"]);
    let asked = PathQuery { subject: Subject::Tid(Tid(10)), ..PathQuery::default() };
    let Ok(Answer::Paths(paths)) = path(&recorded, &asked) else { panic!("a thread has a path") };
    let told = recorded_latency(&recorded, &query).expect("an answer");
    assert!(told.targets.len() > 2, "{told:?}");
    for target in &told.targets {
        let of_kind = paths[0].path.segments.iter();
        let of_kind = of_kind.filter(|segment| format!("segment:{}", segment.kind.name()) == target.target);
        let mut expected = wakepath_distribution::Histogram::new(wakepath_distribution::Unit::Nanoseconds);
        of_kind.for_each(|segment| expected.add(segment.to.since(segment.from)));
        assert_eq!(target.histogram, expected, "{}", target.target);
    }
    assert_eq!(total(&told), 1100, "segments tile the window");
    for (from, to) in [(0, 100), (130, 170), (420, 1000), (1000, 1100)] {
        let part = RecordedQuery {
            from: Some(TimeSpec::AfterStart(from)),
            to: Some(TimeSpec::AfterStart(to)),
            ..query.clone()
        };
        let told = recorded_latency(&recorded, &part).expect("an answer");
        assert_eq!(total(&told), u128::from(to - from), "{from}..{to}");
    }
    // A target asked for by name is in the answer even if it is empty.
    query.targets = vec![String::from("segment:network")];
    assert_eq!(ask(&recorded, &query), "segment:network 0 of 0");
    query.targets = vec![String::from("segment:disk")];
    assert_eq!(ask(&recorded, &query), "segment:block_device 0 of 0", "as the target that is one is called");
    // Several threads: each thread's path.
    query = of(ThreadFilter::Processes(vec![Tid(10)]), &["segment:*"]);
    let told = recorded_latency(&recorded, &query).expect("an answer");
    assert_eq!(total(&told), 2200, "two threads, two paths");
    for whom in [ThreadFilter::All, ThreadFilter::Recorded] {
        let text = ask(&recorded, &of(whom, &["segment:timer"]));
        assert_eq!(text, "segments belong to the path of a thread: choose the threads");
    }
}

#[test]
fn a_number_is_the_thread_that_had_it_then_and_what_began_before_all_was_recorded_has_no_length() {
    let reused = "
thread a tid=10
  0 c0 idle started
  0 c0 idle switch a
100 c0 a    fork one tid=20 tgid=20
100 c0 a    waking one newborn
110 c0 a    switch one runnable
120 c0 one  lock 0xff
150 c0 one  unlock 0xff    # 30
160 c0 one  exit
170 c0 one  switch a dead
200 c0 a    fork two tid=20 tgid=10
200 c0 a    waking two newborn
210 c0 a    switch two runnable
220 c0 two  lock 0xff
284 c0 two  unlock 0xff    # 64
300 c0 two  switch a dead
400 c0 a    stopped
";
    let early = "
thread a tid=10
thread b tid=20 blocked
  0 c0 idle switch a
 20 c0 a    lock 0xff
 30 c0 a    waking b
100 c1 idle started
120 c0 a    unlock 0xff
150 c0 a    switch b blocked
400 c0 b    stopped
";
    for (trace, whom, target, expected) in [
        (reused, ThreadFilter::Subject(Subject::Pid(Tid(10))), "lock:kernel", "lock:kernel 1 of 64"),
        (reused, ThreadFilter::Processes(vec![Tid(20)]), "lock:kernel", "lock:kernel 1 of 30"),
        (early, ThreadFilter::All, "lock:kernel", "lock:kernel 0 of 0 1 unseen"),
        (early, ThreadFilter::All, "runqueue", "runqueue 0 of 0 1 unseen"),
    ] {
        let recorded = read(&wakepath_scenario::text::parse(trace).expect("a trace").events);
        assert_eq!(ask(&recorded, &of(whom.clone(), &[target])), expected, "{whom:?}");
    }
}

/// The recordings of the hosts `web` and `db`, which do the same; `db` takes twice the time.
fn on_two_hosts(trace: &str) -> Recorded {
    let mut numbering = Numbering::default();
    let mut events = Vec::new();
    for host in [0, 1] {
        let mut of_host = wakepath_scenario::text::parse(trace).expect("a trace").events;
        of_host.truncate(of_host.len() - usize::from(host == 1));
        for mut event in of_host {
            let later = |at: Stamp<Local>| Stamp::from_ns((1 + u64::from(host)) * at.ns());
            if numbering.number(HostIndex(host), &mut event, later) {
                events.push(event);
            }
        }
    }
    events.sort_by_key(|event| event.at);
    let mut recorded = read(&events);
    let named = |name: &str| Host { name: Name::from(name), ..Host::default() };
    (recorded.host, recorded.others, recorded.numbering) = (named("web"), vec![named("db")], Some(numbering));
    recorded
}

#[test]
fn disks_that_two_hosts_call_alike_are_told_apart() {
    let recorded =
        on_two_hosts("0 c0 idle started\n100 c0 idle issue 1\n164 c0 idle complete 1\n500 c0 idle stopped");
    for (host, target, expected) in [
        (None, "disk", "disk 2 of 192"),
        (None, "disk:8:0", "disk:8:0 of web 1 of 64, disk:8:0 of db 1 of 128"),
        (Some("web"), "disk", "disk 1 of 64"),
        (Some("db"), "disk", "disk 1 of 128"),
        (Some("db"), "disk:8:0", "disk:8:0 1 of 128"),
        (Some("db"), "disk:8:1", "there is no `disk:8:1` in this recording; available: `disk:8:0`"),
    ] {
        let query = RecordedQuery { host: host.map(Name::from), ..of(ThreadFilter::All, &[target]) };
        assert_eq!(ask(&recorded, &query), expected, "{host:?}");
    }
}

#[test]
fn what_a_recording_does_not_hold_is_refused_with_what_it_holds() {
    let recorded = recorded(&[]);
    for (target, expected) in [
        ("run", "there is no `run` in this recording; available: `./app:handle_get` and `./app:handle_put`"),
        (
            "syscall:read",
            "a recording does not hold where system calls begin and end, only the waits in them",
        ),
        (
            "blocked:fsyncs",
            "there is no `blocked:fsyncs`; similar: `blocked:fsync`, `blocked:sync`, `blocked:msync` and `blocked:syncfs`",
        ),
        ("blocked:io*", "`blocked:io*` has no latencies in this recording"),
        ("disk:sdb", "there is no `disk:sdb` in this recording; available: `disk:sda`"),
        (
            "segment:device",
            "there is no `segment:device`; similar: `segment:block_device` and `segment:other_device`",
        ),
    ] {
        assert_eq!(ask(&recorded, &of(ThreadFilter::All, &[target])), expected);
    }
    let mut many = of(ThreadFilter::All, &["disk"]);
    many.every = Some(Duration::ZERO);
    many.to = Some(TimeSpec::AfterStart(5));
    assert_eq!(ask(&recorded, &many), "disk 0 of 0", "no part is shorter than a nanosecond");
    let long = read(&[
        event(0, 0, 0, EventKind::Mark(Mark::Started)),
        event(u64::MAX - 1, 0, 0, EventKind::Mark(Mark::Stopped)),
    ]);
    many.to = None;
    let text = ask(&long, &many);
    assert_eq!(text, "18446744073709551614 time slices are too many: at most 100000 are shown");
    many.every = None;
    many.targets = vec![String::from("./app:f")];
    assert_eq!(ask(&long, &many), "no calls of `./app:f` were recorded, nor of any other function");
    assert_eq!(ask(&read(&[]), &many), "the recording holds no events");
    // In another tracer's trace, no loss is known, which does not mean no loss.
    let mut of_another = long;
    of_another.tracer = Some(Name::from("lttng-modules"));
    let told = recorded_latency(&of_another, &of(ThreadFilter::All, &["lock:user"])).expect("an answer");
    let note = &told.targets[0].notes[0];
    assert!(note.starts_with("the trace does not name the owners of futexes"), "{note}");
}

#[test]
fn threads_are_those_of_the_host_that_is_meant() {
    let recorded = on_two_hosts(
        "thread a tid=10
         thread b tid=11
         0 c0 idle started
         0 c0 idle switch a
         100 c0 a switch b runnable
         164 c0 b switch a blocked
         500 c0 a stopped",
    );
    let first = ThreadFilter::Processes(vec![Tid(10)]);
    let (web, db) =
        (Population::Processes(vec![Tid(10)]), Population::Processes(vec![Tid(10).on(HostIndex(1))]));
    for (host, whom, expected, population) in [
        (None, ThreadFilter::All, "runqueue 2 of 192 2 unseen", Population::All),
        (None, ThreadFilter::Recorded, "runqueue 2 of 192 2 unseen", Population::All),
        (Some("db"), ThreadFilter::All, "runqueue 1 of 128 1 unseen", Population::Threads(2)),
        (Some("web"), ThreadFilter::Recorded, "runqueue 1 of 64 1 unseen", Population::Threads(2)),
        (None, first.clone(), "runqueue 1 of 64", web),
        (Some("db"), first, "runqueue 1 of 128", db),
    ] {
        let query = RecordedQuery { host: host.map(Name::from), ..of(whom.clone(), &["runqueue"]) };
        assert_eq!(ask(&recorded, &query), expected, "{host:?} {whom:?}");
        let found = recorded_latency(&recorded, &query).expect("an answer").population;
        assert_eq!(found, population, "{host:?} {whom:?}");
    }
}

#[test]
fn what_limits_the_meaning_of_a_target_is_noted() {
    const FUTEXES: &str = "futexes count only if their word names an owner: mutexes of glibc, and mutexes with priority inheritance";
    const KERNEL: &str = "kernel locks count only while the waiting thread sleeps: spinning is not recorded";
    let notes = |recorded: &Recorded, target: &str| {
        let asked = of(ThreadFilter::All, &[target]);
        recorded_latency(recorded, &asked).expect("an answer").targets[0].notes.clone()
    };
    let mut empty = read(&[
        event(0, 0, 0, EventKind::Mark(Mark::Started)),
        event(900, 0, 0, EventKind::Mark(Mark::Stopped)),
    ]);
    for (target, expected) in [
        ("runqueue", &[][..]),
        ("disk", &["the recording holds no disk requests"]),
        ("blocked:read", &["the recording does not name the system calls in which threads waited"]),
        ("lock:user", &["the recording does not say which waits were for a futex", FUTEXES]),
        ("lock", &["the recording does not say which waits were for a futex", FUTEXES, KERNEL]),
        ("lock:kernel", &[KERNEL]),
    ] {
        assert_eq!(notes(&empty, target), expected, "{target}");
    }
    empty.tracer = Some(Name::from("lttng-modules"));
    assert_eq!(notes(&empty, "lock:user").len(), 2);
    assert_eq!(notes(&empty, "lock:kernel"), [KERNEL]);
    // The recording holds the targets in question, or would show them.
    let recorded = recorded(&[]);
    for (target, expected) in [
        ("disk", &[][..]),
        ("disk:sda", &[]),
        ("blocked:futex", &[]),
        ("blocked:fsync", &[]),
        ("lock:user", &[FUTEXES]),
        ("lock", &[FUTEXES, KERNEL]),
    ] {
        assert_eq!(notes(&recorded, target), expected, "{target}");
    }
    let held = "
thread a tid=10
  0 c0 idle started
  0 c0 idle switch a
100 c0 a    issue 1
200 c0 a    switch idle blocked call=0:3
300 c0 idle switch a
400 c0 a    complete 1
500 c0 a    stopped
";
    let held = read(&wakepath_scenario::text::parse(held).expect("a trace").events);
    let mut early = of(ThreadFilter::All, &["disk", "lock:user"]);
    early.to = Some(TimeSpec::AfterStart(50));
    let found = recorded_latency(&held, &early).expect("an answer").targets;
    assert_eq!(found.iter().map(|target| target.notes.len()).collect::<Vec<_>>(), [0, 1], "it holds some");
}

#[test]
fn a_function_whose_probes_were_removed_has_a_note() {
    let name = |number, name: &str| {
        event(0, 0, 0, EventKind::Name(NameSpace::Target, number, name.as_bytes().into()))
    };
    let recorded = read(&[
        name(0, "./app:f"),
        name(1, "./app:g"),
        event(500, 0, 0, EventKind::Mark(Mark::Started)),
        event(2_500_500, 0, 0, EventKind::Mark(Mark::Unprobed(1))),
        event(9_000_000, 0, 0, EventKind::Mark(Mark::Stopped)),
    ]);
    let found = recorded_latency(&recorded, &of(ThreadFilter::All, &["f", "g"])).expect("an answer").targets;
    let why = "its probes were removed 2.5 ms after the recording's beginning, since they took too much: later calls are not recorded";
    assert_eq!(found[0].notes, [""; 0]);
    assert_eq!(found[1].notes, [why]);
}

#[test]
fn segments_of_more_than_one_explanation_are_noted() {
    let lost = "
thread a tid=10
  0 c0 idle started
  0 c0 idle switch a
100 c0 a    switch idle blocked call=0:3
250 c1 idle loss from=150 count=9
300 c0 idle switch a
400 c0 a    switch idle blocked call=0:3
500 c0 idle loss from=450 count=9
600 c0 idle switch a
700 c0 a    stopped
";
    let lost = read(&wakepath_scenario::text::parse(lost).expect("a trace").events);
    let told = recorded_latency(&lost, &of(thread_of(10), &["segment:unknown"])).expect("an answer");
    assert_eq!(
        told.targets[0].notes,
        ["2 of all segments of these paths may be of another kind: more than one explanation fits"]
    );
    let told = recorded_latency(&recorded(&[]), &of(thread_of(20), &["segment:running"])).expect("an answer");
    assert_eq!(told.targets[0].notes, [""; 0]);
}

#[test]
fn as_many_slices_as_are_shown_are_allowed() {
    let long = read(&[
        event(0, 0, 0, EventKind::Mark(Mark::Started)),
        event(MAX_SLICES + 1, 0, 0, EventKind::Mark(Mark::Stopped)),
    ]);
    let mut query = of(ThreadFilter::All, &["disk"]);
    (query.every, query.to) = (Some(Duration::from_nanos(1)), Some(TimeSpec::AfterStart(MAX_SLICES)));
    let told = recorded_latency(&long, &query).expect("an answer");
    assert_eq!(told.targets[0].slices.len() as u64, MAX_SLICES);
    query.to = None;
    assert_eq!(ask(&long, &query), "100001 time slices are too many: at most 100000 are shown");
}

//! Answers for tests, from traces with a story: threads that run and wait for each other.

mod drilled;
pub mod requests;

use std::time::Duration;

pub use drilled::drilled;
use wakepath_clock::{ErrorBound, Line, Local, Piece, Quality, Reference, Stamp, Transform};
use wakepath_critical_path::Algorithm;
use wakepath_distribution::{Histogram, Unit};
use wakepath_engine::latency::recorded::{RecordedQuery, ThreadFilter};
use wakepath_engine::latency::{self, GroupKey, TimeSlice};
use wakepath_engine::{
    Answer, CallsAnswer, CallsOf, CallsQuery, Cost, CostInKernel, CostOfKind, FunctionStacks, Head, Host,
    HostClock, Name, Overview, Pair, PathAnswer, PathQuery, Profile, Question, Recorded, Subject,
    Synchronisation, Synchronised, Which, calls, path,
};
use wakepath_event::{
    CallEnd, CostKind, Event, EventKind, FileName, FunctionCall, KernelCost, Mapping, Mark, NameSpace, Stack,
    Tid, UserMark,
};
use wakepath_findings::SampledPath;
use wakepath_findings::testing::{FinishedStory, REALTIME};

/// A finished story as an answer from the engine.
pub trait Answered {
    /// The answer to this question.
    fn answer(&self, question: Question) -> PathAnswer<'_>;
}

impl Answered for FinishedStory {
    fn answer(&self, question: Question) -> PathAnswer<'_> {
        let Self { recorded, path, stacks, sampled } = self;
        let head = Head {
            host: recorded.host.clone(),
            others: recorded.others.clone(),
            clock: recorded.clock,
            loss_hosts: Vec::new(),
            origin: path.window.from,
            origin_realtime_ns: Some(REALTIME),
            clock_error_ns: Some(0),
            problems: Vec::new(),
            losses: Vec::new(),
            cost: Some(cost()),
        };
        PathAnswer::new(recorded, head, question, path.clone(), sampled.clone(), stacks.clone())
    }
}

pub fn command() -> Question {
    Question::Command { words: ["./checkout", "--cart", "17"].map(Name::from).to_vec(), status: Some(0) }
}

/// A recording from a trace as text.
pub fn trace(text: &str) -> Recorded {
    trace_with(text, &[])
}

/// The same, preceded by a session's notes about itself.
pub fn trace_with(text: &str, marks: &[EventKind]) -> Recorded {
    let mut events = wakepath_scenario::text::parse(text).expect("a trace").events;
    let first = events[0].clone();
    events.splice(0..0, marks.iter().map(|what| Event { kind: what.clone(), ..first.clone() }));
    recorded_of(&events)
}

fn recorded_of(events: &[Event]) -> Recorded {
    Recorded::from_events("./wakepath.rec".into(), Host::default(), events)
}

/// Two threads wait for each other's locks, a third waits for `left` or `right`; a server is between requests, and
/// a writer waits for its disk.
pub const DEADLOCK: &str = "
thread left tid=10
thread right tid=11 tgid=10
thread third tid=12 tgid=10
thread server tid=20 blocked=interruptible call=43:3
thread writer tid=30 blocked=uninterruptible call=74:3
0 c0 idle started
0 c0 idle switch left
0 c1 idle switch right
100 c0 left switch third blocked call=202:0x2000 op=128 value=2 claim=right
200 c1 right switch idle blocked call=202:0x1000 op=128 value=2 claim=left
300 c0 third switch idle blocked call=202:0x1000 op=128 value=2 claim=left
500 c0 idle waking writer
500 c0 idle switch writer
600 c0 writer switch idle runnable
800 c1 idle switch writer
900 c1 writer stopped
";

/// Two threads wait for each other's locks until a third kills their process. Their parent waits for them.
pub const KILLED: &str = "
thread parent tid=30
thread left tid=10
thread right tid=11 tgid=10
thread killer tid=20
0 c0 idle started
0 c0 idle switch left
0 c1 idle switch right
100 c0 left switch idle blocked call=202:0x2000 op=128 value=2 claim=right
200 c1 right switch killer blocked call=202:0x1000 op=128 value=2 claim=left
800 c1 killer waking left
801 c1 killer waking right
802 c0 idle switch left
805 c0 left signal 2 ends cut=202 sent=802 by=killer
810 c0 left exit
815 c0 left switch right dead
820 c0 right signal 2 ends cut=202
825 c0 right exit
835 c0 right switch idle dead
900 c0 idle stopped
";

/// A thread whose read a timer's signal cuts short.
pub const CUT_SHORT: &str = "
thread reader tid=10
0 c0 idle started
0 c0 idle switch reader
100 c0 reader switch idle blocked call=0:3
900 c0 idle/timer waking reader
901 c0 idle switch reader
905 c0 reader signal 14 handled cut=0 sent=901 by=idle
1000 c0 reader stopped
";

/// A thread's three sleeps of 100 ns, each behind this failed call.
pub fn polled(failed: &str) -> String {
    let threads = "thread python3 tid=812\nthread app tid=10\n0 c0 idle started\n0 c0 idle switch app\n";
    let sleep = |at: u64| {
        let to = at + 100;
        format!(
            "{at} c0 app failed {failed}
             {at} c0 app switch idle blocked call=230:0
             {to} c0 idle/timer waking app
             {to} c0 idle switch app\n"
        )
    };
    let sleeps: String = [10, 120, 230].map(sleep).concat();
    format!("{threads}{sleeps}340 c0 app stopped\n")
}

/// The path of a trace's thread.
pub fn path_of(text: &str, tid: u32, look: impl Fn(&PathAnswer)) {
    let query = PathQuery { subject: Subject::Tid(Tid(tid)), ..PathQuery::default() };
    match path(&trace(text), &query) {
        Ok(Answer::Paths(paths)) => paths.iter().for_each(look),
        other => panic!("a path, not {other:?}"),
    }
}

/// The path of a thread with its own states: a name has a control character, and marks are lost in another state.
pub fn marked_path(look: impl Fn(&PathAnswer)) {
    let mark = |name: &str| {
        let name = format!("shop:{name}").into();
        let (process, thread) = (Some(Tid(10)), Some(Tid(10)));
        EventKind::UserMark(Box::new(UserMark { name, process, thread, fields: Box::default() }))
    };
    let lost = EventKind::UserMarksLost { from: Stamp::from_ns(20), count: 1 };
    let mut events = wakepath_scenario::text::parse(CUT_SHORT).expect("a trace").events;
    events.extend(
        [
            (10, mark("open_begin")),
            (30, lost),
            (40, mark("open_end")),
            (50, mark("read\u{1b}_begin")),
            (900, mark("read\u{1b}_end")),
        ]
        .map(|(at, kind)| wakepath_loaded::testing::event(at, 9, 0, kind)),
    );
    events.sort_by_key(|event| event.at);
    let query = PathQuery { subject: Subject::Tid(Tid(10)), ..PathQuery::default() };
    match path(&wakepath_loaded::testing::read(&events), &query) {
        Ok(Answer::Paths(paths)) => paths.iter().for_each(look),
        other => panic!("a path, not {other:?}"),
    }
}

/// Three hanging processes: a shell waits for its child, which writes to a full pipe with the shell as its only reader;
/// the next waits for an answer by a sleeping process, the last for any of many writers.
pub fn hanging(look: impl FnOnce(&Overview)) {
    let trace = "
        thread sh tid=10 blocked=interruptible call=61:0
        thread cat tid=20 parent=10 blocked=interruptible call=1:1
        thread curl tid=30 blocked=interruptible call=0:3
        thread server tid=40 blocked=interruptible call=230:0
        thread log tid=50 blocked=interruptible call=0:0
        0 c0 idle started
        1000 c0 idle stopped
    ";
    let mut events = wakepath_scenario::text::parse(trace).expect("a trace").events;
    let place = events.len() - 1;
    let ends = [
        (20, "call 1 0x1\nreaders 10"),
        (30, "call 0 0x3\npeer 40"),
        (50, "call 0 0x0\nwriters 61 62 63 64 40"),
    ];
    let ends = ends.map(|(tid, text)| EventKind::Name(NameSpace::FarEnd, tid, text.as_bytes().into()));
    let asked = [10, 30, 50].map(|pid| EventKind::Mark(wakepath_event::Mark::Target(Tid(pid))));
    let more = ends.into_iter().chain(asked).map(|kind| wakepath_loaded::testing::event(0, 0, 0, kind));
    events.splice(place..place, more);
    match path(&wakepath_loaded::testing::read(&events), &PathQuery::default()) {
        Ok(Answer::Overview(overview)) => look(&overview),
        other => panic!("an overview, not {other:?}"),
    }
}

/// Looks at the overview of all threads in a trace.
pub fn overview_of(text: &str, look: impl FnOnce(&Overview)) {
    match path(&trace(text), &PathQuery::default()) {
        Ok(Answer::Overview(overview)) => look(&overview),
        other => panic!("an overview, not {other:?}"),
    }
}

/// Eighty calls to `./app:handle` by the same thread: sixty take 200 ns; in twenty it waits 100 µs for a lock of
/// another thread, which runs meanwhile. A further call was unwound, and another is open.
pub fn calls_of(look: impl FnOnce(&CallsAnswer)) {
    calls_with(Vec::new(), look);
}

/// The same calls; the function's probes were removed at this time, ns.
pub fn calls_until(at: u64, look: impl FnOnce(&CallsAnswer)) {
    calls_with(vec![event(at, EventKind::Mark(Mark::Unprobed(0)))], look);
}

fn calls_with(more: Vec<Event>, look: impl FnOnce(&CallsAnswer)) {
    let lines = |_| {
        vec![
            (100, String::from("c0 worker switch idle blocked call=202:0x2000 op=128 value=2 claim=holder")),
            (100_000, String::from("c1 holder waking worker")),
            (100_000, String::from("c0 idle switch worker")),
        ]
    };
    let unfinished = [(5_000_000, 5_000_300, CallEnd::Unwound), (5_900_000, 6_000_000, CallEnd::Open)];
    slow_calls("holder tid=11 tgid=10", lines, more, &unfinished, |answer| look(&answer));
}

/// A process's time in `./app:handle`: on this path; its waits are twenty of 100 µs for a lock.
pub fn function_stacks_of(path: SampledPath, look: impl FnOnce(&FunctionStacks)) {
    let lines = |_| {
        vec![
            (100, String::from("c0 worker switch idle blocked call=202:0x2000 op=128 value=2 claim=holder")),
            (100_000, String::from("c1 holder waking worker")),
            (100_000, String::from("c0 idle switch worker")),
        ]
    };
    slow_calls("holder tid=11 tgid=10", lines, Vec::new(), &[], |answer| {
        let comm = answer.asked.paths[0]
            .recorded
            .thread_at(answer.asked.paths[0].path.window.thread, Stamp::MAX)
            .comm;
        let mut waits = answer;
        (waits.of, waits.which, waits.usual) = (CallsOf::Waits, Which::All, None);
        look(&FunctionStacks {
            process: (Tid(10), Some(comm)),
            window_ns: 6_000_000,
            samples: 990,
            path,
            waits,
        });
    });
}

/// Eighty calls to `./app:handle`: sixty take 200 ns; twenty wait 100 µs for another process. It spends 60 µs in
/// its own fdatasync, on `files` files in turn, and then runs, seen in `/nonexistent/backend` by a sample a call;
/// its waits' stacks were taken.
pub fn calls_of_a_chain(files: u64, look: impl FnOnce(&CallsAnswer)) {
    let lines = |nth| {
        let fd = nth % files;
        vec![
            (100, String::from("c0 worker switch idle blocked call=202:0x2000")),
            (200, String::from("c1 backend issue 7")),
            (200, format!("c1 backend switch idle blocked=uninterruptible call=75:{fd}")),
            (60_200, String::from("c1 idle/block complete 7 start=0 issued=0")),
            (60_200, String::from("c1 idle/block waking backend")),
            (60_200, String::from("c1 idle switch backend")),
            (100_000, String::from("c1 backend waking worker")),
            (100_000, String::from("c0 idle switch worker")),
        ]
    };
    let stack =
        Stack { tgid: Tid(20), kernel: [].into(), user: [0x1010, 0x1020].into(), scanned: 0, proved: 2 };
    let mut more = Vec::new();
    for nth in 0..20 {
        let on = |after, what| wakepath_scenario::event(slow_call(nth) + after, 1, 20, what);
        more.extend([on(200, EventKind::StackOf(stack.id())), on(70_000, EventKind::Sample(stack.clone()))]);
    }
    let mapping = Mapping {
        tgid: Tid(20),
        from: 0x1000,
        to: 0x2000,
        offset: 0,
        build_id: [1].into(),
        path: b"/nonexistent/backend".as_slice().into(),
    };
    more.extend([event(0, EventKind::Mapping(mapping)), event(5_900_000, EventKind::Stack(stack))]);
    more.push(event(0, EventKind::Name(NameSpace::BlockDevice, 8 << 20, b"sda".as_slice().into())));
    more.extend((0..files).map(|fd| {
        let name = format!("log.{fd}").into_bytes().into();
        let (mode, inode, flow) = (0o100_600, 1, None);
        event(0, EventKind::File(FileName { tgid: Tid(20), fd: fd as u32, mode, inode, flow, name }))
    }));
    slow_calls("backend tid=20", lines, more, &[], |answer| look(&answer));
}

/// Looks at the causes of the second peak, in calls to `./app:handle` by `worker`: sixty take 200 ns, and twenty
/// 100.1 µs, in which it waits for the thread `other`. `lines` are the events in the nth slow call, each with its
/// time in the call; `more` are other events, and `unfinished` other calls.
fn slow_calls(
    other: &str,
    lines: impl Fn(u64) -> Vec<(u64, String)>,
    more: Vec<Event>,
    unfinished: &[(u64, u64, CallEnd)],
    look: impl FnOnce(CallsAnswer<'_>),
) {
    let (name, _) = other.split_once(' ').expect("a name and its keys");
    let mut text = format!(
        "thread worker tid=10\nthread {other}\n0 c0 idle started\n0 c0 idle switch worker\n\
         0 c1 idle switch {name}\n"
    );
    let mut ends: Vec<_> = (0..60).map(|i| (1000 * i, 1000 * i + 200, CallEnd::Returned)).collect();
    for nth in 0..20 {
        let at = slow_call(nth);
        text.extend(lines(nth).iter().map(|(after, what)| format!("{} {what}\n", at + after)));
        ends.push((at, at + 100_100, CallEnd::Returned));
    }
    text += &format!("6000000 c1 {name} stopped\n");
    ends.extend(unfinished);
    let mut events = wakepath_scenario::text::parse(&text).expect("a trace").events;
    // The first event marks the recording's beginning.
    events.splice(1..1, more);
    events.sort_by_key(|event| event.at);
    let mut recorded = recorded_of(&events);
    let what = EventKind::Name(NameSpace::Target, 0, b"./app:handle".as_slice().into());
    recorded.survey.observe(&event(0, what));
    for (from, to, end) in ends {
        let call = FunctionCall { target: 0, thread: Tid(10), from: Stamp::from_ns(from), end };
        recorded.survey.calls.push((Stamp::from_ns(to), call));
    }
    let query = CallsQuery { target: None, which: Which::Peak(2), algorithm: Algorithm::Active };
    look(calls(&recorded, None, &query).expect("calls"));
}

/// The beginning of the nth slow call.
const fn slow_call(nth: u64) -> u64 {
    1_000_000 + 200_000 * nth
}

fn event(at: u64, what: EventKind) -> Event {
    wakepath_scenario::event(at, 0, 0, what)
}

/// Two threads wait once each for the other's CPU; 3 records were lost.
pub const CPU_WAITS: &str = "
thread a tid=10
thread b tid=11 blocked=interruptible call=0:3
0 c0 idle started
0 c0 idle switch a
1000 c0 a waking b
1100 c0 a switch b runnable
2100 c0 b loss from=1600 count=3
2200 c0 b switch a blocked call=0:3
9000 c0 a stopped
";

/// A question about these targets' latencies, in the whole recording.
pub fn latency_query(targets: &[&str], threads: ThreadFilter) -> RecordedQuery {
    let targets = targets.iter().map(|&target| target.to_owned()).collect();
    RecordedQuery { targets, threads, ..RecordedQuery::default() }
}

/// A distribution: latencies in ns, and the number of each.
pub fn histogram(counts: &[(u64, u64)]) -> Histogram {
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    for &(latency, count) in counts {
        (0..count).for_each(|_| histogram.add(latency));
    }
    histogram
}

/// Latencies counted live for five seconds.
pub fn live(targets: Vec<latency::Distribution>) -> latency::live::LiveLatency {
    latency::live::LiveLatency {
        host: Host::default(),
        began_realtime_ns: None,
        elapsed: Duration::from_secs(5),
        reason: latency::live::EndReason::Duration,
        targets,
        refused: Vec::new(),
    }
}

/// A group that lost no calls.
pub fn group(key: GroupKey, counts: &[(u64, u64)]) -> latency::Group {
    let slices = Vec::new();
    latency::Group { key, histogram: histogram(counts), slices, unwound: 0, overflowed: 0 }
}

/// A slice of time, from and to in ns.
pub fn slice(from: u64, to: u64, counts: &[(u64, u64)]) -> TimeSlice {
    let [from, to] = [from, to].map(Duration::from_nanos);
    TimeSlice { from, to, histogram: histogram(counts) }
}

/// A target's distribution, for comparison.
pub fn profile(target: &str, counts: &[(u64, u64)]) -> Profile {
    Profile { target: target.to_owned(), histogram: histogram(counts) }
}

/// Five hosts: the reference, a slow clock, a fast clock, a host that packets reach one way, and a host without
/// packets.
pub fn synchronised() -> Synchronised {
    const SECOND: u64 = 1_000_000_000;
    let clock = |quality, error, pieces: Vec<Piece>| HostClock {
        quality,
        error,
        transform: Transform::<Local, Reference>::new(pieces),
        way: vec![0, 1],
    };
    let piece = |line, error| Piece { from: 100 * SECOND, to: 240 * SECOND, line, error };
    let through = |first, second| Line::through(first, second).expect("a line");
    let slow = through((100 * SECOND, 62_158_000_000), (200 * SECOND, 162_178_010_000));
    let fast = through((100 * SECOND, 100 * SECOND + 412), (200 * SECOND, 200 * SECOND - 100_000));
    let bounded = |ns| ErrorBound::Within(ns);
    let identity = through((0, 0), (SECOND, SECOND));
    let clocks = vec![
        clock(Quality::Exact, bounded(0), vec![piece(identity, bounded(0))]),
        clock(Quality::Exact, bounded(19_000_000), vec![piece(slow, bounded(19_000_000))]),
        clock(Quality::Approximate, bounded(870), vec![piece(fast, bounded(870))]),
        clock(Quality::OneWay, ErrorBound::Unbounded, vec![piece(slow, ErrorBound::Unbounded)]),
        HostClock { quality: Quality::None, error: ErrorBound::Unbounded, transform: None, way: vec![] },
    ];
    let pair = |b, matched, inversions, ambiguous, quality, error| Pair {
        a: 0,
        b,
        matched,
        ambiguous,
        inversions,
        quality,
        error,
        transform: None,
    };
    let pairs = vec![
        pair(1, [200, 200], 0, 0, Quality::Exact, bounded(19_000_000)),
        pair(2, [7, 9], 2, 1, Quality::Approximate, bounded(870)),
        pair(3, [5, 0], 0, 0, Quality::OneWay, ErrorBound::Unbounded),
    ];
    let names = ["web", "db", "cache", "mail", "alone"];
    Synchronised {
        sources: names.map(Into::into).to_vec(),
        hosts: names.map(|name| Host { name: Name::from(name), ..Host::default() }).to_vec(),
        clocks: Synchronisation { reference: Some(0), hosts: clocks, pairs },
    }
}

/// A recording's cost.
fn cost() -> Cost {
    let each = KernelCost { kind: CostKind::Switch, count: None, from_ns: 120, to_ns: Some(170) };
    let part = CostOfKind { each, count: 50_000 };
    let (from_ns, to_ns) = (part.from_ns(), part.to_ns());
    let in_kernel = CostInKernel { from_ns, to_ns, running_ns: 500_000_000, by_kind: vec![part] };
    Cost { observer_ns: 14_400_000, over_ns: 1_204_000_000, in_kernel: Some(in_kernel) }
}

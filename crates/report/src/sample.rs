//! Answers for tests, from traces with a story: threads that run and wait for each other.

use wakepath_clock::Stamp;
use wakepath_critical_path::{Algorithm, contributors};
use wakepath_engine::{
    CallsAnswer, CallsQuery, Cost, Head, Host, Name, PathAnswer, Question, Recorded, Which, calls,
};
use wakepath_event::{
    CallEnd, Cpu, Event, EventKind, FileName, FunctionCall, Mapping, NameSpace, Stack, Tid,
};
use wakepath_findings::testing::{FinishedStory, REALTIME};

/// A finished story as an answer of the engine.
pub trait Answered {
    /// The answer to this question.
    fn answer(&self, question: Question) -> PathAnswer<'_>;
}

impl Answered for FinishedStory {
    fn answer(&self, question: Question) -> PathAnswer<'_> {
        let Self { recorded, path, stacks, sampled, sampled_segments } = self;
        PathAnswer {
            head: Head {
                host: recorded.host.clone(),
                others: recorded.others.clone(),
                clock: recorded.clock,
                loss_hosts: Vec::new(),
                origin: path.window.from,
                origin_realtime_ns: Some(REALTIME),
                clock_error_ns: Some(0),
                problems: Vec::new(),
                losses: Vec::new(),
                cost: Some(Cost { observer_ns: 14_400_000, over_ns: 1_204_000_000 }),
            },
            question,
            timed_out_ns: 0,
            contributors: contributors(&recorded.graph, path),
            still_waiting: None,
            deadlocks: Vec::new(),
            sampled: sampled.clone(),
            sampled_segments: sampled_segments.clone(),
            stacks: stacks.clone(),
            path: path.clone(),
            recorded,
        }
    }
}

pub fn command() -> Question {
    Question::Command { words: ["./checkout", "--cart", "17"].map(Name::from).to_vec(), status: Some(0) }
}

/// A recording of a trace as text.
pub fn trace(text: &str) -> Recorded {
    trace_with(text, &[])
}

/// The same, with what a session noted of itself before it.
pub fn trace_with(text: &str, marks: &[EventKind]) -> Recorded {
    let mut events = wakepath_scenario::text::parse(text).expect("a trace").events;
    let first = events[0].clone();
    events.splice(0..0, marks.iter().map(|what| Event { kind: what.clone(), ..first.clone() }));
    recorded_of(&events)
}

fn recorded_of(events: &[Event]) -> Recorded {
    Recorded::of_events("./wakepath.rec".into(), Host::default(), events)
}

/// Two threads each of which waits for the other's lock, a third that waits for one of them, a server
/// between requests and one that waits for its disk.
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

/// Why a thread of a trace took its time.
pub fn path_of(text: &str, tid: u32, look: impl Fn(&PathAnswer)) {
    use wakepath_engine::{Answer, PathQuery, Subject, path};
    let recorded = trace(text);
    let query = PathQuery { subject: Subject::Tid(Tid(tid)), ..PathQuery::default() };
    match path(&recorded, &query) {
        Ok(Answer::Paths(paths)) => paths.iter().for_each(look),
        other => panic!("a path, not {other:?}"),
    }
}

/// Looks at the overview of all threads of a trace.
pub fn overview_of(text: &str, look: impl FnOnce(&wakepath_engine::Overview)) {
    let recorded = trace(text);
    match wakepath_engine::path(&recorded, &wakepath_engine::PathQuery::default()) {
        Ok(wakepath_engine::Answer::Overview(overview)) => look(&overview),
        other => panic!("an overview, not {other:?}"),
    }
}

/// Eighty calls of `./app:handle` by one thread: sixty of 200 ns, and twenty for which it waits 100 µs for a
/// lock of another thread, which runs meanwhile. One more was left, one is open.
pub fn calls_of(look: impl FnOnce(&CallsAnswer)) {
    use std::fmt::Write as _;

    let mut text = String::from(
        "thread worker tid=10\nthread holder tid=11 tgid=10\n0 c0 idle started\n0 c0 idle switch worker\n\
         0 c1 idle switch holder\n",
    );
    let mut ends: Vec<(u64, u64, CallEnd)> =
        (0..60).map(|i| (1000 * i, 1000 * i + 200, CallEnd::Returned)).collect();
    for i in 0..20 {
        let at = 1_000_000 + 200_000 * i;
        let wakes = at + 100_000;
        writeln!(
            text,
            "{} c0 worker switch idle blocked call=202:0x2000 op=128 value=2 claim=holder",
            at + 100
        )
        .expect("a text");
        writeln!(text, "{wakes} c1 holder waking worker\n{wakes} c0 idle switch worker").expect("a text");
        ends.push((at, wakes + 100, CallEnd::Returned));
    }
    text += "6000000 c1 holder stopped\n";
    ends.extend([(5_000_000, 5_000_300, CallEnd::Unwound), (5_900_000, 6_000_000, CallEnd::Open)]);
    look(&slow_calls(&calls_in(trace(&text), ends)));
}

/// A recording of calls of `./app:handle` by thread 10.
fn calls_in(mut recorded: Recorded, ends: Vec<(u64, u64, CallEnd)>) -> Recorded {
    let what = EventKind::Name(NameSpace::Target, 0, b"./app:handle".as_slice().into());
    recorded.survey.observe(&event(0, what));
    for (from, to, end) in ends {
        let call = FunctionCall { target: 0, thread: Tid(10), from: Stamp::from_ns(from), end };
        recorded.survey.calls.push((Stamp::from_ns(to), call));
    }
    recorded
}

/// The causes of the calls of the second peak.
fn slow_calls(recorded: &Recorded) -> CallsAnswer<'_> {
    let query = CallsQuery { target: None, which: Which::Peak(2), algorithm: Algorithm::Active };
    calls(recorded, &query).expect("calls")
}

fn event(at: u64, what: EventKind) -> Event {
    wakepath_scenario::event(at, 0, 0, what)
}

/// Eighty calls of `./app:handle`: sixty of 200 ns, and twenty that wait 100 µs for another process, which is at
/// its own fdatasync of one of `files` files for 60 µs of these and then runs, seen in `/nonexistent/backend`
/// by a sample a call; its waits' stacks were taken.
pub fn calls_of_a_chain(files: u64, look: impl FnOnce(&CallsAnswer)) {
    use std::fmt::Write as _;

    let mut text = String::from(
        "thread worker tid=10\nthread backend tid=20\n0 c0 idle started\n0 c0 idle switch worker\n\
         0 c1 idle switch backend\n",
    );
    let mut ends: Vec<(u64, u64, CallEnd)> =
        (0..60).map(|i| (1000 * i, 1000 * i + 200, CallEnd::Returned)).collect();
    let stack = Stack { tgid: Tid(20), kernel: [].into(), user: [0x1010, 0x1020].into(), scanned: 0 };
    let mut more = Vec::new();
    for i in 0..20 {
        let at = 1_000_000 + 200_000 * i;
        let mut line = |after: u64, what: &str| writeln!(text, "{} {what}", at + after).expect("a text");
        let fd = i % files;
        line(100, "c0 worker switch idle blocked call=202:0x2000");
        line(200, "c1 backend issue 7");
        line(200, &format!("c1 backend switch idle blocked=uninterruptible call=75:{fd}"));
        line(60_200, "c1 idle/block complete 7 start=0 issued=0");
        line(60_200, "c1 idle/block waking backend");
        line(60_200, "c1 idle switch backend");
        line(100_000, "c1 backend waking worker");
        line(100_000, "c0 idle switch worker");
        let on = |after, what| Event { cpu: Cpu(1), current: Tid(20), ..event(at + after, what) };
        more.extend([on(200, EventKind::StackOf(stack.id())), on(70_000, EventKind::Sample(stack.clone()))]);
        ends.push((at, at + 100_100, CallEnd::Returned));
    }
    text += "6000000 c1 backend stopped\n";
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
    let mut events = wakepath_scenario::text::parse(&text).expect("a trace").events;
    // The first says that the recording began.
    events.splice(1..1, more);
    events.sort_by_key(|event| event.at);
    look(&slow_calls(&calls_in(recorded_of(&events), ends)));
}

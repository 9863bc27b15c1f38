//! Answers for tests, told as stories: who ran, who waited for what.

use wakepath_clock::Stamp;
use wakepath_critical_path::{
    Algorithm, Basis, Cause, Path, Rule, Segment, SegmentKind, Via, Wait, WaitId, Window, contributors,
};
use wakepath_engine::{
    CallsAnswer, CallsQuery, Cost, Found, Frame, Function, Head, Host, Name, PathAnswer, Place, Question,
    Recorded, Sampled, SampledSegments, Stacks, Survey, Which, calls,
};
use wakepath_event::{
    BlockRequest, BlockedState, Call, CallEnd, CgroupId, Clocks, Comm, Cpu, Event, EventKind, FileName, Flow,
    FlowId, FunctionCall, Mapping, NameSpace, Stack, ThreadIdentity, Tid,
};
use wakepath_wait_graph::{Builder, ThreadIndex};

/// Where the story begins on the monotonic clock: past 2^53 ns, where a double no longer holds it.
pub const ORIGIN: u64 = (1 << 53) + 1;
/// 2026-11-21 02:58:41.31 UTC.
const REALTIME: u64 = 1_795_229_921_310_000_000;

const READ: u32 = 0;
const FDATASYNC: u32 = 75;
pub const FUTEX: u32 = Call::FUTEX;

pub struct Story {
    pub sampled: Sampled,
    builder: Builder,
    survey: Survey,
    threads: u32,
    pub segments: Vec<Segment>,
    pub waits: Vec<Wait>,
    at: u64,
}

impl Story {
    pub fn new() -> Self {
        let mut story = Self {
            sampled: Sampled::new(),
            builder: Builder::default(),
            survey: Survey::default(),
            threads: 0,
            segments: Vec::new(),
            waits: Vec::new(),
            at: ORIGIN,
        };
        story.tell(EventKind::Clocks(Clocks { boottime_ns: ORIGIN, realtime_ns: REALTIME, steal_ns: 0 }));
        story
    }

    pub fn tell(&mut self, what: EventKind) {
        let event = event(ORIGIN, what);
        self.builder.push(&event);
        self.survey.observe(&event);
    }

    pub fn name(&mut self, space: NameSpace, key: u64, name: &str) {
        self.tell(EventKind::Name(space, key, name.as_bytes().into()));
    }

    pub fn thread(&mut self, tid: u32, parent: u32, comm: &[u8], cgroup: u64) -> ThreadIndex {
        let identity = ThreadIdentity {
            parent: Tid(parent),
            start: Stamp::from_ns(u64::from(tid)),
            cgroup: CgroupId(cgroup),
            cpu_cgroup: CgroupId(cgroup),
            kernel: parent == 2,
            comm: Comm::new(comm),
            ..wakepath_scenario::identity(tid, "")
        };
        let blocked = Some(BlockedState::Interruptible);
        self.tell(EventKind::Thread { identity, blocked, call: None });
        self.threads += 1;
        ThreadIndex(self.threads - 1)
    }

    pub fn file(&mut self, tgid: u32, fd: u32, mode: u32, flow: Option<u64>, name: &str) {
        let flow = flow.map(FlowId);
        let name = name.as_bytes().into();
        self.tell(EventKind::File(FileName { tgid: Tid(tgid), fd, mode, inode: 1, flow, name }));
    }

    pub fn flow(&mut self, id: u64, source: &str, target: &str) {
        let [source, target] = [source, target].map(|address| address.parse().expect("an address"));
        self.tell(EventKind::Flow(FlowId(id), Flow { source, target, protocol: 6 }));
    }

    /// The path goes on for `ns` with this.
    pub fn then(
        &mut self,
        ns: u64,
        thread: ThreadIndex,
        parent: Option<WaitId>,
        kind: SegmentKind,
        cause: Cause,
    ) -> &mut Segment {
        let from = Stamp::from_ns(self.at);
        self.at += ns;
        let depth = parent.map_or(0, |wait| self.waits[wait.0 as usize].depth + 1);
        let via = parent.map_or(Via::Window, |wait| self.waits[wait.0 as usize].via);
        self.segments.push(Segment {
            from,
            to: Stamp::from_ns(self.at),
            kind,
            thread: Some(thread),
            parent,
            depth,
            via,
            call: None,
            cause,
            basis: Basis::Measured,
        });
        self.segments.last_mut().expect("just pushed")
    }

    /// So many samples saw a thread in a function of `libz.so.1`, called by `main`.
    pub fn seen(&mut self, thread: ThreadIndex, comm: &str, function: &str, count: u64) {
        let found = |name: &str, module: &str, line| {
            let module = Some(module.as_bytes().to_vec());
            Found::Function(Function { name: String::from(name), module, line })
        };
        let caller = found("main", comm, Some((format!("{comm}.c"), 88)));
        let place =
            Place { leaf: found(function, "libz.so.1", None), in_kernel: false, caller: Some(caller) };
        self.sampled.entry((thread, Comm::new(comm.as_bytes()))).or_default().insert(place, count);
    }

    /// A wait of `ns` begins, which what follows explains.
    pub fn wait(
        &mut self,
        ns: u64,
        thread: ThreadIndex,
        parent: Option<WaitId>,
        call: Call,
        via: Via,
        by: ThreadIndex,
    ) -> WaitId {
        let id = WaitId(self.waits.len() as u32);
        let depth = parent.map_or(0, |wait| self.waits[wait.0 as usize].depth + 1);
        self.waits.push(Wait {
            from: Stamp::from_ns(self.at),
            to: Stamp::from_ns(self.at + ns),
            thread,
            parent,
            depth,
            call: Some(call),
            ended_by: Some(by),
            via,
            lock: None,
            basis: Basis::Measured,
        });
        id
    }

    /// The recording, and what the path is made of.
    pub fn told(self) -> Told {
        let host = Host {
            boot_id: String::from("11112222-3333-4444-5555-666677778888"),
            name: Name::from("web3"),
            kernel: Name::from("6.18.44"),
            machine: Name::from("x86_64"),
        };
        let graph = self.builder.finish();
        let recorded = Recorded::new("./wakepath.rec".into(), host, graph, self.survey, Vec::new());
        Told {
            recorded,
            sampled: self.sampled,
            segments: self.segments,
            waits: self.waits,
            at: self.at,
            stacks: |_| Stacks::default(),
        }
    }
}

/// A story that is over.
pub struct Told {
    pub recorded: Recorded,
    sampled: Sampled,
    segments: Vec<Segment>,
    waits: Vec<Wait>,
    at: u64,
    /// The stacks of a path.
    pub stacks: fn(&Path) -> Stacks,
}

impl Told {
    pub fn answer(&self, question: Question) -> PathAnswer<'_> {
        let from = Stamp::from_ns(ORIGIN);
        let window = Window { thread: ThreadIndex(0), from, to: Stamp::from_ns(self.at) };
        let path = Path {
            window,
            algorithm: Algorithm::Active,
            segments: self.segments.clone(),
            waits: self.waits.clone(),
            problems: Vec::new(),
        };
        PathAnswer {
            head: Head {
                host: self.recorded.host.clone(),
                others: self.recorded.others.clone(),
                clock: self.recorded.clock,
                loss_hosts: Vec::new(),
                origin: from,
                origin_realtime_ns: Some(REALTIME),
                clock_error_ns: Some(0),
                problems: Vec::new(),
                losses: Vec::new(),
                cost: Some(Cost { observer_ns: 14_400_000, over_ns: 1_204_000_000 }),
            },
            question,
            timed_out_ns: 0,
            contributors: contributors(&self.recorded.graph, &path),
            still_waiting: None,
            deadlocks: Vec::new(),
            sampled: self.sampled.clone(),
            sampled_segments: SampledSegments::default(),
            stacks: (self.stacks)(&path),
            path,
            recorded: &self.recorded,
        }
    }
}

pub fn call(number: u32, arg0: u64) -> Call {
    Call { number, arg0, lock: None }
}

pub fn disk(queued: bool) -> Cause {
    let request = BlockRequest {
        id: 1,
        device: 8 << 20,
        sector: 2048,
        bytes: 4096,
        operation: 1,
        start: None,
        issued: None,
    };
    Cause::Block { request: Some(Box::new(request)), queued }
}

pub fn command() -> Question {
    Question::Command { words: ["./checkout", "--cart", "17"].map(Name::from).to_vec(), status: Some(0) }
}

const MS: u64 = 1_000_000;

/// A shop's checkout: disk writes through the journal, own work, a CPU limit, a database on the same
/// host, a competitor, and a wait from before the recording.
pub fn checkout() -> Told {
    let mut story = Story::new();
    let checkout = story.thread(4711, 1, b"checkout", 7);
    let journal = story.thread(80, 2, b"jbd2/sda1-8", 0);
    let postgres = story.thread(912, 1, b"postgres", 8);
    let stress = story.thread(555, 1, b"stress", 0);
    story.name(NameSpace::Cgroup, 7, "/system.slice/shop.service");
    story.name(NameSpace::CpuCgroup, 7, "/shop.service");
    story.name(NameSpace::CpuLimit, 7, "50000 100000");
    story.name(NameSpace::Cgroup, 8, "/system.slice/postgresql.service");
    story.name(NameSpace::BlockDevice, 8 << 20, "sda");
    story.file(4711, 5, 0o100_644, None, "orders.db");
    story.file(4711, 6, 0o140_777, Some(1), "");
    story.file(912, 9, 0o100_600, None, "pg_wal");
    story.flow(1, "10.0.0.2:40000", "10.0.0.3:5432");

    story.seen(checkout, "checkout", "compress_block", 23);
    story.seen(checkout, "checkout", "pack_items", 1);
    story.seen(postgres, "postgres", "XLogInsert", 3);
    story.then(4 * MS, checkout, None, SegmentKind::Unknown, Cause::BeforeRecording).call =
        Some(call(READ, 99));
    for _ in 0..14 {
        story.then(10 * MS, checkout, None, SegmentKind::Running, Cause::None);
        let sync = call(FDATASYNC, 5);
        let wait = story.wait(52 * MS, checkout, None, sync, Via::Wakeup, journal);
        story.then(MS, journal, Some(wait), SegmentKind::Running, Cause::None);
        story.then(2 * MS, journal, Some(wait), SegmentKind::BlockDevice, disk(true)).basis =
            Basis::Inferred(Rule::LastCompletion);
        story.then(49 * MS, journal, Some(wait), SegmentKind::BlockDevice, disk(false));
    }
    for _ in 0..5 {
        story.then(20 * MS, checkout, None, SegmentKind::Running, Cause::None);
        story.then(26 * MS, checkout, None, SegmentKind::Throttled, Cause::None);
    }
    let wait = story.wait(88 * MS, checkout, None, call(READ, 6), Via::Packet, postgres);
    story.then(27 * MS, postgres, Some(wait), SegmentKind::Running, Cause::None);
    story.then(61 * MS, postgres, Some(wait), SegmentKind::BlockDevice, disk(false)).call =
        Some(call(FDATASYNC, 9));
    story.then(2 * MS, checkout, None, SegmentKind::Runnable, Cause::Competitor(stress));
    story.then(MS / 10, checkout, None, SegmentKind::Runnable, Cause::IdleCpu);
    story.told()
}

/// The stacks of a checkout: it saves orders, but for the 10th time, whose stack is lost, and asks the
/// bank; who woke it is known of the journal. The database's program was replaced since.
pub fn checkout_stacks(path: &Path) -> Stacks {
    let function = |name: &str, module: Option<&str>, line: Option<u32>| Frame {
        found: Found::Function(Function {
            name: String::from(name),
            module: module.map(|module| module.as_bytes().to_vec()),
            line: line.map(|line| (String::from("checkout.c"), line)),
        }),
        in_kernel: module.is_none(),
    };
    let of_program = |call: &str, name: &str| {
        vec![
            function("schedule", None, None),
            function(call, Some("libc.so.6"), None),
            function(name, Some("checkout"), Some(41)),
            function("main", Some("checkout"), Some(88)),
            function("__libc_start_call_main", Some("libc.so.6"), None),
        ]
    };
    let began = |wait: &Wait| match wait.call.map(|call| call.number) {
        Some(FDATASYNC) if wait.from == path.waits[9].from => Some(Vec::new()),
        Some(FDATASYNC) => Some(of_program("fdatasync", "save_order")),
        _ => Some(of_program("read", "ask_bank")),
    };
    let ended = |wait: &Wait| {
        (wait.via == Via::Wakeup).then(|| {
            ["try_to_wake_up", "jbd2_journal_commit_transaction", "kthread"]
                .map(|name| function(name, None, None))
                .to_vec()
        })
    };
    let replaced = Frame { found: Found::Replaced(b"postgres".to_vec()), in_kernel: false };
    let waited = |segment: &Segment| segment.call.map(|_| vec![replaced.clone()]);
    Stacks::told(path, began, ended, waited)
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

/// What all threads of a trace did.
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

/// What the calls of the second peak waited for.
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

//! Evidence written as stories in tests: running threads, and waits.

use wakepath_clock::Stamp;
use wakepath_critical_path::{
    Algorithm, Basis, Cause, JoinedSum, Path, Rule, Segment, SegmentKind, Unjoined, Via, Wait, WaitId, Window,
};
use wakepath_event::{BlockRequest, Call, CgroupId, Clocks, Comm, EventKind, NameSpace, ThreadIdentity};
pub use wakepath_loaded::testing::call;
use wakepath_loaded::testing::{self, event, thread};
use wakepath_loaded::{Frame, Host, Name, Recorded, Sampled, Site, Stacks, Survey};
use wakepath_symbols::{Found, Function};
use wakepath_wait_graph::{Builder, ThreadIndex};

use crate::Evidence;

/// The story's beginning on the monotonic clock: past 2^53 ns, where a double no longer holds it.
pub const ORIGIN: u64 = (1 << 53) + 1;
/// 2026-11-21 02:58:41.31 UTC.
pub const REALTIME: u64 = 1_795_229_921_310_000_000;

const READ: u32 = 0;
const FDATASYNC: u32 = 75;
/// The system call number of `futex`.
pub const FUTEX: u32 = Call::FUTEX;

/// A story under construction.
pub struct Story {
    sampled: Vec<(ThreadIndex, Comm, Site, u64)>,
    builder: Builder,
    survey: Survey,
    threads: u32,
    /// The path's segments.
    pub segments: Vec<Segment>,
    /// The path's waits.
    pub waits: Vec<Wait>,
    at: u64,
}

impl Default for Story {
    fn default() -> Self {
        let mut story = Self {
            sampled: Vec::new(),
            builder: Builder::default(),
            survey: Survey::default(),
            threads: 0,
            segments: Vec::new(),
            waits: Vec::new(),
            at: ORIGIN,
        };
        story.add(EventKind::Clocks(Clocks { boottime_ns: ORIGIN, realtime_ns: REALTIME, steal_ns: 0 }));
        story
    }
}

impl Story {
    /// Adds an event at the story's beginning.
    pub fn add(&mut self, what: EventKind) {
        self.add_at(0, what);
    }

    /// Adds an event `ns` after the story's beginning. Events come in time order.
    pub fn add_at(&mut self, ns: u64, what: EventKind) {
        let event = event(ORIGIN + ns, 0, 0, what);
        self.builder.push(&event);
        self.survey.observe(&event);
    }

    /// Adds a name to the recording.
    pub fn name(&mut self, space: NameSpace, key: u64, name: &str) {
        self.add(EventKind::Name(space, key, name.as_bytes().into()));
    }

    /// Adds a process with a single thread, asleep when the story begins.
    pub fn thread(&mut self, tid: u32, parent: u32, comm: &[u8], cgroup: u64) -> ThreadIndex {
        self.thread_of(tid, tid, parent, comm, cgroup)
    }

    /// Adds a thread to process `tgid`, asleep when the story begins.
    pub fn thread_of(&mut self, tgid: u32, tid: u32, parent: u32, comm: &[u8], cgroup: u64) -> ThreadIndex {
        let EventKind::Thread { identity, blocked, call } = thread(tid, tgid, parent, "") else {
            unreachable!("a thread")
        };
        let identity = ThreadIdentity {
            start: Stamp::from_ns(u64::from(tid)),
            cgroup: CgroupId(cgroup),
            cpu_cgroup: CgroupId(cgroup),
            comm: Comm::new(comm),
            ..identity
        };
        self.add(EventKind::Thread { identity, blocked, call });
        self.threads += 1;
        ThreadIndex(self.threads - 1)
    }

    /// Adds a descriptor to a process.
    pub fn file(&mut self, tgid: u32, fd: u32, mode: u32, flow: Option<u64>, name: &str) {
        self.add(testing::file(tgid, fd, mode, flow, name));
    }

    /// Adds a TCP flow.
    pub fn flow(&mut self, id: u64, source: &str, target: &str) {
        self.add(testing::flow(id, source, target));
    }

    /// Adds a segment of `ns` to the path.
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
            goes_on: false,
        });
        self.segments.last_mut().expect("just pushed")
    }

    /// Adds `count` samples: a thread in a function of `libz.so.1`, called by `main`.
    pub fn seen(&mut self, thread: ThreadIndex, comm: &str, function: &str, count: u64) {
        let main = self::function("main", Some(comm), Some((&format!("{comm}.c"), 88)));
        let place = Site::new(self::function(function, Some("libz.so.1"), None), false, Some(main));
        self.sampled.push((thread, Comm::new(comm.as_bytes()), place, count));
    }

    /// Begins a wait of `ns`, which later segments explain.
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
            timed_out: false,
            goes_on: false,
        });
        id
    }

    /// The finished story.
    pub fn finish(self) -> FinishedStory {
        let host = Host {
            boot_id: String::from("11112222-3333-4444-5555-666677778888"),
            name: Name::from("web3"),
            kernel: Name::from("6.18.44"),
            machine: Name::from("x86_64"),
        };
        let graph = self.builder.finish();
        let window =
            Window { thread: ThreadIndex(0), from: Stamp::from_ns(ORIGIN), to: Stamp::from_ns(self.at) };
        let first_run = |thread| {
            let runs = |s: &Segment| s.thread == Some(thread) && s.kind == SegmentKind::Running;
            self.segments.iter().position(runs).expect("a sampled thread runs")
        };
        let sampled = self.sampled.into_iter();
        let sampled =
            sampled.map(|(thread, comm, site, count)| ((first_run(thread), comm, site), count)).collect();
        FinishedStory {
            recorded: Recorded::new("./wakepath.rec".into(), host, graph, self.survey, Vec::new()),
            path: Path {
                window,
                algorithm: Algorithm::default(),
                segments: self.segments,
                waits: self.waits,
                joined: JoinedSum::default(),
                unjoined: Unjoined::default(),
                problems: Vec::new(),
            },
            stacks: Stacks::default(),
            sampled,
        }
    }
}

/// A finished story.
pub struct FinishedStory {
    /// The recording.
    pub recorded: Recorded,
    /// The path.
    pub path: Path,
    /// The waits' stacks.
    pub stacks: Stacks,
    /// The threads' samples.
    pub sampled: Sampled,
}

impl FinishedStory {
    /// The evidence for findings.
    pub fn evidence(&self) -> Evidence<'_> {
        let Self { recorded, path, stacks, sampled } = self;
        Evidence { recorded, path, stacks, sampled }
    }
}

/// A function in a file, or in the kernel.
pub fn function(name: &str, module: Option<&str>, line: Option<(&str, u32)>) -> Found {
    Found::Function(Function {
        name: String::from(name),
        module: module.map(|module| module.as_bytes().to_vec()),
        line: line.map(|(file, line)| (String::from(file), line)),
    })
}

/// The cause of a wait: a request to disk 8:0.
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

/// The cause of a wait: an I/O limit held the same request of this cgroup back.
pub fn held_back(cgroup: u64) -> Cause {
    let Cause::Block { request: Some(request), .. } = disk(true) else { unreachable!("a request") };
    Cause::HeldBack { request, cgroup: CgroupId(cgroup) }
}

const MS: u64 = 1_000_000;

/// A shop's checkout: disk writes through the journal, own work, a CPU limit, a database on the same host, a
/// competitor, and a wait from before the recording.
pub fn checkout() -> FinishedStory {
    let mut story = Story::default();
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
    story.finish()
}

/// A checkout's stacks: it saves orders and asks the bank. The stack of the 10th wait, an order, is lost. Wakers
/// are known for the journal's wake-ups. The database's program was replaced since.
pub fn checkout_stacks(path: &Path) -> Stacks {
    let function = |name: &str, module: Option<&str>, line: Option<u32>| Frame {
        found: function(name, module, line.map(|line| ("checkout.c", line))),
        in_kernel: module.is_none(),
        proved: true,
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
    let replaced = Frame { found: Found::Replaced(b"postgres".to_vec()), in_kernel: false, proved: true };
    let waited = |segment: &Segment| segment.call.map(|_| vec![replaced.clone()]);
    Stacks::told(path, began, ended, waited)
}

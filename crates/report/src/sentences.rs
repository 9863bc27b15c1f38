//! Every document code with an example of its sentence, in a table: `tests/sentences.txt`.
//!
//! `UPDATE_EXPECT=1 cargo test -p wakepath-report sentences` writes it anew. Add a section here for each new enum
//! with sentences.

use std::fmt::Write;
use std::path::Path;

use expect_test::expect_file;
use wakepath_clock::{Quality, Stamp};
use wakepath_critical_path::{
    Basis, ProblemKind as OnPath, Responsible, Rule, SegmentKind, Share, SignalCause, SignalSender,
};
use wakepath_engine::requests::{JoinedBy, NoPath};
use wakepath_engine::{Cost, CostInKernel, Fault, Problem, ProblemKind, ReadFault};
use wakepath_event::{
    CgroupId, Comm, Context, Damage, DamageKind, FlowId, LostRecords, SignalEffect, StackCounts, Tid,
};
use wakepath_findings::testing::checkout;
use wakepath_findings::{DiskUse, EndedBy, Expected, Row, RowKey};
use wakepath_loaded::Object;
use wakepath_wait_graph::{ThreadIndex, TimerPurpose};

use crate::{problem, text, wording};

#[test]
fn every_code_has_its_sentence() {
    let mut table = String::new();
    let mut section = |title: &str, rows: Vec<(&str, String)>| {
        let _ = writeln!(table, "{title}");
        for (code, sentence) in rows {
            let _ = writeln!(table, "  {code:<22} {sentence}");
        }
        table.push('\n');
    };
    section("problems", problems());
    let kinds = SegmentKind::ALL;
    section("kinds of time", kinds.map(|kind| (kind.name(), wording::kind_phrase(kind).into())).to_vec());
    section(
        "meanings of kinds",
        kinds.map(|kind| (kind.name(), wording::kind_meaning(kind).into())).to_vec(),
    );
    let bases = [Basis::Measured, Basis::Sampled, Basis::Ambiguous];
    let meaning = |basis| wording::basis_meaning(basis).to_owned();
    section("bases", bases.map(|basis| (wording::basis_word(basis), meaning(basis))).to_vec());
    let rules = [
        Rule::InterruptsInSum,
        Rule::HeldRequest,
        Rule::LastCompletion,
        Rule::LastPacket,
        Rule::JoinedTimeouts,
        Rule::RanMeanwhile,
        Rule::ResumedAfterSignal,
        Rule::PeriodicTick,
        Rule::ReadyDescriptor,
        Rule::WakingBeforeSwitch,
        Rule::QueueThatItLeft,
        Rule::TakenUp,
        Rule::LockTurns,
        Rule::HandedOver,
        Rule::NotedReady,
        Rule::NextTurn,
        Rule::AskedInTurn,
        Rule::ReadyInTurn,
        Rule::CalledRequest,
        Rule::StolenBefore,
        Rule::LateInterrupt,
        Rule::PerhapsLate,
        Rule::DelayedAcknowledgement,
        Rule::WindowProbe,
    ];
    let inferred = |rule| (wording::rule_word(rule).expect("a rule"), meaning(rule));
    let words = rules.map(Basis::Inferred).map(inferred).to_vec();
    let contract = include_str!("../contract/path.txt");
    for (word, _) in &words {
        let places = contract.matches(&format!("\"{word}\"")).count();
        assert!(places >= 2, "{word}: a rule for waits and for segments");
    }
    section("rules of inference", words);
    let qualities = [Quality::Exact, Quality::Approximate, Quality::OneWay, Quality::None];
    let qualities = qualities.map(wording::quality).map(|(code, words)| (code, words.to_owned()));
    section("qualities of clocks", qualities.to_vec());
    let no_paths = [
        NoPath::NoThread,
        NoPath::NoGoroutines,
        NoPath::OtherHost,
        NoPath::NotRecorded(4711),
        NoPath::Outside,
        NoPath::Empty,
    ];
    section("requests without a path", no_paths.map(|why| (why.name(), wording::no_path(why))).to_vec());
    section(
        "classes of blocked time",
        wording::blocked::CLASSES.map(|(class, words)| (class, words.into())).to_vec(),
    );
    section("what time went to", activities());
    section("causes of calls", causes());
    section("cost of recording", costs());
    let joins =
        [JoinedBy::Context, JoinedBy::Goroutine, JoinedBy::Thread, JoinedBy::Connection, JoinedBy::None];
    section("threads of requests", joins.map(|join| (join.name(), wording::joined_by(join).into())).to_vec());
    section("spans that came", spans());
    expect_file!["../tests/sentences.txt"].assert_eq(&table);
}

fn spans() -> Vec<(&'static str, String)> {
    use wakepath_engine::spans::{Forwarded, Received, ReceivedSpans};
    let port = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let none = Received { addresses: vec![port(4317), port(4318)], ..Received::default() };
    let endpoint = String::from("http://127.0.0.1:4318");
    let said = |received: Received, given| {
        text::spans_received(&ReceivedSpans { received, endpoint: endpoint.clone(), given })
    };
    let forwarded = |answered, refused, failed| {
        let why_failed = (failed > 0).then(|| String::from("Connection refused (os error 111)"));
        Some(Forwarded { url: String::from("http://10.0.0.3:4317"), answered, refused, failed, why_failed })
    };
    let some = Received { spans: 312, services: 4, ..none.clone() };
    let all = Received {
        spans: 1,
        services: 4096,
        or_more_services: true,
        invalid: 1,
        malformed: 2,
        too_large: 1,
        busy: 3,
        slow: 1,
        connections_refused: 9,
        max_connections: 64,
        unwritten: 7,
        why_unwritten: Some(String::from("the recording has reached its limit of 1000 bytes")),
        dropped: 12,
        forwarded: forwarded(5, 2, 1),
        ..none.clone()
    };
    let mut lines = vec![("note", text::spans_awaited(&none))];
    lines.extend(said(none.clone(), false));
    lines.extend(said(none, true));
    lines.extend(said(Received { forwarded: forwarded(1, 0, 0), ..some }, true));
    let one = Received {
        malformed: 1,
        busy: 1,
        connections_refused: 1,
        unwritten: 1,
        dropped: 1,
        forwarded: forwarded(2, 1, 2),
        ..all.clone()
    };
    lines.extend(said(all, false));
    lines.extend(said(one, false));
    lines
}

fn costs() -> Vec<(&'static str, String)> {
    let cost = |to_ns, running_ns| {
        let in_kernel = CostInKernel { from_ns: 160_000_000, to_ns, running_ns, by_kind: Vec::new() };
        Cost { observer_ns: 4_000_000, over_ns: 1_000_000_000, in_kernel: Some(in_kernel) }
    };
    let unknown = Cost { in_kernel: None, ..cost(None, 0) };
    let of = |cost: &Cost| text::cost::sentence(cost, false);
    vec![
        ("range", of(&cost(Some(207_000_000), 1_900_000_000))),
        ("range", of(&cost(Some(207_000_000), 100_000_000_000))),
        ("range", of(&cost(Some(207_000_000), 2_000_000_000_000))),
        ("at_least", of(&cost(None, 1_900_000_000))),
        ("no_share", of(&cost(Some(207_000_000), 100_000_000))),
        ("not_measured", of(&unknown)),
        ("several_hosts", text::cost::sentence(&unknown, true)),
    ]
}

fn problems() -> Vec<(&'static str, String)> {
    let unexplained = Share { ns: 4, of_ns: 1000 };
    let counts =
        StackCounts { checked: 200, disagreed: 3, repeated: 400, doubtful: 12, ..StackCounts::default() };
    let offset = 4096;
    let read =
        |fault: ReadFault| ProblemKind::Recording(Damage::at(Path::new("kernel/sched_0"), offset, &fault));
    let damage = |packet, offset, kind| Damage { file: String::from("perf.data"), packet, offset, kind };
    let trace = |kind| ProblemKind::Trace(damage(None, None, kind));
    let fault = |fault: Fault| DamageKind::Fault(fault.to_string());
    let kinds = [
        ProblemKind::Path(OnPath::WindowOutside),
        ProblemKind::Path(OnPath::RecordsLost {
            of: LostRecords::Any,
            records: 1,
            or_more: false,
            places: 1,
            unexplained,
        }),
        ProblemKind::Path(OnPath::RecordsLost {
            of: LostRecords::Sockets,
            records: 1,
            or_more: false,
            places: 1,
            unexplained: Share { ns: 0, of_ns: 1000 },
        }),
        ProblemKind::Path(OnPath::RecordsLost {
            of: LostRecords::Any,
            records: 12,
            or_more: true,
            places: 3,
            unexplained,
        }),
        ProblemKind::Path(OnPath::RecordsLost {
            of: LostRecords::Any,
            records: 0,
            or_more: true,
            places: 2,
            unexplained,
        }),
        ProblemKind::Path(OnPath::SwitchesUnrecorded { switches: 49, unexplained }),
        ProblemKind::Path(OnPath::SwitchesUnrecorded { switches: 1, unexplained: Share { ns: 0, of_ns: 9 } }),
        ProblemKind::Path(OnPath::IoUring { waits: 1 }),
        ProblemKind::Path(OnPath::IoUring { waits: 3 }),
        ProblemKind::Path(OnPath::Ambiguous(Share { ns: 35_000_000, of_ns: 1_000_000_000 })),
        ProblemKind::ClockSet(3_600_000_000_000),
        ProblemKind::ClockSet(-20_000_000),
        ProblemKind::Suspended(2_000_000_000),
        ProblemKind::Path(OnPath::PerhapsLate(unexplained)),
        ProblemKind::Stolen(31_000_000),
        ProblemKind::StackCache(counts),
        ProblemKind::StackCache(StackCounts { checked: 1, disagreed: 1, repeated: 1, doubtful: 1, ..counts }),
        ProblemKind::CutOff,
        ProblemKind::HostUnlinked { recording: "b.wakepath".into(), reference: "a.wakepath".into() },
        ProblemKind::PartlyRecorded { recording: "b.data".into(), late_ns: 0, early_ns: 3_070_000_000 },
        ProblemKind::PartlyRecorded { recording: "b.data".into(), late_ns: 2_000_000, early_ns: 0 },
        ProblemKind::PartlyRecorded { recording: "b.data".into(), late_ns: 2_000_000, early_ns: 70_000_000 },
        read(ReadFault::UnknownFile),
        read(ReadFault::PacketCount { claimed: 90, found: 89 }),
        read(ReadFault::RecordEnd(Box::new(ReadFault::ForeignRecord(200)))),
        read(ReadFault::EndMissing { early_ns: 2_300_000_000 }),
        read(ReadFault::More(7)),
        ProblemKind::Trace(damage(Some(3), Some(4096), fault(Fault::EventSize(3)))),
        trace(DamageKind::More(7)),
        trace(DamageKind::More(1)),
        trace(DamageKind::EventsSkipped { count: 9, first: Some("it is too short") }),
        trace(DamageKind::NoWakings),
        trace(DamageKind::LateWakings),
        trace(DamageKind::UnmatchedInterrupts(40)),
        trace(DamageKind::UnmatchedInterrupts(1)),
        trace(DamageKind::StatesUndescribed),
        trace(DamageKind::SampledTracepoints(vec![
            String::from("sched_switch"),
            String::from("sched_waking"),
        ])),
        trace(DamageKind::SomeThreads),
        trace(DamageKind::OtherBuffers(vec![String::from("other")])),
        trace(DamageKind::BufferFull { cpu: 1, count: 9 }),
        trace(DamageKind::BufferFull { cpu: 1, count: 1 }),
        trace(DamageKind::CpusUnrecorded { cpus: vec![1, 2, 3, 5], wakings: 469 }),
        trace(DamageKind::CpusUnrecorded { cpus: vec![3], wakings: 1 }),
        trace(DamageKind::BeginMissing { cpu: 1, late_ns: 1_160_000_000 }),
        trace(DamageKind::EndMissing { cpu: 1, early_ns: 2_300_000_000 }),
        trace(DamageKind::CoarseClock),
        trace(DamageKind::LinesUnreadable { count: 3, first: 17 }),
        trace(DamageKind::LinesLate { count: 1, first: 70_000 }),
        trace(DamageKind::RoundedStamps),
        trace(DamageKind::ProgramsAlone),
        trace(DamageKind::ProgramsApart),
        trace(DamageKind::MarksWithoutThread),
        trace(DamageKind::MarksLost { count: None }),
        trace(DamageKind::MarksLost { count: Some(12) }),
        ProblemKind::OneOfSeveral("b.data".into(), Box::new(trace(DamageKind::NoWakings))),
        // The file's own name is not said twice.
        ProblemKind::OneOfSeveral("perf.data".into(), Box::new(trace(DamageKind::NoWakings))),
    ];
    let of = |kind| Problem::new(kind, Stamp::MIN, Stamp::MIN);
    let mut rows: Vec<_> =
        kinds.into_iter().map(|kind| (problem::code(&kind), problem::sentence(&of(kind.clone())))).collect();
    for other_calls in [1, 11] {
        let of_calls = Problem { other_calls, ..of(ProblemKind::Path(OnPath::Ambiguous(unexplained))) };
        rows.push((problem::code(&of_calls.kind), problem::sentence(&of_calls)));
    }
    rows
}

const fn signal(number: u32, effect: SignalEffect, sender: SignalSender) -> SignalCause {
    SignalCause { number, effect, sender }
}

fn activities() -> Vec<(&'static str, String)> {
    let story = checkout();
    let evidence = story.evidence();
    let words = |(kind, responsible)| {
        let activity = evidence.activity(kind, responsible, Some(ThreadIndex(0)));
        let code = wording::blamed_code(&evidence, &activity.blamed);
        (code.unwrap_or("null"), wording::activity(&evidence, &activity))
    };
    let sent_by_timer = |purpose| Responsible::SentByTimer { flow: FlowId(1), purpose };
    let disk = |queued| Responsible::Disk { device: Some(8 << 20), queued };
    let io_limit = Responsible::IoLimit { cgroup: CgroupId(7), device: 8 << 20, reads: false };
    let interrupt = Responsible::Interrupt { context: Context::Device, irq: Some(9) };
    [
        (SegmentKind::Running, Responsible::Itself),
        (SegmentKind::Runnable, Responsible::Competitor(ThreadIndex(3))),
        (SegmentKind::Runnable, Responsible::IdleCpu),
        (SegmentKind::Throttled, Responsible::Itself),
        (SegmentKind::Interrupted, interrupt),
        (SegmentKind::Stolen, Responsible::Itself),
        (SegmentKind::Timer, Responsible::Timer),
        (SegmentKind::BlockDevice, disk(false)),
        (SegmentKind::BlockDevice, disk(true)),
        (SegmentKind::BlockDevice, Responsible::Disk { device: None, queued: false }),
        (SegmentKind::BlockDevice, io_limit),
        (SegmentKind::Network, Responsible::Flow(Some(FlowId(1)))),
        (SegmentKind::Network, Responsible::Flow(None)),
        (SegmentKind::Network, sent_by_timer(TimerPurpose::Syn { repeats: 2 })),
        (SegmentKind::Network, sent_by_timer(TimerPurpose::Data)),
        (SegmentKind::Timer, sent_by_timer(TimerPurpose::Acknowledgement)),
        (SegmentKind::Timer, sent_by_timer(TimerPurpose::Nagle)),
        (SegmentKind::Network, sent_by_timer(TimerPurpose::WindowProbe)),
        (SegmentKind::Timer, sent_by_timer(TimerPurpose::Other)),
        (SegmentKind::Lock, Responsible::Lock { address: 0x2000, kernel: false, owner: None }),
        (SegmentKind::UserInput, interrupt),
        (SegmentKind::Queue, Responsible::Itself),
        (
            SegmentKind::Stopped,
            Responsible::Signal(signal(18, SignalEffect::GoesOn, SignalSender::Thread(ThreadIndex(3)))),
        ),
        (SegmentKind::Stopped, Responsible::StillWaiting),
        (SegmentKind::OtherDevice, interrupt),
        (SegmentKind::Unknown, Responsible::Interrupt { context: Context::Unrecorded, irq: None }),
        (
            SegmentKind::Unknown,
            Responsible::Signal(signal(10, SignalEffect::GoesOn, SignalSender::Thread(ThreadIndex(3)))),
        ),
        (SegmentKind::Unknown, Responsible::Signal(signal(19, SignalEffect::Stops, SignalSender::Unknown))),
        (SegmentKind::Unknown, Responsible::Signal(signal(0, SignalEffect::Kills, SignalSender::Unknown))),
        (SegmentKind::Unknown, Responsible::StillWaiting),
        (SegmentKind::Unknown, Responsible::BeforeRecording),
        (SegmentKind::Unknown, Responsible::AfterRecording),
        (SegmentKind::Unknown, Responsible::NoWakeupSeen),
        (SegmentKind::Unknown, Responsible::Lost),
        (SegmentKind::Unknown, Responsible::Unrecorded),
        (SegmentKind::Unknown, Responsible::StepUnrecorded),
        (SegmentKind::Unknown, Responsible::LoopEvent),
        (SegmentKind::Unknown, Responsible::NotAlive),
    ]
    .map(words)
    .to_vec()
}

fn causes() -> Vec<(&'static str, String)> {
    let story = checkout();
    let evidence = story.evidence();
    let mut row = Row::default();
    row.processes.insert(Tid(912));
    row.threads.insert(ThreadIndex(2));
    let postgres = Comm::new(b"postgres");
    let causes = [
        RowKey::Caller,
        RowKey::Running(postgres),
        RowKey::Interrupts,
        RowKey::Hypervisor,
        RowKey::Cpu,
        RowKey::CpuLimit(None),
        RowKey::Disk(Some(8 << 20), DiskUse::Flush),
        RowKey::Disk(Some(8 << 20), DiskUse::Transfer),
        RowKey::IoLimit(evidence.io_limit(CgroupId(7), 8 << 20, false)),
        RowKey::Timer,
        RowKey::TimedOut(Expected::Answer),
        RowKey::TimedOut(Expected::Room),
        RowKey::TimedOut(Expected::Input),
        RowKey::TimedOut(Expected::Event),
        RowKey::TimerReady(Some(Object::Anonymous("[timerfd]".into()))),
        RowKey::TimerReady(Some(Object::Pipe)),
        RowKey::TimerReady(None),
        RowKey::TimeOutOrTimer,
        RowKey::Window(Some(Object::Socket(None)), true),
        RowKey::Window(None, false),
        RowKey::SentByTimer(None, TimerPurpose::Syn { repeats: 1 }),
        RowKey::SentByTimer(None, TimerPurpose::Syn { repeats: 2 }),
        RowKey::SentByTimer(None, TimerPurpose::Data),
        RowKey::SentByTimer(None, TimerPurpose::Acknowledgement),
        RowKey::SentByTimer(None, TimerPurpose::Nagle),
        RowKey::SentByTimer(None, TimerPurpose::WindowProbe),
        RowKey::SentByTimer(None, TimerPurpose::Other),
        RowKey::Network(None),
        RowKey::Lock,
        RowKey::UserInput,
        RowKey::Queue,
        RowKey::Device(Responsible::Interrupt { context: Context::Device, irq: Some(9) }),
        RowKey::Process(postgres, None),
        RowKey::Thread(Comm::new(b"indexer"), EndedBy::Release),
        RowKey::Thread(Comm::new(b"indexer"), EndedBy::Packet),
        RowKey::Thread(Comm::new(b"indexer"), EndedBy::WakeUp),
        RowKey::Collection,
        RowKey::KernelThread(Comm::new(b"kworker")),
        RowKey::Signal(signal(14, SignalEffect::GoesOn, SignalSender::Timer)),
        RowKey::Stopped(Responsible::Signal(signal(9, SignalEffect::Kills, SignalSender::Unknown))),
        RowKey::StillWaiting,
        RowKey::Unknown(Responsible::NoWakeupSeen),
    ];
    causes.map(|key| wording::cause(&evidence, &key, &row)).to_vec()
}

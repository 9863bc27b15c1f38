//! The words for findings: rows, causes, their parts, and activities.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use wakepath_critical_path::{Responsible, Segment, SegmentKind, SignalCause};
use wakepath_event::{Call, Comm, SignalEffect, Tid};
use wakepath_findings::{
    Activity, Awaited, Blamed, Blames, CallCausePart, Certainty, DiskUse, Doers, EndedBy, Evidence, Expected,
    LargestPart, Leaf, PartKey, Pauses, Row, RowKey, SleepLoop, ThreadKey, ThreadName,
};
use wakepath_loaded::{CallName, Endpoint, IoLimit, Object, UnitLimit};
use wakepath_wait_graph::TimerPurpose;

use super::far_process;
use super::script::processes_title;
use super::{
    call, comm, disk, endpoint, interrupt, io_limit, kind_phrase, limit, list, lock, named, object_name,
    on_host, polling_row, signal_sent, thread, unit,
};
use crate::units::{count, duration};

/// Threads with a common name: `postgres`, `kernel thread kworker`, `postgres on db1`.
pub(super) fn thread_name(evidence: &Evidence<'_>, name: &ThreadName) -> String {
    let text = match name.kernel {
        true => format!("kernel thread {}", comm(name.comm)),
        false => named(name.comm),
    };
    text + &on_host(evidence.recorded, name.host)
}

/// A thread, or threads with a common name.
pub fn thread_key(evidence: &Evidence<'_>, key: &ThreadKey) -> String {
    match key {
        ThreadKey::One(index) => thread(evidence.recorded, *index, evidence.path.window.to),
        ThreadKey::Named(name) => thread_name(evidence, name),
    }
}

/// A tree node's thread; `None` is a packet in flight.
pub fn node_thread(evidence: &Evidence<'_>, thread: Option<&ThreadKey>) -> String {
    thread.map_or(String::from(super::IN_FLIGHT), |thread| thread_key(evidence, thread))
}

/// A tree's leaf: `waiting for disk sda, in fdatasync of orders.db`.
pub fn leaf(evidence: &Evidence<'_>, leaf: &Leaf) -> String {
    in_call(Some(activity(evidence, &leaf.activity)), leaf.call.as_ref())
}

/// An activity and its call: `waiting for disk sda, in fdatasync of orders.db`.
fn in_call(activity: Option<String>, name: Option<&CallName>) -> String {
    let call = name.map(|name| format!("in {}", call(name)));
    activity.into_iter().chain(call).collect::<Vec<_>>().join(", ")
}

/// The responsible cause: its code, and its name in a few words, if it has one; no code for the thread itself.
pub fn responsible(
    evidence: &Evidence<'_>,
    responsible: Responsible,
) -> (Option<&'static str>, Option<String>) {
    let names = &evidence.recorded.survey.names;
    let fixed = |code, name: &str| (code, Some(String::from(name)));
    let (code, name) = match responsible {
        Responsible::Itself => return (None, None),
        Responsible::Competitor(other) => {
            ("competitor", Some(thread(evidence.recorded, other, evidence.path.window.to)))
        }
        Responsible::IdleCpu => fixed("idle_cpu", "idle CPU"),
        Responsible::Timer => fixed("timer", "timer"),
        Responsible::Disk { device, queued } => {
            let disk = device.map_or(String::from("a disk"), |device| disk(names, device));
            ("block_request", Some(if queued { format!("queue of {disk}") } else { disk }))
        }
        Responsible::IoLimit { cgroup, device, reads } => {
            ("io_limit", Some(io_limit(names, &evidence.io_limit(cgroup, device, reads))))
        }
        Responsible::Flow(flow) => {
            ("packet", flow.and_then(|flow| names.sender(flow)).map(|peer| endpoint(&peer.end)))
        }
        Responsible::SentByTimer { flow, purpose } => {
            let (code, words) =
                sent_by_timer(evidence, purpose, evidence.slow_end(flow, purpose).as_ref(), None);
            (code, Some(words))
        }
        Responsible::Interrupt { context, irq } => ("interrupt", Some(interrupt(names, context, irq))),
        Responsible::Lock { address, kernel, .. } => ("lock", Some(lock(address, kernel))),
        Responsible::Signal(signal) => {
            ("signal", Some(signal_sent(evidence.recorded, &signal, evidence.path.window.to)))
        }
        Responsible::StillWaiting => fixed("still_waiting", "still waiting"),
        Responsible::BeforeRecording => fixed("before_recording", "the wait began before the recording"),
        Responsible::AfterRecording => fixed("after_recording", "the recording of its host had ended"),
        Responsible::NoWakeupSeen => fixed("no_wakeup_seen", "no wake-up was recorded"),
        Responsible::Lost => fixed("lost", "records were lost"),
        Responsible::Unrecorded => fixed("unrecorded", "a task switch was not recorded"),
        Responsible::StepUnrecorded => fixed("step_unrecorded", "a step of the goroutine was not recorded"),
        Responsible::LoopEvent => fixed("loop_event", "nothing shows for what it waited in its event loop"),
        Responsible::NotAlive => fixed("not_alive", "the thread was not alive"),
    };
    (Some(code), name)
}

/// The code of an activity's blamed cause; `None` for the thread itself.
pub fn blamed_code(evidence: &Evidence<'_>, blamed: &Blamed) -> Option<&'static str> {
    match blamed {
        Blamed::Cause(cause) => responsible(evidence, *cause).0,
        Blamed::Threads(_) => Some("competitor"),
        Blamed::CpuLimit(_) => Some("cpu_limit"),
        Blamed::IoLimit(_) => Some("io_limit"),
        Blamed::KernelThread(_) => Some("kernel_thread"),
        Blamed::Sender(_) => Some("packet"),
    }
}

/// An activity's words: `waiting for a CPU that stress (555) had`.
pub fn activity(evidence: &Evidence<'_>, Activity { kind, blamed }: &Activity) -> String {
    let phrase = kind_phrase(*kind);
    match (kind, blamed) {
        (SegmentKind::Runnable, Blamed::Cause(Responsible::Competitor(other))) => {
            format!("waiting for a CPU that {} had", thread_key(evidence, &ThreadKey::One(*other)))
        }
        (SegmentKind::Runnable, Blamed::Threads(name)) => {
            format!("waiting for a CPU that {} had", thread_name(evidence, name))
        }
        (SegmentKind::Runnable, Blamed::Cause(Responsible::IdleCpu)) => {
            String::from("could run while its CPU was idle")
        }
        (SegmentKind::BlockDevice, Blamed::Cause(Responsible::Disk { device, queued })) => {
            let waiting = if *queued { "waiting in the queue of" } else { "waiting for" };
            format!("{waiting} {}", a_disk(evidence, *device))
        }
        (_, Blamed::IoLimit(limit)) => held_back(evidence, limit),
        (SegmentKind::Throttled, Blamed::CpuLimit(limit)) => cpu_limit(Some(limit)),
        (SegmentKind::Stopped, Blamed::Cause(until)) => stopped(evidence, *until),
        (SegmentKind::Unknown, Blamed::Cause(Responsible::Signal(signal))) => cut_short(evidence, signal),
        (SegmentKind::Unknown, Blamed::Cause(Responsible::StillWaiting)) => {
            String::from("still waiting at the end of the window")
        }
        (SegmentKind::Timer, Blamed::Cause(Responsible::Timer)) => String::from(phrase),
        (_, Blamed::Cause(Responsible::SentByTimer { flow, purpose })) => {
            let end = evidence.slow_end(*flow, *purpose);
            let (_, words) = sent_by_timer(evidence, *purpose, end.as_ref(), None);
            format!("waiting for {words}")
        }
        (_, Blamed::KernelThread(name)) => format!("waiting for kernel thread {}", comm(*name)),
        (_, Blamed::Sender(end)) if end.is_name_server() => format!("waiting for {}", endpoint(end)),
        (_, Blamed::Sender(end)) => format!("{phrase}: {}", endpoint(end)),
        (_, Blamed::Threads(name)) => format!("{phrase}: {}", thread_name(evidence, name)),
        (_, Blamed::CpuLimit(of)) => format!("{phrase}: {}", limit(of)),
        (_, Blamed::Cause(cause)) => match responsible(evidence, *cause).1 {
            Some(what) => format!("{phrase}: {what}"),
            None => String::from(phrase),
        },
    }
}

/// The words for a segment's kind and cause.
pub fn doing(evidence: &Evidence<'_>, segment: &Segment) -> String {
    let responsible = Responsible::from(&segment.cause);
    activity(evidence, &evidence.activity(segment.kind, responsible, segment.thread))
}

/// A wait that a signal cut short: `waiting until SIGALRM from a timer cut the wait short`.
fn cut_short(evidence: &Evidence<'_>, signal: &SignalCause) -> String {
    let effect = match signal.effect {
        SignalEffect::Kills => "ended the thread",
        SignalEffect::Stops => "stopped the thread",
        SignalEffect::GoesOn => "cut the wait short",
    };
    format!("waiting until {} {effect}", signal_sent(evidence.recorded, signal, evidence.path.window.to))
}

/// A stop: `stopped by a signal until SIGCONT from gdb (317)`.
fn stopped(evidence: &Evidence<'_>, until: Responsible) -> String {
    match until {
        Responsible::Signal(signal) => {
            let sent = signal_sent(evidence.recorded, &signal, evidence.path.window.to);
            format!("stopped by a signal until {sent}")
        }
        _ => String::from("stopped by a signal, still at the end of the window"),
    }
}

/// A disk by name, `disk sda`, or `a disk`.
fn a_disk(evidence: &Evidence<'_>, device: Option<u32>) -> String {
    device.map_or(String::from("a disk"), |device| {
        format!("disk {}", disk(&evidence.recorded.survey.names, device))
    })
}

/// A wait for a CPU, with its own threads or processes where these had it.
fn waiting_for_a_cpu(evidence: &Evidence<'_>, row: &Row) -> String {
    let who = match row.own_competitors() {
        None => return String::from("waiting for a CPU"),
        Some((threads, true)) => {
            let at = evidence.path.window.to;
            let tgids: BTreeSet<Tid> = threads.iter().filter_map(|it| evidence.thread(*it).tgid).collect();
            let leader = tgids.first().and_then(|tgid| evidence.recorded.leader(*tgid, at));
            match leader.filter(|_| tgids.len() == 1) {
                Some(leader) => thread(evidence.recorded, leader, at),
                None => format!("{} processes of its own", tgids.len()),
            }
        }
        Some((threads, false)) => match threads.len() {
            1 => String::from("another thread of its own"),
            threads => format!("{threads} threads of its own"),
        },
    };
    format!("waiting for a CPU that {who} had")
}

/// A wait for a request that an I/O limit held back.
fn held_back(evidence: &Evidence<'_>, limit: &IoLimit) -> String {
    format!("held back by the I/O limit of {}", io_limit(&evidence.recorded.survey.names, limit))
}

/// Waits for a disk. If kernel threads took most of the time, the disk is not to blame for it.
fn disk_row(disk: &str, row: &Row) -> String {
    match row.is_mostly_in_kernel_threads() {
        true => format!("waiting in kernel threads before {disk}"),
        false => format!("waiting for {disk}"),
    }
}

/// A wait for a cgroup's CPU limit.
fn cpu_limit(of: Option<&UnitLimit>) -> String {
    let of = of.map_or(String::new(), |of| format!(" of {}", limit(of)));
    format!("not allowed to run: CPU limit{of}")
}

/// A row's key: its code, and its words, with details from `row`:
/// `waiting for postgres (912) in postgresql.service`.
pub fn row(evidence: &Evidence<'_>, key: &RowKey, row: &Row) -> (&'static str, String) {
    let fixed = |code, words: &str| (code, String::from(words));
    match key {
        RowKey::Caller => fixed("caller", "running"),
        RowKey::Running(_) if key.is_garbage_collection() => fixed("running", "running a garbage collection"),
        RowKey::Running(_) => fixed("running", "running"),
        RowKey::Interrupts => fixed("interrupts", "interrupted"),
        RowKey::Hypervisor => fixed("hypervisor", "CPU taken by the hypervisor"),
        RowKey::Cpu => ("cpu", waiting_for_a_cpu(evidence, row)),
        RowKey::CpuLimit(limit) => ("cpu_limit", cpu_limit(limit.as_ref())),
        RowKey::Disk(device, _) => ("disk", disk_row(&a_disk(evidence, *device), row)),
        RowKey::IoLimit(limit) => ("io_limit", held_back(evidence, limit)),
        RowKey::Timer => ("timer", sleeping(row)),
        RowKey::SentByTimer(end, purpose) => {
            let (code, words) = sent_by_timer(evidence, *purpose, end.as_ref(), Some(row));
            (code, format!("waiting for {words}"))
        }
        RowKey::TimedOut(expected) => ("timed_out", timed_out(*expected, row)),
        RowKey::Window(object, timed_out) => {
            let end = object.as_ref().map_or(String::from("the receiver"), object_name);
            let until = if *timed_out { " until a time-out" } else { "" };
            ("window_closed", format!("waiting for {end} to read{until}: its window was closed"))
        }
        RowKey::TimerReady(object) => ("timer_ready", timer_ready(object.as_ref())),
        RowKey::TimeOutOrTimer => {
            fixed("time_out_or_timer", "waiting until a time-out, or until a timer that it waited for")
        }
        RowKey::Network(None) => fixed("network", "waiting for the network"),
        RowKey::Network(Some(end)) if end.is_name_server() => {
            ("network", format!("waiting for {}", endpoint(end)))
        }
        RowKey::Network(Some(end)) => ("network", format!("waiting for the network, {end}")),
        RowKey::Lock => fixed("lock", "waiting for a lock"),
        RowKey::UserInput => fixed("user_input", "waiting for a person"),
        RowKey::Queue => fixed("queue", "ready, in a queue of its runtime"),
        RowKey::Device(device) => {
            let (_, device) = responsible(evidence, *device);
            ("device", format!("waiting for {}", device.as_deref().unwrap_or("a device")))
        }
        RowKey::Process(name, host) => {
            let process = process(evidence, &processes_title(evidence, *name, &row.processes), row);
            ("process", format!("waiting for {process}{}", on_host(evidence.recorded, *host)))
        }
        RowKey::Thread(name, by) => {
            let name = named(*name);
            let what = match by {
                EndedBy::Release => format!("waiting for a lock that {name} held"),
                EndedBy::Packet => format!("waiting for a packet from {name}"),
                EndedBy::WakeUp => format!("waiting for {name}"),
            };
            ("thread", what)
        }
        RowKey::Collection => match row.pauses.as_ref().map(|pauses| pauses.count) {
            Some(count @ 2..) => ("garbage_collection", format!("waiting for {count} garbage collections")),
            _ => fixed("garbage_collection", "waiting for a garbage collection"),
        },
        RowKey::KernelThread(name) => ("kernel_thread", format!("waiting for kernel thread {}", comm(*name))),
        RowKey::Signal(signal) => ("signal", cut_short(evidence, signal)),
        RowKey::Stopped(until) => ("stopped", stopped(evidence, *until)),
        RowKey::StillWaiting => fixed("still_waiting", "still waiting at the end of the window"),
        RowKey::Unknown(why) => match responsible(evidence, *why).1 {
            Some(why) => ("unknown", format!("unknown: {why}")),
            None => fixed("unknown", "unknown"),
        },
    }
}

/// The thing awaited until a timer's packet: its code, and `tcp 10.0.0.3:80: the SYN was sent again`.
fn sent_by_timer(
    evidence: &Evidence<'_>,
    purpose: TimerPurpose,
    end: Option<&Endpoint>,
    row: Option<&Row>,
) -> (&'static str, String) {
    let from = |words: &str| end.map_or(String::from(words), |end| format!("{words} from {}", endpoint(end)));
    match purpose {
        TimerPurpose::Syn { repeats } => {
            let times = if repeats == 1 { String::from("again") } else { format!("again {repeats} times") };
            ("syn_sent_again", format!("{}: the SYN was sent {times}", from("an answer")))
        }
        TimerPurpose::Data => ("sent_again", format!("{}: lost data was sent again", from("packets"))),
        TimerPurpose::Acknowledgement => ("delayed_acknowledgement", from("a delayed acknowledgement")),
        TimerPurpose::Nagle => ("delayed_acknowledgement", far_process::held_back(evidence, end, row)),
        TimerPurpose::WindowProbe => {
            let end = end.map_or(String::from("the receiver"), endpoint);
            ("window_probe", format!("{end} to read: its window was closed until a probe found it open"))
        }
        TimerPurpose::Other => ("sent_by_timer", format!("{}, which a timer sent", from("a packet"))),
    }
}

/// Waits for any descriptor in a set, ended by a descriptor that a timer had made ready: `waiting until a timerfd expired`.
fn timer_ready(object: Option<&Object>) -> String {
    match object {
        Some(Object::Anonymous(name)) if name.bytes() == b"[timerfd]" => {
            String::from("waiting until a timerfd expired")
        }
        Some(object) => format!("waiting for {}, which a timer made ready", object_name(object)),
        None => String::from("waiting for a descriptor that a timer made ready"),
    }
}

/// Timed-out waits, by the object with most of their time:
/// `waiting for udp 10.0.0.53:53 and 2 others until a time-out: nothing came`.
fn timed_out(expected: Expected, row: &Row) -> String {
    let missing = match expected {
        Expected::Answer => "no answer came",
        Expected::Room => "no room to send",
        Expected::Input => "nothing came",
        Expected::Event => return String::from("waiting until a time-out"),
    };
    match row.timed_out_object() {
        Some((object, 0)) if expected != Expected::Room && far_process::is_name_server(object) => {
            format!("waiting for {}, which did not answer, until a time-out: {missing}", object_name(object))
        }
        Some((object, others)) => {
            let others = match others {
                0 => String::new(),
                more => format!(" and {}", count(more as u64, "other")),
            };
            format!("waiting for {}{others} until a time-out: {missing}", object_name(object))
        }
        None => format!("waiting until a time-out: {missing}"),
    }
}

/// Another process: `postgres (912) in postgresql.service`, `cc1 (12 processes)`.
fn process(evidence: &Evidence<'_>, name: &str, row: &Row) -> String {
    let mut text = match (row.processes.len(), row.processes.first()) {
        (1, Some(tgid)) if name.is_empty() => format!("process {tgid}"),
        (2.., _) if name.is_empty() => format!("{} processes without a name", row.processes.len()),
        (1, Some(tgid)) => format!("{name} ({tgid})"),
        // The recording has neither these threads' process nor, mostly, their names.
        (0, _) => {
            let mut tids = row.threads.iter().map(|&index| evidence.thread(index).tid);
            let text = match (tids.next(), tids.next()) {
                (Some(tid), None) => format!("thread {tid} of an unknown process"),
                _ => format!("{} threads of unknown processes", row.threads.len()),
            };
            if name.is_empty() { text } else { format!("{name} ({text})") }
        }
        (n, _) => format!("{name} ({n} processes)"),
    };
    let names = &evidence.recorded.survey.names;
    let own = names.unit(&evidence.subject());
    let member = row.threads.iter().map(|&index| evidence.thread(index)).find(|thread| !thread.kernel);
    if let Some(of) = member.and_then(|member| names.unit(&member)).filter(|of| Some(of) != own.as_ref()) {
        text += &format!(" in {}", unit(&of));
    }
    text
}

/// A row as the headline blames it. If joined waits waited for a thread, and the row has this thread's time, it is
/// named first: `waiting in futex for holder (11), which was sleeping until a timer`. The same holds for own
/// threads that spent the time while the asked thread waited for them: `waiting for inventory, which was running`.
pub fn blamed(evidence: &Evidence<'_>, key: &RowKey, of: &Row, part: &LargestPart) -> String {
    let plain = || row(evidence, key, of).1 + &far_process::clause(evidence, key, of);
    let words = || match (key, part.also) {
        (RowKey::Disk(device, DiskUse::Flush), None) if !of.is_mostly_in_kernel_threads() => {
            format!("waiting{} for {}", in_calls(of), a_disk(evidence, *device))
        }
        _ => polling_row(evidence, key, of).unwrap_or_else(plain),
    };
    match &part.blames {
        Blames::Key => words() + &far_process::did_mostly(key, of),
        Blames::LastWait => String::from("this wait"),
        Blames::Awaited(Awaited { thread: awaited, call: name, .. }) => {
            let awaited = thread(evidence.recorded, *awaited, evidence.path.window.to);
            let call = name.as_ref().map_or(String::new(), |name| format!(" in {}", call(name)));
            format!("waiting{call} for {awaited}, which was {}", words())
        }
        Blames::Doers(of) => {
            let (doers, was) = doers(evidence, of);
            format!("waiting for {doers}, which {was} {}", words())
        }
    }
}

/// Sleeps; in a loop of processes with the programs that ran in between: `sleeping until a timer between runs of curl`.
fn sleeping(row: &Row) -> String {
    let sleeping = String::from("sleeping until a timer");
    let Some(SleepLoop { between, .. }) = &row.sleep_loop else { return sleeping };
    let names: Vec<String> = between.iter().map(|name| named(*name)).collect();
    format!("{sleeping} between runs of {}", list(&names, 2))
}

/// A line under a row of garbage collections: `java waited for collections 320 times, 1.31 s in all with the time until all threads
/// had stopped (inferred)`.
pub fn pauses_line(of: &Pauses) -> String {
    let names: Vec<String> = of.names.iter().map(|name| named(*name)).collect();
    format!(
        "{} waited for collections {}, {} in all with the time until all threads had stopped (inferred)",
        list(&names, 2),
        count(of.count, "time"),
        duration(of.ns)
    )
}

/// The calls in which a row's threads waited, without their objects: ` in fsync and fdatasync`.
fn in_calls(row: &Row) -> String {
    let mut times: BTreeMap<u32, u64> = BTreeMap::new();
    for (call, waits) in &row.calls {
        *times.entry(call.number).or_default() += waits.ns;
    }
    let mut numbers: Vec<_> = times.into_iter().collect();
    numbers.sort_by_key(|&(number, ns)| (Reverse(ns), number));
    let names: Vec<String> =
        numbers.into_iter().map(|(number, _)| call(&CallName { number, object: None })).collect();
    if names.is_empty() { String::new() } else { format!(" in {}", list(&names, 2)) }
}

/// The own threads with a row's activity while the asked thread waited for them, and their verb: `inventory`,
/// `was`; `cc1 (12 processes)`, `were`.
fn doers(evidence: &Evidence<'_>, of: &Doers) -> (String, &'static str) {
    const MAX_NAMED: usize = 2;
    let (Doers { names, processes, main, .. }, threads) = (of, of.threads);
    let asked = evidence.subject();
    let other_process = processes.iter().any(|process| Some(*process) != asked.tgid);
    let text = match (&names[..], processes.len(), threads) {
        ([name], _, _) if *name == asked.comm => match (other_process, processes.len(), threads) {
            (false, _, 1) => String::from("another of its threads"),
            (false, _, more) => format!("{more} of its other threads"),
            (true, 1, _) => String::from("another process of its name"),
            (true, more, _) => format!("{more} other processes of its name"),
        },
        ([name], 2.., _) if let Some(main) = main => {
            let title = doers_title(evidence, *name, &BTreeSet::from([*main]));
            let others = count(processes.len() as u64 - 1, "other process");
            format!("{title} ({main}) and {others}")
        }
        ([name], several @ 2.., _) => {
            let how = if of.in_turn { " one after another" } else { "" };
            format!("{} ({several} processes{how})", doers_title(evidence, *name, processes))
        }
        ([name], _, 2..) => format!("{} ({threads} threads)", named(*name)),
        ([name], _, _) => match processes.first().filter(|_| other_process) {
            Some(process) => format!("{} ({process})", doers_title(evidence, *name, processes)),
            None => named(*name),
        },
        ([], ..) => return (String::from("other threads"), "were"),
        (names, ..) => {
            let words: Vec<String> = names.iter().map(|name| named(*name)).collect();
            return (list(&words, MAX_NAMED), "were");
        }
    };
    (text, if threads > 1 { "were" } else { "was" })
}

/// The name of other processes' threads, with the script if it is that of their processes.
fn doers_title(evidence: &Evidence<'_>, name: Comm, processes: &BTreeSet<Tid>) -> String {
    if name.bytes().is_empty() { named(name) } else { processes_title(evidence, name, processes) }
}

/// A part of a row, next to that row's key.
pub fn part(evidence: &Evidence<'_>, of: &RowKey, part: &PartKey) -> String {
    match (of, part) {
        (_, PartKey::KernelThreads) => String::from("in kernel threads"),
        (_, PartKey::Call(name)) => format!("in {}", call(name)),
        (RowKey::Disk(..), PartKey::Activity(Activity { blamed, .. })) => match blamed {
            Blamed::Cause(Responsible::Disk { queued: true, .. }) => String::from("in its queue"),
            Blamed::Cause(Responsible::Disk { queued: false, .. }) => String::from("in the device"),
            _ => String::from(kind_phrase(SegmentKind::BlockDevice)),
        },
        (RowKey::Cpu, PartKey::Activity(Activity { blamed, .. })) => match blamed {
            Blamed::Threads(name) => thread_name(evidence, name),
            Blamed::Cause(Responsible::IdleCpu) => String::from("idle"),
            _ => String::from("not known"),
        },
        (RowKey::Lock, PartKey::Activity(Activity { blamed: Blamed::Cause(cause), .. })) => {
            let (_, lock) = responsible(evidence, *cause);
            format!("for {}", lock.as_deref().unwrap_or("a lock"))
        }
        (_, PartKey::Activity(of))
            if of.kind == SegmentKind::Stopped || matches!(of.blamed, Blamed::IoLimit(_)) =>
        {
            activity(evidence, of)
        }
        (_, PartKey::Activity(activity)) => String::from(kind_phrase(activity.kind)),
    }
}

/// A cause: its code and its words; `of` is the cause's row in the call of `evidence`.
pub fn cause(evidence: &Evidence<'_>, key: &RowKey, of: &Row) -> (&'static str, String) {
    match key {
        RowKey::Running(name) => ("running", format!("running {}", named(*name))),
        key => row(evidence, key, of),
    }
}

/// A part of a cause: `waiting for disk sda, in fdatasync of orders.db`.
pub fn end(evidence: &Evidence<'_>, of: &RowKey, part: &CallCausePart) -> String {
    let activity = part.end.activity.as_ref().map(|end| match (of, &end.blamed) {
        (RowKey::Cpu, Blamed::Threads(name)) => {
            format!("that {} had", thread_name(evidence, name))
        }
        (RowKey::Cpu, _) => String::from("while its CPU was idle"),
        (_, Blamed::Cause(Responsible::Timer))
            if part.end.call.is_some_and(|call| Call::SLEEPS.contains(&call)) =>
        {
            String::from("sleeping until a timer")
        }
        _ => activity(evidence, end),
    });
    let text = in_call(activity, part.call.as_ref());
    match part.end.thread {
        Some(thread) => format!("{text} ({})", named(thread)),
        None => text,
    }
}

/// The certainty of summed times, in a word.
pub const fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Measured => "measured",
        Certainty::MostlyMeasured => "mostly measured",
        Certainty::Sampled => "sampled",
        Certainty::Inferred => "inferred",
        Certainty::PartlyAmbiguous => "partly ambiguous",
        Certainty::Ambiguous => "ambiguous",
    }
}

/// The same word as documents spell it.
pub const fn certainty_code(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Measured => "measured",
        Certainty::MostlyMeasured => "mostly_measured",
        Certainty::Sampled => "sampled",
        Certainty::Inferred => "inferred",
        Certainty::PartlyAmbiguous => "partly_ambiguous",
        Certainty::Ambiguous => "ambiguous",
    }
}

#[cfg(test)]
mod tests;

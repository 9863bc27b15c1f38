//! The words for findings: rows, causes, their parts, and what time went to.

use wakepath_critical_path::{Responsible, Segment, SegmentKind};
use wakepath_findings::{
    Activity, Blamed, CauseKey, CausePart, Certainty, Evidence, Leaf, PartKey, Row, RowKey, ThreadKey,
    ThreadName,
};
use wakepath_names::{CallName, UnitLimit};

use super::{call, comm, disk, interrupt, kind_phrase, limit, lock, on_host, thread, unit};

/// Threads of one name: `postgres`, `kernel thread kworker`, `postgres on db1`.
fn thread_name(evidence: &Evidence<'_>, name: &ThreadName) -> String {
    let text = match name.kernel {
        true => format!("kernel thread {}", comm(name.comm)),
        false if name.comm.bytes().is_empty() => String::from("a thread without a name"),
        false => comm(name.comm),
    };
    text + &on_host(evidence.recorded, name.host)
}

/// A thread, or threads of one name.
pub fn thread_key(evidence: &Evidence<'_>, key: &ThreadKey) -> String {
    match key {
        ThreadKey::One(index) => thread(evidence.recorded, *index, evidence.path.window.to),
        ThreadKey::Named(name) => thread_name(evidence, name),
    }
}

/// The thread of a tree's node; `None` is a packet in flight.
pub fn node_thread(evidence: &Evidence<'_>, thread: Option<&ThreadKey>) -> String {
    thread.map_or(String::from("a packet in flight"), |thread| thread_key(evidence, thread))
}

/// A leaf of a tree: `waiting for disk sda, in fdatasync of orders.db`.
pub fn leaf(evidence: &Evidence<'_>, leaf: &Leaf) -> String {
    in_call(Some(activity(evidence, &leaf.activity)), leaf.call.as_ref())
}

/// An activity and its call: `waiting for disk sda, in fdatasync of orders.db`.
fn in_call(activity: Option<String>, name: Option<&CallName>) -> String {
    let call = name.map(|name| format!("in {}", call(name)));
    activity.into_iter().chain(call).collect::<Vec<_>>().join(", ")
}

/// The responsible cause, in a few words; `None` for the thread itself.
pub fn responsible(evidence: &Evidence<'_>, responsible: Responsible) -> Option<String> {
    let names = &evidence.recorded.survey.names;
    Some(match responsible {
        Responsible::Itself => return None,
        Responsible::Competitor(other) => thread(evidence.recorded, other, evidence.path.window.to),
        Responsible::IdleCpu => String::from("idle CPU"),
        Responsible::Timer => String::from("timer"),
        Responsible::Disk { device, queued } => {
            let disk = device.map_or(String::from("a disk"), |device| disk(names, device));
            if queued { format!("queue of {disk}") } else { disk }
        }
        Responsible::Flow(flow) => names.sender(flow?)?.end.to_string(),
        Responsible::Interrupt { context, irq } => interrupt(names, context, irq),
        Responsible::Lock { address, kernel, .. } => lock(address, kernel),
        Responsible::StillWaiting => String::from("still waiting"),
        Responsible::BeforeRecording => String::from("the wait began before the recording"),
        Responsible::NoWakeupSeen => String::from("no wake-up was recorded"),
        Responsible::Lost => String::from("records were lost"),
        Responsible::Unrecorded => String::from("a task switch was not recorded"),
        Responsible::NotAlive => String::from("the thread was not alive"),
    })
}

/// The words of an activity: `waiting for a CPU that stress (555) had`.
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
            format!(
                "waiting {} {}",
                if *queued { "in the queue of" } else { "for" },
                a_disk(evidence, *device)
            )
        }
        (SegmentKind::Throttled, Blamed::CpuLimit(limit)) => cpu_limit(Some(limit)),
        (SegmentKind::Unknown, Blamed::Cause(Responsible::StillWaiting)) => {
            String::from("still waiting at the end of the window")
        }
        (SegmentKind::Timer, Blamed::Cause(Responsible::Timer)) => String::from(phrase),
        (_, Blamed::KernelThread(name)) => format!("waiting for kernel thread {}", comm(*name)),
        (_, Blamed::Sender(end)) => format!("{phrase}: {end}"),
        (_, Blamed::Threads(name)) => format!("{phrase}: {}", thread_name(evidence, name)),
        (_, Blamed::CpuLimit(of)) => format!("{phrase}: {}", limit(of)),
        (_, Blamed::Cause(cause)) => match responsible(evidence, *cause) {
            Some(what) => format!("{phrase}: {what}"),
            None => String::from(phrase),
        },
    }
}

/// The words of a segment's kind and cause.
pub fn doing(evidence: &Evidence<'_>, segment: &Segment) -> String {
    let responsible = Responsible::from(&segment.cause);
    activity(evidence, &evidence.activity(segment.kind, responsible, segment.thread))
}

/// A disk, `disk sda`, or that it is one.
fn a_disk(evidence: &Evidence<'_>, device: Option<u32>) -> String {
    device.map_or(String::from("a disk"), |device| {
        format!("disk {}", disk(&evidence.recorded.survey.names, device))
    })
}

/// A wait for a cgroup's CPU limit.
fn cpu_limit(of: Option<&UnitLimit>) -> String {
    let of = of.map_or(String::new(), |of| format!(" of {}", limit(of)));
    format!("not allowed to run: CPU limit{of}")
}

/// A row's key with what of `row` belongs to its name: `waiting for postgres (912) in postgresql.service`.
pub fn row(evidence: &Evidence<'_>, key: &RowKey, row: &Row) -> String {
    match key {
        RowKey::Running(_) => String::from("running"),
        RowKey::Interrupts => String::from("interrupted"),
        RowKey::Hypervisor => String::from("CPU taken by the hypervisor"),
        RowKey::Cpu => String::from("waiting for a CPU"),
        RowKey::CpuLimit(limit) => cpu_limit(limit.as_ref()),
        RowKey::Disk(device) => format!("waiting for {}", a_disk(evidence, *device)),
        RowKey::Timer => String::from("sleeping until a timer"),
        RowKey::Network(None) => String::from("waiting for the network"),
        RowKey::Network(Some(end)) => format!("waiting for the network, {end}"),
        RowKey::Lock => String::from("waiting for a lock"),
        RowKey::UserInput => String::from("waiting for a person"),
        RowKey::Device(device) => {
            let device = responsible(evidence, *device);
            format!("waiting for {}", device.as_deref().unwrap_or("a device"))
        }
        RowKey::Process(name, host) => {
            let process = process(evidence, &comm(*name), row);
            format!("waiting for {process}{}", on_host(evidence.recorded, *host))
        }
        RowKey::KernelThread(name) => format!("waiting for kernel thread {}", comm(*name)),
        RowKey::StillWaiting => String::from("still waiting at the end of the window"),
        RowKey::Unknown(why) => match responsible(evidence, *why) {
            Some(why) => format!("unknown: {why}"),
            None => String::from("unknown"),
        },
    }
}

/// Another process: `postgres (912) in postgresql.service`, `cc1 (12 processes)`.
fn process(evidence: &Evidence<'_>, name: &str, row: &Row) -> String {
    let mut text = match (row.processes.len(), row.processes.first()) {
        (1, Some(tgid)) => format!("{name} ({tgid})"),
        // The recording says neither which process these threads belong to nor, mostly, their names.
        (0, _) => {
            let mut tids = row.threads.iter().map(|&index| evidence.thread(index).tid);
            let text = match (tids.next(), tids.next()) {
                (Some(tid), None) => format!("{name} thread {tid} of an unknown process"),
                _ => format!("{name} {} threads of unknown processes", row.threads.len()),
            };
            text.trim_start().to_owned()
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

/// A part of a row, next to the key of that row.
pub fn part(evidence: &Evidence<'_>, of: &RowKey, part: &PartKey) -> String {
    match (of, part) {
        (_, PartKey::KernelThreads) => String::from("in kernel threads"),
        (_, PartKey::Call(name)) => format!("in {}", call(name)),
        (RowKey::Disk(_), PartKey::Activity(Activity { blamed, .. })) => match blamed {
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
            responsible(evidence, *cause).map_or(String::from("for a lock"), |lock| format!("for {lock}"))
        }
        (_, PartKey::Activity(activity)) => String::from(kind_phrase(activity.kind)),
    }
}

/// A cause; `row` is what it took of the call of `evidence`.
pub fn cause(evidence: &Evidence<'_>, key: &CauseKey, of: &Row) -> String {
    match key {
        CauseKey::Caller => String::from("running"),
        CauseKey::Row(RowKey::Running(name)) => format!("running {}", comm(*name)),
        CauseKey::Row(key) => row(evidence, key, of),
    }
}

/// A part of a cause: `waiting for disk sda, in fdatasync of orders.db`.
pub fn end(evidence: &Evidence<'_>, of: &CauseKey, part: &CausePart) -> String {
    let activity = part.end.activity.as_ref().map(|end| match (of, &end.blamed) {
        (CauseKey::Row(RowKey::Cpu), Blamed::Threads(name)) => {
            format!("that {} had", thread_name(evidence, name))
        }
        (CauseKey::Row(RowKey::Cpu), _) => String::from("while its CPU was idle"),
        _ => activity(evidence, end),
    });
    in_call(activity, part.call.as_ref())
}

/// How well a sum of times is known, in a word.
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

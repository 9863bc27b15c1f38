//! The words for typed names and keys: one wording for all views.

pub mod blocked;
mod chain;
pub mod death;
mod errno;
mod failed_call;
mod far_process;
mod finding;
mod functions;
pub mod latency;
mod scheduling;
mod script;
mod signal;

pub use blocked::blocked_classes;
pub use chain::chain;

pub use errno::error_name;
pub use failed_call::{attempt_object, polling_line, polling_row, spinning_line};
pub use far_process::{clause as far_clause, doing as far_doing, endpoint, line as far_line, process};
#[cfg(test)]
pub use finding::activity;
pub use finding::{
    blamed, blamed_code, cause, certainty, certainty_code, doing, end, leaf, node_thread, part, pauses_line,
    responsible, row,
};
pub use functions::{
    code_lines, frame, function, function_caller, function_name, is_shown_nameless, samples, tally,
};
pub use scheduling::{cpu_ranges, cpu_reasons};
pub(crate) use script::threads_title;
pub use script::{named_title, title};
pub use signal::{signal_name, signal_sent};

use std::path::Path;

use wakepath_clock::{Quality, Reference, Stamp};
use wakepath_critical_path::{Basis, Rule, Segment, SegmentKind, Severity, Via};
use wakepath_engine::Reclaims;
use wakepath_engine::requests::{JoinedBy, NoPath};
use wakepath_event::{Call, Comm, Context, CostKind, HostIndex, LostRecords, MemoryLimit};
use wakepath_loaded::{
    CallName, IoLimit, Name, Names, Object, Problem, Recorded, SetSize, ThreadInfo, Unit, UnitLimit,
    call_name,
};
use wakepath_wait_graph::ThreadIndex;

use crate::escape::escape;
use crate::escape::text;
use crate::units::{decimal_bytes, duration};

/// The extent of an answer about all threads.
pub(crate) fn all_threads(problems: &[Problem]) -> &'static str {
    if problems.iter().any(|problem| problem.kind.lacks_the_kernel()) {
        "the traced programs"
    } else if problems.iter().any(|problem| problem.kind.lacks_cpus()) {
        "the recorded CPUs"
    } else {
        "the whole machine"
    }
}

/// The words for a segment without a thread.
const IN_FLIGHT: &str = "a packet in flight";

/// A kind of work by the recorder in the kernel, as documents name it.
pub const fn cost_kind(kind: CostKind) -> &'static str {
    match kind {
        CostKind::Switch => "switch",
        CostKind::Waking => "waking",
        CostKind::Packet => "packet",
        CostKind::Softirq => "softirq",
        CostKind::Interrupt => "interrupt",
        CostKind::Sample => "sample",
        CostKind::Call => "call",
        CostKind::Other => "other",
    }
}

/// The things for which such work is done.
pub const fn cost_work(kind: CostKind) -> &'static str {
    match kind {
        CostKind::Switch => "switches",
        CostKind::Waking => "wake-ups",
        CostKind::Packet => "packets",
        CostKind::Softirq => "softirqs",
        CostKind::Interrupt => "interrupts",
        CostKind::Sample => "samples",
        CostKind::Call => "calls",
        CostKind::Other => "other records",
    }
}

/// A name as shown.
pub fn name(name: &Name) -> String {
    escape(name.bytes())
}

/// A file's path as shown.
pub fn file(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

/// A thread's name as shown.
pub fn comm(comm: Comm) -> String {
    escape(comm.bytes())
}

/// A thread's name in a sentence. It may be unknown: the record of the fork may be lost, or come after the
/// recording's end.
pub fn named(name: Comm) -> String {
    match name.bytes() {
        [] => String::from("a thread without a name"),
        bytes if bytes.starts_with(b"iou-wrk-") => format!("io_uring worker {}", comm(name)),
        _ => comm(name),
    }
}

/// The first `most` of these names: `dd and cat`, `dd, cat and 3 more`.
pub fn list(names: &[String], most: usize) -> String {
    let (shown, rest) = names.split_at(most.min(names.len()));
    match (shown, rest.len()) {
        ([one], 0) => one.clone(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A unit or container: `shop.service`, `docker 3f2a9c1b04de`.
pub fn unit(unit: &Unit) -> String {
    match unit {
        Unit::Container { runtime, id } => format!("{runtime} {}", escape(id.as_bytes())),
        Unit::Systemd(unit) | Unit::Cgroup(unit) => name(unit),
    }
}

/// A CPU limit: `shop.service (50.0 ms per 100 ms)`.
pub fn limit(UnitLimit { unit: of, limit }: &UnitLimit) -> String {
    let of = unit(of);
    limit.map_or(of.clone(), |limit| {
        let [quota, period] = [limit.quota_ns, limit.period_ns].map(duration);
        format!("{of} ({quota} per {period})")
    })
}

/// The memory limit of reclaims: `memory limit of shop.service (20 MB)`.
pub fn memory_limit(reclaims: &Reclaims) -> String {
    let of = reclaims.unit.as_ref().map_or(String::from("a cgroup"), unit);
    match reclaims.limit {
        None => String::from("a memory limit that was not found"),
        Some(MemoryLimit { bytes, is_high, .. }) => {
            let limit = if is_high { "memory.high" } else { "memory limit" };
            format!("{limit} of {of} ({})", decimal_bytes(bytes))
        }
    }
}

/// An I/O limit: `shop.service (1 MB/s of writes to sda)`; `a cgroup` if it has no name.
pub fn io_limit(names: &Names, limit: &IoLimit) -> String {
    let of = limit.unit.as_ref().map_or(String::from("a cgroup"), unit);
    let bytes = limit.bytes.map(|bytes| format!("{}/s", decimal_bytes(bytes)));
    let requests = limit.requests.map(|requests| format!("{requests} requests/s"));
    let sizes: Vec<String> = bytes.into_iter().chain(requests).collect();
    let direction = if limit.reads { "reads from" } else { "writes to" };
    let size = match sizes.is_empty() {
        true => String::new(),
        false => format!(" ({} of {direction} {})", sizes.join(" and "), disk(names, limit.device)),
    };
    let outer = if limit.alone { "" } else { " or of an outer cgroup" };
    format!("{of}{size}{outer}")
}

/// A thread at a time: `postgres (912)`, `kernel thread jbd2/sda1-8`.
pub fn thread(recorded: &Recorded, index: ThreadIndex, at: Stamp<Reference>) -> String {
    who(recorded, &recorded.thread_at(index, at))
}

/// A segment's thread, or the words for a packet in flight.
pub fn segment_thread(recorded: &Recorded, segment: &Segment) -> String {
    let thread = segment.thread.map(|index| thread(recorded, index, segment.to));
    thread.unwrap_or_else(|| String::from(IN_FLIGHT))
}

/// A thread with its number: `postgres (912)`, `python3 h.py (812)`, `kernel thread jbd2/sda1-8`, `postgres (912) on db1`.
pub fn who(recorded: &Recorded, who: &ThreadInfo) -> String {
    let name = match (who.kernel, title(who)) {
        (true, name) => format!("kernel thread {name}"),
        (false, name) if name.is_empty() => format!("thread {}", who.tid),
        (false, name) => format!("{name} ({})", who.tid),
    };
    name + &on_host(recorded, recorded.remote_host(who.tid).map(|_| who.tid.host()))
}

/// The host, if not the reference host.
fn on_host(recorded: &Recorded, host: Option<HostIndex>) -> String {
    host.map_or(String::new(), |host| format!(" on {}", name(&recorded.host_at(host).name)))
}

/// The words for a page fault, in place of a call's name.
pub const PAGE_FAULT: &str = "a page fault";

/// A system call with its object: `fdatasync of orders.db`, `recvfrom on tcp 10.0.0.3:5432`.
pub fn call(call: &CallName) -> String {
    let object = call.object.as_ref().map(object);
    match (call.number, object) {
        (Call::PAGE_FAULT, _) => String::from(PAGE_FAULT),
        (Call::IO_URING_ENTER, _) => {
            format!("{} (which request is not recorded)", call_name(call.number))
        }
        (_, Some(object)) => format!("{} {object}", call_name(call.number)),
        (_, None) => call_name(call.number).into_owned(),
    }
}

/// A system call's object: `of orders.db`.
pub fn object(object: &Object) -> String {
    match object {
        Object::AnyOf(..) => format!("on {}", object_name(object)),
        Object::File(file) => format!("of {}", name(file)),
        Object::Pipe => String::from("on a pipe"),
        Object::Socket(Some(end)) => format!("on {}", endpoint(end)),
        Object::Socket(None) => String::from("on a socket"),
        Object::Anonymous(what) => format!("on {}", name(what)),
    }
}

/// An object's name: `orders.db`, `any of 3 descriptors (a pipe, tcp 10.0.0.3:5432)`.
pub fn object_name(object: &Object) -> String {
    const MAX_NAMED: usize = 3;
    match object {
        Object::File(what) | Object::Anonymous(what) => name(what),
        Object::Pipe => String::from("a pipe"),
        Object::Socket(Some(end)) => endpoint(end),
        Object::Socket(None) => String::from("a socket"),
        Object::AnyOf(objects, count) => {
            let count = match count {
                SetSize::Known(count) => format!("{count} descriptors"),
                SetSize::MoreThan(count) => format!("more than {count} descriptors"),
            };
            let mut named: Vec<_> = objects.iter().take(MAX_NAMED).map(object_name).collect();
            if objects.len() > MAX_NAMED {
                named.push(String::from("…"));
            }
            if named.is_empty() {
                format!("any of {count}")
            } else {
                format!("any of {count} ({})", named.join(", "))
            }
        }
    }
}

/// An object's kind as documents spell it, and its name, if any.
pub fn object_kind(object: &Object) -> (&'static str, Option<String>) {
    match object {
        Object::AnyOf(..) => ("any_of", Some(object_name(object))),
        Object::File(name) => ("file", Some(text(name.bytes()))),
        Object::Pipe => ("pipe", None),
        Object::Socket(end) => ("socket", end.map(|end| end.to_string())),
        Object::Anonymous(name) => ("anonymous", Some(text(name.bytes()))),
    }
}

/// A block device: `sda`, else its numbers.
pub fn disk(names: &Names, device: u32) -> String {
    let numbers = || format!("{}:{}", device >> 20, device & 0xf_ffff);
    names.block_device(device).map_or_else(numbers, name)
}

/// An interrupt: with its handlers, if its number has names.
pub fn interrupt(names: &Names, context: Context, irq: Option<u16>) -> String {
    match (context, irq) {
        (Context::Device, Some(irq)) => match names.interrupt(irq) {
            Some(handlers) => format!("interrupt {irq} ({})", name(handlers)),
            None => format!("interrupt {irq}"),
        },
        (Context::Device, None) => String::from("a device's interrupt"),
        (Context::Softirq(vector), _) => format!("softirq {}", vector.name()),
        (Context::LocalTimer, _) => String::from("the timer interrupt"),
        (Context::Reschedule, _) => String::from("the reschedule interrupt"),
        (Context::CallFunction, _) => String::from("the call-function interrupt"),
        (Context::IrqWork, _) => String::from("deferred interrupt work"),
        (Context::Task, _) => String::from("a thread"),
        (Context::Unrecorded, _) => String::from("an interrupt that was not recorded"),
        (Context::UnrecordedTimer, _) => String::from("a timer interrupt that was not recorded"),
        (Context::TaskOrUnrecorded, _) => String::from("a thread, or an interrupt that was not recorded"),
        (Context::UnknownInterrupt, _) => String::from("an interrupt"),
    }
}

/// A lock by its address.
pub fn lock(address: u64, kernel: bool) -> String {
    format!("{} {address:#x}", if kernel { "kernel lock" } else { "futex" })
}

/// A kind as a reader sees it.
pub const fn kind_phrase(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Running => "running",
        SegmentKind::Runnable => "waiting for a CPU",
        SegmentKind::Throttled => "not allowed to run",
        SegmentKind::Interrupted => "interrupted",
        SegmentKind::Stolen => "CPU taken by the hypervisor",
        SegmentKind::Timer => "waiting for a timer",
        SegmentKind::BlockDevice => "waiting for a disk",
        SegmentKind::Network => "waiting for the network",
        SegmentKind::Lock => "waiting for a lock",
        SegmentKind::UserInput => "waiting for a person",
        SegmentKind::Queue => "in a queue",
        SegmentKind::Stopped => "stopped by a signal",
        SegmentKind::OtherDevice => "waiting for a device",
        SegmentKind::Unknown => "unknown",
    }
}

/// The reason why a request has no path, in a sentence.
pub fn no_path(why: NoPath) -> String {
    match why {
        NoPath::NoThread => String::from("the thread that worked for it is not known"),
        NoPath::NoGoroutines => {
            String::from("it is a Go program's, whose goroutines were not recorded: no thread stands for it")
        }
        NoPath::OtherHost => String::from("its spans name a host that was not recorded, or a container"),
        NoPath::NotRecorded(tid) => {
            format!("the thread in which its span began, {tid}, is not in the recording")
        }
        NoPath::Outside => String::from("not all of its time was recorded"),
        NoPath::Empty => String::from("it has no length"),
    }
}

/// A kind's meaning, in a sentence.
pub const fn kind_meaning(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Running => "the thread was on a CPU, from one switch to the next",
        SegmentKind::Runnable => {
            "the thread could run and had no CPU; the thread that had the CPU it was queued on is named"
        }
        SegmentKind::Throttled => {
            "the CPU limit of a cgroup was used up, so the scheduler took the thread off the CPU"
        }
        SegmentKind::Interrupted => "the thread was on a CPU that interrupts used in that time",
        SegmentKind::Stolen => {
            "the hypervisor did not let the CPU run that the thread had, or from which its wake-up had to come (steal time)"
        }
        SegmentKind::Timer => "the thread was blocked until a timer expired",
        SegmentKind::BlockDevice => {
            "the thread was blocked until a disk request completed; the request is in the queue before it goes \
             to the device"
        }
        SegmentKind::Network => {
            "the thread was blocked until a packet came whose sender was not recorded, or the packet was in flight"
        }
        SegmentKind::Lock => {
            "the thread was blocked on a lock, and it is not known what the lock's owner did"
        }
        SegmentKind::Queue => "a goroutine was ready, and no thread of its program ran it yet",
        SegmentKind::UserInput => "the thread was blocked until a keyboard, mouse or terminal sent input",
        SegmentKind::Stopped => "a signal had stopped the thread, until another let it go on or killed it",
        SegmentKind::OtherDevice => "the thread was blocked until an interrupt of another kind came",
        SegmentKind::Unknown => {
            "the recording does not explain this time; it is never guessed and never left out"
        }
    }
}

/// A link as the contract spells it; `None` at depth 0.
pub const fn via_word(via: Via) -> Option<&'static str> {
    Some(match via {
        Via::Window => return None,
        Via::Wakeup => "wakeup",
        Via::Packet => "packet",
        Via::Fork => "fork",
        Via::Lock => "lock",
        Via::Device => "device",
        Via::Timer => "timer",
        Via::Throttle => "throttle",
    })
}

/// A basis as the contract spells it.
pub const fn basis_word(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "measured",
        Basis::Sampled => "sampled",
        Basis::Inferred(_) => "inferred",
        Basis::Ambiguous => "ambiguous",
    }
}

/// An inferred figure's rule, as the contract spells it.
pub const fn rule_word(basis: Basis) -> Option<&'static str> {
    match basis {
        Basis::Inferred(rule) => Some(inference(rule).0),
        _ => None,
    }
}

/// A basis's meaning; for an inferred figure, its rule.
pub const fn basis_meaning(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured => "events of the scheduler give both ends",
        Basis::Sampled => "estimated from samples",
        Basis::Ambiguous => "several explanations fit the recording, or none is sure",
        Basis::Inferred(rule) => inference(rule).1,
    }
}

/// A rule as the contract spells it, and its meaning.
const fn inference(rule: Rule) -> (&'static str, &'static str) {
    match rule {
        Rule::InterruptsInSum => (
            "interrupts_in_sum",
            "interrupt time is measured as a sum; its place within the thread's time on the CPU is assumed",
        ),
        Rule::HeldRequest => (
            "held_request",
            "the kernel shows when an I/O limit let a request go; the thread is taken to have waited for it since the wait began",
        ),
        Rule::LastCompletion => (
            "last_completion",
            "the last disk request that completed in the interrupt of the wake-up ended the wait",
        ),
        Rule::LastPacket => {
            ("last_packet", "the last packet that was received in the context of the wake-up ended the wait")
        }
        Rule::JoinedTimeouts => (
            "joined_timeouts",
            "waits for one lock, or for one set of descriptors, that timed out count as one wait: the end of the last explains all",
        ),
        Rule::RanMeanwhile => (
            "ran_meanwhile",
            "while waits for one futex timed out, a thread of the process ran, or threads handing over to it; it ended the last wait: they count as one wait for it",
        ),
        Rule::ResumedAfterSignal => (
            "resumed_after_signal",
            "a signal of a timer or of its own process cut the wait short and its handler returned to the same call: both are one wait",
        ),
        Rule::PeriodicTick => (
            "periodic_tick",
            "a periodic timer of the event loop ended the wait, the thread did nothing for others and waited on for the same descriptors: both are one wait",
        ),
        Rule::ReadyDescriptor => (
            "ready_descriptor",
            "the kernel's set cannot be walked: the descriptor that had become ready last ended the wait",
        ),
        Rule::WakingBeforeSwitch => (
            "waking_before_switch",
            "the wake-up came before the CPU had switched away from the thread that went to sleep",
        ),
        Rule::QueueThatItLeft => (
            "queue_that_it_left",
            "when the thread was moved to another CPU is not recorded: it counts as waiting for the one that it left",
        ),
        Rule::StolenBefore => (
            "stolen_before",
            "the time that the hypervisor took is measured; that it ended when the CPU looked is assumed",
        ),
        Rule::LateInterrupt => (
            "late_interrupt",
            "the hypervisor did not let an idle CPU run: the interrupt that ended the wait was due there",
        ),
        Rule::PerhapsLate => (
            "perhaps_late",
            "the hypervisor did not let the interrupt's CPU run meanwhile: the interrupt may have been late by up to that",
        ),
        Rule::DelayedAcknowledgement => (
            "delayed_acknowledgement",
            "the data was sent when a delayed acknowledgement came, by Nagle's algorithm or for a full window",
        ),
        Rule::WindowProbe => (
            "window_probe",
            "the receiver's window was closed when a timer sent it a packet without data: a probe of that window",
        ),
        Rule::UnrecordedTimer => (
            "unrecorded_timer",
            "the wake-up came in an interrupt that the trace does not show, and of no device: a timer's",
        ),
        Rule::SleepingCall => (
            "sleeping_call",
            "the trace does not show all interrupts, and the call ends by its timer: so it did here",
        ),
        Rule::CallWithoutTimeout => (
            "call_without_timeout",
            "the trace does not show all interrupts, and the call has no time-out: the current thread woke",
        ),
        Rule::HandedOver => (
            "handed_over",
            "a thread handed the request over: until then, it stands for it; then no thread did, and it was in a queue until the next one took it up",
        ),
        Rule::NotedReady => (
            "noted_ready",
            "the program noted what made the next turn ready: it explains the time since the turn before",
        ),
        Rule::NextTurn => (
            "next_turn",
            "the event loop turned to this work right behind a wait: the wait's end explains the time since the turn before",
        ),
        Rule::AskedInTurn => (
            "asked_in_turn",
            "the request's own turn asked a connection's other end, or a thread in its process, or set a timer: the answer, or the timer, came before the request's next turn",
        ),
        Rule::ReadyInTurn => (
            "ready_in_turn",
            "another request's data or timer alone ended the event loop's wait before the answer: that request's turn made this request ready",
        ),
        Rule::CalledRequest => (
            "called_request",
            "a client's span was open all this time: the request waited for the service that it called",
        ),
        Rule::LockTurns => (
            "lock_turns",
            "a thread took the lock out of turn: until then, those stand for it that had the lock or were woken to take it",
        ),
        Rule::TakenUp => (
            "taken_up",
            "until a kernel worker began the queued work, the thread that queued the work stands for it",
        ),
    }
}

/// The kind of lost records, after their number; empty if any kind.
pub const fn lost_kind(of: LostRecords) -> &'static str {
    match of {
        LostRecords::Any => "",
        LostRecords::Switches => " of task switches",
        LostRecords::WakeUps => " of wake-ups",
        LostRecords::Moves => " of moves to another CPU",
        LostRecords::Interrupts => " of interrupts",
        LostRecords::Packets => " of packets",
        LostRecords::Sockets => " of sockets that packets made ready",
        LostRecords::DiskRequests => " of disk requests",
        LostRecords::Threads => " of births, ends and names of threads",
        LostRecords::Signals => " of signals",
        LostRecords::Limits => " of CPU limits",
        LostRecords::Samples => " of samples",
        LostRecords::Calls => " of calls",
    }
}

/// A severity as the contract spells it.
pub const fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Doubt => "doubt",
        Severity::Loss => "loss",
    }
}

/// The quality with which two clocks can be compared, as the contract spells it and as a reader sees it. A bound
/// may be wide: agreeing packets mean no more than consistent.
pub const fn quality(quality: Quality) -> (&'static str, &'static str) {
    match quality {
        Quality::Exact => ("exact", "consistent"),
        Quality::Approximate => ("approximate", "approximate"),
        Quality::OneWay => ("one_way", "one way"),
        Quality::None => ("none", "none"),
    }
}

/// The way in which a request's threads are known.
pub fn joined_by(joined_by: JoinedBy) -> &'static str {
    match joined_by {
        JoinedBy::Context => {
            "Its thread says so itself: the span that a thread works for was read in its memory as it stopped, and is \
             inferred for the time in which it ran"
        }
        JoinedBy::Thread => {
            "Its thread is the one in which its span began, as a plug-in noted it; each thread is taken to work for the \
             span that it began last"
        }
        JoinedBy::Goroutine => "Its work was done by the goroutine in which a probe saw its span begin",
        JoinedBy::Connection => {
            "Its thread is approximate: the one that sent an answer on a connection at about the time at which the span ended"
        }
        JoinedBy::None => "Its thread is not known",
    }
}

#[cfg(test)]
mod tests;

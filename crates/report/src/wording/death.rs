//! The words for killed processes, and for signals without effect.

use wakepath_clock::{Reference, Stamp};
use wakepath_engine::{Head, Overview, PathAnswer};
use wakepath_event::MemoryLimit;
use wakepath_findings::{
    AwaitedBy, AwaitedWait, Death, DeathPart, KilledBy, LivedUntil, LivesOn, Unheeded, WindowDeath,
};
use wakepath_loaded::Recorded;
use wakepath_wait_graph::ThreadIndex;

use super::{signal_name, thread, unit};
use crate::units::{count, decimal_bytes, duration};

/// A killing: `killed by SIGKILL from sh (812)`, `killed by the kernel: out of memory, memory limit of shop.service (20 MB)`.
pub fn killed_by(recorded: &Recorded, death: &Death, at: Stamp<Reference>) -> String {
    let signal = signal_name(death.signal);
    match death.by {
        KilledBy::NoMemory(limit) => format!("killed by the kernel: {}", no_memory(recorded, limit)),
        KilledBy::Kernel => format!("killed by {signal} from the kernel"),
        KilledBy::Itself => format!("killed by its own {signal}"),
        KilledBy::Thread(by) => format!("killed by {signal} from {}", thread(recorded, by, at)),
        KilledBy::Unknown => format!("killed by {signal}"),
    }
}

fn no_memory(recorded: &Recorded, limit: Option<MemoryLimit>) -> String {
    let Some(limit) = limit else { return String::from("out of memory") };
    let of = recorded.names().memory_unit(limit.cgroup);
    let of = of.as_ref().map_or(String::from("a cgroup"), unit);
    format!("out of memory, memory limit of {of} ({})", decimal_bytes(limit.bytes))
}

/// A death's part in a window's time: `cc1 (812) was killed by SIGKILL from sh (90) 1.20 s after the start`.
pub fn death(answer: &PathAnswer, it: &WindowDeath) -> String {
    words(answer.recorded, &answer.head, answer.path.window.to, it, |waiter| {
        answer.evidence().is_asked(waiter)
    })
}

/// The same in an overview.
pub fn death_beside(overview: &Overview, it: &WindowDeath) -> String {
    words(overview.recorded, &overview.head, overview.to, it, |_| false)
}

fn words(
    recorded: &Recorded,
    head: &Head,
    at: Stamp<Reference>,
    WindowDeath { death, part }: &WindowDeath,
    is_asked: impl Fn(ThreadIndex) -> bool,
) -> String {
    let who = |index| thread(recorded, index, at);
    let after_start = |at: Stamp<Reference>| format!("{} after the start", duration(at.since(head.origin)));
    let killed = format!("was {} {}", killed_by(recorded, death, at), after_start(death.at));
    match part {
        DeathPart::Own => format!("it {killed}"),
        DeathPart::EndedWait(_) => format!("{} {killed}", who(death.thread)),
        DeathPart::Awaited(AwaitedWait { waiter, by, .. }) => {
            let waiter = if is_asked(*waiter) { String::from("it") } else { who(*waiter) };
            let reason = match by {
                AwaitedBy::Holds => String::from("which holds the lock"),
                AwaitedBy::Writes => String::from("which could write to the pipe"),
                AwaitedBy::WokeBefore(waits) => {
                    format!("which had ended {} like this", count(*waits, "wait"))
                }
                AwaitedBy::Unanswered(asked) => {
                    format!("which had work from it since {}", after_start(*asked))
                }
            };
            format!("nobody woke {waiter}: {}, {reason}, {killed} (inferred)", who(death.thread))
        }
    }
}

/// A signal without effect: `SIGTERM to entry.sh (812) had no effect (it ignores the signal); it lived 3.00 s longer, until
/// SIGKILL from stop.sh (90)`.
pub fn unheeded(answer: &PathAnswer, it: &Unheeded) -> String {
    let (recorded, at) = (answer.recorded, answer.path.window.to);
    let reason = match it.why {
        LivesOn::Ignores => "it ignores the signal",
        LivesOn::FirstInNamespace => "it is the first process in its PID namespace and has no handler",
        LivesOn::HandlerRan => "its handler ran",
        LivesOn::NotTaken => "no thread took it",
    };
    let lived = duration(it.lived_ns);
    let end = match it.end {
        LivedUntil::Killed(death) if death.signal == it.signal => format!("it ended {lived} later"),
        LivedUntil::Killed(death) => {
            let killed = killed_by(recorded, &death, at);
            format!("it lived {lived} longer, until it was {killed}")
        }
        LivedUntil::Exited => format!("it ended {lived} later"),
        LivedUntil::Lives => format!("it still lived {lived} later"),
    };
    let effect = match it.end {
        LivedUntil::Exited => "did not end it at once",
        LivedUntil::Killed(death) if death.signal == it.signal => "did not end it at once",
        LivedUntil::Killed(_) | LivedUntil::Lives => "had no effect",
    };
    let name = signal_name(it.signal);
    format!("{name} to {} {effect} ({reason}); {end}", thread(recorded, it.target, at))
}

#[cfg(test)]
mod tests;

//! Waits still open at the recording's end, and deadlocks, as text.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Hang;
use wakepath_engine::Recorded;
use wakepath_event::BlockedState;

use crate::screen::{Line, Screen, Style};
use crate::units::duration;
use crate::wording;

/// Cycles of threads waiting for each other's locks, with an empty line behind each.
pub fn deadlocks(screen: &mut Screen, recorded: &Recorded, cycles: &[Vec<Hang>], at: Stamp<Reference>) {
    for cycle in cycles {
        let text = "deadlock: each thread waits for a lock that the next one owns";
        screen.unwrapped(Line::warning(text));
        for hang in cycle {
            screen.indented(4, open_wait(recorded, hang, at));
        }
        screen.blank();
    }
}

/// A waiting thread: its time so far, its system call, the lock and the lock's owner.
pub fn open_wait(recorded: &Recorded, hang: &Hang, at: Stamp<Reference>) -> Line {
    let who = wording::who(recorded, &recorded.thread_at(hang.thread, at));
    let until = hang.killed.map_or(String::new(), |killed| {
        format!(", until {}", wording::signal_sent(recorded, &killed.by, at))
    });
    Line::strong(who).add(Style::Normal, format!(" for {}{until}", waits(recorded, hang, at)))
}

/// `800 ms in futex 0x2000 that right (11) owns`.
pub fn waits(recorded: &Recorded, hang: &Hang, at: Stamp<Reference>) -> String {
    let at_least = if hang.began_before { "more than " } else { "" };
    let until = hang.killed.map_or(at, |killed| killed.at);
    let mut text = format!("{at_least}{}", duration(until.since(hang.since)));
    let reason = reason(recorded, hang, at);
    if !reason.is_empty() {
        text += &format!(" {reason}");
    }
    text
}

/// `in futex 0x2000 that right (11) owns`, or `stopped by a signal`; empty if nothing is known.
pub fn reason(recorded: &Recorded, hang: &Hang, at: Stamp<Reference>) -> String {
    // The call in which a signal met it is not what it waits for.
    if hang.state == Some(BlockedState::Stopped) {
        return String::from("stopped by a signal");
    }
    let tgid = recorded.thread_at(hang.thread, at).tgid;
    let local = Stamp::from_ns(at.ns());
    let call = hang.call.as_ref().map(|call| wording::call(&recorded.survey.names.call(call, tgid, local)));
    let lock = hang.lock.map(|lock| (wording::lock(lock.address, lock.kernel), lock));
    let mut text = match (call, &lock) {
        // A wait in futex is for a futex.
        (Some(call), Some((named, lock))) if call == "futex" && !lock.kernel => format!("in {named}"),
        (Some(call), Some((named, _))) => format!("in {call}, {named}"),
        (Some(call), None) => format!("in {call}"),
        (None, Some((named, _))) => format!("for {named}"),
        (None, None) => return String::new(),
    };
    if let Some(owner) = lock.and_then(|(_, lock)| lock.owner) {
        let owner = wording::thread(recorded, owner, at);
        let claim = if hang.proved { "" } else { ", according to the memory of the lock" };
        text += &format!(" that {owner} owns{claim}");
    }
    text
}

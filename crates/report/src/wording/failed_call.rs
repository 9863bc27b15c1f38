//! The words for calls failing before sleeps, and for calls failing again and again.

use std::borrow::Cow;

use wakepath_event::{Attempt, AttemptObject, Tid};
use wakepath_findings::{Evidence, Polling, Row, RowKey, Spinning};
use wakepath_loaded::call_name;
use wakepath_wait_graph::ThreadIndex;

use super::{error_name, list, thread, title};
use crate::escape::{escape, text};
use crate::units::{count, grouped};

const FCNTL: u32 = 72;
const FLOCK: u32 = 73;
const KILL: u32 = 62;
const WAIT4: u32 = 61;
const CONNECT: u32 = 42;
const BIND: u32 = 49;

const EAGAIN: u32 = 11;
const EACCES: u32 = 13;

/// `F_SETLK` and `F_OFD_SETLK`, which ask for a lock without waiting.
const SET_LOCK: [(u32, &str); 2] = [(6, "F_SETLK"), (37, "F_OFD_SETLK")];

/// Processes named for a lock.
const MAX_HOLDERS: usize = 2;

/// The command by which a call asks for a file lock, if it does; `flock` has none.
fn lock_command(attempt: &Attempt) -> Option<Option<&'static str>> {
    match attempt.call {
        FLOCK => Some(None),
        FCNTL => {
            SET_LOCK.iter().find(|(number, _)| *number == attempt.operation).map(|(_, name)| Some(*name))
        }
        _ => None,
    }
}

/// Whether another process had the lock for which a call asked.
fn is_locked(attempt: &Attempt) -> bool {
    lock_command(attempt).is_some() && matches!(attempt.error, EAGAIN | EACCES)
}

/// An object as a call's argument; `None` if it is not known.
fn object(object: &AttemptObject) -> Option<String> {
    Some(match object {
        AttemptObject::None | AttemptObject::Unreadable => return None,
        AttemptObject::Path(path) => format!("\"{}\"", escape(path)),
        AttemptObject::PathEnd(end) => format!("\"…{}\"", escape(end)),
        AttemptObject::Address(address) => address.to_string(),
        AttemptObject::Unix(path) => match path.strip_prefix(b"\0") {
            Some(name) => format!("unix @{}", escape(name)),
            None => format!("unix {}", escape(path)),
        },
        AttemptObject::Process(pid) => pid.to_string(),
        AttemptObject::File(name) => escape(name),
    })
}

/// An object's kind as documents spell it, and its name.
pub fn attempt_object(object: &AttemptObject) -> Option<(&'static str, String)> {
    Some(match object {
        AttemptObject::None => return None,
        AttemptObject::Path(path) => ("path", text(path)),
        AttemptObject::PathEnd(end) => ("path_end", text(end)),
        AttemptObject::Address(address) => ("address", address.to_string()),
        AttemptObject::Unix(path) => ("unix", text(path)),
        AttemptObject::Process(pid) => ("process", pid.to_string()),
        AttemptObject::File(name) => ("file", text(name)),
        AttemptObject::Unreadable => ("unreadable", String::new()),
    })
}

/// A call with its object: `access("/run/ready")`, `connect to 127.0.0.1:80`, `fcntl(lock, F_SETLK)`, `kill(4711, 0)`.
fn attempt_call(attempt: &Attempt) -> String {
    let name = call_name(attempt.call);
    let object = object(&attempt.object);
    match (attempt.call, lock_command(attempt), object) {
        (CONNECT, _, Some(to)) => format!("{name} to {to}"),
        (BIND, _, Some(to)) => format!("{name} to {to}"),
        (KILL, _, Some(pid)) => format!("{name}({pid}, {})", attempt.operation),
        (_, Some(Some(command)), Some(file)) => format!("{name}({file}, {command})"),
        (_, Some(Some(command)), None) => format!("{name}({command})"),
        (_, _, Some(object)) => format!("{name}({object})"),
        (.., None) => name.into_owned(),
    }
}

/// A call and its result: `access("/run/ready") failed with ENOENT`, `kill(812, 0) found entry.sh alive`.
fn result(evidence: &Evidence<'_>, row: &Row, attempt: &Attempt) -> String {
    let call = attempt_call(attempt);
    let process = process_name(evidence, row, attempt);
    match (attempt.error, attempt.call) {
        (0, WAIT4) => match process {
            Some(name) => format!("{call} found {name} alive"),
            None => format!("{call} found no ended child"),
        },
        (0, _) => format!("{call} found {} alive", process.as_deref().unwrap_or("the process")),
        (error, _) => format!("{call} failed with {}", error_name(error)),
    }
}

/// The name for the process number in a call. It means the recorded process only if the callers are in the outer PID namespace.
fn process_name(evidence: &Evidence<'_>, row: &Row, attempt: &Attempt) -> Option<String> {
    let AttemptObject::Process(number @ 1..) = attempt.object else { return None };
    let is_outer = |thread: &ThreadIndex| {
        let thread = evidence.thread(*thread);
        thread.tgid.is_some() && thread.ns_tgid == thread.tgid
    };
    if evidence.recorded.others.is_empty() && row.threads.iter().all(is_outer) {
        let window = evidence.path.window;
        let process = Tid(number as u32);
        let lived = |index: &ThreadIndex| {
            let thread = evidence.recorded.graph().thread(*index);
            thread.first <= window.to && window.from <= thread.last && thread.tgid() == Some(process)
        };
        let mut processes = evidence.recorded.with_tid(process).iter().copied().filter(lived);
        let (first, other) = (processes.next()?, processes.next());
        let name = title(&evidence.recorded.thread_at(first, window.to));
        return (other.is_none() && !name.is_empty()).then_some(name);
    }
    None
}

/// The processes that had a lock: `python3 (812)`, `python3 (812) and apt-get (900)`; `None` if none is known.
fn holders(evidence: &Evidence<'_>, polling: &Polling) -> Option<String> {
    let graph = evidence.recorded.graph();
    let named = |process: &Tid| match graph.with_tid(*process).last() {
        Some((index, _)) => thread(evidence.recorded, index, evidence.path.window.to),
        None => format!("process {}", process.number()),
    };
    let names: Vec<String> = polling.holders.iter().map(named).collect();
    (!names.is_empty()).then(|| list(&names, MAX_HOLDERS))
}

/// The words in place of a row's key where one call failed before most of its sleeps and most of its time:
/// `polling for the lock lock-frontend (fcntl F_SETLK: EAGAIN), which python3 (812) held`.
pub fn polling_row(evidence: &Evidence<'_>, key: &RowKey, row: &Row) -> Option<String> {
    if !key.ends_by_timer() {
        return None;
    }
    let polling = row.main_polling()?;
    let attempt = &polling.attempt;
    let lock = object(&attempt.object).filter(|_| is_locked(attempt));
    Some(match lock {
        Some(lock) => {
            let command =
                lock_command(attempt).flatten().map_or(String::new(), |command| format!(" {command}"));
            let how = format!("{}{command}: {}", call_name(attempt.call), error_name(attempt.error));
            let holders =
                holders(evidence, polling).map_or(String::new(), |held| format!(", which {held} held"));
            format!("polling for the lock {lock} ({how}){holders}")
        }
        None => format!(
            "sleeping between tries: {} {}",
            result(evidence, row, attempt),
            times(polling.tried.tries)
        ),
    })
}

/// A line under a row of sleeps: `before 20 of 20 sleeps: access("/run/ready") failed with ENOENT, 40 times`.
pub fn polling_line(evidence: &Evidence<'_>, row: &Row, polling: &Polling) -> String {
    let tried = polling.tried;
    let times = if tried.tries == tried.sleeps { String::new() } else { format!(", {}", times(tried.tries)) };
    let held = holders(evidence, polling).map_or(String::new(), |held| format!("; {held} had the lock"));
    let sleeps = count(row.waits(), "sleep");
    format!("before {} of {sleeps}: {}{times}{held}", tried.sleeps, result(evidence, row, &polling.attempt))
}

/// A line under a row of running time: `1,200,000 calls of close failed with EBADF`.
pub fn spinning_line(spin: &Spinning) -> String {
    let Spinning { call, error, count, .. } = spin;
    let name: Cow<'static, str> = call_name(*call);
    format!("{} calls of {name} failed with {}", grouped(*count), error_name(*error))
}

fn times(count: u64) -> String {
    if count == 1 { String::from("once") } else { format!("{} times", grouped(count)) }
}

#[cfg(test)]
mod tests;

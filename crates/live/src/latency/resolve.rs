//! Finds a target's functions, disks and calls on this machine.

use std::path::Path;

use wakepath_collect::Counted;
use wakepath_engine::latency::target::{LockKind, MAX_LISTED, Target, matching_calls};
use wakepath_engine::latency::{RefusedTarget, TargetError};
use wakepath_event::Call;
use wakepath_functions::{Finder, Function, FunctionNote};

use super::error::LiveLatencyError;
use super::kernel::kernel_functions;
use super::target::{LiveTarget, Resolved};
use super::{AllowedProbes, LatencySource};

/// The targets for `text`: one, or several for a pattern.
pub(super) fn resolve(
    text: &str,
    disks: &[(String, u32)],
    processes: &[u32],
    allowed: AllowedProbes,
) -> Result<Resolved, LiveLatencyError> {
    let one = |source, counted| Ok(vec![LiveTarget::new(text, source, counted)].into());
    match Target::parse(text)? {
        Target::RunQueue => one(LatencySource::CpuWaits, Counted::RunQueue),
        Target::Lock(None) => Ok([LockKind::User, LockKind::Kernel].map(LiveTarget::lock).to_vec().into()),
        Target::Lock(Some(kind)) => Ok(vec![LiveTarget::lock(kind)].into()),
        Target::Disk(None) => one(LatencySource::DiskRequests, Counted::Disk(None)),
        Target::Disk(Some(name)) => match disks.iter().find(|(disk, _)| disk == name) {
            Some(&(_, number)) => one(LatencySource::DiskRequests, Counted::Disk(Some(number))),
            None => {
                let there = disks.iter().map(|(disk, _)| format!("disk:{disk}")).take(MAX_LISTED).collect();
                Err(TargetError::Absent { target: text.to_owned(), place: "on this machine", there }.into())
            }
        },
        Target::SystemCall(pattern) => {
            let calls = matching_calls("syscall", &pattern, Counted::Call)?.into_iter();
            let instead = Call::made_instead_of(pattern.as_str());
            let target = |(name, counted)| LiveTarget {
                notes: instead.map(|made| made_instead(pattern.as_str(), made)).into_iter().collect(),
                ..LiveTarget::new(name, LatencySource::Calls, counted)
            };
            Ok(calls.map(target).collect::<Vec<_>>().into())
        }
        Target::Blocked(_) | Target::Segment(_) | Target::Span(_) | Target::User(_) => {
            Err(LiveLatencyError::OnlyRecorded(text.to_owned()))
        }
        Target::KernelFunction(pattern) => kernel_functions(&pattern),
        Target::Function if !is_function(text) => Err(TargetError::NotATarget(text.to_owned()).into()),
        Target::Function => user_functions(text, processes, allowed),
    }
}

/// Whether a text may name a function in a file: `FILE:FUNCTION` or `FILE+0xADDRESS`.
pub(crate) fn is_function(text: &str) -> bool {
    text.contains(':') || wakepath_functions::Target::parse(text).is_ok()
}

/// The functions for `text`, for probes on these processes, or on all if there are none. A pattern's unprobeable functions
/// are refused separately.
///
/// # Errors
/// When there is none, or none can be probed.
pub(crate) fn user_functions(
    text: &str,
    processes: &[u32],
    allowed: AllowedProbes,
) -> Result<Resolved, LiveLatencyError> {
    let target = wakepath_functions::Target::parse(text)?;
    let mut finder = Finder::new(processes).learning_callers();
    if allowed.no_exceptions {
        finder = finder.without_exceptions();
    }
    let found = finder.find(&target).map_err(|error| match text.starts_with(PYTHON) {
        true => LiveLatencyError::OnlyDrilled(text.to_owned()),
        false => error.into(),
    })?;
    let name = |function: &str| format!("{}:{function}", target.file);
    let refused = found
        .refused
        .iter()
        .map(|refusal| RefusedTarget { target: name(&refusal.name), why: refusal.why.to_string() });
    let mut resolved = Resolved { targets: Vec::new(), refused: refused.collect() };
    let several = found.functions.len() > 1;
    for function in found.functions {
        let is_named = several || is_named_otherwise(&target, &function);
        let name = if is_named { name(&function.readable) } else { text.to_owned() };
        resolved.targets.push(LiveTarget {
            file: Some(function.shown.clone()),
            notes: function.notes.iter().map(ToString::to_string).collect(),
            function: Some(function.clone()),
            ..LiveTarget::new(name, LatencySource::Calls, Counted::Function(function.probe))
        });
    }
    Ok(resolved)
}

/// The prefix of a Python function, which only a drill-down follows. A file may be called so too.
const PYTHON: &str = "python:";

/// Whether a function has another name than it was asked by: it was asked by its address, or the compiler made a copy.
fn is_named_otherwise(target: &wakepath_functions::Target, function: &Function) -> bool {
    let is_copy = || function.notes.contains(&FunctionNote::Copy);
    let asked = target.function.as_str();
    let is_whole = asked == function.readable || function.names.iter().any(|name| name == asked);
    match target.address() {
        Some(address) => !function.readable.ends_with(&format!("+{address:#x}")),
        None => target.function.is_exact() && is_copy() && !is_whole,
    }
}

/// The note about a call that today's C library does not make.
fn made_instead(name: &str, made: &str) -> String {
    format!("today's C library makes the system call {made} in {name}(): syscall:{made} counts it")
}

/// This machine's disks and their numbers, as the kernel packs them.
pub(super) fn disks(folder: &Path) -> Vec<(String, u32)> {
    let mut disks: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = std::fs::read_to_string(entry.path().join("dev")).ok()?;
            let (major, minor) = number.trim_end().split_once(':')?;
            let number = major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?;
            Some((entry.file_name().into_string().ok()?, number))
        })
        .collect();
    disks.sort();
    disks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_what_they_are_called() {
        let disks = [(String::from("sda"), 8 << 20), (String::from("vda"), 252 << 20)];
        for (text, expected) in [
            ("runqueue", vec![("runqueue", Counted::RunQueue)]),
            ("disk", vec![("disk", Counted::Disk(None))]),
            ("lock", vec![("lock:user", Counted::UserLock), ("lock:kernel", Counted::KernelLock)]),
            ("lock:kernel", vec![("lock:kernel", Counted::KernelLock)]),
            ("disk:vda", vec![("disk:vda", Counted::Disk(Some(252 << 20)))]),
            ("syscall:read", vec![("syscall:read", Counted::Call(0))]),
            (
                "syscall:f*sync",
                vec![("syscall:fsync", Counted::Call(74)), ("syscall:fdatasync", Counted::Call(75))],
            ),
            (
                "syscall:*stat",
                vec![
                    ("syscall:stat", Counted::Call(4)),
                    ("syscall:fstat", Counted::Call(5)),
                    ("syscall:lstat", Counted::Call(6)),
                    ("syscall:ustat", Counted::Call(136)),
                    ("syscall:newfstatat", Counted::Call(262)),
                    ("syscall:cachestat", Counted::Call(451)),
                ],
            ),
            ("syscall:stat", vec![("syscall:stat", Counted::Call(4))]),
        ] {
            let found = resolve(text, &disks, &[], AllowedProbes::default())
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            let found: Vec<_> =
                found.targets.iter().map(|target| (target.name.as_str(), target.counted.clone())).collect();
            assert_eq!(found, expected, "{text}");
        }
        let notes = |text| {
            let found = resolve(text, &disks, &[], AllowedProbes::default()).expect(text);
            found.targets.into_iter().flat_map(|target| target.notes).collect::<Vec<_>>()
        };
        let instead =
            "today's C library makes the system call newfstatat in lstat(): syscall:newfstatat counts it";
        assert_eq!(notes("syscall:lstat"), [instead]);
        assert_eq!(
            [notes("syscall:newfstatat"), notes("syscall:*stat"), notes("syscall:read")].concat(),
            [""; 0]
        );
        for (text, expected) in [
            ("disk:sdb", "there is no `disk:sdb` on this machine; available: `disk:sda` and `disk:vda`"),
            (
                "syscall:fsyncs",
                "there is no `syscall:fsyncs`; similar: `syscall:fsync`, `syscall:sync`, `syscall:msync` and `syscall:syncfs`",
            ),
            ("syscall:zzz*", "there is no `syscall:zzz*`"),
            ("lock:futex", "there is no `lock:futex`; similar: `lock:user` and `lock:kernel`"),
            ("blocked:read", "`blocked:read` is counted only in a recording"),
            ("nothing", "`nothing` is not a target"),
        ] {
            let error = resolve(text, &disks, &[], AllowedProbes::default()).expect_err(text);
            assert_eq!(error.to_string(), expected);
        }
    }
}

//! What people write for what is counted, and what is meant by it on this machine.

use std::path::{Path, PathBuf};

use wakepath_collect::{Counted, calibrate};
use wakepath_event::Call;
use wakepath_functions::{Finder, Probe, ProbeMethod, Return};

use super::kernel::{Found, kernel_functions};
use super::{Allowed, LatencyError, Of, Request};

/// A target with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub name: String,
    pub of: Of,
    pub counted: Counted,
    /// The file of a function, as processes see it.
    pub file: Option<PathBuf>,
    pub notes: Vec<String>,
}

impl Named {
    /// The probes of a user function.
    pub const fn probe(&self) -> Option<&Probe> {
        match &self.counted {
            Counted::Function(probe) => Some(probe),
            _ => None,
        }
    }
}

/// What `text` means: one target, or several where it is a pattern.
pub(super) fn parse(
    text: &str,
    disks: &[(String, u32)],
    request: &Request,
) -> Result<Vec<Named>, LatencyError> {
    let named =
        |of, counted| vec![Named { name: text.to_owned(), of, counted, file: None, notes: Vec::new() }];
    match text.split_once(':') {
        None if text == "runqueue" => Ok(named(Of::Waits, Counted::RunQueue)),
        None if text == "lock" => Ok(["lock:user", "lock:kernel"].into_iter().filter_map(lock).collect()),
        Some(("lock", name)) => match lock(text) {
            Some(lock) => Ok(vec![lock]),
            None => Err(LatencyError::NoLock(name.to_owned())),
        },
        Some(("kernel", pattern)) => {
            let named = |found: Found| Named {
                name: found.target,
                of: Of::Calls,
                counted: Counted::KernelFunction(found.function),
                file: None,
                notes: found.notes,
            };
            Ok(kernel_functions(pattern)?.into_iter().map(named).collect())
        }
        None if text == "disk" => Ok(named(Of::Requests, Counted::Disk(None))),
        Some(("disk", name)) => match disks.iter().find(|(disk, _)| disk == name) {
            Some(&(_, number)) => Ok(named(Of::Requests, Counted::Disk(Some(number)))),
            None => {
                let near = disks.iter().map(|(disk, _)| disk.clone()).take(MAX_NEAR).collect();
                Err(LatencyError::NoDisk { name: name.to_owned(), near })
            }
        },
        Some(("syscall", pattern)) => calls(pattern),
        None => Err(LatencyError::NoTarget(text.to_owned())),
        Some(_) => {
            let probed = functions(text, &request.options.processes, request.allowed)?.into_iter();
            let named = |function: Probed| Named {
                name: function.name,
                of: Of::Calls,
                counted: Counted::Function(function.probe),
                file: Some(function.file),
                notes: function.notes,
            };
            Ok(probed.map(named).collect())
        }
    }
}

/// Locks of user space, or those of the kernel.
fn lock(text: &str) -> Option<Named> {
    let counted = match text {
        "lock:user" => Counted::UserLock,
        "lock:kernel" => Counted::KernelLock,
        _ => return None,
    };
    Some(Named { name: text.to_owned(), of: Of::Locks, counted, file: None, notes: Vec::new() })
}

/// A function that was asked for.
pub(crate) struct Probed {
    pub name: String,
    pub probe: Probe,
    /// As processes see it.
    pub file: PathBuf,
    notes: Vec<String>,
}

/// The functions that are meant by `text`, for probes on these processes or on all.
pub(crate) fn functions(
    text: &str,
    processes: &[u32],
    allowed: Allowed,
) -> Result<Vec<Probed>, LatencyError> {
    let target = wakepath_functions::Target::parse(text)?;
    let mut finder = Finder::new(processes);
    if allowed.no_exceptions {
        finder = finder.without_exceptions();
    }
    let found = finder.find(&target)?;
    let several = found.functions.len() > 1;
    let mut probed = Vec::new();
    for function in found.functions {
        let slow = slow_part(&function.probe);
        if let Some(what) = slow.filter(|_| !allowed.slow_probes) {
            let calibration = calibrate(&function.probe);
            return Err(LatencyError::Slow {
                name: function.readable,
                file: function.shown.display().to_string(),
                what,
                per_call_ns: calibration.map(|found| found.per_call_ns),
            });
        }
        probed.push(Probed {
            file: function.shown,
            notes: function.notes.iter().map(ToString::to_string).collect(),
            name: if several { format!("{}:{}", target.file, function.readable) } else { text.to_owned() },
            probe: function.probe,
        });
    }
    if let Some(first) = probed.first_mut() {
        first.notes.extend(found.refused.iter().map(ToString::to_string));
    }
    Ok(probed)
}

/// The part of a function that the kernel has to single-step.
const fn slow_part(probe: &Probe) -> Option<&'static str> {
    match (probe.method, &probe.returns) {
        (ProbeMethod::SingleStepped, _) => Some("its first instruction"),
        (_, Return::AtInstructions(_)) => Some("its return instructions"),
        _ => None,
    }
}

/// Most names that an error suggests.
const MAX_NEAR: usize = 5;

fn calls(pattern: &str) -> Result<Vec<Named>, LatencyError> {
    let all = (0..Call::COUNT).filter_map(|number| Some((number, Call::name(number)?)));
    let found: Vec<_> = match pattern.split_once('*') {
        None => all.clone().filter(|(_, name)| *name == pattern).collect(),
        Some((begin, end)) => all
            .clone()
            .filter(|(_, name)| {
                name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
            })
            .collect(),
    };
    if found.is_empty() {
        let mut near: Vec<_> = all
            .map(|(_, name)| name)
            .filter(|name| !pattern.is_empty() && (name.contains(pattern) || pattern.contains(name)))
            .collect();
        near.sort_by_key(|name| name.len().abs_diff(pattern.len()));
        near.truncate(MAX_NEAR);
        return Err(LatencyError::NoCall { name: pattern.to_owned(), near });
    }
    let named = |(number, name)| Named {
        name: format!("syscall:{name}"),
        of: Of::Calls,
        counted: Counted::Call(number),
        file: None,
        notes: Vec::new(),
    };
    Ok(found.into_iter().map(named).collect())
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
        ] {
            let found =
                parse(text, &disks, &Request::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
            let found: Vec<_> =
                found.iter().map(|target| (target.name.as_str(), target.counted.clone())).collect();
            assert_eq!(found, expected, "{text}");
        }
        for (text, expected) in [
            ("disk:sdb", "there is no disk `sdb`; there are `sda` and `vda`"),
            ("syscall:fsyncs", "there is no system call `fsyncs`; there are `fsync` and `sync`"),
            ("syscall:zzz*", "there is no system call `zzz*`"),
            ("lock:futex", "there are no locks `futex`; there are `lock:user` and `lock:kernel`"),
            ("nothing", "`nothing` is nothing that can be counted"),
        ] {
            let error = parse(text, &disks, &Request::default()).expect_err(text);
            assert_eq!(error.to_string(), expected);
        }
    }
}

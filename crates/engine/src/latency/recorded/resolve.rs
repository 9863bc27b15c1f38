//! Finds a target's functions, disks, kinds and operations in a recording.

use std::collections::BTreeSet;

use wakepath_critical_path::SegmentKind;
use wakepath_event::{Damage, DamageKind, HostIndex};
use wakepath_functions::{Pattern, Target as FunctionTarget};
use wakepath_loaded::{StretchKind, Stretches};

use super::error::RecordedLatencyError;
use crate::latency::target::{LockKind, MAX_LISTED, Target, matching, matching_calls};
use crate::latency::{LatencySource, TargetError};
use crate::requests::{OperationIndex, Traced};
use crate::{Problem, ProblemKind, Recorded};

/// A target's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TargetKind {
    /// A function's calls, by its number.
    Function(u32),
    /// Waits for a CPU.
    RunQueue,
    /// A device's requests; `None`: all devices'.
    Disk(Option<u32>),
    /// Waits in a system call.
    Blocked(u32),
    /// Waits for user or kernel locks; `None`: for both.
    Lock(Option<LockKind>),
    /// Segments in the chosen threads' paths.
    Segment(SegmentKind),
    /// An operation's spans.
    Span(OperationIndex),
    /// Stretches between programs' marks, by their name's index.
    User(usize, StretchKind),
}

/// A target for counting in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedTarget {
    pub(super) name: String,
    pub(super) kind: TargetKind,
    /// Whether a pattern found it: it is left out if it has no latencies.
    pub(super) of_pattern: bool,
}

impl RecordedTarget {
    /// A target asked for by its name.
    pub(super) fn new(name: impl Into<String>, kind: TargetKind) -> Self {
        Self { name: name.into(), kind, of_pattern: false }
    }
}

impl TargetKind {
    pub(super) const fn source(self) -> LatencySource {
        match self {
            Self::Function(_) => LatencySource::Calls,
            Self::RunQueue => LatencySource::CpuWaits,
            Self::Disk(_) => LatencySource::DiskRequests,
            Self::Blocked(_) => LatencySource::BlockedWaits,
            Self::Lock(_) => LatencySource::LockWaits,
            Self::Segment(_) => LatencySource::Segments,
            Self::Span(_) => LatencySource::Spans,
            Self::User(_, StretchKind::State) => LatencySource::UserStates,
            Self::User(_, StretchKind::Interval) => LatencySource::UserMarks,
        }
    }
}

/// The targets for `text`, on `host` alone if it is set: one, or several for a pattern or for a disk on several hosts.
pub(super) fn resolve(
    recorded: &Recorded,
    (traced, stretches): (Option<&Traced>, Option<&Stretches>),
    text: &str,
    host: Option<HostIndex>,
) -> Result<Vec<RecordedTarget>, RecordedLatencyError> {
    let one = |kind| Ok(vec![RecordedTarget::new(text, kind)]);
    match Target::parse(text)? {
        Target::RunQueue => one(TargetKind::RunQueue),
        Target::Lock(kind) => one(TargetKind::Lock(kind)),
        Target::Disk(None) => one(TargetKind::Disk(None)),
        Target::Disk(Some(name)) => Ok(disks(recorded, name, host)?),
        Target::SystemCall(pattern) => Err(RecordedLatencyError::SystemCall(pattern.as_str().to_owned())),
        Target::Blocked(pattern) => {
            Ok(targets(&pattern, matching_calls("blocked", &pattern, TargetKind::Blocked)?))
        }
        Target::Segment(pattern) => {
            // `disk` is the target for disk accesses; the name also means the segment kind for disks.
            let alias = pattern.as_str() == "disk";
            let pattern = if alias { Pattern::new(SegmentKind::BlockDevice.name()) } else { pattern };
            let kinds = SegmentKind::ALL.into_iter().map(|kind| (kind.name(), TargetKind::Segment(kind)));
            let found = matching("segment", &pattern, kinds.clone()).map_err(|error| match error {
                // There are few kinds: all are listed.
                TargetError::Unknown { target, similar } if similar.is_empty() => TargetError::Unknown {
                    target,
                    similar: kinds.map(|(name, _)| format!("segment:{name}")).collect(),
                },
                error => error,
            })?;
            Ok(targets(&pattern, found))
        }
        Target::Span(pattern) => Ok(spans(traced, &pattern)?),
        Target::User(pattern) => user(recorded, stretches, &pattern),
        Target::KernelFunction(_) | Target::Function => functions(recorded, text),
    }
}

fn targets(pattern: &Pattern, found: Vec<(String, TargetKind)>) -> Vec<RecordedTarget> {
    let of_pattern = !pattern.is_exact();
    found.into_iter().map(|(name, kind)| RecordedTarget { name, kind, of_pattern }).collect()
}

/// Devices by their names, or by their numbers where no name is recorded: `disk:8:0`. Several hosts may have a device
/// with this name.
fn disks(
    recorded: &Recorded,
    name: &str,
    host: Option<HostIndex>,
) -> Result<Vec<RecordedTarget>, TargetError> {
    let survey = &recorded.survey;
    let requests = &survey.intervals;
    let devices: BTreeSet<u32> = requests
        .requests
        .iter()
        .map(|request| request.of.device)
        .chain(requests.open_requests().map(|(request, _)| request.device))
        .chain(survey.names.block_devices().map(|(device, _)| device))
        .filter(|&device| host.is_none_or(|host| recorded.device(device).0 == host))
        .collect();
    let target = |device: u32| match survey.names.block_device(device) {
        Some(name) => format!("disk:{}", String::from_utf8_lossy(name.bytes())),
        None => {
            let (_, number) = recorded.device(device);
            format!("disk:{}:{}", number >> 20, number & 0xf_ffff)
        }
    };
    let wanted = format!("disk:{name}");
    let found: Vec<_> = devices.iter().copied().filter(|&device| target(device) == wanted).collect();
    if found.is_empty() {
        let there: BTreeSet<_> = devices.into_iter().map(target).collect();
        return Err(absent(&wanted, there.into_iter()));
    }
    let several = found.len() > 1;
    let one = |device| {
        let mut name = wanted.clone();
        if several {
            let host = recorded.host_at(recorded.device(device).0);
            name.push_str(&format!(" of {}", String::from_utf8_lossy(host.name.bytes())));
        }
        RecordedTarget::new(name, TargetKind::Disk(Some(device)))
    };
    Ok(found.into_iter().map(one).collect())
}

/// Services' operations by their names, `SERVICE/OPERATION`.
fn spans(traced: Option<&Traced>, pattern: &Pattern) -> Result<Vec<RecordedTarget>, RecordedLatencyError> {
    let operations = traced.map_or(&[][..], |traced| &traced.spans.operations);
    if operations.is_empty() {
        return Err(RecordedLatencyError::NoSpans);
    }
    let names = (0..).map(OperationIndex).zip(operations);
    let names: Vec<_> = names.map(|(index, one)| (format!("{}/{}", one.service, one.name), index)).collect();
    let meant = names.iter().filter(|(name, _)| pattern.matches(name));
    let found = meant.map(|(name, index)| (format!("span:{name}"), TargetKind::Span(*index))).collect();
    let found = targets(pattern, found);
    if found.is_empty() {
        let there = names.iter().map(|(name, _)| format!("span:{name}"));
        return Err(absent(&format!("span:{}", pattern.as_str()), there).into());
    }
    Ok(found)
}

/// Stretches between programs' marks, by their names. A name may be a state's and a mark's: both are meant.
fn user(
    recorded: &Recorded,
    stretches: Option<&Stretches>,
    pattern: &Pattern,
) -> Result<Vec<RecordedTarget>, RecordedLatencyError> {
    /// A program has few own names.
    const MAX_LISTED: usize = 40;
    let names = stretches.map_or(&[][..], |stretches| &stretches.names);
    if names.is_empty() {
        let is_apart = |problem: &Problem| {
            matches!(problem.kind, ProblemKind::Trace(Damage { kind: DamageKind::ProgramsApart, .. }))
        };
        return Err(match recorded.problems.iter().any(is_apart) {
            true => RecordedLatencyError::MarksApart,
            false => RecordedLatencyError::NoMarks,
        });
    }
    let meant = names.iter().enumerate().filter(|(_, (name, _))| pattern.matches(name));
    let found = meant.map(|(index, (name, kind))| (format!("ust:{name}"), TargetKind::User(index, *kind)));
    let found = targets(pattern, found.collect());
    if found.is_empty() {
        let mut there: Vec<_> = names.iter().map(|(name, _)| format!("ust:{name}")).collect();
        there.dedup();
        there.truncate(MAX_LISTED);
        let target = format!("ust:{}", pattern.as_str());
        return Err(TargetError::Absent { target, place: "in this recording", there }.into());
    }
    Ok(found)
}

/// Functions with recorded calls: by the whole name, or by the function without the file.
fn functions(recorded: &Recorded, text: &str) -> Result<Vec<RecordedTarget>, RecordedLatencyError> {
    let pattern = Pattern::new(text);
    let names = recorded.survey.names.targets();
    let names: Vec<_> =
        names.map(|(number, name)| (number, String::from_utf8_lossy(name.bytes()).into_owned())).collect();
    let is_meant = |name: &str| {
        // A recorded name may hold control characters, which a target on the command line may not.
        let without_file = || name.rsplit_once(':').is_some_and(|(_, function)| pattern.matches(function));
        let by_function = FunctionTarget::parse(name)
            .map_or_else(|_| without_file(), |target| pattern.matches(target.function.as_str()));
        pattern.matches(name) || by_function
    };
    // A function asked for at recording time is an answer even without calls.
    let target = |(number, name): &(u32, String)| RecordedTarget::new(name, TargetKind::Function(*number));
    let found: Vec<_> = names.iter().filter(|(_, name)| is_meant(name)).map(target).collect();
    match (found.is_empty(), names.is_empty(), text.contains(':')) {
        (false, ..) => Ok(found),
        (true, true, true) => Err(RecordedLatencyError::NoCalls(text.to_owned())),
        (true, true, false) => Err(TargetError::NotATarget(text.to_owned()).into()),
        (true, false, _) => Err(absent(text, names.into_iter().map(|(_, name)| name)).into()),
    }
}

fn absent(target: &str, there: impl Iterator<Item = String>) -> TargetError {
    let there = there.take(MAX_LISTED).collect();
    TargetError::Absent { target: target.to_owned(), place: "in this recording", there }
}

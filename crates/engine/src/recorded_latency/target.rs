//! What a target that was asked for means in a recording.

use std::collections::BTreeSet;

use wakepath_critical_path::SegmentKind;
use wakepath_event::{Call, HostIndex};

use super::NoLatency;
use crate::{Of, Recorded};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TargetKind {
    /// Calls of a function, by its number.
    Function(u32),
    /// Waits for a CPU.
    RunQueue,
    /// Requests of a device, or of all.
    Disk(Option<u32>),
    /// Waits in a system call.
    Blocked(u32),
    /// Waits for locks of either sort.
    Lock,
    /// Waits for futexes that have an owner.
    Futex,
    /// Waits for kernel locks.
    KernelLock,
    /// Segments of the asked threads' paths.
    Segment(SegmentKind),
}

/// A target with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) what: TargetKind,
    /// It is one of several that fit a pattern: left out where there is nothing of it.
    pub(super) of_pattern: bool,
}

impl TargetKind {
    pub(super) const fn of(self) -> Of {
        match self {
            Self::Function(_) => Of::Calls,
            Self::RunQueue => Of::Waits,
            Self::Disk(_) => Of::Requests,
            Self::Blocked(_) => Of::Blocked,
            Self::Lock | Self::Futex | Self::KernelLock => Of::Locks,
            Self::Segment(_) => Of::Segments,
        }
    }
}

/// Whether a name is the pattern, in which a `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, end)) => {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        }
    }
}

/// Most names that an error suggests.
const MAX_NEAR: usize = 5;

/// The targets that `text` means: one, or several where it is a pattern, or a disk of several hosts; of `host`
/// alone where it is one.
pub(super) fn parse(
    recorded: &Recorded,
    text: &str,
    host: Option<HostIndex>,
) -> Result<Vec<Target>, NoLatency> {
    let one = |what| Ok(vec![Target { name: text.to_owned(), what, of_pattern: false }]);
    match text.split_once(':') {
        None if text == "runqueue" => one(TargetKind::RunQueue),
        None if text == "disk" => one(TargetKind::Disk(None)),
        None if text == "lock" => one(TargetKind::Lock),
        Some(("lock", "user")) => one(TargetKind::Futex),
        Some(("lock", "kernel")) => one(TargetKind::KernelLock),
        Some(("disk", name)) => disks(recorded, name, host),
        Some(("syscall", name)) => Err(NoLatency::SystemCall(name.to_owned())),
        Some(("blocked", pattern)) => {
            let calls = (0..Call::COUNT).filter_map(|number| Some((Call::name(number)?, number)));
            several(text, "blocked", pattern, calls, TargetKind::Blocked)
        }
        Some(("segment", pattern)) => {
            let kinds = SegmentKind::ALL.into_iter().map(|kind| (kind.name(), kind));
            // As the target that is a disk is called.
            let pattern = if pattern == "disk" { SegmentKind::BlockDevice.name() } else { pattern };
            several(text, "segment", pattern, kinds, TargetKind::Segment)
        }
        _ => functions(recorded, text),
    }
}

/// Those of a sort whose name the pattern fits.
fn several<T>(
    text: &str,
    sort: &str,
    pattern: &str,
    names: impl Iterator<Item = (&'static str, T)> + Clone,
    what: impl Fn(T) -> TargetKind,
) -> Result<Vec<Target>, NoLatency> {
    let of_pattern = pattern.contains('*');
    let found: Vec<_> = names
        .clone()
        .filter(|(name, _)| fits(pattern, name))
        .map(|(name, one)| Target { name: format!("{sort}:{name}"), what: what(one), of_pattern })
        .collect();
    if found.is_empty() {
        let near = |name: &&str| !pattern.is_empty() && (name.contains(pattern) || pattern.contains(*name));
        let mut near: Vec<_> = names.clone().map(|(name, _)| name).filter(near).collect();
        // There are few kinds, so that a mistyped one can be told from all.
        if near.is_empty() && sort == "segment" {
            near.extend(names.map(|(name, _)| name));
        } else {
            near.sort_by_key(|name| name.len().abs_diff(pattern.len()));
            near.truncate(MAX_NEAR);
        }
        let near = near.into_iter().map(|name| format!("{sort}:{name}")).collect();
        return Err(NoLatency::NoSuch { text: text.to_owned(), there: near });
    }
    Ok(found)
}

/// Devices by their names, or by their numbers where nothing says their names: `disk:8:0`. Several hosts may
/// have one each.
fn disks(recorded: &Recorded, name: &str, host: Option<HostIndex>) -> Result<Vec<Target>, NoLatency> {
    let survey = &recorded.survey;
    let requests = &survey.intervals;
    let devices: BTreeSet<u32> = requests
        .requests
        .iter()
        .map(|request| request.of)
        .chain(requests.open_requests().map(|(device, _)| device))
        .chain(survey.names.block_devices().map(|(device, _)| device))
        .filter(|&device| host.is_none_or(|host| recorded.device(device).0 == host))
        .collect();
    let called = |device: u32| match survey.names.block_device(device) {
        Some(name) => String::from_utf8_lossy(name.bytes()).into_owned(),
        None => {
            let (_, number) = recorded.device(device);
            format!("{}:{}", number >> 20, number & 0xf_ffff)
        }
    };
    let meant: Vec<_> = devices.iter().copied().filter(|&device| called(device) == name).collect();
    if meant.is_empty() {
        let there: BTreeSet<_> = devices.iter().map(|&device| format!("disk:{}", called(device))).collect();
        let there = there.into_iter().take(MAX_NEAR).collect();
        return Err(NoLatency::NoSuch { text: format!("disk:{name}"), there });
    }
    let several = meant.len() > 1;
    let target = |device| {
        let mut name = format!("disk:{name}");
        if several {
            let host = recorded.host_at(recorded.device(device).0);
            name.push_str(&format!(" of {}", String::from_utf8_lossy(host.name.bytes())));
        }
        Target { name, what: TargetKind::Disk(Some(device)), of_pattern: false }
    };
    Ok(meant.into_iter().map(target).collect())
}

/// Functions whose calls were recorded: by the whole name, or by what stands behind the file.
fn functions(recorded: &Recorded, text: &str) -> Result<Vec<Target>, NoLatency> {
    let targets: Vec<_> = recorded
        .survey
        .names
        .targets()
        .map(|(number, name)| (number, String::from_utf8_lossy(name.bytes()).into_owned()))
        .collect();
    let is_meant = |name: &str| {
        fits(text, name) || name.rsplit_once(':').is_some_and(|(_, function)| fits(text, function))
    };
    let found: Vec<_> = targets
        .iter()
        .filter(|(_, name)| is_meant(name))
        // The pattern is of what was asked for then, so that nothing of one is an answer too.
        .map(|(number, name)| Target {
            name: name.clone(),
            what: TargetKind::Function(*number),
            of_pattern: false,
        })
        .collect();
    match (found.is_empty(), targets.as_slice(), text.contains(':')) {
        (false, ..) => Ok(found),
        (true, [], true) => Err(NoLatency::NoCalls(text.to_owned())),
        (true, [], false) => Err(NoLatency::NoTarget(text.to_owned())),
        (true, there, _) => {
            let there = there.iter().take(MAX_NEAR).map(|(_, name)| name.clone());
            Err(NoLatency::NoSuch { text: text.to_owned(), there: there.collect() })
        }
    }
}

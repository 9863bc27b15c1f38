//! How long calls, waits and requests take on this machine: counted live, where the collector is built in.

use std::path::Path;
use std::time::Duration;

use wakepath_collect::{
    Calibration, Counted, Counts, Entry, Exit, MOST_DISKS, MOST_TARGETS, Probe, ProbeKind, Returns, calibrate,
};
use wakepath_distribution::{Histogram, Peak, Unit};
use wakepath_event::Call;
use wakepath_functions::{Cost, FindError, Finder, Function, Return, Runtime, TargetError};

pub use wakepath_collect::{
    EndReason, Error as CollectError, GRACE, Identity, LatencyOptions as Options, Running, Signals,
};

/// Which probes a person allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Also where each costs many times as much.
    pub slow_probes: bool,
    /// Return probes also where an exception might pass, which would end the program: it is promised that
    /// none does.
    pub no_exceptions: bool,
}

/// What to count, of whom and for how long.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// What is counted, as people write it.
    pub targets: Vec<String>,
    /// Of whom and for how long; its own targets are made of those above.
    pub options: Options,
    /// Which probes may be put on functions.
    pub allowed: Allowed,
}

/// What was counted.
#[derive(Debug, Clone)]
pub struct Latency {
    /// For how long.
    pub elapsed: Duration,
    /// Why it ended.
    pub reason: EndReason,
    /// The command's wait status, if it ran and ended.
    pub status: Option<i32>,
    /// The command, if it goes on without being counted.
    pub running: Option<Running>,
    /// In the order in which they were asked for.
    pub targets: Vec<Distribution>,
}

/// What a target's latencies are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Calls of a function or of the system.
    Calls,
    /// Waits for a CPU.
    Waits,
    /// Requests of a disk, whoever made them.
    Requests,
}

/// How long one target took, how often.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// As it was asked for, or as it is called where a pattern was.
    pub target: String,
    /// What was counted.
    pub of: Of,
    /// Of the whole time, ns.
    pub histogram: Histogram,
    /// As a person would see them.
    pub peaks: Vec<Peak>,
    /// What came in each part of the time, where it was asked for.
    pub slices: Vec<Slice>,
    /// Calls that were left without returning: by an exception, `longjmp` or an end.
    pub left: u64,
    /// Calls that were not counted for want of room, or since they recursed too deep.
    pub crowded: u64,
    /// Calls that had not ended.
    pub open: u64,
    /// What its probes cost; nothing where it has none, or that could not be measured.
    pub probe: Option<ProbeCost>,
    /// What a person should know of it.
    pub notes: Vec<String>,
}

/// What the probes of a function cost here, as it was measured before counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeCost {
    /// How much longer a call takes, ns.
    pub per_call_ns: u64,
    /// How much longer it is counted to have taken, ns.
    pub shift_ns: u64,
    /// The smallest bucket whose latencies, on average, are counted in it all the same.
    pub from_bucket: usize,
}

impl ProbeCost {
    /// By T08 section 8.2: the average latency of bucket i is 3/2 · 2^i, and with the shift it is below
    /// 2^(i+1) still, which is to say that twice the shift is below 2^i.
    const fn new(calibration: Calibration) -> Self {
        let Calibration { per_call_ns, shift_ns } = calibration;
        let from_bucket = (u128::BITS - (2 * shift_ns as u128).leading_zeros()) as usize;
        Self { per_call_ns, shift_ns, from_bucket }
    }
}

/// What came in a part of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Since the beginning.
    pub from: Duration,
    /// Since the beginning.
    pub to: Duration,
    /// Ns.
    pub histogram: Histogram,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LatencyError {
    #[error("`{0}` is nothing that can be counted")]
    NoTarget(String),
    #[error("there is no system call `{name}`{}", suggestion(.near))]
    NoCall { name: String, near: Vec<&'static str> },
    #[error("there is no disk `{name}`{}", suggestion(.near))]
    NoDisk { name: String, near: Vec<String> },
    #[error("that is {asked} targets, and at most {most} are counted at once")]
    TooMany { asked: usize, most: usize },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Find(#[from] FindError),
    #[error(
        "`{name}` in {file} can be probed, but the kernel has to single-step {what}{}",
        trap(*.per_call_ns)
    )]
    Slow { name: String, file: String, what: &'static str, per_call_ns: Option<u64> },
    #[error(transparent)]
    Collect(#[from] CollectError),
}

/// What a call costs that the kernel has to single-step.
fn trap(per_call_ns: Option<u64>) -> String {
    match per_call_ns {
        Some(ns) => format!(": {:.1} µs a call on this machine", ns as f64 / 1e3),
        None => String::from(", which costs many times as much; how much could not be measured"),
    }
}

fn suggestion<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; there is {only}"),
        Some((last, others)) => format!("; there are {} and {last}", others.join(", ")),
    }
}

/// A target with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    name: String,
    of: Of,
    counted: Counted,
    notes: Vec<String>,
}

/// What `text` means: one target, or several where it is a pattern.
fn parse(text: &str, disks: &[(String, u32)], request: &Request) -> Result<Vec<Named>, LatencyError> {
    let named = |of, counted| vec![Named { name: text.to_owned(), of, counted, notes: Vec::new() }];
    match text.split_once(':') {
        None if text == "runqueue" => Ok(named(Of::Waits, Counted::RunQueue)),
        None if text == "disk" => Ok(named(Of::Requests, Counted::Disk(None))),
        Some(("disk", name)) => match disks.iter().find(|(disk, _)| disk == name) {
            Some(&(_, number)) => Ok(named(Of::Requests, Counted::Disk(Some(number)))),
            None => {
                let near = disks.iter().map(|(disk, _)| disk.clone()).take(MOST_NEAR).collect();
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
                counted: Counted::Functions(function.probes),
                notes: function.notes,
            };
            Ok(probed.map(named).collect())
        }
    }
}

/// A function that was asked for.
pub(crate) struct Probed {
    pub name: String,
    pub probes: Vec<Probe>,
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
        let slow = slow_part(&function);
        if let Some(what) = slow.filter(|_| !allowed.slow_probes) {
            let calibration = calibrate(kind(&function));
            return Err(LatencyError::Slow {
                name: function.readable,
                file: function.shown.display().to_string(),
                what,
                per_call_ns: calibration.map(|found| found.per_call_ns),
            });
        }
        probed.push(Probed {
            probes: vec![probe(&function)],
            notes: function.notes.iter().map(ToString::to_string).collect(),
            name: if several { format!("{}:{}", target.file, function.readable) } else { text.to_owned() },
        });
    }
    if let Some(first) = probed.first_mut() {
        first.notes.extend(found.refused.iter().map(ToString::to_string));
    }
    Ok(probed)
}

/// What of a function the kernel would have to single-step.
fn slow_part(function: &Function) -> Option<&'static str> {
    match (&function.probe.cost, &function.probe.returns) {
        (Cost::SingleStepped, _) => Some("its first instruction"),
        (_, Return::AtInstructions(_)) => Some("its return instructions"),
        _ => None,
    }
}

/// As far as the cost of its probes depends on it.
fn kind(function: &Function) -> ProbeKind {
    let exit = match function.probe.returns {
        Return::AtInstructions(_) => Exit::Instruction,
        Return::ReturnProbe | Return::Never => Exit::ReturnAddress,
    };
    ProbeKind { entry: entry(function.probe.cost), exit }
}

const fn entry(cost: Cost) -> Entry {
    match cost {
        Cost::Optimised => Entry::Optimised,
        Cost::Emulated => Entry::Emulated,
        Cost::SingleStepped => Entry::SingleStepped,
    }
}

fn probe(function: &Function) -> Probe {
    Probe {
        file: function.file.clone(),
        offset: function.probe.offset,
        entry: entry(function.probe.cost),
        returns: match &function.probe.returns {
            Return::ReturnProbe => Returns::Probe,
            Return::AtInstructions(places) => Returns::At(places.clone()),
            Return::Never => Returns::Never,
        },
        go: function.runtime == Runtime::Go,
    }
}

/// Most names that an error suggests.
const MOST_NEAR: usize = 5;

fn calls(pattern: &str) -> Result<Vec<Named>, LatencyError> {
    let all = (0..Call::MOST).filter_map(|number| Some((number, Call::name(number)?)));
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
        near.truncate(MOST_NEAR);
        return Err(LatencyError::NoCall { name: pattern.to_owned(), near });
    }
    let named = |(number, name)| Named {
        name: format!("syscall:{name}"),
        of: Of::Calls,
        counted: Counted::Call(number),
        notes: Vec::new(),
    };
    Ok(found.into_iter().map(named).collect())
}

/// This machine's disks and their numbers, as the kernel packs them.
fn disks(folder: &Path) -> Vec<(String, u32)> {
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

/// Counts until the command ends, the time is over or `stop` was asked.
///
/// # Errors
/// When a target is none, or counting could not begin.
pub fn latency(request: &Request, stop: &Signals) -> Result<Latency, LatencyError> {
    let disks = disks(Path::new("/sys/class/block"));
    let mut named: Vec<Named> = Vec::new();
    for text in &request.targets {
        for target in parse(text, &disks, request)? {
            if !named.iter().any(|other| other.counted == target.counted) {
                named.push(target);
            }
        }
    }
    for (asked, most) in [
        (named.len(), MOST_TARGETS),
        (named.iter().filter(|target| target.of == Of::Requests).count(), MOST_DISKS),
    ] {
        if asked > most {
            return Err(LatencyError::TooMany { asked, most });
        }
    }
    let targets = named.iter().map(|target| target.counted.clone()).collect();
    let options = Options { targets, ..request.options.clone() };
    let outcome = wakepath_collect::count(&options, stop)?;
    let last = outcome.readings.last();
    let elapsed = last.map_or(Duration::ZERO, |last| last.at);
    let targets = named.into_iter().enumerate().map(|(index, target)| {
        let readings =
            outcome.readings.iter().filter_map(|reading| Some((reading.at, reading.counts.get(index)?)));
        let calibration = outcome.calibrations.get(index).copied().flatten();
        Distribution {
            probe: calibration.map(ProbeCost::new),
            ..distribution(target, readings, request.options.every)
        }
    });
    Ok(Latency {
        elapsed,
        reason: outcome.reason,
        status: outcome.status,
        running: outcome.running,
        targets: targets.collect(),
    })
}

fn distribution<'a>(
    target: Named,
    readings: impl Iterator<Item = (Duration, &'a Counts)>,
    every: Option<Duration>,
) -> Distribution {
    let mut slices: Vec<Slice> = Vec::new();
    let (mut from, mut histogram) = (Duration::ZERO, Histogram::new(Unit::Nanoseconds));
    let (mut left, mut crowded, mut open) = (0, 0, 0);
    for (to, counts) in readings {
        let whole = Histogram::from_counters(Unit::Nanoseconds, counts.buckets, counts.sum.into());
        let since = whole.minus(&histogram);
        // The kernel's counters only grow.
        if let (Some(every), Ok(since)) = (every, since) {
            match slices.last_mut() {
                // What was left when the last part was over is no part of its own.
                Some(last) if to.saturating_sub(from) < every / 10 => {
                    last.to = to;
                    let _ = last.histogram.merge(&since);
                }
                _ => slices.push(Slice { from, to, histogram: since }),
            }
        }
        (from, histogram) = (to, whole);
        (left, crowded, open) = (counts.left, counts.crowded, counts.open);
    }
    Distribution {
        target: target.name,
        of: target.of,
        peaks: wakepath_distribution::peaks(&histogram),
        histogram,
        slices,
        left,
        crowded,
        open,
        probe: None,
        notes: target.notes,
    }
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
            ("nothing", "`nothing` is nothing that can be counted"),
        ] {
            let error = parse(text, &disks, &Request::default()).expect_err(text);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn a_bucket_is_not_shifted_where_its_average_stays_in_it() {
        for (shift_ns, expected) in
            [(0, 0), (1, 2), (2, 3), (3, 3), (4, 4), (511, 10), (512, 11), (20_000, 16), (u64::MAX, 65)]
        {
            let found = ProbeCost::new(Calibration { per_call_ns: 1, shift_ns });
            assert_eq!(found.from_bucket, expected, "{shift_ns} ns");
            // T08 section 8.2, as it stands there, twice over so that it is in whole numbers.
            let stays = |bucket: usize| 3 * (1_u128 << bucket) + 2 * u128::from(shift_ns) < 4 << bucket;
            assert!(stays(expected) && (0..expected).all(|bucket| !stays(bucket)), "{shift_ns} ns");
        }
    }

    #[test]
    fn what_is_slow_says_what_a_call_costs_here() {
        let slow = |per_call_ns| LatencyError::Slow {
            name: String::from("f"),
            file: String::from("./app"),
            what: "its first instruction",
            per_call_ns,
        };
        let head = "`f` in ./app can be probed, but the kernel has to single-step its first instruction";
        assert_eq!(slow(Some(21_340)).to_string(), format!("{head}: 21.3 µs a call on this machine"));
        assert_eq!(
            slow(None).to_string(),
            format!("{head}, which costs many times as much; how much could not be measured")
        );
    }

    #[test]
    fn parts_of_the_time_add_up_to_the_whole() {
        let counts = |n: u64| Counts {
            buckets: std::array::from_fn(|bucket| if bucket == 10 { n } else { 0 }),
            sum: n * 1500,
            left: 0,
            crowded: 0,
            open: n,
        };
        let readings = [(1000, counts(5)), (2000, counts(5)), (3000, counts(8)), (3010, counts(9))];
        let readings = readings.iter().map(|(at, counts)| (Duration::from_millis(*at), counts));
        let target = Named {
            name: String::from("disk"),
            of: Of::Requests,
            counted: Counted::Disk(None),
            notes: Vec::new(),
        };
        let told = distribution(target, readings, Some(Duration::from_secs(1)));
        let parts: Vec<_> =
            told.slices.iter().map(|slice| (slice.to.as_millis(), slice.histogram.calls())).collect();
        assert_eq!(parts, [(1000, 5), (2000, 0), (3010, 4)]);
        assert_eq!((told.histogram.calls(), told.open), (9, 9));
    }
}

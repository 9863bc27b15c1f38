//! How long calls, waits and requests take on this machine: counted live, where the collector is built in.

use std::path::Path;
use std::time::{Duration, SystemTime};

use wakepath_collect::{Calibration, Counts, MAX_DISKS, MAX_TARGETS};
use wakepath_distribution::{Histogram, Unit};
use wakepath_recording::this_host;

use crate::Host;
pub use crate::distribution::{Distribution, Elsewhere, Of, ProbeCost, Slice};
pub use wakepath_collect::{
    EndReason, Error as CollectError, GRACE, Identity, LatencyOptions as Options, Running, Signals,
};

mod elsewhere;
mod error;
mod groups;
mod kernel;
mod target;

pub(crate) use elsewhere::elsewhere;
pub use error::LatencyError;
use groups::told_apart;
pub use kernel::KernelRefusal;
pub(crate) use kernel::kernel_functions;
pub(crate) use target::functions;
use target::{Named, disks, parse};

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
    /// Which machine it was.
    pub host: Host,
    /// When counting began, ns since 1970 UTC; nothing where the clock is before that.
    pub began_realtime_ns: Option<u64>,
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

impl From<Calibration> for ProbeCost {
    /// By T08 section 8.2: the average latency of bucket i is 3/2 · 2^i, and with the shift it is below
    /// 2^(i+1) still, which is to say that twice the shift is below 2^i.
    fn from(Calibration { per_call_ns, shift, .. }: Calibration) -> Self {
        let from_bucket = (u128::BITS - (2 * u128::from(shift)).leading_zeros()) as usize;
        Self { per_call_ns, shift, from_bucket }
    }
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
        (named.len(), MAX_TARGETS),
        (named.iter().filter(|target| target.of == Of::Requests).count(), MAX_DISKS),
    ] {
        if asked > most {
            return Err(LatencyError::TooMany { asked, most });
        }
    }
    if let Some(target) =
        named.iter().find(|target| request.options.by.is_some() && target.of == Of::Requests)
    {
        return Err(LatencyError::Nobodys(target.name.clone()));
    }
    let targets = named.iter().map(|target| target.counted.clone()).collect();
    let options = Options { targets, ..request.options.clone() };
    // Where all are asked about, none is elsewhere.
    let of_some = !options.processes.is_empty() || !options.command.is_empty();
    let beside = match of_some {
        true => elsewhere(
            named.iter().map(|target| target.probe().zip(target.file.as_deref())),
            &options.processes,
        ),
        false => Vec::new(),
    };
    let outcome = wakepath_collect::count(&options, stop)?;
    let last = outcome.readings.last();
    let elapsed = last.map_or(Duration::ZERO, |last| last.at);
    let unit = if request.options.in_cycles { Unit::Cycles } else { Unit::Nanoseconds };
    let targets = named.into_iter().enumerate().map(|(index, target)| {
        let readings =
            outcome.readings.iter().filter_map(|reading| Some((reading.at, reading.counts.get(index)?)));
        let calibration = outcome.calibrations.get(index).copied().flatten();
        let (told, of_reading) = distribution(target, readings, request.options.every, unit);
        let groups = request.options.by.zip(outcome.groups.get(index)).map(|(by, of)| {
            let parts = groups::parts(&told.slices, &of_reading, &outcome.readings, index, unit);
            told_apart(by, of, unit, parts)
        });
        Distribution {
            probe: calibration.map(ProbeCost::from),
            elsewhere: beside.get(index).cloned().flatten().map(|beside| Elsewhere {
                per_call_ns: calibration.map(|calibration| calibration.elsewhere_ns),
                ..beside
            }),
            groups,
            ..told
        }
    });
    let began = outcome.began.duration_since(SystemTime::UNIX_EPOCH).ok();
    Ok(Latency {
        host: Host::from(&this_host()),
        began_realtime_ns: began.and_then(|began| u64::try_from(began.as_nanos()).ok()),
        elapsed,
        reason: outcome.reason,
        status: outcome.status,
        running: outcome.running,
        targets: targets.collect(),
    })
}

/// What was counted of a target, and which of its slices each reading is of.
fn distribution<'a>(
    target: Named,
    readings: impl Iterator<Item = (Duration, &'a Counts)>,
    every: Option<Duration>,
    unit: Unit,
) -> (Distribution, Vec<usize>) {
    let mut slices: Vec<Slice> = Vec::new();
    let mut of_reading = Vec::new();
    let (mut from, mut histogram) = (Duration::ZERO, Histogram::new(unit));
    let (mut unwound, mut overflowed, mut open, mut unseen) = (0, 0, 0, 0);
    for (to, counts) in readings {
        let whole = Histogram::from_counters(unit, counts.buckets, counts.sum.into());
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
        of_reading.push(slices.len().saturating_sub(1));
        (from, histogram) = (to, whole);
        (unwound, overflowed, open, unseen) = (counts.unwound, counts.overflowed, counts.open, counts.unseen);
    }
    let told = Distribution {
        target: target.name,
        of: target.of,
        peaks: wakepath_distribution::peaks(&histogram),
        histogram,
        slices,
        groups: None,
        unwound,
        overflowed,
        open,
        unseen,
        probe: None,
        elsewhere: None,
        notes: target.notes,
    };
    (told, of_reading)
}

#[cfg(test)]
mod tests {
    use wakepath_collect::Counted;

    use super::*;

    #[test]
    fn a_bucket_is_not_shifted_where_its_average_stays_in_it() {
        for (shift, expected) in
            [(0, 0), (1, 2), (2, 3), (3, 3), (4, 4), (511, 10), (512, 11), (20_000, 16), (u64::MAX, 65)]
        {
            let found = ProbeCost::from(Calibration { per_call_ns: 1, elsewhere_ns: 1, shift });
            assert_eq!(found.from_bucket, expected, "{shift} ns");
            // T08 section 8.2, as it stands there, twice over so that it is in whole numbers.
            let stays = |bucket: usize| 3 * (1_u128 << bucket) + 2 * u128::from(shift) < 4 << bucket;
            assert!(stays(expected) && (0..expected).all(|bucket| !stays(bucket)), "{shift} ns");
        }
    }

    #[test]
    fn parts_of_the_time_add_up_to_the_whole() {
        let counts = |n: u64| Counts {
            buckets: std::array::from_fn(|bucket| if bucket == 10 { n } else { 0 }),
            sum: n * 1500,
            unwound: 0,
            overflowed: 0,
            open: n,
            unseen: 2 * n,
        };
        let readings = [(1000, counts(5)), (2000, counts(5)), (3000, counts(8)), (3010, counts(9))];
        let readings = readings.iter().map(|(at, counts)| (Duration::from_millis(*at), counts));
        let target = Named {
            name: String::from("disk"),
            of: Of::Requests,
            counted: Counted::Disk(None),
            file: None,
            notes: Vec::new(),
        };
        let (told, of_reading) = distribution(target, readings, Some(Duration::from_secs(1)), Unit::Cycles);
        assert_eq!(of_reading, [0, 1, 2, 2]);
        let parts: Vec<_> =
            told.slices.iter().map(|slice| (slice.to.as_millis(), slice.histogram.calls())).collect();
        assert_eq!(parts, [(1000, 5), (2000, 0), (3010, 4)]);
        assert_eq!((told.histogram.calls(), told.open, told.unseen), (9, 9, 18));
    }
}

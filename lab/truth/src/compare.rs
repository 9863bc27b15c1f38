//! Compares a path with a truth.
//!
//! The error is half the sum of the absolute differences over all contributors, as a fraction of the window: time
//! charged to the wrong contributor counts once, and errors cannot cancel.
//!
//! A contributor is a thread (by tid, since threads may share a name) and a kind. Three rules cover the times that
//! programs cannot measure:
//!
//! 1. *Interrupts.* A thread's clocks continue during an interrupt on its CPU, so `interrupted` counts as the thread's
//!    `running`. So does `stolen`, except next to the thread's `runnable` time, where the kernel counts it as a wait
//!    for a CPU, and behind its wait, where the hypervisor held the interrupt back: the program sees a longer wait.
//! 2. *Disks.* A program knows how long `fsync` blocked it, and that only the disk and the kernel threads working for
//!    the disk can cause such a wait. If a truth has a thread's `block_device` time, the path's time for kernel
//!    threads, all its `block_device` time, and its timers within those system calls (the kernel holds requests back to
//!    merge them) are compared with it as a single sum. Otherwise kernel threads are outsiders like other threads.
//! 3. *Ends.* A program cannot time its own exec, loader and exit, so the path's window is longer at both ends. The
//!    segments are clipped to the program's accounted time, by the clock used in both documents. The rest must be short
//!    (see `checks`).
//!
//! An `ambiguous` wait for the network or a timer counts as unknown: the path does not know the sender there, or whether this wait and a
//! later wait, hidden by a missing event, were a single wait. Unknown time caused by missing events (`losses` that the recorder did not
//! report) excuses the time that the path lacks elsewhere, and nothing else: time charged to a thread that did not have it, a wrong name and
//! a broken assertion are wrong whatever is unknown beside them. Only where the program's own log contradicts itself is nothing compared
//! with it; the path's own sums are checked even then. The path's time for TCP's timers is excused in the same way, where the kernel counts
//! that TCP sent something by them: a program cannot see them.
//!
//! A time with two readings in the log is compared with the reading nearer to the path: see `either`.
//!
//! The kind `still_waiting` exists here only: a wait that has not ended at the window's end. A path has a cause for it
//! and no kind; it is known and does not count as `unknown`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::assertion::BadAssertion;
use crate::audit;
use crate::checks;
use crate::dated_back::{Shifts, corrections, overcounted, uncounted};
use crate::document::{Basis, DatedBack, Key, PathDocument, Segment, Truth, clip, length};
use crate::either::{self, MAX_EITHER};
use crate::kernel_threads;
use crate::tries::Outcome;

/// The limits for a path's errors, as fractions of the window.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Half the sum of absolute differences.
    pub error: f64,
    /// Unknown time without a missing event.
    pub unknown: f64,
    /// Time charged by the path to threads outside the workload.
    pub outside: f64,
    /// The machine's slowness: a factor, 1 for a usual machine.
    pub slowness: f64,
}

impl Limits {
    /// The given limit for the differences, and 0.1% for unknown and outside time.
    pub const fn with_error(error: f64) -> Self {
        Self { error, unknown: 0.001, outside: 0.001, slowness: 1.0 }
    }

    /// The limits on a machine slower by this factor, such as an emulated machine. A program's stamps and the kernel's
    /// are a system call and a switch apart, a CPU starts some time after the request to start, and a program is loaded
    /// before its first line. All these take longer by the factor, and the limit for differences grows with them; the
    /// limits for unknown and outside time do not.
    pub fn slower(self, slowness: f64) -> Self {
        Self { error: self.error * slowness, slowness: self.slowness * slowness, ..self }
    }
}

/// A contributor in both documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedContributor {
    /// The thread's name, or its tid if neither document has a name.
    pub who: String,
    /// The kind.
    pub kind: String,
    /// By the truth, ns.
    pub truth_ns: i64,
    /// By the path, ns.
    pub path_ns: i64,
}

/// The result of a comparison.
#[derive(Debug, Clone)]
pub struct PathVerdict {
    /// The compared time, ns.
    pub window_ns: i64,
    /// Half the sum of absolute differences, as a fraction of the window.
    pub error: f64,
    /// The error without the time that the program's clocks date back; the limit applies to this figure.
    pub remains: f64,
    /// The source of the dated-back times, and the number of switches; `None` if the judge did not look.
    pub dated_back: Option<(Basis, usize)>,
    /// The path's unknown time, as a fraction of the window.
    pub unknown: f64,
    /// The path's time for threads outside the workload, as a fraction of the window.
    pub outside: f64,
    /// The time with two readings in the program's log, as a fraction of the window.
    pub either: f64,
    /// The path's window less the compared time, ns.
    pub ends_ns: i64,
    /// The number of places with missing events.
    pub losses: usize,
    /// All contributors, the largest difference first.
    pub parts: Vec<ComparedContributor>,
    /// The path's errors, in sentences.
    pub violations: Vec<String>,
    /// The reasons why this run shows less than a complete run, in sentences.
    pub void: Vec<String>,
    /// Whether the program's own log adds up, so that the path was compared with it.
    pub sound_books: bool,
}

impl PathVerdict {
    /// The run's outcome.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.violations.is_empty(), self.void.is_empty())
    }
}

/// Documents that cannot be compared at all.
#[derive(Debug, thiserror::Error)]
pub enum BadDocument {
    /// The truth has the wrong form.
    #[error("cannot read the truth: {0}")]
    Truth(serde_json::Error),
    /// The path has the wrong form.
    #[error("cannot read the path: {0}")]
    Path(serde_json::Error),
    /// Another schema.
    #[error("the {which} has schema `{found}`, expected `{expected}`")]
    Schema {
        /// The document.
        which: &'static str,
        /// Its schema.
        found: String,
        /// The expected schema.
        expected: &'static str,
    },
    /// `origin_ns` is no number.
    #[error("the path's origin_ns is `{0}`, no decimal number")]
    Origin(String),
    /// The two windows do not overlap.
    #[error("the path's window and the truth's do not overlap")]
    Apart,
    /// An assertion in the truth cannot be read.
    #[error(transparent)]
    Assertion(#[from] BadAssertion),
}

type Sums = BTreeMap<(u32, String), i64>;

/// The tid that stands for a packet in flight between hosts.
pub(crate) const NO_THREAD: u32 = 0;

/// Compares the documents; `path` is the whole document, since the truth's assertions may concern any part.
///
/// # Errors
///
/// If a document does not have its schema's form. A wrong path in the right form is no error but a [`PathVerdict`] with
/// violations.
pub fn compare(truth: &Value, path: &Value, limits: Limits) -> Result<PathVerdict, BadDocument> {
    let document = path;
    let mut truth = Truth::deserialize(truth).map_err(BadDocument::Truth)?;
    let path = PathDocument::deserialize(path).map_err(BadDocument::Path)?;
    check_schema("truth", &truth.schema, "wakepath.truth/1")?;
    check_schema("path", &path.schema, "wakepath.path/1")?;
    let origin: i64 = path.origin_ns.parse().map_err(|_| BadDocument::Origin(path.origin_ns.clone()))?;

    let from = truth.window.from_ns - origin;
    let to = truth.window.to_ns.map_or(path.window.to_ns, |to| to - origin);
    let window_ns = to - from;
    let clipped = clip(&path.segments, from, to);
    if window_ns <= 0 || clipped.is_empty() {
        return Err(BadDocument::Apart);
    }

    let own: BTreeSet<u32> = truth.threads.iter().map(|thread| thread.tid).collect();
    let mut void = audit::truth(&truth, limits.slowness);
    if let Some(DatedBack { switches, .. }) = &truth.dated_back {
        void.extend(audit::uncounted(uncounted(switches, &own, &clipped, origin), window_ns));
    }
    let sound_books = void.is_empty();
    let either_ns = either::choose(&mut truth, &path, origin);
    let violations = audit::path(&path);

    let mut expected = sums_of_truth(&truth, window_ns);
    let keys = keys_of_path(&clipped, &truth, &own);
    let mut found = Sums::new();
    for (segment, &(tid, kind)) in clipped.iter().zip(&keys) {
        *found.entry((tid, kind.to_owned())).or_default() += length(segment);
    }

    let share = |ns: i64| ns as f64 / window_ns as f64;
    let difference = |parts: &[ComparedContributor]| {
        share(parts.iter().map(|part| (part.truth_ns - part.path_ns).abs()).sum::<i64>()) / 2.0
    };
    let error = difference(&align(&truth, &clipped, &expected, &found));
    if let Some(DatedBack { switches, overcounted: sleeps, .. }) = &truth.dated_back {
        let shifts =
            if truth.hosts.is_empty() { Shifts::default() } else { Shifts::find(&clipped, switches, origin) };
        let of_switches = corrections(switches, &own, &clipped, &keys, origin, &shifts);
        let of_sleeps = overcounted(sleeps, &truth.counted, &own, &clipped, &keys, &path.waits, origin);
        for ((tid, kind), ns) in of_switches.into_iter().chain(of_sleeps) {
            *expected.entry((tid, kind.to_owned())).or_default() += ns;
        }
    }
    let parts = align(&truth, &clipped, &expected, &found);
    let total = |wanted: &dyn Fn(u32, &str) -> bool| -> f64 {
        share(found.iter().filter(|((tid, kind), _)| wanted(*tid, kind)).map(|(_, ns)| ns).sum())
    };
    let mut verdict = PathVerdict {
        window_ns,
        error,
        remains: difference(&parts),
        dated_back: truth.dated_back.as_ref().map(|found| (found.basis.clone(), found.switches.len())),
        unknown: total(&|_, kind| kind == "unknown"),
        outside: total(&|tid, kind| !own.contains(&tid) && tid != NO_THREAD && kind != "unknown"),
        either: share(either_ns),
        ends_ns: (path.window.to_ns - path.window.from_ns) - window_ns,
        losses: path.losses.len(),
        parts,
        violations,
        void,
        sound_books,
    };
    if verdict.either > MAX_EITHER {
        let percent = verdict.either * 100.0;
        verdict.void.push(format!("the program's books have two readings of {percent:.1}% of the window"));
    }
    // A path is right to have unknown time where the kernel did not record a switch. The time then missing elsewhere is
    // no error; with more than a little unknown time the run shows too little.
    let (mut excused, mut unknown) = (0.0, 0.0);
    if path.losses.iter().any(|loss| !loss.reported) && verdict.unknown > limits.unknown {
        (excused, unknown) = (verdict.unknown, verdict.unknown);
        verdict.void.push(format!("{:.3}% is unknown where events are missing", excused * 100.0));
    }
    // Where TCP sent something again or by a timer, by the kernel's count, the program sees only a slow network or a slow
    // other end.
    if truth.clocks.sent_by_timers > 0 {
        let of_timers: i64 = clipped.iter().filter(|segment| is_by_timer(segment)).map(length).sum();
        if share(of_timers) > limits.unknown {
            excused += share(of_timers);
            let percent = share(of_timers) * 100.0;
            let text = format!("{percent:.3}% is for timers of TCP, which the program does not see");
            verdict.void.push(text);
        }
    }
    // The kernel's own count holds whatever the program's log says.
    if let Some(threads) = &truth.kernel_threads {
        let (violations, void) =
            kernel_threads::check(threads, &clipped, &own, limits.outside * window_ns as f64);
        verdict.violations.extend(violations);
        verdict.void.extend(void);
    }
    if !sound_books {
        return Ok(verdict);
    }
    let tolerance = checks::Tolerance {
        worth_ns: checks::WORTH_NAMING * limits.slowness * window_ns as f64,
        excused_ns: excused * window_ns as f64,
    };
    verdict.violations.extend(checks::window(&truth, &path, from, to, limits.slowness));
    verdict.violations.extend(checks::sentences(&truth, document)?);
    verdict.violations.extend(checks::names(&truth, &clipped, tolerance));
    verdict.violations.extend(checks::calls(&truth, &clipped, document, tolerance)?);
    for (what, found, limit) in [
        ("contributors differ by", verdict.remains - excused, limits.error),
        ("unknown is", verdict.unknown - unknown, limits.unknown),
        ("threads outside of the workload have", verdict.outside, limits.outside),
    ] {
        if found > limit {
            verdict.violations.push(format!(
                "{what} {:.3}% of the window, more than {:.1}%",
                found * 100.0,
                limit * 100.0
            ));
        }
    }
    Ok(verdict)
}

/// Whether the path says that TCP sent data again or by a timer. Acknowledgements do not count: TCP sends them by a timer on most
/// links, so the kernel's count would excuse any run.
fn is_by_timer(segment: &Segment) -> bool {
    let causes = ["syn_sent_again", "sent_again", "window_probe", "sent_by_timer"];
    segment.cause.as_ref().is_some_and(|cause| causes.contains(&cause.kind.as_str()))
}

/// Whether the path says that TCP held an acknowledgement back.
fn is_delayed(segment: &Segment) -> bool {
    segment.cause.as_ref().is_some_and(|cause| cause.kind == "delayed_acknowledgement")
}

fn check_schema(which: &'static str, found: &str, expected: &'static str) -> Result<(), BadDocument> {
    if found == expected {
        return Ok(());
    }
    Err(BadDocument::Schema { which, found: found.to_owned(), expected })
}

/// Whether this is a kernel thread's name; the workloads use no such names. The document does not mark kernel threads:
/// where the judge ran the recording itself, it has the kernel's thread list instead.
fn is_kernel_thread(comm: &str) -> bool {
    const NAMES: &[&str] = &["kworker/", "jbd2/", "ksoftirqd/", "kswapd", "kcompactd", "rcu_", "migration/"];
    const DISKS: &[&str] = &["loop", "dmcrypt_", "md", "nvme", "scsi_", "xfsaild/", "btrfs-", "txg_", "z_wr"];
    NAMES.iter().chain(DISKS).any(|name| comm.starts_with(name))
}

/// Each segment's contributor.
fn keys_of_path<'a>(segments: &'a [Segment], truth: &Truth, own: &BTreeSet<u32>) -> Vec<Key<'a>> {
    let disk = || truth.contributors.iter().filter(|part| part.kind == "block_device");
    let disk_waiter = disk().next().map(|part| part.thread.tid);
    let disk_calls: BTreeSet<&str> = disk().filter_map(|part| part.call.as_deref()).collect();
    let of_kernel = |tid: u32, comm: &str| match &truth.kernel_threads {
        Some(threads) => threads.iter().any(|thread| thread.tid == tid),
        None => is_kernel_thread(comm),
    };
    let held_back = |index: usize| {
        let before = segments.get(index.wrapping_sub(1))?;
        let is_wait = matches!(&*before.kind, "timer" | "network" | "block_device" | "other_device");
        (is_wait && before.tid == segments[index].tid).then_some(before)
    };
    let key_of = |(index, segment): (usize, &'a Segment)| {
        let segment = held_back(index).filter(|_| segment.kind == "stolen").unwrap_or(segment);
        let tid = segment.tid.unwrap_or(NO_THREAD);
        let kernels =
            || !own.contains(&tid) && segment.comm.as_deref().is_some_and(|comm| of_kernel(tid, comm));
        let in_disk_call = || segment.call.as_deref().is_some_and(|call| disk_calls.contains(call));
        let still_waiting = segment.cause.as_ref().is_some_and(|cause| cause.kind == "still_waiting");
        match (disk_waiter, segment.kind.as_str()) {
            _ if still_waiting => (tid, "still_waiting"),
            (_, "unknown") => (tid, "unknown"),
            // Behind the last sending known to the program, its log has the network, whatever TCP did there by a timer.
            _ if !truth.hosts.is_empty() && (is_by_timer(segment) || is_delayed(segment)) => {
                (NO_THREAD, "network")
            }
            // Without the sending of a packet, the network's time and the sender's are not distinguished; without the
            // next wait, a time-out as the whole wait and a time-out followed by more waiting are not.
            (_, "network" | "timer") if segment.basis.as_deref() == Some("ambiguous") => (tid, "unknown"),
            (Some(waiter), "block_device") => (waiter, "block_device"),
            (Some(waiter), "timer") if in_disk_call() => (waiter, "block_device"),
            (Some(waiter), _) if kernels() => (waiter, "block_device"),
            (_, "interrupted") => (tid, "running"),
            (_, "stolen") => {
                let beside = [index.wrapping_sub(1), index + 1].map(|beside| segments.get(beside));
                let waits = |beside: &Segment| (beside.tid, &*beside.kind) == (segment.tid, "runnable");
                (tid, if beside.into_iter().flatten().any(waits) { "runnable" } else { "running" })
            }
            (_, kind) => (tid, kind),
        }
    };
    segments.iter().enumerate().map(key_of).collect()
}

fn sums_of_truth(truth: &Truth, window_ns: i64) -> Sums {
    let stated: i64 = truth.contributors.iter().filter_map(|part| part.total_ns).sum();
    let mut sums = Sums::new();
    for part in &truth.contributors {
        let ns = part.total_ns.unwrap_or(window_ns - stated);
        *sums.entry((part.thread.tid, part.kind.clone())).or_default() += ns;
    }
    sums
}

fn align(truth: &Truth, segments: &[Segment], expected: &Sums, found: &Sums) -> Vec<ComparedContributor> {
    let mut names: BTreeMap<u32, &str> = BTreeMap::new();
    for segment in segments {
        if let (Some(tid), Some(comm)) = (segment.tid, &segment.comm) {
            names.insert(tid, comm);
        }
    }
    names.extend(truth.threads.iter().map(|thread| (thread.tid, thread.comm.as_str())));
    let keys: BTreeSet<&(u32, String)> = expected.keys().chain(found.keys()).collect();
    let ns = |sums: &Sums, key: &(u32, String)| sums.get(key).copied().unwrap_or(0);
    let mut parts: Vec<ComparedContributor> = keys
        .into_iter()
        .map(|key| ComparedContributor {
            who: names.get(&key.0).map_or_else(|| format!("tid {}", key.0), |comm| (*comm).to_owned()),
            kind: key.1.clone(),
            truth_ns: ns(expected, key),
            path_ns: ns(found, key),
        })
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse((part.truth_ns - part.path_ns).abs()));
    parts
}

#[cfg(test)]
mod tests;

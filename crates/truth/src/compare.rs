//! Holds a path against a truth.
//!
//! The measure is half the sum of the absolute differences over all contributors, as a fraction of
//! the window: what stands in one place and belongs in another counts once, and errors cannot cancel.
//!
//! A contributor is a thread (by tid: names of threads need not differ) and a kind. Three things the
//! programs cannot measure, and for no others is there a rule:
//!
//! 1. *Interrupts.* A thread's clocks go on while an interrupt borrows its CPU. `interrupted` counts
//!    as `running` of the same thread. So does `stolen`, what the hypervisor took, but next to `runnable` time
//!    of the same thread: that, the kernel counts as a wait for a CPU.
//! 2. *Disks.* A program knows how long it was blocked in `fsync`, and that the only ones who could
//!    have kept it were the disk and the kernel threads that work for it. Where a truth has
//!    `block_device` of a thread, everything that the path charges to kernel threads, all
//!    `block_device`, and timers within those system calls (the kernel holds requests back to merge
//!    them), is compared with it as one. Elsewhere kernel threads are outsiders like anyone.
//! 3. *Ends.* A program sees neither its exec and loader nor its exit: the path's window is longer at
//!    both ends. So the segments are clipped to the stretch that the program vouches for, by the
//!    clock that both documents use. What lies outside must be short (see `checks`).
//!
//! And one kind stands only here: `still_waiting`, of a wait that is open when the window closes. A
//! path has no kind for it, but a cause; what it says is known and no `unknown`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::assertion::BadAssertion;
use crate::audit;
use crate::checks;
use crate::document::{PathDocument, Segment, Truth};

/// What a path may differ by, as fractions of the window.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Half the sum of absolute differences.
    pub error: f64,
    /// Time that the path calls unknown, where no event is missing.
    pub unknown: f64,
    /// Time that the path charges to threads that are not of the workload.
    pub outside: f64,
    /// How many times slower the machine is than those the limits were argued for.
    pub slowness: f64,
}

impl Limits {
    /// With that limit for the differences, and 0.1% for what must not be there at all.
    pub const fn with_error(error: f64) -> Self {
        Self { error, unknown: 0.001, outside: 0.001, slowness: 1.0 }
    }

    /// The same on a machine, like an emulated one, that many times slower. A program's stamps and the
    /// kernel's are a system call and a switch apart, a CPU starts to run some moments after it was
    /// asked to, a program is loaded before its first line: these take as many times longer, and what
    /// the limits allow for them grows with them. What must not be there at all has no place in it.
    pub fn slower(self, slowness: f64) -> Self {
        Self { error: self.error * slowness, slowness: self.slowness * slowness, ..self }
    }
}

/// One contributor as both see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The thread's name; its tid for those that have none in either document.
    pub who: String,
    /// The kind.
    pub kind: String,
    /// By the truth, ns.
    pub truth_ns: i64,
    /// By the path, ns.
    pub path_ns: i64,
}

/// What the comparison found.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The stretch compared, ns.
    pub window_ns: i64,
    /// Half the sum of absolute differences, as a fraction of it.
    pub error: f64,
    /// What the path calls unknown, as a fraction of it.
    pub unknown: f64,
    /// What the path charges to outsiders, as a fraction of it.
    pub outside: f64,
    /// How much longer the path's window is, ns.
    pub ends_ns: i64,
    /// In how many places events are missing.
    pub losses: usize,
    /// All contributors, the largest difference first.
    pub parts: Vec<Part>,
    /// What is wrong with the path, in sentences; empty if nothing is.
    pub violations: Vec<String>,
    /// Why this run judges nothing, in sentences; empty if it does.
    pub void: Vec<String>,
}

/// Documents that cannot be compared at all.
#[derive(Debug, thiserror::Error)]
pub enum BadDocument {
    /// The truth is none.
    #[error("cannot read the truth: {0}")]
    Truth(serde_json::Error),
    /// The path is none.
    #[error("cannot read the path: {0}")]
    Path(serde_json::Error),
    /// Another schema.
    #[error("the {which} has schema `{found}`, expected `{expected}`")]
    Schema {
        /// Which document.
        which: &'static str,
        /// What it says.
        found: String,
        /// What it should say.
        expected: &'static str,
    },
    /// `origin_ns` is no number.
    #[error("the path's origin_ns is `{0}`, no decimal number")]
    Origin(String),
    /// The stretch that both know is empty.
    #[error("the path's window and the truth's do not overlap")]
    Apart,
    /// The truth's sentences cannot be read.
    #[error(transparent)]
    Assertion(#[from] BadAssertion),
}

type Sums = BTreeMap<(u32, String), i64>;

/// In the place of a tid: in flight between hosts, nobody's time.
pub(crate) const NOBODY: u32 = 0;

/// Compares; `path` is the whole document, since the truth's sentences may speak of any of it.
///
/// # Errors
///
/// Documents that do not have the form of their schema. A path that has it and is wrong is no error,
/// but a [`Verdict`] with violations.
pub fn compare(truth: &Value, path: &Value, limits: Limits) -> Result<Verdict, BadDocument> {
    let document = path;
    let truth = Truth::deserialize(truth).map_err(BadDocument::Truth)?;
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

    let worth_ns = checks::WORTH_NAMING * limits.slowness * window_ns as f64;
    let void = audit::truth(&truth, limits.slowness);
    let mut violations = audit::path(&path);
    violations.extend(checks::window(&truth, &path, from, to, limits.slowness));
    violations.extend(checks::sentences(&truth, document)?);
    violations.extend(checks::names(&truth, &clipped, worth_ns));
    violations.extend(checks::calls(&truth, &clipped, document, worth_ns)?);

    let own: BTreeSet<u32> = truth.threads.iter().map(|thread| thread.tid).collect();
    let expected = sums_of_truth(&truth, window_ns);
    let found = sums_of_path(&clipped, &truth, &own);

    let parts = align(&truth, &clipped, &expected, &found);
    let difference: i64 = parts.iter().map(|part| (part.truth_ns - part.path_ns).abs()).sum();
    let share = |ns: i64| ns as f64 / window_ns as f64;
    let total = |wanted: &dyn Fn(u32, &str) -> bool| -> f64 {
        share(found.iter().filter(|((tid, kind), _)| wanted(*tid, kind)).map(|(_, ns)| ns).sum())
    };
    let mut verdict = Verdict {
        window_ns,
        error: share(difference) / 2.0,
        unknown: total(&|_, kind| kind == "unknown"),
        outside: total(&|tid, kind| !own.contains(&tid) && tid != NOBODY && kind != "unknown"),
        ends_ns: (path.window.to_ns - path.window.from_ns) - window_ns,
        losses: path.losses.len(),
        parts,
        violations,
        void,
    };
    // Where the kernel left events untraced, unknown is what a path has to say. What it then lacks
    // elsewhere is no error; and with more than a little of it there is nothing left to judge.
    let mut excused = 0.0;
    if path.losses.iter().any(|loss| !loss.reported) && verdict.unknown > limits.unknown {
        excused = verdict.unknown;
        verdict.void.push(format!("{:.3}% is unknown where events are missing", excused * 100.0));
    }
    for (what, found, limit) in [
        ("contributors differ by", verdict.error - excused, limits.error),
        ("unknown is", verdict.unknown - excused, limits.unknown),
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

fn check_schema(which: &'static str, found: &str, expected: &'static str) -> Result<(), BadDocument> {
    if found == expected {
        return Ok(());
    }
    Err(BadDocument::Schema { which, found: found.to_owned(), expected })
}

/// The parts of the segments that lie in [from, to).
pub(crate) fn clip(segments: &[Segment], from: i64, to: i64) -> Vec<Segment> {
    segments
        .iter()
        .map(|segment| Segment {
            from_ns: segment.from_ns.max(from),
            to_ns: segment.to_ns.min(to),
            ..segment.clone()
        })
        .filter(|segment| segment.from_ns < segment.to_ns)
        .collect()
}

pub(crate) fn length(segment: &Segment) -> i64 {
    segment.to_ns - segment.from_ns
}

/// Kernel threads by their names, which no program of ours has. The document does not tell them apart.
fn is_kernel_thread(comm: &str) -> bool {
    const NAMES: &[&str] = &["kworker/", "jbd2/", "ksoftirqd/", "kswapd", "kcompactd", "rcu_", "migration/"];
    const DISKS: &[&str] = &["loop", "dmcrypt_", "md", "nvme", "scsi_", "xfsaild/", "btrfs-", "txg_", "z_wr"];
    NAMES.iter().chain(DISKS).any(|name| comm.starts_with(name))
}

fn sums_of_path(segments: &[Segment], truth: &Truth, own: &BTreeSet<u32>) -> Sums {
    let disk = || truth.contributors.iter().filter(|part| part.kind == "block_device");
    let disk_waiter = disk().next().map(|part| part.thread.tid);
    let disk_calls: BTreeSet<&str> = disk().filter_map(|part| part.call.as_deref()).collect();
    let mut sums = Sums::new();
    for (index, segment) in segments.iter().enumerate() {
        let tid = segment.tid.unwrap_or(NOBODY);
        let kernels = || !own.contains(&tid) && segment.comm.as_deref().is_some_and(is_kernel_thread);
        let in_disk_call = || segment.call.as_deref().is_some_and(|call| disk_calls.contains(call));
        let still_waiting = segment.cause.as_ref().is_some_and(|cause| cause.kind == "still_waiting");
        let key = match (disk_waiter, segment.kind.as_str()) {
            _ if still_waiting => (tid, "still_waiting"),
            (_, "unknown") => (tid, "unknown"),
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
        };
        *sums.entry((key.0, key.1.to_owned())).or_default() += length(segment);
    }
    sums
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

fn align(truth: &Truth, segments: &[Segment], expected: &Sums, found: &Sums) -> Vec<Part> {
    let mut names: BTreeMap<u32, &str> = BTreeMap::new();
    for segment in segments {
        if let (Some(tid), Some(comm)) = (segment.tid, &segment.comm) {
            names.insert(tid, comm);
        }
    }
    names.extend(truth.threads.iter().map(|thread| (thread.tid, thread.comm.as_str())));
    let keys: BTreeSet<&(u32, String)> = expected.keys().chain(found.keys()).collect();
    let ns = |sums: &Sums, key: &(u32, String)| sums.get(key).copied().unwrap_or(0);
    let mut parts: Vec<Part> = keys
        .into_iter()
        .map(|key| Part {
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

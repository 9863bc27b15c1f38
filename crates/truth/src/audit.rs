//! Whether a document is in order by itself, before it is held against another.

use std::collections::BTreeMap;

use crate::document::{PathDocument, Truth};

/// The contributors of a truth fill its window to within 0.2%: they are made by cutting the window
/// into pieces, but a figure that is taken from elsewhere (a cgroup's throttled time) can be off by
/// the moments between the two readings.
const FILLS: f64 = 0.002;

/// What the main thread's lane says it ran and what its CPU clock says differ by less than 0.5% of the
/// window: the clock leaves out what the hypervisor took, which the guest believes to have run.
const CLOCKS: f64 = 0.005;

/// A truth may have missed waits of its threads for 0.1% of its window: it cannot say what they were for.
const UNAWARES: f64 = 0.001;

/// Whether a truth agrees with itself; in sentences if not. Such a truth judges nothing: the machine
/// was so busy that the program did what it does not want to measure. On a machine that is `slowness`
/// times slower, it and its clock are read as much further apart.
pub fn truth(truth: &Truth, slowness: f64) -> Vec<String> {
    let mut violations = Vec::new();
    for part in truth.contributors.iter().filter(|part| part.total_ns.is_some_and(|ns| ns < 0)) {
        violations.push(format!("the truth has negative {} of {}", part.kind, part.thread.comm));
    }
    let Some(to_ns) = truth.window.to_ns else { return violations };
    let window = (to_ns - truth.window.from_ns) as f64;
    let sum: i64 = truth.contributors.iter().filter_map(|part| part.total_ns).sum();
    if (sum as f64 - window).abs() > FILLS * window {
        violations.push(format!("the truth's parts sum to {sum} ns, its window is {window} ns"));
    }
    if truth.clocks.unawares_ns as f64 > UNAWARES * window {
        violations.push(format!(
            "the program was blocked for {} ns where it believed to work",
            truth.clocks.unawares_ns
        ));
    }
    // In a disk's wait stolen time passes for the disk's, which the kernel believes to be running; so
    // at the first step of that coarse clock.
    if truth.clocks.stolen_ns > 0 && truth.contributors.iter().any(|part| part.kind == "block_device") {
        violations.push(format!("the hypervisor took {} ns beside disk waits", truth.clocks.stolen_ns));
    }
    // A server also ran beside its requests.
    let ran = truth.contributors.iter().filter(|part| ["running", "beside"].contains(&part.kind.as_str()));
    let ran = ran.filter(|part| part.thread.tid == truth.window.thread.tid);
    let (lane, clock) = (ran.filter_map(|part| part.total_ns).sum::<i64>(), truth.clocks.running_ns);
    if (lane - clock).abs() as f64 > CLOCKS * slowness * window {
        violations.push(format!("the truth has main running for {lane} ns, its clock for {clock} ns"));
    }
    violations
}

/// Whether a path keeps the first law, that the parts add up to the nanosecond, and its recorder
/// dropped nothing. (That an event is missing which the kernel never sent is no fault of the recorder:
/// some kernels hide the switches of some threads.)
pub fn path(path: &PathDocument) -> Vec<String> {
    let mut violations = Vec::new();
    let mut at = path.window.from_ns;
    for segment in &path.segments {
        if segment.from_ns != at || segment.to_ns < segment.from_ns {
            violations.push(format!(
                "the segments do not tile the window: one ends at {at} and the next is {}..{}",
                segment.from_ns, segment.to_ns
            ));
            break;
        }
        at = segment.to_ns;
    }
    if violations.is_empty() && at != path.window.to_ns {
        violations.push(format!("the segments end at {at}, the window at {}", path.window.to_ns));
    }
    let mut sums: BTreeMap<(Option<u32>, &str), i64> = BTreeMap::new();
    for segment in &path.segments {
        *sums.entry((segment.tid, &segment.kind)).or_default() += segment.to_ns - segment.from_ns;
    }
    for part in &path.contributors {
        *sums.entry((part.tid, &part.kind)).or_default() -= part.total_ns;
    }
    for ((tid, kind), ns) in sums.into_iter().filter(|&(_, ns)| ns != 0) {
        violations.push(format!("segments and contributors differ by {ns} ns in {kind} of {tid:?}"));
    }
    let shares: f64 = path.contributors.iter().map(|part| part.share).sum();
    if (shares - 1.0).abs() > 1e-9 {
        violations.push(format!("the shares sum to {shares}"));
    }
    let reported = path.losses.iter().filter(|loss| loss.reported).count();
    if reported > 0 {
        violations.push(format!("the recorder lost records in {reported} places: a workload is no load"));
    }
    violations
}

//! Garbage collections by HotSpot's `VM Thread` itself: all under the serial collector, and parts under others.
//!
//! This thread runs every operation for which all threads stop, so its name shows no collection. Its samples do: each operation is a class of its
//! own in HotSpot's sources, `VM_GenCollectFull`, whose method `doit` runs it.

use std::collections::BTreeSet;

use wakepath_critical_path::{Path, Wait, WaitId};
use wakepath_symbols::Found;
use wakepath_wait_graph::Sample;

use crate::CodeNames;
use crate::code::module;

/// The thread's name.
const THREAD: &[u8] = b"VM Thread";

/// The library with its code.
const LIBRARY: &[u8] = b"libjvm.so";

/// The collecting operations in JDK 8 to 25, by the beginnings of their names; `VM_GC_HeapInspection` counts objects.
const OPERATIONS: [&str; 12] = [
    "VM_GenCollect",
    "VM_CollectFor",
    "VM_Serial",
    "VM_ParallelGC",
    "VM_ParallelCollect",
    "VM_G1Collect",
    "VM_G1TryInitiateConcMark",
    "VM_G1PauseConcurrent",
    "VM_ShenandoahFullGC",
    "VM_ShenandoahDegeneratedGC",
    "VM_ShenandoahFinal",
    "VM_ShenandoahInit",
];

/// An operation's method.
const METHOD: &str = "::doit()";

/// The waits on a path ended by `VM Thread`, with a sample meanwhile in which it collected garbage.
pub(crate) fn collections(path: &Path, names: &mut CodeNames<'_>) -> BTreeSet<WaitId> {
    let ids = (0..).map(WaitId).zip(&path.waits);
    ids.filter(|(_, wait)| is_collection(wait, names)).map(|(id, _)| id).collect()
}

fn is_collection(wait: &Wait, names: &mut CodeNames<'_>) -> bool {
    let graph = &names.recorded.graph;
    let Some(by) = wait.ended_by else { return false };
    let name = |thread| graph.thread(thread).name_at(wait.to);
    if name(by).bytes() != THREAD || name(wait.thread).bytes() == THREAD {
        return false;
    }
    graph.samples(by, wait.from, wait.to).any(|sample| collects(sample, names))
}

/// Whether a thread was sampled in such an operation.
fn collects(sample: Sample<'_>, names: &mut CodeNames<'_>) -> bool {
    let Sample { at, tgid, user, proved, .. } = sample;
    // A caller's frame holds its return address: the call lies before it. An unproved frame may be left from another operation.
    let callers = user.iter().take(proved).map(|address| address.wrapping_sub(1));
    callers.filter_map(|address| names.user(tgid, at, address)).any(|found| is_operation(&found))
}

fn is_operation(found: &Found) -> bool {
    let Found::Function(function) = found else { return false };
    let operation = function.name.strip_suffix(METHOD);
    module(found) == Some(LIBRARY)
        && operation.is_some_and(|name| OPERATIONS.iter().any(|known| name.starts_with(known)))
}

#[cfg(test)]
mod tests;

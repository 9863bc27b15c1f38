//! The record for a call of f0: a `struct wp_drill_thread` of `bpf/drill.h`.

use crate::libbpf::word;

/// The most nodes measured at once: `WP_DRILL_NODES`.
pub const MAX_DRILL_NODES: usize = 128;

// Offsets in `struct wp_drill_thread`; the test below holds them against the header.
const LATENCY: usize = 8;
const CALL: usize = 16;
pub(super) const DEPTH: usize = 52;
const LEFT: usize = 64;
const TID: usize = 68;
const NODES: usize = 1608;
/// Bytes of `struct wp_drill_node`.
const NODE: usize = 80;
const SAMPLED: usize = 11_848;
const SAMPLES: usize = 12_360;
const STUB_CALL: usize = 12_376;
const STUBS: usize = 12_384;
/// Bytes of `struct wp_stub_node`.
const STUB: usize = 32;
const QUEUED: usize = 16_520;
/// The most samples kept for a call: `WP_DRILL_SAMPLES`.
pub const MAX_DRILL_SAMPLES: usize = 64;

/// A call of f0 within the peak.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DrillCall {
    /// The plan by which the call was measured, counted from 1.
    pub plan: u64,
    /// The thread.
    pub tid: u32,
    /// The call's latency, ns.
    pub latency: u64,
    /// The time from the request's hand-over to the call's beginning, ns; 0 where requests are not followed.
    pub queued: u64,
    /// Calls within it, unwound without a return.
    pub left: u32,
    /// The called nodes, with their calls' latencies; node 0 is f0.
    pub nodes: Vec<DrillNode>,
    /// Addresses in the process where samples found the sampled node's code, or code called by it; 0 in the kernel.
    pub samples: Vec<u64>,
}

/// A node's calls within a call of f0. All times in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DrillNode {
    /// The node.
    pub node: u32,
    /// The longest call.
    pub max: u64,
    /// All calls together.
    pub sum: u64,
    /// The number of calls.
    pub count: u64,
    /// The thread was blocked while this was the innermost node.
    pub blocked: u64,
    /// The thread was runnable, and had no CPU.
    pub waited: u64,
    /// Interrupts ran in the thread's place.
    pub interrupted: u64,
    /// The hypervisor had the thread's CPU.
    pub stolen: u64,
    /// The longest interrupt: its number (236 for the local timer, else an interrupt line), and its time.
    pub longest: (u32, u64),
}

impl DrillCall {
    /// Reads a `struct wp_drill_thread`, with a stub clock's tick in ns.
    pub(super) fn read(record: &[u8], tick: f64) -> Option<Self> {
        let half = |at: usize| word(record, at) as u32;
        let (call, stub_call) = (word(record, CALL), word(record, STUB_CALL));
        let of_stubs = record.get(STUBS..STUBS + MAX_DRILL_NODES * STUB)?.chunks_exact(STUB);
        let ns = |ticks: u64| (ticks as f64 * tick) as u64;
        let nodes = record.get(NODES..SAMPLED)?.chunks_exact(NODE).zip(of_stubs).zip(0..);
        let nodes = nodes.filter_map(|((node, stub), number)| {
            let (of_probe, of_stub) = (word(node, 0) == call, stub_call != 0 && word(stub, 0) == stub_call);
            let mut found = DrillNode { node: number, ..DrillNode::default() };
            if of_probe {
                (found.max, found.sum, found.count) = (word(node, 8), word(node, 16), word(node, 24));
                (found.blocked, found.waited, found.interrupted) =
                    (word(node, 32), word(node, 40), word(node, 48));
                found.stolen = word(node, 56);
                found.longest = (word(node, 72) as u32, word(node, 64));
            }
            if of_stub {
                (found.max, found.sum, found.count) = (ns(word(stub, 8)), ns(word(stub, 16)), word(stub, 24));
            }
            (of_probe || of_stub).then_some(found)
        });
        Some(Self {
            plan: word(record, 0),
            tid: half(TID),
            latency: word(record, LATENCY),
            queued: word(record, QUEUED),
            left: half(LEFT),
            nodes: nodes.collect(),
            samples: (0..MAX_DRILL_SAMPLES.min(half(SAMPLES) as usize))
                .map(|at| word(record, SAMPLED + 8 * at))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_record_of_a_call_is_as_the_c_header_says() {
        let source = r#"
            #include <stddef.h>
            #include <stdio.h>
            #include <linux/types.h>
            #include "drill.h"
            int main(void) {
                printf("%zu %zu %zu %zu %zu %zu %zu %d %zu %zu %d %zu %zu %zu %zu", offsetof(struct wp_drill_thread, latency),
                       offsetof(struct wp_drill_thread, call), offsetof(struct wp_drill_thread, depth),
                       offsetof(struct wp_drill_thread, left),
                       offsetof(struct wp_drill_thread, tid), offsetof(struct wp_drill_thread, nodes),
                       sizeof(struct wp_drill_node), WP_DRILL_NODES, offsetof(struct wp_drill_thread, sampled),
                       offsetof(struct wp_drill_thread, samples), WP_DRILL_SAMPLES,
                       offsetof(struct wp_drill_thread, stub_call), offsetof(struct wp_drill_thread, stubs),
                       sizeof(struct wp_stub_node), offsetof(struct wp_drill_thread, queued));
                struct wp_drill_thread t = { .plan = 3, .latency = 100, .call = 9, .left = 2, .tid = 77, .queued = 5000 };
                t.nodes[0] = (struct wp_drill_node){ .call = 9, .max = 100, .sum = 100, .count = 1 };
                t.nodes[1] = (struct wp_drill_node){ .call = 8, .max = 50, .sum = 50, .count = 1 };
                t.nodes[5] = (struct wp_drill_node){ 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0 };
                t.stub_call = 33;
                t.stubs[5] = (struct wp_stub_node){ 33, 4, 6, 2 };
                t.stubs[6] = (struct wp_stub_node){ 33, 10, 20, 3 };
                t.stubs[7] = (struct wp_stub_node){ 32, 10, 20, 3 };
                t.samples = 2;
                t.sampled[0] = 0x1234;
                t.sampled[2] = 0x5678;
                FILE *record = fopen("record", "w");
                fwrite(&t, sizeof(t), 1, record);
                return fclose(record);
            }"#;
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("drill.c"), source).expect("a file");
        let bpf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf");
        let compiled =
            Command::new("cc").args(["-I", bpf, "-o", "drill", "drill.c"]).current_dir(&folder).status();
        assert!(compiled.expect("cc").success(), "the C compiler refused bpf/drill.h");
        let ran = Command::new(folder.path().join("drill")).current_dir(&folder).output().expect("it runs");
        let expected = format!(
            "{LATENCY} {CALL} {DEPTH} {LEFT} {TID} {NODES} {NODE} {MAX_DRILL_NODES} {SAMPLED} {SAMPLES} {MAX_DRILL_SAMPLES} \
             {STUB_CALL} {STUBS} {STUB} {QUEUED}"
        );
        assert_eq!(String::from_utf8_lossy(&ran.stdout), expected);
        let record = std::fs::read(folder.path().join("record")).expect("a record");
        let f0 = DrillNode { node: 0, max: 100, sum: 100, count: 1, ..DrillNode::default() };
        let other = DrillNode {
            node: 5,
            max: 2,
            sum: 3,
            count: 2,
            blocked: 14,
            waited: 15,
            interrupted: 16,
            stolen: 17,
            longest: (19, 18),
        };
        // A probe saw the waits there, and a stub the calls; below it a stub alone.
        let by_stub = DrillNode { node: 6, max: 5, sum: 10, count: 3, ..DrillNode::default() };
        let nodes = vec![f0, other, by_stub];
        let samples = vec![0x1234, 0];
        let expected = DrillCall { plan: 3, tid: 77, latency: 100, queued: 5000, left: 2, nodes, samples };
        assert_eq!(DrillCall::read(&record, 0.5), Some(expected), "node 1 is of an earlier call");
        assert_eq!(DrillCall::read(&record[..100], 0.5), None);
        let mut record = record;
        record[SAMPLES..SAMPLES + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let call = DrillCall::read(&record, 0.5).expect("a call");
        assert_eq!(call.samples.len(), MAX_DRILL_SAMPLES, "more than are kept");
    }
}

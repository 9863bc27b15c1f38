//! The stubs' data in the process: the layout for `stub.rs`, `bpf/drill.h` and this crate.
//!
//! Private memory: a forked child has a copy, and returns from the open calls:
//!
//! ```text
//! head      magic, deadline, owner, the journal's length; a forked child finds zeroes here, and measures nothing
//! sites     by the number of the site: which node it is below which other one
//! calls     open calls: the place of the return address on the stack, and what it was; found by a hash of the place
//! journal   the bytes that were changed in the code, for whoever finds this when its owner is dead
//! ```
//!
//! Memory shared with the program that begins calls of f0 (BPF):
//!
//! ```text
//! keys      the thread pointer of each thread that has a state
//! states    by the number of the key: the call of f0, its innermost open node, the times of its nodes
//! ```

/// The first word.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"wakepath");
/// The second word: the layout's number.
pub(crate) const LAYOUT: u64 = 2;

/// Place of the deadline: stubs measure until then, ticks of the time stamp counter; 0: they do not measure.
pub(crate) const DEADLINE: u64 = 16;
/// Place of the owner's process number and start time.
pub(crate) const OWNER: u64 = 24;
/// Place of the journal's length, entries; it only grows, and entries of removed stubs are zero.
pub(crate) const CHANGES: u64 = 40;

/// A bit for each region: the process's unwinders know its table.
pub(crate) const KNOWN_TABLES: u64 = 128;
/// The head, a page, which the kernel wipes in a forked child.
pub(crate) const HEAD_BYTES: u64 = 0x1000;

/// The sites, 32 bytes each; number 0 is unused.
pub(crate) const SITES: u64 = 0x2000;
/// The most sites, number 0 included.
pub(crate) const MAX_SITES: u64 = 8192;
pub(crate) const SITE_BYTES: u64 = 32;
/// A site's fields.
pub(crate) const SITE_PARENT: u64 = 0;
pub(crate) const SITE_NODE: u64 = 4;
pub(crate) const SITE_FRAME: u64 = 8;
pub(crate) const SITE_NEXT: u64 = 12;
pub(crate) const SITE_DISTANCE: u64 = 16;
/// The parent in a site without a measurement.
pub(crate) const NO_PARENT: u32 = u32::MAX;

/// Open calls, 64 bytes each.
pub(crate) const CALLS: u64 = 0x50000;
/// The number of hash values, as a power of two (bits).
pub(crate) const CALL_BITS: u32 = 12;
/// Slots tried for a call; the same number of slots follows the last hash value.
pub(crate) const CALL_WAYS: u64 = 4;
pub(crate) const CALL_BYTES: u64 = 64;
/// The hash factor (Fibonacci hashing): 2⁶⁴ divided by the golden ratio.
pub(crate) const CALL_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// An open call's fields.
pub(crate) const CALL_SLOT: u64 = 0;
pub(crate) const CALL_RETURN: u64 = 8;
pub(crate) const CALL_BEGAN: u64 = 16;
pub(crate) const CALL_AROUND: u64 = 24;
pub(crate) const CALL_STATE: u64 = 32;
pub(crate) const CALL_OF: u64 = 40;
pub(crate) const CALL_NODE: u64 = 48;

/// The code changes: address, bytes before, bytes after, 24 bytes each.
pub(crate) const JOURNAL: u64 = 0x91000;
pub(crate) const CHANGE_BYTES: u64 = 24;
/// A page for the arguments of system calls that the process makes for us.
pub(crate) const SCRATCH: u64 = 0xc1000;
/// For each region: the unwinding table, and the unwinder's own note about it.
pub(crate) const TABLES: u64 = 0xc2000;
pub(crate) const TABLE_BYTES: u64 = 0x400;
pub(crate) const TABLE_NOTE: u64 = 0x300;
/// The whole data, full pages.
pub(crate) const BYTES: u64 = 0xc4000;

// The parts do not overlap.
const _: () = assert!(SITES + MAX_SITES * SITE_BYTES <= CALLS);
const _: () = assert!(CALLS + ((1 << CALL_BITS) + CALL_WAYS) * CALL_BYTES <= JOURNAL);
const _: () = assert!(JOURNAL + MAX_SITES * CHANGE_BYTES <= SCRATCH);
const _: () = assert!(TABLES + 8 * TABLE_BYTES <= BYTES);

/// In the shared memory: the threads' thread pointers, 8 bytes each.
pub(crate) const KEYS: u64 = 0;
/// The most threads with a state.
pub(crate) const MAX_THREADS: u64 = 256;
/// Slots tried for a thread.
pub(crate) const THREAD_WAYS: u64 = 8;

/// The threads' states, 8 kB each.
pub(crate) const STATES: u64 = 0x1000;
pub(crate) const STATE_BITS: u32 = 13;
/// A state's fields. The number of f0's call is 0 while no call is open.
pub(crate) const STATE_OF: u64 = 0;
pub(crate) const STATE_INNERMOST: u64 = 8;
pub(crate) const STATE_THREAD: u64 = 16;
pub(crate) const STATE_LEFT: u64 = 24;
pub(crate) const STATE_CROWDED: u64 = 32;
/// Calls seen by the kernel's probes, f0's own first, with the fields of an open call.
pub(crate) const STATE_FRAMES: u64 = 64;
pub(crate) const NODES: u64 = 4096;
/// The most nodes, f0 included.
pub const MAX_NODES: usize = 128;
pub(crate) const NODE_BYTES: u64 = 32;

/// The shared memory's size, bytes.
pub const SHARED_BYTES: u64 = STATES + (MAX_THREADS << STATE_BITS);

/// Position of a call's frame by the unwinding tables: where the *caller's* return address stands, relative to the
/// call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Distance above the call's own return address, bytes.
    AboveStack(u64),
    /// Distance above the frame pointer, bytes; negative: below.
    AboveFramePointer(i64),
    /// Not known: a recursive call further out looks the same.
    Unknown,
}

/// A node's times within a call of f0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeTimes {
    /// The longest call, ticks.
    pub longest: u64,
    /// All calls together, ticks.
    pub sum: u64,
    /// The number of calls.
    pub count: u64,
}

/// The nodes' times within a thread's last call of f0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTimes {
    /// The number of f0's call.
    pub call: u64,
    /// By node number; nodes without calls are zero.
    pub nodes: Vec<NodeTimes>,
    /// Open calls that were unwound without a return.
    pub left: u64,
    /// Calls not measured for lack of room.
    pub crowded: u64,
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_shared_memory_is_as_the_c_header_says() {
        let source = r#"
            #include <stddef.h>
            #include <stdio.h>
            #include <linux/types.h>
            #include "drill.h"
            #define STATE(field) offsetof(struct wp_stub_state, field)
            #define CALL(field) offsetof(struct wp_stub_call, field)
            int main(void) {
                printf("%zu %zu %d %d %zu %zu\n", offsetof(struct wp_stub_shared, threads),
                       offsetof(struct wp_stub_shared, states), WP_STUB_THREADS, WP_STUB_WAYS,
                       sizeof(struct wp_stub_state), sizeof(struct wp_stub_shared));
                printf("%zu %zu %zu %zu %zu %zu %zu %d %zu\n", STATE(of), STATE(innermost), STATE(thread), STATE(left),
                       STATE(crowded), STATE(frames), STATE(nodes), WP_DRILL_NODES, sizeof(struct wp_stub_node));
                printf("%zu %zu %zu %zu %zu %zu %zu %zu\n", CALL(slot), CALL(returns_to), CALL(began), CALL(around),
                       CALL(state), CALL(of), CALL(node), sizeof(struct wp_stub_call));
            }"#;
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("stubs.c"), source).expect("a file");
        let bpf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf");
        let compiled =
            Command::new("cc").args(["-I", bpf, "-o", "stubs", "stubs.c"]).current_dir(&folder).status();
        assert!(compiled.expect("cc").success(), "the C compiler refused bpf/drill.h");
        let ran = Command::new(folder.path().join("stubs")).output().expect("it runs");
        let expected = format!(
            "{KEYS} {STATES} {MAX_THREADS} {THREAD_WAYS} {} {SHARED_BYTES}\n\
             {STATE_OF} {STATE_INNERMOST} {STATE_THREAD} {STATE_LEFT} {STATE_CROWDED} {STATE_FRAMES} {NODES} {MAX_NODES} \
             {NODE_BYTES}\n\
             {CALL_SLOT} {CALL_RETURN} {CALL_BEGAN} {CALL_AROUND} {CALL_STATE} {CALL_OF} {CALL_NODE} {CALL_BYTES}\n",
            1 << STATE_BITS
        );
        assert_eq!(String::from_utf8_lossy(&ran.stdout), expected);
    }
}

//! The data of the stubs in the process: the layout that `stub.rs`, `bpf/drill.h` and this crate share.
//!
//! Memory of the process alone, so that a child that it forks has its own, and returns from the calls that are open:
//!
//! ```text
//! head      magic, deadline, owner, the journal's length; a forked child finds zeroes here, and measures nothing
//! sites     by the number of the site: which node it is below which other one
//! calls     open calls: the place of the return address on the stack, and what it was; found by a hash of the place
//! journal   the bytes that were changed in the code, for whoever finds this when its owner is dead
//! ```
//!
//! Memory that is shared with whoever begins calls of f0, a BPF program:
//!
//! ```text
//! keys      the thread pointer of each thread that has a state
//! states    by the number of the key: the call of f0, its innermost open node, the times of its nodes
//! ```

/// The first word of the data.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"wakepath");
/// The second word: another layout has another number.
pub(crate) const LAYOUT: u64 = 2;

/// Where the last moment stands at which stubs measure, in ticks of the time stamp counter; 0: they do not.
pub(crate) const DEADLINE: u64 = 16;
/// Where the owner's process number and the moment of its start stand.
pub(crate) const OWNER: u64 = 24;
/// Where the number of entries of the journal stands, which only grows; those of stubs that were taken out are zero.
pub(crate) const CHANGES: u64 = 40;

/// A bit for each region whose table the unwinders of the process know.
pub(crate) const KNOWN_TABLES: u64 = 128;
/// The head, which is wiped in a forked child: a page.
pub(crate) const HEAD_BYTES: u64 = 0x1000;

/// The sites, 32 bytes each; number 0 is none.
pub(crate) const SITES: u64 = 0x2000;
/// The most sites, with number 0.
pub(crate) const MAX_SITES: u64 = 8192;
pub(crate) const SITE_BYTES: u64 = 32;
/// The fields of a site.
pub(crate) const SITE_PARENT: u64 = 0;
pub(crate) const SITE_NODE: u64 = 4;
pub(crate) const SITE_FRAME: u64 = 8;
pub(crate) const SITE_NEXT: u64 = 12;
pub(crate) const SITE_DISTANCE: u64 = 16;
/// The parent of a site that measures nothing.
pub(crate) const NO_PARENT: u32 = u32::MAX;

/// Open calls, 64 bytes each.
pub(crate) const CALLS: u64 = 0x50000;
/// Places to which the hash leads, a power of two.
pub(crate) const CALL_BITS: u32 = 12;
/// The places that are tried for a call; as many stand behind the last one to which the hash leads.
pub(crate) const CALL_WAYS: u64 = 4;
pub(crate) const CALL_BYTES: u64 = 64;
/// The factor of the hash (Fibonacci hashing): 2⁶⁴ divided by the golden ratio.
pub(crate) const CALL_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// The fields of an open call.
pub(crate) const CALL_SLOT: u64 = 0;
pub(crate) const CALL_RETURN: u64 = 8;
pub(crate) const CALL_BEGAN: u64 = 16;
pub(crate) const CALL_AROUND: u64 = 24;
pub(crate) const CALL_STATE: u64 = 32;
pub(crate) const CALL_OF: u64 = 40;
pub(crate) const CALL_NODE: u64 = 48;

/// The changes of code: address, bytes before, bytes after, 24 bytes each.
pub(crate) const JOURNAL: u64 = 0x91000;
pub(crate) const CHANGE_BYTES: u64 = 24;
/// A page for the arguments of system calls that the process makes for us.
pub(crate) const SCRATCH: u64 = 0xc1000;
/// Tables for unwinding, and the unwinder's own note of each, for each region.
pub(crate) const TABLES: u64 = 0xc2000;
pub(crate) const TABLE_BYTES: u64 = 0x400;
pub(crate) const TABLE_NOTE: u64 = 0x300;
/// All of it, whole pages.
pub(crate) const BYTES: u64 = 0xc4000;

// None lies within another one.
const _: () = assert!(SITES + MAX_SITES * SITE_BYTES <= CALLS);
const _: () = assert!(CALLS + ((1 << CALL_BITS) + CALL_WAYS) * CALL_BYTES <= JOURNAL);
const _: () = assert!(JOURNAL + MAX_SITES * CHANGE_BYTES <= SCRATCH);
const _: () = assert!(TABLES + 8 * TABLE_BYTES <= BYTES);

/// In the shared memory: the thread pointers of threads, 8 bytes each.
pub(crate) const KEYS: u64 = 0;
/// The number of threads that have a place.
pub(crate) const MAX_THREADS: u64 = 256;
/// The places that are tried for a thread.
pub(crate) const THREAD_WAYS: u64 = 8;

/// The states of threads, 8 kB each.
pub(crate) const STATES: u64 = 0x1000;
pub(crate) const STATE_BITS: u32 = 13;
/// The fields of a state. The number of f0's call is 0 while there is none.
pub(crate) const STATE_OF: u64 = 0;
pub(crate) const STATE_INNERMOST: u64 = 8;
pub(crate) const STATE_THREAD: u64 = 16;
pub(crate) const STATE_LEFT: u64 = 24;
pub(crate) const STATE_CROWDED: u64 = 32;
/// Calls that probes of the kernel see, f0's own the first; they have the fields of an open one.
pub(crate) const STATE_FRAMES: u64 = 64;
pub(crate) const NODES: u64 = 4096;
/// The most nodes, f0 included.
pub const MAX_NODES: usize = 128;
pub(crate) const NODE_BYTES: u64 = 32;

/// The bytes of the shared memory.
pub const SHARED_BYTES: u64 = STATES + (MAX_THREADS << STATE_BITS);

/// The place of a call's frame, as the tables for unwinding state it: where the return address of the *caller* stands, seen
/// from the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// This number of bytes above the call's own return address.
    AboveStack(u64),
    /// This number of bytes above the frame pointer, below for a negative one.
    AboveFramePointer(i64),
    /// Not known: a call of the same function further out, by recursion, looks the same.
    Unknown,
}

/// The times of one node's calls within a call of f0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeTimes {
    /// Its longest call, ticks.
    pub longest: u64,
    /// All its calls, ticks.
    pub sum: u64,
    /// The number of its calls.
    pub count: u64,
}

/// The times of the nodes within the last call of f0 in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTimes {
    /// The number of that call.
    pub call: u64,
    /// By the numbers of the nodes; those that were not called are zero.
    pub nodes: Vec<NodeTimes>,
    /// Open calls that were left without a return.
    pub left: u64,
    /// Calls that found no room.
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

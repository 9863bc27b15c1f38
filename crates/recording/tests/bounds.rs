//! No number in a file makes wakepath take memory for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use wakepath_kernel_records::Kind;
use wakepath_recording::read_stream;

/// Counts the allocated bytes, and remembers the largest sum.
struct Counting;

/// The trace id that streams claim.
const UUID: [u8; 16] = *b"\x00recording test\xff";

static TAKEN: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let taken = TAKEN.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(taken, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn packet(content: &[u8], claimed_bytes: u64) -> Vec<u8> {
    let header = wakepath_ctf::packet::PacketHeader {
        uuid: UUID,
        stream_id: 2,
        cpu: 0,
        begin: 0,
        end: u64::MAX,
        content: claimed_bytes,
        discarded: u64::MAX,
        number: u64::MAX,
        events: u32::MAX,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes
}

fn record(kind: Kind, counts: &[(usize, u32)], rest: usize) -> Vec<u8> {
    let mut bytes = vec![0; rest];
    bytes[8] = kind.number();
    for &(at, count) in counts {
        bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
    }
    bytes
}

/// A single test, so that no other test's memory is counted.
#[test]
fn a_stream_is_read_in_bounded_memory_whatever_it_claims() {
    let small = 1000;
    let large = 1 << 20;
    let cases = [
        ("a packet that claims everything", packet(&[0; 100], 1 << 60)),
        (
            "a stack that claims everything",
            packet(&record(Kind::Sample, &[(28, u32::MAX)], small), small as u64),
        ),
        (
            "a name that claims everything",
            packet(&record(Kind::Name, &[(28, u32::MAX), (32, !7)], small), small as u64),
        ),
        (
            "a name whose text is longer than its bytes",
            packet(&record(Kind::Name, &[(24, 1), (28, u32::MAX), (32, 64)], 104), 104),
        ),
        (
            "a mapping",
            packet(
                &record(Kind::Mapping, &[(44, u32::MAX), (48, 8), (52, 9), (56, !7)], small),
                small as u64,
            ),
        ),
        ("a megabyte of nothing", packet(&vec![0; large], large as u64)),
        (
            "a megabyte of broken records",
            packet(&record(Kind::Exit, &[], 24).repeat(large / 24), large as u64),
        ),
        ("a megabyte of unknown records", packet(&[200; 8].repeat(large / 8), large as u64)),
        ("many packets that are all wrong", packet(&[7; 8], 16).repeat(10_000)),
    ];
    for (what, bytes) in cases {
        for name in ["life", "sched_0"] {
            PEAK.store(TAKEN.load(Ordering::Relaxed), Ordering::Relaxed);
            let before = TAKEN.load(Ordering::Relaxed);
            let mut events = 0u64;
            let problems = read_stream(name, &bytes, UUID, "6.18.0", |_| events += 1);
            let most = PEAK.load(Ordering::Relaxed) - before;
            // A window with 256 KiB, twice as much for the search for packets, and the problems.
            assert!(most < 1 << 20, "{what} in {name}: {most} bytes");
            assert!(problems.len() <= 101, "{what} in {name}: {} problems", problems.len());
            assert!(events <= bytes.len() as u64 / 24 + 2, "{what} in {name}: {events} events");
        }
    }
}

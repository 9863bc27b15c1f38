//! Recordings from a simulated machine: the same bytes each time, from its program.

use wakepath_event::{EventSource as _, RecordingFormat as _};
use wakepath_recording::Recording;
use wakepath_recording::synthetic::{self, Machine};

use crate::made::place;

/// The 64-bit hash by Fowler, Noll and Vo (FNV-1a).
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Benchmarks on different days use the same bytes only while these hashes hold. A change in the format or in the
/// machine changes them, on purpose.
#[test]
fn a_made_recording_has_the_same_bytes_each_time() {
    let (_folder, path) = place();
    let machine = Machine { cpus: 2, threads_per_cpu: 6, events: 80_000, seed: 1 };
    let events = synthetic::write(&path, &machine).expect("room");
    let recording = Recording::open(&path).expect("a recording");
    let made = recording.description();
    assert_eq!((&*made.host.name, made.host.cpus), ("synthetic", 2));
    assert_eq!(made.realtime_offset_ns, Some(1_750_000_000_000_000_000 - i128::from(synthetic::BEGIN)));
    let streams = ["life", "net_0", "net_1", "sched_0", "sched_1"].map(|name| {
        let bytes = std::fs::read(path.join("kernel").join(name)).expect("a stream");
        (name, bytes.len(), hash(&bytes))
    });
    assert_eq!(events, 80_000);
    assert_eq!(
        streams,
        [
            ("life", 1_656, 0x6e97_a128_f774_77e9),
            ("net_0", 57_392, 0x636f_0e90_f631_e2aa),
            ("net_1", 58_400, 0x1fe5_29af_8742_39d9),
            ("sched_0", 1_219_392, 0x9e6e_444e_4305_ac19),
            ("sched_1", 1_209_200, 0xca99_71e3_169a_4cef),
        ]
    );
}

//! Made recordings: a machine has the same bytes each time, and they are those of its program.

use wakepath_recording::synthetic::{self, Machine};

use crate::made::place;

/// The 64-bit hash of Fowler, Noll and Vo (FNV-1a).
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Benchmarks of different days are of the same bytes only as long as these hold. A change of the format or of the machine
/// changes them, on purpose.
#[test]
fn a_made_recording_has_the_same_bytes_each_time() {
    let (_folder, path) = place();
    let machine = Machine { cpus: 2, threads_per_cpu: 3, events: 80_000, seed: 1 };
    let events = synthetic::write(&path, &machine).expect("room");
    let streams = ["life", "net_0", "net_1", "sched_0", "sched_1"].map(|name| {
        let bytes = std::fs::read(path.join("kernel").join(name)).expect("a stream");
        (name, bytes.len(), hash(&bytes))
    });
    assert_eq!(events, 80_000);
    assert_eq!(
        streams,
        [
            ("life", 1_296, 0xe7cf_8d9a_11fc_5d7a),
            ("net_0", 53_072, 0xa7c7_9f50_c5a8_d93b),
            ("net_1", 55_328, 0x60e0_f30b_ecb9_71bb),
            ("sched_0", 1_216_080, 0xd639_f0c9_053f_3677),
            ("sched_1", 1_219_616, 0x6396_7da9_38f8_b5fa),
        ]
    );
}

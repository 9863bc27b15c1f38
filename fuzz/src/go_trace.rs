//! Go's execution trace, from its header to goroutines' steps.

use wakepath_go_trace::{Error, StepKind, is_trace, read};

/// Puts bytes through the reader.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let read = read(input);
    assert_eq!(is_trace(input), read != Err(Error::NoTrace), "the header alone decides");
    let Ok(trace) = read else { return };
    assert!(trace.from_ns <= trace.to_ns && trace.reasons.len() <= 256);
    // A switch between coroutines, the event with the most steps, takes four bytes.
    assert!(trace.steps.len() <= input.len(), "each step takes some bytes");
    assert!(trace.steps.is_sorted_by_key(|step| step.at_ns), "by time");
    for step in &trace.steps {
        assert!((trace.from_ns..=trace.to_ns).contains(&step.at_ns), "{step:?}");
        assert_ne!(step.goroutine, 0, "{step:?}");
        if let StepKind::Parks(reason) = step.kind {
            assert!(usize::from(reason) < trace.reasons.len(), "{step:?}");
        }
    }
}

/// The first inputs: each version, each kind of batch and event, two generations, a cut trace.
pub fn seeds() -> Vec<Vec<u8>> {
    const STRINGS: &[u8] = b"\x04\x05\x01\x04sync\x05\x02\x12sync.(*Mutex).Lock\x05\x03\x07network";
    const STACKS: &[u8] = &[2, 3, 1, 1, 80, 2, 2, 5];
    // 1000000000 / 64, in seven bits a byte.
    const FREQUENCY: &[u8] = &[8, 0xa8, 0xd6, 0xb9, 7];
    let events: &[&[u8]] = &[
        &[25, 1, 5, 7, 2, 14, 1, 6, 1, 1, 20, 1, 1, 1, 16, 1, 6, 1, 21, 1, 5, 1, 1, 17, 1],
        &[10, 1, 0, 1, 16, 1, 5, 1, 22, 1, 1, 1, 23, 1, 22, 1, 2, 1, 24, 1, 16, 1, 5, 2, 19, 1, 1, 0],
        &[15, 0, 9, 47, 1, 8, 1, 0, 45, 1, 8, 1, 46, 1, 9, 2, 18, 1],
        &[
            9, 0, 2, 0, 26, 1, 1, 0, 27, 1, 29, 1, 1, 0, 30, 1, 2, 37, 1, 9, 40, 1, 1, 0, 1, 0, 44, 1, 1, 1,
            1, 0,
        ],
        &[48, 0, 5, 7, 3, 0, 16, 0, 6, 9, 20, 0, 3, 0, 21, 0, 6, 8, 0],
    ];
    let batch = |generation: u8, thread: u8, events: &[u8]| {
        [&[1, generation, thread, 100, events.len() as u8], events].concat()
    };
    let mut seeds = Vec::new();
    for version in ["22", "23", "25", "26"] {
        let sync = if version < "25" { FREQUENCY.to_vec() } else { [&[50], FREQUENCY].concat() };
        for some in events {
            let mut trace = format!("go 1.{version} trace\0\0\0").into_bytes();
            for generation in [1, 2] {
                trace.extend(batch(generation, 7, some));
                trace.extend(batch(generation, 8, events[0]));
                for table in [STRINGS, STACKS, &sync, &[6, 7, 1, 7, 0, 5, 1]] {
                    trace.extend(batch(generation, 127, table));
                }
                if version == "26" {
                    trace.push(52);
                }
            }
            seeds.push(trace);
        }
    }
    seeds.push(seeds[0][..60].to_vec());
    seeds
}

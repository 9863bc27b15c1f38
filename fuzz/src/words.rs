//! Words that users type and kernel names: times, units, names with any bytes.
//!
//! Input: a byte that chooses the kind, then the words.

use wakepath_clock::Stamp;
use wakepath_engine::{TimeSpec, Unit, duration};
use wakepath_report::escape;

/// Puts words through their parsers.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind % 3 {
        0 => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                time_spec(text);
            }
        }
        1 => unit(bytes),
        _ => shown(&escape(bytes), bytes),
    }
}

/// A time specification names a stamp in the recording, at any extent of it.
fn time_spec(text: &str) {
    let _ = duration(text);
    let spec = match text.parse::<TimeSpec>() {
        Ok(spec) => spec,
        Err(refused) => return assert!(refused.to_string().contains(text)),
    };
    for (from, to) in [(0, 0), (5, 1_000_000_000), (7, u64::MAX), (u64::MAX, u64::MAX), (9, 3)] {
        let (from, to) = (Stamp::from_ns(from), Stamp::from_ns(to));
        for realtime in [None, Some(0), Some(1_795_229_921_310_000_000), Some(u64::MAX)] {
            match spec.place(from, to, realtime) {
                Some(at) => assert!(from <= at && at <= to.max(from)),
                None => assert_eq!(realtime, None),
            }
        }
    }
}

/// A cgroup with a name has a unit, which is part of its path.
fn unit(path: &[u8]) {
    let within = |part: &[u8]| {
        assert!(!part.is_empty() && path.windows(part.len()).any(|window| window == part));
    };
    match Unit::from_cgroup_path(path) {
        None => assert!(path.iter().all(|&b| b == b'/')),
        Some(Unit::Container { id, .. }) => within(id.as_bytes()),
        Some(Unit::Systemd(name) | Unit::Cgroup(name)) => within(name.bytes()),
    }
}

/// No shown text can drive a terminal, and harmless text is shown unchanged.
fn shown(shown: &str, bytes: &[u8]) {
    assert!(!shown.chars().any(char::is_control));
    if bytes.iter().all(|b| (b' '..=b'~').contains(b)) {
        assert_eq!(shown.as_bytes(), bytes);
    }
}

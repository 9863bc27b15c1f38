//! Fields from the kernel's raw records, for a session that does not decode them.

use wakepath_kernel_records::{Header, Kind};

/// Size of `struct wp_thread`, a thread in the snapshot, bytes.
pub(crate) const THREAD_BYTES: usize = 88;
/// Size of `struct wp_blocked`, a thread's blocked call, bytes.
pub(crate) const BLOCKED_BYTES: usize = 48;

/// A stack's process and innermost user address, at the offsets in `struct wp_sample`; `None` for other records.
pub(crate) fn sampled_address(record: &[u8]) -> Option<(u32, u64)> {
    let kind = Header::read(record)?.kind;
    if kind != Kind::Sample.number() && kind != Kind::Stack.number() {
        return None;
    }
    let tgid = u32::from_le_bytes(*record.get(16..)?.first_chunk()?);
    let kernel_frames = usize::from(u16::from_le_bytes(*record.get(20..)?.first_chunk()?));
    let address = u64::from_le_bytes(*record.get(32 + kernel_frames * 8..)?.first_chunk()?);
    Some((tgid, address))
}

/// The process and first function's address of a goroutine that leaves its thread.
pub(crate) fn goroutines_function(record: &[u8]) -> Option<(u32, u64)> {
    if Header::read(record)?.kind != Kind::Goroutine.number() {
        return None;
    }
    let tgid = u32::from_le_bytes(*record.get(16..)?.first_chunk()?);
    // WP_GO_PARKS, WP_GO_YIELDS, WP_GO_ENDS: the other steps have another field there.
    let leaves = matches!(record.get(20)?, 0 | 3 | 4);
    let address = u64::from_le_bytes(*record.get(32..)?.first_chunk()?);
    (leaves && address != 0).then_some((tgid, address))
}

/// Each CPU with its softirq thread, from a snapshot's records.
pub(crate) fn softirq_threads(snapshot: &[u8]) -> Vec<(usize, u32)> {
    const COMM: usize = 72;
    let threads = snapshot.chunks_exact(THREAD_BYTES);
    threads
        .filter_map(|record| {
            let comm = record.get(COMM..)?.split(|&b| b == 0).next()?;
            let cpu = std::str::from_utf8(comm.strip_prefix(b"ksoftirqd/")?).ok()?.parse().ok()?;
            Some((cpu, Header::read(record)?.tid))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_event::{Context, Cpu, Event, EventKind, GoStep, GoroutineStep, Tid};
    use wakepath_kernel_records::Encoder;

    use super::*;

    fn record(step: GoStep, began_in: u64) -> Vec<u8> {
        let kind =
            EventKind::Goroutine(GoroutineStep { tgid: Tid(7), program: 1, goroutine: 18, began_in, step });
        let event =
            Event { at: Stamp::from_ns(1), cpu: Cpu(0), context: Context::Task, current: Tid(8), kind };
        let mut record = Vec::new();
        Encoder::for_release("6.12.0").encode(&event, 0, &mut record).unwrap();
        record
    }

    #[test]
    fn the_function_of_a_goroutine_is_in_the_steps_by_which_it_leaves_its_thread() {
        for step in [GoStep::Parks(9), GoStep::Yields, GoStep::Ends] {
            assert_eq!(goroutines_function(&record(step, 0x40_1000)), Some((7, 0x40_1000)), "{step:?}");
            assert_eq!(goroutines_function(&record(step, 0)), None, "{step:?}");
        }
        // These steps have another goroutine's number in its place.
        for step in [GoStep::Ready(5), GoStep::Runs(5)] {
            assert_eq!(goroutines_function(&record(step, 0)), None, "{step:?}");
        }
        assert_eq!(goroutines_function(&[0; 64]), None);
        assert_eq!(goroutines_function(&record(GoStep::Ends, 1)[..20]), None);
    }
}

//! Parts of records as they come from the kernel, for a session that does not decode them.

use wakepath_kernel_records::{Header, Kind};

/// Size of `struct wp_thread`, a thread in the snapshot, bytes.
pub(crate) const THREAD_BYTES: usize = 88;
/// Size of `struct wp_blocked`, what a thread is blocked in, bytes.
pub(crate) const BLOCKED_BYTES: usize = 48;

/// The process and the innermost user address of a stack, at the offsets of `struct wp_sample`; `None` for other
/// records.
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

/// Each CPU with the thread that serves its softirqs, from the records of a snapshot.
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

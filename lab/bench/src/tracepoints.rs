//! The events for every recorder: the events of which wakepath writes a record.
//!
//! wakepath reads interrupt entries and exits too, but writes no record for them; a peer with the same answers
//! would have to record them. Here it need not, and the same holds for timers, of which wakepath keeps only those
//! that lift a CPU limit, and for queued disk requests, of which it keeps only those that an I/O limit held back.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

/// The events as perf and ftrace name them, `SYSTEM:EVENT`.
pub const RECORDED: [&str; 21] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "task:task_rename",
    "cgroup:cgroup_attach_task",
    "net:net_dev_queue",
    "net:netif_receive_skb",
    "sock:sk_data_ready",
    "block:block_rq_issue",
    "block:block_rq_complete",
    "signal:signal_generate",
    "signal:signal_deliver",
    "lock:contention_begin",
    "lock:contention_end",
    "vmscan:mm_vmscan_memcg_reclaim_begin",
    "vmscan:mm_vmscan_memcg_reclaim_end",
    "oom:mark_victim",
];

/// The mount point of tracefs.
pub const TRACEFS: &str = "/sys/kernel/tracing";

/// Mounts tracefs if it is not mounted: without it ftrace and perf have no events, and their rows would be missing.
pub fn mount() -> Result<()> {
    if here().is_empty() {
        let status = Command::new("mount").args(["-t", "tracefs", "tracefs", TRACEFS]).status()?;
        ensure!(
            status.success() && !here().is_empty(),
            "no tracefs at {TRACEFS}: ftrace and perf cannot record"
        );
    }
    Ok(())
}

/// The events in [`RECORDED`] that this kernel has.
pub fn here() -> Vec<&'static str> {
    let exists = |event: &&str| Path::new(TRACEFS).join("events").join(event.replace(':', "/")).exists();
    RECORDED.into_iter().filter(exists).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::RECORDED;

    /// A C file's tracepoints, from its programs' sections or, in ours, from the macro.
    fn tracepoints(source: &str, open: &str, close: char) -> BTreeSet<String> {
        let pieces = source.lines().filter_map(|line| line.strip_prefix(open));
        pieces.filter_map(|rest| rest.split_once(close)).map(|(name, _)| name.to_owned()).collect()
    }

    /// The recording programs' tracepoints; programs that count latencies, or drill down, run at other times, and failed
    /// calls are recorded only where they are asked for.
    fn wakepaths(keep: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let ours = files.filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            let records = !["latency.bpf.c", "drill.bpf.c", "failed.bpf.c"].contains(&&*name);
            name.ends_with(".bpf.c") && records && keep(&name)
        });
        ours.flat_map(|path| tracepoints(&fs::read_to_string(path).unwrap(), "SEC(\"tp_btf/", '"')).collect()
    }

    #[test]
    fn the_floor_is_on_every_tracepoint_that_wakepath_uses() {
        let empty = tracepoints(include_str!("../empty.bpf.c"), "EMPTY(", ')');
        assert_eq!(empty, wakepaths(|_| true));
    }

    #[test]
    fn peers_record_every_event_that_wakepath_writes_a_record_of() {
        let peers = RECORDED.iter().filter_map(|event| event.split_once(':'));
        let peers: BTreeSet<_> = peers.map(|(_, event)| event.to_owned()).collect();
        let mut recorded =
            wakepaths(|file| !["context.bpf.c", "limit.bpf.c", "io_uring.bpf.c"].contains(&file));
        assert!(recorded.remove("block_bio_queue"));
        assert_eq!(peers, recorded);
    }
}

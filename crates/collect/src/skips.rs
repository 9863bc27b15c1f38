//! Records that may be missing because the kernel skipped a program: it does so where an interrupt comes while the
//! program runs on the CPU, and meets the same tracepoint. The kernel does not report the CPU.
//!
//! Such a loss may be anywhere since the last look, so looks are frequent, and each loss names the records that it
//! may concern: a missing socket makes no thread state doubtful. Seen under many packets: `sk_data_ready`, which the
//! kernel meets with interrupts on, where a sending thread takes packets that came meanwhile.
//!
//! Skips that cannot have cost a record must not count:
//!
//! - Locks: an interrupt only spins, and spinning threads' waits are not recorded.
//! - Requests that an I/O limit held back: a thread lets them go, and an interrupt none. So with reclaims of memory, and
//!   kills for want of it.
//! - Timers: only CPU limits' timers are recorded, and only while a limit throttles threads. The program is met twice
//!   where an interrupt comes while it looks at a softirq's timer, seen some times a minute under many packets.

use wakepath_event::LostRecords;

/// A program's records; `None` where none is missing if it is skipped.
fn records_of(program: &str) -> Option<LostRecords> {
    Some(match program {
        "contention_begin" | "contention_end" | "block_bio_queue" => return None,
        "memcg_reclaim_begin" | "memcg_reclaim_end" | "mark_victim" => return None,
        // An interrupt makes no system call.
        "failed_call" | "io_uring_submit_req" | "io_uring_submit_sqe" => return None,
        "sched_switch" => LostRecords::Switches,
        "sched_waking" | "sched_wakeup_new" => LostRecords::WakeUps,
        "sched_migrate_task" => LostRecords::Moves,
        "irq_handler_entry" | "irq_handler_exit" | "softirq_entry" | "softirq_exit" => {
            LostRecords::Interrupts
        }
        "local_timer_entry" | "local_timer_exit" | "irq_work_entry" | "irq_work_exit" => {
            LostRecords::Interrupts
        }
        "reschedule_entry" | "reschedule_exit" => LostRecords::Interrupts,
        "call_function_entry" | "call_function_exit" => LostRecords::Interrupts,
        "call_function_single_entry" | "call_function_single_exit" => LostRecords::Interrupts,
        "net_dev_queue" | "netif_receive_skb" => LostRecords::Packets,
        "sk_data_ready" | "sock_def_readable" => LostRecords::Sockets,
        "block_rq_issue" | "block_rq_complete" => LostRecords::DiskRequests,
        "sched_process_fork" | "sched_process_exec" | "sched_process_exit" => LostRecords::Threads,
        "failed_exit" => LostRecords::Calls,
        "task_rename" | "cgroup_attach_task" => LostRecords::Threads,
        "signal_generate" | "signal_deliver" => LostRecords::Signals,
        "hrtimer_expire_entry" => LostRecords::Limits,
        "sample" => LostRecords::Samples,
        name if name.starts_with("function_") || name.starts_with("kernel_") => LostRecords::Calls,
        name if name.starts_with("go_") || name.starts_with("goroutine") => LostRecords::Calls,
        _ => LostRecords::Any,
    })
}

/// The kernel's skip counts, by the programs' records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Skipped([u64; LostRecords::ALL.len()]);

impl Skipped {
    /// Adds a program's count.
    pub(crate) fn add(&mut self, program: &str, skipped: u64) {
        if let Some(records) = records_of(program) {
            self.0[records as usize] += skipped;
        }
    }

    /// Adds the count for the program copies at kernel functions.
    pub(crate) fn add_kernel_probes(&mut self, skipped: u64) {
        self.0[LostRecords::Calls as usize] += skipped;
    }

    /// The count for a kind of record.
    const fn of(&self, records: LostRecords) -> u64 {
        self.0[records as usize]
    }
}

/// The counts at the last looks and checks.
#[derive(Debug, Default)]
pub(crate) struct Skips {
    skipped: Skipped,
    /// The skipped looks at timers by the last check.
    timers: u64,
    /// The number of CPU-limit events at the last check and at the check before it.
    limits: [Option<u64>; 2],
}

impl Skips {
    /// The numbers of records that may be missing since the last look, by kind; without CPU-limit records.
    pub(crate) fn look(&mut self, skipped: Skipped) -> Vec<(LostRecords, u64)> {
        let before = std::mem::replace(&mut self.skipped, skipped);
        let kinds = LostRecords::ALL.into_iter().filter(|records| *records != LostRecords::Limits);
        let since = kinds.map(|records| (records, skipped.of(records).saturating_sub(before.of(records))));
        since.filter(|(_, missing)| *missing > 0).collect()
    }

    /// The number of CPU-limit records that may be missing since the last check, by the last look. `limits` is the
    /// number of CPU-limit events so far.
    ///
    /// A throttling limit has such an event in each of its periods, which last at most 1 s, like the time between
    /// checks. If none was seen since the check before the last, no limit had time to hand out.
    pub(crate) fn check_limits(&mut self, limits: u64) -> u64 {
        let now = self.skipped.of(LostRecords::Limits);
        let since = now.saturating_sub(std::mem::replace(&mut self.timers, now));
        let is_limited = self.limits[1] != Some(limits);
        self.limits = [Some(limits), self.limits[0]];
        if is_limited { since } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The missing records after a look at these programs' counts.
    fn look(skips: &mut Skips, programs: &[(&str, u64)]) -> Vec<(LostRecords, u64)> {
        let mut skipped = Skipped::default();
        programs.iter().for_each(|(program, count)| skipped.add(program, *count));
        skips.look(skipped)
    }

    #[test]
    fn no_record_is_missing_for_a_lock_that_an_interrupt_waits_for() {
        let found = look(&mut Skips::default(), &[("contention_begin", 3), ("contention_end", 3)]);
        assert_eq!(found, []);
    }

    #[test]
    fn each_skipped_run_counts_once_for_the_records_that_its_program_makes() {
        let mut skips = Skips::default();
        let sockets = |count| (LostRecords::Sockets, count);
        assert_eq!(look(&mut skips, &[("sk_data_ready", 3)]), [sockets(3)]);
        assert_eq!(look(&mut skips, &[("sk_data_ready", 3)]), []);
        let found = look(&mut skips, &[("sk_data_ready", 5), ("sched_waking", 1), ("sched_wakeup_new", 1)]);
        assert_eq!(found, [(LostRecords::WakeUps, 2), sockets(2)]);
    }

    #[test]
    fn a_program_that_is_not_known_may_have_made_any_record() {
        assert_eq!(look(&mut Skips::default(), &[("a_new_program", 1)]), [(LostRecords::Any, 1)]);
    }

    #[test]
    fn each_program_that_records_at_a_tracepoint_has_a_kind_of_records() {
        let sources = [
            include_str!("../../../bpf/sched.bpf.c"),
            include_str!("../../../bpf/context.bpf.c"),
            include_str!("../../../bpf/net.bpf.c"),
            include_str!("../../../bpf/block.bpf.c"),
            include_str!("../../../bpf/life.bpf.c"),
            include_str!("../../../bpf/signal.bpf.c"),
            include_str!("../../../bpf/limit.bpf.c"),
            include_str!("../../../bpf/memory.bpf.c"),
            include_str!("../../../bpf/io_uring.bpf.c"),
        ];
        let programs = sources.iter().flat_map(|source| source.split("int BPF_PROG(").skip(1));
        let names: Vec<_> = programs.filter_map(|program| program.split([',', ')']).next()).collect();
        assert!(names.len() > 25, "{names:?}");
        for name in names {
            assert_ne!(records_of(name), Some(LostRecords::Any), "{name}");
            let by_threads_alone = matches!(name, "block_bio_queue" | "mark_victim")
                || name.starts_with("memcg_reclaim_")
                || name.starts_with("io_uring_submit_");
            assert_eq!(records_of(name).is_none(), by_threads_alone, "{name}");
        }
    }

    #[test]
    fn a_timer_counts_only_beside_limits_that_throttle() {
        let mut skips = Skips::default();
        let mut check = |timers, limits| {
            assert_eq!(look(&mut skips, &[("hrtimer_expire_entry", timers)]), []);
            skips.check_limits(limits)
        };
        // A thread may have been throttled before the recording.
        assert_eq!(check(1, 0), 1);
        assert_eq!(check(3, 0), 2);
        assert_eq!(check(4, 0), 0);
        // A thread is throttled, and its limit may hand out time in this second or in the next.
        assert_eq!(check(5, 1), 1);
        assert_eq!(check(6, 1), 1);
        assert_eq!(check(7, 1), 0);
    }
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts how long calls, waits and requests take, in log2 buckets for each CPU (T08 chapter 2), so that only the
 * counts leave the kernel.
 *
 * This is a separate object, and none of its programs runs during a recording.
 *
 * 1. User and kernel functions: from the entry to the return (function.bpf.h, kernel_function.bpf.h).
 * 2. System calls: those with the targets' numbers. 32-bit programs have another table of numbers (compat.bpf.h).
 * 3. Run queue: from a wake-up, or a switch-out that leaves the thread runnable, to its switch-in.
 * 4. Block devices: from a request's start on the device to its completion.
 * 5. User-space locks: futex waits that expect the value of a contended lock.
 * 6. Sleeping kernel locks: from the thread's first pause in its attempts until it has the lock. It may pause
 *    several times, and wait for another lock meanwhile.
 *
 * The unit is nanoseconds or cycles (stamp.bpf.h). The counts are a total or by group (group.bpf.h); requests,
 * whose process is not known, have only a total.
 */
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "calls.bpf.h"
#include "compat.bpf.h"
#include "futex.h"
#include "group.bpf.h"
#include "latency.h"
#include "log2.bpf.h"
#include "stamp.bpf.h"

/* 0: no target; else the target's number plus one. */
const volatile __u16 target_of_call[WP_CALLS] = {};
const volatile __u16 target_of_call_32[WP_CALLS_32] = {};
const volatile __u16 run_queue_target = 0;
const volatile __u16 user_lock_target = 0;
const volatile __u16 kernel_lock_target = 0;
struct disk_target {
	__u32 device; /* major << 20 | minor; 0: any */
	__u32 target; /* plus one; 0: none */
};
const volatile struct disk_target disk_targets[WP_DISK_TARGETS] = {};

/* max_entries is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_distribution);
} distributions SEC(".maps");

/* The beginnings of waits, calls and requests that have not ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct begun_key);
	__type(value, __u64);
} begun SEC(".maps");

/* The counts for the group of `task`, or for all. */
static __always_inline struct wp_distribution *distribution(__u32 target, struct task_struct *task)
{
	struct wp_distribution *of_group = NULL;

	if (told_apart_by != WP_BY_NOBODY && task)
		of_group = group_distribution(target, task);
	return of_group ? of_group : bpf_map_lookup_elem(&distributions, &target);
}

static __always_inline struct task_struct *current(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

/* Programs may interrupt each other on a CPU (a request completes while a call ends), so the adds are atomic. */
static __always_inline void count(__u32 target, struct task_struct *task, __u64 latency)
{
	struct wp_distribution *d = distribution(target, task);

	if (!d)
		return;
	__sync_fetch_and_add(&d->counts[log2_of(latency) & 63], 1);
	__sync_fetch_and_add(&d->sum, latency);
}

static __always_inline void crowded(__u32 target, struct task_struct *task)
{
	struct wp_distribution *d = distribution(target, task);

	if (d)
		__sync_fetch_and_add(&d->crowded, 1);
}

static __always_inline void was_left(__u32 target, struct task_struct *task)
{
	struct wp_distribution *d = distribution(target, task);

	if (d)
		__sync_fetch_and_add(&d->left, 1);
}

/* Counts the latency between two values of `stamp`. */
static __always_inline void lasted(__u32 target, struct task_struct *task, __u64 from, __u64 to)
{
	if (from && to)
		count(target, task, to > from ? to - from : 0);
	else
		crowded(target, task);
}

static __always_inline void begins(__u64 what, __u32 target, struct task_struct *task)
{
	struct begun_key key = { what, target };
	__u64 now = stamp();

	if (bpf_map_update_elem(&begun, &key, &now, BPF_ANY))
		crowded(target, task);
}

static __always_inline void ends(__u64 what, __u32 target, struct task_struct *task)
{
	struct begun_key key = { what, target };
	__u64 *at = bpf_map_lookup_elem(&begun, &key);
	__u64 now = stamp();

	if (!at)
		return;
	lasted(target, task, *at, now);
	bpf_map_delete_elem(&begun, &key);
}

/* Whether a 32-bit program makes the current call. */
static __always_inline bool calls_32_bit(void)
{
	return is_32_bit(bpf_get_current_task_btf());
}

/* A system call's target, plus 1; 0: none. The arguments' registers keep their values until its exit. */
static __always_inline __u16 target_of(const struct pt_regs *regs, long id)
{
	if (id < 0 || id >= WP_CALLS)
		return 0;
	if (!calls_32_bit())
		return target_of_call[id];
	if (id == NR_32_socketcall)
		id = WP_SOCKET_CALLS + (regs->bx & 31);
	else if (id == NR_32_ipc)
		id = WP_IPC_CALLS + (regs->bx & 31);
	return target_of_call_32[id];
}

static __always_inline bool is_futex(const struct pt_regs *regs, long id)
{
	return calls_32_bit() ? id == NR_32_futex || id == NR_32_futex_time64 : id == SYS_futex;
}

static __always_inline bool is_lock_wait(const struct pt_regs *regs)
{
	return calls_32_bit() ? waits_for_lock(regs->cx, regs->dx) : waits_for_lock(regs->si, regs->dx);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long id)
{
	__u64 self = bpf_get_current_pid_tgid();
	__u16 target = target_of(regs, id);

	if (target && is_followed(self >> 32))
		begins((__u32)self, target - 1, current());
	if (user_lock_target && is_futex(regs, id) && is_lock_wait(regs) && is_followed(self >> 32))
		begins((__u32)self, user_lock_target - 1, current());
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	long id = regs->orig_ax;
	__u16 target = target_of(regs, id);

	if (user_lock_target && is_futex(regs, id))
		ends((__u32)bpf_get_current_pid_tgid(), user_lock_target - 1, current());
	if (target)
		ends((__u32)bpf_get_current_pid_tgid(), target - 1, current());
	return 0;
}

static __always_inline int runnable(struct task_struct *task)
{
	if (is_followed(task->tgid))
		begins(task->pid, run_queue_target - 1, task);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	/* A thread about to sleep continues to run; its next wake-up or switch-out comes later. */
	return runnable(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	return runnable(task);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	if (prev->pid && (preempt || !prev_state))
		runnable(prev);
	if (next->pid)
		ends(next->pid, run_queue_target - 1, next);
	return 0;
}

enum { LCB_F_SPIN = 1, LCB_F_PERCPU = 16 };

/* A thread's wait for a lock; other threads may wait for the same lock. */
static __always_inline struct begun_key lock_wait(void *lock)
{
	__u64 thread = (__u32)bpf_get_current_pid_tgid();

	return (struct begun_key){ (__u64)lock, thread << 32 | (kernel_lock_target - 1) };
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	struct begun_key key = lock_wait(lock);
	__u64 now = stamp();
	long failed;

	if (flags & (LCB_F_SPIN | LCB_F_PERCPU) || !is_followed(bpf_get_current_pid_tgid() >> 32))
		return 0;
	/* The wait began when the thread first stopped trying. */
	failed = bpf_map_update_elem(&begun, &key, &now, BPF_NOEXIST);
	if (failed && failed != -EEXIST)
		crowded(kernel_lock_target - 1, current());
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock)
{
	struct begun_key key = lock_wait(lock);
	__u64 *at = bpf_map_lookup_elem(&begun, &key);
	__u64 now = stamp();

	if (!at)
		return 0;
	lasted(kernel_lock_target - 1, current(), *at, now);
	bpf_map_delete_elem(&begun, &key);
	return 0;
}

static __always_inline int request(struct request *rq, bool issued)
{
	struct gendisk *disk = BPF_CORE_READ(rq, q, disk);
	__u32 device = disk ? BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor) : 0;

#pragma unroll
	for (int i = 0; i < WP_DISK_TARGETS; i++) {
		__u32 target = disk_targets[i].target;

		if (!target)
			break;
		if (disk_targets[i].device && disk_targets[i].device != device)
			continue;
		if (issued)
			begins((__u64)rq, target - 1, NULL);
		else
			ends((__u64)rq, target - 1, NULL);
	}
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	return request(rq, true);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq)
{
	return request(rq, false);
}

static __always_inline void call_ended(__u32 target, __u32 thread, __u32 began_in, bool of_goroutine, __u64 from,
				       __u64 to)
{
	lasted(target, current(), from, to);
}

static __always_inline void call_left(__u32 target, __u32 thread, __u64 from)
{
	was_left(target, current());
}

static __always_inline void call_crowded(__u32 target)
{
	crowded(target, current());
}

/* The number of kernel function calls that returned unseen, by target. max_entries is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} unseen SEC(".maps");

static __always_inline void call_unseen(__u32 target)
{
	__u64 *count = bpf_map_lookup_elem(&unseen, &target);

	if (count)
		__sync_fetch_and_add(count, 1);
}

#include "function.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The times at which a cgroup's CPU limit stops throttling threads. No tracepoint marks a thread's release: the
 * refilling timer puts it back on its run queue, once a period or, with time that others did not use, in between.
 * Without this record, a thread that was released and then waited for a busy CPU would seem throttled all the time.
 * The timer runs on for some periods without throttled threads: then it releases none.
 */
#include "ring.bpf.h"

/*
 * The two timers' functions. Each group has both timers, also without a limit: those in the first group seen are read. The
 * table with the kernel's symbols has the functions too, but takes a tenth longer to load.
 */
static void *period_function, *slack_function;

static __always_inline void learn_functions(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	slack_function = BPF_CORE_READ(task, sched_task_group, cfs_bandwidth.slack_timer.function);
	period_function = BPF_CORE_READ(task, sched_task_group, cfs_bandwidth.period_timer.function);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer_expire_entry, struct hrtimer *timer)
{
	void *function = BPF_CORE_READ(timer, function);
	struct list_head *kept_off;
	struct task_group *group;
	struct wp_ring *ring = sched_ring();
	struct wp_refill *r;
	__u64 offset;

	/* A kernel without CPU limits has neither timer. */
	if (!function || !bpf_core_field_exists(struct cfs_bandwidth, period_timer))
		return 0;
	if (!period_function)
		learn_functions();
	if (function == period_function)
		offset = bpf_core_field_offset(struct cfs_bandwidth, period_timer);
	else if (function == slack_function)
		offset = bpf_core_field_offset(struct cfs_bandwidth, slack_timer);
	else
		return 0;
	offset += bpf_core_field_offset(struct task_group, cfs_bandwidth);
	group = (struct task_group *)((void *)timer - offset);
	kept_off = __builtin_preserve_access_index(&group->cfs_bandwidth.throttled_cfs_rq);
	if (BPF_CORE_READ(group, cfs_bandwidth.throttled_cfs_rq.next) == kept_off)
		return 0;
	r = life_reserve(sizeof(*r), WP_REFILL, current_tid());
	if (!r)
		return 0;
	r->cpu_cgroup = BPF_CORE_READ(group, css.cgroup, kn, id);
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	if (ring)
		ring->limits++;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

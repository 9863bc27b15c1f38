/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How the scheduler treats threads: nice value, class, allowed CPUs, and the session's group among which CPU time is shared.
 *
 * No tracepoint shows a change, so threads are looked at: all at the start and the end, each at its fork, exec and exit, and the
 * current thread at each tick. A look away from the tick is recorded only if it finds something unusual, or if this thread had a
 * recorded look: so a thread without a recorded look is ordinary, and two equal looks show what was between them. At the tick, a
 * thread's group is recorded whatever else it has: the threads that have a CPU for long are those that others wait for.
 */
#ifndef WAKEPATH_SCHEDULING_BPF_H
#define WAKEPATH_SCHEDULING_BPF_H

#include "kernel.h"
#include "mix.h"
#include "ring.bpf.h"
#include "scheduling.h"

#define SEEN_SCHEDULINGS 8192

/* The number of online CPUs. */
__weak const volatile __u32 scheduling_cpus = 1;

/* A mask's bytes in use by the running kernel: behind those for its possible CPUs, anything may stand. */
__weak const volatile __u32 mask_bytes = 8;

/*
 * A thread's number and a hash of its last recorded look, by the thread's number. Two threads with the same place are recorded
 * anew, at each tick at most.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SEEN_SCHEDULINGS);
	__type(key, __u32);
	__type(value, __u64);
} seen_schedulings SEC(".maps") __weak;

enum look {
	LOOK_FIRST, /* at a start or an exec */
	LOOK_AT_TICK,
	LOOK_LAST, /* at an exit */
};

/* Fills the fields behind the header. */
static __always_inline void fill_scheduling(struct wp_scheduling *r, struct task_struct *task)
{
	__u64 size = mask_bytes;
	int id;

	r->tid = BPF_CORE_READ(task, pid);
	r->nice = BPF_CORE_READ(task, static_prio) - DEFAULT_PRIO;
	r->policy = BPF_CORE_READ(task, policy);
	r->priority = BPF_CORE_READ(task, rt_priority);
	r->spare = 0;
	r->allowed = BPF_CORE_READ(task, nr_cpus_allowed);
	r->autogroup = 0;
	r->cpuset = 0;
	r->words = 0;
	__builtin_memset(r->cpus, 0, sizeof(r->cpus));
	if (bpf_core_field_exists(((struct task_group *)0)->autogroup))
		r->autogroup = BPF_CORE_READ(task, sched_task_group, autogroup, id);
	/* A kernel thread's CPUs are its own affair. */
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		r->allowed = scheduling_cpus;
	if (r->allowed >= scheduling_cpus)
		return;
	if (size > bpf_core_type_size(struct cpumask))
		size = bpf_core_type_size(struct cpumask);
	if (size > sizeof(r->cpus))
		size = sizeof(r->cpus);
	if (!bpf_probe_read_kernel(r->cpus, size, (void *)__builtin_preserve_access_index(&task->cpus_mask)))
		r->words = size / 8;
	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, cpuset_cgrp_id))
		return;
	id = bpf_core_enum_value(enum cgroup_subsys_id, cpuset_cgrp_id);
	if (id >= 0 && id <= 15)
		r->cpuset = BPF_CORE_READ(task, cgroups, subsys[id], cgroup, kn, id);
}

/* The thread's number, and in the lower half a hash of the rest. */
static __always_inline __u64 scheduling_key(const struct wp_scheduling *r)
{
	__u64 h = mix(r->autogroup, (__u64)(__u8)r->nice << 48 | (__u64)r->policy << 40 | (__u64)r->priority << 32 | r->allowed);
	int i;

	if (r->words)
		for (i = 0; i < WP_MASK_WORDS; i++)
			h = mix(h, r->cpus[i]);
	return (__u64)r->tid << 32 | (mix(h, r->cpuset) & 0xffffffff);
}

static __always_inline bool is_unusual(const struct wp_scheduling *r)
{
	return r->nice || r->policy || r->allowed < scheduling_cpus;
}

/* Whether a look is to be recorded; if so, it is noted. */
static __always_inline bool is_news(const struct wp_scheduling *r, enum look look)
{
	__u64 key = scheduling_key(r), before;
	__u32 place = r->tid % SEEN_SCHEDULINGS;
	__u64 *seen = bpf_map_lookup_elem(&seen_schedulings, &place);
	bool was_seen;

	if (!seen)
		return false;
	before = *seen;
	was_seen = before >> 32 == r->tid;
	if (look == LOOK_AT_TICK ? before == key : !was_seen && !is_unusual(r))
		return false;
	if (!was_seen && !is_unusual(r) && !r->autogroup)
		return false;
	*seen = look == LOOK_LAST ? 0 : key;
	return true;
}

static __always_inline void look_at_scheduling(struct task_struct *task, enum look look)
{
	struct wp_scheduling found, *r;

	fill_scheduling(&found, task);
	if (!is_news(&found, look))
		return;
	r = life_reserve(sizeof(*r), WP_SCHEDULING, found.tid);
	if (!r)
		return;
	found.h = r->h;
	*r = found;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

#endif

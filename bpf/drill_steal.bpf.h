/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The time that the hypervisor stole from a measured call. KVM counts for each CPU how long it was ready but did not run, and
 * updates the count before the guest continues.
 *
 * The count is read wherever the call is looked at anyway: at its functions' probes, at its thread's switches, and at both ends
 * of interrupts. If it grew since the last look, and the thread was on this CPU since then, the difference is the innermost
 * node's time. A tick is due when a CPU comes back, so stolen time mostly lies directly before an interrupt begins, and inside
 * none. Inside an interrupt, it is not the interrupt's time.
 */
#ifndef WAKEPATH_DRILL_STEAL_BPF_H
#define WAKEPATH_DRILL_STEAL_BPF_H

#include "drill_state.bpf.h"
#include "drill_stubs.bpf.h"

/*
 * Written by user space: bytes from a CPU's run queue to KVM's count of the CPU's stolen time; 0: no time was ever stolen, or
 * the place is not known.
 */
__s64 steal_behind_run_queue = 0;

/* The scheduler's own stolen time count lags behind, and is never ahead. */
#define MAX_BEHIND_NS 10000000000ull

struct steal_place {
	__u64 at; /* the count's address; 0: not known yet */
	__u64 is_none; /* the value there cannot be stolen time */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct steal_place);
} steal_places SEC(".maps");

static __always_inline __u64 stolen_at(__u64 at)
{
	__u64 ns;

	return bpf_probe_read_kernel(&ns, sizeof(ns), (void *)at) ? 0 : ns;
}

/* A running thread's run queue is this CPU's. */
static __always_inline void learn_steal_place(struct steal_place *place)
{
	struct cfs_rq *queue = BPF_CORE_READ(bpf_get_current_task_btf(), se.cfs_rq);
	struct rq *rq;
	__u64 found, known;

	place->is_none = 1;
	/* Absent in kernels without group scheduling, and in kernels that do not count stolen time. */
	if (!bpf_core_field_exists(queue->rq))
		return;
	rq = BPF_CORE_READ(queue, rq);
	if (!bpf_core_field_exists(rq->prev_steal_time_rq) || !rq)
		return;
	known = BPF_CORE_READ(rq, prev_steal_time_rq);
	found = stolen_at((__u64)rq + steal_behind_run_queue);
	if (found < known || found - known > MAX_BEHIND_NS)
		return;
	place->at = (__u64)rq + steal_behind_run_queue;
	place->is_none = 0;
}

/* This CPU's total stolen time, ns; 0: not known. */
static __always_inline __u64 stolen_ever(void)
{
	struct steal_place *place;
	__u32 zero = 0;

	place = bpf_map_lookup_elem(&steal_places, &zero);
	if (!place || place->is_none)
		return 0;
	if (!place->at)
		learn_steal_place(place);
	return place->at ? stolen_at(place->at) : 0;
}

/*
 * Charges the time stolen since the last look to the call's innermost node; call it before the node changes. Returns the time,
 * ns. Goroutines change threads unseen, so it is not known whether a goroutine was on this CPU since then.
 */
static __noinline __u64 charge_stolen(struct wp_drill_thread *t)
{
	__u64 ever, newly = 0;

	if (!steal_behind_run_queue || of_go || !t || !t->plan)
		return 0;
	ever = stolen_ever();
	if (t->stolen_ever && ever > t->stolen_ever) {
		newly = ever - t->stolen_ever;
		node_of(t, innermost_node(t))->stolen += newly;
	}
	t->stolen_ever = ever;
	return newly;
}

/* The thread has this CPU from now on. */
static __always_inline void begin_steal(struct wp_drill_thread *t)
{
	t->stolen_ever = 0;
	charge_stolen(t);
}

#endif

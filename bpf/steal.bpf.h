/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The time that the hypervisor stole from this CPU. KVM counts for each CPU how long it was ready but did not run,
 * and updates the count before the guest continues (its steal time). The count is checked at the beginning and end
 * of interrupts, switches and recorded calls. A tick is due when a CPU comes back, so stolen time mostly lies
 * directly before the check that finds it.
 */
#ifndef WAKEPATH_STEAL_H
#define WAKEPATH_STEAL_H

#include "current.bpf.h"

/* Less than this, ns, is added to the next record. */
#define LEAST_STOLEN 2000

/* This CPU's total, ns; 0 if it is not counted, or its place is not known yet. */
static __always_inline __u64 stolen_ever(void)
{
	struct places *places;

	if (!steal_behind_run_queue || !bpf_ksym_exists(bpf_rdonly_cast))
		return 0;
	places = places_here();
	if (!places || !places->steal)
		return 0;
	return bpf_core_cast((void *)places->steal, struct kvm_steal_time)->steal;
}

/* Called with interrupts off. Returns the newly found time, ns. */
static __always_inline __u64 look_whether_stolen(struct wp_ring *ring, __u64 now, __u32 tid)
{
	__u64 ever = stolen_ever(), newly = ever - ring->stolen;
	struct wp_stolen *r;

	if (newly < LEAST_STOLEN)
		return 0;
	ring->stolen = ever;
	if (newly == ever)
		return 0; /* the first check: stolen before recording */
	if (ring->soft)
		ring->soft_since += newly;
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return newly;
	r->h.stamp = now;
	r->h.seq = ring->seq;
	r->h.kind = WP_STOLEN;
	r->h.context = context_of(ring);
	r->h.tid = tid;
	r->ns = newly;
	ring_commit(ring, sizeof(*r));
	return newly;
}

/* Called with interrupts on: an interrupt may check too, and only the first check finds the time. */
static __always_inline void look_whether_stolen_from_thread(__u64 now)
{
	__u64 ever = stolen_ever(), before;
	struct wp_ring *ring = sched_ring();
	struct wp_stolen *r;

	if (!ever || !ring)
		return;
	before = *(volatile __u64 *)&ring->stolen;
	if (ever < before + LEAST_STOLEN)
		return;
	if (__sync_val_compare_and_swap(&ring->stolen, before, ever) != before || !before)
		return;
	r = life_reserve(sizeof(*r), WP_STOLEN, current_tid());
	if (!r)
		return;
	r->h.stamp = now;
	r->ns = ever - before;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

#endif

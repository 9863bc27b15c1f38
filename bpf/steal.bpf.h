/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the hypervisor took of this CPU. KVM counts for each CPU how long it was ready and not let run, and
 * brings the count up to date before the guest goes on (its steal time). It is looked at where interrupts,
 * switches and recorded calls begin and end: a tick is due when a CPU comes back, so that what was taken
 * mostly lies right before the look that finds it.
 */
#ifndef WAKEPATH_STEAL_H
#define WAKEPATH_STEAL_H

#include "current.bpf.h"

/* Less is told together with the next. */
#define LEAST_STOLEN 2000

/* Ns, ever, on this CPU; 0 where nobody says so, or it is not known yet where. */
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

/* Where interrupts are off. Returns what was newly found, ns. */
static __always_inline __u64 look_whether_stolen(struct wp_ring *ring, __u64 now, __u32 tid)
{
	__u64 ever = stolen_ever(), newly = ever - ring->stolen;
	struct wp_stolen *r;

	if (newly < LEAST_STOLEN)
		return 0;
	ring->stolen = ever;
	if (newly == ever)
		return 0; /* the first look: it was before */
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

/* In a thread's own time, where an interrupt may come and look too: one of the two finds it. */
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

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The head of a per-CPU ring, as BPF and the consumer share it; the consumer
 * writes `tail` alone.
 */
#ifndef WAKEPATH_RING_LAYOUT_H
#define WAKEPATH_RING_LAYOUT_H

#define WP_RING_DATA 128 /* where records begin */
#define WP_RING_SLACK 64 /* room behind the ring, as large as the largest record in it */

struct wp_ring {
	/* The producer's line. */
	__u64 head; /* bytes ever written */
	__u64 ready_flow; /* the socket that the softirq under way has made ready, and nobody was woken for yet */
	__u64 interrupts_ns;   /* taken by interrupts on this CPU, ever */
	__u64 interrupts_at_switch; /* the same, at the last switch */
	__u64 hard_since;
	__u64 soft_since;
	__u32 ksoftirqd; /* tid of this CPU's softirq thread, whose own work softirqs are */
	__u16 seq;
	__u16 irq;  /* number of the device interrupt under way */
	__u8 hard;  /* enum wp_context of the hard interrupt under way, or 0 */
	__u8 soft;  /* of the softirq under way, or 0 */
	__u8 pad[2];
	__u32 current_tid; /* who runs, as far as records tell */
	/* The consumer's line. */
	__u64 tail; /* bytes ever taken */
	/* And what the producer rarely touches. */
	__u64 lost; /* records that found no room */
	__u64 stolen; /* what the hypervisor took of this CPU, ever, when it was looked at last */
	__u8 pad2[40];
};
_Static_assert(sizeof(struct wp_ring) == WP_RING_DATA, "ring head");

#endif

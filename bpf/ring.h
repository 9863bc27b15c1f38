/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A per-CPU ring's head, shared by BPF programs and the consumer; the consumer writes only `tail`. */
#ifndef WAKEPATH_RING_LAYOUT_H
#define WAKEPATH_RING_LAYOUT_H

#include "types.h"

#define WP_RING_DATA 128 /* where records begin */
#define WP_RING_SLACK 128 /* room behind the ring, as large as the largest record in it */

struct wp_ring {
	/* The producer's cache line. */
	__u64 head; /* total bytes written */
	__u64 ready_flow; /* the flow whose socket the current softirq made ready, until a thread is woken for it */
	__u64 interrupts_ns;   /* total interrupt time on this CPU, ns */
	__u64 interrupts_at_switch; /* the same at the last switch */
	__u64 hard_since;
	__u64 soft_since;
	__u32 ksoftirqd; /* the tid of this CPU's softirq thread, whose own work softirqs are */
	__u16 seq;
	__u16 irq;  /* the current device interrupt's number */
	__u8 hard;  /* the current hard interrupt, enum wp_context, or 0 */
	__u8 soft;  /* the same for the current softirq, or 0 */
	__u8 untimed; /* switches until the next timed switch */
	__u8 pad;
	__u32 current_tid; /* the running thread by the records so far */
	/* The consumer's cache line. */
	__u64 tail; /* total bytes read */
	/* Fields that the producer rarely touches. */
	__u64 lost; /* records lost for want of room */
	__u64 stolen; /* this CPU's total stolen time at the last check, ns */
	__u64 timed; /* timed switches */
	__u64 timed_ns; /* their total time, from the stamp to the program's end */
	__u64 switches; /* switch records; these two are counted only with `--stacks` */
	__u64 wakings;
	__u64 limits; /* switches away from a throttled thread, and refills by CPU limits */
};
_Static_assert(sizeof(struct wp_ring) == WP_RING_DATA, "ring head");

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The head of a per-CPU ring, which BPF programs and the consumer share; the consumer
 * writes only `tail`.
 */
#ifndef WAKEPATH_RING_LAYOUT_H
#define WAKEPATH_RING_LAYOUT_H

#include "types.h"

#define WP_RING_DATA 128 /* where records begin */
#define WP_RING_SLACK 128 /* room behind the ring, as large as the largest record in it */

struct wp_ring {
	/* The producer's cache line. */
	__u64 head; /* total bytes written */
	__u64 ready_flow; /* flow of the socket that the current softirq made ready, until a thread is woken for it */
	__u64 interrupts_ns;   /* total time of interrupts on this CPU */
	__u64 interrupts_at_switch; /* the same at the last switch */
	__u64 hard_since;
	__u64 soft_since;
	__u32 ksoftirqd; /* tid of this CPU's softirq thread, for which softirqs are its own work */
	__u16 seq;
	__u16 irq;  /* number of the current device interrupt */
	__u8 hard;  /* enum wp_context of the current hard interrupt, or 0 */
	__u8 soft;  /* the same for the current softirq, or 0 */
	__u8 untimed; /* switches until the next one that is timed */
	__u8 pad;
	__u32 current_tid; /* the running thread by the records so far */
	/* The consumer's cache line. */
	__u64 tail; /* total bytes read */
	/* Fields that the producer rarely touches. */
	__u64 lost; /* number of records lost for want of room */
	__u64 stolen; /* total stolen time of this CPU at the last check */
	__u64 timed; /* number of switches whose program was timed */
	__u64 timed_ns; /* their total time from the stamp to the end of the program */
	__u64 switches; /* records of switches and of wake-ups; counted only with `--stacks` */
	__u64 wakings;
	__u64 limits; /* switches away from a thread that a CPU limit throttles, and moments at which a limit hands out time */
};
_Static_assert(sizeof(struct wp_ring) == WP_RING_DATA, "ring head");

#endif

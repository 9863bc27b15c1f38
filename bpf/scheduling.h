/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How the scheduler treats a thread, on its way to user space, which makes a name: crates/collect/src/scheduling.rs. The
 * writer of recordings refuses the record's number: only the name is written.
 */
#ifndef WAKEPATH_SCHEDULING_H
#define WAKEPATH_SCHEDULING_H

#include "records.h"

#define WP_SCHEDULING 61

/* Masks are read up to this CPU. */
#define WP_MASK_WORDS 16

struct wp_scheduling {
	struct wp_header h;
	__u32 tid;
	__s8 nice;
	__u8 policy; /* SCHED_OTHER is 0 */
	__u8 priority; /* real-time priority */
	__u8 spare;
	__u64 autogroup; /* the number of its session's group; 0 without */
	__u64 cpuset; /* its cgroup's id in the hierarchy with the cpuset controller; 0: not known */
	__u32 allowed; /* CPUs on which it may run */
	__u32 words; /* read from the mask */
	__u64 cpus[WP_MASK_WORDS];
};
_Static_assert(sizeof(struct wp_scheduling) == 176, "scheduling");

#endif

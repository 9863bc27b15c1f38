/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The counts of latency.bpf.c in the layout that user space reads. */
#ifndef WAKEPATH_LATENCY_H
#define WAKEPATH_LATENCY_H

#include "types.h"

/* Number of targets at most, and one for the calls with which the cost of probes is measured. */
#define WP_TARGETS 64
/* The numbers of system calls are below this. */
#define WP_CALLS 512
/* Number of targets that are disks, at most. */
#define WP_DISK_TARGETS 4

/* Number of groups over all targets, at most. */
#define WP_GROUPS 16384

/* Grouping of the counts. */
enum wp_by { WP_BY_NOBODY, WP_BY_PROCESS, WP_BY_THREAD, WP_BY_CGROUP, WP_BY_CPU_CGROUP };

struct wp_group {
	__u64 id; /* number of a process or thread, or inode of a cgroup */
	__u64 start; /* start of a process or thread, ns of the monotonic clock; 0 for a cgroup */
};

struct wp_group_of_target {
	struct wp_group group;
	__u64 target;
};

struct wp_group_name {
	char comm[16];
	__u32 process; /* the process of a thread */
};

struct wp_distribution {
	__u64 counts[64]; /* from 2^i to below 2^(i+1) ns or cycles */
	__u64 sum; /* ns or cycles */
	__u64 left; /* calls that were unwound without returning */
	__u64 crowded; /* calls that were not counted: no room, or recursion too deep */
};

#endif

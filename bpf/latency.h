/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What latency.bpf.c counts, as user space reads it. */
#ifndef WAKEPATH_LATENCY_H
#define WAKEPATH_LATENCY_H

/* Most targets at once, and one for calls that tell what a probe costs. */
#define WP_TARGETS 64
/* System calls have numbers below this. */
#define WP_CALLS 512
/* Most targets that are disks. */
#define WP_DISK_TARGETS 4

/* Most groups, over all targets. */
#define WP_GROUPS 16384

/* Whose latencies are told apart. */
enum wp_by { WP_BY_NOBODY, WP_BY_PROCESS, WP_BY_THREAD, WP_BY_CGROUP, WP_BY_CPU_CGROUP };

struct wp_group {
	__u64 id; /* a process, a thread, or a cgroup in its hierarchy */
	__u64 start; /* of a process or thread, ns of the monotonic clock */
};

struct wp_group_of_target {
	struct wp_group group;
	__u64 target;
};

struct wp_group_name {
	char comm[16];
	__u32 process; /* whose thread it is */
};

struct wp_distribution {
	__u64 counts[64]; /* from 2^i to below 2^(i+1) ns or cycles */
	__u64 sum; /* ns or cycles */
	__u64 left; /* calls that were left without returning */
	__u64 crowded; /* calls for which there was no room, or no counter */
};

#endif

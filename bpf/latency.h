/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The counts by latency.bpf.c, in user space's layout. */
#ifndef WAKEPATH_LATENCY_H
#define WAKEPATH_LATENCY_H

#include "types.h"

/* System call numbers are below this. */
#define WP_CALLS 512
/* Call numbers of 32-bit programs: behind the system calls', those through socketcall and ipc, by the first argument. */
#define WP_SOCKET_CALLS WP_CALLS
#define WP_IPC_CALLS (WP_SOCKET_CALLS + 32)
#define WP_CALLS_32 (WP_IPC_CALLS + 32)
/* The maximum number of disk targets. */
#define WP_DISK_TARGETS 4

/* The maximum number of groups over all targets. */
#define WP_GROUPS 16384

/* Grouping of the counts. */
enum wp_by { WP_BY_NOBODY, WP_BY_PROCESS, WP_BY_THREAD, WP_BY_CGROUP, WP_BY_CPU_CGROUP };

struct wp_group {
	__u64 id; /* a process's or thread's number, or a cgroup's inode */
	__u64 start; /* a process's or thread's start, CLOCK_MONOTONIC, ns; 0 for a cgroup */
};

struct wp_group_of_target {
	struct wp_group group;
	__u64 target;
};

struct wp_group_name {
	char comm[16];
	__u32 process; /* the thread's process */
};

struct wp_distribution {
	__u64 counts[64]; /* from 2^i to below 2^(i+1) ns or cycles */
	__u64 sum; /* ns or cycles */
	__u64 left; /* calls that were unwound without a return */
	__u64 crowded; /* calls not counted: no room, or recursion too deep */
};

#endif

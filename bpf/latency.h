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

struct wp_distribution {
	__u64 counts[64]; /* from 2^i to below 2^(i+1) ns */
	__u64 sum; /* ns */
	__u64 left; /* calls that were left without returning */
	__u64 crowded; /* calls for which there was no room */
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The variables and maps that all parts of drill.bpf.c use.
 */
#ifndef WAKEPATH_DRILL_STATE_BPF_H
#define WAKEPATH_DRILL_STATE_BPF_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "drill.h"

/* The number of f0, in the cookies of its probes. */
#define F0 0
/* Entries further apart than this are on other stacks: signal handlers, coroutines. A goroutine has one, of any size. */
#define ONE_STACK (of_go ? 1ull << 40 : 8ull << 20)
/* Places on a goroutine's stack are distances from its end, below this. */
#define GOROUTINES_END (1ull << 62)

/* Written by user space. */
__u32 process = 0;
__u32 of_go = 0;
__u32 phase = WP_DRILL_IDLE;
__u64 plan = 0;
__u64 low = 0, high = 0; /* the peak: latencies from `low` to below `high`, ns */
__s64 wanted = 0; /* calls within the peak that are still to be recorded */
/* The node whose code is sampled while it is the innermost one. */
__u32 sampled_node = 0;
/* Functions of the kernel may be on the path. */
__u32 in_kernel = 0;
/* Only calls of f0 that begin between two functions that the program calls are measured (T08 section 3.10). */
__u32 in_phases = 0;
/* The return address that the kernel puts in place of another one lies here. */
__u64 trampoline_from = 0, trampoline_to = 0;
/* Read by user space, and set before the first function. */
__u32 in_phase = 0;
__u64 phases = 0; /* that began */
/* Read by user space. */
__u64 counts[64] = {}; /* calls of f0 by latency: from 2^i to below 2^(i+1) ns */
__u64 sums[64] = {}; /* their latencies together, ns */
__u64 left = 0, crowded = 0, lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* the thread's number, or the address of the goroutine's record */
	__type(value, struct wp_drill_thread);
} drilled SEC(".maps");

/* The state with which a thread begins. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_drill_thread);
} empty_thread SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct wp_drill_edge);
	__type(value, struct wp_drill_child);
} edges SEC(".maps");

/* The functions that call nodes: an entry from elsewhere needs a frame. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} callers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} drill_records SEC(".maps");

static __always_inline struct wp_drill_node *node_of(struct wp_drill_thread *t, __u32 number)
{
	struct wp_drill_node *node;

	asm volatile("" : "+r"(number));
	node = &t->nodes[number & (WP_DRILL_NODES - 1)];
	if (node->call != t->call) {
		__builtin_memset(node, 0, sizeof(*node));
		node->call = t->call;
	}
	return node;
}

#endif

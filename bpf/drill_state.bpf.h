/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The variables and maps for all parts of drill.bpf.c. */
#ifndef WAKEPATH_DRILL_STATE_BPF_H
#define WAKEPATH_DRILL_STATE_BPF_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "drill.h"

/* f0's number in its probes' cookies. */
#define F0 0
/*
 * Entries further apart than this are on different stacks: signal handlers, coroutines. A goroutine has a single stack
 * of any size.
 */
#define ONE_STACK (of_go ? 1ull << 40 : 8ull << 20)
/* Places on a goroutine's stack are distances from the stack's end, below this. */
#define GOROUTINES_END (1ull << 62)

/* Written by user space. */
__u32 process = 0;
__u32 of_go = 0;
__u32 phase = WP_DRILL_IDLE;
__u64 plan = 0;
__u64 low = 0, high = 0; /* the peak: latencies from `low` to below `high`, ns */
__s64 wanted = 0; /* calls within the peak still to be recorded */
/* The node to sample while it is the innermost. */
__u32 sampled_node = 0;
/* Kernel functions may be on the path. */
__u32 in_kernel = 0;
/* Measures only the calls to f0 that begin between two functions in the program (T08 section 3.10). */
__u32 in_phases = 0;
/* The kernel's replacement for a return address lies in this range. */
__u64 trampoline_from = 0, trampoline_to = 0;
/* Read by user space, and set before the first function. */
__u32 in_phase = 0;
__u64 phases = 0; /* begun phases */
/* Read by user space. */
__u64 counts[64] = {}; /* f0's calls by latency: from 2^i to below 2^(i+1) ns */
__u64 sums[64] = {}; /* their total latency, ns */
__u64 left = 0, crowded = 0, lost = 0;
__u64 unseen = 0; /* f0's calls from places without a probe behind the call */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* the thread's number, or the goroutine's address */
	__type(value, struct wp_drill_thread);
} drilled SEC(".maps");

/* A thread's initial state. */
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

/* The functions with child nodes: an entry from another caller needs a frame. */
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

/* Each function's hits at its entry probe, whether its call is measured or not. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WP_DRILL_HITS);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

static __always_inline void count_hit(__u32 function)
{
	__u32 place = function < WP_DRILL_HITS ? function : WP_DRILL_HITS - 1;
	__u64 *count = bpf_map_lookup_elem(&hits, &place);

	if (count)
		(*count)++;
}

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

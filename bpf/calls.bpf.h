/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose calls are of interest: processes that were asked about, and those that they start.
 */
#ifndef WAKEPATH_CALLS_H
#define WAKEPATH_CALLS_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Whatever process it is. */
__weak const volatile bool everyone = false;

/*
 * Process ids, and those of their children, while they live. With when they began: a number is given anew
 * before the one that had it is forgotten. 0: asked about from the start.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, __u64);
} followed SEC(".maps") __weak;

struct begun_key {
	__u64 what; /* a thread, or the address of a request, a lock or a goroutine */
	__u64 target; /* in the upper half the thread of a lock, the process of a goroutine */
};

static __always_inline bool is_followed(__u32 tgid)
{
	return everyone || bpf_map_lookup_elem(&followed, &tgid);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The processes whose calls count: those that were asked about, and those that they start.
 */
#ifndef WAKEPATH_CALLS_H
#define WAKEPATH_CALLS_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* All processes count. */
__weak const volatile bool everyone = false;

/*
 * The ids of these processes while they live, with the stamp of their start, since the kernel reuses an id before
 * its old entry is removed. 0: the process was asked about.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, __u64);
} followed SEC(".maps") __weak;

struct begun_key {
	__u64 what; /* a thread, or the address of a request, a lock or a goroutine */
	__u64 target; /* the upper half holds the thread of a lock, or the process of a goroutine */
};

static __always_inline bool is_followed(__u32 tgid)
{
	return everyone || bpf_map_lookup_elem(&followed, &tgid);
}

#endif

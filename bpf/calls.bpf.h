/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The processes whose calls count: those named by the user, and their children. */
#ifndef WAKEPATH_CALLS_H
#define WAKEPATH_CALLS_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* All processes count, except `left_out`, which counts where it is followed. */
__weak const volatile bool everyone = false;
/* Not yet: user space clears this once all probes are attached, each of which takes it tens of milliseconds. */
bool held_back __weak = false;
/* The recorder's own process, whose calls nobody asks about; 0: no process. */
__weak const volatile __u32 left_out = 0;

/*
 * These processes by id while they live, with their start stamp, since the kernel reuses an id before its old
 * entry is removed. 0: the user named the process.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, __u64);
} followed SEC(".maps") __weak;

struct begun_key {
	__u64 what; /* a thread, or a request's, lock's or goroutine's address */
	__u64 target; /* upper half: a lock's thread, or a goroutine's process */
};

static __always_inline bool is_followed(__u32 tgid)
{
	if (everyone && !held_back && (!left_out || tgid != left_out))
		return true;
	return bpf_map_lookup_elem(&followed, &tgid);
}

#endif

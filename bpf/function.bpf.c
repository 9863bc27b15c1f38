// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Each call of the functions that were asked for, as a record when it ends: a window whose path can be
 * asked for.
 */
#include "ring.bpf.h"

static __always_inline void call_record(__u32 target, __u32 thread, __u64 from, __u32 end)
{
	struct wp_function *r = life_reserve(sizeof(*r), WP_FUNCTION, current_tid());

	if (!r)
		return;
	r->target = target;
	r->end = end;
	r->from = from;
	r->thread = thread;
	r->spare = 0;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline void call_ended(__u32 target, __u32 thread, __u64 from, __u64 to)
{
	call_record(target, thread, from, WP_FUNCTION_RETURNED);
}

static __always_inline void call_left(__u32 target, __u32 thread, __u64 from)
{
	call_record(target, thread, from, WP_FUNCTION_LEFT);
}

/* Calls for which there was no room, by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} calls_crowded SEC(".maps");

static __always_inline void call_crowded(__u32 target)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&calls_crowded, &zero);

	if (count)
		(*count)++;
}

#include "function.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Records each call to the chosen functions when it ends: a window whose path can be explained. */
#include "steal.bpf.h"

/* Time stolen by the hypervisor before a call begins is not the call's; time stolen since then is. */
static __always_inline __u64 stamp(void)
{
	__u64 now = bpf_ktime_get_ns();

	look_whether_stolen_from_thread(now);
	return now;
}

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

static __always_inline void call_ended(__u32 target, __u32 thread, __u32 began_in, bool of_goroutine, __u64 from,
				       __u64 to)
{
	__u32 end = thread != began_in ? WP_FUNCTION_MOVED : of_goroutine ? WP_FUNCTION_STAYED : WP_FUNCTION_RETURNED;

	call_record(target, thread, from, end);
}

static __always_inline void call_left(__u32 target, __u32 thread, __u64 from)
{
	call_record(target, thread, from, WP_FUNCTION_LEFT);
}

/* The number of unrecorded calls, by CPU. */
enum { CROWDED /* there was no room */, UNSEEN /* it is not known when they returned */ };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} calls_untold SEC(".maps");

static __always_inline void call_untold(__u32 why)
{
	__u64 *count = bpf_map_lookup_elem(&calls_untold, &why);

	if (count)
		__sync_fetch_and_add(count, 1);
}

static __always_inline void call_crowded(__u32 target)
{
	call_untold(CROWDED);
}

static __always_inline void call_unseen(__u32 target)
{
	call_untold(UNSEEN);
}

#include "function.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

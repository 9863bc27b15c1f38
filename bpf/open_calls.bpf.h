/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Open function calls: for function.bpf.h and kernel_function.bpf.h. */
#ifndef WAKEPATH_OPEN_CALLS_H
#define WAKEPATH_OPEN_CALLS_H

#include "calls.bpf.h"

/* The including file defines these five. The time: */
static __always_inline __u64 stamp(void);
/* A call has returned. */
static __always_inline void call_ended(__u32 target, __u32 thread, __u32 began_in, bool of_goroutine, __u64 from,
				       __u64 to);
/* A call was unwound. */
static __always_inline void call_left(__u32 target, __u32 thread, __u64 from);
/* A call is not counted for want of room. */
static __always_inline void call_crowded(__u32 target);
/* The beginning or the return of a call was missed. */
static __always_inline void call_unseen(__u32 target);

/* A flag in a probe's cookie, beside the target's number: the function is Go's. */
#define WP_GO (1ull << 32)
/* The function never returns. */
#define WP_NEVER (1ull << 33)
/* A thread may continue on another stack within the function. */
#define WP_SWITCHES (1ull << 34)

/* Its returns are seen behind the calls of it. */
#define WP_CALLERS (1ull << 35)

/* The maximum number of a function's open calls in a thread. */
#define DEEPEST 8

struct open_call {
	__u64 at;
	__u64 sp;
	__u64 thread; /* the thread in which it began */
};

struct open_calls {
	__u64 depth;
	struct open_call calls[DEEPEST];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct begun_key);
	__type(value, struct open_calls);
} open_functions SEC(".maps");

/* The verifier needs the mask, which the compiler would remove as superfluous. */
static __always_inline struct open_call *last_of(struct open_calls *open, __u64 depth)
{
	__u64 place = depth - 1;

	asm volatile("" : "+r"(place));
	return &open->calls[place & (DEEPEST - 1)];
}

/* The function's first open call in this thread or goroutine. */
static __always_inline void open_first(struct begun_key *key, __u64 sp, __u64 self)
{
	struct open_calls first = { 1, { { 0, sp, (__u32)self } } };

	first.calls[0].at = stamp();
	if (bpf_map_update_elem(&open_functions, key, &first, BPF_ANY))
		call_crowded((__u32)key->target);
}

/* A call within `depth` open calls, or in place of unwound calls. */
static __always_inline void open_another(struct open_calls *open, __u64 depth, __u32 target, __u64 sp, __u64 self)
{
	struct open_call *last;

	if (depth >= DEEPEST) {
		open->depth = depth;
		call_crowded(target);
		return;
	}
	last = last_of(open, depth + 1);
	last->sp = sp;
	last->thread = (__u32)self;
	last->at = stamp();
	open->depth = depth + 1;
}

#endif

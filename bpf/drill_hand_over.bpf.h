/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Requests handed over by the program's main path to another thread (T08 section 3.13).
 *
 * A function on the main path is called with a request's address, and f0 begins with the same address later. Only such calls to
 * f0 are measured. The address is only compared, never followed.
 */
#ifndef WAKEPATH_DRILL_HAND_OVER_BPF_H
#define WAKEPATH_DRILL_HAND_OVER_BPF_H

#include "drill_frames.bpf.h"
#include "drill_target.bpf.h"

/* The maximum number of requests handed over and not begun. */
#define MAX_REQUESTS 16384
/* Instead of the time since the hand-over: f0 was called with another address. */
#define NOT_HANDED_OVER (~0ull)

/* Written by user space. Only calls to f0 with a handed-over request count. */
__u32 by_request = 0;
/* The register of f0's request argument, in x86's numbering. */
__u32 request_register = 0;
/* Only requests handed over within a call to another function count. */
__u32 handed_over_within = 0;
/*
 * Read by user space: calls to the handing function; among them the calls outside the other function, without an address, and
 * without room.
 */
__u64 submitted = 0, submitted_outside = 0, submitted_null = 0, submitted_crowded = 0;
/* f0's calls with such a request; their total time since the hand-over, ns; f0's calls with another address. */
__u64 requests_begun = 0, requests_queued = 0, calls_of_others = 0;

/* The stamp of a request's hand-over, ns. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_REQUESTS);
	__type(key, __u64);
	__type(value, __u64);
} requests SEC(".maps");

/* The stack place of a thread's outermost call to the other function. Calls unwound by an exception make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* as in `drilled` */
	__type(value, __u64);
} outer_calls SEC(".maps");

/* Whether a stack place belongs to a call within the call at `outer`: the stack grows down. */
static __always_inline bool lies_within(__u64 sp, __u64 outer)
{
	return sp <= outer && outer - sp <= ONE_STACK;
}

static __always_inline bool is_outside(struct pt_regs *ctx)
{
	__u64 who, sp = ctx->sp, *outer;

	if (!find_caller(ctx, &who, &sp))
		return true;
	outer = bpf_map_lookup_elem(&outer_calls, &who);
	return !outer || !lies_within(sp, *outer);
}

/* The handing function begins: the cookie is the request's register. */
static __always_inline int hand_over(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), request = value_of(ctx, (__u8)bpf_get_attach_cookie(ctx));

	/* Before f0 has probes, it may begin with the request without taking it out. */
	if (bpf_get_current_pid_tgid() >> 32 != process || phase == WP_DRILL_IDLE)
		return 0;
	__sync_fetch_and_add(&submitted, 1);
	if (handed_over_within && is_outside(ctx))
		__sync_fetch_and_add(&submitted_outside, 1);
	else if (!request)
		__sync_fetch_and_add(&submitted_null, 1);
	else if (bpf_map_update_elem(&requests, &request, &now, BPF_ANY))
		__sync_fetch_and_add(&submitted_crowded, 1);
	return 0;
}

/* f0 begins: the time since its request's hand-over, or NOT_HANDED_OVER. From now on the address may mean another request. */
static __always_inline __u64 take_request(struct pt_regs *ctx)
{
	__u64 request = value_of(ctx, (__u8)request_register), now = bpf_ktime_get_ns(), since;
	__u64 *at = bpf_map_lookup_elem(&requests, &request);

	if (!at)
		return NOT_HANDED_OVER;
	since = *at;
	/* If several calls begin with it at the same time, only a single call gets it. */
	if (bpf_map_delete_elem(&requests, &request))
		return NOT_HANDED_OVER;
	return now > since ? now - since : 0;
}

/* Whether a call to f0 counts. */
static __always_inline bool is_handed_over(__u64 queued)
{
	if (!by_request)
		return true;
	if (queued == NOT_HANDED_OVER) {
		__sync_fetch_and_add(&calls_of_others, 1);
		return false;
	}
	__sync_fetch_and_add(&requests_begun, 1);
	__sync_fetch_and_add(&requests_queued, queued);
	return true;
}

static __always_inline int enter_outer(struct pt_regs *ctx)
{
	__u64 who, sp = ctx->sp, *outer;

	if (bpf_get_current_pid_tgid() >> 32 != process || !find_caller(ctx, &who, &sp))
		return 0;
	outer = bpf_map_lookup_elem(&outer_calls, &who);
	if (!outer || !lies_within(sp, *outer))
		bpf_map_update_elem(&outer_calls, &who, &sp, BPF_ANY);
	return 0;
}

/* At a return the stack pointer is `above` the entry's. */
static __always_inline int leave_outer(struct pt_regs *ctx, __u64 above)
{
	__u64 who, sp = ctx->sp - above, *outer;

	if (bpf_get_current_pid_tgid() >> 32 != process || !find_caller(ctx, &who, &sp))
		return 0;
	outer = bpf_map_lookup_elem(&outer_calls, &who);
	if (outer && *outer <= sp)
		bpf_map_delete_elem(&outer_calls, &who);
	return 0;
}

SEC("uprobe.multi")
int drill_hand_over(struct pt_regs *ctx)
{
	return hand_over(ctx);
}

SEC("uprobe")
int drill_hand_over_one(struct pt_regs *ctx)
{
	return hand_over(ctx);
}

SEC("uprobe.multi")
int drill_outer(struct pt_regs *ctx)
{
	return enter_outer(ctx);
}

SEC("uprobe")
int drill_outer_one(struct pt_regs *ctx)
{
	return enter_outer(ctx);
}

SEC("uretprobe.multi")
int drill_outer_return(struct pt_regs *ctx)
{
	return leave_outer(ctx, 8);
}

SEC("uretprobe")
int drill_outer_return_one(struct pt_regs *ctx)
{
	return leave_outer(ctx, 8);
}

/* At a return instruction. */
SEC("uprobe.multi")
int drill_outer_leave(struct pt_regs *ctx)
{
	return leave_outer(ctx, 0);
}

SEC("uprobe")
int drill_outer_leave_one(struct pt_regs *ctx)
{
	return leave_outer(ctx, 0);
}

#endif

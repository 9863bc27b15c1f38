/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls of functions that may leave by a jump: their returns are seen behind the call instructions. All functions that a call went to by jumps
 * return there together. A probe at the call instruction says that a new call begins: without it, a call that an exception ended could not be
 * distinguished from one that came back to its own function by jumps.
 *
 * The places of f0's calls are learned (callers.bpf.h); those of its callees are known from their callers' code.
 */
#ifndef WAKEPATH_DRILL_BEHIND_BPF_H
#define WAKEPATH_DRILL_BEHIND_BPF_H

#include "drill_calls.bpf.h"

/* The probed places at and behind calls of f0's callees, by address in the process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct wp_call_place);
} call_places SEC(".maps");

static __always_inline struct wp_call_place *count_place(struct pt_regs *ctx)
{
	__u64 at = ctx->ip;
	struct wp_call_place *place = bpf_map_lookup_elem(&call_places, &at);

	if (place)
		__sync_fetch_and_add(&place->hits, 1);
	return place;
}

/* Ends the open calls that return to this place; calls below it were unwound. Whether one ended. */
static __always_inline bool end_behind(struct pt_regs *ctx, struct wp_drill_thread *t)
{
	__u64 now = bpf_ktime_get_ns(), sp = ctx->sp - 8, latency = 0;
	bool ended = false;

	charge_stolen(t);
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		__u32 depth = t->depth;
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		if (goes_on_above(top, sp))
			break;
		if (top->sp == sp && top->returns_to == ctx->ip) {
			latency = end_call(t, top, now);
			ended = true;
		} else {
			drop_call(t, top);
			ended = false;
		}
	}
	if (ended && !t->depth)
		finish(t, latency);
	return ended;
}

static __always_inline int returned(struct pt_regs *ctx)
{
	struct wp_call_place *place = NULL;
	bool is_known = bpf_get_attach_cookie(ctx) == WP_DRILL_CALL_PLACE;
	struct wp_drill_thread *t;
	__u64 who = (__u32)bpf_get_current_pid_tgid();

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	if (is_known)
		place = count_place(ctx);
	t = bpf_map_lookup_elem(&drilled, &who);
	if (t && t->depth && end_behind(ctx, t)) {
		t->ended_at = ctx->ip;
		t->ended_sp = ctx->sp;
		return 0;
	}
	if (t && t->ended_at == ctx->ip && t->ended_sp == ctx->sp) {
		t->ended_at = 0;
		return 0;
	}
	/* In a call of f0 that is not measured below f0, nothing shows whose return this is. */
	if (!is_known)
		count_stray(ctx, F0);
	else if (place && !(t && t->depth && !t->plan))
		__sync_fetch_and_add(&place->strays, 1);
	return 0;
}

/* At a call instruction: the calls that lie below it are over. */
static __always_inline int calls_at(struct pt_regs *ctx)
{
	struct wp_drill_thread *t;
	__u64 who = (__u32)bpf_get_current_pid_tgid();

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	count_place(ctx);
	t = bpf_map_lookup_elem(&drilled, &who);
	if (!t)
		return 0;
	t->ended_at = 0;
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		__u32 depth = t->depth;
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		if (goes_on_above(top, ctx->sp - 8))
			break;
		drop_call(t, top);
	}
	return 0;
}

SEC("uprobe.multi")
int drill_returned(struct pt_regs *ctx)
{
	return returned(ctx);
}

SEC("uprobe")
int drill_returned_one(struct pt_regs *ctx)
{
	return returned(ctx);
}

SEC("uprobe.multi")
int drill_called(struct pt_regs *ctx)
{
	return calls_at(ctx);
}

SEC("uprobe")
int drill_called_one(struct pt_regs *ctx)
{
	return calls_at(ctx);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Functions that may leave by a jump: their returns are seen behind the call instructions. All functions reached by jumps return there
 * together. A probe at the call instruction shows a new call: without it, a call ended by an exception could not be distinguished from a
 * call that came back to its own function by jumps.
 *
 * The places of f0's calls are learned (callers.bpf.h); those of its callees are known from their callers' code.
 */
#ifndef WAKEPATH_DRILL_BEHIND_BPF_H
#define WAKEPATH_DRILL_BEHIND_BPF_H

#include "drill_calls.bpf.h"

/* The probed places at and behind the calls to f0's callees, by address in the process. */
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

/* Ends the open calls with this place as their return address; calls below it were unwound. Whether any ended. */
static __always_inline bool end_behind(struct pt_regs *ctx, struct wp_drill_thread *t)
{
	__u64 now = bpf_ktime_get_ns(), sp = ctx->sp - 8, behind = ctx->ip;
	struct wp_drill_frame *outermost;
	__u32 depth;

	charge_stolen(t);
	drop_deeper(t, sp);
	depth = t->depth;
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		if (top->sp != sp)
			break;
		if (top->returns_to != behind)
			t->left += is_unwound(top);
		depth--;
	}
	if (depth == t->depth)
		return false;
	/* Through memory: to the kernel's verifier each turn's end would be another case. */
	*(volatile __u64 *)&t->ended_sp = depth;
	depth = *(volatile __u64 *)&t->ended_sp;
	if (depth >= WP_DRILL_DEEPEST)
		return false;
	if (t->depth - depth > WP_DRILL_JUMPS)
		t->crowded = 1;
	outermost = frame_at(t, depth);
	end_calls(t, depth, sp, behind, now);
	return outermost->returns_to == behind;
}

static __always_inline int returned(struct pt_regs *ctx)
{
	struct wp_call_place *place;
	struct wp_drill_thread *t;
	__u64 who = (__u32)bpf_get_current_pid_tgid();
	bool ended;

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	t = bpf_map_lookup_elem(&drilled, &who);
	/* All else comes behind it: each branch before would double the work of the kernel's verifier. */
	ended = t && t->depth && end_behind(ctx, t);
	place = bpf_get_attach_cookie(ctx) == WP_DRILL_CALL_PLACE ? count_place(ctx) : NULL;
	if (ended) {
		t->ended_at = ctx->ip;
		t->ended_sp = ctx->sp;
		return 0;
	}
	if (t && t->ended_at == ctx->ip && t->ended_sp == ctx->sp) {
		t->ended_at = 0;
		return 0;
	}
	/* In an f0 call without measured callees, nothing shows whose return this is. */
	if (bpf_get_attach_cookie(ctx) != WP_DRILL_CALL_PLACE)
		count_stray(ctx, F0);
	else if (place && !(t && t->depth && !t->plan))
		__sync_fetch_and_add(&place->strays, 1);
	return 0;
}

/* At a call instruction: the calls below it are over. */
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
	/* The call beginning here will lie 8 bytes deeper, where none is open yet. */
	drop_deeper(t, ctx->sp);
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

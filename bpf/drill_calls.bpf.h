/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The program's functions: entries and returns, with both ends of a call to f0. */
#ifndef WAKEPATH_DRILL_CALLS_BPF_H
#define WAKEPATH_DRILL_CALLS_BPF_H

#include "callers.bpf.h"
#include "drill_frames.bpf.h"
#include "drill_steal.bpf.h"
#include "drill_hand_over.bpf.h"
#include "log2.bpf.h"

/*
 * A call to f0 begins. `queued`: the waiting time of its request, ns. `returns_to`: its return address, if its return is seen there; else 0.
 */
static __always_inline void begin(__u64 who, struct wp_drill_thread *t, __u64 sp, __u64 queued, __u64 returns_to)
{
	__u32 zero = 0, tid = (__u32)bpf_get_current_pid_tgid();

	if ((in_phases && !in_phase) || !is_handed_over(queued))
		return;
	if (!t) {
		struct wp_drill_thread *empty = bpf_map_lookup_elem(&empty_thread, &zero);

		if (!empty || bpf_map_update_elem(&drilled, &who, empty, BPF_NOEXIST)) {
			__sync_fetch_and_add(&crowded, 1);
			return;
		}
		t = bpf_map_lookup_elem(&drilled, &who);
		if (!t)
			return;
	}
	t->tid = tid;
	t->queued = queued;
	t->call++;
	t->plan = phase == WP_DRILL_MEASURE && wanted > 0 ? plan : 0;
	t->depth = t->innermost = t->crowded = t->left = t->samples = 0;
	t->off_at = t->ready_at = t->interrupted_at = 0;
	t->state = 0;
	t->python_calls = t->python_balance = t->python_steps = 0;
	begin_steal(t);
	if (with_stubs && t->plan)
		begin_stubs(t);
	open_call(t, sp, F0, 0, returns_to);
	if (with_stubs && t->state) {
		struct wp_stub_state *state = stub_state(t);

		/* Last: stubs may measure from now on. */
		if (state)
			state->of = t->stub_call;
	}
}

/*
 * Whether a call without a node went to a function by a jump, and both returns are seen at the same place: a single frame stands for both,
 * also for functions jumping to each other again and again.
 */
static __always_inline bool is_jump_outside(const struct wp_drill_frame *top, __u64 sp, __u64 behind)
{
	return behind && top->sp == sp && top->node == WP_DRILL_OUTSIDE && top->returns_to == behind;
}

static __always_inline int enter(struct pt_regs *ctx)
{
	__u64 who, sp = ctx->sp, probe = bpf_get_attach_cookie(ctx), returns_to, behind;
	__u32 function = (__u32)probe, depth;
	struct wp_drill_child *child;
	struct wp_drill_thread *t;
	struct wp_drill_edge edge = { 0, function, 0 };
	__u64 queued = 0;

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	count_hit(function);
	if (phase == WP_DRILL_IDLE || !find_caller(ctx, &who, &sp))
		return 0;
	if (bpf_probe_read_user(&returns_to, sizeof(returns_to), (void *)ctx->sp))
		returns_to = 0;
	behind = probe & WP_DRILL_BEHIND ? returns_to : 0;
	if (probe & WP_DRILL_BEHIND && function == F0 && (!behind || !is_known_place(behind, F0))) {
		__sync_fetch_and_add(&unseen, 1);
		return 0;
	}
	if (by_request && function == F0)
		queued = take_request(ctx);
	t = bpf_map_lookup_elem(&drilled, &who);
	if (!t || !t->depth) {
		if (function == F0)
			begin(who, t, sp, queued, behind);
		return 0;
	}
	charge_stolen(t);
	edge.returns_to = returns_to;
	depth = t->depth;
	/*
	 * The stack grows down: open calls lie above. A call at the same place went to this function by a jump, or was
	 * unwound, as were the calls below.
	 */
#pragma unroll
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		if (goes_on_above(top, sp) && !is_overwritten(top))
			break;
		/* A call writes its own return address; at a jump, the earlier function's is there, which still has to return. */
		if (top->sp == sp && (!top->returns_to || top->returns_to == returns_to || is_replaced(returns_to))) {
			struct wp_drill_edge jump = { top->node, function, 0 };

			if (t->plan && top->node != WP_DRILL_OUTSIDE && bpf_map_lookup_elem(&edges, &jump)) {
				edge.returns_to = 0;
				break;
			}
			if (is_replaced(returns_to))
				break;
			/* Nothing distinguishes a new f0 call from the same place. */
			if (top->returns_to && (top->function != F0 || function != F0))
				break;
		}
		forget_call(t, top);
		depth--;
	}
	t->depth = depth;
	if (!depth) {
		__sync_fetch_and_add(&left, 1);
		if (function == F0)
			begin(who, t, sp, queued, behind);
		return 0;
	}
	if (!t->plan) {
		/* Only f0's latency counts, for its outermost call. */
		if (function == F0)
			open_call(t, sp, function, WP_DRILL_OUTSIDE, behind);
		return 0;
	}
	if (with_stubs && t->state) {
		int node = child_of_list(ctx, t, sp, &edge);

		if (node >= 0)
			open_call(t, sp, function, node, behind);
		else if (function == F0)
			open_call(t, sp, function, WP_DRILL_OUTSIDE, behind);
		return 0;
	}
	edge.parent = frame_at(t, depth - 1)->node;
	child = edge.parent == WP_DRILL_OUTSIDE ? NULL : bpf_map_lookup_elem(&edges, &edge);
	if (child)
		open_call(t, sp, function, child->node, behind);
	else if (bpf_map_lookup_elem(&callers, &function) && !is_jump_outside(frame_at(t, depth - 1), sp, behind))
		open_call(t, sp, function, WP_DRILL_OUTSIDE, behind);
	return 0;
}

/* A call to f0 has returned. */
static __always_inline void finish(struct wp_drill_thread *t, __u64 latency)
{
	__u32 bucket = log2_of(latency) & 63;

	__sync_fetch_and_add(&counts[bucket], 1);
	__sync_fetch_and_add(&sums[bucket], latency);
	if (with_stubs && t->plan)
		end_stubs(t, t->plan == plan && latency >= low && latency < high);
	if (t->crowded)
		__sync_fetch_and_add(&crowded, 1);
	if (!t->plan || t->plan != plan || t->crowded || latency < low || latency >= high)
		return;
	if (__sync_fetch_and_add(&wanted, -1) <= 0)
		return;
	t->latency = latency;
	if (bpf_ringbuf_output(&drill_records, t, sizeof(*t), 0))
		__sync_fetch_and_add(&lost, 1);
}

/*
 * Forgets the open calls but the outermost `depth`. Those at `sp` have returned now, ns: the call made there, and the functions
 * it reached by jumps; at a place behind calls (not 0), those that return to it.
 */
static __always_inline void end_calls(struct wp_drill_thread *t, __u32 depth, __u64 sp, __u64 behind, __u64 now)
{
	__u32 open = t->depth;
	struct wp_drill_frame *outermost = frame_at(t, depth);
	bool ends = outermost->sp == sp && (!behind || outermost->returns_to == behind);

	t->latency = now > outermost->at ? now - outermost->at : 0;
	for (int i = 0; i < WP_DRILL_JUMPS; i++) {
		struct wp_drill_frame *frame = frame_at(t, depth + i);
		struct wp_drill_node *node;
		__u64 latency;

		if (depth + i >= open)
			break;
		if (frame->sp != sp || (behind && frame->returns_to != behind) || frame->node == WP_DRILL_OUTSIDE || !t->plan)
			continue;
		latency = now > frame->at ? now - frame->at : 0;
		node = node_of(t, frame->node);
		if (latency > node->max)
			node->max = latency;
		node->sum += latency;
		node->count++;
	}
	t->innermost = outermost->around;
	if (with_stubs && outermost->around_call) {
		struct wp_stub_state *state = stub_state(t);

		if (state)
			state->innermost = outermost->around_call;
	}
	t->depth = depth;
	if (depth)
		return;
	if (ends)
		finish(t, t->latency);
	else
		__sync_fetch_and_add(&left, 1);
}

/* At a return the stack pointer is `above` the entry's, since the return address may be popped already. */
static __always_inline int leave(struct pt_regs *ctx, __u64 above)
{
	__u64 now = bpf_ktime_get_ns(), who, sp = ctx->sp - above;
	__u32 function = (__u32)bpf_get_attach_cookie(ctx), depth;
	struct wp_drill_thread *t;

	if (bpf_get_current_pid_tgid() >> 32 != process || !find_caller(ctx, &who, &sp))
		return 0;
	t = bpf_map_lookup_elem(&drilled, &who);
	if (!t || !t->depth)
		return 0;
	charge_stolen(t);
	drop_deeper(t, sp);
	depth = t->depth;
	for (int i = 0; i <= WP_DRILL_JUMPS; i++) {
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		/* If it lies above, the call began before the probe existed. */
		if (top->sp != sp)
			break;
		depth--;
		if (top->function == function) {
			end_calls(t, depth, sp, 0, now);
			break;
		}
		/* It jumped to this function, which has no frame; or this function jumped to it, and both return here. */
		if (!top->returns_to)
			break;
	}
	return 0;
}

/* A single link for many places, if the kernel can attach it for all threads of a process. */
SEC("uprobe.multi")
int drill_enter(struct pt_regs *ctx)
{
	return enter(ctx);
}

SEC("uretprobe.multi")
int drill_return(struct pt_regs *ctx)
{
	return leave(ctx, 8);
}

/* At a return instruction. */
SEC("uprobe.multi")
int drill_leave(struct pt_regs *ctx)
{
	return leave(ctx, 0);
}

SEC("uprobe")
int drill_enter_one(struct pt_regs *ctx)
{
	return enter(ctx);
}

SEC("uretprobe")
int drill_return_one(struct pt_regs *ctx)
{
	return leave(ctx, 8);
}

SEC("uprobe")
int drill_leave_one(struct pt_regs *ctx)
{
	return leave(ctx, 0);
}

/* A function that begins or ends a phase of the program: cookie 1 or 0. */
static __always_inline int mark(struct pt_regs *ctx)
{
	__u32 begins = (__u32)bpf_get_attach_cookie(ctx);

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	if (begins && !in_phase)
		__sync_fetch_and_add(&phases, 1);
	in_phase = begins;
	return 0;
}

SEC("uprobe.multi")
int drill_mark(struct pt_regs *ctx)
{
	return mark(ctx);
}

SEC("uprobe")
int drill_mark_one(struct pt_regs *ctx)
{
	return mark(ctx);
}

#endif

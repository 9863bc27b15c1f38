/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls by kernel functions, for drill.bpf.c.
 *
 * 1. A call's probes are kprobes in the caller's code: at the call instruction, and where the call returns to (Traeger 2008,
 *    section 3.2). So calls to the same function from other places cost nothing, the return of a callee that leaves by a jump is
 *    seen, no return address is replaced, and the callee itself need not allow a probe.
 * 2. All open calls with their return address at the same place return together: a function, and the functions that it jumped to.
 *    So the place on the stack alone identifies a return.
 * 3. A place on a kernel stack is the distance from the stack's lowest address. It is below all places on a user stack: a kernel
 *    call lies within the program's calls around the system call.
 * 4. Code on another stack than the thread's own (an interrupt, a softirq) makes no calls for the thread.
 */
#ifndef WAKEPATH_DRILL_KERNEL_BPF_H
#define WAKEPATH_DRILL_KERNEL_BPF_H

#include "drill_calls.bpf.h"
#include "drill_target.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WP_DRILL_PLACES);
	__type(key, __u32);
	__type(value, struct wp_drill_place);
} places SEC(".maps");

/* The functions called indirectly: numbers by address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u32);
} called SEC(".maps");

/* A place on the current thread's kernel stack; 0 on another stack. */
static __always_inline __u64 kernel_place(__u64 sp)
{
	__u64 place = sp - (__u64)bpf_get_current_task_btf()->stack;

	return place < KERNEL_STACK ? place : 0;
}

/* Whether the processor follows a conditional jump (Intel SDM, volume 1, appendix B). */
static __always_inline bool is_taken(struct pt_regs *ctx, __u8 condition)
{
	__u64 flags = ctx->flags;
	bool carry = flags & 1, parity = flags & 4, zero = flags & 0x40, sign = flags & 0x80, overflow = flags & 0x800;
	bool taken = false;

	switch (condition >> 1) {
	case 0:
		taken = overflow;
		break;
	case 1:
		taken = carry;
		break;
	case 2:
		taken = zero;
		break;
	case 3:
		taken = carry || zero;
		break;
	case 4:
		taken = sign;
		break;
	case 5:
		taken = parity;
		break;
	case 6:
		taken = sign != overflow;
		break;
	case 7:
		taken = zero || sign != overflow;
		break;
	default:
		return true;
	}
	return taken != (condition & 1);
}

/* The open calls with their return address at `slot` return now. Deeper open calls returned unseen. */
static __always_inline void close_kernel(struct wp_drill_thread *t, __u64 slot, __u64 now)
{
	__u32 depth = t->depth;

#pragma unroll
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			return;
		top = frame_at(t, depth - 1);
		if (top->sp > slot)
			return;
		t->depth = --depth;
		t->innermost = top->around;
		if (top->sp == slot) {
			__u64 latency = now > top->at ? now - top->at : 0;

			if (top->node != WP_DRILL_OUTSIDE && t->plan) {
				struct wp_drill_node *node = node_of(t, top->node);

				if (latency > node->max)
					node->max = latency;
				node->sum += latency;
				node->count++;
			}
			if (!depth) {
				finish(t, latency);
				return;
			}
		} else if (top->node != WP_DRILL_OUTSIDE) {
			t->left++;
		}
		if (!depth)
			__sync_fetch_and_add(&left, 1);
	}
}

/*
 * Removes the open calls that must have returned unseen, since a call is made at a higher place; with `same`, also at the same
 * place.
 */
static __always_inline void leave_kernel(struct wp_drill_thread *t, __u64 slot, bool same)
{
	__u32 depth = t->depth;

#pragma unroll
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		if (top->sp > slot || (top->sp == slot && !same))
			break;
		if (top->node != WP_DRILL_OUTSIDE)
			t->left++;
		t->innermost = top->around;
		t->depth = --depth;
	}
	if (!depth)
		__sync_fetch_and_add(&left, 1);
}

static __always_inline void enter_kernel(__u64 who, struct wp_drill_thread *t, __u64 sp, __u32 function)
{
	struct wp_drill_frame *top;

	if (t && t->depth) {
		leave_kernel(t, sp, false);
		/* f0 at its last call's place: the last call returned unseen. */
		if (function == F0 && t->depth == 1 && frame_at(t, 0)->sp == sp) {
			t->depth = 0;
			__sync_fetch_and_add(&left, 1);
		}
	}
	if (!t || !t->depth) {
		if (function == F0)
			begin(who, t, sp, 0, 0);
		return;
	}
	top = frame_at(t, t->depth - 1);
	/* A system call's function, whose place was not known before. */
	if (top->sp == KERNEL_STACK && top->function == function) {
		top->sp = sp;
		return;
	}
	/* The probe at the call has opened it; or a measured function jumped here. */
	if (top->sp == sp)
		return;
	/* Otherwise it has another caller: its calls belong to no node. */
	if (t->plan || function == F0)
		open_frame(t, sp, function, WP_DRILL_OUTSIDE);
}

static __always_inline void call_kernel(struct pt_regs *ctx, struct wp_drill_thread *t, __u64 slot,
					struct wp_drill_place *place, struct wp_drill_edge *edge)
{
	struct wp_drill_child *child;
	bool jumps = !edge->returns_to;

	if (jumps && !is_taken(ctx, place->condition))
		return;
	leave_kernel(t, slot, !jumps);
	if (!t->depth)
		return;
	if (place->roles & WP_DRILL_INDIRECT) {
		__u64 target = value_of(ctx, place->operand.base);
		__u32 *function;

		if (place->operand.in_memory) {
			target += value_of(ctx, place->operand.index) * place->operand.scale +
				  place->operand.displacement;
			if (bpf_probe_read_kernel(&target, sizeof(target), (void *)target))
				return;
		}
		function = bpf_map_lookup_elem(&called, &target);
		if (!function)
			return;
		edge->function = *function;
	}
	edge->parent = frame_at(t, t->depth - 1)->node;
	child = edge->parent == WP_DRILL_OUTSIDE ? NULL : bpf_map_lookup_elem(&edges, edge);
	if (child)
		open_frame(t, slot, edge->function, child->node);
}

/* At a place in the kernel's code. */
SEC("kprobe")
int drill_kernel(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), who = (__u32)bpf_get_current_pid_tgid(), sp;
	__u32 index = (__u32)bpf_get_attach_cookie(ctx);
	struct wp_drill_edge edge = {};
	struct wp_drill_place *place;
	struct wp_drill_thread *t;

	if (bpf_get_current_pid_tgid() >> 32 != process || phase == WP_DRILL_IDLE)
		return 0;
	place = bpf_map_lookup_elem(&places, &index);
	sp = kernel_place(ctx->sp);
	if (!place || !sp)
		return 0;
	t = bpf_map_lookup_elem(&drilled, &who);
	if (t && t->depth) {
		charge_stolen(t);
		if (place->roles & WP_DRILL_CLOSES)
			close_kernel(t, sp - 8, now);
		/* A return instruction may stand directly behind a call. */
		if (place->roles & WP_DRILL_RETURNS && is_taken(ctx, place->condition))
			close_kernel(t, sp, now);
	}
	if (place->roles & WP_DRILL_ENTERS)
		enter_kernel(who, t, sp, place->function);
	if (!t || !t->depth || !t->plan)
		return 0;
	edge.function = place->function;
	if (place->roles & WP_DRILL_OPENS) {
		edge.returns_to = place->returns_to;
		call_kernel(ctx, t, edge.returns_to ? sp - 8 : sp, place, &edge);
	} else if (place->roles & WP_DRILL_CALLED) {
		if (!bpf_probe_read_kernel(&edge.returns_to, sizeof(edge.returns_to), (void *)ctx->sp))
			call_kernel(ctx, t, sp, place, &edge);
	}
	return 0;
}

/* f0's return, if not all its return instructions are known. */
SEC("kretprobe")
int drill_kernel_return(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), sp = kernel_place(ctx->sp);
	__u32 who = (__u32)bpf_get_current_pid_tgid();
	struct wp_drill_thread *t;
	__u64 key = who;

	if (bpf_get_current_pid_tgid() >> 32 != process || !sp)
		return 0;
	t = bpf_map_lookup_elem(&drilled, &key);
	if (t && t->depth) {
		charge_stolen(t);
		close_kernel(t, sp - 8, now);
	}
	return 0;
}

/* Watched system call instructions: numbers by the address behind them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WP_DRILL_OPERANDS);
	__type(key, __u64);
	__type(value, __u32);
} watched_calls SEC(".maps");

/* A system call in the process: a call to the kernel function with its number. */
SEC("tp_btf/sys_enter")
int BPF_PROG(drill_call_enter, struct pt_regs *regs, long number)
{
	__u64 who = (__u32)bpf_get_current_pid_tgid(), called_by = regs->ip, nr = number;
	struct wp_drill_edge edge = { 0, 0, called_by };
	struct wp_drill_thread *t;
	__u32 *site, *function;

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	site = bpf_map_lookup_elem(&watched_calls, &called_by);
	if (site)
		count_target(*site, nr);
	t = bpf_map_lookup_elem(&drilled, &who);
	function = bpf_map_lookup_elem(&called, &nr);
	if (!t || !t->depth || !t->plan || !function)
		return 0;
	charge_stolen(t);
	leave_kernel(t, KERNEL_STACK, true);
	if (!t->depth)
		return 0;
	edge.function = *function;
	edge.parent = frame_at(t, t->depth - 1)->node;
	if (edge.parent != WP_DRILL_OUTSIDE) {
		struct wp_drill_child *child = bpf_map_lookup_elem(&edges, &edge);

		if (child)
			open_frame(t, KERNEL_STACK, edge.function, child->node);
	}
	return 0;
}

/* At its end the function returns, with the functions that it jumped to: the outermost kernel calls. */
SEC("tp_btf/sys_exit")
int BPF_PROG(drill_call_exit)
{
	__u64 now = bpf_ktime_get_ns(), who = (__u32)bpf_get_current_pid_tgid(), slot = 0;
	struct wp_drill_thread *t;
	__u32 depth;

	if (bpf_get_current_pid_tgid() >> 32 != process)
		return 0;
	t = bpf_map_lookup_elem(&drilled, &who);
	if (!t)
		return 0;
	depth = t->depth;
#pragma unroll
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		__u64 sp;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		sp = frame_at(t, --depth)->sp;
		if (!of_kernel_stack(sp))
			break;
		slot = sp;
	}
	if (slot) {
		charge_stolen(t);
		close_kernel(t, slot, now);
	}
	return 0;
}

/* At an indirect call in kernel code: counts its target. */
SEC("kprobe")
int drill_kernel_target(struct pt_regs *ctx)
{
	return kernel_place(ctx->sp) ? call_indirectly(ctx, true) : 0;
}

#endif

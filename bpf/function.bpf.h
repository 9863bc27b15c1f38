/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Entries and returns of user functions, put together to calls. A thread's open calls of a function are a
 * stack of (stamp, stack pointer). A return belongs to the entry with its stack pointer; what is above that,
 * or below the stack pointer of a new entry, was left without returning (longjmp, an exception).
 *
 * Whoever includes this says before what becomes of a call: call_ended, call_left, call_crowded.
 */
#ifndef WAKEPATH_FUNCTION_H
#define WAKEPATH_FUNCTION_H

#include "calls.bpf.h"

/* In a probe's cookie, beside the target's number: the function is one of Go's. */
#define WP_GO (1ull << 32)
/* It never returns. */
#define WP_NEVER (1ull << 33)

/* Deepest recursion that is told apart. */
#define DEEPEST 8

struct open_call {
	__u64 at;
	__u64 sp;
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

/* Entries further apart than this are on other stacks: signal handlers, coroutines. */
#define ONE_STACK (8ull << 20)

/*
 * Whose call it is, and where on its stack. A goroutine goes on in another thread, and its stack moves:
 * it is known by what Go keeps in r14, and its calls return in their order.
 */
static __always_inline void whose(struct pt_regs *ctx, struct begun_key *key, __u64 *sp)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);

	key->target = (__u32)cookie;
	if (cookie & WP_GO) {
		key->what = ctx->r14;
		*sp = 0;
	} else {
		key->what = (__u32)bpf_get_current_pid_tgid();
		*sp = ctx->sp;
	}
}

/* The verifier has to see the mask: the compiler knows that it is not needed. */
static __always_inline struct open_call *last_of(struct open_calls *open, __u64 depth)
{
	__u64 place = depth - 1;

	asm volatile("" : "+r"(place));
	return &open->calls[place & (DEEPEST - 1)];
}

SEC("uprobe")
int function_enter(struct pt_regs *ctx)
{
	struct open_calls *open;
	struct begun_key key;
	__u64 depth, sp;
	__u32 target;

	if (!is_followed(bpf_get_current_pid_tgid() >> 32))
		return 0;
	whose(ctx, &key, &sp);
	target = key.target;
	if (bpf_get_attach_cookie(ctx) & WP_NEVER) {
		call_left(target, bpf_get_current_pid_tgid(), bpf_ktime_get_ns());
		return 0;
	}
	open = bpf_map_lookup_elem(&open_functions, &key);
	if (!open) {
		struct open_calls first = { 1, { { 0, sp } } };

		first.calls[0].at = bpf_ktime_get_ns();
		if (bpf_map_update_elem(&open_functions, &key, &first, BPF_ANY))
			call_crowded(target);
		return 0;
	}
	depth = open->depth;
	/*
	 * The stack grows down: what is open lies above. A call at the same place as this one is over too,
	 * unless it went on here by a jump, which is rarer than a loop around what throws.
	 */
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		struct open_call *last;

		if (!sp || !depth || depth > DEEPEST)
			break;
		last = last_of(open, depth);
		if (last->sp > sp || sp - last->sp > ONE_STACK)
			break;
		call_left(target, bpf_get_current_pid_tgid(), last->at);
		depth--;
	}
	if (depth >= DEEPEST) {
		open->depth = depth;
		call_crowded(target);
		return 0;
	}
	open->calls[depth & (DEEPEST - 1)].sp = sp;
	open->calls[depth & (DEEPEST - 1)].at = bpf_ktime_get_ns();
	open->depth = depth + 1;
	return 0;
}

/* At a return the stack pointer is `above` the entry's: the return address may be gone already. */
static __always_inline int leaves(struct pt_regs *ctx, __u64 above)
{
	__u64 now = bpf_ktime_get_ns(), depth, sp;
	struct open_calls *open;
	struct begun_key key;
	__u32 target;

	whose(ctx, &key, &sp);
	if (sp)
		sp -= above;
	target = key.target;
	open = bpf_map_lookup_elem(&open_functions, &key);
	if (!open)
		return 0;
	depth = open->depth;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		struct open_call *last;

		if (!depth || depth > DEEPEST)
			break;
		last = last_of(open, depth);
		if (last->sp == sp) {
			call_ended(target, bpf_get_current_pid_tgid(), last->at, now);
			open->depth = depth - 1;
			return 0;
		}
		/* The call was open before, or too deep. */
		if (last->sp > sp)
			break;
		call_left(target, bpf_get_current_pid_tgid(), last->at);
		depth--;
	}
	open->depth = depth;
	return 0;
}

SEC("uretprobe")
int function_return(struct pt_regs *ctx)
{
	return leaves(ctx, 8);
}

/* At a return instruction of a function whose return address must not be touched. */
SEC("uprobe")
int function_leave(struct pt_regs *ctx)
{
	return leaves(ctx, 0);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(follow_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = child->tgid;
	__u8 one = 1;

	if (!everyone && child->pid == child->tgid && is_followed(parent->tgid))
		bpf_map_update_elem(&followed, &tgid, &one, BPF_ANY);
	return 0;
}

#endif

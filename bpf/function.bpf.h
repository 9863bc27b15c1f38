/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Matches entries and returns of user functions to calls. A thread's open calls to a function are a stack of (stamp,
 * stack pointer). A return belongs to the entry with its stack pointer. Calls above it, and calls below a new entry's
 * stack pointer, were unwound (longjmp, an exception), and so are calls still open when their thread ends or executes
 * another program. For Go, read goroutine instead of thread. For kernel functions, see kernel_function.bpf.h.
 */
#ifndef WAKEPATH_FUNCTION_H
#define WAKEPATH_FUNCTION_H

#include "callers.bpf.h"
#include "open_calls.bpf.h"

/* The maximum number of functions at once. */
#define MAX_FUNCTIONS 64

/* Processes that called Go functions. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u8);
} go_processes SEC(".maps");

/* Each function's hits at its entry, in all processes, followed or not: each costs the process time. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_FUNCTIONS);
	__type(key, __u32);
	__type(value, __u64);
} entries SEC(".maps");

static __always_inline void count_entry(__u32 target)
{
	__u64 *count = bpf_map_lookup_elem(&entries, &target);

	if (count)
		(*count)++;
}

/* Entries further apart than this are on different stacks: signal handlers, coroutines. */
#define ONE_STACK (8ull << 20)

/* A call's thread or goroutine, and its place on the stack. */
struct place {
	struct begun_key key;
	__u64 sp;
	__u64 one_stack; /* the largest distance of two places on the same stack */
};

/*
 * A goroutine may continue in another thread, and its stack moves, and grows up to a gigabyte. r14 identifies it (in
 * Go's register ABI, from Go 1.17): the address of a `g`, which begins with its stack's lowest and highest address.
 * When Go moves a stack, it copies the used part to the end of the new stack, so each place keeps its distance from the
 * end. Two processes may have a `g` at the same address. False if r14 holds no `g`.
 */
static __always_inline bool find_place(struct pt_regs *ctx, struct place *place)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), self = bpf_get_current_pid_tgid(), end;

	place->key.target = (__u32)cookie;
	if (cookie & WP_GO) {
		place->key.what = ctx->r14;
		place->key.target |= self >> 32 << 32;
		if (bpf_probe_read_user(&end, sizeof(end), (void *)(ctx->r14 + 8)))
			return false;
		place->sp = ctx->sp - end;
		place->one_stack = 1ull << 40;
	} else {
		place->key.what = (__u32)self;
		place->sp = ctx->sp;
		place->one_stack = ONE_STACK;
	}
	return true;
}

/*
 * If a thread continues on other stacks within a call, calls end in any order: their place alone identifies them, and
 * they are kept in no order. Removes the open call at a place, if any.
 */
static __always_inline bool take_out(struct open_calls *open, __u64 sp, __u64 *at)
{
	__u64 depth = open->depth;

#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		struct open_call *call = &open->calls[i];

		if (i >= depth || depth > DEEPEST)
			break;
		if (call->sp == sp) {
			*at = call->at;
			*call = *last_of(open, depth);
			open->depth = depth - 1;
			return true;
		}
	}
	return false;
}

SEC("uprobe")
int function_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), self = bpf_get_current_pid_tgid(), depth, at;
	__u32 target = (__u32)cookie, tgid = self >> 32;
	struct open_calls *open;
	struct open_call *last;
	struct place place;

	count_entry(target);
	if (!is_followed(tgid))
		return 0;
	if (cookie & WP_NEVER) {
		call_left(target, self, stamp());
		return 0;
	}
	if (cookie & WP_CALLERS && !is_known_caller(ctx, target)) {
		call_unseen(target);
		return 0;
	}
	if (!find_place(ctx, &place)) {
		call_crowded(target);
		return 0;
	}
	open = bpf_map_lookup_elem(&open_functions, &place.key);
	if (!open) {
		__u8 one = 1;

		if (cookie & WP_GO)
			bpf_map_update_elem(&go_processes, &tgid, &one, BPF_ANY);
		open_first(&place.key, place.sp, self);
		return 0;
	}
	if (cookie & WP_SWITCHES && take_out(open, place.sp, &at))
		call_left(target, self, at);
	depth = open->depth;
	/*
	 * The stack grows down: open calls lie above. An earlier call at the same place has ended too, unless it came
	 * here by a jump, which is rarer than a loop around a throwing call.
	 */
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		if (!depth || depth > DEEPEST || cookie & WP_SWITCHES)
			break;
		last = last_of(open, depth);
		if (last->sp > place.sp || place.sp - last->sp > place.one_stack)
			break;
		call_left(target, self, last->at);
		depth--;
	}
	open_another(open, depth, target, place.sp, self);
	return 0;
}

/* At a return the stack pointer is `above` the entry's, since the return address may be popped already. Whether a call ended. */
static __always_inline bool leaves(struct pt_regs *ctx, __u64 above)
{
	__u64 now = stamp(), self = bpf_get_current_pid_tgid(), cookie = bpf_get_attach_cookie(ctx), depth, at;
	struct open_calls *open;
	struct place place;
	__u32 target;

	if (!find_place(ctx, &place))
		return false;
	place.sp -= above;
	target = (__u32)place.key.target;
	open = bpf_map_lookup_elem(&open_functions, &place.key);
	if (!open)
		return false;
	if (cookie & WP_SWITCHES) {
		if (!take_out(open, place.sp, &at))
			return false;
		call_ended(target, self, self, cookie & WP_GO, at, now);
		return true;
	}
	depth = open->depth;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		struct open_call *last;

		if (!depth || depth > DEEPEST)
			break;
		last = last_of(open, depth);
		if (last->sp == place.sp) {
			call_ended(target, self, last->thread, cookie & WP_GO, last->at, now);
			open->depth = depth - 1;
			return true;
		}
		/* The call began before the probe existed, or recursion was too deep. */
		if (last->sp > place.sp)
			break;
		call_left(target, self, last->at);
		depth--;
	}
	open->depth = depth;
	return false;
}

SEC("uretprobe")
int function_return(struct pt_regs *ctx)
{
	leaves(ctx, 8);
	return 0;
}

/* Behind a call of the function. */
SEC("uprobe")
int function_returned(struct pt_regs *ctx)
{
	if (!leaves(ctx, 8))
		count_stray(ctx, (__u32)bpf_get_attach_cookie(ctx));
	return 0;
}

/* At a return instruction, for functions whose return address must not be replaced. */
SEC("uprobe")
int function_leave(struct pt_regs *ctx)
{
	leaves(ctx, 0);
	return 0;
}

#include "kernel_function.bpf.h"

/* The number of functions. */
__weak const volatile __u32 function_targets = 0;

/* The function's open calls on a vanished stack were unwound. */
static __noinline int leave_all(__u64 whose, __u32 tid, __u32 target)
{
	struct begun_key key = { whose, target };
	struct open_calls *open = bpf_map_lookup_elem(&open_functions, &key);
	__u64 depth;

	if (!open)
		return 0;
	depth = open->depth;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		if (!depth || depth > DEEPEST)
			break;
		call_left(target, tid, last_of(open, depth)->at);
		depth--;
	}
	/* The next thread with this number begins without open calls. */
	bpf_map_delete_elem(&open_functions, &key);
	return 0;
}

/* An exec does not end the kernel functions in which `task` is. */
static __always_inline int stack_is_gone(__u32 tid, struct task_struct *task, bool ends)
{
	if (!is_followed(task->tgid))
		return 0;
	for (__u32 target = 0; target < MAX_FUNCTIONS; target++) {
		if (target >= function_targets)
			break;
		if (!(kernel_targets >> target & 1))
			leave_all(tid, tid, target);
		else if (ends)
			leave_all((__u64)task, tid, target);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(function_exit, struct task_struct *task)
{
	return stack_is_gone(task->pid, task, true);
}

/* From then on, the exec's thread has its process's number. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(function_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	return stack_is_gone(old_pid, task, false);
}

/* Counts the open calls of a process's goroutines as unwound. */
static long leave_goroutine(void *map, struct begun_key *key, struct open_calls *open, __u32 *tgid)
{
	__u32 target = (__u32)key->target;
	__u64 depth = open->depth;

	if (key->target >> 32 != *tgid)
		return 0;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		if (!depth || depth > DEEPEST)
			break;
		call_left(target, bpf_get_current_pid_tgid(), last_of(open, depth)->at);
		depth--;
	}
	bpf_map_delete_elem(&open_functions, key);
	return 0;
}

static __always_inline int goroutines_are_gone(__u32 tgid)
{
	/* The last two threads may end at once, and both find no other alive: whichever removes the process counts. */
	if (bpf_map_delete_elem(&go_processes, &tgid))
		return 0;
	/* This needs Linux 5.13: separate programs, loaded only for Go functions. */
	bpf_for_each_map_elem(&open_functions, leave_goroutine, &tgid, 0);
	return 0;
}

/* A goroutine may live as long as its process, even if threads end. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(goroutines_exit, struct task_struct *task)
{
	return BPF_CORE_READ(task, signal, live.counter) ? 0 : goroutines_are_gone(task->tgid);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(goroutines_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	return goroutines_are_gone(task->tgid);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(follow_fork, struct task_struct *parent, struct task_struct *child)
{
	__u64 began = child->start_time;
	__u32 tgid = child->tgid;

	if (everyone || child->pid != child->tgid)
		return 0;
	if (is_followed(parent->tgid))
		bpf_map_update_elem(&followed, &tgid, &began, BPF_ANY);
	else
		/* An earlier process with this number may have been followed. */
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

/* Calls that a process makes while it ends still count. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(follow_free, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	__u64 *began;

	if (everyone || task->pid != task->tgid)
		return 0;
	began = bpf_map_lookup_elem(&followed, &tgid);
	if (began && *began == task->start_time)
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

#endif

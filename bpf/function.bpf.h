/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Entries and returns of user functions, put together to calls. A thread's open calls of a function are a
 * stack of (stamp, stack pointer). A return belongs to the entry with its stack pointer; what is above that,
 * or below the stack pointer of a new entry, was left without returning (longjmp, an exception), as is what
 * is open when its thread ends or becomes another program. Of Go, read goroutine for thread. Functions of the
 * kernel: kernel_function.bpf.h.
 *
 * Whoever includes this says before what becomes of a call: call_ended, call_left, call_crowded, call_unseen
 * (it returned, nobody knows when); and when it is: stamp.
 */
#ifndef WAKEPATH_FUNCTION_H
#define WAKEPATH_FUNCTION_H

#include "calls.bpf.h"

/* In a probe's cookie, beside the target's number: the function is one of Go's. */
#define WP_GO (1ull << 32)
/* It never returns. */
#define WP_NEVER (1ull << 33)
/* A thread may go on on another stack within it. */
#define WP_SWITCHES (1ull << 34)

/* Deepest recursion that is told apart. */
#define DEEPEST 8

/* Most functions at once. */
#define MOST_FUNCTIONS 64

struct open_call {
	__u64 at;
	__u64 sp;
	__u64 thread; /* where it began */
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

/* Processes that made calls of Go's functions. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u8);
} go_processes SEC(".maps");

/* Entries further apart than this are on other stacks: signal handlers, coroutines. */
#define ONE_STACK (8ull << 20)

/* Whose call it is, and where on its stack. */
struct place {
	struct begun_key key;
	__u64 sp;
	__u64 one_stack; /* how far apart two places on one stack may be */
};

/*
 * A goroutine goes on in another thread, and its stack moves, and grows to a gigabyte. It is known by what
 * Go keeps in r14 (its ABI for registers, from Go 1.17 on): the address of a `g`, which begins with the
 * lowest and the highest address of its stack. When Go moves a stack it copies what is used of it to the
 * end of the new one: how far a place is from there stays. A `g` lies where that of another process may.
 * False where r14 holds none.
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

/* The verifier has to see the mask: the compiler knows that it is not needed. */
static __always_inline struct open_call *last_of(struct open_calls *open, __u64 depth)
{
	__u64 place = depth - 1;

	asm volatile("" : "+r"(place));
	return &open->calls[place & (DEEPEST - 1)];
}

/* A call where none has been before: of this thread, or goroutine, and function. */
static __always_inline void open_first(struct begun_key *key, __u64 sp, __u64 self)
{
	struct open_calls first = { 1, { { 0, sp, (__u32)self } } };

	first.calls[0].at = stamp();
	if (bpf_map_update_elem(&open_functions, key, &first, BPF_ANY))
		call_crowded((__u32)key->target);
}

/* A call within `depth` others, or where others were. */
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

/*
 * Where a thread goes on on other stacks within a call, calls are over in any order: they are known by their
 * place alone, and kept in no order. The call at a place, if one is open there, is taken out.
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

	if (!is_followed(tgid))
		return 0;
	if (cookie & WP_NEVER) {
		call_left(target, self, stamp());
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
	 * The stack grows down: what is open lies above. A call at the same place as this one is over too,
	 * unless it went on here by a jump, which is rarer than a loop around what throws.
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

/* At a return the stack pointer is `above` the entry's: the return address may be gone already. */
static __always_inline int leaves(struct pt_regs *ctx, __u64 above)
{
	__u64 now = stamp(), self = bpf_get_current_pid_tgid(), depth, at;
	struct open_calls *open;
	struct place place;
	__u32 target;

	if (!find_place(ctx, &place))
		return 0;
	place.sp -= above;
	target = (__u32)place.key.target;
	open = bpf_map_lookup_elem(&open_functions, &place.key);
	if (!open)
		return 0;
	if (bpf_get_attach_cookie(ctx) & WP_SWITCHES) {
		if (take_out(open, place.sp, &at))
			call_ended(target, self, self, at, now);
		return 0;
	}
	depth = open->depth;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		struct open_call *last;

		if (!depth || depth > DEEPEST)
			break;
		last = last_of(open, depth);
		if (last->sp == place.sp) {
			call_ended(target, self, last->thread, last->at, now);
			open->depth = depth - 1;
			return 0;
		}
		/* The call was open before, or too deep. */
		if (last->sp > place.sp)
			break;
		call_left(target, self, last->at);
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

#include "kernel_function.bpf.h"

/* How many functions are asked for. */
__weak const volatile __u32 function_targets = 0;

/* What is open of one function on a stack that is no more was left. */
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
	/* The next thread of this number begins anew. */
	bpf_map_delete_elem(&open_functions, &key);
	return 0;
}

/* An exec leaves what `task` is in within the kernel as it is. */
static __always_inline int stack_is_gone(__u32 tid, struct task_struct *task, bool ends)
{
	if (!is_followed(task->tgid))
		return 0;
	for (__u32 target = 0; target < MOST_FUNCTIONS; target++) {
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

/* Whichever thread does it, its number is the process's from then on. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(function_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	return stack_is_gone(old_pid, task, false);
}

/* What a goroutine of a process had open. */
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
	if (!bpf_map_lookup_elem(&go_processes, &tgid))
		return 0;
	/* Linux 5.13: programs of their own, loaded where a function is one of Go's. */
	bpf_for_each_map_elem(&open_functions, leave_goroutine, &tgid, 0);
	bpf_map_delete_elem(&go_processes, &tgid);
	return 0;
}

/* A goroutine lives as long as its process, whichever threads end. */
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
		/* Whose number it was may have been followed. */
		bpf_map_delete_elem(&followed, &tgid);
	return 0;
}

/* What a process calls while it ends is its own still. */
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

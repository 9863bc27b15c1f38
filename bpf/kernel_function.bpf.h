/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Entries and returns of kernel functions, by fentry and fexit: only these miss nothing silently. A return probe
 * (kretprobe) has a limited number of instances, and misses the returns of calls that begin while all are in
 * use. Here the kernel skips a program only if it already runs on that CPU, and counts the skip.
 *
 * 1. The programs' argument lies in the trampoline's frame, on the caller's stack: both programs get the same
 *    address for a call, and a nested call gets a lower address. The address replaces the stack pointer.
 * 2. A task identifies a thread: an exec does not change it, and each idle thread has its own. An interrupt's
 *    calls belong to the interrupted thread, on another stack.
 * 3. A kernel function returns, or its thread ends. So an open call that contradicts a later call has returned
 *    unseen (its program was skipped, or the trampoline was replaced meanwhile), and is counted as unseen.
 * 4. A thread still calls functions after its end was reported; these calls return.
 *
 * The two programs below are never attached: user space loads a copy for each function.
 */
#ifndef WAKEPATH_KERNEL_FUNCTION_H
#define WAKEPATH_KERNEL_FUNCTION_H

#include "open_calls.bpf.h"

/* The targets that are kernel functions, a bit for each. */
__weak const volatile __u64 kernel_targets = 0;

/* A kernel stack's size: frames further apart are on different stacks. */
#define ONE_KERNEL_STACK (16ull << 10)

/* The flag of an ending thread. */
#define PF_EXITING 0x00000004

/* The place as a number, which the verifier requires for comparisons: the difference between two pointers. */
static __always_inline __u64 place_of(void *ctx)
{
	__u64 place = (__u64)ctx - (__u64)&everyone;

	asm volatile("" : "+r"(place));
	return place;
}

SEC("fentry")
int kernel_enter(void *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), self = bpf_get_current_pid_tgid();
	struct begun_key key = { bpf_get_current_task(), (__u32)cookie };
	__u64 place = place_of(ctx), depth;
	__u32 target = (__u32)cookie;
	struct open_calls *open;
	struct open_call *last;

	if (!is_followed(self >> 32))
		return 0;
	if (cookie & WP_NEVER) {
		call_left(target, self, stamp());
		return 0;
	}
	open = bpf_map_lookup_elem(&open_functions, &key);
	if (!open) {
		open_first(&key, place, self);
		return 0;
	}
	depth = open->depth;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		if (!depth || depth > DEEPEST)
			break;
		last = last_of(open, depth);
		if (last->sp > place || place - last->sp > ONE_KERNEL_STACK)
			break;
		call_unseen(target);
		depth--;
	}
	open_another(open, depth, target, place, self);
	return 0;
}

SEC("fexit")
int kernel_leave(void *ctx)
{
	__u64 now = stamp(), place = place_of(ctx), cookie = bpf_get_attach_cookie(ctx), depth, above = 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct begun_key key = { (__u64)task, (__u32)cookie };
	struct open_call *last = NULL;
	struct open_calls *open;

	open = bpf_map_lookup_elem(&open_functions, &key);
	if (!open)
		return 0;
	depth = open->depth;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		if (!depth || depth > DEEPEST)
			return 0;
		last = last_of(open, depth);
		if (last->sp == place)
			break;
		depth--;
		above++;
	}
	/* The call began before the probe existed, recursion was too deep, or its entry was skipped. */
	if (!last || last->sp != place)
		return 0;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		if (i >= above)
			break;
		call_unseen(key.target);
	}
	call_ended(key.target, bpf_get_current_pid_tgid(), last->thread, false, last->at, now);
	open->depth = depth - 1;
	if (depth == 1 && BPF_CORE_READ(task, flags) & PF_EXITING)
		bpf_map_delete_elem(&open_functions, &key);
	return 0;
}

#endif

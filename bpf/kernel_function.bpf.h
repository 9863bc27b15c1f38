/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Entries and returns of functions of the kernel: fentry and fexit, since these alone miss nothing
 * silently. A return probe (kretprobe) has so many instances, and who comes when all are in use is not seen
 * to return; here the kernel skips only a program that already runs on that CPU, and counts that.
 *
 * 1. What a call is put together from lies in the trampoline's frame, on the stack of whoever calls: both
 *    programs of one call get the same address there, and a call within it gets a lower one. It stands for
 *    the stack pointer.
 * 2. A thread is its task: that stays when an exec changes its number, and each CPU has an idle one. An
 *    interrupt's calls are those of the thread that it interrupts, on another stack.
 * 3. What the kernel calls returns, or its thread ends. So an open call that a later one contradicts has
 *    returned unseen (its program was skipped, or the trampoline replaced under it), and is counted as such.
 * 4. A thread that ends goes on calling for a while: what it opens after its end was told, it closes.
 *
 * The two programs below are never attached: user space loads what they are made of once more for each
 * function, since each copy is for one.
 */
#ifndef WAKEPATH_KERNEL_FUNCTION_H
#define WAKEPATH_KERNEL_FUNCTION_H

/* Which targets are functions of the kernel, a bit each. */
__weak const volatile __u64 kernel_targets = 0;

/* Frames further apart than this are on other stacks: a stack of the kernel is as large. */
#define ONE_KERNEL_STACK (16ull << 10)

/* Of a thread that is about to end. */
#define PF_EXITING 0x00000004

/* A number, as the verifier wants it where numbers are compared: the difference of two pointers is one. */
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
	/* The call was open before, too deep, or its entry was skipped. */
	if (!last || last->sp != place)
		return 0;
#pragma unroll
	for (int i = 0; i < DEEPEST; i++) {
		if (i >= above)
			break;
		call_unseen(key.target);
	}
	call_ended(key.target, bpf_get_current_pid_tgid(), last->thread, last->at, now);
	open->depth = depth - 1;
	if (depth == 1 && BPF_CORE_READ(task, flags) & PF_EXITING)
		bpf_map_delete_elem(&open_functions, &key);
	return 0;
}

#endif

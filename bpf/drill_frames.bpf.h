/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A measured thread's or goroutine's open calls: a stack of frames. */
#ifndef WAKEPATH_DRILL_FRAMES_BPF_H
#define WAKEPATH_DRILL_FRAMES_BPF_H

#include "drill_state.bpf.h"
#include "drill_stubs.bpf.h"

/*
 * A place on a kernel stack is the distance from the stack's lowest address. No place on a user stack is as low: a process's
 * lowest 64 kB are never mapped.
 */
#define KERNEL_STACK (16ull << 10)

static __always_inline bool of_kernel_stack(__u64 sp)
{
	return sp <= KERNEL_STACK;
}

/* The verifier needs the mask, which the compiler would remove as superfluous. */
static __always_inline struct wp_drill_frame *frame_at(struct wp_drill_thread *t, __u32 place)
{
	asm volatile("" : "+r"(place));
	return &t->frames[place & (WP_DRILL_DEEPEST - 1)];
}

/* `returns_to`: the return address, if the return is seen there; else 0. */
static __always_inline void open_call(struct wp_drill_thread *t, __u64 sp, __u32 function, __u32 node, __u64 returns_to)
{
	__u32 depth = t->depth;
	struct wp_drill_frame *frame;

	if (depth >= WP_DRILL_DEEPEST) {
		t->crowded = 1;
		return;
	}
	frame = frame_at(t, depth);
	frame->sp = sp;
	frame->function = function;
	frame->node = node;
	frame->returns_to = returns_to;
	frame->around = t->innermost;
	if (node != WP_DRILL_OUTSIDE)
		t->innermost = node;
	t->depth = depth + 1;
	frame->around_call = with_stubs ? 0 : t->python_calls;
	if (with_stubs && t->state && node != WP_DRILL_OUTSIDE)
		list_call(t, frame, depth);
	frame->at = bpf_ktime_get_ns();
}

static __always_inline void open_frame(struct wp_drill_thread *t, __u64 sp, __u32 function, __u32 node)
{
	open_call(t, sp, function, node, 0);
}

/* A call forgotten without a return was unwound, unless it belongs to no node, and no probe is behind it. */
static __always_inline __u32 is_unwound(const struct wp_drill_frame *frame)
{
	return frame->node != WP_DRILL_OUTSIDE || !frame->returns_to;
}

static __always_inline void forget_call(struct wp_drill_thread *t, const struct wp_drill_frame *top)
{
	t->innermost = top->around;
	t->left += is_unwound(top);
}

/* The same for the innermost open call. */
static __always_inline void drop_call(struct wp_drill_thread *t, const struct wp_drill_frame *top)
{
	forget_call(t, top);
	t->depth--;
	if (!t->depth)
		__sync_fetch_and_add(&left, 1);
}

/* Whether a call lies above a place on the stack, or on another stack: whatever happens at the place, it goes on. */
static __always_inline bool goes_on_above(const struct wp_drill_frame *top, __u64 sp)
{
	return top->sp > sp || (sp - top->sp > ONE_STACK && !of_kernel_stack(top->sp));
}

/* Whether an address is the kernel's replacement for a return address. */
static __always_inline bool is_replaced(__u64 address)
{
	return address >= trampoline_from && address < trampoline_to;
}

/* Drops the open calls deeper than a place on the stack, where the thread is again. */
static __always_inline void drop_deeper(struct wp_drill_thread *t, __u64 sp)
{
	for (int i = 0; i < WP_DRILL_DEEPEST; i++) {
		__u32 depth = t->depth;
		struct wp_drill_frame *top;

		if (!depth || depth > WP_DRILL_DEEPEST)
			break;
		top = frame_at(t, depth - 1);
		if (top->sp == sp || goes_on_above(top, sp))
			break;
		drop_call(t, top);
	}
}

/*
 * Whether a call whose return was not seen is over: its place on the stack has another content. Not before the kernel's replacement for return
 * addresses is known.
 */
static __always_inline bool is_overwritten(const struct wp_drill_frame *top)
{
	__u64 word;

	return top->returns_to && trampoline_to && !bpf_probe_read_user(&word, sizeof(word), (void *)top->sp) &&
	       word != top->returns_to && !is_replaced(word);
}

/*
 * The calling thread or goroutine, as a key of `drilled`, and the place of `sp` on its stack; false if the stack's end cannot be
 * read.
 */
static __always_inline bool find_caller(struct pt_regs *ctx, __u64 *who, __u64 *sp)
{
	__u64 end;

	if (!of_go) {
		*who = (__u32)bpf_get_current_pid_tgid();
		return true;
	}
	*who = ctx->r14;
	if (bpf_probe_read_user(&end, sizeof(end), (void *)(ctx->r14 + 8)))
		return false;
	*sp = GOROUTINES_END - (end - *sp);
	return true;
}

#endif

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

static __always_inline void open_frame(struct wp_drill_thread *t, __u64 sp, __u32 function, __u32 node)
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
	frame->around = t->innermost;
	if (node != WP_DRILL_OUTSIDE)
		t->innermost = node;
	t->depth = depth + 1;
	frame->around_call = with_stubs ? 0 : t->python_calls;
	if (with_stubs && t->state && node != WP_DRILL_OUTSIDE)
		list_call(t, frame, depth);
	frame->at = bpf_ktime_get_ns();
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

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Samples of running threads: their stacks, at a fixed rate.
 */
#include "current.bpf.h"
#include "ring.bpf.h"
#include "unwind.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_room);
} scratches SEC(".maps");

/* The thread's registers in its own code; false if it has none. */
static __always_inline bool begin(struct bpf_perf_event_data *ctx, struct task_struct *task, struct stack_room *room)
{
	struct task_struct *loads = for_loads(task);
	struct pt_regs *regs;

	if (loads->flags & PF_KTHREAD || !loads->mm)
		return false;
	if (ctx->regs.cs & 3) {
		begin_walk(room, loads, ctx->regs.cs, ctx->regs.ip, ctx->regs.sp, ctx->regs.bp);
		return true;
	}
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	begin_walk(room, loads, BPF_CORE_READ(regs, cs), BPF_CORE_READ(regs, ip), BPF_CORE_READ(regs, sp),
		   BPF_CORE_READ(regs, bp));
	return true;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 who = bpf_get_current_pid_tgid(), size, *lost;
	struct wp_ring *ring = sched_ring();
	struct stack_room *room;
	__u32 zero = 0, at, frames;
	struct wp_sample *r;
	long kernel, user;

	if (!(__u32)who)
		return 0;
	room = bpf_map_lookup_elem(&scratches, &zero);
	if (!room || !ring)
		return 0;
	r = sample_in(room);
	fill_header(&r->h, WP_SAMPLE, (__u32)who, context_of(ring));
	r->h.seq = bpf_get_smp_processor_id();
	r->tgid = who >> 32;
	r->scanned = 0;
	r->proved = 0;
	kernel = bpf_get_stack(ctx, room->copy.frames, WP_MAX_KERNEL_FRAMES * sizeof(__u64), 0);
	if (kernel < 0)
		kernel = 0;
	at = kernel / sizeof(__u64);
	if (at > WP_MAX_KERNEL_FRAMES)
		return 0;
	r->kernel_frames = at;
	frames = at;
	if (begin(ctx, task, room)) {
		room->copy.frames[at] = room->walk.ip;
		at++;
		walk_stack(room, at);
		r->proved = 1 + room->walk.proved;
		frames = at + room->walk.count;
		if ((room->walk.unknown || room->walk.by_pointers) && !room->walk.count) {
			/* By frame pointers, if user space cannot help. */
			user = bpf_get_stack(ctx, &room->copy.frames[at],
					     (WP_MAX_FRAMES - WP_MAX_KERNEL_FRAMES - 1) * sizeof(__u64),
					     BPF_F_USER_STACK | 1);
			if (user > 0)
				frames += user / sizeof(__u64);
		}
	}
	if (frames > WP_MAX_FRAMES)
		return 0;
	r->frames_len = frames;
	r->user_frames = frames - r->kernel_frames;
	if (r->proved && room->walk.unknown && hand_over(room, for_loads(task), 0))
		return 0;
	size = sizeof(*r) + (__u64)frames * sizeof(__u64);
	asm volatile("" : "+r"(size));
	if (size > sizeof(*r) + WP_MAX_FRAMES * sizeof(__u64))
		return 0;
	if (bpf_ringbuf_output(&life, r, size, BPF_RB_NO_WAKEUP)) {
		lost = bpf_map_lookup_elem(&life_lost, &zero);
		if (lost)
			(*lost)++;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

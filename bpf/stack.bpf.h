/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The stacks of threads that block or wake another. Only with `--stacks`: without it, the verifier removes all of
 * this.
 *
 * 1. A stack has an id, the hash of its content. A switch-out or a wake-up is followed by a small
 *    record with that id; the stack itself is recorded once, in the ring buffer of rare records.
 * 2. Reading a stack costs some microseconds, many times the cost of the rest. A thread that waits in the same
 *    place as before has the same user registers, is in the same system call and state, and the function of its
 *    frame pointer returns to the same address: then the earlier stack is assumed. This is a heuristic
 *    (functions with equal frames that are called through one pointer look the same, and a system call may
 *    wait in several places), so it is checked, often at first and later at each 64th time: stack.h. An entry
 *    that was wrong once is not used again. The numbers of such entries, and of ids that may be
 *    wrong for it, are counted.
 * 3. User frames are found by frame pointers. The functions of the C library have none, so that the
 *    first step skips their caller: the caller of fsync() is not in that chain. So the words between
 *    the stack pointer and the frame pointer are searched for addresses after a call instruction; the reader
 *    chooses those that fit.
 */
#ifndef WAKEPATH_STACK_BPF_H
#define WAKEPATH_STACK_BPF_H

#include "current.bpf.h"
#include "stack.h"

__weak const volatile bool record_stacks = false;
/* If false, each stack is read anew. */
__weak const volatile bool remember_stacks = true;

#define STACK_CACHE 4096
#define TASK_DEAD 0x80
/* The number of kernel frames of the programs themselves; the reader omits other frames of tracing. */
#define SKIPPED_FRAMES 4

struct stack_entry {
	__u64 key;
	__u64 stack;
	__u32 hits;
	__u32 unchecked; /* hits since the last check */
	__u64 unreliable; /* it was wrong once: read anew each time */
};

/* Both have STACK_CACHE entries for each CPU, or a single one without `--stacks`; set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_entry);
} stack_cache SEC(".maps") __weak;

/* The ids of the stacks that this CPU has recorded. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} stacks_told SEC(".maps") __weak;

struct stack_counts {
	__u64 taken;
	__u64 repeated;  /* assumed, not read */
	__u64 checked;   /* read to check an assumption */
	__u64 disagreed; /* checks that found another stack */
	__u64 doubtful;  /* assumed between the last good check and such a one */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_counts);
} stack_counters SEC(".maps") __weak;

struct stack_scratch {
	volatile __u64 depth;
	__u64 words[WP_SCAN_WORDS];
	union {
		struct wp_sample r;
		__u8 bytes[sizeof(struct wp_sample) + WP_MAX_FRAMES * sizeof(__u64)];
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_scratch);
} stack_scratches SEC(".maps") __weak;

/*
 * Looks for return addresses above the stack pointer, and writes them after frame `at`. Their number is kept only
 * in memory: the verifier then does not need to follow each number separately.
 */
static __always_inline void scan(struct stack_scratch *s, __u32 at, __u64 sp, __u64 bp)
{
	volatile __u32 *found = &s->r.scanned;
	__u32 limit = WP_SCAN_WORDS, n;
	__u64 code, word;

	if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)sp)) {
		/* Near the end of the stack. */
		limit = 8;
		if (bpf_probe_read_user(s->words, 8 * sizeof(__u64), (void *)sp))
			return;
	}
	if (bp > sp && bp - sp < limit * sizeof(__u64))
		limit = (bp - sp) / sizeof(__u64);
	for (__u32 i = 0; i < WP_SCAN_WORDS; i++) {
		n = *found;
		if (i >= limit || n >= WP_MOST_SCANNED)
			break;
		word = s->words[i];
		/* No address of code: a small number, an address of the kernel, an address on the stack. */
		if (word < 0x10000 || word >> 47 || word - sp < (8 << 20))
			continue;
		if (bpf_probe_read_user(&code, sizeof(code), (void *)word - sizeof(code)) || !ends_in_call(code))
			continue;
		s->r.frames[at + n] = word;
		*found = n + 1;
	}
}

/* Reads the current thread's stack, records it if it is new, and returns its id; 0 if there is none. */
static __noinline __u64 take_stack(void *ctx, struct pt_regs *regs, __u64 who)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id(), at, scanned, slot;
	struct stack_scratch *s = bpf_map_lookup_elem(&stack_scratches, &zero);
	long kernel, user = 0;
	__u64 id, size, *told, *lost;

	if (!s)
		return 0;
	kernel = bpf_get_stack(ctx, s->r.frames, WP_MAX_KERNEL_FRAMES * sizeof(__u64), SKIPPED_FRAMES);
	if (kernel < 0)
		kernel = 0;
	at = kernel / sizeof(__u64);
	if (at > WP_MAX_KERNEL_FRAMES)
		return 0;
	s->r.kernel_frames = at;
	s->r.scanned = 0;
	if (regs) {
		s->r.frames[at] = BPF_CORE_READ(regs, ip);
		scan(s, at + 1, BPF_CORE_READ(regs, sp), BPF_CORE_READ(regs, bp));
		scanned = *(volatile __u32 *)&s->r.scanned;
		if (scanned > WP_MOST_SCANNED)
			return 0;
		at += 1 + scanned;
		/* All but the innermost, which is there already. */
		user = bpf_get_stack(ctx, &s->r.frames[at],
				     (WP_MAX_FRAMES - WP_MAX_KERNEL_FRAMES - 1 - WP_MOST_SCANNED) * sizeof(__u64),
				     BPF_F_USER_STACK | 1);
		if (user < 0)
			user = 0;
		at += user / sizeof(__u64);
	}
	s->r.frames_len = at;
	s->r.user_frames = at - s->r.kernel_frames;
	s->r.tgid = who >> 32;
	if (!at)
		return 0;
	id = stack_id(&s->r);
	slot = cpu * STACK_CACHE + id % STACK_CACHE;
	told = bpf_map_lookup_elem(&stacks_told, &slot);
	if (!told || *told == id)
		return id;
	fill_header(&s->r.h, WP_STACK, (__u32)who, WP_CTX_TASK);
	s->r.h.seq = cpu;
	size = sizeof(s->r) + at * sizeof(__u64);
	/* Makes the bound that of the register that is passed on: the verifier of 6.1 forgets the bounds of others. */
	asm volatile("" : "+r"(size));
	if (size > sizeof(s->r) + WP_MAX_FRAMES * sizeof(__u64))
		return 0;
	if (!bpf_ringbuf_output(&life, &s->r, size, BPF_RB_NO_WAKEUP)) {
		*told = id;
		return id;
	}
	lost = bpf_map_lookup_elem(&life_lost, &zero);
	if (lost)
		(*lost)++;
	return id;
}

/*
 * Adds the frame pointer, if it is one, and the return address of that frame, since functions with equal frames
 * are called from different places. In code without frame pointers, the register may have another value at
 * each wait, and point to data.
 */
static __always_inline __u64 mix_frame(__u64 key, struct task_struct *task, struct pt_regs *regs)
{
	__u64 bp = regs->bp, sp = regs->sp, address, code;

	if (bp <= sp || bp - sp >= 0x10000)
		return key;
	key = mix(key, bp);
	if (!task->mm || bpf_probe_read_user(&address, sizeof(address), (void *)bp + 8))
		return key;
	/* In the program, or in the library that made the system call. */
	code = task->mm->start_code;
	if (address - code < task->mm->end_code - code || (address ^ regs->ip) >> 32 == 0)
		key = mix(key, address);
	return key;
}

/* The id of the current thread's stack; the earlier one, if everything looks the same. */
static __always_inline __u64 stack_of(void *ctx, struct task_struct *task, __u64 how)
{
	__u64 who = (__u64)task->tgid << 32 | (__u32)task->pid, key, id;
	__u32 zero = 0, cpu = bpf_get_smp_processor_id(), slot;
	struct stack_scratch *s = bpf_map_lookup_elem(&stack_scratches, &zero);
	struct stack_counts *counts = bpf_map_lookup_elem(&stack_counters, &zero);
	struct pt_regs *regs = NULL;
	struct stack_entry *e;
	bool known;

	if (!s || !counts)
		return 0;
	key = mix(who, how);
	if (task->flags & PF_KTHREAD) {
		/*
		 * The context lies on the kernel stack, so its address shows the depth of the stack. (Not after a
		 * system call, at which the kernel begins its stack at a random offset.)
		 */
		s->depth = (__u64)ctx;
		key = mix(key, s->depth);
	} else {
		if (bpf_ksym_exists(bpf_rdonly_cast))
			regs = registers_of(task);
		else
			regs = (struct pt_regs *)bpf_task_pt_regs(task);
		key = mix_frame(mix(mix(mix(key, regs->ip), regs->sp), regs->orig_ax), task, regs);
	}
	slot = cpu * STACK_CACHE + key % STACK_CACHE;
	e = bpf_map_lookup_elem(&stack_cache, &slot);
	if (!e)
		return 0;
	known = e->key == key;
	if (known) {
		e->hits++;
		if (remember_stacks && !e->unreliable && !is_checked(e->hits)) {
			e->unchecked++;
			counts->repeated++;
			return e->stack;
		}
	}
	counts->taken++;
	id = take_stack(ctx, regs, who);
	if (!known) {
		e->key = key;
		e->stack = id;
		e->hits = 0;
		e->unreliable = 0;
	} else if (!e->unreliable) {
		counts->checked++;
		if (id != e->stack) {
			counts->disagreed++;
			counts->doubtful += e->unchecked;
			e->unreliable = 1;
		}
	}
	e->unchecked = 0;
	return id;
}

/*
 * Adds the stack after the record of a switch-out or a wake-up with this stamp. `how`: the state in which
 * the thread goes to sleep, 0 for a wake-up.
 */
static __always_inline void tell_stack(void *ctx, struct task_struct *task, struct wp_ring *ring, __u64 stamp,
				       __u64 how)
{
	__u64 stack = stack_of(ctx, task, how);
	struct wp_stack_of *r;

	if (!stack)
		return;
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return;
	r->h.stamp = stamp;
	r->h.kind = WP_STACK_OF;
	r->h.context = WP_CTX_TASK;
	r->h.seq = ring->seq;
	r->h.tid = task->pid;
	r->stack = stack;
	ring_commit(ring, sizeof(*r));
}

/* These two are separate functions, so that they cost nothing if they are not called. */
static __noinline int stack_of_switch(unsigned long long *ctx, __u64 stamp)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct wp_ring *ring = sched_ring();
	__u32 state = ctx[3];

	/* A preempted thread continues where it was: samples show its place. */
	if (ring && !ctx[0] && state && !(state & TASK_DEAD))
		tell_stack(ctx, prev, ring, stamp, state);
	return 0;
}

static __noinline int stack_of_waking(void *ctx, __u64 stamp)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct wp_ring *ring = sched_ring();

	/* A wake-up by an interrupt is not an act of the interrupted thread. */
	if (ring && current->pid && !context_of(ring))
		tell_stack(ctx, current, ring, stamp, 0);
	return 0;
}

#endif

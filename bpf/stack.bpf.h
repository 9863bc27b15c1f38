/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The stacks of threads that block or wake another thread. Only with `--stacks`: without it, the verifier removes all this.
 *
 * 1. A stack has an id, the hash of its content. A switch-out or a wake-up is followed by a small record with the id; the
 *    stack itself is recorded once, in the ring buffer for rare records.
 * 2. User frames are found by the files' tables: unwind.bpf.h. If a rule is missing, the stack gets an id at once and its
 *    frames later, from user space. If this fails, frames are found by frame pointers, and in the words above the stack
 *    pointer by addresses after a call instruction; none of these is proved.
 * 3. Reading a stack costs some microseconds, many times the cost of the rest. A thread that waits in the same place as
 *    before has the same user registers, system call, state, and first two return addresses outside the C library, at the
 *    places found by the tables: then the earlier stack is assumed. The frame pointer counts only if the tables measure a
 *    frame from it; otherwise it may hold anything. Until the places are known, the frame pointer and its frame's return
 *    address are used. This is a heuristic (a system call may wait in several places, and callers further up may differ), so
 *    it is checked, often at first and later at each 64th time: stack.h. An entry once wrong is not used again. Such entries,
 *    and the ids that they may have made wrong, are counted.
 */
#ifndef WAKEPATH_STACK_BPF_H
#define WAKEPATH_STACK_BPF_H

#include "current.bpf.h"
#include "stack.h"
#include "unwind.bpf.h"

__weak const volatile bool record_stacks = false;
/* If false, each stack is read anew. */
__weak const volatile bool remember_stacks = true;

#define STACK_CACHE 4096
/* The number of the programs' own kernel frames; the reader omits other tracing frames. */
#define SKIPPED_FRAMES 4

struct stack_entry {
	__u64 key;
	__u64 stack;
	__u32 hits;
	__u32 unchecked; /* hits since the last check */
	__u32 unreliable; /* it was wrong once: read anew each time */
	__u16 settled;	  /* no rule was missing, or tables are not used */
	__u16 for_now;	  /* a guess, which tables may change later */
};

/* The return addresses' places for a thread with these registers. */
struct stack_places {
	__u64 key;	   /* from registers and call */
	__u16 words[WP_PLACES]; /* from the stack pointer on, counted from 1; 0: none */
	__u32 bp_used;
};

/* These maps have STACK_CACHE entries for each CPU, or a single entry without `--stacks`; set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_entry);
} stack_cache SEC(".maps") __weak;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_places);
} stack_places SEC(".maps") __weak;

/* The ids of recorded stacks. */
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
	__u64 doubtful;  /* assumed between the last good check and a bad check */
	__u64 ns;	 /* reading time of `taken` */
	__u64 waking_ns; /* the part of `ns` at wake-ups */
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
	struct stack_room room;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_scratch);
} stack_scratches SEC(".maps") __weak;

/*
 * The next two are separate functions: the verifier follows them once for all values. Inlined, it would follow their loops
 * for each way into them, which takes half a second.
 */

/*
 * Looks for return addresses above the stack pointer, and writes them after frame `at`. Their number is kept only in memory:
 * then the verifier need not follow each number separately.
 */
__noinline int scan_words(__u64 sp, __u64 bp, __u32 at)
{
	__u32 limit = WP_SCAN_WORDS, n, next, zero = 0;
	struct stack_scratch *s = bpf_map_lookup_elem(&stack_scratches, &zero);
	volatile __u16 *found;
	__u64 code, word;

	if (!s || at > WP_MAX_KERNEL_FRAMES + 1)
		return 0;
	found = &sample_in(&s->room)->scanned;
	if (bpf_probe_read_user(s->words, sizeof(s->words), (void *)sp)) {
		/* Near the stack's end. */
		limit = 8;
		if (bpf_probe_read_user(s->words, 8 * sizeof(__u64), (void *)sp))
			return 0;
	}
	if (bp > sp && bp - sp < limit * sizeof(__u64))
		limit = (bp - sp) / sizeof(__u64);
	for (__u32 i = 0; i < WP_SCAN_WORDS; i++) {
		n = *found;
		if (i >= limit || n >= WP_MOST_SCANNED)
			break;
		word = s->words[i];
		/* Not a code address: a small number, a kernel address, a stack address. */
		if (word < 0x10000 || word >> 47 || word - sp < (8 << 20))
			continue;
		if (bpf_probe_read_user(&code, sizeof(code), (void *)word - sizeof(code)) || !ends_in_call(code))
			continue;
		/* Older kernels lose a sum's bound even if its parts were checked: this register is checked, and used. */
		next = at + n;
		asm volatile("" : "+r"(next));
		if (next >= WP_MAX_FRAMES)
			break;
		s->room.copy.frames[next] = word;
		*found = n + 1;
	}
	return 0;
}

/* The id for the stack in scratch memory. */
__noinline __u64 id_of_stack(void)
{
	__u32 zero = 0;
	struct stack_scratch *s = bpf_map_lookup_elem(&stack_scratches, &zero);

	return s ? stack_id(sample_in(&s->room)) : 0;
}

/* The fallback: by frame pointers, and by words on the stack. Returns the number of all frames. */
static __always_inline __u32 guess(void *ctx, struct stack_scratch *s, __u32 at, struct pt_regs *regs)
{
	__u32 scanned;
	long user;

	scan_words(BPF_CORE_READ(regs, sp), BPF_CORE_READ(regs, bp), at);
	scanned = *(volatile __u16 *)&sample_in(&s->room)->scanned;
	if (scanned > WP_MOST_SCANNED || at > WP_MAX_KERNEL_FRAMES + 1)
		return at;
	at += scanned;
	/* All but the innermost, which is there already. */
	user = bpf_get_stack(ctx, &s->room.copy.frames[at],
			     (WP_MAX_FRAMES - WP_MAX_KERNEL_FRAMES - 1 - WP_MOST_SCANNED) * sizeof(__u64),
			     BPF_F_USER_STACK | 1);
	if (user > 0)
		at += user / sizeof(__u64);
	return at;
}

/*
 * Reads the current thread's stack, records it if it is new, and returns its id; 0 if there is none. Sets `walk.unknown` if
 * more rules could change the stack.
 */
static __noinline __u64 take_stack(void *ctx, struct pt_regs *regs, struct task_struct *task, __u64 who)
{
	__u32 zero = 0, cpu = bpf_get_smp_processor_id(), at, slot, frames;
	struct stack_scratch *s = bpf_map_lookup_elem(&stack_scratches, &zero);
	struct wp_sample *r;
	long kernel;
	__u64 id, size, *told, *lost;

	if (!s)
		return 0;
	r = sample_in(&s->room);
	kernel = bpf_get_stack(ctx, s->room.copy.frames, WP_MAX_KERNEL_FRAMES * sizeof(__u64), SKIPPED_FRAMES);
	if (kernel < 0)
		kernel = 0;
	at = kernel / sizeof(__u64);
	if (at > WP_MAX_KERNEL_FRAMES)
		return 0;
	r->kernel_frames = at;
	r->scanned = 0;
	r->proved = 0;
	s->room.walk.unknown = 0;
	s->room.walk.by_pointers = 0;
	s->room.walk.places = 0;
	frames = at;
	if (regs) {
		s->room.copy.frames[at] = BPF_CORE_READ(regs, ip);
		at++;
		begin_walk(&s->room, task, BPF_CORE_READ(regs, cs), BPF_CORE_READ(regs, ip), BPF_CORE_READ(regs, sp),
			   BPF_CORE_READ(regs, bp));
		walk_stack(&s->room, at);
		r->proved = 1 + s->room.walk.proved;
		frames = at + s->room.walk.count;
		if ((s->room.walk.unknown || s->room.walk.by_pointers) && !s->room.walk.count)
			frames = guess(ctx, s, at, regs);
	}
	if (!frames || frames > WP_MAX_FRAMES)
		return 0;
	r->frames_len = frames;
	r->user_frames = frames - r->kernel_frames;
	r->tgid = who >> 32;
	fill_header(&r->h, WP_STACK, (__u32)who, WP_CTX_TASK);
	r->h.seq = cpu;
	if (s->room.walk.unknown) {
		/* No other stack has this stamp on this CPU. */
		id = mix(mix(who, r->h.stamp), cpu) | 1;
		if (hand_over(&s->room, task, id))
			return id;
	}
	id = id_of_stack();
	slot = cpu * STACK_CACHE + id % STACK_CACHE;
	told = bpf_map_lookup_elem(&stacks_told, &slot);
	if (!told || *told == id)
		return id;
	size = sizeof(*r) + (__u64)frames * sizeof(__u64);
	/* Bounds the passed register itself: the 6.1 verifier forgets the bounds of other registers. */
	asm volatile("" : "+r"(size));
	if (size > sizeof(*r) + WP_MAX_FRAMES * sizeof(__u64))
		return 0;
	if (!bpf_ringbuf_output(&life, r, size, BPF_RB_NO_WAKEUP)) {
		*told = id;
		return id;
	}
	lost = bpf_map_lookup_elem(&life_lost, &zero);
	if (lost)
		(*lost)++;
	return id;
}

/*
 * Adds the frame pointer, if valid, and its frame's return address, since functions with equal frames are called from
 * different places. In code without frame pointers, the register may have another value at each wait, and point to data.
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

/* Adds the stack's words at its return addresses' places. */
static __always_inline __u64 mix_places(__u64 key, struct stack_places *places, struct pt_regs *regs)
{
	__u64 word;

	if (places->bp_used)
		key = mix(key, regs->bp);
	for (int i = 0; i < WP_PLACES; i++) {
		if (!places->words[i] ||
		    bpf_probe_read_user(&word, sizeof(word), (void *)regs->sp + 8ull * (places->words[i] - 1)))
			break;
		key = mix(key, word);
	}
	return key;
}

/* Keeps the return addresses' places from the walk. */
static __always_inline void keep_places(struct stack_places *places, const struct walk *w, __u64 key, __u64 sp)
{
	__u64 words;

	places->key = key;
	places->bp_used = w->bp_used;
	for (int i = 0; i < WP_PLACES; i++) {
		words = i < w->places ? (w->place[i] - sp) / 8 + 1 : 0;
		places->words[i] = words < 0x10000 ? words : 0;
	}
}

/*
 * The current thread's stack id; the earlier id if everything looks the same. Adds to `ns` the time of a new reading.
 */
static __always_inline __u64 stack_of(void *ctx, struct task_struct *task, __u64 how, __u32 *ns)
{
	__u64 who = (__u64)task->tgid << 32 | (__u32)task->pid, key, id, look = 0, began;
	__u32 zero = 0, cpu = bpf_get_smp_processor_id(), slot;
	struct stack_scratch *s = bpf_map_lookup_elem(&stack_scratches, &zero);
	struct stack_counts *counts = bpf_map_lookup_elem(&stack_counters, &zero);
	struct stack_places *places = NULL;
	struct pt_regs *regs = NULL;
	struct stack_entry *e;
	bool known, settled, for_now;

	if (!s || !counts)
		return 0;
	key = mix(who, how);
	if (task->flags & PF_KTHREAD) {
		/*
		 * The context lies on the kernel stack, so its address shows the stack's depth. (Not after a system call,
		 * where the kernel begins its stack at a random offset.)
		 */
		s->depth = (__u64)ctx;
		key = mix(key, s->depth);
	} else {
		if (bpf_ksym_exists(bpf_rdonly_cast))
			regs = registers_of(task);
		else
			regs = (struct pt_regs *)bpf_task_pt_regs(task);
		look = mix(mix(mix(key, regs->ip), regs->sp), regs->orig_ax);
		slot = cpu * STACK_CACHE + look % STACK_CACHE;
		places = bpf_map_lookup_elem(&stack_places, &slot);
		if (places && places->key == look)
			key = mix_places(look, places, regs);
		else
			key = mix_frame(look, task, regs);
	}
	slot = cpu * STACK_CACHE + key % STACK_CACHE;
	e = bpf_map_lookup_elem(&stack_cache, &slot);
	if (!e)
		return 0;
	known = e->key == key;
	if (known) {
		e->hits++;
		/* Until rules are known, the key lacks return addresses: nothing is assumed, unless none is looked for. */
		if (remember_stacks && e->settled && !e->unreliable && !is_checked(e->hits)) {
			e->unchecked++;
			counts->repeated++;
			return e->stack;
		}
	}
	counts->taken++;
	began = bpf_ktime_get_ns();
	id = take_stack(ctx, regs, task, who);
	*ns = bpf_ktime_get_ns() - began;
	counts->ns += *ns;
	if (!how)
		counts->waking_ns += *ns;
	settled = !s->room.walk.unknown;
	for_now = unwind_by_tables && s->room.walk.by_pointers;
	if (settled && places && s->room.walk.places)
		keep_places(places, &s->room.walk, look, regs->sp);
	if (!known) {
		e->key = key;
		e->stack = id;
		e->hits = 0;
		e->unreliable = 0;
		e->settled = settled;
		e->for_now = for_now;
	} else if (!e->settled || e->for_now) {
		/* More is known by now: another id does not mean another stack. */
		e->stack = id;
		e->settled = settled;
		e->for_now = for_now;
	} else if (!e->unreliable && settled) {
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
 * Adds the stack after the switch-out or wake-up record with this stamp. `how`: the thread's sleeping state, 0 for a wake-up.
 * Returns the time of a new reading, ns.
 */
static __always_inline __u32 tell_stack(void *ctx, struct task_struct *task, struct wp_ring *ring, __u64 stamp,
					__u64 how)
{
	__u32 ns = 0;
	__u64 stack = stack_of(ctx, task, how, &ns);
	struct wp_stack_of *r;

	if (!stack)
		return ns;
	r = ring_reserve(ring, sched_ring_mask);
	if (!r)
		return ns;
	r->h.stamp = stamp;
	r->h.kind = WP_STACK_OF;
	r->h.context = WP_CTX_TASK;
	r->h.seq = ring->seq;
	r->h.tid = task->pid;
	r->stack = stack;
	ring_commit(ring, sizeof(*r));
	return ns;
}

/* These two are separate functions, so that they cost nothing if they are not called. */
static __noinline int stack_of_switch(unsigned long long *ctx, __u64 stamp)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct wp_ring *ring = sched_ring();
	__u32 state = ctx[3];

	/* A preempted thread continues where it was: samples show its place. */
	if (ring && !ctx[0] && state && !(state & TASK_DEAD))
		return tell_stack(ctx, prev, ring, stamp, state);
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

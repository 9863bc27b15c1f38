/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Unwinds user stacks by the tables of the files.
 *
 * 1. The tables are large, and reading them is not for the kernel. User space looks up the rule of each address that
 *    was once on a stack, and puts it into a table of one word for each: `unwind_rules`. A walk here reads one
 *    such word and one or two words of the stack for each frame.
 * 2. Where a rule is missing, the walk stops, and up to 8 KiB of the stack go through the ring buffer to a
 *    thread of user space, which finishes the walk and adds the rules. They are in memory alone.
 * 3. Copies may take half of the ring buffer, so that no other rare record is lost for them.
 */
#ifndef WAKEPATH_UNWIND_BPF_H
#define WAKEPATH_UNWIND_BPF_H

#include "ring.bpf.h"
#include "unwind.h"

/* WP_RULES words, or a single one where no stack is taken; set before loading. User space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} unwind_rules SEC(".maps") __weak;

#define WP_NO_PLACES 2

struct walk {
	__u64 space;
	__u64 ip;
	__u64 sp;
	__u64 bp;
	__u64 pair[2];
	__u32 stands;
	__u32 count;   /* frames that were found */
	__u32 proved;  /* the first of them */
	__u32 certain; /* nothing but tables led here */
	__u32 unknown; /* it ended at an address whose rule is missing */
	__u32 bp_used; /* the thread's own frame pointer led on */
	__u32 bp_own;  /* `bp` is still that of the thread */
	__u32 places;
	__u64 place[WP_NO_PLACES]; /* where the first return addresses outside of the C library are */
};

/* Room for a stack. The memory has room for one page more than is ever filled, for the verifier. */
struct stack_room {
	struct walk walk;
	struct wp_stack_copy copy;
	__u8 memory[WP_COPY_BYTES + 4096];
};

static __always_inline struct wp_sample *sample_in(struct stack_room *room)
{
	return (struct wp_sample *)room->copy.sample;
}

/* Names an address space. A program that replaces another has the same thread and another one. */
static __always_inline __u64 space_of(struct walk *w, struct task_struct *task)
{
	/* Through memory, where the verifier takes an address for a number. */
	*(volatile __u64 *)&w->space = (__u64)task->mm;
	return mix(mix(mix(0, (__u32)task->tgid), task->self_exec_id), *(volatile __u64 *)&w->space);
}

static __always_inline __u32 rule_of(__u64 space, __u64 address, __u32 stands)
{
	__u64 hash = wp_rule_hash(space, address, stands), *word;
	__u32 slot = hash & (WP_RULES - 1);

	word = bpf_map_lookup_elem(&unwind_rules, &slot);
	if (!word)
		return 0;
	hash ^= *(volatile __u64 *)word;
	return hash >> 32 ? 0 : (__u32)*(volatile __u64 *)word;
}

struct step {
	struct stack_room *room;
	__u32 at;
};

/* One frame of a walk; 1 if it was the last one. */
static int step(__u32 i, struct step *step)
{
	struct stack_room *room = step->room;
	volatile struct walk *w = &room->walk;
	__u64 frame, ip = w->ip, word, sp = w->sp;
	__u32 rule, n, kind, saved, at = step->at;

	rule = rule_of(w->space, ip, w->stands);
	if (!rule) {
		w->unknown = 1;
		return 1;
	}
	if (!w->stands) {
		n = w->count;
		if (n >= WP_MAX_WALK || at + n >= WP_MAX_FRAMES)
			return 1;
		if (rule & WP_RULE_NO_CALL)
			w->certain = 0;
		room->copy.frames[at + n] = ip;
		w->count = n + 1;
		if (w->certain)
			w->proved = n + 1;
		n = w->places;
		if (!(rule & WP_RULE_LIBRARY) && n < WP_NO_PLACES) {
			w->place[n] = sp - sizeof(word);
			w->places = n + 1;
		}
	}
	kind = rule & WP_RULE_KIND;
	if (kind == WP_RULE_OUTERMOST || kind == WP_RULE_UNSUPPORTED)
		return 1;
	frame = sp;
	if (kind != WP_RULE_FROM_SP) {
		frame = w->bp;
		if (frame < sp)
			return 1;
		if (w->bp_own)
			w->bp_used = 1;
	}
	saved = wp_rule_bp(rule);
	if (kind == WP_RULE_NO_TABLE) {
		w->certain = 0;
		frame += 16;
		saved = 2;
	} else {
		frame += wp_rule_bytes(rule);
	}
	/* A stack grows downwards: the caller's frame lies above. */
	if (frame <= sp || bpf_probe_read_user(room->walk.pair, sizeof(room->walk.pair), (void *)frame - 16))
		return 1;
	ip = w->pair[1];
	if (ip < 0x1000)
		return 1;
	if (saved) {
		word = w->pair[0];
		if (saved != 2 && bpf_probe_read_user(&word, sizeof(word), (void *)frame - 8ull * saved))
			word = 0;
		w->bp = saved == WP_RULE_BP_LOST ? 0 : word;
		w->bp_own = 0;
	}
	w->ip = ip;
	w->sp = frame;
	w->stands = 0;
	return 0;
}

/*
 * Walks from the registers in `walk`, and writes the frames behind frame `at`. Before 5.17 the kernel has no such
 * loop, and to verify an ordinary one takes it seconds: there user space does all walks.
 */
static __always_inline void walk_stack(struct stack_room *room, __u32 at)
{
	struct step all = { .room = room, .at = at };

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop))
		bpf_loop(WP_MAX_WALK, step, &all, 0);
	else
		room->walk.unknown = 1;
}

/* Copies the stack from an address on: as much of it as there is. Returns the number of bytes. */
static __always_inline __u32 copy_memory(__u8 *memory, __u64 from)
{
	__u32 first = 4096 - (from & 4095);

	if (!bpf_probe_read_user(memory, WP_COPY_BYTES, (void *)from))
		return WP_COPY_BYTES;
	/* Near the end of the stack, which is also the end of a page. */
	if (first > 4096 || bpf_probe_read_user(memory, first, (void *)from))
		return 0;
	if (bpf_probe_read_user(memory + first, 4096, (void *)from + first))
		return first;
	return first + 4096;
}

/* Hands the stack in `room` over to be finished. False where there is no room for it. */
static __noinline bool hand_over(struct stack_room *room, struct task_struct *task, __u64 id)
{
	struct wp_stack_copy *c = &room->copy;
	__u64 size;
	__u32 bytes;

	if (bpf_ringbuf_query(&life, BPF_RB_AVAIL_DATA) > bpf_ringbuf_query(&life, BPF_RB_RING_SIZE) / 2)
		return false;
	c->h = sample_in(room)->h;
	c->h.kind = WP_STACK_COPY;
	c->id = id;
	c->space = room->walk.space;
	c->start_stack = task->mm ? task->mm->start_stack : 0;
	c->ip = room->walk.ip;
	c->sp = room->walk.sp;
	c->bp = room->walk.bp;
	c->stands = room->walk.stands;
	c->certain = room->walk.certain;
	c->found = 1 + room->walk.count;
	bytes = copy_memory(room->memory, c->sp);
	c->memory = bytes;
	size = sizeof(*c) + bytes;
	asm volatile("" : "+r"(size));
	if (size > sizeof(*c) + WP_COPY_BYTES)
		return false;
	return !bpf_ringbuf_output(&life, c, size, BPF_RB_NO_WAKEUP);
}

static __always_inline void begin_walk(struct stack_room *room, struct task_struct *task, __u64 ip, __u64 sp, __u64 bp)
{
	struct walk *w = &room->walk;

	w->space = space_of(w, task);
	w->ip = ip;
	w->sp = sp;
	w->bp = bp;
	w->stands = 1;
	w->count = 0;
	w->proved = 0;
	w->certain = 1;
	w->unknown = 0;
	w->bp_used = 0;
	w->bp_own = 1;
	w->places = 0;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Unwinds user stacks by the files' tables.
 *
 * 1. The tables are large, and reading them is not for the kernel. User space looks up the rule for each address once
 *    seen on a stack, and puts it into a table, `unwind_rules`, as a single word. A walk here reads such a word and one
 *    or two stack words for each frame.
 * 2. If a rule is missing, the walk stops, and up to 8 KiB of the stack go through a ring buffer to a user-space thread,
 *    which finishes the walk and adds the rules. They are in memory alone.
 * 3. This ring buffer has only copies, and wakes its reader: each stack is copied until its rules are there. If a process
 *    makes too many, as generated code without frame pointers can, user space marks it by a rule, and its stacks are
 *    found by frame pointers for a while.
 * 4. Kernels without bpf_loop (before 5.17) cannot walk: an ordinary loop takes their verifier seconds. There
 *    `unwind_by_tables` is false.
 */
#ifndef WAKEPATH_UNWIND_BPF_H
#define WAKEPATH_UNWIND_BPF_H

#include "ring.bpf.h"
#include "unwind_step.h"

/* If false, callers are found by frame pointers alone, and nothing is copied. */
__weak const volatile bool unwind_by_tables = false;

/* WP_RULE_SETS sets, or a single set without unwinding; set before loading. User space writes it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wp_rule_set);
} unwind_rules SEC(".maps") __weak;

/* Its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} stack_copies SEC(".maps") __weak;

static __always_inline struct wp_sample *sample_in(struct stack_room *room)
{
	return (struct wp_sample *)room->copy.sample;
}

/* Identifies an address space. A program that replaces another has the same thread and a new address space. */
static __always_inline __u64 space_of(struct walk *w, struct task_struct *task)
{
	/* Through memory: there the verifier takes an address for a number. */
	*(volatile __u64 *)&w->space = (__u64)task->mm;
	return mix(mix(mix(0, (__u32)task->tgid), task->self_exec_id), *(volatile __u64 *)&w->space);
}

static __always_inline __u32 rule_of(__u64 space, __u64 address, __u32 stands)
{
	__u64 hash = wp_rule_hash(space, address, stands), word;
	__u32 slot = hash & (WP_RULE_SETS - 1);
	volatile struct wp_rule_set *set = bpf_map_lookup_elem(&unwind_rules, &slot);

	if (!set)
		return 0;
#pragma unroll
	for (int i = 0; i < WP_RULE_WAYS; i++) {
		word = set->words[i];
		if (!((word ^ hash) >> 32))
			return word;
	}
	return 0;
}

static __always_inline bool read_user(void *to, __u32 bytes, __u64 address)
{
	return !bpf_probe_read_user(to, bytes, (void *)address);
}

/* Walks from the registers in `walk`, and writes the frames behind frame `at`. */
static __always_inline void walk_stack(struct stack_room *room, __u32 at)
{
	struct step all = { .room = room, .at = at };
	volatile struct walk *w = &room->walk;

	/* The second condition is for libbpf: it removes calls unknown to this kernel. */
	if (!unwind_by_tables || !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop) || w->by_pointers) {
		w->by_pointers = 1;
		return;
	}
	bpf_loop(WP_MAX_WALK, step, &all, 0);
	if (w->unknown && rule_of(w->space, WP_QUIET_ADDRESS, 1)) {
		w->unknown = 0;
		w->by_pointers = 1;
	}
}

/* Copies the stack from an address on, up to its end or WP_COPY_BYTES. Returns the number of bytes. */
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

/* Hands the stack in `room` to user space, which finishes it. False without room in the buffer. */
static __noinline bool hand_over(struct stack_room *room, struct task_struct *task, __u64 id)
{
	struct wp_stack_copy *c = &room->copy;
	__u64 size;
	__u32 bytes;

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
	/* Wakes the reader if it has read all earlier copies. */
	return !bpf_ringbuf_output(&stack_copies, c, size, 0);
}

/* The code segment of 32-bit programs, whose frames differ. */
#define USER32_CS 0x23

static __always_inline void begin_walk(struct stack_room *room, struct task_struct *task, __u64 cs, __u64 ip, __u64 sp,
				       __u64 bp)
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
	w->by_pointers = cs == USER32_CS;
	w->bp_used = 0;
	w->bp_own = 1;
	w->places = 0;
}

#endif

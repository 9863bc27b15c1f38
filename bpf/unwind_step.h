/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A step of a walk up a stack, as plain C: a test also compiles it for the host, and compares it with the walk in
 * `crates/unwind`. The including file defines the two functions below.
 */
#ifndef WAKEPATH_UNWIND_STEP_H
#define WAKEPATH_UNWIND_STEP_H

#include "unwind_walk.h"

/* An address's rule, or 0. */
static __u32 rule_of(__u64 space, __u64 address, __u32 stands);
/* Reads the process's memory; false if it cannot be read. */
static _Bool read_user(void *to, __u32 bytes, __u64 address);

/* No code is below this address. */
#define WP_MIN_CODE 0x1000

struct step {
	struct stack_room *room;
	__u32 at; /* the index of the walk's first frame */
};

/* A frame of a walk; 1 if it was the last. */
static int step(__u32 i, struct step *step)
{
	struct stack_room *room = step->room;
	volatile struct walk *w = &room->walk;
	__u64 frame, ip = w->ip, sp = w->sp, at_bp;
	__u32 rule, n, kind, saved, at = step->at;

	rule = rule_of(w->space, ip, w->stands);
	if (!rule) {
		w->unknown = 1;
		return 1;
	}
	kind = rule & WP_RULE_KIND;
	if (!w->stands) {
		/* No call returns there: the word is not a return address. */
		if (kind == WP_RULE_NO_CODE)
			return 1;
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
		if (!(rule & WP_RULE_LIBRARY) && n < WP_PLACES) {
			w->place[n] = sp - sizeof(__u64);
			w->places = n + 1;
		}
	}
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
	if (kind == WP_RULE_NO_TABLE || kind == WP_RULE_NO_CODE) {
		w->certain = 0;
		frame += 16;
		saved = 2;
	} else {
		frame += wp_rule_bytes(rule);
	}
	/* A stack grows downwards: the caller's frame lies above. */
	if (frame <= sp)
		return 1;
	at_bp = saved * 8ull;
	/* Below the stack pointer nothing is kept. */
	if (saved == WP_RULE_BP_LOST || at_bp > frame - sp)
		at_bp = 0;
	/* The frame pointer is mostly beside the return address. */
	if (at_bp != 16 || !read_user(room->walk.pair, sizeof(room->walk.pair), frame - 16)) {
		if (!at_bp || !read_user(&room->walk.pair[0], sizeof(__u64), frame - at_bp))
			w->pair[0] = 0;
		if (!read_user(&room->walk.pair[1], sizeof(__u64), frame - 8))
			return 1;
	}
	ip = w->pair[1];
	if (ip < WP_MIN_CODE)
		return 1;
	if (saved) {
		w->bp = w->pair[0];
		w->bp_own = 0;
	}
	w->ip = ip;
	w->sp = frame;
	w->stands = 0;
	return 0;
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A walk up a stack: its state, and room for the stack. */
#ifndef WAKEPATH_UNWIND_WALK_H
#define WAKEPATH_UNWIND_WALK_H

#include "unwind.h"

/* The maximum number of kept places, with return addresses outside the C library. */
#define WP_PLACES 2

struct walk {
	__u64 space;
	__u64 ip;
	__u64 sp;
	__u64 bp; /* 0: not known */
	__u64 pair[2];
	__u32 stands;
	__u32 count;   /* found frames */
	__u32 proved;  /* proved frames, the first of these */
	__u32 certain; /* only tables led here */
	__u32 unknown; /* it ended at an address with a missing rule, which user space can find */
	__u32 by_pointers; /* no walk by tables, or no question to user space */
	__u32 bp_used; /* the thread's own frame pointer led on */
	__u32 bp_own;  /* `bp` is still the thread's own */
	__u32 places;
	__u64 place[WP_PLACES]; /* the places of the first return addresses outside the C library */
};

/* Room for a stack. For the verifier, the memory is a page larger than is ever filled. */
struct stack_room {
	struct walk walk;
	struct wp_stack_copy copy;
	__u8 memory[WP_COPY_BYTES + 4096];
};

#endif

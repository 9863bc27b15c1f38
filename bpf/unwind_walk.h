/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The state of a walk up a stack.
 */
#ifndef WAKEPATH_UNWIND_WALK_H
#define WAKEPATH_UNWIND_WALK_H

#include "unwind.h"

/* The number of return addresses outside of the C library whose places are kept. */
#define WP_PLACES 2

struct walk {
	__u64 space;
	__u64 ip;
	__u64 sp;
	__u64 bp; /* 0: not known */
	__u64 pair[2];
	__u32 stands;
	__u32 count;   /* frames that were found */
	__u32 proved;  /* the first of them */
	__u32 certain; /* nothing but tables led here */
	__u32 unknown; /* it ended at an address whose rule is missing, which user space can find */
	__u32 by_pointers; /* it is not to be walked by tables, or user space shall not be asked */
	__u32 bp_used; /* the thread's own frame pointer led on */
	__u32 bp_own;  /* `bp` is still that of the thread */
	__u32 places;
	__u64 place[WP_PLACES]; /* where the first return addresses outside of the C library are */
};

/* Room for a stack. The memory has room for one page more than is ever filled, for the verifier. */
struct stack_room {
	struct walk walk;
	struct wp_stack_copy copy;
	__u8 memory[WP_COPY_BYTES + 4096];
};

#endif

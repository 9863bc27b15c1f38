/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The rules for unwinding a stack, as user space finds them in the files' tables (`crates/unwind` has the same bits
 * and the same hash), and the copy of a stack with a missing rule: plain C, which a test also compiles for the host.
 */
#ifndef WAKEPATH_UNWIND_H
#define WAKEPATH_UNWIND_H

#include "records.h"
#include "mix.h"

/* The table of rules: sets of words, a word for each address. */
#define WP_RULE_SETS (1 << 14)
#define WP_RULE_WAYS 4
struct wp_rule_set {
	__u64 words[WP_RULE_WAYS];
};
/* The maximum number of frames in a walk. */
#define WP_MAX_WALK (WP_MAX_FRAMES - WP_MAX_KERNEL_FRAMES - 1)
/* The maximum number of copied bytes of a stack. */
#define WP_COPY_BYTES 8192

/* A table word's low half. */
#define WP_RULE_KIND 7
enum wp_rule_kind {
	WP_RULE_FROM_SP = 1,
	WP_RULE_FROM_BP = 2,
	WP_RULE_NO_TABLE = 3,
	WP_RULE_OUTERMOST = 4,
	WP_RULE_UNSUPPORTED = 5,
	WP_RULE_NO_CODE = 6,
};
#define WP_RULE_LIBRARY 8
#define WP_RULE_NO_CALL 16

/* Bytes from the register to the frame's beginning; the word before it is the return address. */
static inline __attribute__((always_inline)) __u64 wp_rule_bytes(__u32 rule)
{
	return (rule >> 5 & 0x1fff) * 8ull;
}

/* The caller's frame pointer, in words below the frame's beginning; 0: it is unchanged. */
static inline __attribute__((always_inline)) __u32 wp_rule_bp(__u32 rule)
{
	return rule >> 18;
}
#define WP_RULE_BP_LOST 0x3fff

/* While this address, which no thread reaches, has a rule, no stack in its address space is copied. */
#define WP_QUIET_ADDRESS 0

/* `stands`: the thread stands at this address; otherwise it is a return address. */
static inline __attribute__((always_inline)) __u64 wp_rule_hash(__u64 space, __u64 address, __u32 stands)
{
	return mix(mix(space, address), stands ? 1 : 2);
}

/* The kind of a record that never gets onto a disk: it holds user memory, perhaps with secrets. */
#define WP_STACK_COPY 63

/* A stack up to an address without a known rule, and the memory from there on. */
struct wp_stack_copy {
	struct wp_header h;
	__u64 id;	   /* the stack's id, already in records; 0: a sample */
	__u64 space;	   /* identifies the address space in the recording */
	__u64 start_stack; /* the process's: a change shows another program */
	__u64 ip;
	__u64 sp;
	__u64 bp; /* 0: not known */
	__u32 stands;
	__u32 certain; /* the registers are proved */
	__u32 memory;  /* bytes behind this struct */
	__u32 found;   /* user frames by the walk, the first included; later frames are guesses */
	/* A struct wp_sample, as in a record without a copy, and its frames. */
	__u64 sample[sizeof(struct wp_sample) / sizeof(__u64)];
	__u64 frames[WP_MAX_FRAMES];
};
_Static_assert(sizeof(struct wp_stack_copy) == 80 + 32 + 8 * WP_MAX_FRAMES, "stack_copy");

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The rules by which a stack is unwound, as user space finds them in the tables of the files (`crates/unwind` has the
 * same bits and the same hash), and the copy of a stack for which a rule is missing: plain C, which a test also
 * compiles for the host.
 */
#ifndef WAKEPATH_UNWIND_H
#define WAKEPATH_UNWIND_H

#include "records.h"
#include "mix.h"

/* The table of rules: sets, each of some words, one for an address. */
#define WP_RULE_SETS (1 << 14)
#define WP_RULE_WAYS 4
struct wp_rule_set {
	__u64 words[WP_RULE_WAYS];
};
/* The most frames that one walk finds. */
#define WP_MAX_WALK (WP_MAX_FRAMES - WP_MAX_KERNEL_FRAMES - 1)
/* The most bytes of a stack that are copied. */
#define WP_COPY_BYTES 8192

/* The low half of a word of the table. */
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

/* Bytes from the register to the beginning of the frame, whose word before it is the return address. */
static inline __attribute__((always_inline)) __u64 wp_rule_bytes(__u32 rule)
{
	return (rule >> 5 & 0x1fff) * 8ull;
}

/* Words below the beginning of the frame at which the caller's frame pointer is; 0: it is unchanged. */
static inline __attribute__((always_inline)) __u32 wp_rule_bp(__u32 rule)
{
	return rule >> 18;
}
#define WP_RULE_BP_LOST 0x3fff

/* While this address has a rule, at which no thread stands, no stack of that address space is copied. */
#define WP_QUIET_ADDRESS 0

/* `stands`: the thread stands at this address; otherwise it is a return address. */
static inline __attribute__((always_inline)) __u64 wp_rule_hash(__u64 space, __u64 address, __u32 stands)
{
	return mix(mix(space, address), stands ? 1 : 2);
}

/* The number of a record that never gets onto a disk: user memory is in it, which may hold secrets. */
#define WP_STACK_COPY 63

/* A stack up to an address whose rule is not known, and the memory from there on. */
struct wp_stack_copy {
	struct wp_header h;
	__u64 id;	   /* of the stack, to which records refer already; 0: of a sample */
	__u64 space;	   /* names the address space among those of one recording */
	__u64 start_stack; /* of the process, which shows that it still runs the same program */
	__u64 ip;
	__u64 sp;
	__u64 bp; /* 0: not known */
	__u32 stands;
	__u32 certain; /* the registers are proved */
	__u32 memory;  /* bytes behind this struct */
	__u32 found;   /* frames of the program that the walk found, the first included; those behind it are guesses */
	/* A struct wp_sample, as a record that needs no copy is, and its frames. */
	__u64 sample[sizeof(struct wp_sample) / sizeof(__u64)];
	__u64 frames[WP_MAX_FRAMES];
};
_Static_assert(sizeof(struct wp_stack_copy) == 80 + 32 + 8 * WP_MAX_FRAMES, "stack_copy");

#endif

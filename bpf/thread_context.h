/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The layout of a published thread-context record, and of the table with the places of the words that point to them.
 */
#ifndef WAKEPATH_THREAD_CONTEXT_H
#define WAKEPATH_THREAD_CONTEXT_H

#include "records.h"

/* OTEP 4947: the part of a record before its attributes, byte-packed. */
struct wp_published {
	__u8 trace[16];
	__u8 span[8];
	__u8 valid; /* 1: the record is complete */
	__u8 trace_flags;
	__u16 attributes; /* their bytes */
} __attribute__((packed));
_Static_assert(sizeof(struct wp_published) == 28, "published");

/* In place of a block of thread-local memory that was not allocated yet. */
#define WP_NO_BLOCK 0xffffffffffffffffull

/* Where a process has the word. */
struct wp_word {
	__u64 start_stack; /* where its first stack begins: another program under the same number begins elsewhere */
	__s64 offset;	   /* from the thread pointer, or within the block of the module */
	__u64 module;	   /* number of the library in the vector of blocks; 0: the word has a fixed place */
	__u64 keys[4];	   /* the keys of the attributes that are recorded, a bit for each */
	__u64 loads;	   /* how often a library with the word was loaded */
};
_Static_assert(sizeof(struct wp_word) == 64, "word");

#define WP_WORD_WAYS 4
#define WP_WORD_SETS 1024

/* The places of the processes whose numbers are equal modulo WP_WORD_SETS. */
struct wp_word_set {
	__u32 tgids[WP_WORD_WAYS]; /* 0: free */
	__u64 spare[6];
	struct wp_word words[WP_WORD_WAYS];
};
_Static_assert(sizeof(struct wp_word_set) == 320, "word_set");

static inline __attribute__((always_inline)) _Bool is_zero(const __u8 *bytes, int count)
{
	__u8 any = 0;

	for (int i = 0; i < count; i++)
		any |= bytes[i];
	return !any;
}

/*
 * The meaning of a record. One that is not complete is being written, or was detached by a writer that keeps its pointer: not
 * known. A complete one without ids has other attributes alone: no span. One id without the other means nothing.
 */
static inline __attribute__((always_inline)) enum wp_context_state state_of(const struct wp_published *p)
{
	_Bool no_trace = is_zero(p->trace, sizeof(p->trace)), no_span = is_zero(p->span, sizeof(p->span));

	if (p->valid != 1 || no_trace != no_span)
		return WP_CONTEXT_UNKNOWN;
	return no_trace ? WP_CONTEXT_NONE : WP_CONTEXT_SPAN;
}

#endif

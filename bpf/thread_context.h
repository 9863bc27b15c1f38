/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A published thread-context record's layout, and the table with the places of the words that point to such records.
 */
#ifndef WAKEPATH_THREAD_CONTEXT_H
#define WAKEPATH_THREAD_CONTEXT_H

#include "records.h"

/* OTEP 4947: a record's part before its attributes, byte-packed. */
struct wp_published {
	__u8 trace[16];
	__u8 span[8];
	__u8 valid; /* 1: the record is complete */
	__u8 trace_flags;
	__u16 attributes; /* their size, bytes */
} __attribute__((packed));
_Static_assert(sizeof(struct wp_published) == 28, "published");

/* Instead of a thread-local block that was not allocated yet. */
#define WP_NO_BLOCK 0xffffffffffffffffull

/* The word's place in a process. */
struct wp_word {
	__u64 start_stack; /* where its first stack begins: a later program with the same number begins elsewhere */
	__s64 offset;	   /* from the thread pointer, or within the module's block */
	__u64 module;	   /* the library's number in the vector of blocks; 0: the word has a fixed place */
	__u64 keys[4];	   /* recorded attributes' keys, a bit for each */
	__u64 loads;	   /* the number of loads of a library with the word */
};
_Static_assert(sizeof(struct wp_word) == 64, "word");

#define WP_WORD_WAYS 4
#define WP_WORD_SETS 1024

/* The places for processes with equal numbers modulo WP_WORD_SETS. */
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
 * A record's meaning. An incomplete record is being written, or was detached by a writer that keeps its pointer: unknown. A
 * complete record without ids has only other attributes: no span. An id without the other means nothing.
 */
static inline __attribute__((always_inline)) enum wp_context_state state_of(const struct wp_published *p)
{
	_Bool no_trace = is_zero(p->trace, sizeof(p->trace)), no_span = is_zero(p->span, sizeof(p->span));

	if (p->valid != 1 || no_trace != no_span)
		return WP_CONTEXT_UNKNOWN;
	return no_trace ? WP_CONTEXT_NONE : WP_CONTEXT_SPAN;
}

#endif

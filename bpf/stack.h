/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A stack's id, and the recognition of return addresses: plain C, which a test also compiles for the host. */
#ifndef WAKEPATH_STACK_H
#define WAKEPATH_STACK_H

#include "records.h"
#include "mix.h"

/* The maximum number of frames found beside the chain of frame pointers, and the number of words searched for them. */
#define WP_MOST_SCANNED 6
#define WP_SCAN_WORDS 32

/* The stack's id: a hash of its record behind the header. The reader computes the same hash. */
static inline __attribute__((always_inline)) __u64 stack_id(const struct wp_sample *r)
{
	__u64 h = mix(0, (__u64)r->tgid << 32 | (__u64)r->kernel_frames << 16 | r->user_frames);

	h = mix(h, (__u32)r->proved << 16 | r->scanned);
	for (__u32 i = 0; i < WP_MAX_FRAMES; i++) {
		if (i >= r->frames_len)
			break;
		h = mix(h, r->frames[i]);
	}
	return h;
}

/*
 * Whether these eight bytes of x86-64 code, the last in the highest byte, end with a call: then the address after them
 * is its return address.
 */
static inline __attribute__((always_inline)) int ends_in_call(__u64 code)
{
	__u8 last = code >> 56;

	/* call rel32; call *disp32(%rip), through a table */
	if ((code >> 24 & 0xff) == 0xe8 || (code >> 16 & 0xffff) == 0x15ff)
		return 1;
	/* call *%reg; call *(%reg), except for the two registers whose codes mean another form */
	if ((code >> 48 & 0xff) == 0xff)
		return (last & 0xf8) == 0xd0 || ((last & 0xf8) == 0x10 && last != 0x14 && last != 0x15);
	/* call *disp8(%reg); call *disp32(%reg) */
	if ((code >> 40 & 0xf8ff) == 0x50ff || (code >> 16 & 0xf8ff) == 0x90ff)
		return 1;
	/* the same with an index register, one byte longer */
	return (code >> 40 & 0xffff) == 0x14ff || (code >> 32 & 0xffff) == 0x54ff || (code >> 8 & 0xffff) == 0x94ff;
}

/*
 * Whether a remembered stack is checked after this number of hits: the 1st, 2nd, 4th, 8th and so on, and each 64th.
 */
static inline __attribute__((always_inline)) int is_checked(__u32 hits)
{
	return !(hits & (hits - 1)) || !(hits & 63);
}

#endif

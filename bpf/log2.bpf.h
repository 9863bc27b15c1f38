/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A latency's bucket. */
#ifndef WAKEPATH_LOG2_H
#define WAKEPATH_LOG2_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

/* The exponent of the largest power of two up to the value; 0 for 0. */
static __always_inline __u32 log2_of(__u64 value)
{
	__u32 found = 0;

#pragma unroll
	for (int bits = 32; bits; bits /= 2) {
		if (value >> bits) {
			value >>= bits;
			found += bits;
		}
	}
	return found;
}

#endif

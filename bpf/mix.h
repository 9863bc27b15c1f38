/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A hash of words. Its values are compared only with each other, and need not withstand an attacker. */
#ifndef WAKEPATH_MIX_H
#define WAKEPATH_MIX_H

#include "types.h"

static inline __attribute__((always_inline)) __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ (h >> 29);
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The clock of a program in C or C++, included before all else: a line for each 0.1 s into the file DRILLED_CLOCK, as clock.py has it.
 */
#ifndef DRILLED_CLOCK_H
#define DRILLED_CLOCK_H
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline long drilled_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void drilled_lap(long began, long calls)
{
	static FILE *file;
	static long window, count, sum, longest;
	long at = drilled_now();
	if (!file) {
		file = fopen(getenv("DRILLED_CLOCK"), "a");
		if (!file)
			abort();
		window = at;
	}
	count += calls;
	sum += at - began;
	longest = at - began > longest ? at - began : longest;
	if (at - window < 100000000L)
		return;
	fprintf(file, "%ld %ld %ld %ld\n", at, count, sum, longest);
	fflush(file);
	window = at;
	count = sum = longest = 0;
}

#define CLOCKED(call) do { long began_ = drilled_now(); call; drilled_lap(began_, 1); } while (0)
/* Where a call is shorter than two looks at the clock. */
#define CLOCKED_MANY(i, n) do { static long began_; if ((i) % (n) == 0) { if (began_) drilled_lap(began_, n); began_ = drilled_now(); } } while (0)
#endif

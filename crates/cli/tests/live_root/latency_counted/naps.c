/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls `nap` N times, which sleeps for 1 ms, and prints the number of naps and its own time from the first to the last,
 * ns: a line `NAME COUNT` each.
 *
 *     naps N
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

static long long now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000LL + at.tv_nsec;
}

PROBED long nap(long value)
{
	struct timespec time = { 0, 1000000 };

	nanosleep(&time, NULL);
	KEEP(value);
	return value;
}

/* Functions to attach probes to, one after the other. */
#define OTHER(name) \
	PROBED long name(long value) \
	{ \
		KEEP(value); \
		return value; \
	}
OTHER(other_a) OTHER(other_b) OTHER(other_c) OTHER(other_d) OTHER(other_e) OTHER(other_f)
OTHER(other_g) OTHER(other_h) OTHER(other_i) OTHER(other_j) OTHER(other_k) OTHER(other_l)

int main(int argc, char **argv)
{
	long naps = argc > 1 ? atol(argv[1]) : 0, sum = 0;
	long long began = now();

	for (long i = 0; i < naps; i++)
		sum += nap(i);
	if (sum < 0)
		sum += other_a(1) + other_b(1) + other_c(1) + other_d(1) + other_e(1) + other_f(1) + other_g(1) +
		       other_h(1) + other_i(1) + other_j(1) + other_k(1) + other_l(1);
	printf("naps %ld\nown_ns %lld\n", naps, now() - began);
	return 0;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/* A library that is unloaded while its functions are measured. */
#include <time.h>

#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

PROBED long inner(int slow)
{
	long x = slow;

	KEEP(x);
	if (slow)
		nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, 0);
	KEEP(x);
	return x;
}

PROBED long plugged(int slow)
{
	long x = inner(slow);

	KEEP(x);
	return x;
}

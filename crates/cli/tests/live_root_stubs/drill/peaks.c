/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls `serve`, which has three peaks, each for its own reason: most calls compute some 40 us in `look`, every fifth sleeps 300 us in
 * `load`, and every tenth 6 ms in `store`. With an argument every 20,000th sleeps instead of every tenth, and the first sleeping calls come
 * together. Ends with its standard input.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

static inline __attribute__((always_inline)) uint64_t compute(uint64_t x)
{
	for (uint64_t i = 0; i < x; i++)
		KEEP(i);
	return x;
}

PROBED uint64_t look(uint64_t steps)
{
	uint64_t x = compute(steps);

	KEEP(x);
	return x;
}

PROBED uint64_t load(uint64_t ns)
{
	uint64_t x = 1;

	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
	KEEP(x);
	return x;
}

PROBED uint64_t store(uint64_t ns)
{
	uint64_t x = 2;

	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
	KEEP(x);
	return x;
}

PROBED uint64_t serve(int sleeps, int loads)
{
	uint64_t x = look(60000);

	if (loads)
		x += load(300000);
	if (sleeps)
		x += store(6000000);
	KEEP(x);
	return x;
}

int main(int argc, char **argv)
{
	struct pollfd end = { .fd = 0, .events = POLLIN };
	int rare = argc > 1;

	printf("%d\n", getpid());
	fflush(stdout);
	for (uint64_t i = 0; !poll(&end, 1, 0); i++)
		serve(rare ? i % 20000 == 7 || (i > 100 && i < 400) : i % 10 == 9, i % 5 == 1);
	return argv[0][0] == 0;
}

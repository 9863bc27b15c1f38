/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls `serve` in phases of 30 calls, and as often between phases; one call in three is slow: within a phase due to `load`,
 * between phases due to `store`. With an argument the first phase begins after 11 s. Ends with its standard input.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

static uint64_t steps = 1000000;

static inline __attribute__((always_inline)) uint64_t compute(uint64_t x)
{
	for (uint64_t i = 0; i < x; i++)
		KEEP(i);
	return x;
}

PROBED uint64_t phase_begins(uint64_t x)
{
	KEEP(x);
	return x;
}

PROBED uint64_t phase_ends(uint64_t x)
{
	KEEP(x);
	return x + 1;
}

PROBED uint64_t load(int slow)
{
	uint64_t x = compute(slow ? steps : 10);

	KEEP(x);
	return x;
}

PROBED uint64_t store(int slow)
{
	uint64_t x = compute(slow ? steps : 11);

	KEEP(x);
	return x;
}

PROBED uint64_t serve(int in_phase, int slow)
{
	uint64_t x = load(in_phase && slow);

	x += store(!in_phase && slow);
	KEEP(x);
	return x;
}

PROBED uint64_t never(uint64_t x)
{
	KEEP(x);
	return x + 2;
}

int main(int argc, char **argv)
{
	struct pollfd end = { .fd = 0, .events = POLLIN };

	if (argc > 99)
		return never(argc);
	printf("%d\n", getpid());
	fflush(stdout);
	if (argc > 1)
		poll(&end, 1, 11000);
	while (!poll(&end, 1, 0)) {
		phase_begins(1);
		for (int i = 0; i < 30; i++) {
			serve(1, i % 3 == 2);
			if (i == 15)
				phase_begins(2); /* again: it is the same phase */
			nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
		}
		phase_ends(1);
		for (int i = 0; i < 30; i++) {
			serve(0, i % 3 == 2);
			nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
		}
	}
	return argv[0][0] == 0;
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * One call in nine is slow: its time in `leaf` is three quarters in one line, a quarter in another. The other calls are only
 * in the second line. `serve` computes in its own line. Prints its process number first; ends with its input.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define PROBED __attribute__((noinline, noclone))
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

PROBED long leaf(long many, long few)
{
	long x = many;

	for (long i = 0; i < many; i++) { x = x * 31 + i; KEEP(x); } /* most */
	for (long i = 0; i < few; i++) { x = x * 31 + i; KEEP(x); } /* rest */
	return x;
}

PROBED long serve(int slow)
{
	long many = slow ? 3000000 : 0, few = slow ? 1000000 : 200000;

	KEEP(many);
	/* A single call for both: two would be two nodes. */
	long x = leaf(many, few);

	for (long i = 0; i < (slow ? 1000000 : 1000); i++) { x = x * 31 + i; KEEP(x); } /* caller */
	return x;
}

static void *work(void *unused)
{
	for (long i = 0;; i++)
		serve(i % 9 == 8);
	return unused;
}

int main(void)
{
	pthread_t worker;

	printf("%d\n", getpid());
	fflush(stdout);
	pthread_create(&worker, NULL, work, NULL);
	while (getchar() != EOF)
		;
	return 0;
}

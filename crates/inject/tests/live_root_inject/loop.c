/* A function that calls another one very often, and says what a call takes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOT_INLINED __attribute__((noinline, noclone, noipa))

NOT_INLINED long leaf(long n) { return n + 1; }

NOT_INLINED long once(long calls)
{
	long sum = 0;
	for (long n = 0; n < calls; n++)
		sum += leaf(n);
	return sum;
}

static double ns(void)
{
	struct timespec it;
	clock_gettime(CLOCK_MONOTONIC, &it);
	return 1e9 * it.tv_sec + it.tv_nsec;
}

/* For each line of input: a number of calls. */
NOT_INLINED __attribute__((optimize("no-omit-frame-pointer"))) void f0(void)
{
	unsigned long pointer;
	long calls;
	__asm__("rdfsbase %0" : "=r"(pointer));
	printf("f0 %#lx %#lx\n", pointer, (unsigned long)__builtin_frame_address(0) + 8);
	fflush(stdout);
	while (scanf("%ld", &calls) == 1) {
		double began = ns();
		long sum = once(calls);
		printf("%.3f %ld\n", (ns() - began) / calls, sum);
		fflush(stdout);
	}
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("once %#lx f0 %#lx\n", (unsigned long)once, (unsigned long)f0);
	f0();
	return 0;
}

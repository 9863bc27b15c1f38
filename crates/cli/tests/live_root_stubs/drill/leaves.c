// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * `serve` computes in `burn`, and leaves by a jump to an address from a table, in a file through which stacks switch: no probe
 * sees its returns safely. Prints its process number first; ends with its input.
 */
#include <poll.h>
#include <stdio.h>
#include <ucontext.h>
#include <unistd.h>

typedef void (*way_out)(long);

static volatile unsigned long sink;

__attribute__((noinline)) void finish(long n)
{
	sink += n;
}

__attribute__((noinline)) void burn(long n)
{
	for (long i = 0; i < n; i++)
		sink += i;
	__asm__ volatile("");
}

way_out ways[2] = { finish, finish };

__attribute__((noinline)) void serve(long n)
{
	burn(n);
	burn(n / 2);
	ways[n & 1](n);
}

int main(void)
{
	struct pollfd input = { .fd = 0 };
	ucontext_t context;

	getcontext(&context);
	if (sink == 77)
		swapcontext(&context, &context);
	printf("%d\n", getpid());
	fflush(stdout);
	while (poll(&input, 1, 1) == 0)
		serve(3000000);
	return 0;
}

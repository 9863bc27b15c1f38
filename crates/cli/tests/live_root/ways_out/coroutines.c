/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two coroutines with their own stacks take turns: each calls `switches`, within which the other has its turn, as many
 * times as the first argument says, and `steady` as often, each from its own place. With a second argument the first
 * stack lies above the second. At the end it prints the number of calls that returned, and the number with another
 * call's result: a line `NAME COUNT` each.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define PROBED __attribute__((noinline, noclone))
/* The function begins by pushing the frame pointer. */
#define KEEP(value) __asm__ volatile("" : "+r"(value) : "r"(__builtin_frame_address(0)))

enum { COROUTINES = 2, STACK = 64 << 10 };

static ucontext_t scheduler, coroutines[COROUTINES];
static int current;
static long calls, returned, wrong;

static void let_other_go(void)
{
	swapcontext(&coroutines[current], &scheduler);
}

PROBED long switches(long value)
{
	KEEP(value);
	let_other_go();
	return value + 1;
}

PROBED long steady(long value)
{
	KEEP(value);
	return value + 1;
}

static void first(void)
{
	for (long i = 0; i < calls; i++) {
		wrong += switches(i) != i + 1;
		wrong += steady(i) != i + 1;
		returned++;
	}
	for (;;)
		let_other_go();
}

static void second(void)
{
	for (long i = 0; i < calls; i++) {
		wrong += switches(-i) != 1 - i;
		wrong += steady(-i) != 1 - i;
		returned++;
	}
	for (;;)
		let_other_go();
}

int main(int argc, char **argv)
{
	const int turned = argc > 2;
	char *stacks = malloc(COROUTINES * STACK);

	calls = argc > 1 ? atol(argv[1]) : 0;
	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack.ss_sp = stacks + (turned ? COROUTINES - 1 - i : i) * STACK;
		coroutines[i].uc_stack.ss_size = STACK;
		makecontext(&coroutines[i], i ? second : first, 0);
	}
	while (returned < COROUTINES * calls)
		for (current = 0; current < COROUTINES; current++)
			swapcontext(&scheduler, &coroutines[current]);
	printf("returned %ld\nwrong %ld\n", returned, wrong);
	return 0;
}

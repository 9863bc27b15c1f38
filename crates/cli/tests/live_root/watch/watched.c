// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Three threads call `handle`, one calls `steady`. A letter on standard input changes the time of a `handle` call:
 *
 *   u  as usual: 250 us
 *   s  slow: 2 ms, in `slow_part`
 *   b  one call blocks until the next letter, and no other begins
 *
 * Each letter is answered with the time of the change, ns since 1970. The program ends with its input.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_int state = 'u';

static void sleep_us(long us)
{
	struct timespec time = { .tv_nsec = us * 1000 };
	nanosleep(&time, NULL);
}

__attribute__((noinline)) void usual_part(void)
{
	sleep_us(250);
}

__attribute__((noinline)) void slow_part(void)
{
	sleep_us(2000);
}

__attribute__((noinline)) int handle(int calls, int may_block)
{
	if (state == 's')
		slow_part();
	else
		usual_part();
	while (may_block && state == 'b')
		sleep_us(1000);
	return calls + 1;
}

__attribute__((noinline)) int steady(int calls)
{
	sleep_us(700);
	return calls + 1;
}

static void *handles(void *may_block)
{
	for (int calls = 0;; calls = handle(calls, may_block != NULL)) {
		while (state == 'b' && !may_block)
			sleep_us(1000);
	}
	return NULL;
}

static void *steadies(void *unused)
{
	(void)unused;
	for (int calls = 0;;)
		calls = steady(calls);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	int letter;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, handles, i ? NULL : &thread);
	pthread_create(&thread, NULL, steadies, NULL);
	while ((letter = getchar()) != EOF) {
		struct timespec now;

		if (letter == '\n')
			continue;
		state = letter;
		clock_gettime(CLOCK_REALTIME, &now);
		printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
		fflush(stdout);
	}
	exit(0);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread works for successive spans, 20 ms each, and rests 5 ms between them. For each line that it reads, the next span takes
 * 700 ms: `slow TID BEGIN END` on CLOCK_MONOTONIC, ns. A second thread works for no span and waits for the lines.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "wakepath_context.h"

static atomic_int asked, ended;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void rest(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static void *serve(void *unused)
{
	uint8_t trace[16] = { 1 }, span[8] = { 1 };

	(void)unused;
	prctl(PR_SET_NAME, "serves");
	for (uint64_t id = 1; !atomic_load(&ended); id++) {
		struct wakepath_attached attached;
		int slow = atomic_exchange(&asked, 0);

		memcpy(trace + 8, &id, sizeof id);
		memcpy(span, &id, sizeof id);
		uint64_t from = now();
		wakepath_attach(&attached, trace, span, 1);
		rest(slow ? 700 : 20);
		wakepath_detach(&attached);
		if (slow) {
			printf("slow %d %llu %llu\n", gettid(), (unsigned long long)from, (unsigned long long)now());
			fflush(stdout);
		}
		rest(5);
	}
	return NULL;
}

int main(void)
{
	char line[64];
	pthread_t thread;

	if (pthread_create(&thread, NULL, serve, NULL))
		return 1;
	while (fgets(line, sizeof line, stdin))
		atomic_store(&asked, 1);
	atomic_store(&ended, 1);
	pthread_join(thread, NULL);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads on the same CPU hand each other a semaphore, and say which span they work for: a load for what a recorder reads of
 * that at each switch.
 *
 *     spanfreq KIND TRIPS       KIND is none, same or new
 *
 * `none` has the word for it, and no span; `same` is in a single span all the time, `new` in another span in each turn. The program
 * spanfreq-hidden is the same with the word where no reader finds it, and spanfreq-loaded with all of it in a library that is loaded
 * while it runs, as agents are. Waits for a line, then prints the time of a round trip in ns. A round trip has two switches and two
 * wake-ups.
 */
#define _GNU_SOURCE
#ifdef LOADER
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char path[4096];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - sizeof ".so");
	int (*whole)(int, char **) = NULL;
	void *library;

	if (bytes < 0)
		return 3;
	strcpy(path + bytes, ".so");
	library = dlopen(path, RTLD_NOW);
	if (library)
		*(void **)&whole = dlsym(library, "main");
	return whole ? whole(argc, argv) : 3;
}
#else
#include "../../plugins/c/wakepath_context.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static sem_t ping, pong;
static long trips;
static bool is_new;
static struct wakepath_record none;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One side. Two records by turns, so that none is written while it is shown. */
static void turns(sem_t *mine, sem_t *others, uint8_t side, struct wakepath_record *records)
{
	uint8_t trace[16] = { side + 1 }, span[8] = { side + 1 };

	for (long i = 0; i < trips; i++) {
		sem_wait(mine);
		if (is_new) {
			memcpy(span + 2, &(uint32_t){ (uint32_t)i }, 4);
			wakepath_fill(&records[i & 1], trace, span, 1);
			wakepath_show(&records[i & 1]);
		}
		sem_post(others);
	}
}

static void *peer(void *records)
{
	wakepath_show(records == &none ? NULL : records);
	turns(&ping, &pong, 1, records);
	wakepath_show(NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct wakepath_record records[2][2];
	const uint8_t ids[16] = { 9, 9 };
	pthread_t thread;
	cpu_set_t cpus;
	bool is_none = argc == 3 && !strcmp(argv[1], "none");

	is_new = argc == 3 && !strcmp(argv[1], "new");
	trips = argc == 3 ? atol(argv[2]) : 0;
	if (trips <= 0 || !(is_none || is_new || !strcmp(argv[1], "same"))) {
		fprintf(stderr, "usage: spanfreq none|same|new TRIPS\n");
		return 2;
	}
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof cpus, &cpus);
	for (int side = 0; side < 2; side++)
		wakepath_fill(&records[side][0], ids, ids, 1);
	wakepath_show(is_none ? NULL : records[0]);
	sem_init(&ping, 0, 0);
	sem_init(&pong, 0, 0);
	if (getchar() == EOF)
		return 1;
	if (pthread_create(&thread, NULL, peer, is_none ? &none : records[1]))
		return 1;
	double began = now();
	sem_post(&pong);
	turns(&pong, &ping, 0, records[0]);
	printf("%.1f\n", (now() - began) / (double)trips);
	/* The records are unused once no thread shows them. */
	wakepath_show(NULL);
	pthread_join(thread, NULL);
	return 0;
}
#endif

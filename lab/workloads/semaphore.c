/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The main thread asks a worker through a semaphore and waits for the answer on another.
 *
 *     main              ===^.........|===^.........|==      `^` posts, `|` is released
 *     semaphore-work    ....|=====---^....|=====---^        `=` works, `-` sleeps
 *
 * Truth: main's waits are the worker's, which works 2/3 and sleeps 1/3 of each. A semaphore has no
 * holder: whoever posts is the releaser, and nothing may be called the owner.
 *
 * Assumes nothing: on a single CPU the worker's first moments become runnable.
 */
#include "truth.h"

#include <pthread.h>
#include <semaphore.h>

static long rounds = 12, work_ms = 20, sleep_ms = 10, own_ms = 10;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "times that main asks" },
	{ "work-ms", &work_ms, false, "CPU time of the worker each time" },
	{ "sleep-ms", &sleep_ms, false, "sleep of the worker each time" },
	{ "own-ms", &own_ms, false, "CPU time of main between" },
	{ 0 },
};

static sem_t question, answer;

static void *worker(void *parent)
{
	lane_t lane = lane_open("semaphore-work", *(lane_t *)parent);
	for (long i = 0; i < rounds; i++) {
		wait_begins(lane, "futex");
		sem_wait(&question);
		wait_ends(lane, NO_LANE);
		work(lane, (uint64_t)work_ms * MS);
		rest(lane, (uint64_t)sleep_ms * MS);
		releases(lane, *(lane_t *)parent);
		sem_post(&answer);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("semaphore");
	flags_read(argc, argv, flags, "waits for answers on a semaphore");
	sem_init(&question, 0, 0);
	sem_init(&answer, 0, 0);
	pthread_t thread;
	forks(lane);
	if (pthread_create(&thread, NULL, worker, &lane))
		die("cannot start a thread");
	for (long i = 0; i < rounds; i++) {
		work(lane, (uint64_t)own_ms * MS);
		releases(lane, 1);
		sem_post(&question);
		wait_begins(lane, "futex");
		sem_wait(&answer);
		wait_ends(lane, NO_LANE);
	}
	wait_begins(lane, "futex");
	pthread_join(thread, NULL);
	wait_ends(lane, 1);
	never("waits lock.kernel=false lock.owner");
	never("segments call=futex cause.type=lock");
	window_close();
	return 0;
}

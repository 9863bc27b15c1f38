/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The main thread waits on a condition variable until a worker has changed what it guards.
 *
 *     main             ====^........|====^........|==       `^` sets and signals, `|` is released
 *     condvar-worker   .....|=====--^.....|=====--^         `=` works, `-` sleeps
 *
 * Truth: main's waits are the worker's: its work, its sleep. A condition variable has no holder,
 * though its futex word lies where a mutex would have its holder: no thread may be called the owner.
 *
 * Both signal after they have unlocked, and sleep for a moment before they take the mutex again, so
 * that nobody wakes up only to wait for it. Assumes that a wake-up takes less than that moment.
 */
#include "truth.h"

#include <pthread.h>

static long rounds = 12, work_ms = 20, sleep_ms = 10, own_ms = 10, moment_ms = 2;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "times that main asks" },
	{ "work-ms", &work_ms, false, "CPU time of the worker each time" },
	{ "sleep-ms", &sleep_ms, false, "sleep of the worker each time" },
	{ "own-ms", &own_ms, false, "CPU time of main between" },
	{ "moment-ms", &moment_ms, false, "sleep of who has signalled, before it goes on" },
	{ 0 },
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long asked, answered;

static void wait_until(lane_t lane, long *value, long at_least)
{
	pthread_mutex_lock(&mutex);
	while (*value < at_least) {
		wait_begins(lane, "futex");
		pthread_cond_wait(&changed, &mutex);
		wait_ends(lane, NO_LANE);
	}
	pthread_mutex_unlock(&mutex);
}

static void advance(lane_t lane, long *value, lane_t waiter)
{
	pthread_mutex_lock(&mutex);
	++*value;
	pthread_mutex_unlock(&mutex);
	releases(lane, waiter);
	pthread_cond_signal(&changed);
	rest(lane, (uint64_t)moment_ms * MS);
}

static void *worker(void *parent)
{
	lane_t main_lane = *(lane_t *)parent, lane = lane_open("condvar-worker", main_lane);
	for (long i = 1; i <= rounds; i++) {
		wait_until(lane, &asked, i);
		work(lane, (uint64_t)work_ms * MS);
		rest(lane, (uint64_t)sleep_ms * MS);
		advance(lane, &answered, main_lane);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("condvar");
	flags_read(argc, argv, flags, "waits on a condition variable");
	pthread_t thread;
	forks(lane);
	if (pthread_create(&thread, NULL, worker, &lane))
		die("cannot start a thread");
	for (long i = 1; i <= rounds; i++) {
		work(lane, (uint64_t)own_ms * MS);
		advance(lane, &asked, 1);
		wait_until(lane, &answered, i);
	}
	wait_begins(lane, "futex");
	pthread_join(thread, NULL);
	wait_ends(lane, 1);
	never("waits lock.kernel=false lock.owner");
	never("segments call=futex cause.type=lock");
	window_close();
	return 0;
}

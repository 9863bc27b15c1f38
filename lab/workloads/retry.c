/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The main thread wants a mutex whose owner sleeps, and tries again whenever a time-out of its own is over.
 *
 *     main           =|..,..,..,..|==      `|` they meet (a barrier), then main wants the mutex; `,` a time-out
 *     retry-holder   =|----------^..|      `-` sleeps with the mutex held, `^` releases it
 *
 * Truth: main's wait is the owner's sleep. Its time-outs are not what it waited for.
 *
 * Assumes glibc's mutex, which keeps its owner's tid beside the futex word.
 */
#include "truth.h"

#include <pthread.h>

static long rounds = 2, sleep_ms = 1000, try_ms = 50, own_ms = 10;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "times that main wants the mutex" },
	{ "sleep-ms", &sleep_ms, false, "how long its owner sleeps" },
	{ "try-ms", &try_ms, false, "how long main waits before it tries again" },
	{ "own-ms", &own_ms, false, "CPU time of main once it has it" },
	{ 0 },
};

static struct gate *gate;
static struct lock *lock;

static void *holder(void *parent)
{
	lane_t lane = lane_open("retry-holder", *(lane_t *)parent);
	for (long i = 0; i < rounds; i++) {
		lock_acquire(lock, lane);
		gate_pass(gate, lane);
		rest(lane, (uint64_t)sleep_ms * MS);
		lock_release(lock, lane);
		gate_pass(gate, lane);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("retry");
	flags_read(argc, argv, flags, "wants a mutex whose owner sleeps, and tries again after each time-out");
	gate = gate_create(2);
	lock = lock_create();
	pthread_t thread;
	forks(lane);
	if (pthread_create(&thread, NULL, holder, &lane))
		die("cannot start a thread");
	for (long i = 0; i < rounds; i++) {
		gate_pass(gate, lane);
		lock_acquire_by_tries(lock, lane, (uint64_t)try_ms * MS);
		work(lane, (uint64_t)own_ms * MS);
		lock_release(lock, lane);
		gate_pass(gate, lane);
	}
	wait_begins(lane, "futex");
	pthread_join(thread, NULL);
	wait_ends(lane, 1);
	must("waits call=futex comm=retry rule=joined_timeouts ended_by.comm=retry-holder");
	never("segments kind=timer comm=retry");
	window_close();
	return 0;
}

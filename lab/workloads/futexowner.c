/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The main thread wants a mutex whose owner sleeps.
 *
 *     main               =|.............|==|     `|` they meet (a barrier), then main wants the mutex
 *     futexowner-held    =|-------------^..|     `-` sleeps with the mutex held, `^` releases it
 *
 * Truth: main's wait is the owner's sleep: a timer, of the owner, come to by the lock.
 *
 * Assumes glibc's mutex, which keeps its owner's tid beside the futex word.
 */
#include "truth.h"

#include <pthread.h>

static long rounds = 12, sleep_ms = 30, own_ms = 10;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "times that main wants the mutex" },
	{ "sleep-ms", &sleep_ms, false, "how long its owner sleeps" },
	{ "own-ms", &own_ms, false, "CPU time of main once it has it" },
	{ 0 },
};

static struct gate *gate;
static struct lock *lock;

static void *owner(void *parent)
{
	lane_t lane = lane_open("futexowner-held", *(lane_t *)parent);
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
	lane_t lane = window_open("futexowner");
	flags_read(argc, argv, flags, "wants a mutex whose owner sleeps");
	gate = gate_create(2);
	lock = lock_create();
	pthread_t thread;
	forks(lane);
	if (pthread_create(&thread, NULL, owner, &lane))
		die("cannot start a thread");
	for (long i = 0; i < rounds; i++) {
		gate_pass(gate, lane);
		lock_acquire(lock, lane);
		work(lane, (uint64_t)own_ms * MS);
		lock_release(lock, lane);
		gate_pass(gate, lane);
	}
	wait_begins(lane, "futex");
	pthread_join(thread, NULL);
	wait_ends(lane, 1);
	must("waits call=futex comm=futexowner via=lock lock.owner.comm=futexowner-held");
	window_close();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads fight for a mutex at random: each sleeps for a while, takes it, works or sleeps with it
 * held, and gives it back.
 *
 *     lockfight       --|=====|---|........|=====|--      `|` takes it or gives it back
 *     lockfight-1     ---|....|===|-----|..............   `.` wants it
 *     lockfight-2     ------|.....|-----|---|.....|==
 *
 * Truth: main's waits are what the holders did, in turn, with the mutex held.
 * `meet.c` says how that is known, and why nobody takes it from under the nose of who was woken.
 *
 * Assumes nothing. The random numbers are the same in every run (--seed), the schedule is not.
 */
#include "truth.h"

#include <pthread.h>

#define THREADS 3

static long rounds = 25, hold_ms = 16, away_ms = 20, seed = 1;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "times that each thread takes the mutex" },
	{ "hold-ms", &hold_ms, false, "longest hold" },
	{ "away-ms", &away_ms, false, "longest sleep between" },
	{ "seed", &seed, false, "of the random numbers" },
	{ 0 },
};

static struct lock *lock;

/* xorshift64* */
static uint64_t random_below(uint64_t *state, uint64_t limit)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull % limit;
}

static void fight(lane_t lane, int rank)
{
	uint64_t state = (uint64_t)(seed * THREADS + rank + 1) * 0x9e3779b97f4a7c15ull;
	for (long i = 0; i < rounds; i++) {
		rest(lane, 1 * MS + random_below(&state, (uint64_t)away_ms * MS));
		uint64_t hold = 1 * MS + random_below(&state, (uint64_t)hold_ms * MS);
		lock_acquire(lock, lane);
		if (i % 3 == 2)
			rest(lane, hold);
		else
			work(lane, hold);
		lock_release(lock, lane);
	}
}

struct birth {
	pthread_t thread;
	int rank;
};

static void *fighter(void *argument)
{
	static const char *names[THREADS] = { "", "lockfight-1", "lockfight-2" };
	int rank = ((struct birth *)argument)->rank;
	fight(lane_open(names[rank], 0), rank);
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("lockfight");
	flags_read(argc, argv, flags, "random contention for a mutex");
	lock = lock_create();
	struct birth births[THREADS];
	for (int rank = 1; rank < THREADS; rank++) {
		births[rank].rank = rank;
		forks(lane);
		if (pthread_create(&births[rank].thread, NULL, fighter, &births[rank]))
			die("cannot start a thread");
	}
	fight(lane, 0);
	must("waits call=futex comm=lockfight via=lock lock.owner.comm=lockfight-*");
	window_close();
	return 0; /* the others are ended by it: their waits are not main's */
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Places where several threads meet, and only there the releaser is known: a mutex, a barrier. */
#include "lane.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define MAX_HOLDS 65536

struct hold {
	lane_t by;
	uint64_t released;
};

struct lock {
	pthread_mutex_t mutex;
	_Atomic int waiting; /* threads that want it or have it */
	_Atomic bool held;
	_Atomic int holder; /* or the last */
	_Atomic int holds; /* that have ended; the list belongs to the holder */
	struct hold hold[MAX_HOLDS];
};

struct lock *lock_create(void)
{
	struct lock *lock = calloc(1, sizeof *lock);
	if (!lock || pthread_mutex_init(&lock->mutex, NULL))
		die("cannot make a mutex");
	return lock;
}

/*
 * A wait for a mutex is what its holders did, in turn: up to each release the one who
 * released, on its way in included.
 *
 *     a     =====|......,......,|===      `,` the two releases during a's wait
 *     b     =============^                charged to a's wait up to the first,
 *     c       .............======^        c up to the second: its time between was spent getting in
 *
 * That needs the mutex to pass from waiter to waiter. A newcomer could take it in the moment between
 * a release and the arrival of who was woken by it; the one who was woken would then be runnable for
 * as long as it takes to get a CPU, find the mutex taken and sleep on, and nobody here would know
 * which of the waiters that was. So a newcomer steps back while somebody is on its way in.
 */
void lock_acquire(struct lock *lock, lane_t lane)
{
	lock_acquire_by_tries(lock, lane, 0);
}

/*
 * Takes the mutex at the first try, or the next, which each last that long; 0: for ever. A try that timed out was a
 * wait for its holder then.
 */
static void take(struct lock *lock, lane_t lane, uint64_t try_ns)
{
	int error = ETIMEDOUT;

	while (error == ETIMEDOUT) {
		struct timespec end;
		clock_gettime(CLOCK_REALTIME, &end);
		uint64_t ns = (uint64_t)end.tv_nsec + try_ns;
		end.tv_sec += (time_t)(ns / 1000000000);
		end.tv_nsec = (long)(ns % 1000000000);
		error = try_ns ? pthread_mutex_timedlock(&lock->mutex, &end) : pthread_mutex_lock(&lock->mutex);
		if (error == ETIMEDOUT)
			wait_is_interrupted(lane, try_ns, (lane_t)atomic_load(&lock->holder));
	}
}

void lock_acquire_by_tries(struct lock *lock, lane_t lane, uint64_t try_ns)
{
	while (atomic_load(&lock->waiting) && !atomic_load(&lock->held))
		rest(lane, 1 * MS);
	atomic_fetch_add(&lock->waiting, 1);
	wait_begins(lane, "futex");
	int seen = atomic_load(&lock->holds);
	take(lock, lane, try_ns);
	atomic_store(&lock->holder, (int)lane);
	atomic_store(&lock->held, true);
	int holds = atomic_load(&lock->holds);

	struct lane *l = &lanes->lane[lane];
	if (holds == seen) {
		wait_ends_by(lane, BY_NOBODY); /* it was free: no time to speak of */
		return;
	}
	for (int i = seen; i < holds; i++) {
		struct stretch s = { .from = l->at, .to = lock->hold[i].released, .what = WAIT, .end = BY_LANE,
				     .by = (int16_t)lock->hold[i].by, .call = "futex" };
		if (s.to > s.from) {
			stretch_log(lane, &s);
			l->at = s.to;
		}
	}
	/* Since the last release it was on its way in. */
	boundary_runnable(lane);
	l->waiting_in[0] = 0;
}

void lock_release(struct lock *lock, lane_t lane)
{
	int holds = atomic_load(&lock->holds);
	if (holds < MAX_HOLDS) {
		lock->hold[holds] = (struct hold){ lane, now() };
		atomic_store(&lock->holds, holds + 1);
	}
	atomic_store(&lock->held, false);
	atomic_fetch_sub(&lock->waiting, 1);
	pthread_mutex_unlock(&lock->mutex);
}

struct gate {
	pthread_barrier_t barrier;
	int size;
	_Atomic int arrived;
	_Atomic int lane_plus_one[64];
};

struct gate *gate_create(int size)
{
	struct gate *gate = calloc(1, sizeof *gate);
	if (!gate || size > 64 || pthread_barrier_init(&gate->barrier, NULL, (unsigned)size))
		die("cannot make a barrier");
	gate->size = size;
	return gate;
}

void gate_pass(struct gate *gate, lane_t lane)
{
	wait_begins(lane, "futex");
	int rank = atomic_fetch_add(&gate->arrived, 1) % gate->size;
	atomic_store(&gate->lane_plus_one[rank], lane + 1);
	if (rank == gate->size - 1) {
		for (int i = 0; i < gate->size; i++) {
			int other;
			/* Whoever came before us may not have written down its name yet. */
			while (!(other = atomic_exchange(&gate->lane_plus_one[i], 0)))
				;
			if (other - 1 != lane)
				releases(lane, other - 1);
		}
	}
	pthread_barrier_wait(&gate->barrier);
	wait_ends(lane, NO_LANE);
}

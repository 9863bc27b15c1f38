/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads each hold the mutex that the other wants; the main thread waits for them to end.
 *
 *     main         ==|.................      joins, for ever
 *     deadlock-a   ===1..2.............      has mutex 1, wants 2
 *     deadlock-b   ===2..1.............      has mutex 2, wants 1
 *
 * Truth: main is still waiting, in futex, when the recording ends; its answer is the cycle.
 * Another process writes the truth once that wait has begun, and its window stays open.
 *
 * The program ends itself by SIGKILL after --seconds; a recording that is to see a hang and not an
 * end stops before (`record -d 1`). Assumes nothing.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

static long seconds = 3, own_ms = 10;
static const struct flag flags[] = {
	{ "seconds", &seconds, false, "until it is killed" },
	{ "own-ms", &own_ms, false, "CPU time of main before it waits" },
	{ 0 },
};

static pthread_mutex_t mutex[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static struct gate *gate;

static void *partner(void *rank)
{
	int mine = *(int *)rank;
	lane_t lane = lane_open(mine ? "deadlock-b" : "deadlock-a", 0);
	pthread_mutex_lock(&mutex[mine]);
	gate_pass(gate, lane);
	wait_begins(lane, "futex");
	pthread_mutex_lock(&mutex[!mine]);
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("deadlock");
	flags_read(argc, argv, flags, "two threads that wait for each other");
	struct sigevent kill = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	struct itimerspec when = { .it_value.tv_sec = seconds };
	timer_t timer;
	if (timer_create(CLOCK_MONOTONIC, &kill, &timer) || timer_settime(timer, 0, &when, NULL))
		die("cannot set the timer that ends this");
	gate = gate_create(2);
	static int ranks[2] = { 0, 1 };
	pthread_t threads[2];
	for (int i = 0; i < 2; i++) {
		forks(lane);
		if (pthread_create(&threads[i], NULL, partner, &ranks[i]))
			die("cannot start a thread");
	}
	work(lane, (uint64_t)own_ms * MS);
	rest(lane, 20 * MS); /* by now both are stuck */
	must("segments call=futex comm=deadlock cause.type=still_waiting");
	window_stays_open("futex");
	wait_begins(lane, "futex");
	pthread_join(threads[0], NULL);
	return 0;
}

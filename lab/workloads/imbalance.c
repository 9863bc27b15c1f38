/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A parallel computation whose work is dealt unevenly (G15 §4.5.2, figure 4.5): cycles of four
 * stages, each closed by a barrier; the work grows with the rank and moves on at each stage.
 *
 *     stage              0     1     2     3
 *     imbalance    (A)   =...  ==..  ===.  ====
 *     imbalance-b        ==..  ===.  ====  =...
 *     imbalance-c        ===.  ====  =...  ==..
 *     imbalance-d        ====  =...  ==..  ===.
 *
 * Truth: each thread is once on the path of A for what it does longer than A. With a CPU for each,
 * the shares are 62.5%, 6.3%, 12.5% and 18.8% (G15 table 4.3).
 *
 * Assumes 4 CPUs for those shares. With fewer the threads wait for each other's CPU, so that who
 * is last is not drawn in advance: each notes when it arrives, and the last thread is the path's.
 */
#include "truth.h"

#include <pthread.h>

#define THREADS 4

static long cycles = 4, unit_ms = 10;
static const struct flag flags[] = {
	{ "cycles", &cycles, false, "cycles of four stages" },
	{ "unit-ms", &unit_ms, false, "CPU time of the least of the four works" },
	{ 0 },
};

static struct gate *gate;

static void take_part(lane_t lane, int rank)
{
	for (long stage = 0; stage < cycles * THREADS; stage++) {
		work(lane, (uint64_t)((rank + stage) % THREADS + 1) * (uint64_t)unit_ms * MS);
		gate_pass(gate, lane);
	}
}

struct birth {
	pthread_t thread;
	int rank;
};

static void *peer(void *argument)
{
	static const char *names[THREADS] = { "", "imbalance-b", "imbalance-c", "imbalance-d" };
	int rank = ((struct birth *)argument)->rank;
	take_part(lane_open(names[rank], 0), rank);
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("imbalance");
	flags_read(argc, argv, flags, "uneven parallel work");
	gate = gate_create(THREADS);
	struct birth births[THREADS];
	for (int rank = 1; rank < THREADS; rank++) {
		births[rank].rank = rank;
		forks(lane);
		if (pthread_create(&births[rank].thread, NULL, peer, &births[rank]))
			die("cannot start a thread");
	}
	take_part(lane, 0);
	for (int rank = 1; rank < THREADS; rank++) {
		wait_begins(lane, "futex");
		pthread_join(births[rank].thread, NULL);
		wait_ends(lane, NO_LANE);
	}
	never("waits lock.kernel=false lock.owner");
	never("segments call=futex cause.type=lock");
	window_close();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two threads meet at a barrier, and take turns in being late.
 *
 *     main           =====......|===============|=====......|
 *     barrier-peer   ===========|=====..........|===========|      `|` the barrier
 *
 * Truth: where main is early, the peer's work; where it is late, its own. A barrier has no holder.
 *
 * Assumes 2 CPUs for this drawing; on a single CPU, part of the work becomes runnable, and is counted.
 */
#include "truth.h"

#include <pthread.h>

static long rounds = 12, short_ms = 10, long_ms = 40;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "times that they meet" },
	{ "short-ms", &short_ms, false, "CPU time of the early one" },
	{ "long-ms", &long_ms, false, "CPU time of the late one" },
	{ 0 },
};

static struct gate *gate;

static void take_part(lane_t lane, int parity)
{
	for (long i = 0; i < rounds; i++) {
		work(lane, (uint64_t)(i % 2 == parity ? long_ms : short_ms) * MS);
		gate_pass(gate, lane);
	}
}

static void *peer(void *parent)
{
	take_part(lane_open("barrier-peer", *(lane_t *)parent), 0);
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("barrier");
	flags_read(argc, argv, flags, "meets another thread at a barrier");
	gate = gate_create(2);
	pthread_t thread;
	forks(lane);
	if (pthread_create(&thread, NULL, peer, &lane))
		die("cannot start a thread");
	take_part(lane, 1);
	wait_begins(lane, "futex");
	pthread_join(thread, NULL);
	wait_ends(lane, 1);
	never("waits lock.kernel=false lock.owner");
	never("segments call=futex cause.type=lock");
	window_close();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two tasks contend for the same CPU, periodically (G15 table 3.1, wk-pulse).
 *
 *     pulse          ========rrrr========rrrr====      `r` runnable: the rival has the CPU
 *     pulse-rival    --------====--------====----      sleeps, then works
 *
 * Truth: main never waits for anybody; what it does not run it is runnable, by the rival. How the
 * scheduler interleaves a burst with main's work is its own affair and is measured.
 *
 * Assumes nothing: both stay on the same CPU.
 */
#include "truth.h"

#include <pthread.h>
#include <stdatomic.h>

static long work_ms = 500, period_ms = 30, burst_ms = 15;
static const struct flag flags[] = {
	{ "work-ms", &work_ms, false, "CPU time of main" },
	{ "period-ms", &period_ms, false, "sleep of the rival" },
	{ "burst-ms", &burst_ms, false, "CPU time of the rival after each sleep" },
	{ 0 },
};

static atomic_bool done;

static void *rival(void *parent)
{
	lane_t lane = lane_open("pulse-rival", *(lane_t *)parent);
	while (!atomic_load(&done)) {
		rest(lane, (uint64_t)period_ms * MS);
		work(lane, (uint64_t)burst_ms * MS);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("pulse");
	flags_read(argc, argv, flags, "two tasks contend for one CPU");
	pin_to_one_cpu();
	pthread_t thread;
	forks(lane);
	if (pthread_create(&thread, NULL, rival, &lane))
		die("cannot start a thread");
	work(lane, (uint64_t)work_ms * MS);
	atomic_store(&done, true);
	must("segments kind=runnable comm=pulse cause.comm=pulse-rival");
	window_close();
	return 0; /* the rival is ended by it */
}

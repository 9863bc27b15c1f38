/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A producer and a consumer with a single-page pipe between (G15 table 3.1, wk-pipeline). In the
 * first half the producer is slow, in the second half the consumer.
 *
 *     pipeline (consumer)    ....=....=....=|====|====|====      items taken
 *     pipeline-source        ====^====^====^=^...=^...=^...      items given; `.` the pipe is full
 *
 * Truth: in the first half main's waits are the producer's work; in the second it never waits.
 *
 * Assumes 2 CPUs for that drawing.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>
#include <unistd.h>

#define ITEM 4096

static long items = 24, slow_ms = 20, fast_ms = 5;
static const struct flag flags[] = {
	{ "items", &items, false, "items that pass the pipe" },
	{ "slow-ms", &slow_ms, false, "CPU time for an item at the slow end" },
	{ "fast-ms", &fast_ms, false, "CPU time for an item at the fast end" },
	{ 0 },
};

static void produce(lane_t lane, int fd)
{
	static char item[ITEM];
	for (long i = 0; i < items; i++) {
		work(lane, (uint64_t)(i < items / 2 ? slow_ms : fast_ms) * MS);
		releases(lane, 0);
		wait_begins(lane, "write");
		if (write(fd, item, ITEM) != ITEM)
			die("cannot write to the pipe");
		wait_ends(lane, NO_LANE);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	static char item[ITEM];
	lane_t lane = window_open("pipeline");
	flags_read(argc, argv, flags, "a producer and a consumer");
	int ends[2];
	if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, ITEM) < 0)
		die("cannot make a pipe of one page");
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child)
		produce(lane_open("pipeline-source", lane), ends[1]);
	close(ends[1]);
	for (long i = 0; i < items; i++) {
		wait_begins(lane, "read");
		releases(lane, 1);
		if (read(ends[0], item, ITEM) != ITEM)
			die("cannot read from the pipe");
		wait_ends(lane, NO_LANE);
		work(lane, (uint64_t)(i < items / 2 ? fast_ms : slow_ms) * MS);
	}
	wait_for_child(lane, child);
	window_close();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A parent that ends before its child (G15 table 3.1, wk-reparent): the orphan works on, and main,
 * which has never heard of it, waits until the last writer of a pipe is gone.
 *
 *     reparent           =f....|=.................|=      waits for the parent, then for the pipe
 *     reparent-parent     =f==^                           ends
 *     reparent-orphan       =======--==========^          closes its end of the pipe
 *
 * Truth: main's second wait is the orphan's work and sleep, whoever is its parent by then.
 *
 * Assumes nothing. Where the way from a stamp to the sleep behind it takes long, as in an emulated guest, --one-cpu keeps the books
 * right: on several, nothing shows whether a thread was runnable before its wait or after.
 */
#include "truth.h"

#include <unistd.h>

static long rounds = 5, parent_ms = 20, orphan_ms = 70, sleep_ms = 20, one_cpu;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "orphans made" },
	{ "parent-ms", &parent_ms, false, "CPU time of the parent after its fork" },
	{ "orphan-ms", &orphan_ms, false, "CPU time of the orphan" },
	{ "sleep-ms", &sleep_ms, false, "sleep of the orphan" },
	{ "one-cpu", &one_cpu, NOTHING, "all stay on one CPU, whose counts tell who lost it before it slept" },
	{ 0 },
};

static int pipe_end; /* that the orphan alone has open in the end */

static void be_orphan(lane_t lane)
{
	work(lane, (uint64_t)orphan_ms * MS / 2);
	rest(lane, (uint64_t)sleep_ms * MS);
	work(lane, (uint64_t)orphan_ms * MS / 2);
	releases(lane, 0);
	close(pipe_end);
	_exit(0);
}

static void be_parent(lane_t lane)
{
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child)
		be_orphan(lane_open("reparent-orphan", lane));
	work(lane, (uint64_t)parent_ms * MS);
	_exit(0);
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("reparent");
	flags_read(argc, argv, flags, "a parent that ends before its child");
	if (one_cpu)
		pin_to_one_cpu();
	for (long i = 0; i < rounds; i++) {
		int ends[2];
		char byte;
		if (pipe(ends))
			die("cannot make a pipe");
		forks(lane);
		pipe_end = ends[1];
		pid_t child = fork();
		if (child < 0)
			die("cannot fork");
		if (!child)
			be_parent(lane_open("reparent-parent", lane));
		close(ends[1]);
		wait_for_child(lane, child);
		work(lane, 5 * MS);
		wait_begins(lane, "read");
		while (read(ends[0], &byte, 1) > 0)
			;
		wait_ends(lane, NO_LANE);
		close(ends[0]);
	}
	window_close();
	return 0;
}

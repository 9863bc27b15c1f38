/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A chain of processes: main asks the first, which works, asks the second, works on and answers; and
 * so on down to the last, which works, sleeps and answers.
 *
 *     NAME      ==^............................|==^...      `^` asks or answers, `|` is answered
 *     NAME-1      |==^....................|==^
 *     NAME-2         |==^............|==^
 *     NAME-3            |=====-----=^
 *
 * Truth: main's wait is each process's own work and, at the bottom, the last process's sleep.
 *
 * Assumes nothing: at any time a single process works.
 */
#include "chain.h"
#include "truth.h"

#include <stdio.h>
#include <unistd.h>

#define MAX_DEPTH 8

static long depth = 3, rounds = 8, work_ms = 8, sleep_ms = 15;
static const struct flag flags[] = {
	{ "depth", &depth, false, "processes below main, at most 8" },
	{ "rounds", &rounds, false, "times that main asks" },
	{ "work-ms", &work_ms, false, "CPU time before and after asking on" },
	{ "sleep-ms", &sleep_ms, false, "sleep of the last" },
	{ 0 },
};

static const char *name, *read_call;
static lane_t lane_of[MAX_DEPTH + 2]; /* they open in order, since each waits for its predecessor */

static bool hear(lane_t lane, int fd)
{
	char message[32];
	wait_begins(lane, read_call);
	bool got = read(fd, message, sizeof message) > 0;
	wait_ends(lane, NO_LANE);
	return got;
}

static void say(lane_t lane, lane_t to, int fd)
{
	char message[32] = "";
	releases(lane, to);
	if (write(fd, message, sizeof message) != sizeof message)
		die("cannot write to the next of the chain");
}

/* A question to the link below, from `rank`, which is 0 for main. */
static void ask(lane_t lane, int rank, const int below[2])
{
	work(lane, (uint64_t)work_ms * MS);
	say(lane, lane_of[rank + 1], below[1]);
	hear(lane, below[0]);
	work(lane, (uint64_t)work_ms * MS);
}

static void answer(lane_t lane, int rank, const int above[2], const int below[2])
{
	while (hear(lane, above[0])) {
		if (rank == depth) {
			work(lane, (uint64_t)work_ms * MS);
			rest(lane, (uint64_t)sleep_ms * MS);
			work(lane, (uint64_t)work_ms * MS);
		} else {
			ask(lane, rank, below);
		}
		say(lane, lane_of[rank - 1], above[1]);
	}
}

/* Starts the chain below `rank`, from the bottom up so that each inherits only its own two links. */
static pid_t start(lane_t lane, int rank, int below[2], make_link *link)
{
	int answerer[2];
	link(below, answerer);
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (child) {
		close(answerer[0]);
		close(answerer[1]);
		return child;
	}
	close(below[0]);
	close(below[1]);
	char comm[16];
	snprintf(comm, sizeof comm, "%s-%d", name, rank + 1);
	lane_t mine = lane_open(comm, lane);
	int next[2] = { -1, -1 };
	pid_t grandchild = rank + 1 < depth ? start(mine, rank + 1, next, link) : 0;
	answer(mine, rank + 1, answerer, next);
	if (grandchild) {
		close(next[0]);
		close(next[1]);
		wait_for_child(mine, grandchild);
	}
	_exit(0);
}

int chain_main(int argc, char **argv, const char *workload, const char *call, const char *summary, make_link *link)
{
	lane_t lane = window_open(workload);
	name = workload;
	read_call = call;
	flags_read(argc, argv, flags, summary);
	if (depth < 1 || depth > MAX_DEPTH)
		depth = 3;
	for (int i = 0; i <= depth; i++)
		lane_of[i] = i;
	int below[2];
	pid_t child = start(lane, 0, below, link);
	for (long i = 0; i < rounds; i++)
		ask(lane, 0, below);
	close(below[0]);
	close(below[1]);
	wait_for_child(lane, child);
	window_close();
	return 0;
}

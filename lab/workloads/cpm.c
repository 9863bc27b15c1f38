/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parents wait for children, which wait for their children (G15 table 3.1, wk-cpm), in two shapes by
 * turns: the parent works beside its child and waits at once or late.
 *
 *     cpm            =f.................|==f======......|=      `f` forks, `|` has waited
 *     cpm-child       ==f.......|=====^     ==f===..|===^       `^` ends
 *     cpm-grandchild     =======^              =====^
 *
 * Truth: main's waits are the child's work and, while the child waits itself, the grandchild's.
 *
 * Assumes nothing: on a single CPU the works become runnable by turns.
 */
#include "truth.h"

#include <unistd.h>

static long rounds = 6, unit_ms = 10;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "children that main starts" },
	{ "unit-ms", &unit_ms, false, "CPU time of the least work" },
	{ 0 },
};

static void generation(lane_t lane, int depth, bool late)
{
	static const char *names[] = { "cpm", "cpm-child", "cpm-grandchild" };
	uint64_t unit = (uint64_t)unit_ms * MS;
	if (depth == 2) {
		work(lane, 4 * unit);
		return;
	}
	work(lane, unit);
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		generation(lane_open(names[depth + 1], lane), depth + 1, late);
		_exit(0);
	}
	if (late)
		work(lane, 2 * unit);
	wait_for_child(lane, child);
	work(lane, unit);
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("cpm");
	flags_read(argc, argv, flags, "parents and children that wait for one another");
	for (long i = 0; i < rounds; i++)
		generation(lane, 0, i % 2);
	window_close();
	return 0;
}

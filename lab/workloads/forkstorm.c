/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hundreds of short processes, in turn, each forked, exec'ed and waited for.
 *
 *     forkstorm    =f......|=f......|=f......|     `f` forks, `|` has waited
 *     children      e=====^  e=====^  e=====^      `e` exec, works, ends
 *
 * Truth: main's waits are the children: hundreds of contributors of about the same size. The
 * child's exec and its end, of which it has no stamp, count as its own running, as they are.
 *
 * Stays on a single CPU (unless --spread): an interrupt that has to reach a sleeping CPU takes up to
 * 0.1 ms, no clock of the child sees it, and there is one for each of hundreds of waits.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long count = 200, work_us = 1500, spread, adopt = -1, lane_number;
static const struct flag flags[] = {
	{ "count", &count, false, "children, one after the other; at most 1000" },
	{ "work-us", &work_us, false, "CPU time of each child" },
	{ "spread", &spread, true, "use all CPUs" },
	{ "lanes", &adopt, false, "be a child, with the lanes in that descriptor" },
	{ "lane", &lane_number, false, "which of them is the child's" },
	{ 0 },
};

static void become_child(lane_t parent)
{
	char descriptor[16], number[16], amount[16];
	snprintf(number, sizeof number, "%d", lane_open("forkstorm", parent));
	snprintf(descriptor, sizeof descriptor, "%d", lanes_descriptor());
	snprintf(amount, sizeof amount, "%ld", work_us);
	char *arguments[] = { "forkstorm", "--lanes", descriptor, "--lane", number, "--work-us", amount, NULL };
	execv("/proc/self/exe", arguments);
	_exit(127);
}

static void be_child(void)
{
	lanes_adopt((int)adopt);
	lane_t lane = (lane_t)lane_number;
	lane_goes_on(lane);
	work(lane, (uint64_t)work_us * US);
	lane_ends(lane);
	_exit(0);
}

int main(int argc, char **argv)
{
	/* The first flag marks a child, before it could open a window of its own. */
	if (argc > 1 && !strcmp(argv[1], "--lanes")) {
		flags_read(argc, argv, flags, "");
		be_child();
	}
	lane_t lane = window_open("forkstorm");
	flags_read(argc, argv, flags, "hundreds of short processes");
	if (!spread)
		pin_to_one_cpu();
	for (long i = 0; i < count && i < 1000; i++) {
		forks(lane);
		pid_t child = fork();
		if (child < 0)
			die("cannot fork");
		if (!child)
			become_child(lane);
		forks(lane); /* has done so: it runs once we wait, and making it took long */
		wait_for_child(lane, child);
	}
	window_close();
	return 0;
}

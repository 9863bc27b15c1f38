/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A task whose cgroup may use only part of a CPU, alone or (--beside) with a rival on the same CPU
 * that is bound by no limit.
 *
 *     period         |         |         |
 *     quota          ====xxxxxx====xxxxxx====xxxxx      `x` kept off the CPU by the limit
 *     with --beside:
 *     quota          =r=r=xxxxxr=r=rxxxxx=r=r=xxxx      `r` runnable, the rival runs
 *     quota-rival     = = =====x= = =====x = = ====
 *
 * Truth: throttled is what the cgroup's own cpu.stat says; what the task neither ran nor was
 * throttled it was runnable. While it is throttled the rival has the CPU, and that does not matter.
 *
 * Assumes the right to make a cgroup (limit.h says where). Both stay on the same CPU.
 */
#include "limit.h"
#include "truth.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static long work_ms = 300, most_ms = 3000, quota_ms = 20, period_ms = 50, beside;
static const struct flag flags[] = {
	{ "work-ms", &work_ms, false, "CPU time of main" },
	{ "most-ms", &most_ms, false, "after which main ends, whatever CPU time it had" },
	{ "quota-ms", &quota_ms, false, "CPU time that the limit allows in each period" },
	{ "period-ms", &period_ms, false, "period of the limit" },
	{ "beside", &beside, true, "let another task work on the same CPU, outside of the limit" },
	{ 0 },
};

static pid_t start_rival(lane_t parent)
{
	forks(parent);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		lane_t lane = lane_open("quota-rival", parent);
		uint64_t end = now() + (uint64_t)most_ms * MS;
		while (now() < end)
			work(lane, 10 * MS);
		_exit(0);
	}
	return child;
}

/*
 * The kernel may give a group far less than its share beside the rival: 300 ms of CPU time then took from
 * 16 to 55 s, and 10 ms up to 34 s. A window is as good when it ends earlier, so the rival ends then too.
 */
static void work_at_most(lane_t lane)
{
	uint64_t end = now() + (uint64_t)most_ms * MS;
	for (long step = 10, done = 0; done < work_ms && now() < end; done += step)
		work(lane, (uint64_t)step * MS);
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("quota");
	flags_read(argc, argv, flags, "a task under the CPU limit of a cgroup");
	pin_to_one_cpu();
	pid_t rival = beside ? start_rival(lane) : 0;
	const char *failed = limit_make("quota", A_PROCESS, (uint64_t)quota_ms * MS, (uint64_t)period_ms * MS);
	if (failed || (failed = limit_enter()))
		die(failed);
	work_at_most(lane);
	/* Out of the group before it is read: a limit reached now would not be counted yet. */
	if ((failed = limit_leave()))
		die(failed);
	uint64_t kept_off = limit_throttled();
	account_moves(lane, "runnable", "throttled", kept_off);
	/* Beside busy neighbours it may never come to use up what it is allowed. */
	if (kept_off > 10 * MS)
		must("segments kind=throttled comm=quota");
	if (beside)
		must("segments kind=runnable comm=quota cause.comm=quota-rival");
	window_close();
	limit_remove();
	if (rival) {
		kill(rival, SIGKILL);
		waitpid(rival, NULL, 0);
	}
	return 0;
}

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
 * Assumes the right to make a cgroup: v1 with the cpu controller in /sys/fs/cgroup/cpu, or v2 with
 * cpu among the root's subtree controllers. Both stay on one CPU.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static long work_ms = 300, quota_ms = 20, period_ms = 50, beside;
static const struct flag flags[] = {
	{ "work-ms", &work_ms, false, "CPU time of main" },
	{ "quota-ms", &quota_ms, false, "CPU time that the limit allows in each period" },
	{ "period-ms", &period_ms, false, "period of the limit" },
	{ "beside", &beside, true, "let another task work on the same CPU, outside of the limit" },
	{ 0 },
};

/* The hierarchy that has the cpu controller, and our group in it. */
static const char *root;
static bool unified;
static char group[128];

static void find_hierarchy(void)
{
	if (!access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", F_OK) || !access("/sys/fs/cgroup/cpu/cpu.shares", F_OK)) {
		root = "/sys/fs/cgroup/cpu";
	} else {
		root = "/sys/fs/cgroup";
		unified = true;
	}
	snprintf(group, sizeof group, "%s/wakepath-quota-%d", root, getpid());
}

static void put(const char *directory, const char *file, const char *text)
{
	char path[200];
	snprintf(path, sizeof path, "%s/%s", directory, file);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
}

/* A single thread moves itself: moving a process would wait for the kernel's grace periods. */
static void move_to(const char *directory)
{
	put(directory, unified ? "cgroup.procs" : "tasks", "0");
}

static void make_group(void)
{
	char text[64];
	if (mkdir(group, 0755))
		die(group);
	if (unified) {
		snprintf(text, sizeof text, "%ld %ld", quota_ms * 1000, period_ms * 1000);
		put(group, "cpu.max", text);
		return;
	}
	snprintf(text, sizeof text, "%ld", period_ms * 1000);
	put(group, "cpu.cfs_period_us", text);
	snprintf(text, sizeof text, "%ld", quota_ms * 1000);
	put(group, "cpu.cfs_quota_us", text);
}

static uint64_t throttled(void)
{
	char path[200], line[128];
	unsigned long long value;
	snprintf(path, sizeof path, "%s/cpu.stat", group);
	FILE *stat = fopen(path, "re");
	if (!stat)
		die(path);
	while (fgets(line, sizeof line, stat)) {
		if (sscanf(line, "throttled_time %llu", &value) == 1) {
			fclose(stat);
			return value;
		}
		if (sscanf(line, "throttled_usec %llu", &value) == 1) {
			fclose(stat);
			return value * US;
		}
	}
	die("cpu.stat has no throttled time");
}

static pid_t start_rival(lane_t parent)
{
	forks(parent);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		lane_t lane = lane_open("quota-rival", parent);
		for (;;)
			work(lane, 1000 * MS); /* until it is killed */
	}
	return child;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("quota");
	flags_read(argc, argv, flags, "a task under the CPU limit of a cgroup");
	pin_to_one_cpu();
	find_hierarchy();
	pid_t rival = beside ? start_rival(lane) : 0;
	make_group();
	move_to(group);
	work(lane, (uint64_t)work_ms * MS);
	/* Out of the group before it is read: a limit reached now would not be counted yet. */
	move_to(root);
	uint64_t kept_off = throttled();
	account_moves(lane, "runnable", "throttled", kept_off);
	/* Beside busy neighbours it may never come to use up what it is allowed. */
	if (kept_off > 10 * MS)
		must("segments kind=throttled comm=quota");
	if (beside)
		must("segments kind=runnable comm=quota cause.comm=quota-rival");
	window_close();
	rmdir(group);
	if (rival) {
		kill(rival, SIGKILL);
		waitpid(rival, NULL, 0);
	}
	return 0;
}

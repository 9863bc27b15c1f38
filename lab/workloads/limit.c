/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "limit.h"
#include "truth.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The hierarchy with the cpu controller, and our group in it. */
static const char *root;
static bool unified;
static char group[128];
static enum limited limited;

static void find_hierarchy(void)
{
	if (!access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", F_OK) || !access("/sys/fs/cgroup/cpu/cpu.shares", F_OK)) {
		root = "/sys/fs/cgroup/cpu";
	} else {
		root = "/sys/fs/cgroup";
		unified = true;
	}
}

/* The file, if it could not be written. */
static const char *put(const char *directory, const char *file, const char *text)
{
	static char path[200];
	snprintf(path, sizeof path, "%s/%s", directory, file);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;
	if (fd >= 0)
		close(fd);
	return written ? NULL : path;
}

static const char *put_limit(uint64_t quota_ns, uint64_t period_ns)
{
	char text[64];
	const char *failed;
	unsigned long long quota_us = quota_ns / US, period_us = period_ns / US;
	if (unified) {
		snprintf(text, sizeof text, "%llu %llu", quota_us, period_us);
		return put(group, "cpu.max", text);
	}
	snprintf(text, sizeof text, "%llu", period_us);
	failed = put(group, "cpu.cfs_period_us", text);
	snprintf(text, sizeof text, "%llu", quota_us);
	return failed ? failed : put(group, "cpu.cfs_quota_us", text);
}

const char *limit_make(const char *name, enum limited who, uint64_t quota_ns, uint64_t period_ns)
{
	const char *failed = NULL;
	find_hierarchy();
	limited = who;
	snprintf(group, sizeof group, "%s/wakepath-%s-%d", root, name, getpid());
	if (mkdir(group, 0755))
		return group;
	/* Threads of the same process can be in different groups of v2 only below the group of the process. */
	if (unified && limited == A_THREAD && !(failed = put(group, "cgroup.type", "threaded")))
		failed = put(root, "cgroup.procs", "0");
	if (!failed)
		failed = put_limit(quota_ns, period_ns);
	if (failed)
		rmdir(group);
	return failed;
}

const char *limit_comes_first(void)
{
	return unified ? put(group, "cpu.weight", "10000") : put(group, "cpu.shares", "262144");
}

/* A single thread moves itself: moving a process would wait for the kernel's grace periods. */
static const char *move_to(const char *directory)
{
	return put(directory, !unified ? "tasks" : limited == A_THREAD ? "cgroup.threads" : "cgroup.procs", "0");
}

const char *limit_enter(void)
{
	return move_to(group);
}

const char *limit_leave(void)
{
	return move_to(root);
}

uint64_t limit_throttled(void)
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

void limit_remove(void)
{
	rmdir(group);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Neighbours that have nothing to do with a workload and take part of the machine while it runs: no
 * workload, and without a truth of its own.
 *
 *     noise-spin       ============================     a thread that never waits
 *     noise-disk       =...=...=...=...=...=...=...     writes and waits for the disk
 *     noise-loopback   =.=.=.=.=.=.=.=.=.=.=.=.=.=.     on each CPU two processes that exchange messages over TCP
 *     noise-chatter    =.=.=.=.=.=.=.=.=.=.=.=.=.=.     the same by two processes, each on a CPU of its own
 *
 * A thread that is woken from another CPU and preempts the thread there has its start dated back to the
 * wake-up by the kernel (rq_clock_skip_update()), although the other ran on until the interrupt came,
 * some 15 us later. Beside noise-chatter, the clocks that a workload's truth is made of are wrong by
 * 1% of the window and more; noise-loopback does without, since its messages stay on the same CPU.
 *
 * Ends after --seconds, or when its standard input is closed, so that it never outlives whoever
 * started it. Says `noise: ready` once it makes noise.
 */
#define _GNU_SOURCE
#include "disk.h"
#include "truth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static long seconds = 10, spin, disk, loopback, across;
static const struct flag flags[] = {
	{ "seconds", &seconds, false, "until it ends by itself" },
	{ "spin", &spin, true, "one thread that never waits" },
	{ "disk", &disk, true, "writes and waits for the disk" },
	{ "loopback", &loopback, true, "on each CPU, messages over TCP" },
	{ "chatter", &across, true, "messages over TCP, from CPU to CPU" },
	{ 0 },
};

static void write_and_wait(lane_t lane)
{
	size_t size = 1 << 20;
	char *memory = scratch_memory(size);
	int file = scratch_file(0);
	for (off_t at = 0;; at = (at + (off_t)size) % (64 << 20)) {
		if (pwrite(file, memory, size, at) < 0 || fdatasync(file))
			die("cannot write the scratch file");
		rest(lane, 2 * MS);
	}
}

static void stay_on(int cpu)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one))
		die("cannot stay on one CPU");
}

/* Two processes, each on its CPU, which may be the same. */
static void exchange(int cpu, int other_cpu)
{
	char message[512] = "";
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length) ||
	    connect(fd, (struct sockaddr *)&address, length))
		die("cannot connect to ourselves");
	int other = accept(listener, NULL, NULL);
	bool asks = fork();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stay_on(asks ? cpu : other_cpu);
	for (int burst = 0;; burst++) {
		int mine = asks ? fd : other;
		if (asks && send(mine, message, sizeof message, 0) < 0)
			break;
		if (recv(mine, message, sizeof message, MSG_WAITALL) <= 0)
			break;
		if (!asks && send(mine, message, sizeof message, 0) < 0)
			break;
		if (asks && burst % 20 == 0)
			usleep(1000);
	}
	_exit(0);
}

static void exchange_on_each_cpu(void)
{
	cpu_set_t all;
	if (sched_getaffinity(0, sizeof all, &all))
		die("cannot read which CPUs there are");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		pid_t child = fork();
		if (child < 0)
			die("cannot fork");
		if (child)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exchange(cpu, cpu);
	}
	for (;;)
		pause();
}

static void exchange_across_cpus(void)
{
	cpu_set_t all;
	int first = -1;
	if (sched_getaffinity(0, sizeof all, &all))
		die("cannot read which CPUs there are");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		if (first >= 0)
			exchange(first, cpu);
		first = cpu;
	}
	errno = ENODEV;
	die("messages from CPU to CPU need two CPUs");
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("noise");
	flags_read(argc, argv, flags, "neighbours that take part of the machine");
	long life = seconds + 5;
	live_for(life);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		const char *name = disk ? "noise-disk" : loopback ? "noise-loopback" : across ? "noise-chatter" : "noise-spin";
		lane_t mine = lane_open(name, lane);
		live_for(life);
		if (disk)
			write_and_wait(mine);
		if (loopback)
			exchange_on_each_cpu();
		if (across)
			exchange_across_cpus();
		for (volatile long i = 0;; i++)
			;
	}
	printf("noise: ready\n");
	fflush(stdout);
	struct pollfd input = { .fd = 0 };
	poll(&input, 1, (int)(seconds * 1000)); /* hang-up is always waited for */
	kill(child, SIGKILL);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client and a server on the same CPU send each other 32 bytes over TCP on the loopback interface, as
 * fast as they can (G15 §5.4.5: the load that measures what recording adds to a request).
 *
 *     tcpping           =^....=^....=^...      `^` sends: the other becomes runnable, and runs as
 *     tcpping-server    ..|==^..|==^..|==      soon as this waits
 *
 * Prints a line for benchmarks:
 *     tcpping: round_trips 60000 seconds 0.437 per_second 137299.8 quiet_per_second 141203.5
 *
 * Truth, asked for with --truth: each thread's own turns, with --work-us of work in each, as in
 * schedfreq.c. Assumes nothing: both stay on the same CPU. Nagle's algorithm is off.
 */
#include "rate.h"
#include "truth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static long rounds, work_us = 200;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "round trips; 0 for 60000, or 1000 with --truth" },
	{ "work-us", &work_us, false, "with --truth, CPU time of each turn" },
	{ 0 },
};


static bool exchange(int fd, bool send_it)
{
	char message[32] = "";
	ssize_t n = send_it ? send(fd, message, sizeof message, 0) : recv(fd, message, sizeof message, MSG_WAITALL);
	return n == sizeof message;
}

/* Waits for a message and, if it came, works. */
static bool hear(lane_t lane, int fd)
{
	if (!truth_file)
		return exchange(fd, false);
	wait_begins(lane, "recvfrom");
	bool got = exchange(fd, false);
	wait_ends(lane, NO_LANE);
	if (got)
		work(lane, (uint64_t)work_us * US);
	return got;
}

static void say(lane_t lane, lane_t other, int fd)
{
	if (truth_file)
		releases(lane, other);
	if (!exchange(fd, true))
		die("cannot send");
}

static void serve(lane_t lane, int listener)
{
	wait_begins(lane, "accept");
	int fd = accept(listener, NULL, NULL), on = 1;
	wait_ends(lane, 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	while (hear(lane, fd))
		say(lane, 0, fd);
	_exit(0);
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("tcpping");
	flags_read(argc, argv, flags, "32 bytes to and fro over TCP");
	if (!rounds)
		rounds = truth_file ? 1000 : 60000;
	pin_to_one_cpu();
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (listener < 0 || fd < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		die("cannot listen on the loopback interface");
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		close(fd); /* the client's: its end must reach the server */
		serve(lane_open("tcpping-server", lane), listener);
	}
	if (connect(fd, (struct sockaddr *)&address, length))
		die("cannot connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	static struct rate rate;
	rate_begin(&rate, 1500);
	for (long i = 0; i < rounds; i++) {
		say(lane, 1, fd);
		if (!hear(lane, fd))
			die("the server is gone");
		rate_trip(&rate);
	}
	close(fd);
	wait_for_child(lane, child);
	window_close();
	rate_print(&rate, "tcpping");
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client that asks a server over TCP on the loopback interface (G15 table 3.1 and §5.4.3, wk-rpc).
 * The server computes, sleeps and computes for each request. The client can work meanwhile
 * (--async), or wait in an event loop with short time-outs (--event-loop).
 *
 *     rpc                    ==^...............|==^        `^` sends, `|` is answered
 *     rpc, --async 50        ==^=======........|==^
 *     rpc, --event-loop      ==^--t--t--t--t-..|==^        `t` a time-out
 *     rpc-server               |=====-----=====^
 *
 * Truth: the server's work and sleep for as long as the client is blocked, and no longer; with
 * --event-loop only after the last time-out.
 *
 * Assumes 2 CPUs for --async. Nagle's algorithm is off: one request, one packet.
 */
#include "truth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static long rounds = 8, work_ms = 30, sleep_ms = 30, own_ms = 10, async, event_loop, timeout_ms = 16;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "requests" },
	{ "work-ms", &work_ms, false, "CPU time of the server for each" },
	{ "sleep-ms", &sleep_ms, false, "sleep of the server for each" },
	{ "own-ms", &own_ms, false, "CPU time of the client between" },
	{ "async", &async, false, "percent of the server's time that the client works too" },
	{ "event-loop", &event_loop, true, "wait for the answer in short time-outs" },
	{ "timeout-ms", &timeout_ms, false, "time-out of the event loop" },
	{ 0 },
};

struct message {
	char bytes[32];
};

static void say(lane_t lane, lane_t to, int fd)
{
	struct message message = { "" };
	releases(lane, to);
	if (send(fd, &message, sizeof message, 0) != sizeof message)
		die("cannot send");
}

static bool hear(lane_t lane, int fd)
{
	struct message message;
	wait_begins(lane, "recvfrom");
	bool got = recv(fd, &message, sizeof message, MSG_WAITALL) == sizeof message;
	wait_ends(lane, NO_LANE);
	return got;
}

static void serve(lane_t lane, int listener)
{
	wait_begins(lane, "accept");
	int fd = accept(listener, NULL, NULL), on = 1;
	wait_ends(lane, 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	while (hear(lane, fd)) {
		work(lane, (uint64_t)work_ms * MS / 2);
		rest(lane, (uint64_t)sleep_ms * MS);
		work(lane, (uint64_t)work_ms * MS / 2);
		say(lane, 0, fd);
	}
	_exit(0);
}

static int connect_to(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address))
		die("cannot connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static void loop_until_answered(lane_t lane, int fd)
{
	struct pollfd item = { .fd = fd, .events = POLLIN };
	for (;;) {
		wait_begins(lane, "poll");
		if (poll(&item, 1, (int)timeout_ms) > 0)
			break;
		wait_times_out(lane, (uint64_t)timeout_ms * MS);
	}
	wait_ends_or_times_out(lane, (uint64_t)timeout_ms * MS);
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("rpc");
	flags_read(argc, argv, flags, "a client and a server over TCP");
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		die("cannot listen on the loopback interface");
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child)
		serve(lane_open("rpc-server", lane), listener);
	int fd = connect_to(&address);
	uint64_t beside = (uint64_t)(work_ms + sleep_ms) * (uint64_t)async / 100 * MS;
	for (long i = 0; i < rounds; i++) {
		work(lane, (uint64_t)own_ms * MS);
		say(lane, 1, fd);
		work(lane, beside);
		if (event_loop)
			loop_until_answered(lane, fd);
		hear(lane, fd);
	}
	close(fd);
	wait_for_child(lane, child);
	if (!async && !event_loop)
		must("segments comm=rpc-server kind=timer call=clock_nanosleep");
	window_close();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client that asks a server over TCP on the loopback interface (G15 table 3.1 and §5.4.3, wk-rpc).
 * The server computes, sleeps and computes for each request. The client can work meanwhile
 * (--async), or wait in an event loop with short time-outs (--event-loop). On two machines, one is
 * the server alone (--listen) and one the client alone (--connect).
 *
 *     rpc                    ==^...............|==^        `^` sends, `|` is answered
 *     rpc, --async 50        ==^=======........|==^
 *     rpc, --event-loop      ==^--t--t--t--t-..|==^        `t` a time-out
 *     rpc-server               |=====-----=====^
 *
 * Truth: the server's work and sleep for as long as the client is blocked, and no longer; with
 * --event-loop only after the last time-out. On two machines each writes its own half: the wait for the
 * other is `network` to it, and what the server runs while no request is with it is `beside`. The
 * client's `network` less all else of the server's meanwhile was in flight.
 *
 * Assumes 2 CPUs for --async. Nagle's algorithm is off: one request, one packet.
 */
#include "truth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static long rounds = 8, work_ms = 30, sleep_ms = 30, own_ms = 10, async, event_loop, timeout_ms = 16, port;
static const char *listen_at, *server_at;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "requests" },
	{ "work-ms", &work_ms, false, "CPU time of the server for each" },
	{ "sleep-ms", &sleep_ms, false, "sleep of the server for each" },
	{ "own-ms", &own_ms, false, "CPU time of the client between" },
	{ "async", &async, false, "percent of the server's time that the client works too" },
	{ "event-loop", &event_loop, true, "wait for the answer in short time-outs" },
	{ "timeout-ms", &timeout_ms, false, "time-out of the event loop" },
	{ "listen", &listen_at, A_TEXT, "be the server alone, at this IPv4 address" },
	{ "connect", &server_at, A_TEXT, "be the client alone, of the server there" },
	{ "port", &port, false, "the server's; any if 0" },
	{ 0 },
};

struct message {
	char bytes[32];
};

/* The other is on another machine, and keeps books of its own. */
static bool apart(void)
{
	return listen_at || server_at;
}

static void wait_for_the_other_ends(lane_t lane, lane_t otherwise)
{
	if (apart())
		wait_ends_by(lane, BY_PEER);
	else
		wait_ends(lane, otherwise);
}

static void say(lane_t lane, lane_t to, int fd)
{
	struct message message = { "" };
	if (!apart())
		releases(lane, to);
	if (send(fd, &message, sizeof message, 0) != sizeof message)
		die("cannot send");
}

/* What came, once the wait for it has begun; whether anything did. */
static bool heard(lane_t lane, int fd)
{
	struct message message;
	bool got = recv(fd, &message, sizeof message, MSG_WAITALL) == sizeof message;
	wait_for_the_other_ends(lane, NO_LANE);
	return got;
}

/*
 * Across a network the other works on the message while this thread is still on its way to wait for the
 * answer: nothing is done in between, the books are kept before.
 */
static void say_and_wait(lane_t lane, lane_t to, int fd)
{
	if (apart()) {
		wait_begins(lane, "recvfrom");
		say(lane, to, fd);
	} else {
		say(lane, to, fd);
		wait_begins(lane, "recvfrom");
	}
}

/* `since`: by its CPU clock, when it began. */
static void serve(lane_t lane, int listener, uint64_t since)
{
	uint64_t beside = 0;
	wait_begins(lane, "accept");
	int fd = accept(listener, NULL, NULL), on = 1;
	wait_for_the_other_ends(lane, 0);
	if (fd < 0)
		die("cannot accept");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	wait_begins(lane, "recvfrom");
	for (;;) {
		beside += cpu_time() - since;
		if (!heard(lane, fd))
			break;
		work(lane, (uint64_t)work_ms * MS / 2);
		rest(lane, (uint64_t)sleep_ms * MS);
		work(lane, (uint64_t)work_ms * MS / 2);
		since = cpu_time();
		say_and_wait(lane, 0, fd);
	}
	/* To another machine's client it matters only how long each request is with it. */
	if (apart())
		account_moves(lane, "running", "beside", beside);
}

static int connect_to(lane_t lane, const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (apart())
		wait_begins(lane, "connect");
	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address))
		die("cannot connect");
	if (apart())
		wait_ends_by(lane, BY_PEER);
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

static int listen_on(struct sockaddr_in *address)
{
	socklen_t length = sizeof *address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)address, &length))
		die("cannot listen there");
	return listener;
}

static void ask(lane_t lane, int fd)
{
	uint64_t beside = (uint64_t)(work_ms + sleep_ms) * (uint64_t)async / 100 * MS;
	for (long i = 0; i < rounds; i++) {
		work(lane, (uint64_t)own_ms * MS);
		if (async || event_loop) {
			say(lane, 1, fd);
			work(lane, beside);
			if (event_loop)
				loop_until_answered(lane, fd);
			wait_begins(lane, "recvfrom");
		} else {
			say_and_wait(lane, 1, fd);
		}
		if (!heard(lane, fd))
			die("the server is gone");
	}
	close(fd);
}

/* A server in a process of our own. */
static pid_t serve_beside(lane_t lane, int listener)
{
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		lane = lane_open("rpc-server", lane);
		serve(lane, listener, cpu_time());
		_exit(0);
	}
	return child;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("rpc");
	uint64_t began = cpu_time();
	flags_read(argc, argv, flags, "a client and a server over TCP");
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	const char *where = listen_at ? listen_at : server_at ? server_at : "127.0.0.1";
	errno = EINVAL;
	if (inet_pton(AF_INET, where, &address.sin_addr) != 1)
		die(where);
	if (apart() && (async || event_loop))
		die("on two machines there is neither --async nor --event-loop");
	if (apart())
		live_for(180);
	pid_t child = 0;
	if (listen_at) {
		lane_rename(lane, "rpc-server");
		serve(lane, listen_on(&address), began);
	} else {
		if (!server_at)
			child = serve_beside(lane, listen_on(&address));
		ask(lane, connect_to(lane, &address));
	}
	if (child)
		wait_for_child(lane, child);
	if (!async && !event_loop && !listen_at)
		must("segments comm=rpc-server kind=timer call=clock_nanosleep");
	window_close();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client that asks a server over TCP, each on a machine of its own: the first is the server alone
 * (--listen), the second the client alone (--connect). For each request the server computes, sleeps and
 * computes, as in rpc.c.
 *
 *     rpc                    ==^...............|==^        `^` sends, `|` is answered
 *     rpc-server               |=====-----=====^
 *
 * Truth: each writes its own half. The wait for the other is `network` to it, and what the server runs
 * while no request is with it is `beside`. The client's `network` less all else of the server's
 * meanwhile was in flight.
 *
 * Nagle's algorithm is off: each request is a single packet.
 */
#include "truth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static long rounds = 8, work_ms = 30, sleep_ms = 30, own_ms = 10, port;
static const char *listen_at, *server_at;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "requests" },
	{ "work-ms", &work_ms, false, "CPU time of the server for each" },
	{ "sleep-ms", &sleep_ms, false, "sleep of the server for each" },
	{ "own-ms", &own_ms, false, "CPU time of the client between" },
	{ "listen", &listen_at, A_TEXT, "be the server, at this IPv4 address" },
	{ "connect", &server_at, A_TEXT, "be the client, of the server there" },
	{ "port", &port, false, "the server's" },
	{ 0 },
};

struct message {
	char bytes[32];
};

/*
 * The other works on the message while this thread is still on its way to wait for the answer: nothing
 * is done in between, the books are kept before.
 */
static void say_and_wait(lane_t lane, int fd)
{
	struct message message = { "" };
	wait_begins(lane, "recvfrom");
	if (send(fd, &message, sizeof message, 0) != sizeof message)
		die("cannot send");
}

/* Notes the packet that came after the wait began; returns whether it came. */
static bool heard(lane_t lane, int fd)
{
	struct message message;
	bool got = recv(fd, &message, sizeof message, MSG_WAITALL) == sizeof message;
	wait_ends_by(lane, BY_PEER);
	return got;
}

/* `since`: by its CPU clock, when it began. */
static void serve(lane_t lane, int listener, uint64_t since)
{
	uint64_t beside = 0;
	wait_begins(lane, "accept");
	int fd = accept(listener, NULL, NULL), on = 1;
	wait_ends_by(lane, BY_PEER);
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
		say_and_wait(lane, fd);
	}
	/* To the client it matters only how long each request is with the server. */
	account_moves(lane, "running", "beside", beside);
}

static int listen_on(const struct sockaddr_in *address)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (const struct sockaddr *)address, sizeof *address) || listen(listener, 1))
		die("cannot listen there");
	return listener;
}

static void ask(lane_t lane, const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	wait_begins(lane, "connect");
	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address))
		die("cannot connect");
	wait_ends_by(lane, BY_PEER);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	for (long i = 0; i < rounds; i++) {
		work(lane, (uint64_t)own_ms * MS);
		say_and_wait(lane, fd);
		if (!heard(lane, fd))
			die("the server is gone");
	}
	close(fd);
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("rpc");
	uint64_t began = cpu_time();
	flags_read(argc, argv, flags, "a client and a server over TCP, on two machines");
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	const char *where = listen_at ? listen_at : server_at;
	errno = EINVAL;
	if (!where || (listen_at && server_at))
		die("either --listen or --connect");
	if (inet_pton(AF_INET, where, &address.sin_addr) != 1)
		die(where);
	live_for(180);
	if (listen_at) {
		lane_rename(lane, "rpc-server");
		serve(lane, listen_on(&address), began);
	} else {
		ask(lane, &address);
		must("segments comm=rpc-server kind=timer call=clock_nanosleep");
	}
	window_close();
	return 0;
}

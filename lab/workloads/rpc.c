/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A client that asks a server over TCP (G15 table 3.1, §5.4.2 and §5.4.3, wk-rpc): on the loopback
 * interface, or over a link of known delay (--delay-ms) or bandwidth (--rate-mbit). The server
 * computes, sleeps and computes for each request. The client can work meanwhile (--async), or wait in
 * an event loop with short time-outs (--event-loop).
 *
 *     rpc                    ==^...............|==^        `^` sends, `|` is answered
 *     rpc, --async 50        ==^=======........|==^
 *     rpc, --event-loop      ==^..t..t..t..t...|==^        `t` a time-out, after which it polls again
 *     rpc-server               |=====-----=====^
 *
 *     rpc, --delay-ms        ==^.............................|==      `~` in flight
 *                               ~~~~~                   ~~~~~
 *     rpc-server                     |=====-----=====^
 *
 * Truth: the server's work and sleep for as long as the client is blocked, and no longer. Polls of the same
 * descriptor are a single wait; with --as-timed-out, each time-out is the client's own timer; where the last poll may
 * not have slept until the answer, the account has both readings. Over a link also the
 * wire's timer, or the time in flight.
 *
 * Assumes 2 CPUs for --async. Nagle's algorithm is off: each request is a single packet.
 */
#include "link.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static long rounds = 8, work_ms = 30, sleep_ms = 30, own_ms = 10, async, event_loop, as_timed_out,
	    timeout_ms = 16;
static long delay_ms, rate_mbit, answer_kib;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "requests" },
	{ "work-ms", &work_ms, false, "CPU time of the server for each" },
	{ "sleep-ms", &sleep_ms, false, "sleep of the server for each" },
	{ "own-ms", &own_ms, false, "CPU time of the client between" },
	{ "async", &async, false, "percent of the time until the answer that the client works too" },
	{ "event-loop", &event_loop, true, "wait for the answer in short time-outs" },
	{ "timeout-ms", &timeout_ms, false, "time-out of the event loop" },
	{ "as-timed-out", &as_timed_out, true, "count its time-outs as the client's timers" },
	{ "delay-ms", &delay_ms, false, "of each packet, either way; 0 for none" },
	{ "rate-mbit", &rate_mbit, false, "bandwidth either way, Mbit/s; 0 for no limit" },
	{ "answer-kib", &answer_kib, false, "size of an answer; 0 for 32 bytes" },
	{ 0 },
};

#define REQUEST 32 /* bytes */
static char message[4 << 20];

/*
 * A large message may have to wait for room: that is until a part of it has arrived. It counts as sent when this began;
 * time in which the sender lacked a CPU on its way is then in flight by these books, and not by a trace.
 */
static void say(lane_t lane, lane_t to, int fd, size_t length)
{
	bool large = length > REQUEST && link_is_made();
	struct sending begun = link_sends(lane, to);
	if (large)
		wait_begins(lane, "sendto");
	if (send(fd, message, length, 0) != (ssize_t)length)
		die("cannot send");
	if (!large) {
		has_released(to);
		return;
	}
	if (link_wait_ends_by(lane, (struct sending){ .by = NO_LANE })) {
		link_waits_were_several(lane);
		link_has_sent(lane, to, begun.at);
	} else {
		link_has_sent(lane, to, now());
	}
}

static bool hear(lane_t lane, int fd, size_t length)
{
	wait_begins(lane, "recvfrom");
	bool got = recv(fd, message, length, MSG_WAITALL) == (ssize_t)length;
	link_wait_ends(lane);
	return got;
}

static size_t answer_size(void)
{
	return answer_kib && answer_kib <= 4096 ? (size_t)answer_kib << 10 : REQUEST;
}

static void serve(lane_t lane, int listener)
{
	link_far_end(lane);
	int fd = link_accept(lane, listener);
	while (hear(lane, fd, REQUEST)) {
		work(lane, (uint64_t)work_ms * MS / 2);
		rest(lane, (uint64_t)sleep_ms * MS);
		work(lane, (uint64_t)work_ms * MS / 2);
		say(lane, 0, fd, answer_size());
	}
	_exit(0);
}

/* Whether it is certain that the last poll slept until the answer came. */
static bool loop_until_answered(lane_t lane, lane_t server, int fd)
{
	struct pollfd item = { .fd = fd, .events = POLLIN };
	uint64_t asked = now(), began = asked;
	wait_begins(lane, "poll");
	while (poll(&item, 1, (int)timeout_ms) == 0) {
		if (as_timed_out) {
			wait_times_out(lane, (uint64_t)timeout_ms * MS);
			wait_begins(lane, "poll");
		} else {
			link_wait_is_interrupted(lane, (uint64_t)timeout_ms * MS, server, asked);
		}
		began = now();
	}
	if (link_is_made()) {
		/* No event says whether a poll that timed out found the answer. This is read after the poll: it may say so too often. */
		bool in_time = now() < began + (uint64_t)timeout_ms * MS;
		if (!in_time)
			order_unknown(lane, now() - asked);
		link_wait_ends(lane);
		return in_time;
	}
	return wait_ends_or_times_out(lane, (uint64_t)timeout_ms * MS, as_timed_out ? 0 : asked);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address;
	flags_read(argc, argv, flags, "a client and a server over TCP");
	link_make(delay_ms, rate_mbit);
	int listener = link_listen(&address);
	lane_t lane = window_open("rpc");
	link_start(lane);
	forks(lane);
	pid_t child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child)
		serve(lane_open("rpc-server", lane), listener);
	int fd = link_connect(lane, &address);
	lane_t server = link_await_far_end(lane);
	if (link_is_made())
		link_wakes_for(fd, answer_size());
	uint64_t beside = (uint64_t)(work_ms + sleep_ms + 2 * delay_ms) * (uint64_t)async / 100 * MS;
	bool certain = !event_loop;
	for (long i = 0; i < rounds; i++) {
		work(lane, (uint64_t)own_ms * MS);
		say(lane, server, fd, REQUEST);
		work(lane, beside);
		if (event_loop)
			certain |= loop_until_answered(lane, server, fd);
		hear(lane, fd, answer_size());
	}
	if (!async && !as_timed_out && certain)
		must("segments comm=rpc-server kind=timer call=clock_nanosleep");
	if (link_is_made()) {
		window_close();
		link_end(child);
		return 0;
	}
	close(fd);
	wait_for_child(lane, child);
	window_close();
	return 0;
}

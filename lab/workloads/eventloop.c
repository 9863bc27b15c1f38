/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An event loop that sleeps in short time-outs until, at last, another thread has something for it
 * (G15 §5.4.3): a round with poll and a round with epoll, by turns.
 *
 *     eventloop          ..t..t..t..t..|==--t--t--t--t-.|==     `t` time-out, `|` the event
 *     eventloop-work     =============^  =============^
 *
 * Truth: polls of the same descriptor are a single wait, for the worker. The set of an epoll cannot be compared, so
 * there the time-outs are main's own timers, and only the last wait is the worker's. With --as-timed-out that is
 * so for poll too: it is what G15 says the plain active path shows, and why it offers a rule beside it. Where the last
 * poll may not have slept until the event, the account has both readings.
 *
 * Assumes 2 CPUs for that drawing.
 */
#define _GNU_SOURCE
#include "truth.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static long rounds = 6, timeout_ms = 16, work_ms = 74, own_ms = 10, as_timed_out;
static const struct flag flags[] = {
	{ "rounds", &rounds, false, "events" },
	{ "timeout-ms", &timeout_ms, false, "time-out of the loop" },
	{ "as-timed-out", &as_timed_out, true, "count the time-outs of poll as main's timers" },
	{ "work-ms", &work_ms, false, "CPU time of the worker for each event" },
	{ "own-ms", &own_ms, false, "CPU time of main for each event" },
	{ 0 },
};

static int event, go; /* descriptors */

static void *worker(void *parent)
{
	lane_t main_lane = *(lane_t *)parent, lane = lane_open("eventloop-work", main_lane);
	uint64_t count = 1;
	for (long i = 0; i < rounds; i++) {
		wait_begins(lane, "read");
		if (read(go, &count, sizeof count) < 0)
			die("cannot read an event");
		wait_ends(lane, NO_LANE);
		work(lane, (uint64_t)work_ms * MS);
		releases(lane, main_lane);
		if (write(event, &count, sizeof count) < 0)
			die("cannot write an event");
		has_released(main_lane);
	}
	return NULL;
}

static bool wait_once(int epoll, bool use_epoll)
{
	struct pollfd item = { .fd = event, .events = POLLIN };
	struct epoll_event ready;
	return use_epoll ? epoll_wait(epoll, &ready, 1, (int)timeout_ms) > 0 : poll(&item, 1, (int)timeout_ms) > 0;
}

int main(int argc, char **argv)
{
	lane_t lane = window_open("eventloop");
	flags_read(argc, argv, flags, "an event loop with short time-outs");
	event = eventfd(0, EFD_CLOEXEC);
	go = eventfd(0, EFD_CLOEXEC);
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event interest = { .events = EPOLLIN };
	if (event < 0 || go < 0 || epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, event, &interest))
		die("cannot make the descriptors");
	pthread_t thread;
	forks(lane);
	if (pthread_create(&thread, NULL, worker, &lane))
		die("cannot start a thread");
	for (long i = 0; i < rounds; i++) {
		uint64_t count = 1;
		releases(lane, 1);
		if (write(go, &count, sizeof count) < 0)
			die("cannot write an event");
		bool use_epoll = i % 2, each_alone = use_epoll || as_timed_out;
		uint64_t since = now();
		wait_begins(lane, use_epoll ? "epoll_wait" : "poll");
		while (!wait_once(epoll, use_epoll)) {
			if (each_alone) {
				wait_times_out(lane, (uint64_t)timeout_ms * MS);
				wait_begins(lane, use_epoll ? "epoll_wait" : "poll");
			} else {
				wait_is_interrupted(lane, (uint64_t)timeout_ms * MS, 1);
			}
		}
		wait_ends_or_times_out(lane, (uint64_t)timeout_ms * MS, each_alone ? 0 : since);
		if (read(event, &count, sizeof count) < 0)
			die("cannot read an event");
		work(lane, (uint64_t)own_ms * MS);
	}
	never("waits lock.kernel=false lock.owner");
	never("segments call=futex cause.type=lock");
	window_close();
	return 0;
}

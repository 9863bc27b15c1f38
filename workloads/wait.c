/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waits: where they begin, and who or what ends them. See truth.h. */
#define _GNU_SOURCE
#include "lane.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

void wait_begins(lane_t lane, const char *call)
{
	struct lane *l = &lanes->lane[lane];
	boundary(lane, WORK, BY_LANE, NO_LANE);
	snprintf(l->waiting_in, sizeof l->waiting_in, "%s", call);
}

static struct stretch *wait_over(lane_t lane, enum end end, lane_t by)
{
	struct stretch *s = boundary(lane, WAIT, end, by);
	lanes->lane[lane].waiting_in[0] = 0;
	return s;
}

void wait_ends_by(lane_t lane, enum end end)
{
	wait_over(lane, end, NO_LANE);
}

/*
 * The wait was over at `woken` at the earliest: it was not runnable before. The kernel's count can be
 * too high, when the load balancer moved the thread as it fell asleep: then the count goes on from
 * there through the sleep (6.18, `sched_info` beside delayed dequeueing).
 */
static void not_runnable_before(struct stretch *s, uint64_t woken)
{
	if (woken > s->from && woken < s->to && s->to - woken < s->delayed)
		s->delayed = s->to - woken;
}

void wait_times_out(lane_t lane, uint64_t ns)
{
	struct stretch *s = wait_over(lane, BY_TIMER, NO_LANE);
	not_runnable_before(s, s->from + ns);
}

struct stretch *wait_interrupted(lane_t lane, uint64_t ns, lane_t awaited)
{
	char call[CALL_LEN];
	snprintf(call, sizeof call, "%s", lanes->lane[lane].waiting_in);
	struct stretch *s = wait_over(lane, BY_LANE, awaited);
	not_runnable_before(s, s->from + ns);
	wait_begins(lane, call);
	return s;
}

void wait_is_interrupted(lane_t lane, uint64_t ns, lane_t awaited)
{
	wait_interrupted(lane, ns, awaited);
}

bool wait_ends_or_times_out(lane_t lane, uint64_t ns)
{
	const struct lane *l = &lanes->lane[lane];
	bool timed_out = atomic_load(&l->released) > l->at + ns;
	if (timed_out)
		wait_times_out(lane, ns);
	else
		wait_ends(lane, NO_LANE);
	return timed_out;
}

void order_unknown(lane_t lane, uint64_t ns)
{
	lanes->lane[lane].unordered += ns;
}

void releases(lane_t lane, lane_t waiter)
{
	struct lane *w = &lanes->lane[waiter];
	atomic_store(&w->released_by, lane);
	atomic_store(&w->released, now());
}

struct stretch *wait_released(lane_t lane, lane_t otherwise)
{
	struct lane *l = &lanes->lane[lane];
	uint64_t began = l->at, released = atomic_load(&l->released);
	if (released < began) /* or never */
		return wait_over(lane, BY_LANE, otherwise);
	struct stretch *s = wait_over(lane, BY_LANE, atomic_load(&l->released_by));
	not_runnable_before(s, released);
	/*
	 * From the release on the thread was on its way back. The kernel counts it as runnable only
	 * once its own CPU has heard of it, which an interrupt to a sleeping CPU delays. On one and the
	 * same CPU the kernel's count is exact, and leaves out what the releaser still had to do.
	 */
	if (!lanes->one_cpu && s->to - released > s->delayed && s->to - s->from > s->cpu + (s->to - released))
		s->delayed = s->to - released;
	return s;
}

void wait_ends(lane_t lane, lane_t otherwise)
{
	wait_released(lane, otherwise);
}

void wait_ends_or_by(lane_t lane, enum end end)
{
	struct stretch *s = wait_released(lane, NO_LANE);
	if (s->by == NO_LANE)
		s->end = (uint8_t)end;
}

static lane_t lane_of(pid_t process)
{
	for (lane_t i = atomic_load(&lanes->count) - 1; i >= 0; i--)
		if (lanes->lane[i].tid == process)
			return i;
	errno = ESRCH;
	die("a child ended without having opened its lane");
}

void wait_for_child(lane_t lane, int process)
{
	struct rusage used;
	wait_begins(lane, "wait4");
	if (wait4(process, NULL, 0, &used) != process)
		die("cannot wait for a child");
	lane_t child = lane_of(process);
	struct stretch *s = wait_over(lane, BY_LANE, child);

	/*
	 * The child's time after its last boundary has no stamp, but its CPU time is known now (and
	 * that of the children for which it has waited itself, which comes with it).
	 */
	struct lane *l = &lanes->lane[lane], *c = &lanes->lane[child];
	uint64_t family = ((uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
			   (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)) * US;
	uint64_t before = c->at_cpu + c->children_cpu, ran = family > before ? family - before : 0;
	l->children_cpu += family;
	not_runnable_before(s, c->at + ran);
	uint64_t ended = s->to - s->delayed - s->cpu; /* or later: part of that CPU time was on the way in */
	if (ended > c->at && ended - c->at > ran)
		c->end_delay = ended - c->at - ran;
}

void rest(lane_t lane, uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	wait_begins(lane, "clock_nanosleep");
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	wait_times_out(lane, ns);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waits: their beginnings and their ends. See truth.h. */
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
	if (woken <= s->from || woken >= s->to)
		return;
	if (s->to - woken < s->delayed)
		s->delayed = s->to - woken;
	s->is_bounded = true;
}

/* The same, by the reading that a timer ended it, which was set for so long when it began. */
static void may_time_out(struct stretch *s, uint64_t ns)
{
	struct stretch timed_out = *s;
	timed_out.delayed = s->delayed_by_timer;
	not_runnable_before(&timed_out, s->from + ns);
	s->delayed_by_timer = timed_out.delayed;
	s->may_time_out = true;
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
	may_time_out(s, ns);
	wait_begins(lane, call);
	return s;
}

void wait_is_interrupted(lane_t lane, uint64_t ns, lane_t awaited)
{
	wait_interrupted(lane, ns, awaited);
}

bool wait_ends_or_times_out(lane_t lane, uint64_t ns, uint64_t since)
{
	const struct lane *l = &lanes->lane[lane];
	uint64_t expires = l->at + ns; /* at the earliest: the timer is set after this stamp, and may be late */
	long sleeps = l->sleeps;
	struct stretch *s = wait_released(lane, NO_LANE);
	may_time_out(s, ns);
	uint64_t began = atomic_load(&l->released), done = atomic_load(&l->was_released);
	bool in_time = s->to < expires || (done >= began && done < expires);
	bool certain = in_time && l->sleeps != sleeps;
	if (!certain)
		account_either(since ? since : s->from, s->to);
	return certain;
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

void has_released(lane_t waiter)
{
	atomic_store(&lanes->lane[waiter].was_released, now());
}

/*
 * On a single CPU, where the kernel's count is exact: the waiter was released at `released`. If it was runnable for longer than since
 * then, it lost its CPU on its way into the call, before it slept. Returns the stretch in which it slept.
 */
static struct stretch *was_late_to_sleep(lane_t lane, struct stretch *s, uint64_t released)
{
	if (released <= s->from || released >= s->to || s->to - released >= s->delayed)
		return s;
	struct stretch slept = *s;
	slept.delayed = s->to - released;
	uint64_t before = s->delayed - slept.delayed;
	if (before > s->to - s->from - slept.delayed)
		return s;
	*s = (struct stretch){ .from = s->from, .to = s->from + before, .delayed = before, .what = WAIT, .end = BY_NOBODY,
			       .by = NO_LANE };
	slept.from = s->to;
	return stretch_log(lane, &slept);
}

struct stretch *wait_released(lane_t lane, lane_t otherwise)
{
	struct lane *l = &lanes->lane[lane];
	uint64_t began = l->at, released = atomic_load(&l->released);
	if (released < began) /* or never */
		return wait_over(lane, BY_LANE, otherwise);
	struct stretch *s = wait_over(lane, BY_LANE, atomic_load(&l->released_by));
	if (lanes->one_cpu)
		return was_late_to_sleep(lane, s, released);
	not_runnable_before(s, released);
	/*
	 * From the release on the thread was on its way back. The kernel counts it as runnable only
	 * once its own CPU has heard of it, which an interrupt to a sleeping CPU delays. On the
	 * same CPU its count leaves out what the releaser still had to do.
	 */
	if (s->to - released > s->delayed && s->to - s->from > s->cpu + (s->to - released))
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

/* An ended child's runnable time in its life. */
static uint64_t delay_of_ended(int process)
{
	char path[48];
	unsigned long long delayed;
	snprintf(path, sizeof path, "/proc/%d/schedstat", process);
	FILE *stat = fopen(path, "re");
	if (!stat || fscanf(stat, "%*u %llu", &delayed) != 1)
		die(path);
	fclose(stat);
	return delayed;
}

void wait_for_child(lane_t lane, int process)
{
	struct rusage used;
	siginfo_t about;
	wait_begins(lane, "waitid");
	if (waitid(P_PID, (id_t)process, &about, WEXITED | WNOWAIT))
		die("cannot wait for a child");
	lane_t child = lane_of(process);
	struct stretch *s = wait_over(lane, BY_LANE, child);
	uint64_t delay = delay_of_ended(process);
	if (wait4(process, NULL, 0, &used) != process)
		die("cannot wait for a child");
	lanes->lane[lane].reaps = true;

	/*
	 * The child's time after its last boundary has no stamp, but its CPU time is known now (and
	 * that of the children for which it has waited itself, which comes with it).
	 */
	struct lane *l = &lanes->lane[lane], *c = &lanes->lane[child];
	uint64_t family = ((uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
			   (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec)) * US;
	uint64_t before = c->at_cpu + c->children_cpu, ran = family > before ? family - before : 0;
	l->children_cpu += family;
	/* On a single CPU no load balancer spoils the kernel's counts. */
	if (lanes->one_cpu) {
		c->end_delay = delay > c->at_delay ? delay - c->at_delay : 0;
		uint64_t over = c->at + c->end_delay + ran, earliest = s->to - s->delayed - s->cpu;
		/* It was blocked on its way to its end, by a lock of the kernel's. */
		if (earliest > over)
			c->unawares += earliest - over;
		was_late_to_sleep(lane, s, over);
		return;
	}
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

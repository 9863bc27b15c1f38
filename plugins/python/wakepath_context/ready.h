/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why a callback became ready. Each callback has a note from its scheduling. The note gives the reason as the callback begins, and a
 * span's turn beginning with the callback has this reason.
 *
 * A callback outside all spans' turns hands its own reason to the callbacks it schedules: a timer resolves a future, and is why
 * the future's task runs; a reader is why a request's task runs.
 */
#ifndef READY_H
#define READY_H

#include "turns.h"

/* A callback's note. */
struct note {
	enum { UNKNOWN, SCHEDULED, TIMER, DESCRIPTOR } kind;
	/* SCHEDULED: the scheduling thread and process, and the time, ns since 1970. */
	int tid;
	long process;
	uint64_t made;
	/* SCHEDULED: the reason in the same thread. */
	struct wakepath_ready ready;
	/* TIMER: the due time by the monotonic clock, seconds. */
	double due;
};

static double monotonic_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The note for a callback, which this thread schedules now. */
static void note_scheduled(struct note *note)
{
	note->kind = SCHEDULED;
	note->tid = (int)tid_now();
	note->process = process;
	note->made = wall_ns();
	note->ready = reason;
	if (is_in_turn()) {
		note->ready.kind = 's';
		note->ready.at = note->made;
	}
}

/*
 * The reason of a callback with this note, which begins now in this thread. Sets `now` to the time, ns since 1970, if it is read,
 * else to 0.
 */
static struct wakepath_ready reason_by(const struct note *note, uint64_t *now)
{
	struct wakepath_ready ready = {0, 0, 0};

	*now = 0;
	if (note->kind == DESCRIPTOR) {
		*now = wall_ns();
		ready.kind = 'd';
		ready.at = *now;
	} else if (note->kind == TIMER) {
		double late = (monotonic_seconds() - note->due) * 1e9;

		*now = wall_ns();
		/* No time of this clock is further away. */
		if (late < 1e18) {
			ready.kind = 't';
			ready.at = *now - (uint64_t)(int64_t)late;
		}
	} else if (note->kind == SCHEDULED && note->process == process) {
		if (note->tid == tid_now())
			return note->ready;
		ready.kind = 'w';
		ready.tid = note->tid;
		ready.at = note->made;
	}
	return ready;
}
#endif

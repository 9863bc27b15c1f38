/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why a callback became ready. Each callback has a note from its scheduling; its reason is made from the note as the callback begins,
 * and is why the span's turn that begins with it became ready.
 *
 * A callback that belongs to no span's turn hands its own reason to the callbacks that it schedules: a timer that resolves a future is
 * why the future's task runs, and a reader is why a request's task runs.
 */
#ifndef READY_H
#define READY_H

#include "turns.h"

/* A callback's note. */
struct note {
	enum { UNKNOWN, SCHEDULED, TIMER, DESCRIPTOR } kind;
	/* SCHEDULED: the thread and process that scheduled it, and the time, ns since 1970; 0: not read, the thread runs the same loop. */
	int tid;
	long process;
	uint64_t made;
	/* SCHEDULED: the reason in the same thread. */
	struct wakepath_ready ready;
	/* TIMER: the due time by the monotonic clock, ns. */
	uint64_t due;
	/* Its loop, for comparison alone. */
	const void *loop;
};

/* The running callback's loop, or NULL. */
static __thread const void *running_loop;

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The note for a callback that this thread schedules now in a loop. */
static void note_scheduled(struct note *note, const void *loop)
{
	/* Only another thread's time is needed without a span, and a callback's own loop runs in its thread. */
	int needs_time = is_in_turn() || !loop || loop != running_loop;

	note->kind = SCHEDULED;
	note->tid = (int)tid_now();
	note->process = process;
	note->made = needs_time ? wall_ns() : 0;
	note->loop = loop;
	note->ready = reason;
	if (is_in_turn()) {
		note->ready.kind = 's';
		note->ready.at = note->made;
	}
}

/*
 * The reason of a callback with this note, which begins now in this thread. Sets `now` to the time, ns since 1970, if it is read; else
 * to 0.
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
		uint64_t late = monotonic_ns();

		*now = wall_ns();
		late = late > note->due ? late - note->due : 0;
		ready.kind = 't';
		ready.at = *now - late;
	} else if (note->kind == SCHEDULED && note->process == process) {
		if (note->tid == tid_now())
			return note->ready;
		if (note->made) {
			ready.kind = 'w';
			ready.tid = note->tid;
			ready.at = note->made;
		}
	}
	return ready;
}
#endif

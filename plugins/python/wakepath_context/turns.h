/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The turns of a Python program's spans: an object for each open span, and each thread's span in turn. */
#ifndef TURNS_H
#define TURNS_H

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wakepath_context.h"
#include "wakepath_turns.h"

struct turns {
	PyObject_HEAD
	struct wakepath_record record;
	/* The thread in which the span began, and the process. */
	long tid, process;
	/* The span has ended, or not all its turns can be known: no more are noted. */
	int is_over;
	/* The current turn's beginning, or 0. */
	uint64_t began;
	/* Why it became ready. */
	struct wakepath_ready ready;
	struct wakepath_turns noted;
};

/* The number of forks that led to this process: a child has its parent's spans, and another thread. */
static long process;
static __thread long own_tid;
/* The turns of the thread's current span; and the last noted turns, for comparison alone. */
static __thread struct turns *in_turn;
static __thread const void *last_noted;
/* Why the running callback became ready; not known outside callbacks, and once a span's turn has run in it. */
static __thread struct wakepath_ready reason;

static void forked(void)
{
	process++;
	own_tid = 0;
}

static void free_turns(PyObject *object)
{
	PyObject_Free(object);
}

static PyTypeObject turns_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name = "wakepath_context._record.Turns",
	.tp_basicsize = sizeof(struct turns),
	.tp_dealloc = free_turns,
	.tp_flags = Py_TPFLAGS_DEFAULT,
};

static long tid_now(void)
{
	return own_tid ? own_tid : (own_tid = syscall(SYS_gettid));
}

static uint64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The turns of a span beginning in this thread, without a record. */
static struct turns *new_turns(void)
{
	struct turns *turns = PyObject_New(struct turns, &turns_type);

	if (turns) {
		turns->tid = tid_now();
		turns->process = process;
		turns->is_over = 0;
		turns->began = 0;
		wakepath_begin_turns(&turns->noted);
	}
	return turns;
}

/* Whether the thread works in a span's turn. */
static int is_in_turn(void)
{
	return in_turn && !in_turn->is_over && in_turn->process == process;
}

/*
 * The thread works for these turns' span from here on; or, if they are NULL or another thread's, for no noted span. `ready`: why a
 * turn begins, NULL if not known. `now`: the time, or 0 to read it.
 */
static void turn_to(struct turns *turns, const struct wakepath_ready *ready, uint64_t now)
{
	struct turns *before = in_turn;

	if (turns && (turns->is_over || turns->tid != tid_now() || turns->process != process))
		turns = NULL;
	if (turns)
		reason.kind = 0;
	if (turns == before)
		return;
	if (!now)
		now = wall_ns();
	if (is_in_turn()) {
		wakepath_note_ready_turn(&before->noted, before->began, now, last_noted == before, &before->ready);
		last_noted = before;
		before->began = 0;
	}
	if (turns) {
		Py_INCREF(turns);
		turns->began = now;
		turns->ready.kind = 0;
		if (ready)
			turns->ready = *ready;
	}
	in_turn = turns;
	Py_XDECREF(before);
}

/*
 * Writes the turns of a span with this beginning that ends now, maybe in another thread than its own, and why they became ready.
 * Returns 0 if the turns are not known. The words are empty if none is known.
 */
static int end_turns(struct turns *turns, uint64_t begun, char text[WAKEPATH_TURNS_BYTES],
		     char words[WAKEPATH_READY_BYTES])
{
	if (turns->is_over || turns->process != process)
		return 0;
	turns->is_over = 1;
	if (turns->began)
		wakepath_note_ready_turn(&turns->noted, turns->began, wall_ns(), turns == in_turn && last_noted == turns,
					 &turns->ready);
	if (!wakepath_write_ready(&turns->noted, begun, words))
		words[0] = 0;
	return wakepath_write_turns(&turns->noted, begun, text);
}
#endif

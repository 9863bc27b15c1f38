/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The span shown by each thread, in a record which is never written while it is shown. */
#ifndef SHOWN_SPAN_H
#define SHOWN_SPAN_H

#include "turns.h"
#include "wakepath_context.h"

/* A thread's depth within a callback or function with a followed context. */
#define FOLLOWS (1L << 30)

static __thread struct wakepath_record records[2];
/* The number of contexts attached and not detached by the thread, or FOLLOWS. */
static __thread long depth;
/* The context for which another thread handed the running function over, or NULL: a borrowed reference. */
static __thread PyObject *handed_over;

/* OpenTelemetry's key for the current span, the name of the method for its ids, and of the Python attribute for its turns. */
static PyObject *span_key, *get_span_context, *turns_name;
/* The class of spans with turns. */
static PyTypeObject *span_type;

/* An id's bytes, in network order for OTEP 4947. */
static void put(uint8_t *to, unsigned long long number)
{
	for (int at = 7; at >= 0; at--, number >>= 8)
		to[at] = (uint8_t)number;
}

/* Writes a record by a span's ids. Returns 0 if the span belongs to another process, or has none. */
static int fill(struct wakepath_record *record, PyObject *ids)
{
	static PyObject *sixty_four;
	uint8_t trace_id[16], span_id[8];

	/* (trace id, span id, is remote, flags, state, is valid) */
	if (!PyTuple_Check(ids) || PyTuple_GET_SIZE(ids) < 6 || PyTuple_GET_ITEM(ids, 2) == Py_True ||
	    PyTuple_GET_ITEM(ids, 5) != Py_True)
		return 0;
	if (!sixty_four && !(sixty_four = PyLong_FromLong(64)))
		return 0;

	PyObject *trace = PyTuple_GET_ITEM(ids, 0), *upper = PyNumber_Rshift(trace, sixty_four);

	if (!upper)
		return 0;
	put(trace_id, PyLong_AsUnsignedLongLongMask(upper));
	Py_DECREF(upper);
	put(trace_id + 8, PyLong_AsUnsignedLongLongMask(trace));
	put(span_id, PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(ids, 1)));
	wakepath_fill(record, trace_id, span_id, (uint8_t)PyLong_AsUnsignedLongMask(PyTuple_GET_ITEM(ids, 3)));
	return !PyErr_Occurred();
}

/* A span's turns: a new reference, or NULL. Another span class may lack the attribute, and its search would be dear. */
static struct turns *turns_of(PyObject *span)
{
	PyObject *turns = span && Py_TYPE(span) == span_type ? PyObject_GetAttr(span, turns_name) : NULL;

	if (turns && Py_TYPE(turns) == &turns_type)
		return (struct turns *)turns;
	Py_XDECREF(turns);
	return NULL;
}

static PyObject *span_of(PyObject *context)
{
	return PyDict_Check(context) ? PyDict_GetItemWithError(context, span_key) : NULL;
}

/*
 * Shows the current span in a context, a dictionary, or none. `ready`: why a turn of the span begins, NULL if not known. `now`: the
 * time in ns since 1970, or 0 to read it.
 */
static void show_ready(PyObject *context, const struct wakepath_ready *ready, uint64_t now)
{
	PyObject *own = span_of(context), *span = own || !handed_over ? own : span_of(handed_over);
	struct turns *turns = turns_of(span);
	PyObject *ids = span && !turns ? PyObject_CallMethodObjArgs(span, get_span_context, NULL) : NULL;
	/* Chosen here: the method may have run code that showed another span. */
	struct wakepath_record *hidden = &records[otel_thread_ctx_v1 == &records[0]];

	if (turns)
		*hidden = turns->record;
	wakepath_show(turns || (ids && fill(hidden, ids)) ? hidden : NULL);
	turn_to(turns, ready, now);
	Py_XDECREF(turns);
	Py_XDECREF(ids);
	PyErr_Clear();
}

static void show(PyObject *context)
{
	show_ready(context, NULL, 0);
}
#endif

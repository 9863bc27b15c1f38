/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The record of the span that a thread of a Python program works for. `current_span.py` says when it changes.
 *
 * Each thread has two records: the one that is shown is never written. Nothing here raises: where a context cannot be read, the
 * thread shows no span.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "turns.h"
#include "wakepath_context.h"

/* The depth of a thread within a callback or function whose context is followed. */
#define FOLLOWS (1L << 30)

static __thread struct wakepath_record records[2];
/* The number of contexts that the thread has attached and not detached, or FOLLOWS. */
static __thread long depth;

/* OpenTelemetry's key of the current span, the name of the method that has its ids, and that of the attribute with its turns. */
static PyObject *span_key, *get_span_context, *turns_name;
/* The class of the spans that have turns. */
static PyTypeObject *span_type;

/* The bytes of an id, which OTEP 4947 has in the order of the network. */
static void put(uint8_t *to, unsigned long long number)
{
	for (int at = 7; at >= 0; at--, number >>= 8)
		to[at] = (uint8_t)number;
}

/* Writes a record by the ids of a span. Returns 0 if it is none of this process, or has none. */
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

/* The turns of a span: a new reference, or NULL. Another span's class may lack the attribute, and its search would be dear. */
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

/* Shows the current span of a context, a dictionary, or none. */
static void show(PyObject *context)
{
	PyObject *span = span_of(context);
	struct turns *turns = turns_of(span);
	PyObject *ids = span && !turns ? PyObject_CallMethodObjArgs(span, get_span_context, NULL) : NULL;
	/* Chosen here: the method may have run code that showed another span. */
	struct wakepath_record *hidden = &records[otel_thread_ctx_v1 == &records[0]];

	if (turns)
		*hidden = turns->record;
	wakepath_show(turns || (ids && fill(hidden, ids)) ? hidden : NULL);
	turn_to(turns);
	Py_XDECREF(turns);
	Py_XDECREF(ids);
	PyErr_Clear();
}

/* Returns whether the thread follows contexts. */
static PyObject *attach(PyObject *module, PyObject *context)
{
	if (depth < FOLLOWS)
		depth++;
	show(context);
	return PyBool_FromLong(depth >= FOLLOWS);
}

static PyObject *detach(PyObject *module, PyObject *context)
{
	if (depth > 0 && depth < FOLLOWS)
		depth--;
	show(depth ? context : Py_None);
	return PyBool_FromLong(depth >= FOLLOWS);
}

static PyObject *enter(PyObject *module, PyObject *context)
{
	long before = depth;

	depth = FOLLOWS;
	show(context);
	return PyLong_FromLong(before);
}

static PyObject *leave(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
	depth = count == 2 ? PyLong_AsLong(arguments[0]) : 0;
	show(depth ? arguments[1] : Py_None);
	Py_RETURN_NONE;
}

/* Shows no span: the callbacks of this loop are not followed, and so not all turns of the span of this context will be. */
static PyObject *hide(PyObject *module, PyObject *context)
{
	struct turns *turns = turns_of(span_of(context));

	wakepath_show(NULL);
	turn_to(NULL);
	if (turns)
		turns->is_over = 1;
	Py_XDECREF(turns);
	PyErr_Clear();
	Py_RETURN_NONE;
}

/* Notes the turns of a span from here on: it begins, in this thread. */
static PyObject *begin(PyObject *module, PyObject *span)
{
	struct turns *turns = new_turns();
	PyObject *ids = turns ? PyObject_CallMethodObjArgs(span, get_span_context, NULL) : NULL;

	if (ids && fill(&turns->record, ids) && PyObject_SetAttr(span, turns_name, (PyObject *)turns) == 0) {
		Py_INCREF(Py_TYPE(span));
		Py_XSETREF(span_type, Py_TYPE(span));
	}
	Py_XDECREF(ids);
	Py_XDECREF(turns);
	PyErr_Clear();
	Py_RETURN_NONE;
}

/* The text with the turns of a span that began then and ends now, or None. */
static PyObject *end(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
	struct turns *turns = count == 2 ? turns_of(arguments[0]) : NULL;
	char text[WAKEPATH_TURNS_BYTES];
	int is_whole = turns && end_turns(turns, PyLong_AsUnsignedLongLong(arguments[1]), text);

	Py_XDECREF(turns);
	PyErr_Clear();
	if (is_whole)
		return PyUnicode_FromString(text);
	Py_RETURN_NONE;
}

static PyObject *use_key(PyObject *module, PyObject *key)
{
	Py_INCREF(key);
	Py_XSETREF(span_key, key);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{"attach", attach, METH_O, "The thread has attached this context. Returns whether it follows contexts."},
	{"detach", detach, METH_O, "The thread has detached one, and this is current again. Returns the same."},
	{"enter", enter, METH_O, "The thread turns to this context. Returns what `leave` takes."},
	{"leave", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, "The thread turns back to this context."},
	{"hide", hide, METH_O, "The thread shows no span. The current one of this context is not followed."},
	{"begin", begin, METH_O, "This span begins: its turns in this thread are noted."},
	{"end", (PyCFunction)(void (*)(void))end, METH_FASTCALL,
	 "This span, which began then (ns since 1970), ends. Returns its turns as a text, or None where they are not known."},
	{"use_key", use_key, METH_O, "The key of the current span in a context."},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "_record",
	.m_doc = "The thread-context record of the calling thread.",
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__record(void)
{
	span_key = Py_None;
	Py_INCREF(span_key);
	get_span_context = PyUnicode_InternFromString("get_span_context");
	turns_name = PyUnicode_InternFromString("_wakepath_turns");
	if (!get_span_context || !turns_name || PyType_Ready(&turns_type) < 0 || pthread_atfork(NULL, NULL, forked))
		return NULL;
	return PyModule_Create(&definition);
}

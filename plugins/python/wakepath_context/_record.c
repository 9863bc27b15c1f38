/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The record for a Python thread's current span. `current_span.py` decides when it changes.
 *
 * Each thread has two records, and the shown record is never written. Nothing here raises: if a context cannot be read, the
 * thread shows no span.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "turns.h"
#include "wakepath_context.h"

/* A thread's depth within a callback or function with a followed context. */
#define FOLLOWS (1L << 30)

static __thread struct wakepath_record records[2];
/* The number of contexts attached and not detached by the thread, or FOLLOWS. */
static __thread long depth;

/* OpenTelemetry's key for the current span, the name of the method for its ids, and of the Python attribute for its turns. */
static PyObject *span_key, *get_span_context, *turns_name;
/* A span's attribute names. */
static PyObject *tid_key, *turns_key;
/* The names for a span's attributes, and in these for their dictionary, its maximum size, and the maximum text length. */
static PyObject *attributes_name, *dictionary_name, *most_name, *longest_name;
static PyTypeObject *attributes_type;
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

/* Shows the current span in a context, a dictionary, or none. */
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

/* Shows no span: this loop's callbacks are not followed, so not all turns of the context's span will be. */
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

/* Notes a span's turns from here on: it begins, in this thread. Returns whether they and the thread are known. */
static PyObject *begin(PyObject *module, PyObject *span)
{
	struct turns *turns = new_turns();
	PyObject *ids = turns ? PyObject_CallMethodObjArgs(span, get_span_context, NULL) : NULL;
	int begins = ids && fill(&turns->record, ids) && PyObject_SetAttr(span, turns_name, (PyObject *)turns) == 0;

	if (begins) {
		Py_INCREF(Py_TYPE(span));
		Py_XSETREF(span_type, Py_TYPE(span));
	}
	Py_XDECREF(ids);
	Py_XDECREF(turns);
	PyErr_Clear();
	return PyBool_FromLong(begins);
}

/*
 * The dictionary of a span's attributes, a new reference; NULL unless it has the known class, with room for two more attributes
 * with this text length. The span's own method checks and copies all values, which costs more than all else done here for a span.
 */
static PyObject *dictionary_of(PyObject *span, Py_ssize_t length)
{
	PyObject *attributes = PyObject_GetAttr(span, attributes_name), *dictionary = NULL, *most = NULL, *longest = NULL;
	int has_room = 0;

	if (attributes && Py_TYPE(attributes) == attributes_type && (dictionary = PyObject_GetAttr(attributes, dictionary_name)) &&
	    PyDict_CheckExact(dictionary) && (most = PyObject_GetAttr(attributes, most_name)) &&
	    (longest = PyObject_GetAttr(attributes, longest_name)))
		has_room = (most == Py_None || PyLong_AsSsize_t(most) >= PyDict_GET_SIZE(dictionary) + 2) &&
			   (longest == Py_None || PyLong_AsSsize_t(longest) >= length) && !PyErr_Occurred();
	Py_XDECREF(attributes);
	Py_XDECREF(most);
	Py_XDECREF(longest);
	if (has_room)
		return dictionary;
	Py_XDECREF(dictionary);
	PyErr_Clear();
	return NULL;
}

/*
 * Sets the attributes of a span that began then and ends now: its thread, and its turns if they are known and wanted. Returns the
 * attributes it could not set itself, or None.
 */
static PyObject *end(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
	struct turns *turns = count == 3 ? turns_of(arguments[0]) : NULL;
	char text[WAKEPATH_TURNS_BYTES] = "";
	PyObject *attributes = NULL, *tid = NULL, *words = NULL;
	int is_own = 0, is_set = 0;

	if (turns) {
		if (!end_turns(turns, PyLong_AsUnsignedLongLong(arguments[1]), text) || arguments[2] != Py_True)
			text[0] = 0;
		attributes = dictionary_of(arguments[0], (Py_ssize_t)strlen(text));
		is_own = !attributes;
		if (is_own)
			attributes = PyDict_New();
		tid = PyLong_FromLong(turns->tid);
		is_set = attributes && tid && PyDict_SetItem(attributes, tid_key, tid) == 0;
		if (is_set && text[0]) {
			words = PyUnicode_FromString(text);
			is_set = words && PyDict_SetItem(attributes, turns_key, words) == 0;
		}
	}
	Py_XDECREF(tid);
	Py_XDECREF(words);
	Py_XDECREF(turns);
	PyErr_Clear();
	if (is_set && is_own)
		return attributes;
	Py_XDECREF(attributes);
	Py_RETURN_NONE;
}

/* The class of a span's attributes. */
static PyObject *use_attributes(PyObject *module, PyObject *type)
{
	if (PyType_Check(type)) {
		Py_INCREF(type);
		Py_XSETREF(attributes_type, (PyTypeObject *)type);
	}
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
	{"begin", begin, METH_O, "This span begins: its turns in this thread are noted. Returns whether `end` knows its thread."},
	{"end", (PyCFunction)(void (*)(void))end, METH_FASTCALL,
	 "This span, which began then (ns since 1970), ends: sets its thread, and its turns if the last argument is True. Returns attributes that "
	 "are yet to be set, or None."},
	{"use_attributes", use_attributes, METH_O, "The class of the attributes of a span."},
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
	tid_key = PyUnicode_InternFromString("wakepath.tid");
	turns_key = PyUnicode_InternFromString("wakepath.turns");
	attributes_name = PyUnicode_InternFromString("_attributes");
	dictionary_name = PyUnicode_InternFromString("_dict");
	most_name = PyUnicode_InternFromString("maxlen");
	longest_name = PyUnicode_InternFromString("max_value_len");
	if (!get_span_context || !turns_name || !tid_key || !turns_key || !attributes_name || !dictionary_name || !most_name || !longest_name || PyType_Ready(&turns_type) < 0 || pthread_atfork(NULL, NULL, forked))
		return NULL;
	return PyModule_Create(&definition);
}

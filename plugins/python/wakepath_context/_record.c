/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The record for a Python thread's current span, and the turns of spans. `current_span.py` decides when they change.
 *
 * Nothing here raises: if a context cannot be read, the thread shows no span.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "callbacks.h"
#include "ready.h"
#include "shown_span.h"
#include "turns.h"
#include "wakepath_context.h"

/* A span's attribute names. */
static PyObject *tid_key, *turns_key, *ready_key;
/* The names for a span's attributes, and in these for their dictionary, its maximum size, and the maximum text length. */
static PyObject *attributes_name, *dictionary_name, *most_name, *longest_name;
static PyTypeObject *attributes_type;

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
	turn_to(NULL, NULL, 0);
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
 * The dictionary of a span's attributes, a new reference, and in `room` how many more attributes with this text length it takes.
 * NULL, and -1 in `room`, unless it has the known class. The span's own method checks and copies all values, which costs more than
 * all else done here for a span.
 */
static PyObject *dictionary_of(PyObject *span, Py_ssize_t length, Py_ssize_t *room)
{
	PyObject *attributes = PyObject_GetAttr(span, attributes_name), *dictionary = NULL, *most = NULL, *longest = NULL;

	*room = -1;
	if (attributes && Py_TYPE(attributes) == attributes_type && (dictionary = PyObject_GetAttr(attributes, dictionary_name)) &&
	    PyDict_CheckExact(dictionary) && (most = PyObject_GetAttr(attributes, most_name)) &&
	    (longest = PyObject_GetAttr(attributes, longest_name))) {
		*room = most == Py_None ? PY_SSIZE_T_MAX : PyLong_AsSsize_t(most) - PyDict_GET_SIZE(dictionary);
		if (longest != Py_None && PyLong_AsSsize_t(longest) < length)
			*room = 0;
	}
	Py_XDECREF(attributes);
	Py_XDECREF(most);
	Py_XDECREF(longest);
	PyErr_Clear();
	if (*room >= 0)
		return dictionary;
	Py_XDECREF(dictionary);
	return NULL;
}

/* Sets a text in a dictionary, unless it is empty. Returns whether it is set or empty. */
static int set_text(PyObject *dictionary, PyObject *key, const char *text)
{
	PyObject *value = text[0] ? PyUnicode_FromString(text) : NULL;
	int is_set = !text[0] || (value && PyDict_SetItem(dictionary, key, value) == 0);

	Py_XDECREF(value);
	return is_set;
}

/*
 * Sets the attributes of a span that began then and ends now: its thread, its turns if they are known and wanted, and why they
 * became ready if no other attribute has to go for that. Returns the attributes it could not set itself, or None.
 */
static PyObject *end(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
	struct turns *turns = count == 3 ? turns_of(arguments[0]) : NULL;
	char text[WAKEPATH_TURNS_BYTES] = "", words[WAKEPATH_READY_BYTES] = "";
	PyObject *attributes = NULL, *tid = NULL;
	Py_ssize_t length, room;
	int is_own = 0, is_set = 0;

	if (turns) {
		if (!end_turns(turns, PyLong_AsUnsignedLongLong(arguments[1]), text, words) || arguments[2] != Py_True)
			text[0] = words[0] = 0;
		length = (Py_ssize_t)(strlen(text) > strlen(words) ? strlen(text) : strlen(words));
		attributes = dictionary_of(arguments[0], length, &room);
		is_own = room < 2;
		if (is_own)
			Py_XSETREF(attributes, PyDict_New());
		tid = PyLong_FromLong(turns->tid);
		is_set = attributes && tid && PyDict_SetItem(attributes, tid_key, tid) == 0 && set_text(attributes, turns_key, text) &&
			 ((room >= 0 && room < 3) || set_text(attributes, ready_key, words));
	}
	Py_XDECREF(tid);
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
	{"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL | METH_KEYWORDS,
	 "Calls a function, behind its note or None, in a followed context: the current one."},
	{"call_for", (PyCFunction)(void (*)(void))call_for, METH_FASTCALL | METH_KEYWORDS,
	 "Calls a function, behind the context of the thread that handed it over."},
	{"note_scheduled", note_for_callback, METH_NOARGS, "The note for a callback scheduled now."},
	{"note_timer", note_for_timer, METH_O, "The note for a callback due in these seconds."},
	{"note_descriptor", note_for_descriptor, METH_NOARGS, "The note for a descriptor's callback."},
	{"follow_variable", follow_variable, METH_O, "The context variable with the current span."},
	{"follow_handles", (PyCFunction)(void (*)(void))follow_handles, METH_FASTCALL,
	 "The classes Handle, TimerHandle and BaseSelectorEventLoop."},
	{"enter_callback", enter_callback, METH_O, "The thread turns to this handle's callback. Returns the argument for `leave_callback`."},
	{"leave_callback", leave_callback, METH_O, "The thread turns back."},
	{"follow_loops", follow_loops, METH_O, "The class BaseEventLoop. Returns its new _call_soon."},
	{"follow_safe_handle", follow_safe_handle, METH_O, "The class _ThreadSafeHandle. Returns the class in its place."},
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

/* Names, each kept for ever. */
static const struct {
	PyObject **name;
	const char *text;
} names[] = {
	{&get_span_context, "get_span_context"},
	{&turns_name, "_wakepath_turns"},
	{&tid_key, "wakepath.tid"},
	{&turns_key, "wakepath.turns"},
	{&ready_key, "wakepath.ready"},
	{&attributes_name, "_attributes"},
	{&dictionary_name, "_dict"},
	{&most_name, "maxlen"},
	{&longest_name, "max_value_len"},
	{&context_name, "_context"},
	{&get_name, "get"},
	{&loop_name, "_loop"},
	{&time_name, "time"},
	{&when_name, "_when"},
	{&call_soon_name, "_call_soon"},
	{&ready_name, "_ready"},
	{&append_name, "append"},
};

PyMODINIT_FUNC PyInit__record(void)
{
	span_key = Py_None;
	Py_INCREF(span_key);
	for (size_t at = 0; at < sizeof names / sizeof *names; at++)
		if (!(*names[at].name = PyUnicode_InternFromString(names[at].text)))
			return NULL;
	if (PyType_Ready(&turns_type) < 0 || PyType_Ready(&note_type) < 0 || PyType_Ready(&outer_type) < 0 ||
	    pthread_atfork(NULL, NULL, forked))
		return NULL;
	return PyModule_Create(&definition);
}

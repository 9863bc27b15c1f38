/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Callbacks of event loops: the thread turns to each callback's context and back, and knows why the callback became ready.
 *
 * asyncio's loops keep handles, by which a callback's kind is known:
 *
 * - a class of our own, with a note, made by `BaseEventLoop._call_soon`;
 * - TimerHandle, with its due time by the loop's clock;
 * - Handle itself: in a loop with our `_call_soon`, for a descriptor's reader or writer, and for a signal's handler, which
 *   comes through a descriptor.
 */
#ifndef CALLBACKS_H
#define CALLBACKS_H

#include <stddef.h>

#include "ready.h"
#include "shown_span.h"

/* OpenTelemetry's context variable. */
static PyObject *variable;
/* asyncio's classes, and the replaced methods. */
static PyTypeObject *handle_type, *timer_type, *selector_loop_type;
static PyObject *loop_call_soon, *loop_time;
/* The handles with a note, and our method for `_call_soon`. */
static PyTypeObject *noted_type, *noted_safe_type;
static PyObject *noted_call_soon;
/* Names of attributes. */
static PyObject *context_name, *get_name, *loop_name, *time_name, *when_name, *call_soon_name, *ready_name, *append_name;

/* A note for another loop than asyncio's. */
struct note_object {
	PyObject_HEAD
	struct note note;
};

static PyTypeObject note_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name = "wakepath_context._record.Note",
	.tp_basicsize = sizeof(struct note_object),
	.tp_flags = Py_TPFLAGS_DEFAULT,
};

/* The note lies behind the members of the base class. */
static size_t note_offset(PyTypeObject *base)
{
	return ((size_t)base->tp_basicsize + _Alignof(struct note) - 1) / _Alignof(struct note) * _Alignof(struct note);
}

/* The thread's state outside a callback. */
struct outer {
	long depth;
	struct wakepath_ready reason;
};

struct outer_object {
	PyObject_HEAD
	struct outer outer;
};

static PyTypeObject outer_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name = "wakepath_context._record.Outer",
	.tp_basicsize = sizeof(struct outer_object),
	.tp_flags = Py_TPFLAGS_DEFAULT,
};

static PyObject *new_outer(const struct outer *outer)
{
	struct outer_object *object = PyObject_New(struct outer_object, &outer_type);

	if (object)
		object->outer = *outer;
	return (PyObject *)object;
}

/* The thread turns to a callback, in this context. */
static struct outer turn_to_callback(PyObject *context, const struct note *note)
{
	struct outer outer = {depth, reason};
	uint64_t now;
	struct wakepath_ready ready = reason_by(note, &now);

	depth = FOLLOWS;
	reason = ready;
	show_ready(context, &ready, now);
	return outer;
}

/* The current context, a new reference: None if there is none. */
static PyObject *current_context(void)
{
	PyObject *context = NULL;

	if (PyContextVar_Get(variable, NULL, &context) < 0)
		PyErr_Clear();
	if (context)
		return context;
	Py_INCREF(Py_None);
	return Py_None;
}

/* The thread turns back: to the current context if it follows contexts, else to none. An exception stays. */
static void turn_back(const struct outer *outer, int follows)
{
	PyObject *type, *value, *traceback, *context = NULL;

	PyErr_Fetch(&type, &value, &traceback);
	if (follows)
		context = current_context();
	depth = outer->depth;
	show(context ? context : Py_None);
	Py_XDECREF(context);
	reason = outer->reason;
	PyErr_Restore(type, value, traceback);
}

/* Whether an object's attribute is this function or descriptor, bound or not. */
static int is_own(PyObject *object, PyObject *name, PyObject *own)
{
	PyObject *found = PyObject_GetAttr(object, name);
	int is = found && (found == own || (PyMethod_Check(found) && PyMethod_GET_FUNCTION(found) == own));

	Py_XDECREF(found);
	return is;
}

/* Notes a handle's kind by its class. */
static void note_by_class(PyObject *handle, struct note *note)
{
	PyObject *loop = PyObject_GetAttr(handle, loop_name), *when = NULL;

	if (loop && Py_TYPE(handle) == timer_type && is_own(loop, time_name, loop_time) &&
	    (when = PyObject_GetAttr(handle, when_name))) {
		note->kind = TIMER;
		note->due = PyFloat_AsDouble(when);
		if (PyErr_Occurred())
			note->kind = UNKNOWN;
	} else if (loop && Py_TYPE(handle) == handle_type && PyObject_TypeCheck(loop, selector_loop_type) &&
		   is_own((PyObject *)Py_TYPE(loop), call_soon_name, noted_call_soon)) {
		note->kind = DESCRIPTOR;
	}
	Py_XDECREF(when);
	Py_XDECREF(loop);
	PyErr_Clear();
}

/* The thread turns to a handle's callback. Returns the argument for `leave_callback`. */
static PyObject *enter_callback(PyObject *module, PyObject *handle)
{
	struct note by_class = {0};
	const struct note *note = &by_class;
	PyObject *context, *span_context, *saved;

	if (Py_TYPE(handle) == noted_type)
		note = (const struct note *)((char *)handle + note_offset(handle_type));
	else if (Py_TYPE(handle) == noted_safe_type)
		note = (const struct note *)((char *)handle + note_offset(noted_safe_type->tp_base));
	else
		note_by_class(handle, &by_class);
	context = PyObject_GetAttr(handle, context_name);
	span_context = context ? PyObject_CallMethodObjArgs(context, get_name, variable, NULL) : NULL;
	Py_XDECREF(context);
	PyErr_Clear();

	struct outer outer = turn_to_callback(span_context ? span_context : Py_None, note);

	Py_XDECREF(span_context);
	/* Callbacks hardly ever nest. */
	if (outer.depth && (saved = new_outer(&outer)))
		return saved;
	PyErr_Clear();
	Py_RETURN_NONE;
}

static PyObject *leave_callback(PyObject *module, PyObject *outer)
{
	struct outer none = {0};

	if (Py_TYPE(outer) == &outer_type)
		none = ((struct outer_object *)outer)->outer;
	turn_back(&none, none.depth != 0);
	Py_RETURN_NONE;
}

static PyObject *call_with(PyObject *function, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
#if PY_VERSION_HEX < 0x03090000
	return _PyObject_Vectorcall(function, arguments, (size_t)count, names);
#else
	return PyObject_Vectorcall(function, arguments, (size_t)count, names);
#endif
}

/* Takes the place of `BaseEventLoop._call_soon`. A handle's traceback has Python's functions alone, so it takes nothing off it. */
static PyObject *call_soon(PyObject *loop, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
	PyObject *handle, *ready, *appended;

	if (count != 3 || names) {
		PyObject *method = PyMethod_New(loop_call_soon, loop);

		handle = method ? call_with(method, arguments, count, names) : NULL;
		Py_XDECREF(method);
		return handle;
	}
	handle = PyObject_CallFunctionObjArgs((PyObject *)noted_type, arguments[0], arguments[1], loop, arguments[2], NULL);
	if (!handle)
		return NULL;
	note_scheduled((struct note *)((char *)handle + note_offset(handle_type)));
	ready = PyObject_GetAttr(loop, ready_name);
	appended = ready ? PyObject_CallMethodObjArgs(ready, append_name, handle, NULL) : NULL;
	Py_XDECREF(ready);
	if (!appended)
		Py_CLEAR(handle);
	Py_XDECREF(appended);
	return handle;
}

/* Creates a handle for `call_soon_threadsafe`, with its note (Python 3.14). */
static PyObject *new_noted(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
	PyObject *handle = type->tp_alloc(type, 0);

	if (handle)
		note_scheduled((struct note *)((char *)handle + note_offset(type->tp_base)));
	return handle;
}

/* A class of handles with a note, by the base's own name. NULL, without an exception, if there is none. */
static PyTypeObject *noted(PyObject *base, const char *name, newfunc make)
{
	PyType_Slot slots[] = {{make ? Py_tp_new : 0, (void *)make}, {0, NULL}};
	PyType_Spec spec = {
		.name = name,
		.basicsize = (int)(note_offset((PyTypeObject *)base) + sizeof(struct note)),
		.flags = Py_TPFLAGS_DEFAULT,
		.slots = slots,
	};
	PyObject *bases = PyTuple_Pack(1, base), *type = bases ? PyType_FromSpecWithBases(&spec, bases) : NULL;
	PyObject *own_name = type ? PyObject_GetAttrString(type, "__name__") : NULL;

	/* Its errors have the name without the module's, like those of a class in Python. */
	if (own_name)
		PyObject_SetAttrString(type, "__name__", own_name);
	Py_XDECREF(own_name);
	Py_XDECREF(bases);
	PyErr_Clear();
	return (PyTypeObject *)type;
}

static PyMethodDef call_soon_method = {"_call_soon", (PyCFunction)(void (*)(void))call_soon, METH_FASTCALL | METH_KEYWORDS, NULL};

/* A new reference, kept for ever. */
static PyObject *kept(PyObject *object)
{
	Py_INCREF(object);
	return object;
}

static PyObject *follow_variable(PyObject *module, PyObject *followed)
{
	variable = kept(followed);
	Py_RETURN_NONE;
}

static PyObject *follow_handles(PyObject *module, PyObject *const *classes, Py_ssize_t count)
{
	if (count != 3 || !PyType_Check(classes[0]) || !PyType_Check(classes[1]) || !PyType_Check(classes[2]))
		return PyErr_Format(PyExc_TypeError, "no handles");
	handle_type = (PyTypeObject *)kept(classes[0]);
	timer_type = (PyTypeObject *)kept(classes[1]);
	selector_loop_type = (PyTypeObject *)kept(classes[2]);
	Py_RETURN_NONE;
}

static PyObject *follow_loops(PyObject *module, PyObject *base)
{
	if (!PyType_Check(base) || !(loop_call_soon = PyObject_GetAttr(base, call_soon_name)) ||
	    !(loop_time = PyObject_GetAttr(base, time_name)) ||
	    !(noted_type = noted((PyObject *)handle_type, "asyncio.events.Handle", NULL)))
		return PyErr_Format(PyExc_TypeError, "no loops");
	noted_call_soon = PyDescr_NewMethod((PyTypeObject *)base, &call_soon_method);
	Py_XINCREF(noted_call_soon);
	return noted_call_soon;
}

static PyObject *follow_safe_handle(PyObject *module, PyObject *class)
{
	noted_safe_type = noted(class, "asyncio.events._ThreadSafeHandle", new_noted);
	return kept(noted_safe_type ? (PyObject *)noted_safe_type : class);
}

/* Calls a function, behind its note or None, in the current context. */
static PyObject *call(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
	struct note unknown = {0};
	const struct note *note = &unknown;
	PyObject *context, *result;

	if (count < 2)
		return PyErr_Format(PyExc_TypeError, "no function");
	if (Py_TYPE(arguments[0]) == &note_type)
		note = &((struct note_object *)arguments[0])->note;
	context = current_context();

	struct outer outer = turn_to_callback(context, note);

	Py_DECREF(context);
	result = call_with(arguments[1], arguments + 2, count - 2, names);
	turn_back(&outer, 0);
	return result;
}

/* Calls a function as part of the work in another thread's context, which this thread shows in place of no span. */
static PyObject *call_for(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
	struct note unknown = {0};
	PyObject *before = handed_over, *result;

	if (count < 2)
		return PyErr_Format(PyExc_TypeError, "no function");
	handed_over = arguments[0];

	struct outer outer = turn_to_callback(arguments[0], &unknown);

	result = call_with(arguments[1], arguments + 2, count - 2, names);
	handed_over = before;
	turn_back(&outer, 0);
	return result;
}

/* A note, of which nothing is known yet. */
static struct note_object *new_note(void)
{
	struct note_object *object = PyObject_New(struct note_object, &note_type);

	if (object)
		memset(&object->note, 0, sizeof object->note);
	return object;
}

static PyObject *note_for_callback(PyObject *module, PyObject *unused)
{
	struct note_object *object = new_note();

	if (object)
		note_scheduled(&object->note);
	return (PyObject *)object;
}

static PyObject *note_for_timer(PyObject *module, PyObject *seconds)
{
	double delay = PyFloat_AsDouble(seconds);
	struct note_object *object = PyErr_Occurred() ? NULL : new_note();

	if (object) {
		object->note.kind = TIMER;
		object->note.due = monotonic_seconds() + delay;
	}
	return (PyObject *)object;
}

static PyObject *note_for_descriptor(PyObject *module, PyObject *unused)
{
	struct note_object *object = new_note();

	if (object)
		object->note.kind = DESCRIPTOR;
	return (PyObject *)object;
}
#endif

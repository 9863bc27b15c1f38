# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each thread's current span, in its record in `_record.c`.

OpenTelemetry's current span is a context variable. It changes in two ways: it is set (`attach`, `detach`), or the thread turns to
another context, as an event loop does at each callback. Both are followed:

- within an event loop's callback, and a function of anyio in its own thread, the record shows the variable at each change, and
  behind it the thread's earlier span;
- within a job in a pool of threads it shows the span of who handed the job over, unless the job has a span itself;
- elsewhere a thread shows the variable as long as it has attached more than it has detached: a function run by another library in a
  copied context leaves nothing behind when it ends.

A loop whose callbacks cannot be followed shows no span at all, rather than another request's span.
"""

import asyncio
import contextvars
import functools
import sys
from concurrent.futures import ThreadPoolExecutor

import opentelemetry.context as otel
from opentelemetry.context.context import _RuntimeContext
from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext
from opentelemetry.trace.propagation import _SPAN_KEY

from . import turns_of_span

try:
    from . import _record
except ImportError:  # Nothing compiled it here.
    _record = None


class FollowedContext(_RuntimeContext):
    """OpenTelemetry's context, in the same variable as before."""

    def __init__(self, variable):
        self._current_context = variable
        # They are looked up for each span.
        self._set, self.get_current, self._reset = variable.set, variable.get, variable.reset

    def attach(self, context):
        token = self._set(context)
        if not _record.attach(context) and _loop() is not None:
            _record.hide(context)
        return token

    def detach(self, token):
        self._reset(token)
        context = self.get_current()
        if not _record.detach(context) and _loop() is not None:
            _record.hide(context)

    def get_current(self):  # The variable's own method takes its place.
        return self._current_context.get()


_loop = asyncio._get_running_loop


def install():
    """Follows the current span from here on, where the record is compiled and the context is OpenTelemetry's own."""
    runtime = otel._RUNTIME_CONTEXT
    if _record is None or type(runtime) is not ContextVarsRuntimeContext:
        return
    variable = runtime._current_context
    _record.use_key(_SPAN_KEY)
    _record.follow_variable(variable)
    otel._RUNTIME_CONTEXT = FollowedContext(variable)
    _follow_callbacks()
    _follow_scheduling()
    _follow_pools(variable)
    _follow_anyio()
    _follow_eager_tasks(variable)
    _follow_uvloop()
    turns_of_span.install(_record)


def _follow_callbacks():
    """Callbacks of asyncio's own loops: each runs in the context of its handle."""
    handle = asyncio.events.Handle
    _record.follow_handles(handle, asyncio.events.TimerHandle, asyncio.selector_events.BaseSelectorEventLoop)
    run, enter, leave = handle._run, _record.enter_callback, _record.leave_callback

    @functools.wraps(run)
    def run_followed(self):
        outer = enter(self)
        try:
            return run(self)
        finally:
            leave(outer)

    handle._run = run_followed


def _follow_scheduling():
    """Why callbacks became ready: what asyncio's own loops schedule, where they do it as all known versions."""
    events, base = asyncio.events, asyncio.base_events.BaseEventLoop
    safe = getattr(events, "_ThreadSafeHandle", None)
    names = ("events", "Handle", "_source_traceback", "_ready", "append")
    if not (
        _names(base._call_soon) == names
        and "_call_soon" in _names(base.call_soon)
        and ("_call_soon" if safe is None else "_ThreadSafeHandle") in _names(base.call_soon_threadsafe)
    ):
        return
    base._call_soon = _record.follow_loops(base)
    if safe is not None:
        events._ThreadSafeHandle = _record.follow_safe_handle(safe)


def _names(function):
    """The names in a function's code, apart from its own variables."""
    return getattr(getattr(function, "__code__", None), "co_names", ())


def _follow_pools(variable):
    """Jobs in pools of threads: work for the span of who handed them over."""
    submit, call_for, current, modules = ThreadPoolExecutor.submit, _record.call_for, variable.get, sys.modules

    @functools.wraps(submit)
    def submit_followed(self, *arguments, **options):
        context = current(None)
        # Greenlets share a thread: the others would show this span too.
        if context and arguments and "gevent" not in modules:
            return submit(self, call_for, context, *arguments, **options)
        return submit(self, *arguments, **options)

    ThreadPoolExecutor.submit = submit_followed


def _follow_anyio():
    """Functions that anyio runs in its threads, each in a copy of the caller's context, if the program ever loads anyio."""
    try:
        import wrapt
    except ImportError:
        return
    call = _record.call

    @functools.partial(wrapt.register_post_import_hook, name="anyio._backends._asyncio")
    def follow(asyncio_backend):
        backend = getattr(asyncio_backend, "AsyncIOBackend", None)
        if backend is None:  # Version 3.
            run = asyncio_backend.run_sync_in_worker_thread

            @functools.wraps(run)
            async def run_followed(function, *arguments, **options):
                return await run(call, None, function, *arguments, **options)

            asyncio_backend.run_sync_in_worker_thread = run_followed
            return
        run = backend.__dict__["run_sync_in_worker_thread"].__func__

        @functools.wraps(run)
        async def run_followed(own_class, function, arguments, *rest, **options):
            return await run(own_class, call, (None, function, *arguments), *rest, **options)

        backend.run_sync_in_worker_thread = classmethod(run_followed)


def _follow_eager_tasks(variable):
    """Tasks that begin within their creating call, in a context of their own (Python 3.12)."""
    if not hasattr(asyncio, "eager_task_factory"):
        return

    def followed(factory):
        @functools.wraps(factory)
        def make(*arguments, **options):
            depth = _record.enter(variable.get(None))
            try:
                return factory(*arguments, **options)
            finally:
                _record.leave(depth, variable.get(None))

        return make

    make_factory = asyncio.create_eager_task_factory
    asyncio.create_eager_task_factory = asyncio.tasks.create_eager_task_factory = functools.wraps(make_factory)(
        lambda constructor: followed(make_factory(constructor))
    )
    asyncio.eager_task_factory = asyncio.tasks.eager_task_factory = followed(asyncio.eager_task_factory)


def _follow_uvloop():
    """Callbacks that tasks and programs give to uvloop's loops, if the program ever loads uvloop."""
    try:
        import wrapt
    except ImportError:
        return

    def soon(loop):
        return _record.note_scheduled()

    def later(loop, delay):
        return _record.note_timer(delay)

    def at(loop, when):
        return _record.note_timer(when - loop.time())

    def ready(loop, descriptor):
        return _record.note_descriptor()

    @functools.partial(wrapt.register_post_import_hook, name="uvloop")
    def follow(uvloop):
        for name, before, note in (
            ("call_soon", 0, soon),
            ("call_soon_threadsafe", 0, soon),
            ("call_later", 1, later),
            ("call_at", 1, at),
            ("add_reader", 1, ready),
            ("add_writer", 1, ready),
        ):
            setattr(uvloop.Loop, name, _following(getattr(uvloop.Loop, name), before, note))


def _following(method, before, note):
    """A loop's method with a callback behind `before` other arguments, of which `note` makes a note."""

    @functools.wraps(method)
    def schedule(self, *arguments, **options):
        if len(arguments) > before:
            try:
                noted = note(self, *arguments[:before])
            except Exception:  # The method says what is wrong with its arguments.
                noted = None
            arguments = (*arguments[:before], _record.call, noted, *arguments[before:])
        return method(self, *arguments, **options)

    return schedule

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Spans in threads, pools, nested functions and tasks, each with the attribute `truth.tid`: the thread by /proc.

At many points the thread's record is compared with the current span. Prints how often they were equal, how often not, and the
number of spans. With `uvloop` as an argument the tasks run in a uvloop loop.
"""

import asyncio
import concurrent.futures
import contextvars
import ctypes
import logging
import os
import selectors
import sys
import threading

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider

tracer = trace.get_tracer("truth")
lock = threading.Lock()
counts = {"spans": 0, "right": 0, "wrong": 0}
inner_pool = concurrent.futures.ThreadPoolExecutor(4)

try:
    import anyio.to_thread
except ImportError:
    anyio = None
try:
    from wakepath_context import _record

    library = ctypes.CDLL(_record.__file__)
except ImportError:
    library = None


class Complaints(logging.Handler):
    """Whatever OpenTelemetry complains about is wrong."""

    def emit(self, entry):
        counts["wrong"] += 1
        print(entry.getMessage())


logging.getLogger("opentelemetry").addHandler(Complaints(logging.ERROR))


def record():
    """The ids in this thread's record: None without one."""
    pointer = ctypes.c_void_p.in_dll(library, "otel_thread_ctx_v1").value
    if pointer is None:
        return None
    shown = ctypes.string_at(pointer, 28)
    assert shown[24] == 1 and shown[26:] == b"\0\0", shown
    return shown[:16].hex(), shown[16:24].hex(), shown[25]


def check(where, expected="the current span"):
    """Compares the record with the current span, or with the given span."""
    if library is None:
        return
    if expected == "the current span":
        expected = trace.get_current_span()
    ids = expected and expected.get_span_context()
    expected = ids and (f"{ids.trace_id:032x}", f"{ids.span_id:016x}", int(ids.trace_flags)) if ids and ids.is_valid else None
    is_right = record() == expected
    with lock:
        counts["right" if is_right else "wrong"] += 1
        if not is_right:
            print(f"{where}: {record()}, not {expected}")


def begin(name):
    """A span that becomes current, with the thread by /proc."""
    with lock:
        counts["spans"] += 1
    tid = int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])
    return tracer.start_as_current_span(name, attributes={"truth.tid": tid})


def nested(depth):
    with begin(f"nested {depth}"):
        check("begun")
        if depth:
            nested(depth - 1)
            check("the inner one has ended")
        try:
            with begin("fails"):
                check("fails")
                raise ValueError
        except ValueError:
            check("failed")


def alternates():
    """A shown record is never written: an outer span stays whole while the inner one is written and shown."""
    if library is None:
        return
    pointer = lambda: ctypes.c_void_p.in_dll(library, "otel_thread_ctx_v1").value
    with begin("outer"):
        at = pointer()
        before = ctypes.string_at(at, 28)
        with begin("inner"):
            counts["right" if pointer() != at and ctypes.string_at(at, 28) == before else "wrong"] += 1


def thread(parent=None):
    """In a thread of its own, or as a job that a span handed over: there the record goes back to this span."""
    check("begun in a thread", parent)
    nested(3)
    check("a thread's end", parent)


def job(parent):
    """A job that hands over another one, in a span of its own, and has an event loop."""
    thread(parent)
    with begin("hands over"):
        inner_pool.submit(thread, trace.get_current_span()).result()
    check("behind a job handed over", parent)
    asyncio.run(asyncio.sleep(0.001))
    check("behind an event loop", parent)


def function(parent):
    check("of to_thread", parent)
    nested(1)
    check("of to_thread, behind", parent)


async def task(number):
    check("a task begins", trace.get_current_span())
    with begin(f"task {number}"):
        check("task")
        for turn in range(4):
            await asyncio.sleep(0.001 * ((number + turn) % 3))
            check("another turn")
            with begin("within"):
                check("within")
                await asyncio.sleep(0)
                check("within, another turn")
            check("without")
        if hasattr(asyncio, "to_thread"):
            await asyncio.to_thread(function, trace.get_current_span())
        await asyncio.get_running_loop().run_in_executor(None, job, trace.get_current_span())
        check("behind the executor")
        await asyncio.gather(*(child() for _ in range(3)))
        check("behind children")
        callback = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.001, lambda: (check("a callback"), callback.set_result(None)))
        await callback
        check("behind a callback")
    check("behind a task's span")


async def child():
    with begin("child"):
        await asyncio.sleep(0.002)
        check("child")


class Protocol(asyncio.Protocol):
    """The loop itself calls its callbacks, which cannot be followed under uvloop."""

    def __init__(self, done=None):
        self.done = done

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        with begin("received"):
            check("in a protocol", None if IS_UVLOOP else "the current span")
            with begin("in it"):
                pass
            check("in a protocol, behind", None if IS_UVLOOP else "the current span")
        check("behind a protocol", None if IS_UVLOOP else "the current span")
        if self.done:
            self.done.set_result(None)
        else:
            self.transport.write(data)


async def in_anyio():
    """Functions in anyio's threads, which run in a copy of the caller's context, and leave nothing behind."""
    with begin("anyio"):
        for _ in range(5):
            await asyncio.gather(*(anyio.to_thread.run_sync(function, trace.get_current_span()) for _ in range(3)))
            check("behind functions in anyio's threads")
    await anyio.to_thread.run_sync(thread, outer)


async def protocols():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Protocol, "127.0.0.1", 0)
    done = loop.create_future()
    with begin("connects"):
        transport, _ = await loop.create_connection(lambda: Protocol(done), *server.sockets[0].getsockname())
    transport.write(b"x")
    await done
    transport.close()
    server.close()


async def eager():
    """Tasks that begin within another task's turn."""

    async def begins():
        with begin("eager"):
            check("an eager task")
            await asyncio.sleep(0.001)
            check("an eager task, another turn")

    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    with begin("makes eager tasks"):
        tasks = [asyncio.create_task(begins()) for _ in range(3)]
        check("behind the beginning of eager tasks")
        await asyncio.gather(*tasks)
        check("behind eager tasks")


class Idle(selectors.DefaultSelector):
    """A waiting loop works for no request but the request around it."""

    def select(self, timeout=None):
        check("idle", outer)
        return super().select(timeout)


async def tasks():
    await asyncio.gather(*(task(number) for number in range(20)))


def run(loop):
    asyncio.set_event_loop(loop)
    loop.run_until_complete(tasks())
    if outer is None:
        loop.run_until_complete(protocols())
    if anyio:
        loop.run_until_complete(in_anyio())
    if hasattr(asyncio, "eager_task_factory") and not IS_UVLOOP:
        loop.run_until_complete(eager())
    if hasattr(loop, "shutdown_default_executor"):
        loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def remote():
    """A current span of another process, and an unsampled span."""
    ids = trace.SpanContext(1 << 77, 99, True, trace.TraceFlags(1))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(ids)))
    check("remote", None)
    context.detach(token)
    ids = trace.SpanContext((1 << 127) + 5, (1 << 63) + 7, False, trace.TraceFlags(0))
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(ids)))
    check("not sampled")
    context.detach(token)


def copied():
    """A function in a copied context leaves nothing behind."""
    with begin("outside"):
        copy = contextvars.copy_context()
    other = threading.Thread(target=lambda: (copy.run(lambda: nested(0)), check("behind a copied context", None)))
    other.start()
    other.join()


def later():
    """A provider made by the program itself, after the installation."""
    span = TracerProvider().get_tracer("later").start_span("later")
    span.end()
    if span.attributes.get("wakepath.tid") != threading.get_native_id():
        counts["wrong"] += 1
        print("a later provider has no thread")


IS_UVLOOP = sys.argv[1:] == ["uvloop"]
outer = None
check("the beginning", None)
later()
if IS_UVLOOP:
    import uvloop

    run(uvloop.new_event_loop())
else:
    nested(3)
    alternates()
    remote()
    copied()
    threads = [threading.Thread(target=thread) for _ in range(8)]
    [one.start() for one in threads]
    [one.join() for one in threads]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: thread(), range(20)))
    run(asyncio.SelectorEventLoop(Idle()))
    with begin("around a loop") as outer:
        run(asyncio.SelectorEventLoop(Idle()))
        check("behind a loop")
    # The child has the exporter's connection, too: both at once would mix their answers.
    trace.get_tracer_provider().force_flush()
    if os.fork() == 0:
        nested(1)
        check("a fork", None)
        trace.get_tracer_provider().shutdown()
        print("child", *(f"{name} {count}" for name, count in counts.items()), flush=True)
        os._exit(0)
    os.wait()
check("the end", None)
print(*(f"{name} {count}" for name, count in counts.items()), flush=True)

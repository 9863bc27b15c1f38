# SPDX-License-Identifier: MIT OR Apache-2.0
"""Spans in a loop, whose turns become ready for planted reasons, and the word for each in `wakepath.ready`.

    ready.py [plain | debug | uvloop | safe]

`debug`: in the loop's debug mode. `safe`: with a class of handles for `call_soon_threadsafe`, as in Python 3.14. Prints a line
for each scenario, and fails at the first wrong word.

What makes a span ready is scheduled outside the span: two turns of a span within 10 µs are joined, with the first one's reason, and a
fast loop goes round in less.
"""

import asyncio
import contextvars
import os
import signal
import socket
import sys
import threading
import time

from opentelemetry.trace import use_span

import wakepath_context
from words import MS, all_scenarios, begin, busy, check, now, scenario, tracer, turn_at, turns_of

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"


def like_python_3_14():
    """Handles for `call_soon_threadsafe` with a lock."""

    class _ThreadSafeHandle(asyncio.Handle):
        __slots__ = ("_lock",)

        def __init__(self, callback, args, loop, context=None):
            super().__init__(callback, args, loop, context)
            self._lock = threading.RLock()

        def _run(self):
            with self._lock:
                return super()._run()

    def call_soon_threadsafe(self, callback, *args, context=None):
        handle = asyncio.events._ThreadSafeHandle(callback, args, self, context)
        self._ready.append(handle)
        self._write_to_self()
        return handle

    asyncio.events._ThreadSafeHandle = _ThreadSafeHandle
    asyncio.BaseEventLoop.call_soon_threadsafe = call_soon_threadsafe


if MODE == "safe" and not hasattr(asyncio.events, "_ThreadSafeHandle"):
    like_python_3_14()
wakepath_context.install()
if MODE == "uvloop":
    import uvloop


def without_uvloop(function):
    return function if MODE == "uvloop" else scenario(function)


def next_times():
    """The list gets the time at which the loop has gone on."""
    times = []
    asyncio.get_running_loop().call_soon(lambda: times.append(now()))
    return times


class Peer:
    """A thread answers each line of a connection after 20 ms, and notes the time."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sent = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            threading.Thread(target=self.answer, args=(self.listener.accept()[0],), daemon=True).start()

    def answer(self, connection):
        with connection:
            while connection.recv(100):
                time.sleep(0.02)
                self.sent.append(now())
                connection.sendall(b"answer\n")


peer = Peer()


@scenario
async def a_sleep_is_a_timer():
    with begin("sleep"):
        before, after = now(), next_times()
        await asyncio.sleep(0.05)
        ran = now()
    check(turn_at("sleep", ran), "t", before + 50 * MS - MS, after[0] + 50 * MS + MS)


@scenario
async def a_timer_behind_a_busy_loop_was_due_before_it():
    loop = asyncio.get_running_loop()
    loop.call_later(0.005, busy, 60 * MS)
    with begin("late"):
        before, after = now(), next_times()
        await asyncio.sleep(0.02)
        ran = now()
    turn = turn_at("late", ran)
    check(turn, "t", before + 20 * MS - MS, after[0] + 20 * MS + MS)
    assert turn.ns >= 30 * MS, turn


@scenario
async def a_timer_at_a_time_of_the_loop():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    before = now()
    loop.call_at(loop.time() + 0.03, event.set)
    after = now()
    loop.call_later(0.02, busy, 30 * MS)
    with begin("at"):
        await event.wait()
        ran = now()
    check(turn_at("at", ran), "t", before + 30 * MS - MS, after + 30 * MS + MS)


@scenario
async def a_callback_of_a_timer_without_a_span_hands_its_due_time_on():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()

    def hop(left):
        loop.call_soon(hop, left - 1) if left else event.set()

    before = now()
    loop.call_later(0.02, hop, 5)
    after = now()
    with begin("hops"):
        await event.wait()
        ran = now()
    check(turn_at("hops", ran), "t", before + 20 * MS - MS, after + 20 * MS + MS)


@scenario
async def a_loops_delay_hides_nothing_between_scheduling_and_turn():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.call_later(0.01, lambda: (event.set(), busy(40 * MS)))
    with begin("delayed"):
        await event.wait()
        ran = now()
    assert turn_at("delayed", ran).ns >= 40 * MS


def error_of(function, *arguments):
    try:
        function(*arguments)
    except TypeError as error:
        return str(error)
    raise AssertionError("no error")


async def ask(reader, writer):
    writer.write(b"question\n")
    await reader.readline()
    return now()


@without_uvloop
async def a_read_from_a_new_connection():
    with begin("new"):
        reader, writer = await asyncio.open_connection("127.0.0.1", peer.port)
        ran = await ask(reader, writer)
        writer.close()
    check(turn_at("new", ran), "d", peer.sent[-1], ran)
    assert "d0" in [turn.word for turn in turns_of("new")], "the reader has the span's context"


@without_uvloop
async def a_read_from_a_pooled_connection():
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.port)
    await ask(reader, writer)
    with begin("pooled"):
        ran = await ask(reader, writer)
    check(turn_at("pooled", ran), "d", peer.sent[-1], ran)
    writer.close()


@without_uvloop
async def a_read_behind_a_busy_loop_counts_from_the_reader():
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=one)
    loop.call_later(0.01, lambda: (other.send(b"answer\n"), busy(40 * MS)))
    with begin("read late"):
        began = now() + 10 * MS
        await reader.readline()
        ran = now()
    check(turn_at("read late", ran), "d", began + 40 * MS - MS, ran)
    writer.close()
    other.close()


@scenario
async def a_stream_under_uvloop_is_not_known():
    if MODE != "uvloop":
        return
    reader, writer = await asyncio.open_connection("127.0.0.1", peer.port)
    with begin("stream"):
        ran = await ask(reader, writer)
    assert turn_at("stream", ran).word == "-"
    writer.close()


@scenario
async def a_reader_and_a_writer_are_descriptors():
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    one.setblocking(False)
    event = asyncio.Event()
    loop.add_reader(one, lambda: (one.recv(10), event.set()))
    for name in ("reader", "reader again"):
        event.clear()
        sent = now() + 10 * MS
        loop.call_later(0.01, other.send, b"x")
        with begin(name):
            await event.wait()
            ran = now()
        check(turn_at(name, ran), "d", sent - MS, ran)
    loop.remove_reader(one)
    loop.add_reader(one, lambda: (one.recv(10), event.set(), busy(20 * MS)))
    event.clear()
    loop.call_later(0.01, other.send, b"x")
    with begin("reader, busy"):
        await event.wait()
        ran = now()
    loop.remove_reader(one)
    assert turn_at("reader, busy", ran).ns >= 20 * MS
    event.clear()
    before = now()
    loop.add_writer(one, lambda: (loop.remove_writer(one), event.set(), busy(30_000)))
    with begin("writer"):
        await event.wait()
        ran = now()
    check(turn_at("writer", ran), "d", before, ran)
    one.close()
    other.close()


@without_uvloop
async def a_signal_comes_through_a_descriptor():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, event.set)
    before = now()
    loop.call_later(0.01, os.kill, os.getpid(), signal.SIGUSR1)
    with begin("signal"):
        await event.wait()
        ran = now()
    loop.remove_signal_handler(signal.SIGUSR1)
    check(turn_at("signal", ran), "d", before + 9 * MS, ran)


async def waiting(name, wait):
    with begin(name):
        try:
            await wait()
        except asyncio.CancelledError:
            pass
        return now()


async def scheduled_by_another_request(name, wait, act):
    """A span waits, and another span acts and then computes for 20 ms."""
    task = asyncio.ensure_future(waiting(name, wait))
    await asyncio.sleep(0.01)
    with begin(f"{name}, other"):
        before = now()
        act(task)
        after = now()
        busy(20 * MS)
    turn = turn_at(name, await task)
    check(turn, "s", before, after)
    assert turn.ns >= 20 * MS, turn


@scenario
async def a_lock_is_released_by_another_request():
    lock = asyncio.Lock()
    await lock.acquire()
    await scheduled_by_another_request("lock", lock.acquire, lambda task: lock.release())


@scenario
async def a_queue_is_filled_by_another_request():
    queue = asyncio.Queue()
    await scheduled_by_another_request("queue", queue.get, lambda task: queue.put_nowait(1))


@scenario
async def a_request_is_cancelled_by_another_request():
    await scheduled_by_another_request("cancelled", lambda: asyncio.sleep(10), lambda task: task.cancel())


@scenario
async def a_request_that_ended_within_its_callback_is_no_reason():
    event = asyncio.Event()
    task = asyncio.ensure_future(waiting("behind an end", event.wait))
    await asyncio.sleep(0.01)
    with begin("ended"):
        pass
    event.set()
    assert turn_at("behind an end", await task).word == "-"


@scenario
async def a_span_that_ends_while_it_is_current():
    event = asyncio.Event()
    task = asyncio.ensure_future(waiting("behind an ended span", event.wait))
    await asyncio.sleep(0.01)
    span = tracer().start_span("ends within")
    with use_span(span):
        await asyncio.sleep(0.01)
        busy(MS)
        span.end()
        event.set()
        ran = await task
    assert turns_of("ends within")[-1].kind in "ts"
    assert turn_at("behind an ended span", ran).word == "-"


@scenario
async def an_exception_comes_out_of_a_callback():
    loop = asyncio.get_running_loop()
    errors = []
    loop.set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    for schedule in (loop.call_soon, loop.call_soon_threadsafe):
        schedule(lambda: 1 / 0)
    loop.call_later(0.001, lambda: 1 / 0)
    await asyncio.sleep(0.02)
    loop.set_exception_handler(None)
    assert [type(error) for error in errors] == [ZeroDivisionError] * 3, errors
    if hasattr(asyncio, "to_thread"):
        try:
            await asyncio.to_thread(lambda: 1 / 0)
        except ZeroDivisionError:
            return
        raise AssertionError("no exception came out of a thread")


@scenario
async def timers_at_no_time_of_the_clock_are_not_known():
    loop = asyncio.get_running_loop()
    for when, kind in ((loop.time() - 1, "t"), (-1e12, "-")):
        event = asyncio.Event()
        loop.call_at(when, event.set)
        with begin("no time"):
            # A callback without a span keeps the turns apart.
            contextvars.Context().run(loop.call_soon, busy, 30_000)
            await event.wait()
            ran = now()
        assert turn_at("no time", ran).kind == kind, (when, turns_of("no time"))
    if MODE == "uvloop":
        # Its own errors, for a missing number or callback.
        for name, arguments in (("call_later", ("soon", event.set)), ("call_at", ("soon", event.set)), ("call_soon", ())):
            method = getattr(uvloop.Loop, name)
            assert error_of(method, loop, *arguments) == error_of(method.__wrapped__, loop, *arguments)


@scenario
async def gathered_sleeps_end_with_the_longest():
    with begin("gather"):
        before, after = now(), next_times()
        await asyncio.gather(*(asyncio.sleep(ms / 1000) for ms in (10, 40, 20)))
        ran = now()
    turn = turn_at("gather", ran)
    # A late loop joins the turns, with the first one's word.
    dues = [ms for ms in (10, 20, 40) if before + ms * MS - MS <= turn.at <= after[0] + (ms + 2) * MS]
    assert turn.kind == "t" and dues and (dues == [40] or turn.begun > before + 40 * MS), turn


@scenario
async def a_wait_that_times_out_is_a_timer():
    with begin("time-out"):
        before, after = now(), next_times()
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.03)
        except asyncio.TimeoutError:
            ran = now()
    check(turn_at("time-out", ran), "t", before + 30 * MS - MS, after[0] + 32 * MS)


@scenario
async def a_wait_that_comes_in_time_has_its_own_reason():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    before = now()
    loop.call_later(0.02, event.set)
    after = now()
    with begin("in time"):
        await asyncio.wait_for(event.wait(), 10)
        ran = now()
    check(turn_at("in time", ran), "t", before + 20 * MS - MS, after + 20 * MS + MS)


def worked(times):
    time.sleep(0.02)
    times.append((threading.get_native_id(), now()))


async def a_thread_ends(name, work):
    times = []
    with begin(name):
        await work(times)
        ran = now()
    tid, ended = times[0]
    check(turn_at(name, ran), "w", ended, ran, tid)
    assert tid != threading.get_native_id()


@scenario
async def a_job_of_an_executor_is_another_threads():
    loop = asyncio.get_running_loop()
    await a_thread_ends("executor", lambda times: loop.run_in_executor(None, worked, times))


@scenario
async def a_function_in_a_thread_is_another_threads():
    if hasattr(asyncio, "to_thread"):
        await a_thread_ends("to_thread", lambda times: asyncio.to_thread(worked, times))


@scenario
async def a_callback_from_a_thread_is_that_threads():
    loop = asyncio.get_running_loop()

    async def work(times):
        event = asyncio.Event()

        def run():
            worked(times)
            loop.call_soon_threadsafe(event.set)

        threading.Thread(target=run).start()
        await event.wait()

    await a_thread_ends("thread", work)


@scenario
async def a_callback_from_another_loop_is_that_threads():
    loop = asyncio.get_running_loop()

    async def work(times):
        event = asyncio.Event()

        async def elsewhere():
            await asyncio.sleep(0.01)
            worked(times)
            loop.call_soon_threadsafe(event.set)

        threading.Thread(target=asyncio.run, args=(elsewhere(),)).start()
        await event.wait()

    await a_thread_ends("loop", work)


@scenario
async def a_callback_by_the_own_thread_is_no_other_threads():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    with begin("own thread"):
        before = now()
        # The callback has no span.
        contextvars.Context().run(loop.call_soon_threadsafe, lambda: (event.set(), busy(MS)))
        after = now()
        await event.wait()
        ran = now()
    check(turn_at("own thread", ran, own=False), "s", before, after)


@scenario
async def an_eager_task_has_its_own_turns():
    # uvloop's loops and Python 3.13's eager tasks do not fit together.
    if not hasattr(asyncio, "eager_task_factory") or MODE == "uvloop":
        return
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    times = []

    async def child():
        with begin("eager"):
            before = now()
            await asyncio.sleep(0.02)
            times.extend((before, now()))

    with begin("eager, parent"):
        task = loop.create_task(child())
        after = now()
        await task
        ran = now()
    loop.set_task_factory(None)
    check(turn_at("eager", times[1]), "t", times[0] + 20 * MS - MS, after + 20 * MS + MS)
    assert turns_of("eager")[0].word == "-"
    # The child's end: its context still has the child's span, and then the parent's.
    assert turn_at("eager, parent", ran).kind in "s-", turns_of("eager, parent")


if __name__ == "__main__":
    if MODE == "uvloop":
        loop = uvloop.new_event_loop()
        loop.run_until_complete(all_scenarios())
        loop.close()
    else:
        asyncio.run(all_scenarios(), debug=MODE == "debug")

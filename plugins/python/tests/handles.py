# SPDX-License-Identifier: MIT OR Apache-2.0
"""asyncio's handles and loops behave with the plug-in as without it, and an unknown reason is `-`.

    handles.py [_call_soon | call_soon | call_soon_threadsafe]

With a method's name: this method schedules in another way than the known ones. Fails at the first difference.
"""

import asyncio
import contextvars
import gc
import os
import re
import socket
import sys
import traceback
import weakref

from opentelemetry.trace import use_span

import wakepath_context
from words import MS, begin, busy, check, now, tracer, turn_at, turns_of


def facts():
    """How handles of a new loop look and behave, as text."""
    loop = asyncio.new_event_loop()
    told = []

    def note(*arguments):
        told.append(arguments)

    def report(loop, context):
        told.append((sorted(context), str(context["exception"]), repr(context["handle"])))

    for debug in (False, True):
        loop.set_debug(debug)
        for handle in (
            loop.call_soon(note, 1),
            loop.call_soon_threadsafe(note, 2),
            loop.call_soon(note, 3, context=None),
            loop.call_later(0, note, 4),
        ):
            told.append((repr(handle), isinstance(handle, asyncio.Handle), handle.cancelled()))
            told.append([frame.name for frame in handle._source_traceback or ()])
            told.append(type(handle).__name__ + " " + type(handle).__module__ + " " + str(hasattr(handle, "__dict__")))
            assert weakref.ref(handle)() is handle
        cancelled = loop.call_soon(note, "never")
        cancelled.cancel()
        told.append((repr(cancelled), cancelled.cancelled()))
        try:
            cancelled.other = 1
        except AttributeError as error:
            told.append(str(error))
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.set_exception_handler(report)
        loop.call_soon(lambda: 1 / 0)
        loop._call_soon(note, args=("by names",), context=None)
        loop.call_soon(loop.stop)
        loop.run_forever()
        for arguments, names in (((), {}), ((1, 2, 3, 4), {}), ((note, (), None), {"other": 1})):
            try:
                loop._call_soon(*arguments, **names)
            except TypeError as error:
                told.append(str(error))

        def exits():
            raise SystemExit(3)

        loop.call_soon(exits)
        try:
            loop.run_forever()
        except SystemExit as error:
            told.append((error.code, traceback.extract_tb(error.__traceback__)[-1].name))
    loop.close()
    # Addresses and times differ.
    return [re.sub(r"0x[0-9a-f]+|when=[0-9.]+", "", str(one)) for one in told]


def _call_soon(self, callback, args, context):
    handle = asyncio.Handle(callback, args, self, context)
    self._ready.append(handle)
    return handle


def call_soon(self, callback, *args, context=None):
    handle = asyncio.Handle(callback, args, self, context)
    self._ready.append(handle)
    return handle


OTHER = {"_call_soon": _call_soon, "call_soon": call_soon, "call_soon_threadsafe": call_soon}
other = sys.argv[1] if len(sys.argv) > 1 else None


before = facts()
if other:
    setattr(asyncio.BaseEventLoop, other, OTHER[other])
wakepath_context.install()
after = facts()
if not other:
    assert before == after, "\n".join(f"{one}\n{two}" for one, two in zip(before, after) if one != two)


class OwnTime(asyncio.SelectorEventLoop):
    """Its clock is no clock of the system."""

    def time(self):
        return super().time() + 1000


class OwnScheduling(asyncio.SelectorEventLoop):
    """Its handles are asyncio's, but not scheduled by asyncio."""

    _call_soon = _call_soon


class OwnDescriptors(asyncio.BaseEventLoop):
    """Its plain handles are no descriptors'."""

    def __init__(self):
        super().__init__()
        self._selector = self

    def select(self, timeout):
        return []

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


async def resolved():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop._ready.append(asyncio.Handle(event.set, (), loop, contextvars.Context()))
    with begin("resolved"):
        await event.wait()


def run(main, loop=None):
    loop = loop or asyncio.SelectorEventLoop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


async def sleeps():
    with begin("sleeps"):
        await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)


async def reads():
    one, other = socket.socketpair()
    event = asyncio.Event()
    asyncio.get_running_loop().add_reader(one, lambda: (one.recv(10), event.set(), busy(MS)))
    other.send(b"x")
    with begin("reads"):
        await event.wait()
    asyncio.get_running_loop().remove_reader(one)
    one.close()
    other.close()


async def hops():
    """A timer schedules the callback."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.call_later(0.01, loop.call_soon, event.set)
    with begin("hops"):
        await event.wait()


def kinds(name):
    return {turn.kind for turn in turns_of(name)}


run(sleeps, OwnTime())
assert kinds("sleeps") <= {"-", "s"}, turns_of("sleeps")
run(reads, OwnScheduling())
assert kinds("reads") == {"-"}, turns_of("reads")
run(sleeps, OwnScheduling())
assert "s" not in kinds("sleeps"), turns_of("sleeps")
run(resolved, OwnDescriptors())
assert kinds("resolved") == {"-"}, turns_of("resolved")
run(sleeps)
run(reads)
if other:
    assert kinds("sleeps") == kinds("reads") == {"-"}, (turns_of("sleeps"), turns_of("reads"))
    sys.exit()
assert "t" in kinds("sleeps") and "d" in kinds("reads"), (turns_of("sleeps"), turns_of("reads"))


async def nested():
    """A loop within a callback: the callback's own reason holds behind it."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()

    def inner():
        asyncio._set_running_loop(None)
        within = asyncio.new_event_loop()
        within.run_until_complete(asyncio.sleep(0.01))
        within.close()
        asyncio._set_running_loop(loop)
        event.set()

    due = now() + 20 * MS
    loop.call_later(0.02, inner)
    with begin("nested"):
        await event.wait()
        ran = now()
    check(turn_at("nested", ran), "t", due - MS, due + 5 * MS)


run(nested)


class When:
    """A time, but no number."""

    def __init__(self, when):
        self.when = when

    def __sub__(self, other):
        return self.when - other

    def __ge__(self, other):
        return self.when >= other


async def odd():
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.call_at(When(loop.time() + 0.01), event.set)
    with begin("odd"):
        await event.wait()


run(odd)
assert kinds("odd") == {"-"}, turns_of("odd")


def copied():
    """A loop in a copied context: outside callbacks its thread works for no span."""
    span = tracer().start_span("copied")
    with use_span(span):
        context = contextvars.copy_context()
    context.run(run, lambda: asyncio.sleep(0.05))
    span.end()
    turns = turns_of("copied")
    assert len(turns) > 1 and all(turn.ended - turn.begun < 40 * MS for turn in turns), turns


copied()


def forked(by_parent):
    """The parent's callbacks are no other thread's in the child, and its span has no turn there."""
    loop = asyncio.SelectorEventLoop()
    asyncio.set_event_loop(loop)
    events = []

    def hop(left):
        loop.call_soon(hop, left - 1) if left else events[0].set()

    async def waits():
        events.append(asyncio.Event())
        with begin("forked"):
            await events[0].wait()

    if by_parent:
        loop.call_soon(hop, 5)
    with begin("parent's"):
        child = os.fork()
        if child == 0 and not by_parent:
            loop.call_soon(hop, 5)
    if child == 0:
        try:
            loop.run_until_complete(waits())
            assert kinds("forked") == {"-"}, turns_of("forked")
            run(hops)
            assert "t" in kinds("hops"), turns_of("hops")
            os._exit(0)
        finally:
            os._exit(1)
    loop.close()
    assert os.waitpid(child, 0)[1] == 0


forked(by_parent=True)
forked(by_parent=False)


def references():
    """Handles leave nothing behind."""
    loop = asyncio.new_event_loop()
    loop.call_soon(lambda: None)
    kind = type(loop.call_soon(lambda: None))
    counts = []
    for _ in range(3):
        for _ in range(1000):
            loop.call_soon(lambda: None).cancel()
            loop.call_soon(lambda: None)
        loop.call_soon(loop.stop)
        loop.run_forever()
        gc.collect()
        counts.append((sys.getrefcount(kind), len(gc.get_objects())))
    loop.close()
    assert counts[1][0] == counts[2][0] and counts[1][1] == counts[2][1], counts


references()
print("the same")

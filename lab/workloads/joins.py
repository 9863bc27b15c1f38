# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests in threads, in a pool and in tasks of asyncio, with a log of the request that each thread worked for.

    joins.py FOLDER

    thread    two threads serve requests, each with a part that is a span of its own
    pool      one thread begins requests and hands each to a pool of two, with the time at which it was queued (`wakepath.queued_ns`)
    task      four requests at once are tasks of one event loop, each in turns between sleeps
    turn      the same, with a span for each turn

FOLDER/log has a line `TID FROM SHOWN LEAVES LEFT TRACE` for each stretch of work, by the monotonic clock, ns: the thread takes the
request up between FROM and SHOWN, and leaves it between LEAVES and LEFT. FOLDER/spans.json has the spans in OTLP. The turn of a task begins at its
first statement behind an `await`, or somewhere between that and the last thing that is known of the thread.
"""

import asyncio
import concurrent.futures
import json
import os
import selectors
import sys
import threading
import time

import wakepath_context
from opentelemetry import context, trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

MS = 1_000_000
now = time.monotonic_ns
lines, spans = [], []


class Kept(SpanProcessor):
    """Keeps the spans that have ended."""

    def on_end(self, span):
        spans.append(span)


wakepath_context.install()
provider = TracerProvider()
provider.add_span_processor(Kept())
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("joins")


def busy(ns):
    end = now() + ns
    while now() < end:
        pass


def trace_of(span):
    return f"{span.get_span_context().trace_id:032x}"


def note(span, begun, shown, leaves, left):
    lines.append(f"{threading.get_native_id()} {begun} {shown} {leaves} {left} {trace_of(span)}")


def serve():
    for _ in range(20):
        begun = now()
        with tracer.start_as_current_span("thread", kind=trace.SpanKind.SERVER) as span:
            shown = now()
            busy(2 * MS)
            time.sleep(0.002)
            with tracer.start_as_current_span("part"):
                busy(2 * MS)
                time.sleep(0.001)
            busy(2 * MS)
            leaves = now()
        note(span, begun, shown, leaves, now())
        time.sleep(0.001)


def work(span):
    begun = now()
    token = context.attach(trace.set_span_in_context(span))
    shown = now()
    busy(2 * MS)
    time.sleep(0.003)
    with tracer.start_as_current_span("part"):
        busy(1 * MS)
    busy(1 * MS)
    leaves = now()
    context.detach(token)
    span.end()
    note(span, begun, shown, leaves, now())


def pool():
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        for _ in range(40):
            begun = now()
            span = tracer.start_span("pool", kind=trace.SpanKind.SERVER)
            token = context.attach(trace.set_span_in_context(span))
            shown = now()
            busy(2 * MS)
            leaves = now()
            span.set_attribute("wakepath.queued_ns", time.time_ns())
            context.detach(token)
            note(span, begun, shown, leaves, now())
            workers.submit(work, span)
            time.sleep(0.005)


class Marks:
    """The last thing that is known of the thread of the loop, and the turn whose end is not."""

    last = 0
    open = None

    @classmethod
    def at(cls, moment):
        if cls.open:
            note(*cls.open, moment)
            cls.open = None
        cls.last = moment


class Selector(selectors.DefaultSelector):
    """The loop works for nothing while it waits."""

    def select(self, timeout=None):
        Marks.at(now())
        ready = super().select(timeout)
        Marks.at(now())
        return ready


async def task(name):
    begun = Marks.last
    span = tracer.start_span(name, kind=trace.SpanKind.SERVER)
    token = context.attach(trace.set_span_in_context(span))
    for number in range(3):
        shown = now()
        Marks.at(shown)
        if name == "turn":
            with tracer.start_as_current_span("one turn"):
                busy(5 * MS)
        else:
            busy(5 * MS)
        leaves = now()
        Marks.open = (span, begun, shown, leaves)
        Marks.last = leaves
        if number < 2:
            await asyncio.sleep(0.01)
            begun = Marks.last
    context.detach(token)
    span.end()


async def tasks(name):
    for _ in range(10):
        await asyncio.gather(*(task(name) for _ in range(4)))


def attribute(name, value):
    return {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}}


def document():
    made = []
    for span in spans:
        ids = span.get_span_context()
        made.append(
            {
                "traceId": f"{ids.trace_id:032x}",
                "spanId": f"{ids.span_id:016x}",
                "name": span.name,
                "kind": span.kind.value + 1,
                "startTimeUnixNano": str(span.start_time),
                "endTimeUnixNano": str(span.end_time),
                "attributes": [attribute(name, value) for name, value in span.attributes.items()],
            }
        )
        if span.parent:
            made[-1]["parentSpanId"] = f"{span.parent.span_id:016x}"
    resource = {"attributes": [attribute("service.name", "joins"), attribute("process.pid", os.getpid())]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": made}]}]}


# The recorder finds the word of a library within 20 ms.
time.sleep(0.2)
servers = [threading.Thread(target=serve) for _ in range(2)]
[server.start() for server in servers]
[server.join() for server in servers]
pool()
loop = asyncio.SelectorEventLoop(Selector())
for name in ("task", "turn"):
    loop.run_until_complete(tasks(name))
loop.close()
time.sleep(0.05)
with open(f"{sys.argv[1]}/log", "w") as log:
    log.write("".join(line + "\n" for line in lines))
with open(f"{sys.argv[1]}/spans.json", "w") as file:
    json.dump(document(), file)

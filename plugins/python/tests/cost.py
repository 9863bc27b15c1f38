# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints the package's cost in CPU time, ns: per span, per attach and detach, and per callback of an event loop.

Each figure is the median of 15 pairs of runs, without and with the package, in turn.
"""

import asyncio
import statistics
import time

import opentelemetry.context as otel
from opentelemetry import trace
from opentelemetry.sdk.trace import Span, TracerProvider

COUNT = 20_000
handle, loop = asyncio.events.Handle, asyncio.base_events.BaseEventLoop
plain = handle._run, loop._call_soon, otel._RUNTIME_CONTEXT, TracerProvider().get_tracer("plain"), Span.end

import wakepath_context.current_span as current_span  # noqa: E402
import wakepath_context.thread_of_span as thread_of_span  # noqa: E402

current_span.install()
thread_of_span.install()
with_package = handle._run, loop._call_soon, otel._RUNTIME_CONTEXT, TracerProvider().get_tracer("with"), Span.end


def use(parts):
    handle._run, loop._call_soon, otel._RUNTIME_CONTEXT, tracer, Span.end = parts
    return tracer


def spans(tracer):
    for _ in range(COUNT):
        tracer.start_span("x").end()


def attaches(tracer):
    context = trace.set_span_in_context(tracer.start_span("x"))
    for _ in range(COUNT):
        otel.detach(otel.attach(context))


def callbacks(tracer):
    loop = asyncio.new_event_loop()

    def again(left):
        if left:
            loop.call_soon(again, left - 1)
        else:
            loop.stop()

    with trace.use_span(tracer.start_span("x")):
        loop.call_soon(again, COUNT)
    loop.run_forever()
    loop.close()


def callbacks_without_span(tracer):
    otel.detach(otel.attach(otel.Context()))
    loop = asyncio.new_event_loop()

    def again(left):
        if left:
            loop.call_soon(again, left - 1)
        else:
            loop.stop()

    loop.call_soon(again, COUNT)
    loop.run_forever()
    loop.close()


for load in (spans, attaches, callbacks, callbacks_without_span):
    times = [[], []]
    for _ in range(15):
        for taken, parts in zip(times, (plain, with_package)):
            tracer = use(parts)
            began = time.process_time_ns()
            load(tracer)
            taken.append((time.process_time_ns() - began) / COUNT)
    without, within = map(statistics.median, times)
    more = statistics.median(b - a for a, b in zip(*times))
    print(f"{load.__name__}: {without:.0f} ns without, {within:.0f} with: {more:.0f} more")

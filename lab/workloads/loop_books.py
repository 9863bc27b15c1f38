# SPDX-License-Identifier: MIT OR Apache-2.0
"""A service with one event loop, under OpenTelemetry, and its books: what each request waited for, by the program's own clock.

Four clients ask for requests of these kinds, each with a random size:

timer   its own timer
crunch  computes, and keeps the loop from the others
lock    holds an asyncio.Lock over a timer
job     sleeps in a pool of threads, four at once
queue   the same in a pool with one thread
mutex   a job that holds a threading.Lock as it sleeps
call    calls another service, a process with an event loop of its own, which waits for its own timer
ping    a short timer

Each request is its own twin: where a cause had no part in it, the answer must not name it. The books have a request's own timers, and the
requests that blocked it: by a lock or a thread that another one had, and by its use of the loop from the time on at which the request was
ready. A wait for a request that was itself blocked is a wait for the last one.

Usage: loop_books.py --each REQUESTS --truth FILE
"""

import argparse
import asyncio
import bisect
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import wakepath_context

KINDS = ["timer"] * 4 + ["crunch"] * 2 + ["lock"] * 3 + ["job"] * 2 + ["queue"] * 2 + ["mutex"] * 3 + ["call"] * 3 + ["ping"] * 3
CLIENTS = 4


def now():
    return time.monotonic_ns()


def start(name):
    """OpenTelemetry, and the plug-in."""
    provider = TracerProvider(resource=Resource({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=100000))
    trace.set_tracer_provider(provider)
    wakepath_context.install()
    return provider


class Request:
    """A request's books: intervals (from, to, kind) without overlap."""

    def __init__(self, kind, trace_id):
        self.kind, self.trace_id, self.intervals = kind, trace_id, []
        self.began = self.resumed = now()
        self.ended = None

    def add(self, begin, end, kind):
        if begin < end:
            self.intervals.append((begin, end, kind))


requests = []
# Connections to the other service.
connections = []
# The loop's runs, in order: (from, to, request).
runs = []
# The turns at what one request at a time may have, by name: (from, to, request). A turn begins as the request before leaves it.
turns = {}


def runs_until_here(request):
    """The request leaves the loop."""
    at = now()
    runs.append((request.resumed, at, request))
    return at


def goes_on(request, ready):
    """The request is back in the loop, for which it was ready since then."""
    request.resumed = now()
    request.add(ready, request.resumed, "ready")


async def pause(request, seconds):
    begin = runs_until_here(request)
    due = begin + int(seconds * 1e9)
    await asyncio.sleep(seconds)
    due = min(due, now())
    request.add(begin, due, "timer")
    goes_on(request, due)


def crunch(seconds):
    until = now() + int(seconds * 1e9)
    while now() < until:
        pass


async def with_lock(request, seconds):
    begin = runs_until_here(request)
    await lock.acquire()
    request.resumed = got = now()
    request.add(begin, got, "asyncio.Lock")
    await pause(request, seconds)
    turns.setdefault("asyncio.Lock", []).append((got, now(), request))
    lock.release()


def asleep(seconds):
    """Sleeps in a job. Its thread then needs the interpreter, which the loop's thread may have."""
    begin = now()
    time.sleep(seconds)
    end = now()
    due = min(begin + int(seconds * 1e9), end)
    return [(begin, due, "timer"), (due, end, "ready")], end


def sleeps(request, seconds):
    """A job: sleeps, and returns its books."""
    thread, began = f"thread {threading.get_ident()}", now()
    intervals, ended = asleep(seconds)
    turns.setdefault(thread, []).append((began, ended, request))
    return intervals, thread, began, ended


def with_mutex(request, seconds):
    began = now()
    with mutex:
        got = now()
        intervals, ended = asleep(seconds)
        turns.setdefault("threading.Lock", []).append((got, ended, request))
    return [(began, got, "threading.Lock"), *intervals], None, began, ended


async def as_job(request, pool, job, seconds):
    handed_over = runs_until_here(request)
    intervals, thread, began, ended = await asyncio.get_running_loop().run_in_executor(pool, job, request, seconds)
    if thread:
        request.add(handed_over, began, thread)
    for interval in intervals:
        request.add(*interval)
    goes_on(request, ended)


async def call(request, seconds):
    with tracer.start_as_current_span("call", kind=trace.SpanKind.CLIENT):
        headers = {}
        propagate.inject(headers)
        reader, writer = connections.pop()
        writer.write(f"timer {seconds} {headers['traceparent']}\n".encode())
        runs_until_here(request)
        begin, due, sent = map(int, (await reader.readline()).split())
        request.add(begin, due, "timer")
        goes_on(request, sent)
        connections.append((reader, writer))


async def serve(reader, writer):
    kind, seconds = (await reader.readline()).decode().split()
    seconds = float(seconds)
    with tracer.start_as_current_span(kind, kind=trace.SpanKind.SERVER) as span:
        request = Request(kind, f"{span.get_span_context().trace_id:032x}")
        if kind in ("timer", "ping"):
            await pause(request, seconds)
        elif kind == "crunch":
            crunch(seconds)
        elif kind == "lock":
            await with_lock(request, seconds)
        elif kind == "job":
            await as_job(request, many, sleeps, seconds)
        elif kind == "queue":
            await as_job(request, single, sleeps, seconds)
        elif kind == "mutex":
            await as_job(request, many, with_mutex, seconds)
        elif kind == "call":
            await call(request, seconds)
        request.ended = runs_until_here(request)
        requests.append(request)
    # The loop is the request's until its span has ended.
    runs.append((request.ended, now(), request))
    writer.write(b"done\n")
    writer.close()


async def answer(reader, writer):
    """The other service, on a connection that stays: opening it takes the loop for a request in many turns."""
    while line := await reader.readline():
        _, seconds, parent = line.decode().split()
        context = propagate.extract({"traceparent": parent})
        with tracer.start_as_current_span("timer", context=context, kind=trace.SpanKind.SERVER):
            begin = now()
            await asyncio.sleep(float(seconds))
            due = min(begin + int(float(seconds) * 1e9), now())
            writer.write(f"{begin} {due} {now()}\n".encode())
    writer.close()


def ask(port, seed, each):
    chance = random.Random(seed)
    for _ in range(each):
        kind = chance.choice(KINDS)
        seconds = {"ping": 0.003, "crunch": chance.uniform(0.02, 0.06)}.get(kind, chance.uniform(0.03, 0.12))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(f"{kind} {seconds:.6f}\n".encode())
            connection.recv(10)
        time.sleep(chance.uniform(0.0, 0.05))


async def clients(port, each):
    """Clients in a process of their own, which shares no interpreter with the service."""
    program = [sys.executable, __file__, "--ask", str(port), "--each", str(each)]
    process = await asyncio.create_subprocess_exec(*program)
    await process.wait()


class Explained:
    """The requests' books, for who blocked whom."""

    def __init__(self):
        runs.sort(key=lambda run: run[0])
        self.starts = [run[0] for run in runs]
        for name, all_turns in turns.items():
            all_turns.sort(key=lambda turn: turn[0])
        for request in requests:
            request.intervals.sort()

    def parts(self, request):
        sums = {}
        for begin, end, kind in request.intervals:
            if kind == "timer":
                self.count(sums, ("timer", None), end - begin)
            for blocker, ns in self.blockers(request, begin, end, kind, 0):
                if blocker is not request:
                    self.count(sums, ("blocked", blocker.trace_id), ns)
        return [{"kind": kind, "by": by, "ns": ns} for (kind, by), ns in sums.items()]

    @staticmethod
    def count(sums, key, ns):
        sums[key] = sums.get(key, 0) + ns

    def blockers(self, request, begin, end, kind, depth):
        """Who blocked a request in an interval of its own, each with its time."""
        if kind == "ready":
            return self.in_loop(request, begin, end)
        if kind in turns and depth < 50:
            return self.at_turn(request, begin, end, kind, depth)
        return []

    def in_loop(self, request, begin, end):
        first = max(bisect.bisect_right(self.starts, begin) - 1, 0)
        for run_begin, run_end, other in runs[first:]:
            if run_begin >= end:
                break
            ns = min(end, run_end) - max(begin, run_begin)
            if other is not request and ns > 0:
                yield other, ns

    def at_turn(self, request, begin, end, name, depth):
        """A wait for a turn: each request in turn before it had it from the end of the turn before."""
        since = 0
        for turn_begin, turn_end, holder in turns[name]:
            # A turn that nobody waited for begins as it begins.
            waited = any(kind == name and to == turn_begin for _, to, kind in holder.intervals)
            had = (since if waited else turn_begin, turn_end)
            since = turn_end
            low, high = max(begin, had[0]), min(end, had[1])
            if low >= high:
                continue
            if holder is request:
                # Its turn has come, and it has not taken it yet.
                yield from self.in_loop(request, low, min(high, turn_begin))
            else:
                yield from self.during(holder, low, high, depth)

    def during(self, holder, begin, end, depth):
        """A wait for another request: for itself, but where others blocked it."""
        left = end - begin
        for interval_begin, interval_end, kind in holder.intervals:
            low, high = max(begin, interval_begin), min(end, interval_end)
            if low >= high or kind == "timer":
                continue
            for other, ns in self.blockers(holder, low, high, kind, depth + 1):
                left -= ns
                yield other, ns
        yield holder, max(left, 0)


def write(file, pids):
    explained = Explained()
    documents = [
        {
            "trace_id": request.trace_id,
            "planted": request.kind,
            "window_ns": request.ended - request.began,
            "parts": explained.parts(request),
        }
        for request in requests
    ]
    with open(file, "w") as out:
        # A loop's time-outs are whole milliseconds.
        json.dump({"schema": "wakepath.requests-truth/1", "pids": pids, "slack_ns": 1_000_000, "requests": documents}, out)


async def tick():
    while True:
        await asyncio.sleep(0.01)


async def serves(each, file):
    global lock, other_port
    lock = asyncio.Lock()
    other = await asyncio.create_subprocess_exec(sys.executable, __file__, "--answer", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other_port = int(await other.stdout.readline())
    connections.extend([await asyncio.open_connection("127.0.0.1", other_port) for _ in range(CLIENTS)])
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ticker = asyncio.create_task(tick())
    await clients(server.sockets[0].getsockname()[1], each)
    ticker.cancel()
    server.close()
    [writer.close() for _, writer in connections]
    other.stdin.close()
    await other.wait()
    write(file, [os.getpid(), other.pid])


async def answers():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Until the service closes it.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


options = argparse.ArgumentParser()
options.add_argument("--each", type=int, default=40)
options.add_argument("--truth")
options.add_argument("--ask", type=int)
options.add_argument("--answer", action="store_true")
options = options.parse_args()
mutex = threading.Lock()
many, single = ThreadPoolExecutor(4), ThreadPoolExecutor(1)
if options.ask:
    threads = [threading.Thread(target=ask, args=(options.ask, seed, options.each)) for seed in range(CLIENTS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
else:
    provider = start("answers" if options.answer else "books")
    tracer = trace.get_tracer("books")
    asyncio.run(answers() if options.answer else serves(options.each, options.truth))
    provider.shutdown()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server whose event loop hands its requests' work to threads in pools: jobs which wait for a lock, or for a thread.

`hold` keeps a threading.Lock for 400 ms in a job, and `item` waits for it, 100 ms later, in another job. `batch` sleeps for 400 ms in a pool with
one thread, and `quick`, 100 ms later, waits for this thread. `other` is the twin: it sleeps for 100 ms in a thread that nobody else
needs, beside `hold` and `batch`. With the argument `anyio` the threads are anyio's. Prints the program's own clock: for each request a line
NAME FROM TO STARTED GOT, in ns since 1970: its thread began with the job, and had the lock.
"""

import asyncio
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from opentelemetry import trace

tracer = trace.get_tracer("server")
lock = threading.Lock()
times = []


def job(name):
    started = got = time.time_ns()
    if name in ("hold", "item"):
        with lock:
            got = time.time_ns()
            if name == "hold":
                time.sleep(0.4)
    elif name == "batch":
        time.sleep(0.4)
    elif name == "other":
        time.sleep(0.1)
    return started, got


def in_executor():
    many, single = ThreadPoolExecutor(4), ThreadPoolExecutor(1)

    async def run(name):
        pool = single if name in ("batch", "quick") else many
        return await asyncio.get_running_loop().run_in_executor(pool, job, name)

    return run


def in_anyio():
    import anyio

    many, single = anyio.CapacityLimiter(4), anyio.CapacityLimiter(1)

    async def run(name):
        return await anyio.to_thread.run_sync(job, name, limiter=single if name in ("batch", "quick") else many)

    return run


def ask(port, name, after=0.0):
    time.sleep(after)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(name.encode() + b"\n")
        connection.recv(10)


def clients(port):
    # A recorder finds the threads' records some tenths of a second after the program's start.
    time.sleep(1)
    for first, second in (("hold", "item"), ("hold", "other"), ("batch", "quick"), ("batch", "other")) * 3:
        both = [threading.Thread(target=ask, args=(port, first)), threading.Thread(target=ask, args=(port, second, 0.1))]
        for one in both:
            one.start()
        for one in both:
            one.join()


async def tick():
    while True:
        await asyncio.sleep(0.05)


async def main():
    run = in_anyio() if "anyio" in sys.argv[1:] else in_executor()

    async def serve(reader, writer):
        name = (await reader.readline()).decode().strip()
        with tracer.start_as_current_span(name, kind=trace.SpanKind.SERVER):
            began = time.time_ns()
            started, got = await run(name)
            times.append((name, began, time.time_ns(), started, got))
        writer.write(b"done\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ticker = asyncio.create_task(tick())
    thread = threading.Thread(target=clients, args=(server.sockets[0].getsockname()[1],))
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.01)
    ticker.cancel()
    server.close()


asyncio.run(main())
for line in times:
    print(*line)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server whose event loop serves eight identical requests, one after the other, beside a ticker and other clients.

`wait` waits for its own timer of 200 ms. Meanwhile the loop's ticker runs each 50 ms, other clients get `ping`, and with an argument
`busy` also `crunch`, which computes for 60 ms from 170 ms on: then `wait` is blocked by it for some 30 ms. `locked` waits for an
asyncio.Lock, which `hold` has over its own timer. Prints the program's own clock: for each request a line NAME FROM TO TURNED LEFT,
in ns since 1970: its work, and the loop's use with its span's own time.
"""

import asyncio
import socket
import sys
import threading
import time

from opentelemetry import trace

tracer = trace.get_tracer("server")
lock = asyncio.Lock()
times = []


async def serve(reader, writer):
    name = (await reader.readline()).decode().strip()
    turned = time.time_ns()
    with tracer.start_as_current_span(name, kind=trace.SpanKind.SERVER):
        began = time.time_ns()
        if name == "wait":
            await asyncio.sleep(0.2)
        elif name == "ping":
            await asyncio.sleep(0.003)
        elif name == "hold":
            async with lock:
                await asyncio.sleep(0.2)
        elif name == "locked":
            async with lock:
                pass
        elif name == "crunch":
            until = time.monotonic() + 0.06
            while time.monotonic() < until:
                pass
        ended = time.time_ns()
    times.append((name, began, ended, turned, time.time_ns()))
    writer.write(b"done\n")
    writer.close()


def ask(port, name, after=0.0):
    time.sleep(after)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(name.encode() + b"\n")
        connection.recv(10)


def clients(port, busy, over):
    def ping():
        while not over.is_set():
            ask(port, "ping", 0.023)

    pinging = threading.Thread(target=ping)
    pinging.start()
    for _ in range(8):
        beside = [threading.Thread(target=ask, args=(port, "crunch", 0.17))] if busy else []
        for one in beside:
            one.start()
        ask(port, "wait")
        for one in beside:
            one.join()
    for _ in range(2):
        holder = threading.Thread(target=ask, args=(port, "hold"))
        holder.start()
        ask(port, "locked", 0.05)
        holder.join()
    over.set()
    pinging.join()


async def tick():
    while True:
        await asyncio.sleep(0.05)


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    ticker = asyncio.create_task(tick())
    over = threading.Event()
    port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=clients, args=(port, "busy" in sys.argv[1:], over))
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.01)
    ticker.cancel()
    server.close()


asyncio.run(main())
for line in times:
    print(*line)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server whose event loop serves two requests: the first computes for 200 ms within a callback, and the second waits behind it.

    event_loop.py FIRST SECOND

`report` computes, `page` waits; the first has begun before the second does. Prints for how long the page waited behind it, and how long
it took, ns, by the program's own clock.
"""

import asyncio
import socket
import sys
import threading
import time

from opentelemetry import trace

tracer = trace.get_tracer("server")
begun, computed = {}, {}


def compute(milliseconds):
    began = time.monotonic_ns()
    while time.monotonic_ns() - began < milliseconds * 1_000_000:
        pass
    return began, time.monotonic_ns()


async def serve(reader, writer):
    name = (await reader.readline()).decode().strip()
    with tracer.start_as_current_span(name, kind=trace.SpanKind.SERVER):
        begun[name].set()
        await asyncio.gather(*(one.wait() for one in begun.values()))
        if name == "report":
            await asyncio.sleep(0.005)
            computed[name] = compute(200)
        else:
            at = time.monotonic_ns()
            await asyncio.sleep(0.03)
            await asyncio.sleep(0.06)
            computed[name] = at, time.monotonic_ns()
    writer.write(b"done\n")
    writer.close()


def ask(port, name):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(name.encode() + b"\n")
        connection.recv(10)


async def main():
    begun.update((name, asyncio.Event()) for name in sys.argv[1:])
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients = []
    for name in begun:
        clients.append(threading.Thread(target=ask, args=(port, name)))
        clients[-1].start()
        await begun[name].wait()
    while any(client.is_alive() for client in clients):
        await asyncio.sleep(0.01)
    server.close()


asyncio.run(main())
began, ended = computed["report"]
first, last = computed["page"]
# Its first timer was due 30 ms behind the beginning: before, it did not wait for the loop.
print(f"behind_ns {min(ended, last) - max(began, first + 30_000_000)} page_ns {last - first}")

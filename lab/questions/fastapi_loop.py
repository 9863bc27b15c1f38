# service: python api 8192 uvicorn --port 8192 --log-level warning fastapi_loop:app
# service: python shop 8193 gunicorn -w 1 -k gthread --threads 8 -b 127.0.0.1:8193 flask_other:app
#
# question: thread-lock
# cause: a plain function waits for a threading.Lock, held by another
# send: 0 /thread-hold, 100 /thread-item
# twin: 0 /thread-hold?free=1, 100 /thread-item
# size: body
# who: GET /thread-hold
#
# question: thread-limit
# cause: a plain function waits for a free thread: three others have anyio's
# send: 0 /thread-batch, 0 /thread-batch, 0 /thread-batch, 100 /thread-quick
# twin: 0 /thread-batch, 0 /thread-batch, 100 /thread-quick
# size: 300 ms
# who: GET /thread-batch
# short: which was sleeping
#
# question: async-lock
# cause: a coroutine waits for an asyncio.Lock, held by another request
# send: 0 /async-hold, 100 /async-item
# twin: 0 /async-hold?free=1, 100 /async-item
# size: body
# who: GET /async-hold
# never: time-out
#
# question: async-queue
# cause: a coroutine waits for what another request puts into an asyncio.Queue
# send: 0 /take, 300 /put
# asked: /take
# twin: 0 /put, 300 /take
# size: body
# who: GET /put
# never: time-out
#
# question: call
# cause: a coroutine calls another service, which sleeps for 450 ms, beside other requests' ticker
# send: 0 /call, 50 /ping, 100 /ping, 150 /ping, 200 /ping, 250 /ping, 300 /ping, 350 /ping, 400 /ping
# asked: /call
# twin: 0 /call?ms=1, 100 /ping, 150 /ping
# size: 450 ms
# who: shop GET /sleepy
# twin-never: GET /ping
# never: GET /ping
#
# question: blocking-sleep
# cause: a coroutine sleeps in the loop's thread
# send: 0 /blocking-sleep, 100 /ping
# twin: 0 /blocking-sleep?free=1, 100 /ping
# size: 300 ms
# who: GET /blocking-sleep
#
# question: crunch
# cause: a coroutine computes in the loop's thread
# send: 0 /crunch, 100 /ping
# twin: 0 /crunch?free=1, 100 /ping
# size: 300 ms
# who: GET /crunch
#
# question: own-timer
# cause: a coroutine sleeps until its own timer; others do nothing to it
# send: 0 /await, 100 /ping
# asked: /await
# size: 300 ms
# says: timer
# never: GET /ping
#
# question: timer-then-sleep
# cause: a coroutine's own 300 ms timer, then another request in the loop's thread for 200 ms
# send: 0 /await, 100 /blocking-sleep
# asked: /await
# twin: 0 /await, 100 /blocking-sleep?free=1
# size: 200 ms
# who: GET /blocking-sleep
#
# question: timer-then-crunch
# cause: a coroutine's own 300 ms timer, then another request's computing for 200 ms
# send: 0 /await, 100 /crunch
# asked: /await
# twin: 0 /await, 100 /crunch?free=1
# size: 200 ms
# who: GET /crunch
#
# question: two-steps
# cause: a coroutine is between two short timers when another request takes the loop
# send: 0 /two-steps, 30 /blocking-sleep
# asked: /two-steps
# twin: 0 /two-steps, 30 /blocking-sleep?free=1
# size: 380 ms
# who: GET /blocking-sleep
#
# question: to-thread
# cause: a coroutine waits for its own job in a thread, which sleeps
# send: 0 /to-thread, 50 /ping, 150 /ping
# asked: /to-thread
# twin: 0 /to-thread?ms=5, 50 /ping
# size: 250 ms
# says: sleeping
# never: GET /ping
# twin-never: GET /ping
"""FastAPI under uvicorn: a single event loop, and three threads for plain functions."""

import asyncio
import threading
import time

import anyio.to_thread
from fastapi import FastAPI

HOLD = 0.4
app = FastAPI()
thread_lock = threading.Lock()
async_lock = asyncio.Lock()
orders = asyncio.Queue()


@app.on_event("startup")
async def few_threads():
    anyio.to_thread.current_default_thread_limiter().total_tokens = 3


def since(began):
    return round((time.monotonic() - began) * 1e3, 1)


@app.get("/ping")
async def ping():
    await asyncio.sleep(0.005)
    return 5


@app.get("/await")
async def own_timer():
    await asyncio.sleep(0.3)
    return 300


@app.get("/two-steps")
async def two_steps():
    await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)
    return 100


@app.get("/blocking-sleep")
async def blocking_sleep(free: int = 0):
    if free:
        await asyncio.sleep(HOLD)
    else:
        time.sleep(HOLD)
    return 400


@app.get("/crunch")
async def crunch(free: int = 0):
    if free:
        return await asyncio.sleep(HOLD)
    end = time.thread_time() + HOLD
    while time.thread_time() < end:
        pass
    return 400


@app.get("/thread-hold")
def thread_hold(free: int = 0):
    with threading.Lock() if free else thread_lock:
        time.sleep(HOLD)
    return 400


@app.get("/thread-item")
def thread_item():
    began = time.monotonic()
    with thread_lock:
        return since(began)


@app.get("/thread-batch")
def thread_batch():
    time.sleep(HOLD)
    return 400


@app.get("/thread-quick")
def thread_quick():
    return 0


@app.get("/async-hold")
async def async_hold(free: int = 0):
    async with asyncio.Lock() if free else async_lock:
        await asyncio.sleep(HOLD)
    return 400


@app.get("/async-item")
async def async_item():
    began = time.monotonic()
    async with async_lock:
        return since(began)


@app.get("/take")
async def take():
    began = time.monotonic()
    await orders.get()
    return since(began)


@app.get("/put")
async def put():
    await orders.put(1)
    return 0


@app.get("/to-thread")
async def to_thread(ms: int = 250):
    await asyncio.to_thread(time.sleep, ms / 1e3)
    return ms


async def ask_shop(path):
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", 8193)
    writer.write(f"GET {path} HTTP/1.0\r\nHost: shop\r\n\r\n".encode())
    await reader.read()
    writer.close()
    return since(began)


@app.get("/call")
async def call(ms: int = 450):
    return await ask_shop(f"/sleepy?ms={ms}")

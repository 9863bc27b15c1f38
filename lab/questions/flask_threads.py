# service: python shop 8194 gunicorn -w 1 -k gthread --threads 8 -b 127.0.0.1:8194 flask_threads:app
# service: python api 8192 uvicorn --port 8192 --log-level warning fastapi_loop:app
# service: postgres 5499
#
# question: lock
# cause: a request waits for a threading.Lock, held by another
# send: 0 /hold-lock, 100 /item
# twin: 0 /hold-lock?free=1, 100 /item
# size: body
# who: GET /hold-lock
#
# question: row-lock
# cause: a request waits for a database's row, locked by another one's transaction
# send: 0 /order/paid, 100 /order/quick
# twin: 0 /order/paid?free=1, 100 /order/quick
# size: body
# who: GET /order/paid
#
# question: connection-pool
# cause: a request waits for a pool's only connection, which another request has
# send: 0 /report, 100 /stock
# twin: 0 /report?free=1, 100 /stock
# size: body
# who: GET /report
#
# question: slow-query
# cause: a request's query is slow
# send: 0 /report
# size: 450 ms
# who: postgres
#
# question: sqlite
# cause: a request waits for SQLite's lock by sleeping and trying again
# send: 0 /sqlite-hold, 100 /sqlite-item
# twin: 0 /sqlite-hold?free=1, 100 /sqlite-item
# size: body
# who: GET /sqlite-hold
# short: sleeping until a timer
#
# question: interpreter-lock
# cause: two requests compute in Python: half the time the other has the interpreter's lock
# send: 0 /burn, 100 /calculate
# twin: 0 /burn?free=1, 100 /calculate
# size: body beyond 100 ms
# who: GET /burn
#
# question: call
# cause: a request calls another service, whose coroutine sleeps until a timer
# send: 0 /call
# twin: 0 /call?path=/ping
# size: 300 ms
# who: api GET /await
# twin-never: GET /await
#
# question: silent
# cause: a request calls a silent port twice, with a 200 ms time-out
# send: 0 /retry
# size: body
# says: time-out
#
# question: logging-lock
# cause: a request waits for a logging handler's lock
# send: 0 /log-hold, 100 /log-item
# twin: 0 /log-hold?free=1, 100 /log-item
# size: body
# who: GET /log-hold
#
# question: full-server
# cause: eight requests have the eight threads; another one waits in the server's queue, before its span
# send: 0 /sleepy, 0 /sleepy, 0 /sleepy, 0 /sleepy, 0 /sleepy, 0 /sleepy, 0 /sleepy, 0 /sleepy, 50 /fast
# twin: 0 /sleepy, 0 /sleepy, 0 /sleepy, 0 /sleepy, 0 /sleepy, 50 /fast
# size: 250 ms
# who: GET /sleepy
"""Flask under gunicorn: eight threads, a database, SQLite, and a call to fastapi_loop.py."""

import contextlib
import logging
import os
import socket
import sqlite3
import tempfile
import threading
import time

import psycopg2  # noqa: F401  the driver that SQLAlchemy takes
import requests
from flask import Flask, request
from sqlalchemy import create_engine, text

DATABASE = "postgresql+psycopg2://postgres@127.0.0.1:5499/postgres"
app = Flask(__name__)
lock = threading.Lock()
only_connection = create_engine(DATABASE, pool_size=1, max_overflow=0, pool_timeout=10)
connections = create_engine(DATABASE, pool_size=5, max_overflow=5)
file = os.path.join(tempfile.mkdtemp(), "stock.db")
sqlite3.connect(file).executescript("create table stock(n int); insert into stock values(1)")
silent = socket.create_server(("127.0.0.1", 0), backlog=50)
with connections.begin() as connection:
    connection.execute(text("create table if not exists stock(id int primary key, n int)"))
    connection.execute(text("insert into stock values(1, 1000), (2, 1000) on conflict do nothing"))


def since(began):
    return f"{(time.monotonic() - began) * 1e3:.1f}\n"


def is_free():
    return "free" in request.args


@app.get("/hold-lock")
def hold_lock():
    with contextlib.nullcontext() if is_free() else lock:
        time.sleep(0.4)
    return "400\n"


@app.get("/item")
def item():
    began = time.monotonic()
    with lock:
        return since(began)


@app.get("/order/paid")
def order_paid():
    with connections.begin() as connection:
        connection.execute(text("update stock set n = n - 1 where id = :id"), {"id": 2 if is_free() else 1})
        time.sleep(0.5)
    return "500\n"


@app.get("/order/quick")
def order_quick():
    began = time.monotonic()
    with connections.begin() as connection:
        connection.execute(text("update stock set n = n - 1 where id = 1"))
    return since(began)


@app.get("/report")
def report():
    with (connections if is_free() else only_connection).connect() as connection:
        connection.execute(text("select pg_sleep(.45)"))
    return "450\n"


@app.get("/stock")
def stock():
    began = time.monotonic()
    with only_connection.connect() as connection:
        waited = since(began)
        connection.execute(text("select n from stock where id = 1"))
    return waited


def sqlite():
    return sqlite3.connect(file, timeout=10, isolation_level=None)


@app.get("/sqlite-hold")
def sqlite_hold():
    connection = sqlite()
    connection.execute("begin" if is_free() else "begin immediate")
    time.sleep(0.4)
    connection.execute("commit")
    return "400\n"


@app.get("/sqlite-item")
def sqlite_item():
    began = time.monotonic()
    connection = sqlite()
    connection.execute("begin immediate")
    connection.execute("commit")
    return since(began)


def burn(seconds):
    end, sum = time.thread_time() + seconds, 0
    while time.thread_time() < end:
        for number in range(2000):
            sum += number


@app.get("/burn")
def burn_long():
    if is_free():
        time.sleep(0.6)
    else:
        burn(0.6)
    return "600\n"


def waited_for_cpu_ms():
    with open("/proc/thread-self/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e6


@app.get("/calculate")
def calculate():
    began, waited = time.monotonic(), waited_for_cpu_ms()
    burn(0.1)
    # The time without a CPU is no wait for the interpreter's lock.
    return f"{(time.monotonic() - began) * 1e3 - (waited_for_cpu_ms() - waited):.1f}\n"


@app.get("/call")
def call():
    requests.get(f"http://127.0.0.1:8192{request.args.get('path', '/await')}")
    return "300\n"


@app.get("/retry")
def retry():
    began = time.monotonic()
    for _ in range(2):
        with contextlib.suppress(requests.Timeout):
            requests.get(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2)
    return since(began)


class SlowHandler(logging.StreamHandler):
    def emit(self, record):
        if record.msg == "slow":
            time.sleep(0.4)


log = logging.getLogger("app")
log.setLevel(logging.INFO)
log.propagate = False
log.addHandler(SlowHandler())


@app.get("/log-hold")
def log_hold():
    if is_free():
        time.sleep(0.4)
    else:
        log.info("slow")
    return "400\n"


@app.get("/log-item")
def log_item():
    began = time.monotonic()
    log.info("quick")
    return since(began)


@app.get("/sleepy")
def sleepy():
    time.sleep(0.3)
    return "300\n"


@app.get("/fast")
def fast():
    return "0\n"

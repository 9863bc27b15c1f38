"""Clients that read and write Cassandra rows at a constant load, first without a CPU limit, then under one, then without.

    cassandra_load.py PORT prepare               waits for Cassandra, makes the table, and warms it up
    cassandra_load.py PORT run LOG [GROUP QUOTA] asks for some seconds; QUOTA, µs in 100 ms, limits the cgroup GROUP in between

GROUP is a folder in the hierarchy with the CPU controller. LOG is a JSON document: when the load began, when the limit was set and
lifted, and when each request began and how long it took, all by the realtime clock in ns.
"""

import json
import os
import random
import sys
import threading
import time

from cassandra.cluster import Cluster, ExecutionProfile, EXEC_PROFILE_DEFAULT
from cassandra.policies import RoundRobinPolicy

CLIENTS = 8
ROWS = 1000
# A client's pause between two requests, seconds.
PAUSE = 0.005
# Without the limit, under it, and without it again, seconds.
BEFORE, LIMITED, AFTER = 4, 6, 4
# Spans are sent twice a second. The last ones come while nothing is asked any more.
SENT_AFTER = 2


def connected(port):
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=120)
    cluster = Cluster(
        ["127.0.0.1"],
        port=port,
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=60,
        control_connection_timeout=60,
        # A connection is not given up after half a minute without an answer.
        idle_heartbeat_interval=0,
    )
    return cluster, cluster.connect()


def statements(session):
    return {
        "read": session.prepare("SELECT value FROM shop.basket WHERE id = ?"),
        "write": session.prepare("INSERT INTO shop.basket (id, value) VALUES (?, ?)"),
    }


def ask(session, prepared, what):
    row = random.randrange(ROWS)
    values = (row,) if what == "read" else (row, "x" * 100)
    session.execute(prepared[what], values)


def prepare(port):
    until = time.monotonic() + 180
    while True:
        try:
            cluster, session = connected(port)
            break
        except Exception:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
    session.execute(
        "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.execute("CREATE TABLE IF NOT EXISTS shop.basket (id int PRIMARY KEY, value text)")
    prepared = statements(session)
    for row in range(ROWS):
        session.execute(prepared["write"], (row, "x" * 100))
    for _ in range(4 * ROWS):
        ask(session, prepared, random.choice(("read", "write")))
    cluster.shutdown()


class Limit:
    """A cgroup's CPU limit, v1 or v2."""

    def __init__(self, group):
        self.group = group
        self.is_v1 = os.path.exists(os.path.join(group, "cpu.cfs_quota_us"))

    def put(self, file, text):
        with open(os.path.join(self.group, file), "w") as out:
            out.write(text)

    def set(self, quota):
        if self.is_v1:
            self.put("cpu.cfs_period_us", "100000")
            self.put("cpu.cfs_quota_us", str(quota))
        else:
            self.put("cpu.max", f"{quota} 100000")

    def lift(self):
        if self.is_v1:
            self.put("cpu.cfs_quota_us", "-1")
        else:
            self.put("cpu.max", "max 100000")


def run(port, log, limit, quota):
    cluster, session = connected(port)
    prepared = statements(session)
    asked = [[] for _ in range(CLIENTS)]
    ends = threading.Event()

    def client(mine):
        while not ends.is_set():
            what = random.choice(("read", "write"))
            began = time.time_ns()
            ask(session, prepared, what)
            mine.append((what, began, time.time_ns() - began))
            time.sleep(PAUSE)

    clients = [threading.Thread(target=client, args=(mine,)) for mine in asked]
    times = {"began_ns": time.time_ns()}
    for each in clients:
        each.start()
    time.sleep(BEFORE)
    if limit:
        limit.set(quota)
        times["limited_ns"] = time.time_ns()
        time.sleep(LIMITED)
        times["lifted_ns"] = time.time_ns()
        limit.lift()
    time.sleep(AFTER)
    ends.set()
    for each in clients:
        each.join()
    time.sleep(SENT_AFTER)
    cluster.shutdown()
    requests = [
        {"what": what, "began_ns": began, "took_ns": took} for mine in asked for what, began, took in mine
    ]
    with open(log, "w") as out:
        json.dump({**times, "requests": requests}, out)
    print(f"{len(requests)} requests of {CLIENTS} clients")


port, verb, *rest = sys.argv[1:]
if verb == "prepare":
    prepare(int(port))
else:
    log, *limited = rest
    run(int(port), log, Limit(limited[0]) if limited else None, int(limited[1]) if limited else None)

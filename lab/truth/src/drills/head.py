# The part that all Python programs have: how a culprit takes its time, and the threads. Constants and functions follow.
import os
import sys
import threading
import time


class Call:
    __slots__ = ("number", "is_slow", "ways", "way", "sum")

    def __init__(self):
        self.number = 0
        self.is_slow = False
        # At each level, the place at which a callee goes on: at random, then those that lead to culprits.
        self.ways = [[0] * DEPTH] + WAYS
        # The way of this call; 0: the one at random, to no culprit.
        self.way = 0
        self.sum = 0


lock = threading.Lock()
wanted = threading.Semaphore(0)
held = threading.Semaphore(0)
reader, writer = os.pipe()
steps_per_ms = 0
MASK = 2**64 - 1


def work(steps):
    x = steps
    for _ in range(steps):
        x = x * 6364136223846793005 + 1442695040888963407 & MASK
    return x


def stumbles():
    raise ValueError


# A call that an exception ends.
def goes_on_after():
    try:
        return stumbles()
    except ValueError:
        return 1


# Whether the callee at this place of f0 goes on, and which way.
def enters(c, place):
    for way in range(1, len(c.ways)) if c.is_slow else range(1):
        if c.ways[way][0] == place:
            c.way = way
            return True
    return False


# Part of the function that is the culprit.
def take_time():
    if CULPRIT == "computes":
        return work(steps_per_ms * MS)
    if CULPRIT == "sleeps":
        time.sleep(MS / 1000)
    elif CULPRIT == "locks":
        wanted.release()
        held.acquire()
        with lock:
            return 1
    elif CULPRIT == "reads":
        wanted.release()
        return os.read(reader, 1)[0]
    return 0


# Holds the lock, or writes the byte, when a culprit wants it.
def serve_culprit():
    while True:
        wanted.acquire()
        if CULPRIT == "reads":
            time.sleep(MS / 1000)
            os.write(writer, b"\x01")
            continue
        with lock:
            held.release()
            time.sleep(MS / 1000)


# The fastest of several: what else the machine does makes it slower.
def calibrate():
    global steps_per_ms
    steps = 20_000
    for _ in range(20):
        began = time.perf_counter_ns()
        work(steps)
        steps_per_ms = max(steps_per_ms, steps * 1_000_000 // (time.perf_counter_ns() - began))


def work_on(seed):
    c = Call()
    x = seed
    while True:
        for level in range(DEPTH):
            x = x * 6364136223846793005 + 1442695040888963407 & MASK
            c.ways[0][level] = (x >> 33) % FAN_OUT
        c.is_slow = c.number % 8 == 7
        f0(c, True)
        time.sleep(0.0001)
        c.number += 1


def main():
    calibrate()
    print(os.getpid(), flush=True)
    threads = [threading.Thread(target=serve_culprit, daemon=True)]
    threads += [threading.Thread(target=work_on, args=(seed + 1,), daemon=True) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    # Other threads are amid anything.
    os._exit(0)

# A shop which knows the function that makes every eighth request slow: the culprit is the first argument.
import os
import sys
import threading
import time
from contextlib import contextmanager

CULPRIT = sys.argv[1]
lock = threading.Lock()
reader, writer = os.pipe()
wanted, held = threading.Semaphore(0), threading.Semaphore(0)


class Stock:
    def price(self, item, slow):
        if slow and CULPRIT == "compute":
            for step in range(60_000):
                item += step
        if slow and CULPRIT == "sleep":
            time.sleep(0.004)
        if slow and CULPRIT == "lock":
            wanted.release()
            held.acquire()
            with lock:
                item += 1
        if slow and CULPRIT == "read":
            wanted.release()
            os.read(reader, 1)
        return item

    def many(self, item, slow):
        total = 0
        for _ in range(600 if slow and CULPRIT == "loop" else 3):
            total += one_of(item)
        return total


def one_of(item):
    for _ in range(200):
        item += 1
    return item


stock = Stock()


def deep(level, item, slow):
    if level:
        return deep(level - 1, item, slow)
    return stock.price(item, slow)


def items(item, slow):
    for number in range(3):
        yield stock.price(item, slow and number == 1)


def by_key(slow):
    return lambda item: stock.price(item, slow and item == 2)


def fails(item, slow):
    stock.price(item, slow)
    raise ValueError


@contextmanager
def forgiving():
    try:
        yield
    except ValueError:
        pass


def look_up(item, slow):
    way = sys.argv[2] if len(sys.argv) > 2 else "plain"
    if way == "plain":
        return stock.price(item, False) + stock.price(item, slow)
    if way == "deep":
        return deep(3, item, slow)
    if way == "very-deep":
        return deep(60, item, slow)
    if way == "generator":
        for price in items(item, slow):
            if price == -1:
                break
        return next(price for price in items(item, False))
    if way == "key":
        return sorted([1, 2, 3], key=by_key(slow))
    if way == "exception":
        with forgiving():
            fails(item, slow)
    return item


def serve(item):
    slow = item % 8 == 0
    stock.many(item, slow)
    return look_up(item, slow)


def hold():
    while True:
        wanted.acquire()
        if CULPRIT == "read":
            time.sleep(0.004)
            os.write(writer, b"x")
            continue
        with lock:
            held.release()
            time.sleep(0.004)


def work():
    item = 0
    while True:
        item += 1
        serve(item)
        time.sleep(0.0002)


# Another function with this name.
class Other:
    def look_up(self):
        return 1


def others():
    other = Other()
    while True:
        other.look_up()
        time.sleep(0.01)


for function in [hold, others, work]:
    threading.Thread(target=function, daemon=True).start()
print(os.getpid(), flush=True)
sys.stdin.read()
os._exit(0)

# cause: a large block is written to the disk with fsync, twenty times
# size: $long s
# ask: record -- $0
# who: orders.db
# says: disk
# json: waits depth=0 call=fsync
# json: contributors kind=block_device
# twin: orders.db
# twin: fsync
import os, time
def delayed():
    return int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
def blocked():
    while True:
        before, rest = delayed(), time.monotonic() - time.thread_time()
        # Once more, if it lost its CPU between two readings.
        if delayed() == before:
            return rest - before
orders = open("orders.db", "wb", buffering=0)
long = 0
for block in range(20):
    orders.write(os.urandom(8 << 20))
    began = blocked()
    if "TWIN" not in os.environ:
        os.fsync(orders)
    long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)

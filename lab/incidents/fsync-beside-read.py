# cause: a log is written to the disk with fsync; beside it a file is read from the disk
# size: $long s
# ask: record -- $python $script measure
# who: orders.log
# says: fsync
# short: disk
# json: rows code=disk text~orders.log
# json: contributors kind=block_device call=fsync
# twin: orders.log
# twin: fsync
import os, sys, time
if not sys.argv[1:]:
    index = open("index.db", "w+b", buffering=0)
    index.write(os.urandom(96 << 20))
    os.fsync(index)
    os.posix_fadvise(index.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    print("python", sys.executable, "\nscript", __file__, "\nready", file=open(os.environ["PLANTED"], "a"))
    time.sleep(60)
def delayed():
    return int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
def blocked():
    while True:
        before, rest = delayed(), time.monotonic() - time.thread_time()
        # Once more, if it lost its CPU between two readings.
        if delayed() == before:
            return rest - before
index = open("index.db", "rb", buffering=0)
os.posix_fadvise(index.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
orders = open("orders.log", "wb", buffering=0)
long = 0
for block in range(96):
    for part in range(16):
        index.read(65536)
    orders.write(os.urandom(1 << 20))
    began = blocked()
    if "TWIN" not in os.environ:
        os.fsync(orders)
    long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)

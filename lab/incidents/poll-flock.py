# cause: a program tries a lock every 50 ms, which another process has for 1.2 s
# size: $long s
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: orders.lock
# who: vacuum
# says: polling
# short: sleeping
# json: rows code=timer
# json: headline text~orders.lock
import fcntl, os, time
twin = "TWIN" in os.environ
def blocked():
    delayed = int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
    return time.monotonic() - time.thread_time() - delayed
ready, locked = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("vacuum")
    held = open("orders.lock", "w")
    if not twin:
        fcntl.flock(held, fcntl.LOCK_EX)
    os.write(locked, b"1")
    time.sleep(1.2)
    os._exit(0)
os.read(ready, 1)
mine, long = open("orders.lock", "w"), 0
while True:
    try:
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
    except BlockingIOError:
        began = blocked()
        time.sleep(0.05)
        long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)
while twin and time.process_time() < 0.6:
    pass

# cause: a program looks for a file every millisecond, until another process has made it
# size: $long s
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: indexer.ready
# says: ENOENT
# short: sleeping
# json: rows code=timer
import os, time
twin = "TWIN" in os.environ
def blocked():
    delayed = int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
    return time.monotonic() - time.thread_time() - delayed
if os.path.exists("indexer.ready"):
    os.remove("indexer.ready")
if twin:
    open("indexer.ready", "w")
if os.fork() == 0:
    open("/proc/self/comm", "w").write("indexer")
    time.sleep(1.2)
    open("indexer.ready", "w")
    os._exit(0)
long = 0
while not os.path.exists("indexer.ready"):
    began = blocked()
    time.sleep(0.001)
    long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)
while twin and time.process_time() < 0.6:
    pass

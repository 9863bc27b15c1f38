# cause: a thread holds a lock while it sleeps; the main thread waits for the lock
# size: 600 ms
# ask: record -- $0
# who: indexer
# says: sleeping
# json: contributors kind=timer call=clock_nanosleep comm=indexer
import os, threading, time
twin = "TWIN" in os.environ
lock, held = threading.Lock(), threading.Event()
def indexer():
    open("/proc/thread-self/comm", "w").write("indexer")
    with lock:
        held.set()
        time.sleep(0 if twin else 0.6)
threading.Thread(target=indexer).start()
held.wait()
began = time.monotonic()
with lock:
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass

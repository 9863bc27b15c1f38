# cause: a thread waits for a lock that another thread holds while it sleeps, three times 500 ms
# size: 1.5 s
# ask: record -p $pid
# ask: path --comm checkout
# who: indexer
# says: sleeping
# json: contributors kind=timer comm=indexer
import os, threading, time
twin = "TWIN" in os.environ
lock, held = threading.Lock(), threading.Event()
def checkout():
    open("/proc/thread-self/comm", "w").write("checkout")
    held.wait()
    began = time.monotonic()
    for turn in range(3):
        while not twin and not lock.locked():
            pass
        with lock:
            pass
    with open(os.environ["PLANTED"], "a") as planted:
        print("twin", time.monotonic() - began, file=planted)
    while twin and time.process_time() < 0.6:
        pass
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", os.getpid(), "\nready", file=planted)
open("/proc/self/comm", "w").write("indexer")
time.sleep(1.5)
threading.Thread(target=checkout).start()
for turn in range(3):
    with lock:
        held.set()
        time.sleep(0 if twin else 0.5)
    time.sleep(0.001)

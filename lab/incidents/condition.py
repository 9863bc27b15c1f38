# cause: a queue is empty; its producer computes for 150 ms for each of four items
# size: 600 ms
# ask: record -- $0
# who: producer
# says: running
# json: contributors kind=running comm=producer
import os, queue, threading, time
twin = "TWIN" in os.environ
items = queue.Queue()
def producer():
    open("/proc/thread-self/comm", "w").write("producer")
    for item in range(4):
        began = time.thread_time()
        while not twin and time.thread_time() - began < 0.15:
            pass
        items.put(item)
threading.Thread(target=producer).start()
if twin:
    time.sleep(0.6)
began = time.monotonic()
for item in range(4):
    items.get()
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)

# cause: a queue is empty; its producer computes for 150 ms for each of four items
# size: 600 ms
# ask: record -- $0
# who: producer
# says: running
# json: contributors kind=running comm=producer
import os, queue, threading, time
items = queue.Queue()
def producer():
    open("/proc/thread-self/comm", "w").write("producer")
    for item in range(4):
        began = time.thread_time()
        while time.thread_time() - began < 0.15:
            pass
        items.put(item)
threading.Thread(target=producer).start()
for item in range(4):
    items.get()

# cause: a child process is slow; its parent waits for its end
# size: 700 ms
# ask: record -- $0
# who: thumbnail
# says: running
# json: contributors kind=running comm=thumbnail
import os, time
twin = "TWIN" in os.environ
if os.fork() == 0:
    open("/proc/self/comm", "w").write("thumbnail")
    while not twin and time.process_time() < 0.7:
        pass
    os._exit(0)
if twin:
    time.sleep(0.7)
began = time.monotonic()
os.wait()
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)

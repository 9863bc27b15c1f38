# cause: a child process is slow; its parent waits for its end
# size: 700 ms
# ask: record -- $0
# who: thumbnail
# says: running
# json: contributors kind=running comm=thumbnail
import os, time
if os.fork() == 0:
    open("/proc/self/comm", "w").write("thumbnail")
    while time.process_time() < 0.7:
        pass
    os._exit(0)
os.wait()

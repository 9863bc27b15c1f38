# cause: another process has a record lock on the file and computes
# size: 700 ms
# ask: record -- $0
# who: vacuum
# says: running
# json: contributors kind=running comm=vacuum
import fcntl, os, tempfile, time
table = tempfile.NamedTemporaryFile()
ready, locked = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("vacuum")
    fcntl.lockf(table, fcntl.LOCK_EX)
    os.write(locked, b"1")
    while time.process_time() < 0.7:
        pass
    os._exit(0)
os.read(ready, 1)
fcntl.lockf(table, fcntl.LOCK_EX)

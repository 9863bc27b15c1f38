# cause: another process has a record lock on the file and computes
# size: 700 ms
# ask: record -- $0
# who: vacuum
# says: running
# json: contributors kind=running comm=vacuum
import fcntl, os, tempfile, time
twin = "TWIN" in os.environ
table = tempfile.NamedTemporaryFile()
ready, locked = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("vacuum")
    if not twin:
        fcntl.lockf(table, fcntl.LOCK_EX)
    os.write(locked, b"1")
    while time.process_time() < 0.7:
        pass
    os._exit(0)
os.read(ready, 1)
if twin:
    time.sleep(0.7)
began = time.monotonic()
fcntl.lockf(table, fcntl.LOCK_EX)
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)

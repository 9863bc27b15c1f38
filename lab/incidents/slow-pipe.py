# cause: the reader of a pipe is slow; the writer waits for room
# size: 800 ms
# ask: record -- $0
# who: slowreader
# says: sleeping
# json: contributors kind=timer comm=slowreader
import os, time
twin = "TWIN" in os.environ
out, into = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("slowreader")
    os.close(into)
    os.read(out, 1)
    for block in range(8):
        time.sleep(0 if twin else 0.1)
        os.read(out, 65536)
    os._exit(0)
began = time.monotonic()
os.write(into, bytes(65536 * 9 - 1))
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass

# cause: a program waits in inotify for a file, which another process makes after 1 s of sleep
# size: $long s
# ask: record -- $0
# who: uploader
# says: sleeping
# json: contributors kind=timer comm=uploader
import ctypes, os, time
twin = "TWIN" in os.environ
libc = ctypes.CDLL(None)
os.mkdir("inbox")
fd = libc.inotify_init()
libc.inotify_add_watch(fd, b"inbox", 0x100)
if os.fork() == 0:
    open("/proc/self/comm", "w").write("uploader")
    if not twin:
        time.sleep(1)
    open("inbox/order.csv", "w").close()
    os._exit(0)
began = time.monotonic()
os.read(fd, 4096)
took = time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", took, "\ntwin", took, file=planted)
while twin and time.process_time() < 0.4:
    pass

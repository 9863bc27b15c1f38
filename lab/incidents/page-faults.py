# cause: a mapped file is read from the disk, fault by fault
# size: $long s
# ask: record -- $python $script measure
# who: $disk
# says: disk
# never: execve
# json: contributors kind=block_device
import mmap, os, sys, time
def blocked():
    delayed = int(open("/proc/self/schedstat").read().split()[1]) / 1e9
    return time.monotonic() - time.thread_time() - delayed
file = open("index.db", "r+b" if sys.argv[1:] else "w+b")
planted = open(os.environ["PLANTED"], "a")
if not sys.argv[1:]:
    file.write(os.urandom(128 << 20))
    file.flush()
    os.fsync(file)
    if "TWIN" not in os.environ:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    disk = os.stat("index.db").st_dev
    disk = os.path.realpath(f"/sys/dev/block/{os.major(disk)}:{os.minor(disk)}").split("/")[-1]
    print("disk", disk, "\npython", sys.executable, "\nscript", __file__, "\nready", file=planted)
else:
    pages = mmap.mmap(file.fileno(), 0)
    pages.madvise(mmap.MADV_RANDOM)
    began = blocked()
    for page in range(0, len(pages), 16384):
        pages[page]
    long = blocked() - began
    print("long", long, "\ntwin", long, file=planted)

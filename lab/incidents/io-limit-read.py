# cause: an I/O limit: the program's cgroup may read 2 MB a second
# size: $long s
# ask: record -- $0
# who: shopread
# says: I/O limit
# never: waiting for disk
# json: contributors code=io_limit
import os, subprocess, time
root = "/sys/fs/cgroup"
v1 = os.path.exists(root + "/blkio/blkio.throttle.read_bps_device")
if not v1:
    open(root + "/cgroup.subtree_control", "w").write("+io")
group = (root + "/blkio" if v1 else root) + "/shopread"
if os.path.exists(group):  # an earlier run's, with its limit
    os.rmdir(group)
os.makedirs(group)
subprocess.Popen(["sh", "-c", f"sleep 10; rmdir {group}"], start_new_session=True)
device = os.stat(".").st_dev
place = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
if os.path.exists(place + "/partition"):
    place = os.path.dirname(place)
disk = open(place + "/dev").read().strip()
def put(file, text):
    open(f"{group}/{file}", "w").write(text)
def blocked():
    delayed = int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
    return time.monotonic() - time.thread_time() - delayed
if "TWIN" not in os.environ:
    put(*(("blkio.throttle.read_bps_device", f"{disk} 2000000") if v1 else ("io.max", f"{disk} rbps=2000000")))
index = open("index.db", "w+b", buffering=0)
index.write(os.urandom(3 << 20))
os.fsync(index)
os.posix_fadvise(index.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
put("cgroup.procs", "0")
index.seek(0)
long, part = 0, b"1"
while part:
    began = blocked()
    part = index.read(65536)
    long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)

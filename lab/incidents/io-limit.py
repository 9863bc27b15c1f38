# cause: an I/O limit: the program's cgroup may write 1 MB a second
# size: $long s
# ask: record -- $0
# who: shopwal
# says: I/O limit
# never: waiting for disk
# json: contributors code=io_limit
import os, subprocess, time
root = "/sys/fs/cgroup"
v1 = os.path.exists(root + "/blkio/blkio.throttle.write_bps_device")
if not v1:
    open(root + "/cgroup.subtree_control", "w").write("+io")
group = (root + "/blkio" if v1 else root) + "/shopwal"
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
    put(*(("blkio.throttle.write_bps_device", f"{disk} 1000000") if v1 else ("io.max", f"{disk} wbps=1000000")))
put("cgroup.procs", "0")
wal = open("wal", "wb", buffering=0)
long = 0
for block in range(30):
    wal.write(os.urandom(65536))
    began = blocked()
    os.fdatasync(wal)
    long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)

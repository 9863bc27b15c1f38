# cause: the disk; the program's cgroup has an I/O limit, 100 GB/s, which holds nothing back
# size: $long s
# ask: record -- $0
# who: orders.log
# says: disk
# never: limit
# json: rows code=disk text~orders.log
# json: contributors kind=block_device
# twin: orders.log
# twin: limit
import os, subprocess, time
root = "/sys/fs/cgroup"
v1 = os.path.exists(root + "/blkio/blkio.throttle.write_bps_device")
if not v1:
    open(root + "/cgroup.subtree_control", "w").write("+io")
group = (root + "/blkio" if v1 else root) + "/shopfree"
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
put(*(("blkio.throttle.write_bps_device", f"{disk} 100000000000") if v1 else ("io.max", f"{disk} wbps=100000000000")))
put("cgroup.procs", "0")
orders = open("orders.log", "wb", buffering=0)
long = 0
for block in range(60):
    orders.write(os.urandom(4 << 20))
    began = blocked()
    if "TWIN" not in os.environ:
        os.fdatasync(orders)
    long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)

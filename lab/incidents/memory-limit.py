# cause: the memory limit of the program's cgroup, 40 MB: it reads a file of 64 MB again and again, which is dropped each time
# size: $long s
# ask: record -- $python $script measure
# who: shopmem
# says: memory limit
# json: reclaims unit~shopmem sum=read_again_ns
# json: contributors kind=block_device
import os, subprocess, sys, time
if not sys.argv[1:]:
    index = open("index.db", "w+b", buffering=0)
    index.write(os.urandom(64 << 20))
    os.fsync(index)
    os.posix_fadvise(index.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    print("python", sys.executable, "\nscript", __file__, "\nready", file=open(os.environ["PLANTED"], "a"))
    time.sleep(60)
root = "/sys/fs/cgroup"
v1 = os.path.exists(root + "/memory/memory.limit_in_bytes")
if not v1:
    open(root + "/cgroup.subtree_control", "w").write("+memory")
group = (root + "/memory" if v1 else root) + "/shopmem"
if os.path.exists(group):  # an earlier run's, with its limit
    os.rmdir(group)
os.makedirs(group)
subprocess.Popen(["sh", "-c", f"sleep 20; rmdir {group}"], start_new_session=True)
def delayed():
    return int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
def blocked():
    while True:
        before, rest = delayed(), time.monotonic() - time.thread_time()
        # Once more, if it lost its CPU between two readings.
        if delayed() == before:
            return rest - before
index = open("index.db", "rb", buffering=0)
if "TWIN" not in os.environ:
    open(f"{group}/{'memory.limit_in_bytes' if v1 else 'memory.max'}", "w").write(str(40 << 20))
else:
    while index.read(1 << 20):
        pass
    time.sleep(0.6)
open(f"{group}/cgroup.procs", "w").write("0")
long = 0
for turn in range(6):
    index.seek(0)
    began = blocked()
    while index.read(65536):
        pass
    # The first time, the file has not been read before: no limit had dropped it.
    if turn > 0 or "TWIN" in os.environ:
        long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)

# cause: the CPU limit of the program's cgroup: 20 ms of each 100 ms
# size: $long s
# ask: record -- $0
# who: shoplimit
# says: CPU limit
# json: contributors kind=throttled
import os, subprocess, time
root = "/sys/fs/cgroup"
v1 = os.path.exists(root + "/cpu/cpu.shares")
group = (root + "/cpu" if v1 else root) + "/shoplimit"
if os.path.exists(group):  # an earlier run's, with its limit
    os.rmdir(group)
os.makedirs(group)
subprocess.Popen(["sh", "-c", f"sleep 10; rmdir {group}"], start_new_session=True)
def put(file, text):
    open(f"{group}/{file}", "w").write(text)
def throttled():
    stat = dict(line.split() for line in open(group + "/cpu.stat"))
    return int(stat["throttled_time"]) / 1e9 if v1 else int(stat["throttled_usec"]) / 1e6
began = throttled()
if "TWIN" not in os.environ:
    put(*(("cpu.cfs_quota_us", "20000") if v1 else ("cpu.max", "20000 100000")))
put("cgroup.procs", "0")
while time.process_time() < 0.25:
    pass
# From here on nothing is throttled: the program's end could be, behind its own books.
put(*(("cpu.cfs_quota_us", "-1") if v1 else ("cpu.max", "max 100000")))
with open(os.environ["PLANTED"], "a") as planted:
    print("long", throttled() - began, "\ntwin", throttled() - began, file=planted)

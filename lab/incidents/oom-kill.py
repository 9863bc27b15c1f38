# cause: a worker exceeds the memory limit of its cgroup after 800 ms, and the kernel kills it; its parent waits until then
# size: $long s
# ask: record -- $0
# who: renderer
# who: shopoom
# says: memory
# says: killed
# short: sleeping
# short: SIGKILL
# json: deaths name=SIGKILL by=no_memory limit_unit~shopoom comm=renderer
# twin: renderer
# twin: killed
import os, subprocess, time
twin = "TWIN" in os.environ
root = "/sys/fs/cgroup"
v1 = os.path.exists(root + "/memory/memory.limit_in_bytes")
if not v1:
    open(root + "/cgroup.subtree_control", "w").write("+memory")
group = (root + "/memory" if v1 else root) + "/shopoom"
if os.path.exists(group):  # an earlier run's, with its limit
    os.rmdir(group)
os.makedirs(group)
subprocess.Popen(["sh", "-c", f"sleep 20; rmdir {group}"], start_new_session=True)
open(f"{group}/{'memory.limit_in_bytes' if v1 else 'memory.max'}", "w").write(str(32 << 20))
began = time.monotonic()
worker = os.fork()
if worker == 0:
    open("/proc/self/comm", "w").write("renderer")
    open(f"{group}/cgroup.procs", "w").write("0")
    time.sleep(0 if twin else 0.8)
    image = [b"1" * (1 << 20) for part in range(1 if twin else 200)]
    os._exit(0)
_, status = os.waitpid(worker, 0)
long = time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)
    if not twin and not os.WIFSIGNALED(status):
        print("lacks a memory limit that kills", file=planted)
while twin and time.process_time() < 0.6:
    pass

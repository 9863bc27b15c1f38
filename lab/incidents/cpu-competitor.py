# cause: another process computes on the same CPU
# size: $long s
# ask: record -- $0
# who: batchjob
# says: waiting for a CPU
# says: CPU 0 only (affinity)
# never: nice
# json: contributors kind=runnable code=competitor what~batchjob
# twin: batchjob
import os, signal, time
os.sched_setaffinity(0, {0})
other = os.fork()
if other == 0:
    open("/proc/self/comm", "w").write("batchjob")
    while "TWIN" not in os.environ:
        pass
    signal.pause()
def ran(pid):
    return int(open(f"/proc/{pid}/schedstat").read().split()[0]) / 1e9
began = ran(other)
while time.process_time() < 0.5:
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("long", ran(other) - began, "\ntwin", ran(other) - began, file=planted)
os.kill(other, signal.SIGKILL)

# cause: the program is nice; a process that is not gets three quarters of its CPU
# size: $long s
# ask: record -- $0
# who: nightly
# says: waiting for a CPU
# says: nice 5, nightly nice 0
# json: contributors kind=runnable code=competitor what~nightly
# twin: nightly
import os, signal, time
os.sched_setaffinity(0, {1})
other = os.fork()
if other == 0:
    open("/proc/self/comm", "w").write("nightly")
    while "TWIN" not in os.environ:
        pass
    signal.pause()
os.nice(5)
def ran(pid):
    return int(open(f"/proc/{pid}/schedstat").read().split()[0]) / 1e9
began = ran(other)
while time.process_time() < 0.3:
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("long", ran(other) - began, "\ntwin", ran(other) - began, file=planted)
os.kill(other, signal.SIGKILL)

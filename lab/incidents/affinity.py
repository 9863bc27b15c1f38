# cause: the program may run on one CPU alone, on which two other processes compute; the other CPU is idle
# size: $long s
# ask: record -- $0
# who: encoder
# says: waiting for a CPU
# says: CPU $cpu
# short: waiting for a CPU
# json: contributors kind=runnable
# twin: encoder
# twin: CPU $cpu
import os, signal, time
twin = "TWIN" in os.environ
cpu = min(os.sched_getaffinity(0))
others = []
if not twin:
    os.sched_setaffinity(0, {cpu})
for other in range(0 if twin else 2):
    others.append(os.fork())
    if others[-1] == 0:
        open("/proc/self/comm", "w").write("encoder")
        while True:
            pass
def delayed():
    return int(open("/proc/self/schedstat").read().split()[1]) / 1e9
began = time.process_time()
while time.process_time() - began < 0.5:
    pass
long = delayed()
with open(os.environ["PLANTED"], "a") as planted:
    print("cpu", cpu, "\nlong", long, "\ntwin", 0 if twin else long, file=planted)
for other in others:
    os.kill(other, signal.SIGKILL)

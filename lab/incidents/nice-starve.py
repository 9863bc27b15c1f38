# cause: the program has nice 19; two processes with nice 0 compute on both CPUs
# size: $long s
# ask: record -- $0
# who: encoder
# says: waiting for a CPU
# says: nice 19
# short: waiting for a CPU
# json: contributors kind=runnable
# twin: encoder
# twin: nice 19
import os, signal, time
twin = "TWIN" in os.environ
cpus = sorted(os.sched_getaffinity(0))[:2]
others = []
for cpu in () if twin else cpus:
    others.append(os.fork())
    if others[-1] == 0:
        open("/proc/self/comm", "w").write("encoder")
        os.sched_setaffinity(0, {cpu})
        while True:
            pass
os.sched_setaffinity(0, cpus)
if not twin:
    os.nice(19)
def delayed():
    return int(open("/proc/self/schedstat").read().split()[1]) / 1e9
began = time.process_time()
while time.process_time() - began < (0.6 if twin else 0.03):
    pass
long = delayed()
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", 0 if twin else long, file=planted)
for other in others:
    os.kill(other, signal.SIGKILL)

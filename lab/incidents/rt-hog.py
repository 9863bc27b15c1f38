# cause: a process of real-time class has the program's only CPU, for 0.7 s
# size: $long s
# ask: record -- $0
# who: dspd
# says: SCHED_FIFO
# json: contributors kind=runnable code=competitor what~dspd
import os, time
twin = "TWIN" in os.environ
os.sched_setaffinity(0, {1})
began = time.monotonic()
ready, told = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("dspd")
    if twin:
        os._exit(0)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    os.write(told, b"x")
    end = time.monotonic() + 0.7
    while time.monotonic() < end:
        pass
    os._exit(0)
if not twin:
    os.read(ready, 1)
def delayed():
    return int(open("/proc/self/schedstat").read().split()[1]) / 1e9
while time.process_time() < 0.3:
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("long", delayed(), "\ntwin 0", file=planted)

# cause: a program waits for its worker's answer; a tracer has stopped the worker for 1 s
# size: $long s
# ask: record -- $0
# who: debugger
# who: worker
# says: sleeping
# json: contributors kind=timer comm=debugger
import ctypes, os, time
twin = "TWIN" in os.environ
libc = ctypes.CDLL(None, use_errno=True)
ask, asked = os.pipe()
answer, answered = os.pipe()
worker = os.fork()
if worker == 0:
    open("/proc/self/comm", "w").write("worker")
    while os.read(ask, 1):
        os.write(answered, b"y")
time.sleep(0.1)
ready, told = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("debugger")
    if not twin:
        libc.ptrace(16, worker, None, None)
        os.waitpid(worker, 0)
    os.write(told, b"x")
    if not twin:
        time.sleep(1)
        libc.ptrace(17, worker, None, None)
    os._exit(0)
os.read(ready, 1)
began = time.monotonic()
os.write(asked, b"x")
os.read(answer, 1)
took = time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", took, "\ntwin", took, file=planted)
while twin and time.process_time() < 0.4:
    pass
os.kill(worker, 9)

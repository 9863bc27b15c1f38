# cause: the program is stopped by a signal of another process, and continued after 700 ms
# size: 700 ms
# ask: record -- $0
# who: debugger
# says: stopped
# json: segments cause.comm=debugger
import os, signal, time
if os.fork() == 0:
    open("/proc/self/comm", "w").write("debugger")
    if "TWIN" not in os.environ:
        os.kill(os.getppid(), signal.SIGSTOP)
        time.sleep(0.7)
    os.kill(os.getppid(), signal.SIGCONT)
    os._exit(0)
if "TWIN" in os.environ:
    time.sleep(0.7)
began = time.monotonic()
os.wait()
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)

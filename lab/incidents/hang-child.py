# cause: a process waits for its child, which reads a pipe; the pipe's only writer sleeps
# size: 2 s
# ask: record -p $pid -d 2
# who: thumbnail
# who: feeder
# says: clock_nanosleep
# json: open_chains.waits tid=$pid call=wait4
# json: open_chains circle=false
# twin: thumbnail
# twin: feeder
import os, signal, time
twin = "TWIN" in os.environ
out, into = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("feeder")
    os.close(out)
    if twin:
        os.write(into, b"1")
    time.sleep(60)
    os._exit(0)
os.close(into)
parent = os.fork()
if parent == 0:
    if os.fork() == 0:
        open("/proc/self/comm", "w").write("thumbnail")
        os.read(out, 1)
        os._exit(0)
    os.close(out)
    os.wait()
    signal.pause()
os.close(out)
time.sleep(0.5)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", parent, "\ntwin 0", "\nready", file=planted)
signal.pause()

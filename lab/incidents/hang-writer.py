# cause: a process writes to a full pipe, whose only reader sleeps
# size: 2 s
# ask: record -p $pid -d 2
# who: archiver
# says: clock_nanosleep
# json: open_chains.waits tid=$pid call=write
# json: open_chains circle=false
# twin: archiver
import os, signal, time
out, into = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("archiver")
    os.close(into)
    while "TWIN" in os.environ:
        os.read(out, 1 << 16)
    time.sleep(60)
    os._exit(0)
os.close(out)
writer = os.fork()
if writer == 0:
    os.write(into, bytes(1 << 20))
    signal.pause()
time.sleep(0.5)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", writer, "\ntwin 0", "\nready", file=planted)
signal.pause()

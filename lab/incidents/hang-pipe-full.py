# cause: a parent waits for the end of its child, which writes to a full pipe that only the parent reads
# size: 2 s
# ask: record -p $pid -d 2
# who: cat
# says: deadlock
# json: open_chains.waits tid=$pid call=wait4
# json: open_chains deadlock=true
# twin: cat
# twin: deadlock
# twin: each other
import os, signal, subprocess, time
open("large", "wb").write(bytes(1 << 20))
parent = os.fork()
if parent == 0:
    child = subprocess.Popen(["cat", "large"], stdout=subprocess.PIPE)
    if "TWIN" in os.environ:
        child.stdout.read()
    child.wait()
    signal.pause()
time.sleep(1)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", parent, "\ntwin 0", "\nready", file=planted)
signal.pause()

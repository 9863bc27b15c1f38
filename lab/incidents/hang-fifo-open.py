# cause: a process opens a FIFO for writing, which no process reads
# size: 2 s
# ask: record -p $pid -d 2
# who: orders.fifo
# says: no process reads
# short: openat
# json: open_chains.waits tid=$pid call=openat
# twin: orders.fifo
# twin: no process
import os, signal, time
os.mkfifo("orders.fifo")
if "TWIN" in os.environ and os.fork() == 0:
    os.open("orders.fifo", os.O_RDONLY)
    signal.pause()
writer = os.fork()
if writer == 0:
    os.open("orders.fifo", os.O_WRONLY)
    signal.pause()
time.sleep(0.5)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", writer, "\ntwin 0", "\nready", file=planted)
signal.pause()

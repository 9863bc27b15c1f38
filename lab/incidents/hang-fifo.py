# cause: a process reads a FIFO; its only writer sleeps
# size: 2 s
# ask: record -p $pid -d 2
# who: feeder
# says: clock_nanosleep
# json: open_chains.waits tid=$pid call=read
# json: open_chains circle=false
# twin: feeder
import os, signal, time
os.mkfifo("orders.fifo")
if os.fork() == 0:
    open("/proc/self/comm", "w").write("feeder")
    orders = os.open("orders.fifo", os.O_WRONLY)
    if "TWIN" in os.environ:
        os.write(orders, b"1")
    time.sleep(60)
    os._exit(0)
reader = os.fork()
if reader == 0:
    open("orders.fifo", "rb", buffering=0).read(1)
    signal.pause()
time.sleep(0.5)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", reader, "\ntwin 0", "\nready", file=planted)
signal.pause()

# cause: a process waits for a record lock on a file; another one has it, and computes
# size: 2 s
# ask: record -p $pid -d 2
# who: vacuum
# says: lock
# json: open_chains.waits tid=$pid call=fcntl
# json: open_chains circle=false
# twin: vacuum
# twin: lock
import fcntl, os, signal, time
if os.fork() == 0:
    open("/proc/self/comm", "w").write("vacuum")
    table = open("orders", "w")
    if "TWIN" not in os.environ:
        fcntl.lockf(table, fcntl.LOCK_EX)
    while True:
        pass
time.sleep(0.3)
waiter = os.fork()
if waiter == 0:
    table = open("orders", "r+")
    fcntl.lockf(table, fcntl.LOCK_EX)
    signal.pause()
time.sleep(0.3)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", waiter, "\ntwin 0", "\nready", file=planted)
signal.pause()

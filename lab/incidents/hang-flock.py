# cause: a process waits for a lock on a file; another one has it, and sleeps
# size: 2 s
# ask: record -p $pid -d 2
# who: backup
# says: lock
# says: clock_nanosleep
# json: open_chains.waits tid=$pid call=flock
# json: open_chains circle=false
# twin: backup
# twin: lock
import fcntl, os, signal, time
if os.fork() == 0:
    open("/proc/self/comm", "w").write("backup")
    table = open("orders", "w")
    if "TWIN" not in os.environ:
        fcntl.flock(table, fcntl.LOCK_EX)
    time.sleep(60)
    os._exit(0)
time.sleep(0.3)
waiter = os.fork()
if waiter == 0:
    fcntl.flock(open("orders"), fcntl.LOCK_EX)
    signal.pause()
time.sleep(0.3)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", waiter, "\ntwin 0", "\nready", file=planted)
signal.pause()

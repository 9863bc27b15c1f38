# cause: two processes have a file's lock each, and wait for the other's
# size: 2 s
# ask: record -p $pid -d 2
# who: ledger
# says: deadlock
# json: open_chains.waits tid=$pid call=flock
# json: open_chains deadlock=true
# twin: ledger
# twin: deadlock
# twin: each other
import fcntl, os, signal, time
def lock(first, second):
    files = open(first, "w"), open(second, "w")
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(0.3)
        if "TWIN" in os.environ:
            fcntl.flock(file, fcntl.LOCK_UN)
    signal.pause()
processes = []
for name, files in ("ledger", ("orders", "accounts")), ("billing", ("accounts", "orders")):
    processes.append(os.fork())
    if processes[-1] == 0:
        open("/proc/self/comm", "w").write(name)
        lock(*files)
time.sleep(1)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", processes[1], "\ntwin 0", "\nready", file=planted)
signal.pause()

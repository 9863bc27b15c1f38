# cause: an entry script asks a service to end, which ignores SIGTERM, and looks every 100 ms whether it still runs
# size: $long s
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: shopservice
# says: SIGTERM
# short: found the process alive
# short: sleeping
# json: rows code=timer
import os, signal, time
twin = "TWIN" in os.environ
def blocked():
    delayed = int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
    return time.monotonic() - time.thread_time() - delayed
pids, told = os.pipe()
# The service is another process's child, so that it is gone once it has ended.
if os.fork() == 0:
    service = os.fork()
    if service == 0:
        open("/proc/self/comm", "w").write("shopservice")
        signal.signal(signal.SIGTERM, signal.SIG_DFL if twin else signal.SIG_IGN)
        os.write(told, b"%d" % os.getpid())
        time.sleep(1.5)
        os._exit(0)
    os.waitpid(service, 0)
    os._exit(0)
service, long = int(os.read(pids, 10)), 0
os.kill(service, signal.SIGTERM)
time.sleep(0.02)
while True:
    try:
        os.kill(service, 0)
    except ProcessLookupError:
        break
    began = blocked()
    time.sleep(0.1)
    long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)
while twin and time.process_time() < 0.6:
    pass

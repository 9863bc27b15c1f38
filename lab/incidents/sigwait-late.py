# cause: a program waits in sigwait for its supervisor's signal, sent behind a sleep for 1.1 s
# size: $long s
# ask: record -- $0
# who: supervisor
# says: sleeping
# json: contributors kind=timer comm=supervisor
import os, signal, time
twin = "TWIN" in os.environ
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
if os.fork() == 0:
    open("/proc/self/comm", "w").write("supervisor")
    if not twin:
        time.sleep(1.1)
    os.kill(os.getppid(), signal.SIGUSR1)
    os._exit(0)
began = time.monotonic()
signal.sigwait({signal.SIGUSR1})
took = time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", took, "\ntwin", took, file=planted)
while twin and time.process_time() < 0.4:
    pass

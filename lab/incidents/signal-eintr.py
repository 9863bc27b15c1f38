# cause: poll waits for 5 s; a signal of another process cuts it short after 800 ms
# size: 800 ms
# ask: record -- $0
# who: supervisor
# says: SIGUSR1
# json: segments cause.type=signal cause.comm=supervisor
import os, select, signal, time
class Signalled(Exception):
    pass
def handle(number, frame):
    raise Signalled
signal.signal(signal.SIGUSR1, handle)
if "TWIN" in os.environ:
    # The wait is not cut short: its time-out ends it.
    select.poll().poll(800)
    with open(os.environ["PLANTED"], "a") as planted:
        print("twin 0", file=planted)
    os._exit(0)
if os.fork() == 0:
    open("/proc/self/comm", "w").write("supervisor")
    time.sleep(0.8)
    os.kill(os.getppid(), signal.SIGUSR1)
    os._exit(0)
try:
    select.poll().poll(5000)
except Signalled:
    pass

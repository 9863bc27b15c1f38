# cause: a fork copies a lock that another thread holds: the child waits for it, and no thread of the child can give it back
# size: $long s
# ask: record -- timeout 2 $0
# who: $child
# says: futex
# says: may have copied a held lock
# never: clock_nanosleep
# json: killed signal.name=SIGTERM
import os, threading, time
twin = "TWIN" in os.environ
lock, held, over = threading.Lock(), threading.Event(), threading.Event()
def logger():
    with lock:
        held.set()
        over.wait(0.2)
holder = threading.Thread(target=logger)
holder.start()
held.wait()
if twin:
    holder.join()
stat = open("/proc/self/stat").read()
born = int(stat.rsplit(")")[-1].split()[19]) / os.sysconf("SC_CLK_TCK")
child = os.fork()
if child == 0:
    with lock:
        os._exit(0)
with open(os.environ["PLANTED"], "a") as planted:
    now = float(open("/proc/uptime").read().split()[0])
    print("child", child, "\nlong", 2 - (now - born), "\ntwin 0", file=planted)
os.waitpid(child, 0)
while twin and time.process_time() < 0.3:
    pass

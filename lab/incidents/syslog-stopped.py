# cause: a program writes log lines to a unix datagram socket; its reader is stopped, and the queue is full
# size: $long s
# ask: record -- $0
# who: logd
# says: stopped
# json: contributors comm=logd
import os, signal, socket, time
twin = "TWIN" in os.environ
reader = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
reader.bind("log.sock")
ready, told = os.pipe()
logd = os.fork()
if logd == 0:
    open("/proc/self/comm", "w").write("logd")
    os.write(told, b"x")
    while True:
        reader.recv(1000)
os.read(ready, 1)
reader.close()
if not twin:
    os.kill(logd, signal.SIGSTOP)
    if os.fork() == 0:
        open("/proc/self/comm", "w").write("operator")
        time.sleep(1)
        os.kill(logd, signal.SIGCONT)
        os._exit(0)
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.connect("log.sock")
longest = 0
for line in range(300):
    began = time.monotonic()
    log.send(b"request %d done" % line)
    longest = max(longest, time.monotonic() - began)
with open(os.environ["PLANTED"], "a") as planted:
    print("long", longest, "\ntwin", longest, file=planted)
while twin and time.process_time() < 0.4:
    pass
os.kill(logd, signal.SIGKILL)

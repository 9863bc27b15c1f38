# cause: a server on this host accepts nothing for 1.2 s, and the accept queue of its unix socket is full
# size: $long s
# ask: record -- $0
# who: authserver
# says: accept queue
# short: sleeping
# json: contributors kind=timer comm=authserver
import os, signal, socket, time
twin = "TWIN" in os.environ
listener = socket.socket(socket.AF_UNIX)
listener.bind("auth.sock")
listener.listen(1)
crowd = [socket.socket(socket.AF_UNIX) for client in range(0 if twin else 2)]
for client in crowd:
    client.connect("auth.sock")
server = os.fork()
if server == 0:
    open("/proc/self/comm", "w").write("authserver")
    time.sleep(0 if twin else 1.2)
    while True:
        listener.accept()
late, began = socket.socket(socket.AF_UNIX), time.monotonic()
late.connect("auth.sock")
long = time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin", long, file=planted)
while twin and time.process_time() < 0.6:
    pass
os.kill(server, signal.SIGKILL)
os.remove("auth.sock")

# cause: a server tries to bind its port every 200 ms, which the server before it still has
# size: $long s
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: 127.0.0.1:$port
# says: EADDRINUSE
# short: sleeping
# json: rows code=timer
import os, socket, time
twin = "TWIN" in os.environ
def blocked():
    delayed = int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
    return time.monotonic() - time.thread_time() - delayed
before = socket.create_server(("127.0.0.1", 0))
port = before.getsockname()[1]
if twin:
    before.close()
elif os.fork() == 0:
    open("/proc/self/comm", "w").write("oldserver")
    time.sleep(1.3)
    os._exit(0)
before.close()
mine, long = socket.socket(), 0
while True:
    try:
        mine.bind(("127.0.0.1", port))
        break
    except OSError:
        began = blocked()
        time.sleep(0.2)
        long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("port", port, "\nlong", long, "\ntwin", long, file=planted)
while twin and time.process_time() < 0.6:
    pass

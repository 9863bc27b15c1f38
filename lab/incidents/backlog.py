# cause: a server on this host accepts nothing for 1.5 s, and its accept queue is full: connect is answered when its SYN is sent again the second time
# size: $long s
# ask: record -- $0
# who: 127.0.0.1:$port
# who: crowded
# says: accept queue
# short: SYN
# never: sleeping
# json: segments call=connect object.name~127.0.0.1:$port
import os, signal, socket, time
twin = "TWIN" in os.environ
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(1)
crowd = [socket.create_connection(listener.getsockname()) for client in range(0 if twin else 2)]
server = os.fork()
if server == 0:
    open("/proc/self/comm", "w").write("crowded")
    time.sleep(0 if twin else 1.5)
    while True:
        listener.accept()
late = socket.socket()
began = time.monotonic()
late.connect(listener.getsockname())
long = time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("port", listener.getsockname()[1], "\nlong", long, "\ntwin", long, file=planted)
while twin and time.process_time() < 0.6:
    pass
os.kill(server, signal.SIGKILL)

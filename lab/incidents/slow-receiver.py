# cause: the receiver of a TCP connection is slow; the sender waits for its window
# size: 800 ms
# ask: record -- $0
# who: archiver
# says: sleeping
# json: contributors kind=timer comm=archiver
import os, socket, time
twin = "TWIN" in os.environ
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
listener.bind(("127.0.0.1", 0))
listener.listen()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("archiver")
    receiver, _ = listener.accept()
    time.sleep(0 if twin else 0.8)
    while receiver.recv(1 << 20):
        pass
    os._exit(0)
sender = socket.create_connection(listener.getsockname())
sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
began = time.monotonic()
sender.sendall(bytes(8 << 20))
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass

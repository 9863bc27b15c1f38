# cause: an event loop waits by time-outs of 100 ms for a backend, which computes for 900 ms
# size: 900 ms
# ask: record -- $0
# who: backend
# says: running
# short: time-out
# json: contributors kind=running comm=backend
import os, select, socket, time
twin = "TWIN" in os.environ
client, server = socket.socketpair()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("backend")
    server.recv(9)
    began = time.process_time()
    while not twin and time.process_time() - began < 0.9:
        pass
    server.send(b"answer")
    os._exit(0)
events = select.epoll()
events.register(client, select.EPOLLIN)
if twin:
    time.sleep(0.9)
client.send(b"question")
began = time.monotonic()
while not events.poll(0.1):
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)

# cause: a server computes its answer; the client polls for it in steps of 200 ms, like curl
# size: 700 ms
# ask: record -- $0
# who: backend
# says: running
# json: contributors kind=running comm=backend
import os, select, socket, time
twin = "TWIN" in os.environ
client, server = socket.socketpair()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("backend")
    server.recv(9)
    began = time.process_time()
    while not twin and time.process_time() - began < 0.7:
        pass
    server.send(b"answer")
    os._exit(0)
if twin:
    time.sleep(0.7)
began = time.monotonic()
client.send(b"question")
answers = select.poll()
answers.register(client, select.POLLIN)
while not answers.poll(200):
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)

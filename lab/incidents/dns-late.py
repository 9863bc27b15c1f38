# cause: a name server answers after 300 ms, twice
# size: 600 ms
# ask: record -- $0
# who: resolver
# says: sleeping
# json: contributors kind=timer comm=resolver
import os, socket, time
twin = "TWIN" in os.environ
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.connect(server.getsockname())
if os.fork() == 0:
    open("/proc/self/comm", "w").write("resolver")
    for answer in range(2):
        question, client = server.recvfrom(512)
        time.sleep(0 if twin else 0.3)
        server.sendto(b"127.0.0.1", client)
    os._exit(0)
while twin and time.process_time() < 0.6:
    pass
began = time.monotonic()
for name in range(2):
    asked.send(b"example.org?")
    asked.recv(512)
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)

# cause: curl tries a port once a second, on which nothing listens yet
# size: 3 s
# needs: curl
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: 127.0.0.1:$port
# says: ECONNREFUSED
# short: sleeping
# short: time-out
# json: rows code~time
import os, signal, socket, subprocess, time
twin = "TWIN" in os.environ
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
server = os.fork()
if server == 0:
    open("/proc/self/comm", "w").write("lateserver")
    time.sleep(0 if twin else 2.5)
    listener.listen()
    while True:
        client, _ = listener.accept()
        client.recv(1000)
        client.send(b"HTTP/1.0 204 No Content\r\n\r\n")
        client.close()
time.sleep(0.1 if twin else 0)
port, began = listener.getsockname()[1], time.monotonic()
curl = ["curl", "-s", "--retry", "20", "--retry-delay", "1", "--retry-connrefused", f"http://127.0.0.1:{port}/"]
subprocess.run(curl, check=True)
with open(os.environ["PLANTED"], "a") as planted:
    print("port", port, "\ntwin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass
os.kill(server, signal.SIGKILL)

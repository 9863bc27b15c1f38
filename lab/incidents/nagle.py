# cause: write, write, read without TCP_NODELAY: the second write waits for a delayed acknowledgement
# size: $long s
# ask: record -- $0
# who: 127.0.0.1:$writer
# says: delayed
# never: sleeping
# json: segments call=recvfrom cause.from~:$port
import os, socket, threading, time
listener = socket.create_server(("127.0.0.1", 0))
def serve():
    connection, _ = listener.accept()
    while connection.recv(4, socket.MSG_WAITALL):
        connection.recv(4, socket.MSG_WAITALL)
        connection.send(b"answer")
threading.Thread(target=serve, daemon=True).start()
client = socket.create_connection(listener.getsockname())
if "TWIN" in os.environ:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
long = 0
for request in range(20):
    client.send(b"head")
    client.send(b"body")
    began = time.monotonic()
    client.recv(6)
    long += time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("port", listener.getsockname()[1], "\nwriter", client.getsockname()[1], "\nlong", long, "\ntwin", long, file=planted)

# cause: a server writes its answer in two small parts without TCP_NODELAY: its kernel holds the second one until the client's delayed acknowledgement
# size: $long s
# ask: record -- $0
# who: 127.0.0.1:$port
# who: quotes
# says: delayed acknowledgement
# says: Nagle
# short: delayed acknowledgement
# never: sleeping
# json: rows code=delayed_acknowledgement
import os, signal, socket, time
def blocked():
    delayed = int(open("/proc/thread-self/schedstat").read().split()[1]) / 1e9
    return time.monotonic() - time.thread_time() - delayed
listener = socket.create_server(("127.0.0.1", 0))
server = os.fork()
if server == 0:
    open("/proc/self/comm", "w").write("quotes")
    connection, _ = listener.accept()
    if "TWIN" in os.environ:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(1):
        connection.send(b"head")
        connection.send(b"body")
client = socket.create_connection(listener.getsockname())
long = 0
for request in range(25):
    client.send(b"?")
    client.recv(4, socket.MSG_WAITALL)
    began = blocked()
    client.recv(4, socket.MSG_WAITALL)
    long += blocked() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("port", listener.getsockname()[1], "\nlong", long, "\ntwin", long, file=planted)
os.kill(server, signal.SIGKILL)

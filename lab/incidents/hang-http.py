# cause: a client waits for the answer of a server on this host, which sleeps
# size: 2 s
# ask: record -p $pid -d 2
# who: shopapi
# says: clock_nanosleep
# json: open_chains.waits tid=$pid call=recvfrom
# json: open_chains circle=false
# twin: shopapi
import os, signal, socket, time
listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    open("/proc/self/comm", "w").write("shopapi")
    connection, _ = listener.accept()
    connection.recv(100)
    if "TWIN" in os.environ:
        connection.send(b"HTTP/1.0 204 No Content\r\n\r\n")
    time.sleep(60)
    os._exit(0)
client = os.fork()
if client == 0:
    connection = socket.create_connection(listener.getsockname())
    listener.close()
    connection.send(b"GET / HTTP/1.0\r\n\r\n")
    connection.recv(100)
    signal.pause()
listener.close()
time.sleep(0.5)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", client, "\ntwin 0", "\nready", file=planted)
signal.pause()

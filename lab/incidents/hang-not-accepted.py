# cause: a client waits for an answer on a connection that its server has not accepted, since it sleeps
# size: 2 s
# ask: record -p $pid -d 2
# who: sleepyserver
# says: not accepted
# json: open_chains.waits tid=$pid call=recvfrom
# json: open_chains circle=false
# twin: sleepyserver
# twin: not accepted
import os, signal, socket, time
listener = socket.create_server(("127.0.0.1", 0))
address = listener.getsockname()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("sleepyserver")
    if "TWIN" in os.environ:
        connection, _ = listener.accept()
        connection.send(b"welcome")
    time.sleep(60)
    os._exit(0)
listener.close()
client = os.fork()
if client == 0:
    connection = socket.create_connection(address)
    connection.recv(100)
    signal.pause()
time.sleep(0.5)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", client, "\ntwin 0", "\nready", file=planted)
signal.pause()

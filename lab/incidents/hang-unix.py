# cause: a client waits on a unix socket for a server, which waits for a file's lock; the process that has it sleeps
# size: 2 s
# ask: record -p $pid -d 2
# who: authserver
# who: backup
# says: clock_nanosleep
# json: open_chains.waits tid=$pid call=recvfrom
# json: open_chains circle=false
# twin: authserver
# twin: backup
import fcntl, os, signal, socket, time
twin = "TWIN" in os.environ
listener = socket.socket(socket.AF_UNIX)
listener.bind("auth.sock")
listener.listen()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("backup")
    listener.close()
    table = open("users", "w")
    if not twin:
        fcntl.flock(table, fcntl.LOCK_EX)
    time.sleep(60)
    os._exit(0)
time.sleep(0.3)
if os.fork() == 0:
    open("/proc/self/comm", "w").write("authserver")
    connection, _ = listener.accept()
    connection.recv(100)
    fcntl.flock(open("users"), fcntl.LOCK_EX)
    connection.send(b"yes")
    signal.pause()
listener.close()
client = os.fork()
if client == 0:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("auth.sock")
    connection.send(b"may I?")
    connection.recv(100)
    signal.pause()
time.sleep(0.5)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", client, "\ntwin 0", "\nready", file=planted)
signal.pause()

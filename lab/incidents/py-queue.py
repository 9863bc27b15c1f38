# cause: a thread asks a queue each 200 ms; its producer waits 1.2 s for a sleeping server
# size: $long s
# ask: record -- $0
# who: stockd
# says: sleeping
# json: contributors kind=timer comm=stockd
import os, queue, socket, threading, time
twin = "TWIN" in os.environ
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
if os.fork() == 0:
    open("/proc/self/comm", "w").write("stockd")
    connection, _ = listener.accept()
    connection.recv(10)
    if not twin:
        time.sleep(1.2)
    connection.send(b"7")
    os._exit(0)
orders = queue.Queue()
def fetch():
    open("/proc/thread-self/comm", "w").write("fetcher")
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.send(b"?")
        orders.put(server.recv(10))
threading.Thread(target=fetch).start()
began = time.monotonic()
while True:
    try:
        orders.get(timeout=0.2)
        break
    except queue.Empty:
        pass
took = time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", took, "\ntwin", took, file=planted)
while twin and time.process_time() < 0.4:
    pass

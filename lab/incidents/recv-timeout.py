# cause: an answer does not come; recv gives up after its time-out
# size: 700 ms
# ask: record -- $0
# who: 127.0.0.1:$port
# says: time-out: nothing came
# never: sleeping
# json: segments call=recvfrom kind=timer object.name~127.0.0.1:$port
import os, socket, struct, time
twin = "TWIN" in os.environ
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 700000))
with open(os.environ["PLANTED"], "a") as planted:
    print("port", listener.getsockname()[1], file=planted)
client.send(b"question")
if twin:
    listener.accept()[0].send(b"answer")
began = time.monotonic()
try:
    client.recv(9)
except BlockingIOError:
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass

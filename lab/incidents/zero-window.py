# cause: a receiver does not read, so that its window is closed; send gives up after its time-out
# size: 800 ms
# ask: record -- $0
# who: 127.0.0.1:$port
# says: time-out
# says: window was closed
# never: sleeping
# never: nothing came
# json: segments call=sendto kind=timer object.name~127.0.0.1:$port
import os, socket, struct, threading, time
twin = "TWIN" in os.environ
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
listener.bind(("127.0.0.1", 0))
listener.listen()
sender = socket.create_connection(listener.getsockname())
receiver, _ = listener.accept()
sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 800000))
with open(os.environ["PLANTED"], "a") as planted:
    print("port", listener.getsockname()[1], file=planted)
# The rest of the buffers is filled first, so that one wait takes the whole time.
sender.setblocking(False)
for pause in range(3):
    try:
        while sender.send(bytes(1 << 16)):
            pass
    except BlockingIOError:
        time.sleep(0.02)
sender.setblocking(True)
def read():
    while receiver.recv(1 << 20):
        pass
if twin:
    threading.Thread(target=read, daemon=True).start()
began = time.monotonic()
try:
    sender.send(bytes(1 << 16))
except BlockingIOError:
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass

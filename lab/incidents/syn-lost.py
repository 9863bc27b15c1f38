# cause: the listen queue is full; connect is answered when the SYN is sent again, after 1 s
# size: $long s
# ask: record -- $0
# who: 127.0.0.1:$port
# says: SYN
# never: sleeping
# json: segments call=connect object.name~127.0.0.1:$port
import os, socket, threading, time
twin = "TWIN" in os.environ
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(0)
crowd = [socket.socket()]
if not twin:
    crowd[0].connect(listener.getsockname())
def accept():
    time.sleep(0.5)
    listener.accept()
threading.Thread(target=accept).start()
late = socket.socket()
began = time.monotonic()
late.connect(listener.getsockname())
with open(os.environ["PLANTED"], "a") as planted:
    print("port", listener.getsockname()[1], "\nlong", time.monotonic() - began, "\ntwin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass

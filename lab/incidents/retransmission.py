# cause: the network loses an answer; it comes when it is sent again
# size: $long s
# ask: record -- $0
# who: 127.0.0.1:$port
# says: lost data was sent again
# never: sleeping
# json: segments call=recvfrom cause.type=sent_again
import ctypes, os, socket, struct, threading, time
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
DROP_ALL = struct.pack("HBBI", 6, 0, 0, 0)
def serve():
    server.recv(9)
    # The filter of the client's socket drops what arrives: the kernel sends it again, later and later.
    code = ctypes.create_string_buffer(DROP_ALL)
    if "TWIN" not in os.environ:
        client.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", 1, ctypes.addressof(code)))
    server.send(b"answer")
    time.sleep(0.5)
    if "TWIN" not in os.environ:
        client.setsockopt(socket.SOL_SOCKET, 27, 0)
threading.Thread(target=serve).start()
client.send(b"question")
began = time.monotonic()
client.recv(9)
with open(os.environ["PLANTED"], "a") as planted:
    print("port", listener.getsockname()[1], "\nlong", time.monotonic() - began, "\ntwin", time.monotonic() - began, file=planted)

# cause: the name server on 127.0.0.77 does not answer the first AAAA question of curl, which waits 2 s and asks again
# size: 2 s
# needs: curl
# needs: unshare
# ask: record -- $0
# who: 127.0.0.77:53
# says: DNS
# says: nothing came
# short: nothing came
# never: sleeping
# json: segments call=poll object.name~127.0.0.77:53
import os, signal, socket, struct, subprocess, time
twin = "TWIN" in os.environ
web = socket.create_server(("127.0.0.1", 0))
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.77", 53))
def answer_names():
    silent = not twin
    while True:
        question, client = names.recvfrom(512)
        end = question.index(b"\0", 12) + 5
        kind, = struct.unpack(">H", question[end - 4:end - 2])
        head = question[:2] + b"\x81\x80\0\1"
        if kind == 28 and silent:
            silent = False
        elif kind == 28:
            names.sendto(head + bytes(6) + question[12:end], client)
        else:
            address = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton("127.0.0.1")
            names.sendto(head + b"\0\1\0\0\0\0" + question[12:end] + address, client)
def answer_web():
    while True:
        client, _ = web.accept()
        client.recv(1000)
        client.send(b"HTTP/1.0 204 No Content\r\n\r\n")
        client.close()
children = []
for name, serve in ("names", answer_names), ("web", answer_web):
    children.append(os.fork())
    if children[-1] == 0:
        open("/proc/self/comm", "w").write(name)
        serve()
open("resolv.conf", "w").write("nameserver 127.0.0.77\noptions timeout:2\n")
url = f"http://shop.example.test:{web.getsockname()[1]}/"
began = time.monotonic()
subprocess.run(["unshare", "-m", "sh", "-c", f"mount --bind resolv.conf /etc/resolv.conf && exec curl -s {url}"])
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)

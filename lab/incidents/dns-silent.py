# cause: a name server does not answer; poll times out twice
# size: 2 s
# ask: record -- $0
# who: 127.0.0.9:53
# says: nothing came
# never: sleeping
# json: segments call=poll object.name~127.0.0.9:53
import os, select, socket, time
twin = "TWIN" in os.environ
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.9", 53))
asked.connect(("127.0.0.9", 53))
answers = select.poll()
answers.register(asked, select.POLLIN)
began = time.monotonic()
for attempt in range(2):
    asked.send(b"example.org?")
    if twin:
        silent.sendto(b"127.0.0.1", silent.recvfrom(512)[1])
    if answers.poll(1000):
        asked.recv(512)
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass

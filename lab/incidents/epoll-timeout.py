# cause: a worker announces nothing through its pipe; epoll_wait times out twice
# size: 1 s
# ask: record -- $0
# who: epoll_wait
# says: time-out: nothing came
# never: sleeping
# json: segments call=epoll_wait kind=timer
import os, select, time
twin = "TWIN" in os.environ
reader, writer = os.pipe()
events = select.epoll()
events.register(reader, select.EPOLLIN)
if twin:
    os.write(writer, b"done")
began = time.monotonic()
for attempt in range(2):
    events.poll(0.5)
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass

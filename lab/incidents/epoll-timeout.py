# cause: a worker announces nothing through its pipe; epoll_wait times out twice
# size: 1 s
# ask: record -- $0
# who: epoll_wait
# says: time-out: nothing came
# never: sleeping
# json: segments call=epoll_wait kind=timer
import os, select
reader, writer = os.pipe()
events = select.epoll()
events.register(reader, select.EPOLLIN)
for attempt in range(2):
    events.poll(0.5)

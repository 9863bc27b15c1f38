# cause: the program itself sleeps between its attempts
# size: 800 ms
# ask: record -- $0
# who: clock_nanosleep
# says: sleeping
# json: contributors kind=timer call=clock_nanosleep
import time
for attempt in range(4):
    time.sleep(0.2)

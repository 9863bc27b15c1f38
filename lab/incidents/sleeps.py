# cause: the program itself sleeps between its attempts
# size: 800 ms
# ask: record -- $0
# who: clock_nanosleep
# says: sleeping
# json: contributors kind=timer call=clock_nanosleep
import os, time
twin = "TWIN" in os.environ
for attempt in range(4):
    time.sleep(0 if twin else 0.2)
with open(os.environ["PLANTED"], "a") as planted:
    print("twin 0", file=planted)
while twin and time.process_time() < 0.6:
    pass

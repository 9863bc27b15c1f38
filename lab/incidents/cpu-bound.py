# cause: the program itself computes
# size: 600 ms
# ask: record -- $0
# who: reports
# says: running
# json: contributors kind=running comm=reports
import os, time
open("/proc/self/comm", "w").write("reports")
if "TWIN" in os.environ:
    time.sleep(0.6)
began = time.process_time()
while "TWIN" not in os.environ and time.process_time() - began < 0.6:
    pass
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.process_time() - began, file=planted)

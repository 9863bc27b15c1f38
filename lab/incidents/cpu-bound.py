# cause: the program itself computes
# size: 600 ms
# ask: record -- $0
# who: reports
# says: running
# json: contributors kind=running comm=reports
import time
open("/proc/self/comm", "w").write("reports")
began = time.process_time()
while time.process_time() - began < 0.6:
    pass

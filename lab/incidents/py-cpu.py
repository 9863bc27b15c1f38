# cause: a Python program computes in its function `resolvable`
# size: $long s
# ask: record -- $0
# who: resolvable
# says: running
# short: running
# json: contributors kind=running comm=python3
# known: samples have the interpreter's functions; only `drill python:` reads Python's own
import itertools, os, time
open("/proc/self/comm", "w").write("python3")
twin = "TWIN" in os.environ
def resolvable(chosen):
    return all(a != b for a, b in zip(chosen, chosen[1:]))
def backtrack(length):
    return sum(1 for chosen in itertools.product(range(3), repeat=length) if resolvable(chosen))
began = time.process_time()
if twin:
    time.sleep(1)
else:
    backtrack(12)
with open(os.environ["PLANTED"], "a") as planted:
    print("long", time.process_time(), "\ntwin", time.process_time() - began, file=planted)

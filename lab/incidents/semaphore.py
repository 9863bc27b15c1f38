# cause: a semaphore of another process, which posts it after it has computed
# size: 600 ms
# ask: record -- $0
# who: printer
# says: running
# json: contributors kind=running comm=printer
import multiprocessing, os, time
twin = "TWIN" in os.environ
free = multiprocessing.Semaphore(0)
def printer():
    open("/proc/self/comm", "w").write("printer")
    began = time.process_time()
    while not twin and time.process_time() - began < 0.6:
        pass
    free.release()
process = multiprocessing.get_context("fork").Process(target=printer)
process.start()
if twin:
    time.sleep(0.6)
began = time.monotonic()
free.acquire()
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
process.join()

# cause: a semaphore of another process, which posts it after it has computed
# size: 600 ms
# ask: record -- $0
# who: printer
# says: running
# json: contributors kind=running comm=printer
import multiprocessing, time
free = multiprocessing.Semaphore(0)
def printer():
    open("/proc/self/comm", "w").write("printer")
    began = time.process_time()
    while time.process_time() - began < 0.6:
        pass
    free.release()
process = multiprocessing.get_context("fork").Process(target=printer)
process.start()
free.acquire()
process.join()

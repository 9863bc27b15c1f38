# cause: the workers of a pool sleep in their jobs
# size: 2 s
# ask: record -p $pid -d 2
# who: worker
# says: sleeping
# never: idle
# json: threads comm=worker sum=sleeping_ns
import concurrent.futures, os, time
twin = "TWIN" in os.environ
def job(number):
    open("/proc/thread-self/comm", "w").write("worker")
    began = time.process_time()
    while twin and time.process_time() - began < 0.5:
        pass
    time.sleep(0 if twin else 0.9)
pool = concurrent.futures.ThreadPoolExecutor(1)
jobs = [pool.submit(job, number) for number in range(60)]
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", os.getpid(), "\ntwin 0", "\nready", file=planted)
concurrent.futures.wait(jobs)

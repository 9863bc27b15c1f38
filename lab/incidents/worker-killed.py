# cause: another process kills a worker, whose parent waits for the answer until its time-out
# size: 1.5 s
# ask: record -- $0
# who: resizer
# who: janitor
# says: SIGKILL
# short: nothing came
# json: segments call=poll kind=timer
import os, select, signal, time
twin = "TWIN" in os.environ
answers, answer = os.pipe()
worker = os.fork()
if worker == 0:
    open("/proc/self/comm", "w").write("resizer")
    time.sleep(0 if twin else 60)
    os.write(answer, b"done")
    signal.pause()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("janitor")
    time.sleep(0.2)
    if not twin:
        os.kill(worker, signal.SIGKILL)
    os._exit(0)
poll, began = select.poll(), time.monotonic()
poll.register(answers, select.POLLIN)
poll.poll(1500)
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while twin and time.process_time() < 0.6:
    pass
if twin:
    os.kill(worker, signal.SIGTERM)

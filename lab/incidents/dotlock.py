# cause: a program tries to create a lock file with O_EXCL each 100 ms; another process removes it after 1.2 s
# size: $long s
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: spool.lock
# says: EEXIST
# short: sleeping
# json: contributors kind=timer call=clock_nanosleep
import os, time
twin = "TWIN" in os.environ
if os.path.exists("spool.lock"):
    os.unlink("spool.lock")
if not twin:
    open("spool.lock", "w").close()
    if os.fork() == 0:
        open("/proc/self/comm", "w").write("mailer")
        time.sleep(1.2)
        os.unlink("spool.lock")
        os._exit(0)
slept = 0
while True:
    try:
        os.close(os.open("spool.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        break
    except FileExistsError:
        began = time.monotonic()
        time.sleep(0.1)
        slept += time.monotonic() - began
with open(os.environ["PLANTED"], "a") as planted:
    print("long", slept, "\ntwin", slept, file=planted)
while twin and time.process_time() < 0.4:
    pass

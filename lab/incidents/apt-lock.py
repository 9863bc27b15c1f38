# cause: another process has apt's lock for 3.5 s; apt-get tries it once a second
# size: 4 s
# needs: apt-get
# ask: record -- $0
# ask: record --failed-calls -- $0
# who: lock-frontend
# who: unattended
# says: polling
# short: sleeping
# json: rows code=timer
# json: headline text~lock-frontend
import fcntl, os, subprocess, time
for folder in "state/lists/partial", "state/updates", "cache/archives/partial":
    os.makedirs(folder, exist_ok=True)
open("state/status", "w")
ready, locked = os.pipe()
if os.fork() == 0:
    open("/proc/self/comm", "w").write("unattended")
    lock = open("state/lock-frontend", "a+")
    if "TWIN" not in os.environ:
        fcntl.lockf(lock, fcntl.LOCK_EX)
    os.write(locked, b"1")
    time.sleep(3.5)
    os._exit(0)
os.read(ready, 1)
here, began = os.getcwd(), time.monotonic()
subprocess.run(["apt-get", "-q", "-o", f"Dir::State={here}/state", "-o", f"Dir::State::status={here}/state/status",
                "-o", f"Dir::Cache={here}/cache", "-o", "DPkg::Lock::Timeout=60", "install"],
               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
with open(os.environ["PLANTED"], "a") as planted:
    print("twin", time.monotonic() - began, file=planted)
while "TWIN" in os.environ and time.process_time() < 1:
    pass

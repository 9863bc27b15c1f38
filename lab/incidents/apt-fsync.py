# cause: dpkg syncs each unpacked file; the I/O limit of its cgroup, 150 writes a second, holds the requests back
# size: $long s
# needs: dpkg-deb
# ask: record -- $0
# who: shopdpkg
# who: dpkg
# says: I/O limit
# short: disk
# json: contributors code=io_limit
# twin: shopdpkg
# twin: I/O limit
import os, subprocess, time
root = "/sys/fs/cgroup"
v1 = os.path.exists(root + "/blkio/blkio.throttle.write_iops_device")
if not v1:
    open(root + "/cgroup.subtree_control", "w").write("+io")
group = (root + "/blkio" if v1 else root) + "/shopdpkg"
if os.path.exists(group):  # an earlier run's, with its limit
    os.rmdir(group)
os.makedirs(group)
subprocess.Popen(["sh", "-c", f"sleep 20; rmdir {group}"], start_new_session=True)
device = os.stat(".").st_dev
place = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
if os.path.exists(place + "/partition"):
    place = os.path.dirname(place)
disk = open(place + "/dev").read().strip()
def put(file, text):
    open(f"{group}/{file}", "w").write(text)
if "TWIN" not in os.environ:
    put(*(("blkio.throttle.write_iops_device", f"{disk} 150") if v1 else ("io.max", f"{disk} wiops=150")))
for folder in "many/DEBIAN", "many/opt/many", "db/info", "db/updates", "root":
    os.makedirs(folder, exist_ok=True)
open("db/status", "w"), open("db/available", "w")
open("many/DEBIAN/control", "w").write(
    "Package: many\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: many files\n")
for number in range(200):
    open(f"many/opt/many/{number}", "wb").write(os.urandom(2000))
subprocess.run(["dpkg-deb", "-b", "many", "many.deb"], check=True, stdout=subprocess.DEVNULL)
os.sync()
here, began = os.getcwd(), time.monotonic()
dpkg = subprocess.Popen(
    ["dpkg", "--log=dpkg.log", f"--admindir={here}/db", f"--instdir={here}/root", "-i", "many.deb"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    preexec_fn=lambda: put("cgroup.procs", "0"))
os.waitid(os.P_PID, dpkg.pid, os.WEXITED | os.WNOWAIT)
ran, delayed, _ = map(int, open(f"/proc/{dpkg.pid}/schedstat").read().split())
long = time.monotonic() - began - (ran + delayed) / 1e9
with open(os.environ["PLANTED"], "a") as planted:
    print("long", long, "\ntwin 0", file=planted)

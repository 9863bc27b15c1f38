# cause: nothing comes through a pipe; `timeout` kills the program 1 s after it began
# size: $long s
# ask: record -- timeout 1 $0
# who: pipe
# says: SIGTERM
# never: clock_nanosleep
# json: killed call=read signal.name=SIGTERM
import os, time
out, into = os.pipe()
stat = open("/proc/self/stat").read()
began = int(stat.rsplit(")")[-1].split()[19]) / os.sysconf("SC_CLK_TCK")
with open(os.environ["PLANTED"], "a") as planted:
    now = float(open("/proc/uptime").read().split()[0])
    print("long", 1 - (now - began), file=planted)
if "TWIN" in os.environ:
    os.write(into, b"1")
    with open(os.environ["PLANTED"], "a") as planted:
        print("twin 0", file=planted)
os.read(out, 1)
while "TWIN" in os.environ and time.process_time() < 0.2:
    pass

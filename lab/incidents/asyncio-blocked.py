# cause: a coroutine calls time.sleep, which blocks the event loop
# size: 1.6 s
# ask: record -p $pid -d 2
# who: webloop
# says: sleeping
# never: idle
# json: threads comm=webloop sum=sleeping_ns
import asyncio, os, time
open("/proc/self/comm", "w").write("webloop")
async def handle():
    while True:
        if "TWIN" in os.environ:
            await asyncio.sleep(0.4)
        else:
            time.sleep(0.4)
        await asyncio.sleep(0.1)
with open(os.environ["PLANTED"], "a") as planted:
    print("pid", os.getpid(), "\ntwin 0", "\nready", file=planted)
asyncio.run(handle())

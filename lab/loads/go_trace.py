"""The cost of goroutines by Go's execution trace, beside probes: go_trace.py WAKEPATH STEPS [PAIRS]

For each way of recording: a server's CPU time for each request, and its requests a second, beside the server alone in the same round. Prints
medians, and the least and the most.
"""

import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent / "go-trace"
CONNECTIONS = 8
SECONDS = 4
# The recorder is ready, and its calibration done.
READY_S = 2.5
WAYS = {
    "alone": None,
    "recorded": [],
    "--go-trace": ["--go-trace", "{address}"],
    "--goroutines": ["--goroutines=asked"],
}


def cpu_ns(pid):
    """The CPU time of a process's threads."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def run(folder, wakepath, way, steps, port):
    """A run: requests a second, and ns of CPU for each."""
    address = f"127.0.0.1:{port}"
    server = subprocess.Popen([folder / "server", address, steps])
    try:
        time.sleep(0.3)
        recorder = None
        if way is not None:
            options = [option.format(address=address) for option in way]
            command = [wakepath, "record", *options, "-p", str(server.pid), "-d", str(SECONDS + 4), "-o", folder / "rec"]
            recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(READY_S)
        before = cpu_ns(server.pid)
        client = [folder / "client", address, str(CONNECTIONS), f"{SECONDS}s"]
        answers = int(subprocess.run(client, check=True, capture_output=True, text=True).stdout)
        used = cpu_ns(server.pid) - before
        if recorder and recorder.wait() != 0:
            sys.exit(f"error: {command} failed")
        return answers / SECONDS, used / answers
    finally:
        server.kill()
        server.wait()


def main():
    wakepath, steps = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2]
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, package in [("server", "."), ("client", "./client")]:
            subprocess.run(["go", "build", "-o", folder / name, package], cwd=HERE, check=True)
        port, found = 7200, {way: [] for way in WAYS}
        for _ in range(pairs):
            for way in random.sample(list(WAYS), len(WAYS)):
                port += 1
                found[way].append(run(folder, wakepath, WAYS[way], steps, port))
    alone = statistics.median(cpu for _, cpu in found["alone"])
    print(f"{alone / 1e3:.0f} µs of CPU a request alone, {pairs} rounds, {os.cpu_count()} CPUs")
    for way in list(WAYS)[1:]:
        both = list(zip(found[way], found["alone"]))
        cpu = [100 * (own[1] / other[1] - 1) for own, other in both]
        speed = [100 * (own[0] / other[0] - 1) for own, other in both]
        text = f"CPU {statistics.median(cpu):+.1f}% ({min(cpu):+.1f} to {max(cpu):+.1f})"
        print(f"{way}: {text}, requests a second {statistics.median(speed):+.1f}%")


if __name__ == "__main__":
    main()

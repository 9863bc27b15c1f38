"""Writes 4 KiB again and again at the same place through O_DSYNC: dsync.py FILE SECONDS

Prints the seconds that all writes took, then the ns for each write, a line each.
"""

import os
import sys
import time

file, seconds = sys.argv[1], float(sys.argv[2])
there = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o600)
block = bytes(4096)
os.pwrite(there, block, 0)
took = []
begin = at = time.monotonic_ns()
while at < begin + seconds * 1e9:
    os.pwrite(there, block, 0)
    now = time.monotonic_ns()
    took.append(now - at)
    at = now
print((at - begin) / 1e9, *took, sep="\n")

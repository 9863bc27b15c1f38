"""The clock of a load or a program in Python: a line for each 0.1 s into the file DRILLED_CLOCK.

A line has the end of the window (ns of CLOCK_MONOTONIC), the calls in it, the ns they took together, and the longest one's ns.
"""

import os
import time

WINDOW_NS = 100_000_000
_file = open(os.environ["DRILLED_CLOCK"], "a", encoding="ascii")
_window = [time.monotonic_ns(), 0, 0, 0]

now = time.perf_counter


def lap(seconds):
    """Counts one call, and returns its seconds."""
    took, at = int(seconds * 1e9), time.monotonic_ns()
    _window[1] += 1
    _window[2] += took
    _window[3] = max(_window[3], took)
    if at - _window[0] >= WINDOW_NS:
        print(at, *_window[1:], file=_file, flush=True)
        _window[:] = at, 0, 0, 0
    return seconds

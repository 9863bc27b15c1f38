"""Asks an HTTP server again and again on one connection: ask.py ADDRESS PATH=TIMES...

Each path is asked TIMES times in each round. The clock is clock.py's.
"""

import http.client
import sys
import time

import clock

connection = http.client.HTTPConnection(sys.argv[1])
paths = [path for pair in sys.argv[2:] for path, times in [pair.rsplit("=", 1)] for _ in range(int(times))]
while True:
    for path in paths:
        began = clock.now()
        connection.request("GET", path)
        connection.getresponse().read()
        clock.lap(clock.now() - began)
        time.sleep(0.0003)

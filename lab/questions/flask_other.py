"""Flask: the service that fastapi_loop.py calls."""

import time

from flask import Flask, request

app = Flask(__name__)


@app.get("/sleepy")
def sleepy():
    time.sleep(int(request.args.get("ms", 300)) / 1e3)
    return "ok\n"


# SPDX-License-Identifier: MIT OR Apache-2.0
"""A shop of Django, gunicorn and PostgreSQL: two orders change the same row, and the first holds it while it waits for a payment.

    row_lock.py FOLDER

Starts the database (as `nobody`, since it refuses root) and the shop (two processes of four threads, under `opentelemetry-instrument`), asks for
both orders, and ends both. Prints for how long the second order was behind the first: from its UPDATE to the end of the first payment, ns, by the
shop's own clock.
The module is the shop's settings, its URLs and its application too.
"""

import http.client
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

SECRET_KEY = "none"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "row_lock"
MIDDLEWARE = []
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "nobody",
        "HOST": os.environ.get("SHOP_DATABASE", ""),
        "CONN_MAX_AGE": 60,
    }
}
PAYMENT_S = 0.5


def order(request, payment_s):
    from django.db import connection, transaction
    from django.http import HttpResponse

    with transaction.atomic():
        cursor = connection.cursor()
        began = time.monotonic_ns()
        cursor.execute("update stock set n = n - 1 where item = 1")
        if payment_s:
            # It holds the row. On a busy machine the second order could overtake it before.
            pathlib.Path(os.environ["SHOP_ORDERED"]).touch()
        time.sleep(payment_s)
        paid = time.monotonic_ns()
    return HttpResponse(f"{began} {paid}")


def warm(request):
    """Opens a thread's connection to the database, so that an order does not."""
    from django.db import connection
    from django.http import HttpResponse

    connection.cursor().execute("select 1")
    return HttpResponse("")


def application():
    from django.core.wsgi import get_wsgi_application

    return get_wsgi_application()


def urls():
    from django.urls import path

    slow = path("order/paid", order, {"payment_s": PAYMENT_S})
    return [slow, path("order/quick", order, {"payment_s": 0}), path("warm", warm)]


def __getattr__(name):
    # Django reads the settings before its URLs can be made.
    if name == "urlpatterns":
        return urls()
    raise AttributeError(name)


def ask(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200, answer.status
    return [int(number) for number in answer.read().split()]


def until(what, ready):
    deadline = time.monotonic() + 60
    while not ready():
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not start")
        time.sleep(0.05)


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main(folder):
    as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
    data, sockets = folder / "data", folder / "sockets"
    for one in (data, sockets):
        one.mkdir()
        subprocess.run(["chown", "nobody", one], check=True)
    subprocess.run([*as_nobody, "initdb", "-A", "trust", "-D", data], check=True, stdout=subprocess.DEVNULL)
    server = ["postgres", "-D", data, "-k", sockets, "-h", ""]
    database = subprocess.Popen([*as_nobody, *server], stderr=subprocess.DEVNULL)
    sql = ["psql", "-qAt", "-h", sockets, "-U", "nobody", "postgres", "-c"]
    make = "create table if not exists stock (item int primary key, n int); insert into stock values (1, 100)"
    until("the database", lambda: subprocess.run([*sql, make], stderr=subprocess.DEVNULL).returncode == 0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = pathlib.Path(__file__).resolve().parent
    ordered = folder / "ordered"
    environment = dict(os.environ, SHOP_DATABASE=str(sockets), DJANGO_SETTINGS_MODULE="row_lock")
    environment["SHOP_ORDERED"] = str(ordered)
    environment["PYTHONPATH"] = f"{here}:{environment.get('PYTHONPATH', '')}"
    beside = pathlib.Path(sys.executable).parent
    gunicorn = [beside / "gunicorn", "-w", "2", "-k", "gthread", "--threads", "4", "-b", f"127.0.0.1:{port}"]
    shop = subprocess.Popen(
        [beside / "opentelemetry-instrument", *gunicorn, "row_lock:application()"],
        env=environment,
        cwd=folder,
        stderr=subprocess.DEVNULL,
    )
    until("the shop", lambda: answers(port))
    warming = [threading.Thread(target=ask, args=(port, "/warm")) for _ in range(16)]
    for one in warming:
        one.start()
    for one in warming:
        one.join()
    said = {}
    paid = threading.Thread(target=lambda: said.update(paid=ask(port, "/order/paid")))
    paid.start()
    until("the first order", ordered.exists)
    time.sleep(0.05)
    said["quick"] = ask(port, "/order/quick")
    paid.join()
    for one in (shop, database):
        one.send_signal(signal.SIGTERM if one is shop else signal.SIGINT)
        one.wait()
    print(f"behind_ns {said['paid'][1] - said['quick'][0]}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

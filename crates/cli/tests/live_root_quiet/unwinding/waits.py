"""Waits in recv and in sleep, from Python."""
import socket
import threading
import time

receiver, sender = socket.socketpair()


def answer():
    for _ in range(200):
        time.sleep(0.008)
        sender.send(b"x")


def wait_for_answer():
    receiver.recv(1)


thread = threading.Thread(target=answer)
thread.start()
for _ in range(200):
    wait_for_answer()
thread.join()
time.sleep(0.5)

"""The servers, clients and recorders that a measurement starts, and a directory of their own; all of it goes at the end.

Servers and clients run as the user `postgres`, since PostgreSQL refuses root. The kernel ends each with this program
(`setpriv --pdeathsig`), so that none stays where this program is killed.
"""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

USER = "postgres"
# Memory is no disk, and an overlay adds its own work to each write.
NOT_A_DISK = {"tmpfs", "ramfs", "overlayfs"}
PATIENCE_S = 60


class Failed(Exception):
    """A program that failed, and its output."""


def as_user(signal_at_the_end, *command):
    return ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--pdeathsig", signal_at_the_end, *map(str, command)]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Machine:
    """A directory for data and another for recordings, and the servers that run in the first."""

    def __init__(self, parent):
        kind = subprocess.run(["stat", "-f", "-c", "%T", parent], capture_output=True, text=True).stdout.strip()
        if kind in NOT_A_DISK or not kind:
            raise Failed(f"{parent} is on {kind or 'no file system'}, not on a disk: name another directory with --directory")
        try:
            pwd.getpwnam(USER)
        except KeyError:
            raise Failed(f"no user {USER}, as whom servers run: packaging/setup loads") from None
        self.whole = pathlib.Path(tempfile.mkdtemp(prefix="wakepath-loads.", dir=parent))
        self.servers = []
        self.directory, self.recordings = self.whole / "load", self.whole / "recordings"
        self.whole.chmod(0o711)
        self.directory.mkdir(0o700)
        shutil.chown(self.directory, USER, USER)
        # The recorder writes only where no other user could have put a link.
        self.recordings.mkdir(0o700)
        # No variable of the caller (PGHOST, PGDATA) leads a client to another server.
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self.directory), "TZ": "UTC"}

    def run(self, *command):
        """Runs a client to its end, and returns its output."""
        try:
            done = subprocess.run(
                as_user("KILL", *command),
                cwd=self.directory,
                env=self.environment,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=5 * PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"`{command[0]}` did not end within {5 * PATIENCE_S} s") from None
        if done.returncode != 0:
            raise Failed(f"`{command[0]}` ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done

    def serve(self, name, signal_at_the_end, is_ready, *command):
        """Starts a server, and waits until `is_ready`. Its output is in NAME.log."""
        with open(self.directory / f"{name}.log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                as_user(signal_at_the_end, *command),
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.servers.append((server, signal_at_the_end))
        end = time.monotonic() + PATIENCE_S
        while not is_ready():
            if server.poll() is not None or time.monotonic() > end:
                log = (self.directory / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                raise Failed(f"{name} did not start: {log.strip()[-1000:]}")
            time.sleep(0.05)
        return server.pid

    def stop_servers(self):
        """Stops all servers, the last started first."""
        while self.servers:
            server, signal_at_the_end = self.servers.pop()
            if server.poll() is None:
                server.send_signal(getattr(signal, f"SIG{signal_at_the_end}"))
                try:
                    server.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    # Its children are in its session.
                    os.killpg(server.pid, signal.SIGKILL)
                    server.wait()

    def close(self):
        try:
            self.stop_servers()
        finally:
            shutil.rmtree(self.whole, ignore_errors=True)


def listens(port):
    """Whether a server takes connections at a port of this host."""

    def try_it():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    return try_it


def cpu_seconds(pid):
    """The CPU time of a process with all its threads, also those that ended: its CPU clock, whose number the kernel derives from the pid."""
    return time.clock_gettime((~pid << 3) | 2)


class Recorder:
    """A session of `wakepath record`, and what it used between `begin` and `end`."""

    def __init__(self, program, options, targets, directory):
        self.place = directory / "recording"
        self.is_flight = "--flight" in options
        command = [program, "record", "--output", self.place, *options, *targets, "--json"]
        # A session of its own: Ctrl-C on the terminal reaches this program alone, which then ends the recorder.
        self.output = open(directory / "answer", "w+b")
        self.errors = open(directory / "errors", "w+b")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *map(str, command)],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.errors,
            start_new_session=True,
        )
        try:
            self.await_begin()
        except BaseException:
            self.kill()
            raise

    def size(self):
        """The bytes of the recording up to now."""
        total = 0
        for folder, _, files in os.walk(self.place):
            for file in files:
                # A file may be renamed or removed meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    total += os.stat(os.path.join(folder, file)).st_size
        return total

    def await_begin(self):
        """Waits until records come: a recording grows, a flight recorder has its file with its number."""
        end = time.monotonic() + PATIENCE_S
        sizes = set()
        while len(sizes) < 4 and not (self.is_flight and (self.place / "recorder").exists()):
            self.check()
            if time.monotonic() > end:
                raise Failed("`wakepath record` did not begin to record")
            size = self.size()
            if size:
                sizes.add(size)
            time.sleep(0.03)
        time.sleep(0.1)

    def check(self):
        if self.process.poll() is not None:
            self.errors.seek(0)
            text = self.errors.read().decode(errors="replace").strip()
            raise Failed(f"`wakepath record` ended by itself with {self.process.returncode}: {text or 'no message'}")

    def begin(self):
        self.check()
        self.began = time.monotonic(), cpu_seconds(self.process.pid), self.size()

    def end(self):
        """The share of a CPU that the recorder used, and the recording's bytes per second (`None` for a flight recorder)."""
        self.check()
        at, cpu, size = self.began
        seconds = time.monotonic() - at
        return (cpu_seconds(self.process.pid) - cpu) / seconds, None if self.is_flight else (self.size() - size) / seconds

    def stop(self):
        """Ends the recording and returns the number of lost records by its answer; `None` where it is not known."""
        self.check()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(2 * PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"`wakepath record` did not answer within {2 * PATIENCE_S} s") from None
        self.errors.seek(0)
        if self.process.returncode != 0:
            raise Failed(f"`wakepath record` ended with {self.process.returncode}: {self.errors.read().decode(errors='replace').strip()}")
        self.output.seek(0)
        answer = self.output.read()
        self.close()
        return None if self.is_flight else lost(answer)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.close()

    def close(self):
        self.output.close()
        self.errors.close()
        shutil.rmtree(self.place, ignore_errors=True)


def lost(answer):
    """The number of records that the recorder lost, in a document by `wakepath record --json`; `None` where a loss has no number.
    Switches that the kernel did not report are no losses of the recorder."""
    try:
        losses = json.loads(answer)["losses"]
        counts = [loss["count"] for loss in losses if loss["reported"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"the answer of `wakepath record --json` has no `losses`: {error!r}") from None
    return None if None in counts else sum(counts)

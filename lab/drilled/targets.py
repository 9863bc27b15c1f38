"""The targets: how each program is built, started and asked, and what it leaves behind; everything is in one temporary directory."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import time

CLIENTS = pathlib.Path(__file__).parent / "clients"
PYTHON = "/usr/bin/python3"
PATIENCE_S = 60
BUILD_S = 600
USER = "postgres"


class Skipped(Exception):
    """A compiler, a server or a source is missing here."""


class Failed(Exception):
    """A program that failed, and its output."""


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Skipped(f"no {program} here")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Running:
    """A process that is asked about, its target, and all that was started beside it."""

    def __init__(self, lab):
        self.lab = lab
        self.directory = lab.new_directory("run")
        self.directory.chmod(0o711)
        self.clock = self.directory / "clock"
        self.clock.touch()
        self.clock.chmod(0o666)
        self.environment = {**os.environ, "DRILLED_CLOCK": str(self.clock), "PYTHONPATH": str(CLIENTS), "LC_ALL": "C"}
        for name in ("PGHOST", "PGPORT", "PGDATA", "PGUSER"):
            self.environment.pop(name, None)
        self.processes = []
        self.pid = None

    def start(self, *command, user=None, environment=(), out="out", cwd=None):
        command = [str(word) for word in command]
        if user:
            command = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *command]
        # The kernel ends it with this program.
        command = ["setpriv", "--pdeathsig", "KILL", *command]
        with open(self.directory / out, "ab") as file:
            process = subprocess.Popen(
                command,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                cwd=cwd or self.directory,
                env={**self.environment, **dict(environment)},
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def run(self, *command, user=None):
        command = [str(word) for word in command]
        if user:
            command = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", *command]
        done = subprocess.run(command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=BUILD_S)
        if done.returncode:
            raise Failed(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout

    def said(self, out="out"):
        return (self.directory / out).read_text(errors="replace")

    def wait(self, ready, what):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for process in self.processes:
                if process.poll() is not None:
                    raise Failed(f"{process.args[-1]} ended with {process.returncode}: {self.said()[-300:]}")
            with contextlib.suppress(OSError, ValueError, IndexError):
                value = ready()
                if value:
                    return value
            time.sleep(0.05)
        raise Failed(f"{what}: not after {PATIENCE_S} s: {self.said()[-300:]}")

    def listens(self, port):
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True

    def ticks(self):
        self.wait(lambda: self.clock.stat().st_size, "the clock's first line")

    def alive(self):
        try:
            state = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state not in "ZX"

    def stop(self):
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                if process.poll() is None:
                    process.send_signal(signal.SIGINT if "postgres" in str(process.args) else signal.SIGTERM)
        end = time.monotonic() + 3
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.05, end - time.monotonic()))
            # The whole session: workers and children too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        shutil.rmtree(self.directory, ignore_errors=True)


def edited(text, edits, source):
    for was, instead in edits:
        if text.count(was) != 1:
            raise Failed(f"{source}: `{was}` stands {text.count(was)} times")
        text = text.replace(was, instead)
    return text


class Source:
    """A source in the directory of programs, and its edits: the clock around the call, the twin's, a build's own."""

    def __init__(self, name, *edits):
        self.name, self.edits = name, edits

    def text(self, lab, more=()):
        path = lab.programs / self.name
        if not path.exists():
            raise Skipped(f"no {self.name} in {lab.programs}")
        return edited(path.read_text(), (*self.edits, *more), self.name)


class Compiled:
    """A program by gcc, g++, clang or clang++, and its arguments."""

    def __init__(
        self,
        source,
        compiler,
        flags="-O2",
        args=(),
        environment=(),
        function="",
        edits=(),
        strip=False,
        target="{program}:{function}",
        gone=False,
    ):
        self.source, self.compiler, self.flags = source, compiler, flags
        self.args, self.environment, self.function = args, environment, function
        self.edits, self.strip, self.target, self.gone = edits, strip, target, gone

    def build(self, lab, more):
        needs(self.compiler)
        text = self.source.text(lab, (*self.edits, *more))
        key = (self.compiler, self.flags, self.strip, text)

        def compile(directory):
            file = directory / self.source.name
            file.write_text(text)
            program = directory / "app"
            command = [self.compiler, *self.flags.split(), "-w", "-include", CLIENTS / "clock.h", file, "-o", program, "-lpthread"]
            lab.build(command, directory)
            if self.strip:
                lab.build(["strip", program], directory)
            return program

        return lab.built(key, compile)

    def begin(self, lab, running, more=()):
        program = self.build(lab, more)
        if self.gone:
            program = shutil.copy(program, running.directory / "gone")
        running.pid = running.start(program, *self.args, environment=self.environment).pid
        if self.gone:
            running.ticks()
            program.unlink()
        return self.target.format(program=program, function=self.function, pid=running.pid)


class Rust(Compiled):
    def __init__(self, source, args=(), function="", edits=(), strip=False, flags="-O"):
        super().__init__(source, "rustc", flags, args, (), function, edits, strip)

    def build(self, lab, more):
        needs("rustc")
        text = (CLIENTS / "clock.rs").read_text() + self.source.text(lab, (*self.edits, *more))

        def compile(directory):
            file = directory / self.source.name
            file.write_text(text)
            program = directory / file.stem
            lab.build(["rustc", *self.flags.split(), "-Awarnings", "--edition", "2021", file, "-o", program], directory)
            if self.strip:
                lab.build(["strip", program], directory)
            return program

        return lab.built(("rustc", self.flags, self.strip, text), compile)


class Tokio:
    def __init__(self, source, cargo, paths, function, connections=1):
        self.source, self.cargo, self.paths, self.function, self.connections = source, cargo, paths, function, connections

    def begin(self, lab, running, more=()):
        needs("cargo")
        port = free_port()
        address = 'format!("127.0.0.1:{}",std::env::args().nth(1).unwrap())'
        text = self.source.text(lab, (('"127.0.0.1:17095"', address), *more))

        def compile(directory):
            (directory / "src").mkdir()
            (directory / "src/main.rs").write_text(text)
            (directory / "Cargo.toml").write_text(self.cargo.text(lab))
            command = ["cargo", "build", "--release", "--target-dir", lab.whole / "cargo"]
            try:
                lab.build([*command, "--offline"], directory)
            except Failed:
                lab.build(command, directory)
            return shutil.copy(lab.whole / "cargo/release/tok", directory / "tok")

        program = lab.built(("cargo", text), compile)
        running.pid = running.start(program, port).pid
        running.wait(lambda: running.listens(port), "the server")
        for _ in range(self.connections):
            running.start(PYTHON, CLIENTS / "ask.py", f"127.0.0.1:{port}", *self.paths)
        return f"{program}:{self.function}"


class Go:
    def __init__(self, source, flags=(), function=""):
        self.source, self.flags, self.function = source, flags, function

    def begin(self, lab, running, more=()):
        needs("go")
        text = self.source.text(lab, more)

        def compile(directory):
            (directory / "main.go").write_text(text)
            (directory / "go.mod").write_text("module svc\n\ngo 1.20\n")
            lab.build(["go", "build", *self.flags, "-o", "svc", "."], directory)
            return directory / "svc"

        program = lab.built(("go", self.flags, text), compile)
        port = free_port()
        running.pid = running.start(program, f"127.0.0.1:{port}").pid
        running.wait(lambda: running.listens(port), "the server")
        running.start(PYTHON, CLIENTS / "ask.py", f"127.0.0.1:{port}", "/=1")
        return f"{program}:{self.function}"


class Python:
    """A program for an interpreter; `version` is one of pyenv's, None is Debian's own."""

    def __init__(self, source, args=(), version=None, target="python:handle"):
        self.source, self.args, self.version, self.target = source, args, version, target

    def begin(self, lab, running, more=()):
        interpreter = pathlib.Path(PYTHON)
        if self.version:
            interpreter = pathlib.Path.home() / ".pyenv/versions" / self.version / "bin/python3"
        if not interpreter.exists():
            raise Skipped(f"no {interpreter} here")
        file = running.directory / self.source.name
        file.write_text(self.source.text(lab, more))
        running.pid = running.start(interpreter, "-B", file, *self.args).pid
        return self.target


class Redis:
    KEYS = 100_000

    def __init__(self, load, target, options=()):
        self.load, self.target, self.options = load, target, options

    def begin(self, lab, running, more=()):
        needs("redis-server")
        port = free_port()
        file = running.directory / self.load.name
        file.write_text(self.load.text(lab, (("17379", str(port)), *more)))
        running.pid = running.start("redis-server", "--port", port, "--save", "", "--dir", running.directory, *self.options).pid
        running.wait(lambda: running.listens(port), "redis")
        with socket.create_connection(("127.0.0.1", port)) as filling:
            replies = filling.makefile("rb")
            for first in range(0, self.KEYS, 1000):
                keys = [b"key:%012d" % key for key in range(first, first + 1000)]
                filling.sendall(b"".join(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$1\r\nv\r\n" % (len(key), key) for key in keys))
                for _ in keys:
                    replies.readline()
        running.start(PYTHON, "-B", file, 100_000)
        return self.target


class Postgres:
    def __init__(self, load, target):
        self.load, self.target = load, target

    def begin(self, lab, running, more=()):
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda it: float(it.parent.name))
        if not programs:
            raise Skipped("no PostgreSQL here")
        try:
            pwd.getpwnam(USER)
        except KeyError:
            raise Skipped(f"no user {USER}") from None
        shutil.chown(running.directory, USER, USER)
        running.directory.chmod(0o755)
        port, data = free_port(), running.directory / "data"
        model = lab.built(("initdb",), lambda directory: self.made(lab, running, programs[-1], directory, port))
        shutil.copytree(model, data)
        running.run("chown", "-R", f"{USER}:{USER}", data)
        data.chmod(0o700)
        self.serve(running, programs[-1], data, port)
        file = running.directory / self.load.name
        file.write_text(self.load.text(lab, more).replace("17432", str(port)))
        client = running.start(PYTHON, "-B", file, 100_000, out="client")
        running.pid = running.wait(lambda: int(running.said("client").split()[0]), "the client's first line")
        return self.target

    def serve(self, running, programs, data, port):
        server = running.start(programs / "postgres", "-D", data, "-p", port, "-k", running.directory, user=USER)
        running.wait(
            lambda: running.run(programs / "pg_isready", "-h", "127.0.0.1", "-p", port) if self.ready(programs, port) else "", "PostgreSQL"
        )
        return server

    @staticmethod
    def ready(programs, port):
        return subprocess.run([programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)], capture_output=True).returncode == 0

    def made(self, lab, running, programs, directory, port):
        """A data directory with pgbench's tables, made once."""
        shutil.chown(directory, USER, USER)
        data = directory / "data"
        running.run(programs / "initdb", "-A", "trust", "-D", data, user=USER)
        server = self.serve(running, programs, data, port)
        running.run(programs / "pgbench", "-h", "127.0.0.1", "-p", port, "-U", USER, "-i", "-s", "5", "-q", "postgres", user=USER)
        server.send_signal(signal.SIGINT)
        server.wait(30)
        running.processes.remove(server)
        return data


class Nginx:
    CONF = """daemon off; worker_processes 1; user root; pid {at}/pid; error_log {at}/errors;
events {{}}
http {{
  access_log off; default_type text/plain; keepalive_requests 100000000;
  client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
  server {{ listen 127.0.0.1:{up}; location / {{ return 200 "up"; }} }}
  server {{ listen 127.0.0.1:{port}; root {at}/files; location /gz/ {{ gzip on; gzip_comp_level 6; gzip_types text/plain; }}
    location /up/ {{ proxy_pass http://127.0.0.1:{up}; }} }}
}}
"""

    def __init__(self, load, target):
        self.load, self.target = load, target

    def begin(self, lab, running, more=()):
        needs("nginx")
        port, up = free_port(), free_port()
        files = running.directory / "files"
        (files / "gz").mkdir(parents=True)
        (files / "small.txt").write_text("small\n")
        # Text that compresses, but not at once.
        (files / "gz/big.txt").write_text("".join(f"{number * 2654435761 % 4294967296:x} line {number}\n" for number in range(30_000)))
        conf = running.directory / "conf"
        conf.write_text(self.CONF.format(at=running.directory, port=port, up=up))
        server = running.start("nginx", "-c", conf)
        running.wait(lambda: running.listens(port), "nginx")
        children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children")
        running.pid = running.wait(lambda: int(children.read_text().split()[0]), "nginx's worker")
        file = running.directory / self.load.name
        file.write_text(self.load.text(lab, (("17080", str(port)), *more)))
        running.start(PYTHON, "-B", file, 100_000)
        return self.target


class Other:
    """A program that is there, by a command whose words may name {directory}."""

    def __init__(self, command, target, clocked=False, files=()):
        self.command, self.target, self.clocked, self.files = command, target, clocked, files

    def begin(self, lab, running, more=()):
        needs(self.command[0])
        for name, text in self.files:
            (running.directory / name).write_text(text)
        running.pid = running.start(*(word.format(directory=running.directory) for word in self.command)).pid
        time.sleep(1)
        return self.target.format(pid=running.pid)

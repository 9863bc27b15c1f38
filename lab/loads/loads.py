"""The loads: how each is prepared, run once for some seconds, and read."""

import pathlib
import sys

import machine
import reports

POSTGRES = "/usr/lib/postgresql"
CLIENTS = 8
# The writes by the first dd in a run, when the speed is not known: at 4 ms each a quarter of a second.
MIN_DD_WRITES = 64


class Load:
    """A load. `targets` chooses the recorded processes, as a user would; `seconds` is the length of a run, in which a 99th percentile
    should have thousands of operations."""

    name = ""
    rows = ()
    seconds = 2

    def __init__(self, host):
        self.host = host
        self.targets = ["-a"]

    def prepare(self):
        """Starts the servers and makes the data."""

    def run(self):
        """Runs once, and returns figures for each row."""
        raise NotImplementedError


def postgres_programs():
    """The directory with the newest PostgreSQL's programs."""
    programs = sorted(pathlib.Path(POSTGRES).glob("*/bin/postgres"), key=lambda it: float(it.parent.parent.name))
    if not programs:
        raise machine.Failed(f"no PostgreSQL below {POSTGRES}: packaging/setup loads")
    return programs[-1].parent


class Postgres(Load):
    """A cluster of its own, without checkpoints and vacuums meanwhile, which come by their own time and would hit some runs alone."""

    def postgres(self):
        programs = postgres_programs()
        data = self.host.directory / "data"
        self.host.run(programs / "initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", data)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.host.directory,
            "shared_buffers": "1GB",
            "max_wal_size": "16GB",
            "checkpoint_timeout": "1d",
            "autovacuum": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        socket = self.host.directory / ".s.PGSQL.5432"
        # QUIT stops PostgreSQL at once: without its clients, and without writing data that are removed.
        pid = self.host.serve("postgres", "QUIT", socket.exists, programs / "postgres", "-D", data, *options)
        self.targets = ["-p", str(pid)]
        self.at = ["-h", self.host.directory, "-U", "postgres"]
        self.programs = programs
        for _ in range(100):
            try:
                self.host.run(programs / "pg_isready", "-q", *self.at)
                return
            except machine.Failed:
                machine.time.sleep(0.1)
        raise machine.Failed("PostgreSQL takes no connections")


class Pgbench(Postgres):
    script = []
    scale = 20

    def prepare(self):
        self.postgres()
        self.host.run(self.programs / "pgbench", *self.at, "-i", "-q", "-s", self.scale, "postgres")

    def run(self):
        log = self.host.directory / "transactions"
        report = self.host.run(
            self.programs / "pgbench", *self.at, "-n", "-c", CLIENTS, "-j", 2, "-T", self.seconds, "--log", f"--log-prefix={log}",
            *self.script, "postgres",
        )  # fmt: skip
        logs = []
        for file in self.host.directory.glob("transactions.*"):
            logs.append(file.read_text(encoding="ascii"))
            file.unlink()
        return [reports.pgbench(self.name, report.stdout, logs)]


class TpcB(Pgbench):
    name = "pgbench, TPC-B"
    rows = (name,)


class SelectOnly(Pgbench):
    name = "pgbench, select only"
    rows = (name,)
    script = ["-S"]
    seconds = 1


class Sysbench(Postgres):
    name = "sysbench oltp_read_write"
    rows = (name,)

    def prepare(self):
        self.postgres()
        self.host.run(self.programs / "createdb", *self.at, "sbtest")
        self.sysbench("prepare")

    def sysbench(self, *command):
        return self.host.run(
            "sysbench", "oltp_read_write", "--db-driver=pgsql", f"--pgsql-host={self.host.directory}", "--pgsql-user=postgres",
            "--pgsql-db=sbtest", "--tables=4", "--table-size=25000", f"--threads={CLIENTS}", f"--time={self.seconds}", "--percentile=99",
            "--histogram=on", *command,
        )  # fmt: skip

    def run(self):
        return [reports.sysbench(self.name, self.sysbench("run").stdout)]


class Redis(Load):
    name = "redis-benchmark"
    rows = ("redis SET", "redis GET")
    pipeline = 1

    def prepare(self):
        port = machine.free_port()
        pid = self.host.serve(
            "redis", "TERM", machine.listens(port), "redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
            "--dir", self.host.directory,
        )  # fmt: skip
        self.targets = ["-p", str(pid)]
        self.port = port
        # redis-benchmark takes a number of requests, no time: the number by the speed of a first run.
        figures = self.benchmark(100_000)
        self.requests = int(min(it.throughput for it in figures) * self.seconds / len(figures))

    def benchmark(self, requests):
        report = self.host.run(
            "redis-benchmark", "-h", "127.0.0.1", "-p", self.port, "-t", "set,get", "-n", requests, "-r", 100_000, "-P", self.pipeline, "--csv"
        )
        return reports.redis_benchmark(dict(zip(("SET", "GET"), self.rows)), report.stdout)

    def run(self):
        return self.benchmark(self.requests)


class RedisPipelined(Redis):
    name = "redis-benchmark, pipelined"
    rows = ("redis SET, 16 in a pipeline", "redis GET, 16 in a pipeline")
    pipeline = 16


class Iperf3(Load):
    name = "iperf3, loopback"
    rows = (name,)
    seconds = 1
    options = []

    def prepare(self):
        self.port = machine.free_port()
        pid = self.host.serve(
            "iperf3", "TERM", machine.listens(self.port), "iperf3", "--server", "--bind", "127.0.0.1", "--port", self.port
        )
        self.targets = ["-p", str(pid)]
        # The test for readiness was a connection, too, which the server first has to give up.
        machine.time.sleep(1)

    def run(self):
        report = self.host.run("iperf3", "--client", "127.0.0.1", "--port", self.port, "--time", self.seconds, "--json", *self.options)
        return [reports.iperf3(self.name, report.stdout)]


class Iperf3Pinned(Iperf3):
    """Where the scheduler puts the two ends decides the throughput, from run to run: here they stay where they are."""

    name = "iperf3, loopback, an end on each CPU"
    rows = (name,)
    options = ["--affinity", "0,1"]


class Dd(Load):
    """dd again and again for a second, whose reports have no latencies; then the same writes by a loop that times each."""

    name = "dd oflag=dsync"
    rows = (name, "pwrite, O_DSYNC")

    def prepare(self):
        # By its text: the other user may not be allowed to read this file.
        self.loop = pathlib.Path(__file__).with_name("dsync.py").read_text(encoding="utf-8")

    def run(self):
        output = f"of={self.host.directory / 'written'}"
        command = ["dd", "if=/dev/zero", output, "bs=4k", "conv=notrunc", "oflag=dsync"]
        end = machine.time.monotonic() + self.seconds / 2
        count, texts = MIN_DD_WRITES, []
        while not texts or machine.time.monotonic() < end:
            texts.append(self.host.run(*command, f"count={count}").stderr)
            # A quarter of a second at the last speed, which may fall to a tenth where another process holds the CPU.
            count = max(MIN_DD_WRITES, int(reports.dd(self.rows[0], texts[-1:]).throughput * 1e3 / 4096 / 4))
        loop = self.host.run(sys.executable, "-ES", "-c", self.loop, self.host.directory / "written", self.seconds / 2)
        return [reports.dd(self.rows[0], texts), reports.dsync(self.rows[1], loop.stdout)]


LOADS = [TpcB, SelectOnly, Sysbench, Redis, RedisPipelined, Iperf3, Iperf3Pinned, Dd]

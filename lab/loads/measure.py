"""Measures loads alone and recorded: the program behind packaging/bench-loads.

Prints the tables on stdout, progress on stderr. Exits with 1 where a load could not be measured.
"""

import argparse
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import loads
import machine
import page
import pairs
import reports

# The options of `wakepath record`, by the name in the tables.
MODES = {"–": [], "`--stacks`": ["--stacks"], "`--path-only`": ["--path-only"], "`--flight 10s`": ["--flight", "10s"]}
# Measured here; only the forecast depends on them.
SECONDS_BESIDE_A_RUN = 0.1
SECONDS_BESIDE_A_SESSION = 1.3
SECONDS_TO_PREPARE = 6.0


def say(text):
    print(f"bench-loads: {text}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(prog="packaging/bench-loads", description="Real loads, alone and recorded.")
    parser.add_argument("--quick", action="store_true", help="a few seconds for each load: to check this program, not to measure")
    parser.add_argument("--only", metavar="WORD", help="only loads with this word in their names")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds; each has two pairs for each mode [default: 5]")
    parser.add_argument("--directory", default="/var/tmp", help="where data and recordings go, on a disk [default: /var/tmp]")
    parser.add_argument("--program", default="target/release/wakepath", help="the recorder [default: target/release/wakepath]")
    given = parser.parse_args()
    if given.quick:
        given.rounds = 1
    if given.rounds < 1:
        parser.error("--rounds is 1 or more")
    return given


def measure_load(load, program, rounds, progress):
    """A load's rows, and what the recorder used in each session. Each block is: alone, a session with two runs, alone."""
    rows, sessions, last = {}, {}, None
    load.prepare()
    load.run()  # A first run fills caches; it does not count.
    for mode in pairs.blocks(list(MODES), rounds):
        runs = [load.run()]
        recorder = machine.Recorder(program, MODES[mode], load.targets, load.host.recordings)
        try:
            recorder.begin()
            runs += [load.run(), load.run()]
            cpu, size = recorder.end()
            lost = recorder.stop()
        except BaseException:
            recorder.kill()
            raise
        sessions.setdefault(mode, []).append((cpu, size, lost))
        runs.append(load.run())
        for index, name in enumerate(load.rows):
            row = rows.setdefault(name, page.Row(runs[0][index].unit))
            row.add_block(mode, [figures[index] for figures in runs])
            if last is not None:
                row.add_edge(last[index], runs[0][index])
        last = runs[-1]
        progress(load, mode, runs)
    # The last block has no other behind it: a run alone takes its place.
    after = load.run()
    for index, name in enumerate(load.rows):
        rows[name].add_edge(last[index], after[index])
    return rows, sessions


def machine_line(idle):
    def first(*command):
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError:
            return ""
        return ((done.stdout + done.stderr).strip().splitlines() or [""])[0]

    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.partition(": ")[2].strip() for line in file if line.startswith("model name")]
    virtual = first("systemd-detect-virt") not in ("", "none")
    # Each prints its version among other words: the words to keep.
    programs = [
        ([loads.postgres_programs() / "postgres", "--version"], slice(1, 3)),
        (["sysbench", "--version"], slice(0, 2)),
        (["redis-server", "--version"], slice(0, 3)),
        (["iperf3", "--version"], slice(0, 2)),
        (["dd", "--version"], slice(0, 3)),
    ]
    versions = [" ".join(first(*command).split(" ")[kept]).replace("(", "").replace(")", "") for command, kept in programs]
    model = models[0] if models else "CPU of an unknown model"
    return (
        f"Machine: {model}, {os.cpu_count()} CPUs{', virtual' if virtual else ''}; Linux {os.uname().release}; {', '.join(versions)}. "
        f"Load average before: {idle:.2f}."
    )


def main():
    given = arguments()
    program = pathlib.Path(given.program).resolve()
    if not os.access(program, os.X_OK):
        sys.exit(f"error: no recorder at {program}\nhint: make program, or --program PATH")
    if os.getuid() != 0:
        sys.exit("error: recording needs root\nhint: sudo packaging/bench-loads")
    chosen = [load for load in loads.LOADS if given.only is None or given.only in load.name]
    if not chosen:
        sys.exit(f"error: no load has `{given.only}` in its name\nhint: {'; '.join(load.name for load in loads.LOADS)}")

    def stop(number, _):
        # A second Ctrl-C does not disturb the end.
        for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(other, signal.SIG_IGN)
        say("stopping: ends servers, removes data")
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)

    idle = os.getloadavg()[0]
    if idle > 0.3 and not given.quick:
        say(f"warning: the load average is {idle:.2f}: other work on this machine widens every interval")
    if given.quick:
        for load in chosen:
            load.seconds = 1
    blocks = given.rounds * len(MODES)
    whole = sum(
        SECONDS_TO_PREPARE + blocks * (4 * (load.seconds + SECONDS_BESIDE_A_RUN) + SECONDS_BESIDE_A_SESSION) for load in chosen
    )
    say(f"{len(chosen)} loads, {len(MODES)} ways to record, {2 * given.rounds} pairs each: takes some {math.ceil(whole / 60)} minutes")
    about = machine_line(idle)
    began = time.monotonic()
    done = 0

    def progress(load, mode, runs):
        nonlocal done
        done += 1
        share = done / (len(chosen) * blocks)
        left = (time.monotonic() - began) * (1 / share - 1) / 60
        alone, first, second, after = (page.figure(it[0].throughput) for it in runs)
        say(f"{100 * share:3.0f}%, {left:4.1f} minutes left: {load.name}, {mode}: {alone} [{first} {second}] {after} {runs[0][0].unit}")

    rows, sessions, failures = {}, {}, {}
    for kind in chosen:
        before = done
        try:
            host = machine.Machine(given.directory)
            try:
                new_rows, sessions[kind.name] = measure_load(kind(host), program, given.rounds, progress)
                rows.update(new_rows)
            finally:
                host.close()
        except Exception as error:  # Whatever is wrong with a load, the figures of the others are kept.
            expected = isinstance(error, (machine.Failed, reports.Unreadable))
            failures[kind.name] = str(error) if expected else repr(error)
            done = before + blocks
            print(f"error: {kind.name}: {failures[kind.name]}", file=sys.stderr, flush=True)
    say(f"done after {(time.monotonic() - began) / 60:.1f} minutes")
    print(page.page(about, rows, sessions, list(MODES), given.rounds, failures), end="")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

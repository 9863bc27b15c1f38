"""The reports that loads print about themselves, read into figures.

A report in another form is an error with the missing piece, never a figure of zero.
"""

import json
import math
import re
from dataclasses import dataclass


class Unreadable(Exception):
    """A report without a figure that its program is known to print."""


@dataclass(frozen=True)
class Figures:
    """The figures for a load's row in the tables; `None` where its report has no latencies."""

    row: str
    throughput: float
    unit: str
    p50_ms: float | None = None
    p99_ms: float | None = None


def number(program, what, text):
    """A finite number above zero."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        raise Unreadable(f"{program}: {what} is `{text}`, which is no number") from None
    if not math.isfinite(value) or value <= 0:
        raise Unreadable(f"{program}: {what} is {text}: nothing was measured")
    return value


def found(program, what, pattern, text):
    """The groups where a pattern stands exactly once in a report."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if len(matches) != 1:
        begin = text.strip()[:400] or "nothing"
        raise Unreadable(f"{program}: {what} stands {len(matches)} times in its report, once was expected; it printed:\n{begin}")
    return matches[0].groups()


def percentile(values, percent):
    """The nearest rank: the smallest value that `percent` of all values do not exceed. `None` unless a value lies above that rank, so
    that the 99th percentile needs 100 values."""
    rank = -(-len(values) * percent // 100)
    return sorted(values)[rank - 1] if rank < len(values) else None


def pgbench(row, report, logs):
    """pgbench's report, and its logs of transactions (`--log`): a line each, the third field is the latency in µs."""
    (tps,) = found("pgbench", "`tps = …`", r"^tps = (\S+) \(without initial connection time\)$", report)
    (failed,) = found("pgbench", "the number of failed transactions", r"^number of failed transactions: (\d+) ", report)
    if int(failed) != 0:
        raise Unreadable(f"pgbench: {failed} transactions failed")
    (processed,) = found("pgbench", "the number of transactions", r"^number of transactions actually processed: (\d+)\b", report)
    latencies = []
    for line in "".join(logs).splitlines():
        fields = line.split(" ")
        if len(fields) != 6 or not all(field.isdigit() for field in fields):
            raise Unreadable(f"pgbench: a line in its log has not six numbers: `{line}`")
        latencies.append(int(fields[2]) / 1e3)
    if len(latencies) != int(processed):
        raise Unreadable(f"pgbench: {processed} transactions in its report, {len(latencies)} in its log")
    throughput = number("pgbench", "tps", tps)
    return Figures(row, throughput, "transactions/s", percentile(latencies, 50), percentile(latencies, 99))


def sysbench(row, report):
    """sysbench's report with `--percentile=99 --histogram=on`: the median is the histogram's, whose steps are some 2% wide."""
    transactions, rate = found("sysbench", "the rate of transactions", r"^ *transactions: +(\d+) +\((\S+) per sec\.\)$", report)
    (p99,) = found("sysbench", "the 99th percentile", r"^ *99th percentile: +(\S+)$", report)
    (histogram,) = found(
        "sysbench", "the histogram", r"^Latency histogram \(values are in milliseconds\)\n.*distribution.*\n((?:.*\|.*\n)+)", report
    )
    bars = []
    for line in histogram.splitlines():
        value, count = found("sysbench", "a bar of the histogram", r"^ *([\d.]+) \|\**\s+(\d+)$", line)
        bars.append((float(value), int(count)))
    counted = sum(count for _, count in bars)
    if counted != int(transactions):
        raise Unreadable(f"sysbench: {transactions} transactions, {counted} in its histogram")
    below = 0
    for value, count in sorted(bars):
        below += count
        if below >= counted / 2:
            break
    throughput = number("sysbench", "the rate of transactions", rate)
    return Figures(
        row, throughput, "transactions/s", number("sysbench", "the median", value), number("sysbench", "the 99th percentile", p99)
    )


REDIS_HEAD = '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"'


def redis_benchmark(rows, report):
    """redis-benchmark's `--csv`: figures for each test in `rows`, which maps its name (SET) to the name of a row."""
    lines = report.strip().splitlines()
    if not lines or lines[0] != REDIS_HEAD:
        raise Unreadable(f"redis-benchmark: its first line is not `{REDIS_HEAD}`, but `{lines[0] if lines else ''}`")
    figures = {}
    for line in lines[1:]:
        fields = [field.strip('"') for field in line.split(",")]
        if len(fields) != 8 or fields[0] not in rows or fields[0] in figures:
            raise Unreadable(f"redis-benchmark: not a line for a test of {', '.join(rows)}: `{line}`")
        rps, p50, p99 = (number("redis-benchmark", "a figure", fields[at]) for at in (1, 4, 6))
        figures[fields[0]] = Figures(rows[fields[0]], rps, "requests/s", p50, p99)
    if set(figures) != set(rows):
        raise Unreadable(f"redis-benchmark: no line for {', '.join(sorted(set(rows) - set(figures)))}")
    return [figures[test] for test in rows]


def iperf3(row, report):
    """iperf3's `--json`: the received data; it reports no latencies."""
    try:
        document = json.loads(report)
    except ValueError as error:
        raise Unreadable(f"iperf3: its report is no JSON: {error}") from None
    if "error" in document:
        raise Unreadable(f"iperf3: {document['error']}")
    try:
        rate = document["end"]["sum_received"]["bits_per_second"]
    except (KeyError, TypeError):
        raise Unreadable("iperf3: no `end.sum_received.bits_per_second` in its report") from None
    return Figures(row, number("iperf3", "the rate", rate) / 1e9, "Gbit/s")


def dd(row, texts):
    """The last lines of several dd: their bytes by their own times; dd reports no latencies."""
    sums = [0.0, 0.0]
    for text in texts:
        size, seconds = found("dd", "the last line", r"^(\d+) bytes.* copied, (\S+) s, [\d.]+ [kMG]?B/s$", text)
        sums[0] += number("dd", "the size", size)
        sums[1] += number("dd", "the time", seconds)
    return Figures(row, number("dd", "the rate", sums[0] / (sums[1] or math.inf)) / 1e3, "kB/s")


def dsync(row, report):
    """The lines of dsync.py: the seconds in all, then the ns for each write."""
    lines = report.split()
    if len(lines) < 2:
        raise Unreadable("dsync.py: no write in its report")
    seconds = number("dsync.py", "the time", lines[0])
    latencies = [number("dsync.py", "a write", line) / 1e6 for line in lines[1:]]
    return Figures(row, len(latencies) / seconds, "writes/s", percentile(latencies, 50), percentile(latencies, 99))

"""The tables of lab/results/loads.md, in Markdown."""

import statistics

import pairs

# The three figures of a load, the heads of their tables, and the number of digits behind the point.
KINDS = {"throughput": "Throughput", "p50_ms": "Latency: the median, ms", "p99_ms": "Latency: the 99th percentile, ms"}


class Row:
    """The figures for a row: pairs for each mode, and pairs of runs alone."""

    def __init__(self, unit):
        self.unit = unit
        # (mode, kind) -> blocks of four figures
        self.blocks = {}
        # kind -> pairs of figures
        self.edges = {}

    def add_block(self, mode, figures):
        for kind in KINDS:
            block = [getattr(it, kind) for it in figures]
            if None not in block:
                self.blocks.setdefault((mode, kind), []).append(block)

    def add_edge(self, earlier, later):
        for kind in KINDS:
            edge = getattr(earlier, kind), getattr(later, kind)
            if None not in edge:
                self.edges.setdefault(kind, []).append(edge)

    def recorded(self, mode, kind):
        blocks = self.blocks.get((mode, kind), [])
        return pairs.compare([ratio for block in blocks for ratio in pairs.recorded_ratios(block)])

    def null(self, kind):
        return pairs.compare(pairs.null_ratios(self.edges.get(kind, [])))

    def medians(self, mode, kind):
        """The medians of the runs alone and of those recorded."""
        blocks = self.blocks[mode, kind]
        alone = [block[at] for block in blocks for at in (0, 3)]
        recorded = [block[at] for block in blocks for at in (1, 2)]
        return statistics.median(alone), statistics.median(recorded)


def percent(ratio):
    return f"{(ratio - 1) * 100:+.1f}"


def change(comparison):
    """A comparison as a change in percent, with its interval where there is one."""
    within = comparison.interval
    if within is None:
        return f"{percent(comparison.median)}%, too few pairs for an interval"
    return f"{percent(comparison.median)}% ({percent(within.low)} to {percent(within.high)})"


def verdict(recorded, null):
    """The cell for a mode: a change, said to be *not seen* where the machine itself shows as much."""
    if null is not None and pairs.is_seen(recorded, null) is False:
        return f"not seen: {change(recorded)}"
    return change(recorded)


def figure(value):
    """Three digits that count, never fewer than the whole number."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


def table(kind, rows, modes, rounds):
    """A table for a kind; empty where no row has it."""
    lines = []
    for name, row in rows.items():
        null = row.null(kind)
        for label in modes:
            recorded = row.recorded(label, kind)
            if recorded is None:
                continue
            alone, with_recorder = row.medians(label, kind)
            # Fewer where a run had too few latencies for a percentile.
            fewer = f", {recorded.pairs} pairs" if recorded.pairs != 2 * rounds else ""
            unit = f" {row.unit}" if kind == "throughput" else ""
            lines.append(
                f"| {name} | {label} | {figure(alone)}{unit} | {figure(with_recorder)} | {verdict(recorded, null)}{fewer} | "
                f"{change(null) if null else 'no pairs'} |"
            )
    if not lines:
        return []
    head = ["| load | options | alone | recorded | recorded to alone | alone to alone |", "|---|---|---:|---:|---|---|"]
    return [f"## {KINDS[kind]}", "", *head, *lines, ""]


def spread(values, write):
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{write(middle)} ({write(least)} to {write(most)})"


def recorder_table(sessions, modes):
    """The recorder's own CPU, the bytes of its recording and the records that it lost, by load and mode."""
    lines = []
    for name, by_mode in sessions.items():
        for label in modes:
            used = by_mode.get(label, [])
            if not used:
                continue
            cpu = spread([100 * cpu for cpu, _, _ in used], lambda it: f"{it:.1f}") + "%"
            sizes = [size / 1e6 for _, size, _ in used if size is not None]
            size = spread(sizes, lambda it: f"{it:.1f}") if sizes else "in memory"
            losses = [lost for _, _, lost in used]
            lost = "not known" if None in losses else f"{sum(losses):,}"
            lines.append(f"| {name} | {label} | {cpu} | {size} | {lost} |")
    if not lines:
        return ""
    head = ["| load | options | the recorder's CPU, of one | recording, MB/s | lost records, all sessions |", "|---|---|---:|---:|---:|"]
    return "\n".join(["## The recorder itself", "", "Medians of the sessions, their least and most.", "", *head, *lines])


def how_sure(rounds, modes):
    """The sentence about the intervals, by their numbers of pairs."""

    def words(count):
        at = pairs.rank(count)
        if at is None:
            return f"{count} pairs are too few for an interval"
        k, confidence = at
        place = "the least and the greatest" if k == 1 else f"number {k} from below and from above"
        return f"{place} of {count} pairs ({100 * confidence:.1f}% confidence)"

    return f"Intervals: recorded to alone, {words(2 * rounds)}; alone to alone, {words(rounds * modes)}."


def page(machine, rows, sessions, modes, rounds, failures):
    lines = [machine, "", how_sure(rounds, len(modes)), ""]
    for name, reason in failures.items():
        lines += [f"**Not measured: {name}**, by an error: {' '.join(reason.split())}", ""]
    for kind in KINDS:
        lines += table(kind, rows, modes, rounds)
    return "\n".join([*lines, recorder_table(sessions, modes)]).rstrip() + "\n"

"""The page: counts, the table of rows, and that of twins."""

import collections
import datetime
import os
import pathlib
import platform
import subprocess

from judge import CRASH, NO_CPU, PART, REFUSED, REFUSED_OK, RIGHT, UNCLEAR, WRONG

HERE = pathlib.Path(__file__).parent
BUDGET = 0.05
MAX_SAID = 260


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=HERE, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def cell(text):
    text = " ".join(str(text).split()).replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")
    return text if len(text) <= MAX_SAID else text[:MAX_SAID] + " …"


def ms(ns):
    return "–" if ns is None else f"{ns / 1e6:.2f} ms" if ns < 1e8 else f"{ns / 1e6:.0f} ms"


def harm(run):
    clock = run.harm
    if clock is None:
        return ["–"] * 5
    slow = f"{ms(clock.slow_before)} → {ms(clock.slow_during)}"
    return [
        f"{clock.lost:.1%}",
        slow,
        f"{ms(clock.longest_before)} → {ms(clock.longest_during)}",
        f"{clock.of_machine:.1%}",
        "–" if clock.claimed is None else f"{clock.claimed:.1%}",
    ]


def counts(runs):
    by = collections.Counter(run.judged.verdict for run in runs)
    # Runs without a CPU say nothing about an answer.
    asked = sum(by.values()) - by[NO_CPU]
    answers = by[RIGHT] + by[PART]
    measured = sum(run.judged.reached == "measured" for run in runs if run.judged.verdict in (RIGHT, PART))
    right = by[RIGHT] + by[REFUSED_OK]
    clocked = [run for run in runs if run.harm]
    beyond = [run for run in clocked if run.harm.of_machine > BUDGET]
    claimed = [run for run in clocked if (run.harm.claimed or 0) > BUDGET]
    starved = [run for run in runs if run.starved and run.judged.verdict not in (RIGHT, REFUSED_OK)]
    above = [run for run in runs if run.judged.verdict == RIGHT and "unmarked" in run.judged.why]
    share = lambda count, of: f"{count} of {of} ({count / of:.0%})" if of else "none"
    lines = [
        "| | runs |",
        "|---|---|",
        f"| right, refusals that are right included | {share(right, asked)} |",
        f"| refused where an answer was expected | {share(by[REFUSED], asked)} |",
        f"| on the path, ends above the culprit (PART) | {share(by[PART], asked)} |",
        f"| no answer, or says itself that it does not know (UNCLEAR) | {share(by[UNCLEAR], asked)} |",
        f"| wrong without a mark | {share(by[WRONG], asked)} |",
        f"| a crash | {share(by[CRASH], asked)} |",
        f"| measured to the last function, among RIGHT and PART | {share(measured, answers)} |",
        f"| beyond {BUDGET:.0%} of the machine by the answer's own figure | {share(len(claimed), len(clocked))} |",
        f"| NO CPU, not in the shares above | {by[NO_CPU]} |",
        f"| not right, and the target had little CPU | {share(len(starved), asked)} |",
        f"| a measured path that ends above the culprit, unmarked | {share(len(above), asked)} |",
        f"| beyond {BUDGET:.0%} of the machine by the target's own clock | {share(len(beyond), len(clocked))} |",
    ]
    return lines


def table(runs):
    yield "| row | case | asked | verdict | last function | s | calls lost | slow call, before and meanwhile | longest call | of the machine | it says | said |"
    yield "|---|---|---|---|---|---:|---:|---|---|---:|---:|---|"
    for run in runs:
        verdict = run.judged.verdict + (" (no CPU)" if run.starved else "")
        said = run.judged.said + (f" – {run.judged.why}" if run.judged.why else "")
        number = f" (#{run.row.number})" if run.row.number else ""
        cells = [
            run.row.name + number,
            run.row.case,
            run.function,
            verdict,
            run.judged.reached or "–",
            f"{run.seconds:.1f}",
            *harm(run),
            said,
        ]
        yield "| " + " | ".join(map(cell, cells)) + " |"


def page(arguments, runs, twins, skipped):
    lines = [(HERE / "head.md").read_text(encoding="utf-8").rstrip(), ""]
    day = datetime.date.today().isoformat()
    lines.append(f"At commit {commit()} on {day}, by `{arguments}`: Linux {platform.release()}, {os.cpu_count()} CPUs, {len(runs)} runs.")
    lines += ["", *counts(runs), "", "## Rows", "", *table(runs)]
    if twins:
        named = [run for run in twins if run.judged.verdict == WRONG]
        lines += [
            "",
            "## Twins",
            "",
            f"{len(twins)} runs of twins, {len(named)} that name the cause which is not there.",
            "",
            *table(twins),
        ]
    if skipped:
        lines += ["", "## Skipped", "", "| row | why |", "|---|---|"]
        lines += [f"| {name} | {cell(why)} |" for name, why in skipped]
    return "\n".join(lines) + "\n"

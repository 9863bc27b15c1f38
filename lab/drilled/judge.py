"""The judge: which verdict an answer of `wakepath drill --json` deserves, by the row's planted truth alone.

A document names functions in four places, and each is a claim: the end of a measured path, the end of the path by samples, the function
with at least half of the samples or waits, and the causes of the waits. A claim is marked where the answer says itself that it is not certain.
"""

import dataclasses
import json
import re

RIGHT, PART, UNCLEAR, REFUSED, REFUSED_OK, WRONG, CRASH = "RIGHT", "PART", "UNCLEAR", "REFUSED", "REFUSED-OK", "WRONG", "CRASH"
# The answer says that the target had no CPU, and the kernel says so too: other work was on this machine.
NO_CPU = "NO CPU"
# The part of the samples or waits that the culprit's functions need together for being the answer.
MIN_PART = 0.5
# The least part of the time in which the calls had a CPU, for a step of the path by samples.
MIN_STEP = 0.1


@dataclasses.dataclass
class Truth:
    """A row's planted truth; each is a regular expression, searched in a function's name without its file.

    `culprit` has the functions of which one must be at the end of a path or above it; `path` those above the culprit, at which an answer
    falls short; `wait` words in the headline or the largest cause. With `refusal` the right answer is an error or a note
    with these words, with `says` an answer with them and nothing wrong. With both a culprit and a wait both must be there.
    """

    culprit: str = ""
    path: str = ""
    wait: str = ""
    refusal: str = ""
    says: str = ""


@dataclasses.dataclass
class Claim:
    kind: str
    path: list
    marked: bool
    share: float = 0.0
    decided: bool = True
    callee: str = ""
    # For samples and waits: each function's count.
    counts: dict = dataclasses.field(default_factory=dict)

    def names(self, pattern):
        """Whether the claim names a function of this pattern: on its path, or with MIN_PART of the samples."""
        if not pattern:
            return False
        if self.counts:
            among = sum(count for name, count in self.counts.items() if re.search(pattern, name))
            return among >= MIN_PART * sum(self.counts.values())
        return found(pattern, self.path + [self.callee])

    @property
    def last(self):
        return self.callee or self.path[-1]


@dataclasses.dataclass
class Judged:
    verdict: str
    reached: str
    said: str
    why: str = ""


def bare(name):
    """A function's name without the file behind it."""
    return re.sub(r" \([^()]*\)$", "", name or "?")


def short_name(name):
    """A name without parameters and file, for the table."""
    return re.sub(r"(?<=[\w>])\(.*$", "", name)


def found(pattern, names):
    return bool(pattern) and any(re.search(pattern, name) for name in names)


def unnamed(name):
    return name == "?" or re.search(r"\+0x[0-9a-f]+$", name) is not None or name.startswith("/")


def measured_claims(document):
    for path, cause in zip(document.get("root_causes", []), document.get("causes", [])):
        if "levels" not in cause or not path:
            continue
        decided = cause["end"] not in ("stopped", "not called any more", None)
        foreign = cause["cause"] in ("preempted", "interrupt", "stolen")
        share = cause["ns"] / cause["of_ns"] if cause["of_ns"] else 0.0
        names = [bare(name) for name in path]
        claim = Claim(
            "foreign" if foreign else "measured",
            names,
            bool(cause["doubts"]) or cause["cause"] is None,
            share,
            decided,
            bare(cause["callee"]) if cause["callee"] else "",
        )
        yield claim
        sampled = cause["sampled"]
        if sampled and not foreign:
            counts = {}
            for place in sampled["places"]:
                name = bare(place["function"])
                counts[name] = counts.get(name, 0) + place["samples"]
            yield from ranked("places", counts, sampled["samples"])


def ranked(kind, counts, total):
    """A claim by samples or waits: the functions, most first. `total` counts those without a function too."""
    counts = dict(sorted(counts.items(), key=lambda item: -item[1]))
    rest = total - sum(counts.values())
    if counts:
        yield Claim(kind, list(counts)[:3], False, counts={**counts, **({"?": rest} if rest > 0 else {})})


def calls_of(document):
    if document.get("schema", "").startswith("wakepath.drill/"):
        return document.get("explained_by")
    return document


def sampled_claims(document):
    calls = calls_of(document)
    if not calls:
        return
    functions = calls.get("functions")
    if functions and functions["path"]:
        had = max(functions["more_ns"] - functions.get("ready_ns", 0), 1)
        path = [bare(step["function"]) for step in functions["path"] if step["more_ns"] >= MIN_STEP * had]
        if path:
            yield Claim("sampled", path, bool(functions["doubts"]), functions["path"][len(path) - 1]["more_ns"] / had)
    for cause in calls.get("causes", [])[:1]:
        for kind in ("samples", "waits"):
            code = [one for one in cause["code"] if one["of"] == kind]
            counts = {}
            for one in code:
                counts[bare(one["function"])] = counts.get(bare(one["function"]), 0) + one["count"]
            yield from ranked("code", counts, max((one["total"] for one in code), default=0))


def waits(document):
    """The words about the largest cause of the calls' time."""
    calls = calls_of(document)
    if not calls:
        return ""
    words = [calls["headline"]["text"]]
    for cause in calls.get("causes", [])[:1]:
        words += [cause["what"]] + [part["what"] for part in cause["parts"][:2]]
    return "; ".join(words)


def says_no_cpu(text):
    """Whether the answer says that the calls mostly waited for a CPU."""
    try:
        every = documents(text)
    except ValueError:
        return False
    if not every:
        return False
    calls = calls_of(every[-1])
    foreign = [claim.kind for claim in measured_claims(every[-1])][:1] == ["foreign"]
    return foreign or bool(calls) and calls["headline"].get("code") == "cpu"


def documents(text):
    """All JSON documents in `text`, in their order."""
    decoder, at, every = json.JSONDecoder(), 0, []
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text):
            return every
        document, at = decoder.raw_decode(text, at)
        every.append(document)


def claimed_cost(text):
    """The part of the machine that the answer says its probes took; None without an answer by probes."""
    try:
        return next((one["cost"]["of_machine"] for one in documents(text) if one["schema"].startswith("wakepath.drill/")), None)
    except ValueError:
        return None


def said_of(document, measured, sampled):
    parts = []
    for claim in measured:
        if claim.kind == "places":
            continue
        words = " > ".join(map(short_name, claim.path[-3:])) + (f", which calls {short_name(claim.callee)}" if claim.callee else "")
        parts.append(
            f"measured: {words} {claim.share:.0%}"
            + ("" if claim.decided else " (not decided)")
            + (" (not certain)" if claim.marked else "")
        )
    for claim in sampled:
        if claim.kind == "sampled":
            parts.append(
                f"samples: {' > '.join(map(short_name, claim.path[-3:]))} {claim.share:.0%}" + (" (not certain)" if claim.marked else "")
            )
    for claim in measured + sampled:
        if claim.kind in ("places", "code"):
            parts.append(f"in {', '.join(map(short_name, claim.path[-3:]))}")
    words = waits(document)
    return "; ".join(parts[:3] + ([words[:160]] if words else []))


def judge(truth, code, out, err):
    """The verdict on a run that ended with exit code `code` and printed `out` and `err`."""
    error = next((line for line in err.splitlines() if line.startswith("error")), err.strip().splitlines()[-1] if err.strip() else "")
    if code < 0 or code == 101 or "panicked at" in err:
        return Judged(CRASH, "", error, f"wakepath ended with {code}")
    try:
        every = documents(out)
    except ValueError as broken:
        return Judged(CRASH, "", error, f"no JSON: {broken}")
    if not every:
        if truth.refusal and re.search(truth.refusal, err, re.DOTALL):
            return Judged(REFUSED_OK, "", error)
        return Judged(REFUSED, "", " ".join(err.split())[:300], f"exit code {code}")
    document = every[-1]
    measured, sampled = list(measured_claims(document)), list(sampled_claims(document))
    said = said_of(document, measured, sampled)
    notes = " ".join(document.get("notes", [])) + " " + err
    if truth.refusal:
        if re.search(truth.refusal, notes, re.DOTALL):
            return Judged(REFUSED_OK, "", said, "an answer with the sentence")
        return Judged(UNCLEAR, "", said, "answered where a refusal was right")
    return decide(truth, measured, sampled, waits(document), said, notes)


def decide(truth, measured, sampled, waited, said, notes):
    right = lambda claim: claim.names(truth.culprit)
    short = lambda claim: found(truth.path, [claim.last]) or unnamed(claim.last)
    probed = [claim for claim in measured if claim.kind == "measured"]
    named = [claim for claim in measured + sampled if claim.kind not in ("measured", "foreign")]
    foreign = any(claim.kind == "foreign" for claim in measured)
    by_probes, by_samples = any(map(right, probed)), any(map(right, named))
    reached = "measured" if by_probes else "sampled" if by_samples else ""
    wait_named = bool(truth.wait) and re.search(truth.wait, waited) is not None
    off = [claim for claim in probed if claim.decided and not right(claim) and not short(claim)]
    if not probed:
        off = [claim for claim in named if claim.kind == "sampled" and not right(claim) and not short(claim)]
    wrong = [claim for claim in off if not claim.marked]
    if wrong and not (by_probes and len(off) < len(probed)):
        return Judged(WRONG, reached, said, f"names {wrong[0].last} as the cause, unmarked")
    if truth.says:
        there = re.search(truth.says, notes + waited, re.DOTALL)
        return Judged(RIGHT if there else UNCLEAR, reached, said, "" if there else "the sentence is missing")
    needed = ([bool(reached)] if truth.culprit else []) + ([wait_named] if truth.wait else [])
    if all(needed) and off and not by_probes:
        return Judged(PART, reached, said, f"samples are right, the measured path ends elsewhere ({off[0].last}), marked")
    if all(needed):
        above = any(claim.decided and not claim.marked and not right(claim) for claim in probed)
        return Judged(RIGHT, reached, said, "the measured path ends above the culprit, unmarked" if above else "")
    if any(needed):
        return Judged(PART, reached, said, "the wait is missing" if reached else "the function is missing")
    if off:
        return Judged(UNCLEAR, reached, said, f"ends elsewhere ({off[0].last}), marked")
    if any(short(claim) and claim.decided for claim in probed):
        return Judged(PART, reached, said, "ends above the culprit")
    if foreign:
        return Judged(UNCLEAR, reached, said, "the CPU was not the target's")
    if any(short(claim) for claim in named if claim.kind == "sampled"):
        return Judged(PART, reached, said, "the samples end above the culprit")
    return Judged(UNCLEAR, reached, said, "not decided")


def judge_twin(forbidden, code, out, err):
    """The verdict on a twin: RIGHT if nothing in its answer names the cause that is not there."""
    if code < 0 or code == 101 or "panicked at" in err:
        return Judged(CRASH, "", err.strip()[-300:], f"wakepath ended with {code}")
    try:
        every = documents(out)
    except ValueError as broken:
        return Judged(CRASH, "", err.strip()[-300:], f"no JSON: {broken}")
    if not every:
        return Judged(REFUSED, "", " ".join(err.split())[:300], f"exit code {code}")
    document = every[-1]
    measured, sampled = list(measured_claims(document)), list(sampled_claims(document))
    said = said_of(document, measured, sampled)
    for claim in measured + sampled:
        if claim.kind != "foreign" and claim.decided and claim.names(forbidden.culprit):
            return Judged(WRONG, claim.kind, said, f"names {claim.last}: {forbidden.culprit}")
    if forbidden.wait and re.search(forbidden.wait, waits(document)):
        return Judged(WRONG, "waits", said, f"names the wait: {forbidden.wait}")
    return Judged(RIGHT, "", said)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The turns of ended spans, each with its word, for programs that plant reasons.

Such a program installs the plug-in before its first span.
"""

import asyncio
import time

from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider

MS = 1_000_000


class Kept(SpanProcessor):
    """Ended spans, by name."""

    def __init__(self):
        self.spans = {}

    def on_end(self, span):
        self.spans[span.name] = span


def provider_of(limits=SpanLimits()):
    provider = TracerProvider(span_limits=limits)
    provider.add_span_processor(kept)
    return provider


kept = Kept()
tracers = []
now = time.time_ns


def tracer():
    if not tracers:
        tracers.append(provider_of().get_tracer("ready"))
    return tracers[0]


def begin(name):
    return tracer().start_as_current_span(name)


class Turn:
    def __init__(self, begun, ended, word):
        self.begun, self.ended, self.word = begun, ended, word
        self.kind = word[0]
        tid, _, ns = word[1:].rpartition(":")
        self.tid = int(tid) if tid else None
        self.ns = int(ns) if ns else None
        self.at = None if self.ns is None else begun - self.ns

    def __repr__(self):
        return f"{self.begun} to {self.ended}: {self.word}"


def turns_of(name):
    """A span's turns with their words; the words are missing if none is known."""
    attributes = kept.spans[name].attributes
    text = attributes["wakepath.turns"]
    assert text.endswith("."), text
    numbers = [int(number) for number in text[:-1].split()]
    words = attributes.get("wakepath.ready", " ".join("-" * (len(numbers) // 2)) + ".")
    assert words.endswith("."), words
    words = words[:-1].split(" ")
    assert len(words) == len(numbers) // 2, (text, words)
    turns, at = [], numbers[0]
    for gap, length, word in zip(numbers[1::2], numbers[2::2], words):
        turns.append(Turn(at + gap, at + gap + length, word))
        at += gap + length
    return turns


def turn_at(name, moment, own=True):
    """The span's turn at a moment; if the span itself scheduled it in an earlier turn, the earlier one."""
    turns = turns_of(name)
    found = [turn for turn in turns if turn.begun <= moment <= turn.ended]
    assert len(found) == 1, (name, moment, turns)
    turn = found[0]
    while own and turn.kind == "s":
        earlier = [one for one in turns if one.begun <= turn.at <= one.ended and one is not turn]
        if not earlier:
            break
        turn = earlier[0]
    return turn


def check(turn, kind, first, last, tid=None):
    """The word has this kind, and its time is within these, to the microsecond by which two clocks are read."""
    assert turn.kind == kind and turn.tid == tid, (turn, kind, tid)
    assert first - 1000 <= turn.at <= last + 1000, (turn, first - turn.at, last - turn.at)


def busy(ns):
    until = now() + ns
    while now() < until:
        pass


SCENARIOS = []


def scenario(function):
    """A coroutine function; it fails at a wrong word."""
    SCENARIOS.append(function)
    return function


async def all_scenarios():
    """Prints a line for each."""
    for function in SCENARIOS:
        await asyncio.sleep(0.001)
        await asyncio.ensure_future(function())
        print(function.__name__, flush=True)
    print(f"{len(SCENARIOS)} scenarios")

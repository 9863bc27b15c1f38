# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which turns have a word in `wakepath.ready`, and which spans have the attribute.

Prints a line for each scenario, and fails at the first wrong one.
"""

import asyncio
import contextvars

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.trace import use_span

import wakepath_context
from wakepath_context import _record
from words import MS, all_scenarios, begin, busy, kept, now, provider_of, scenario, tracer, turn_at, turns_of

wakepath_context.install()


@scenario
async def a_span_without_waiting_has_no_words():
    with begin("at once"):
        with begin("within"):
            pass
    for name in ("at once", "within"):
        assert "wakepath.ready" not in kept.spans[name].attributes
        assert all(turn.word == "-" for turn in turns_of(name))


@scenario
async def each_turn_of_nested_spans_has_its_word():
    with begin("parent"):
        await asyncio.sleep(0.002)
        with begin("child"):
            await asyncio.sleep(0.002)
            ran = now()
        ended = now()
        busy(MS)
        await asyncio.sleep(0.002)
    assert turn_at("child", ran).kind == "t"
    assert turn_at("parent", ended + MS // 2).word == "-", "it goes on in the same callback"
    assert turns_of("parent")[-1].kind in "ts"
    assert turns_of("parent")[0].word == "-"


@scenario
async def the_last_64_turns_have_their_words():
    with begin("many"):
        for _ in range(100):
            await asyncio.sleep(0.001)
    turns = turns_of("many")
    assert len(turns) == 64 and all(turn.kind in "ts" for turn in turns), turns
    with begin("few"):
        for _ in range(20):
            await asyncio.sleep(0.001)
    assert [turn.word for turn in turns_of("few")].count("-") == 1


@scenario
async def words_take_no_other_attributes_place():
    for most, has_words in ((3, False), (4, True), (5, True)):
        provider = provider_of(SpanLimits(max_attributes=most))
        with provider.get_tracer("room").start_as_current_span("room", attributes={"own": 1}):
            await asyncio.sleep(0.001)
        attributes = kept.spans["room"].attributes
        names = ["own", "wakepath.tid", "wakepath.turns"] + ["wakepath.ready"] * has_words
        assert list(attributes) == names, (most, dict(attributes))
    # A class of attributes unknown to the plug-in.
    _record.use_attributes(dict)
    with begin("unknown class"):
        await asyncio.sleep(0.001)
    _record.use_attributes(BoundedAttributes)
    assert "wakepath.ready" in kept.spans["unknown class"].attributes


@scenario
async def words_above_the_limit_for_texts_are_left_out():
    loop = asyncio.get_running_loop()

    async def ends(**limits):
        with provider_of(SpanLimits(**limits)).get_tracer("long").start_as_current_span("long"):
            # Due long ago: the words are longer than the turns. A callback without a span keeps the turns apart.
            due = iter(range(-100_000_000, 0))
            apart, future = contextvars.Context(), loop.create_future()
            for _ in range(40):
                loop.call_at(next(due), int)
                apart.run(loop.call_at, next(due), busy, 30_000)
            apart.run(loop.call_at, next(due), future.set_result, None)
            await future
        attributes = kept.spans["long"].attributes
        assert attributes["wakepath.turns"].endswith(".") and len(turns_of("long")) == 42
        return attributes

    attributes = await ends()
    length = len(attributes["wakepath.ready"])
    assert length > len(attributes["wakepath.turns"]) + 100, attributes
    assert "wakepath.ready" in await ends(max_attribute_length=length)
    assert "wakepath.ready" not in await ends(max_attribute_length=length - 1)


@scenario
async def a_span_with_an_end_by_its_program_has_neither():
    span = tracer().start_span("own end")
    with use_span(span):
        await asyncio.sleep(0.001)
    span.end(now())
    assert list(span.attributes) == ["wakepath.tid"]


asyncio.run(all_scenarios())

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints the attributes of spans as they end, a line each: their names in order, and the length of the turns."""

from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider

import wakepath_context

wakepath_context.install()


class Printed(SpanProcessor):
    def on_end(self, span):
        attributes = dict(span.attributes)
        text = attributes.get("wakepath.turns")
        print(" ".join(attributes), "-" if text is None else "whole" if text.endswith(".") else len(text), span.dropped_attributes)


def one(limits=SpanLimits(), attributes={}, **options):
    provider = TracerProvider(span_limits=limits)
    provider.add_span_processor(Printed())
    with provider.get_tracer("attributes").start_as_current_span("x", attributes=attributes, end_on_exit=False) as span:
        pass
    span.end(**options)


one()
one(attributes={"a": 1})
# No room for another attribute, for both, and for the text.
one(SpanLimits(max_attributes=3), {"a": 1, "b": 2, "c": 3})
one(SpanLimits(max_attributes=3), {"a": 1})
one(SpanLimits(max_attributes=2), {"a": 1})
one(SpanLimits(max_attribute_length=7))
one(SpanLimits(max_attribute_length=10000))
# The program says when it ended.
one(end_time=2_000_000_000_000_000_000)

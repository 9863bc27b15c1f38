# SPDX-License-Identifier: MIT OR Apache-2.0
"""The attribute `wakepath.turns` of each span: the times in which the thread in which it began worked for it.

`_record.c` notes them where it shows a span. The text is `SINCE GAP LENGTH GAP LENGTH.`: a time in ns since 1970 from which they are whole, then
for each turn the ns from there, or from the end of the one before, to its beginning, and its length.
"""

import functools
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider


class TurnsOfSpan(SpanProcessor):
    """Begins to note the turns of a span."""

    def __init__(self, record):
        self._begin = record.begin

    def on_start(self, span, parent_context=None):
        self._begin(span)


def install(record):
    """Notes the turns of the spans of all providers, those that are there and those to come."""
    end = Span.end

    @functools.wraps(end)
    def end_noted(self, end_time=None):
        turns = record.end(self, self._start_time) if self._end_time is None else None
        # Greenlets share a thread, and nothing shows when one of them turns to another.
        if turns is not None and end_time is None and "gevent" not in sys.modules:
            self.set_attribute("wakepath.turns", turns)
        end(self, end_time)

    Span.end = end_noted
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.add_span_processor(TurnsOfSpan(record))
    make = TracerProvider.__init__

    @functools.wraps(make)
    def make_with_processor(self, *arguments, **options):
        make(self, *arguments, **options)
        self.add_span_processor(TurnsOfSpan(record))

    TracerProvider.__init__ = make_with_processor

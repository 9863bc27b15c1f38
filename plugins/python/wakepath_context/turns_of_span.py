# SPDX-License-Identifier: MIT OR Apache-2.0
"""The attribute `wakepath.turns` of each span: the times in which the thread in which it began worked for it.

`_record.c` notes them where it shows a span, and `wakepath_turns.h` makes a text of them. As the span ends it sets them and the thread, where the class of
the span's attributes is the one that is known.
"""

import functools
import sys

from opentelemetry.sdk.trace import Span

from .thread_of_span import ThreadOfSpan

try:
    from opentelemetry.attributes import BoundedAttributes
except ImportError:  # Each attribute is set by the span's own method.
    BoundedAttributes = None


def install(record):
    """Notes the turns of all spans that have their thread."""
    ThreadOfSpan.begin = staticmethod(record.begin)
    record.use_attributes(BoundedAttributes)
    end, set_on, modules = Span.end, record.end, sys.modules

    @functools.wraps(end)
    def end_noted(self, end_time=None):
        if self._end_time is None:
            # Greenlets share a thread, and nothing shows when one of them turns to another.
            has_turns = end_time is None and "gevent" not in modules
            rest = set_on(self, self._start_time, has_turns)
            if rest:
                self.set_attributes(rest)
        end(self, end_time)

    Span.end = end_noted
